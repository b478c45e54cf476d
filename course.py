"""Install, build, read and test the course, on every system, with nothing but Python.

    python course.py          installs, releases, builds the book, grades the sample class
    python course.py serve    serves the book
    python course.py --help   lists all commands

Everything is installed into .venv, which is created if it is missing. `make` has the same commands.
"""

import argparse
import ctypes.util
import importlib.util
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent
VENV = ROOT / ".venv"
BUILD = ROOT / "_build"
LEAST, LAST = (3, 11), (3, 14)
ADDRESS, PORT = "127.0.0.1", 8000
FIRST = {"install": 110, "release": 8, "book": 110, "sample": 15}
"""Seconds of each phase the first time, on two cores and a fast network. Later, each takes a
few.
"""
GIGABYTES = {"linux": 9, "darwin": 3, "win32": 3}
"""Disk space that the first run needs, by system: on Linux the standard torch includes CUDA's
libraries.
"""
ELSEWHERE = {
    "sample": "The sample class is not graded here: the grading sandbox needs Linux.",
    "test": "Tests of the engine need Linux. Here, each exercise is solved in a Jupyter kernel, "
    "as students do.",
}
"""Notices for systems other than Linux about what is skipped."""
CHROMIUM = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
UNPROTECTED = "the sample class is graded without a sandbox, and `grade` refuses other classes"
WITHOUT = {
    "Linux": "nothing is graded, and tests of the engine are skipped. Reading and solving work.",
    "Triton": "chapter 11's pages have no results, and its kernels' checks are pending. This "
    "system has no Triton.",
    "an NVIDIA GPU": "kernels run in Triton's interpreter, and checks of exercise 11 that need a "
    "GPU are pending.",
    "bubblewrap": f"{UNPROTECTED}. Debian and Ubuntu: apt install bubblewrap",
    "namespaces": f"{UNPROTECTED}. This kernel or container forbids them; `doctor`, once "
    "installed, says more.",
    "libseccomp": f"{UNPROTECTED}. Debian and Ubuntu: apt install libseccomp2",
    "Chromium": "no PDF, and `python course.py test` skips browser tests. Debian: apt install "
    "chromium",
}
"""What is skipped or different if something is missing."""
TESTS = {
    "test": ["-m", "not (long and slow)"],
    "test-fast": ["-m", "not slow and not browser"],
    "test-all": ["--dist", "worksteal"],
    "coverage": [
        *("-m", "not slow and not browser"),
        *("--cov", "--cov-report=term:skip-covered"),
    ],
}
TARGETS = {
    "course": "install, release the exercises, build the book, grade the sample class",
    "serve": f"serve the book at http://{ADDRESS}:{PORT}",
    "release": "verify and build the exercises: solutions/ -> exercises/",
    "book": "release, and build the book",
    "sample": "release, and make and grade the sample class",
    "pdf": "print the built book as a PDF in each language; needs Chromium",
    "test": "install the test dependencies and run the tests",
    "test-fast": "run only the quick tests: one or two minutes",
    "test-all": "run all tests, also the long ones",
    "test-exercise": "run the tests of one exercise: test-exercise 01-qkv",
    "coverage": "measure which lines of autograder/ the quick tests run",
    "lint": "check style, types, JavaScript and English; report what is not translated",
    "translations": "update locale/ from the English text, and list what to translate",
    "lists": "update the lists of chapters from book/NN-name/entries.md",
    "lock": "update requirements.txt and requirements-test.txt from pyproject.toml",
    "changes": "show the changes since the last release",
    "install": "install the dependencies for reading, solving, grading and building",
    "install-all": "also install those of the tests and linters",
}


class Refused(Exception):
    """A problem that stops the command, with its fix, in one line."""


# What each system can do: plain functions of the system, so that tests can ask for any.


def python_of(venv, system):
    """Return the path of a virtual environment's Python."""
    return venv / "Scripts" / "python.exe" if system == "win32" else venv / "bin" / "python"


def skipped(name, system):
    """Return a one-line notice if a phase or target is skipped on a system, or an empty string."""
    return "" if system.startswith("linux") else ELSEWHERE.get(name, "")


def refusal(version, system, root, has_venv, executable):
    """Return in one line why no environment can be created, with the fix, or an empty string."""
    if version[:2] < LEAST:
        needed = ".".join(map(str, LEAST))
        given = ".".join(map(str, version[:2]))
        return (
            f"This course needs Python {needed} or newer; {executable} is {given}. Install one, "
            f"and run this with it (with make: make course PYTHON=/path/to/python{needed})."
        )
    if not has_venv:
        running = ".".join(map(str, version[:2]))
        package = f"python{running}-venv"
        return f"Python's venv module is missing (Debian and Ubuntu: apt install {package})."
    separator = ";" if system == "win32" else ":"
    strange = [character for character in (separator, "?") if character in str(root)]
    if strange:
        return (
            f"{root} has {strange[0]!r} in its path, which Python's venv or SQLite cannot "
            "handle. Move the folder."
        )
    return ""


