"""The command line of bubblewrap: what a sandbox sees of this machine, and what this machine
lacks for one.
"""

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

PROGRAM = Path(__file__).parent / "inside"
SHARED = Path(__file__).parent.parent / "checking" / "shared_with_guest.py"
"""All of our files that a sandbox has: the guest's program, and the one file of the checks' runtime
that it uses.
"""
ROOT = "/guest"
"""The folder of the guest's program there, with the same layout as `autograder` here."""
NOBODY = "65534"
TEMPORARY = "/tmp"  # noqa: S108 (where programs look for it; within a sandbox it is that sandbox's own)
EVERYWHERE = {
    "MPLBACKEND": "module://matplotlib_inline.backend_inline",
    **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"),
}
"""Environment variables of guests, isolated or not: figures go into the notebook, and a guest
uses one core.
"""
WITHOUT_GPU = {"TRITON_INTERPRET": "1"}
"""More variables for guests without a GPU: kernels are interpreted.

Triton reads this when it is imported.
"""
WITH_GPU = {"PYTORCH_NVML_BASED_CUDA_CHECK": "1"}
"""More variables for guests with a GPU: asking for it does not start CUDA, which would not
survive a fork.
"""
KERNELS = {"TRITON_CACHE_DIR": "/scratch/.triton", "CUDA_CACHE_PATH": "/scratch/.nv"}
"""The folders for kernels that a guest in a sandbox compiles: they disappear with it."""
PROBE_SECONDS = 60
OPENED = (
    "this is a container, so start it with docker run --security-opt seccomp=unconfined "
    "--security-opt apparmor=unconfined --security-opt systempaths=unconfined"
)
"""Permissions that a container needs for a sandbox: to make namespaces, mount in them, and mount
their /proc.
"""


def python(root: str = ROOT) -> list[str]:
    """Return how Python starts in the guest's program below `root`; a function's name follows,
    as in start.py.
    """
    return [sys.executable, "-s", f"{root}/sandbox/inside/start.py"]


def missing() -> list[str]:
    """Return what this machine lacks for the sandbox, each with its fix; an empty list if
    nothing.
    """
    if sys.platform != "linux":
        return ["grading in a sandbox needs Linux"]
    lacks = []
    if not shutil.which("bwrap"):
        lacks.append("bubblewrap is not installed (Debian and Ubuntu: apt install bubblewrap)")
    if os.getuid() == 0 and not shutil.which("setpriv"):
        lacks.append("setpriv is not installed (Debian and Ubuntu: apt install util-linux)")
    try:
        import pyseccomp  # noqa: F401
    except (ImportError, RuntimeError, OSError):
        lacks.append("libseccomp is not installed (Debian and Ubuntu: apt install libseccomp2)")
    if lacks:
        return lacks
    with tempfile.TemporaryDirectory() as folder:
        probe = command([*python(), "linux.probe"], [folder])
        try:
            run = subprocess.run(probe, capture_output=True, text=True, timeout=PROBE_SECONDS)
        except subprocess.TimeoutExpired:
            return [f"the sandbox did not start in {PROBE_SECONDS:g} seconds; is the machine busy?"]
    if run.returncode:
        lines = run.stderr.strip().splitlines() or ["namespaces inside bubblewrap are refused"]
        for_container = f"{OPENED}, and on the machine below it " if in_container() else ""
        lacks.append(
            f"the kernel refuses namespaces to this user ({lines[-1]}); {for_container}"
            "allow them with sysctl kernel.unprivileged_userns_clone=1 "
            "user.max_user_namespaces=15000, and on Ubuntu "
            "kernel.apparmor_restrict_unprivileged_userns=0"
        )
    return lacks


def in_container() -> bool:
    """Tell whether this is a container, as far as those who make them say so."""
    marks = any(Path(name).exists() for name in ("/.dockerenv", "/run/.containerenv"))
    return marks or any(os.environ.get(name) for name in ("container", "KUBERNETES_SERVICE_HOST"))


def _paths() -> list[Path]:
    """Return the folders that a guest may read: the system, and this Python with its packages."""
    packages = [sysconfig.get_paths()[name] for name in ("purelib", "platlib")]
    paths = {Path("/usr"), Path(sys.base_prefix), Path(sys.prefix), *map(Path, packages)}
    outermost = [path for path in paths if paths.isdisjoint(path.parents)]
    return sorted(outermost, key=lambda path: (path != Path("/usr"), path))


def environment(gpu: bool) -> dict[str, str]:
    """Return what guests find in their environment, isolated or not; `gpu` tells whether they
    may use one.
    """
    return {**EVERYWHERE, **(WITH_GPU if gpu else WITHOUT_GPU)}


def driver_folders() -> list[str]:
    """Return the folders with a GPU's driver that nothing but LD_LIBRARY_PATH names, as images
    of containers do.
    """
    names = os.environ.get("LD_LIBRARY_PATH", "").split(":")
    folders = [Path(name) for name in names if name.startswith("/")]
    return [str(folder) for folder in folders if (folder / "libcuda.so.1").exists()]


