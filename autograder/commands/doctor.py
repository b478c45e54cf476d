"""What this machine has and lacks: each item with its purpose, or with how to fix it."""

import contextlib
import importlib.metadata
import importlib.util
import os
import platform
import re
import shutil
import sys
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from autograder.checking import machine
from autograder.course import imports
from autograder.course.config import CONFIG, ROOT, Course, Exercise, UserError
from autograder.course.watch_settings import WatchSettings

PACKAGE = "attention-by-hand"
PIN = re.compile(r"^([\w.-]+)==([\w.]+)", re.MULTILINE)
# The activity, the group of pyproject.toml that it needs, and the state when something is absent.
USES = (
    ("To read and solve", "", "missing"),
    ("To grade", "grade", "optional"),
    ("To build the book", "book", "optional"),
    ("To test", "test", "optional"),
)


@dataclass
class Finding:
    """One item: `state` is ok, missing (it is needed), unsafe (other users could read or change
    it) or optional (it is absent, but only some work needs it).
    """

    item: str
    state: str
    value: str
    note: str


def findings(root: Path = ROOT) -> list[Finding]:
    """Return all findings, the needed items first; `root` is the course's folder."""
    return [
        *_python(),
        *packages(),
        *_torch(root),
        _triton(),
        _compile(),
        _exercises(root),
        *_configuration(root),
        *_packages_of_course(root),
        _writable(root),
        *_shared(root),
        *_tools(),
        _isolation(),
    ]


def _python() -> Iterator[Finding]:
    version = platform.python_version()
    good = sys.version_info >= (3, 11)
    note = "" if good else "Install Python 3.11 or newer."
    if sys.version_info >= (3, 15):
        note = "newer than 3.14, the last version that the course is tested with"
    yield Finding("Python", "ok" if good else "missing", version, note)
    if sys.platform == "linux":
        yield Finding("System", "ok", platform.system(), "reading, solving, checking and grading")
    else:
        yield Finding(
            "System", "ok", platform.system(), "reading, solving and checking; `grade` needs Linux"
        )


def packages() -> Iterator[Finding]:
    """Yield the packages in pyproject.toml that each use lacks, and how to install them."""
    locks = sorted(ROOT.glob("requirements*.txt"))
    tested = dict(PIN.findall("\n".join(lock.read_text(encoding="utf-8") for lock in locks)))
    for use, group, state in USES:
        absent, other, required = [], [], _requirements(group)
        for requirement in required:
            name = requirement.name
            try:
                # Locks have no local part, such as the +cpu of torch.
                version = importlib.metadata.version(name).partition("+")[0]
            except importlib.metadata.PackageNotFoundError:
                absent.append(name)
                continue
            # A pre-release that someone installed counts as its version.
            if not requirement.specifier.contains(version, prereleases=True):
                absent.append(f"{name}{requirement.specifier} (found {version})")
            elif (pinned := tested.get(canonicalize_name(name), version)) != version:
                other.append(f"{name} {version} instead of {pinned}")
        if absent:
            source = f".[{group}]" if group else "."
            everything = "for everything: python course.py install-all"
            fix = f'in the course folder: python -m pip install "{source}" ({everything})'
            yield Finding(use, state, f"without {', '.join(absent)}", fix)
        elif other:
            listed = "; ".join(other[:3]) + (" and more" if len(other) > 3 else "")
            yield Finding(
                use,
                "ok",
                f"{len(required)} packages; {listed}",
                "python course.py install-all installs the tested versions",
            )
        else:
            yield Finding(use, "ok", f"{len(required)} packages", "as tested" if tested else "")


def needs(group: str) -> list[str]:
    """Return the packages that a group adds here; the empty group is what a student needs."""
    return [requirement.name for requirement in _requirements(group)]


def _requirements(group: str) -> list[Requirement]:
    """Return what a group requires on this system; the empty group is what a student needs."""
    path = ROOT / "pyproject.toml"
    if path.exists():
        project = tomllib.loads(path.read_text(encoding="utf-8"))["project"]
        lines = project["optional-dependencies"][group] if group else project["dependencies"]
    else:  # installed without a checkout
        lines = [
            line
            for line in importlib.metadata.requires(PACKAGE) or ()
            if group in line or "extra" not in line
        ]
    requirements = []
    for requirement in map(Requirement, lines):
        applies = requirement.marker is None or requirement.marker.evaluate({"extra": group})
        # A group may name other groups, as attention-by-hand[grade]: those are not its own.
        if applies and requirement.name != PACKAGE:
            requirements.append(requirement)
    # Without a checkout, `lines` also has what a student needs.
    if group and not path.exists():
        basis = needs("")
        requirements = [
            requirement for requirement in requirements if requirement.name not in basis
        ]
    return requirements


def _torch(root: Path = ROOT) -> Iterator[Finding]:
    """Yield whether torch is here, and whether it finds a GPU."""
    try:
        import torch
    except ImportError:
        yield Finding("torch", "missing", "not installed", "python course.py install")
        return
    yield Finding("torch", "ok", str(torch.__version__), "")
    if torch.cuda.is_available():
        bf16 = "bf16" if torch.cuda.is_bf16_supported() else "no bf16"
        text = f"{torch.cuda.get_device_name()}, {bf16}"
        yield Finding("GPU", "ok", text, "`grade --pending` settles pending points that need a GPU")
        return
    notes = missing_gpu(Course(root).released())
    yield Finding(
        "GPU",
        "optional" if notes else "ok",
        "none",
        " ".join(notes) or "no exercise here needs a GPU",
    )