def looked_for(system, machine, has):
    """Return what a machine has and what it lacks, by the names of WITHOUT; `has(name)` looks
    for one.
    """
    if not system.startswith("linux"):
        return [], ["Linux", "Triton"]
    triton = machine in ("x86_64", "aarch64")  # it comes with what is installed
    names = ["bubblewrap", "namespaces", "libseccomp", "Chromium"]
    if triton:
        names.insert(0, "an NVIDIA GPU")
    if not has("bubblewrap"):
        names.remove("namespaces")
    present = [name for name in names if has(name)]
    lacking = [name for name in names if name not in present]
    return present, lacking if triton else ["Triton", *lacking]


def of_this_python(version, executable, venv_version):
    """Return in a line which Python is used: this one, or that of .venv (whose version is () if
    it is missing).
    """
    this = f"{'.'.join(map(str, version[:3]))} ({executable})"
    used, text = version, f"Python {this}"
    if venv_version:
        used, text = venv_version, f"Python {'.'.join(map(str, venv_version))} from .venv"
        if venv_version[:2] != version[:2]:
            text += f", not {this}: to change it, delete .venv"
    if used[:2] > LAST:
        text += f"; the newest tested version is {'.'.join(map(str, LAST))}, so this may not work"
    return f"{text}."


def about(seconds):
    """Return a number of seconds in words."""
    if seconds >= 90:
        return f"about {round(seconds / 60)} minutes"
    return f"about {max(1, round(seconds))} seconds"


# This machine.