def _system(gpu: bool = False) -> list[str]:
    """Return bubblewrap's arguments for a read-only view of the system, of this Python, and of a
    GPU where asked.
    """
    binds = []
    for name in ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"):
        if Path(name).is_symlink():
            binds += ["--symlink", str(Path(name).readlink()), name]
        elif Path(name).is_dir():
            binds += ["--ro-bind", name, name]
    for path in _paths():
        binds += ["--ro-bind", str(path), str(path)]
    for name in (
        "ld.so.cache",
        "ld.so.conf",
        "ld.so.conf.d",
        "alternatives",
        "fonts",
        "localtime",
        "nsswitch.conf",
    ):
        binds += ["--ro-bind-try", f"/etc/{name}", f"/etc/{name}"]
    # CUDA finds a device on its bus; what else it reads of the driver is in /proc, which a guest
    # has anyway.
    devices = ["/sys/devices/system/cpu"]
    if gpu:
        devices = ["/sys/bus/pci", "/sys/devices", *driver_folders()]
    for name in devices:
        binds += ["--ro-bind-try", name, name]
    return binds


def command(program: Sequence[str], hidden: Iterable[str], gpu: bool = False) -> list[str]:
    """Return the command of `program` in its sandbox: a read-only system, no network, nothing of
    what is `hidden`.

    With `gpu`, it may use this machine's. As root, the same sandbox is entered as nobody, because
    no limit on processes binds root.
    """
    paths = _paths()
    # Only what is below a visible folder needs to be covered.
    folders = [Path(name).resolve() for name in hidden]
    covered = [str(folder) for folder in folders if not set(paths).isdisjoint(folder.parents)]
    devices = [str(device) for device in sorted(Path("/dev").glob("nvidia*"))] if gpu else []
    # bubblewrap takes these in order: what covers a folder comes after what shows it.
    inner = [
        "bwrap", "--unshare-all", "--die-with-parent", "--new-session", "--clearenv", "--hostname",
        "guest",
        *_system(gpu), *(part for name in covered for part in ("--tmpfs", name)),
        "--ro-bind", str(PROGRAM), f"{ROOT}/sandbox/inside",
        "--ro-bind", str(SHARED), f"{ROOT}/checking/{SHARED.name}",
        "--proc", "/proc", "--dev", "/dev",
        *(part for name in devices for part in ("--dev-bind-try", name, name)),
        "--tmpfs", "/scratch", "--dir", "/scratch/.tmp", "--chdir", "/scratch", *_environment(gpu),
    ]  # fmt: skip
    # If this Python is below /tmp, it is bound there, and a link cannot have that name.
    if not any(path.is_relative_to(TEMPORARY) for path in paths):
        inner += ["--symlink", "scratch/.tmp", TEMPORARY]
    # otherwise one guest could leave something there for the next
    inner += ["--remount-ro", "/dev", "--remount-ro", "/"]
    if os.getuid():
        return [*inner, *program]
    return as_nobody([*inner, *program], read=[PROGRAM, SHARED], gpu=gpu)


def as_nobody(
    command: Sequence[str], read: Iterable[Path] = (), write: Iterable[Path] = (), gpu: bool = False
) -> list[str]:
    """Return a command that root runs as nobody, with a view of the system, of this Python, and
    of these folders.
    """
    binds = [
        *_system(gpu),
        *(part for path in read for part in ("--ro-bind", str(path), str(path))),
    ]
    binds += [part for path in write for part in ("--bind", str(path), str(path))]
    parents = [TEMPORARY]  # where the inner bubblewrap puts its new root together
    for path in (name for name in binds if name.startswith("/")):
        for parent in reversed(Path(path).parents):
            if str(parent) not in ("/", "/usr", *parents):
                parents.append(str(parent))
    return [
        "bwrap", "--die-with-parent",
        *(part for name in parents for part in ("--perms", "0755", "--dir", name)),
        *binds, "--dev-bind", "/dev", "/dev", "--bind", "/proc", "/proc",
        "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID",
        "setpriv", "--reuid", NOBODY, "--regid", NOBODY, "--clear-groups", "--inh-caps=-all", "--",
        *command,
    ]  # fmt: skip


def _environment(gpu: bool) -> list[str]:
    """Return bubblewrap's arguments for the environment of all that runs inside."""
    folders = driver_folders() if gpu else []
    variables = {
        "PATH": f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin",
        "HOME": "/scratch",
        "USER": "student",
        "LANG": "C.UTF-8",
        "TZ": os.environ.get("TZ", "UTC"),
        # Sets of texts have the same order in each run then.
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
        **environment(gpu),
        **(KERNELS if gpu else {}),
        **({"LD_LIBRARY_PATH": ":".join(folders)} if folders else {}),
    }
    return [part for name, value in variables.items() for part in ("--setenv", name, value)]