def missing_gpu(exercises: Iterable[Exercise]) -> list[str]:
    """Return a sentence for each exercise that needs a GPU, if this machine has none that torch
    can use.
    """
    needing = [exercise for exercise in exercises if exercise.settings.gpu]
    if not needing:
        return []
    import torch  # takes a second: imported only where an exercise needs a GPU

    if torch.cuda.is_available():
        return []
    return [
        f"{exercise.name} needs a GPU{_for_what(exercise)}, but torch finds none here. Those "
        "checks are not verified, and their points are pending until `grade --pending` runs on a "
        "machine with a GPU."
        for exercise in needing
    ]


def _for_what(exercise: Exercise) -> str:
    """Return for how many checks an exercise needs a GPU."""
    asked = sum(what in ("gpu", "bf16") for what in exercise.wants)
    return f" for {asked} check{'' if asked == 1 else 's'}" if asked else ""


def _triton() -> Finding:
    """Return whether Triton kernels run here, how they run, and whether they can be checked."""
    # Without importing it, which takes a second.
    if importlib.util.find_spec("triton") is None:
        note = (
            "checks of kernels are not verified, and their points are pending; Triton runs "
            "only on Linux"
        )
        return Finding("Triton", "optional", "not installed", note)
    version = importlib.metadata.version("triton")
    if reason := machine.fails("triton"):
        return Finding(
            "Triton",
            "optional",
            f"{version}, not usable",
            f"{reason}; points for kernels are pending",
        )
    native = machine.has("gpu")
    how = "natively, on the GPU" if native else "in its interpreter, on the CPU"
    if native and (reason := machine.fails("bf16")):
        how += f", but not in bfloat16: {reason}"
    return Finding("Triton", "ok", version, f"kernels run {how}, and can be traced")


def _compile() -> Finding:
    """Return whether torch compiles a layer here."""
    if reason := machine.fails("compile"):
        note = f"{reason}; points that need it are pending"
        return Finding("torch.compile", "optional", "not usable", note)
    return Finding("torch.compile", "ok", "found", "compiles a layer")


def _exercises(root: Path) -> Finding:
    # Without its archive, an exercise cannot be graded: `checks.py` imports from there.
    names = [exercise.name for exercise in Course(root).released() if exercise.archive.exists()]
    if names:
        return Finding("Exercises", "ok", ", ".join(names), "released")
    return Finding("Exercises", "missing", "none", "python -m autograder release")


def _configuration(root: Path) -> Iterator[Finding]:
    """Yield what is wrong with the course's configuration, if it has one."""
    try:
        if (root / CONFIG).exists():
            WatchSettings.configured(Course(root).config)
    except UserError as error:
        yield Finding("Configuration", "missing", f"an error in {CONFIG}", str(error))


def _packages_of_course(root: Path) -> Iterator[Finding]:
    """Yield whether the packages are here that this course adds for its notebooks, if it adds
    any.
    """
    course = Course(root)
    own = [name for exercise in course.released() for name in exercise.settings.packages]
    with contextlib.suppress(UserError):  # `_configuration` reports it
        own += course.packages
    names = sorted(set(own))
    absent = [name for name in names if not imports.is_installed(name)]
    if absent:
        fix = (
            f"{Path(sys.executable)} -m pip install {' '.join(absent)} (or take them off "
            "`packages`)"
        )
        yield Finding("Packages of the course", "missing", f"without {', '.join(absent)}", fix)
    elif names:
        note = "notebooks may import them; `grade` loads them in advance"
        yield Finding("Packages of the course", "ok", ", ".join(names), note)


def _writable(root: Path) -> Finding:
    if os.access(root, os.W_OK):
        free = shutil.disk_usage(root).free / 1e9
        return Finding(
            "Course folder", "ok", f"writable, {free:.0f} GB free", "gradebook, feedback, builds"
        )
    return Finding(
        "Course folder",
        "missing",
        "read-only",
        f"make {root} writable, or grade elsewhere with --into",
    )


def _shared(root: Path) -> Iterator[Finding]:
    """Yield what other users could read or change, if students are users of this machine."""
    course = Course(root)
    with contextlib.suppress(UserError):  # `_configuration` reports it
        if sys.platform != "linux" or course.exchange is None:
            return
        from autograder.exchange import permissions

        faults = list(permissions.problems(course))
        for fault in faults:
            yield Finding("Shared machine", "unsafe", f"{fault.path}: {fault.risk}", fault.fix)
        if not faults:
            note = "homes, exchange, gradebook and submissions are closed to other users"
            yield Finding("Shared machine", "ok", str(course.exchange), note)


def _tools() -> Iterator[Finding]:
    for name, names, purpose in (
        ("make", ("make",), "optional: short names for `python course.py`"),
        ("Chromium", ("chromium", "chromium-browser", "google-chrome"), "the browser tests"),
        ("git", ("git",), "changing the course"),
    ):
        found = next((path for path in map(shutil.which, names) if path), None)
        yield Finding(name, "ok" if found else "optional", found or "not found", purpose)


def _isolation() -> Finding:
    try:
        from autograder.sandbox import bubblewrap as sandbox
    except ImportError as error:
        return Finding(
            "Isolation",
            "optional",
            "unknown",
            f"`grade` needs {error.name}, which is not installed",
        )
    lacks = sandbox.missing()
    if not lacks:
        return Finding(
            "Isolation", "ok", "bubblewrap, seccomp", "`grade` runs submissions in a sandbox"
        )
    note = (
        "; ".join(lacks) + ". `grade` stops without isolation (--no-sandbox continues at your "
        "own risk)"
    )
    return Finding("Isolation", "optional", "none", note)