def has(name):
    """Tell whether this machine has something, by the names of WITHOUT."""
    if name == "libseccomp":
        return bool(ctypes.util.find_library("seccomp"))
    if name == "Chromium":
        return any(map(shutil.which, CHROMIUM))
    if name == "bubblewrap":
        return bool(shutil.which("bwrap"))
    probe = {
        "an NVIDIA GPU": ["nvidia-smi", "--list-gpus"],
        "namespaces": ["bwrap", "--unshare-all", "--ro-bind", "/", "/", "true"],
    }[name]
    try:
        result = subprocess.run(
            probe, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=20
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return result.returncode == 0 and (name == "namespaces" or b"GPU" in result.stdout)


def python_of_venv():
    """Return the version of .venv's Python from its pyvenv.cfg, or () if it is missing."""
    try:
        config = (VENV / "pyvenv.cfg").read_text(encoding="utf-8")
    except OSError:
        return ()
    version = re.search(r"^version(?:_info)? *= *(\d+)\.(\d+)(?:\.(\d+))?", config, re.M)
    return tuple(int(part) for part in version.groups() if part) if version else ()


def print_machine():
    """Print what this machine has, and what is skipped because something is missing."""
    system, machine = sys.platform, platform.machine()
    free = shutil.disk_usage(str(ROOT)).free / 1e9
    needed = 0 if (VENV / ".installed").exists() else GIGABYTES.get(system, GIGABYTES["linux"])
    room = f"{free:.0f} GB free"
    if needed:
        room += f", and the first run needs about {needed}"
    if free <= needed:
        room += ": free some space first, or it may fail"
    print(f"{platform.system()} on {machine}, {room}.")
    print(of_this_python(sys.version_info, sys.executable, python_of_venv()))
    present, lacks = looked_for(system, machine, has)
    if present:
        print(f"Found: {', '.join(present)}.")
    for name in lacks:
        print(f"Without {name}: {WITHOUT[name]}")
    print(flush=True)


# Phases.


def python():
    """Return the path of the environment's Python."""
    return python_of(VENV, sys.platform)


def run(*command, failure):
    """Run the environment's Python in the course's folder; raise Refused if it fails."""
    environment = dict(os.environ, PIP_DISABLE_PIP_VERSION_CHECK="1")
    if sys.platform == "win32":
        # Not every console's encoding has all letters that are printed.
        environment["PYTHONUTF8"] = "1"
    status = subprocess.run(
        [str(python()), *map(str, command)], cwd=str(ROOT), env=environment
    ).returncode
    if status:
        raise Refused(f"{failure} (status {status}).")


def install(tests=False):
    """Create .venv and install the dependencies; with `tests`, also those of tests and linters."""
    files, stamp = ["requirements.txt"], VENV / ".installed"
    if tests:
        files, stamp = [*files, "requirements-test.txt"], VENV / ".installed-test"
    sources = [ROOT / name for name in (*files, "pyproject.toml")]
    if not python().exists():
        make_environment()
    elif python_of_venv() and python_of_venv()[:2] < LEAST:
        raise Refused(
            f"{VENV} has Python {'.'.join(map(str, python_of_venv()))}, but this course needs "
            f"{'.'.join(map(str, LEAST))} or newer. Delete that folder, and run this again with a "
            "newer Python."
        )
    elif stamp.exists():
        installed_at = stamp.stat().st_mtime
        if all(source.stat().st_mtime <= installed_at for source in sources):
            return
    pip = ("-m", "pip", "install")
    lists = [part for name in files for part in ("-r", name)]
    # Python compiles modules when it first imports them: far fewer than pip would compile now.
    quick = () if sys.dont_write_bytecode else ("--no-compile",)
    failure = "pip failed (see above). If the network is down, connect and run this again"
    run(*pip, *quick, *lists, failure=failure)
    itself = ("--quiet", "--no-deps", "--no-build-isolation", "--editable", ".")
    run(*pip, *itself, failure="pip could not install the course itself")
    stamp.touch()


def make_environment():
    """Create .venv completely, or not at all."""
    has_venv = all(importlib.util.find_spec(name) for name in ("venv", "ensurepip"))
    refused = refusal(sys.version_info, sys.platform, ROOT, has_venv, sys.executable)
    if not refused and VENV.exists():
        refused = (
            f"{VENV} has no {python().relative_to(VENV)}. Delete that folder, and run this again."
        )
    if refused:
        raise Refused(refused)
    message, status = "", 1
    try:
        result = subprocess.run(
            [sys.executable, "-m", "venv", str(VENV)], stderr=subprocess.PIPE, text=True
        )
        message, status = result.stderr.strip(), result.returncode
    finally:
        if status:
            shutil.rmtree(str(VENV), ignore_errors=True)
    if status:
        raise Refused(
            "Python's venv module could not make .venv: "
            f"{(message or 'no reason given').splitlines()[-1]}"
        )


def release():
    """Build exercises/; exercises without a valid verified.json are verified first."""
    run("-m", "autograder", "release", failure="The exercises were not released")


def book():
    """Build the book."""
    run("book/tools/build.py", failure="The book was not built")


def sample():
    """Make and grade the sample class; its gradebook belongs to one release, and the next one
    replaces it.
    """
    folder = BUILD / "sample"
    gradebook = folder / "gradebook.db"
    if gradebook.exists():
        made_at = gradebook.stat().st_mtime
        if any(path.stat().st_mtime > made_at for path in (ROOT / "exercises").rglob("*")):
            shutil.rmtree(str(folder))
    run("examples/make_class.py", failure="The sample class was not made")
    grade = ("grade", "--submitted", folder / "submitted", "--into", folder, "--fall-back")
    run("-m", "autograder", *grade, failure="The sample class was not graded")
    run("-m", "autograder", "report", "--into", folder, failure="The sample class has no report")


def serve():
    """Serve the built book until Ctrl-C."""
    if not (BUILD / "html" / "index.html").exists():
        raise Refused("The book is not built yet. Run: python course.py")
    print(f"The book: http://{ADDRESS}:{PORT} (stop with Ctrl-C)", flush=True)
    server = [sys.executable, "-m", "http.server", "--bind", ADDRESS]
    folder = ["--directory", str(BUILD / "html")]
    try:
        status = subprocess.run([*server, *folder, str(PORT)]).returncode
    except KeyboardInterrupt:
        return
    if status:
        raise Refused(
            f"The book is not served: another program may be using port {PORT}. Stop it first."
        )


def pytest(*options):
    """Run pytest with as many processes as conftest.py says, within what memory allows."""
    processes = ("-n", "logical", "--maxprocesses", "8")
    run("-m", "pytest", *processes, *options, failure="Not all tests passed")


def test_exercise(name):
    """Run the tests of one exercise."""
    if not name:
        raise Refused(
            "Name the exercise: python course.py test-exercise 01-qkv (make "
            "test-exercise NAME=01-qkv)"
        )
    known = sorted(
        text.stem for text in (ROOT / "solutions").glob("*/*.py") if text.stem == text.parent.name
    )
    if name not in known:
        raise Refused(f"There is no exercise {name}; there are: {', '.join(known) or 'none'}")
    files = [f"tests/solutions/test_{part}.py" for part in ("exercises", "labels")]
    files.append("tests/authoring/test_source.py")
    pytest("--dist", "load", "-q", "-m", "not (long and slow)", "-k", name, *files)


def lint():
    """Check style, types, JavaScript, English and translations."""
    for command in (
        ("-m", "ruff", "check", "."),
        ("-m", "ruff", "format", "--check", "."),
        ("-m", "mypy"),
        ("-c", "from importlinter.cli import lint_imports_command; lint_imports_command()"),
        ("book/tools/javascript.py",),
        (".ci/english.py",),
        (".ci/minutes.py",),
        ("book/tools/translations.py", "--check"),
    ):
        run(*command, failure=f"{' '.join(command)} found problems")


PHASES = {"install": install, "release": release, "book": book, "sample": sample}
STEPS = {
    "course": ("install", "release", "book", "sample"),
    "install": ("install",),
    "release": ("install", "release"),
    "book": ("install", "release", "book"),
    "sample": ("install", "release", "sample"),
}


def in_phases(target, system):
    """Run the phases of a target; print how long each takes the first time and, at the end, how
    long it took.

    If an earlier build of the book exists when its phase fails, the others continue. Return the
    failed phases.
    """
    took, failed = {}, []
    for phase in STEPS[target]:
        why = skipped(phase, system)
        print(why or f"{phase}: {about(FIRST[phase])} the first time", flush=True)
        if not why:
            begun = time.monotonic()
            try:
                PHASES[phase]()
            except Refused as reason:
                if phase != "book" or not (BUILD / "html" / "index.html").exists():
                    raise
                print(
                    f"{reason} The earlier build can still be read. Continuing.",
                    file=sys.stderr,
                    flush=True,
                )
                failed.append(phase)
            took[phase] = time.monotonic() - begun
    for phase, seconds in took.items():
        print(f"{phase:<8} {seconds:6.1f} s{', failed' if phase in failed else ''}")
    return failed


def main(arguments=None):
    """Run one target; return the exit status."""
    listed = "\n".join(f"  {name:<14} {description}" for name, description in TARGETS.items())
    parser = argparse.ArgumentParser(
        description="Install, build, read and test the course.",
        epilog=f"targets:\n{listed}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("target", nargs="?", default="course", choices=TARGETS, metavar="target")
    parser.add_argument("name", nargs="?", default="", help="an exercise, for test-exercise")
    options = parser.parse_args(arguments)
    try:
        do(options.target, options.name)
    except Refused as reason:
        print(reason, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(
            "\nInterrupted. Finished work is kept; run the same command again to continue.",
            file=sys.stderr,
        )
        return 130
    return 0


COMMANDS = {
    "pdf": ("The PDF was not printed", "book/tools/pdf.py"),
    "translations": ("The catalogs were not updated", "book/tools/translations.py"),
    "lists": ("The lists were not updated", "-m", "autograder", "lists"),
    "lock": ("The requirements were not updated", ".ci/lock.py"),
    "changes": (
        "The changes could not be shown",
        "-m",
        "towncrier",
        "build",
        "--draft",
        "--version",
        "next",
    ),
}
"""Targets that run one program, with what to say if it fails."""


def do(target, name=""):
    """Run a target."""
    if target == "serve":
        serve()
        return
    if target == "pdf" and not has("Chromium"):
        raise Refused(
            "The PDF is printed by Chromium, which is missing. Debian and Ubuntu: apt "
            "install chromium"
        )
    if target == "course" or not python().exists():
        print_machine()
    if target in STEPS:
        run_steps(target)
        return
    install(tests=target != "lists")
    if target in TESTS:
        run_tests(target)
    elif target == "test-exercise":
        test_exercise(name)
    elif target == "lint":
        lint()
    elif target in COMMANDS:
        message, *command = COMMANDS[target]
        run(*command, failure=message)


def run_steps(target):
    """Run a target's phases, and say how to open what they made."""
    failed = in_phases(target, sys.platform)
    if target == "course":
        state = "available" if failed else "built"
        print(
            f"\nThe book is {state}: run 'python course.py serve' (or make serve) "
            f"and open http://{ADDRESS}:{PORT}"
        )
        if not skipped("sample", sys.platform):
            print(
                "The sample class is graded: _build/sample/report.html has every student's "
                "feedback."
            )
    if failed:
        sys.stdout.flush()
        raise Refused(f"Failed: {', '.join(failed)} (see above).")


def run_tests(target):
    """Release the exercises and run tests; elsewhere than on Linux, solve the exercises as
    students do.
    """
    release()
    why = skipped("test", sys.platform)
    if why:
        print(why, flush=True)
        command = ("tests/helpers/student.py", "exercises", "solutions")
        run(*command, failure="Some exercises fail here")
    else:
        pytest(*TESTS[target])


if __name__ == "__main__":
    sys.exit(main())
