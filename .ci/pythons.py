"""Try the course with the other Pythons of this machine, as newcomers and as students do.

    .venv/bin/python .ci/pythons.py [--list] [TURN]

The newest Python runs `python course.py` in a fresh clone, with LANG=C, in a folder with an odd
name. Each Python except .venv's solves the exercises, as tests/helpers/student.py does: one that is
old enough with the least versions that pyproject.toml allows (.venv's, if no other is), the others
with the newest that pip finds. For a Python that is promised and not on this machine, each pin
needs a wheel. Each part has its own folder, up to 10 GB, until it ends. For a part that fails, the
end of its log is printed, and the status is 1. With the number of a turn, each of the long parts
runs in one of twelve.
"""

import os
import re
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
OLD = "3.12"  # the last Python for which NumPy 2.0 has wheels
PURE = ("jieba",)  # has no wheel, and nothing to compile
ODD = "Kurs & Übung 注意力"  # a folder with spaces, a sign of the shell, and letters beyond ASCII
SHOWN = 60  # lines of the log of what failed
# Debian's Python without its venv package lacks `ensurepip`.
MAKES_ENVIRONMENTS = "import ensurepip, sys, venv; print('%d.%d.%d' % sys.version_info[:3])"


def promised():
    """Return the Pythons that pyproject.toml promises, such as "3.11", the oldest first."""
    versions = [
        line.rpartition(" ")[2] for line in PROJECT["classifiers"] if "Python :: 3." in line
    ]
    return sorted(versions, key=numbers)


def numbers(version):
    """Return the numbers of a version, to compare."""
    return [int(part) for part in re.findall(r"\d+", version)]


def pythons(folders):
    """Return the first Python in these folders that runs, of each promised version: paths by
    version.

    One that is there and does not run (a pyenv shim of a version that is not active, a Debian
    Python without venv) is none.
    """
    paths = {}
    for version in promised():
        for path in (Path(folder) / f"python{version}" for folder in folders):
            if path.exists() and version not in paths:
                result = subprocess.run(
                    [path, "-c", MAKES_ENVIRONMENTS], capture_output=True, text=True, cwd="/"
                )
                if result.returncode == 0 and result.stdout.startswith(f"{version}."):
                    paths[version] = path
    return paths


def folders_of_pythons():
    """Return the folders that may have Pythons: those of PATH, and pyenv's."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    of_pyenv = sorted(
        pyenv.glob("versions/*/bin"), key=lambda path: numbers(path.parent.name), reverse=True
    )
    return [*filter(os.path.isabs, os.environ.get("PATH", "").split(os.pathsep)), *of_pyenv]


def least():
    """Return the least versions that pyproject.toml allows of what students install, as pip's
    constraints.
    """
    pins = [re.match(r"([\w.-]+)>=([\d.]+)$", line) for line in PROJECT["dependencies"]]
    if not all(pins):
        sys.exit("pyproject.toml: each of `dependencies` needs a least version, such as numpy>=2")
    return [f"{name}=={version}" for name, version in (match.groups() for match in pins)]


def run(name, folder, *commands, **variables):
    """Run commands in a folder, one after another; print how long it took, or what failed.

    Return whether all of them passed. No command runs after one that failed.
    """
    begun, log = time.monotonic(), folder / "log"
    # Another Python would import what these name for this one.
    environment = {
        key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV")
    }
    options = {"cwd": folder, "env": environment | variables, "stderr": subprocess.STDOUT}
    with log.open("w", encoding="utf-8") as out:
        # lazily: `all` ends at the first command that fails
        results = (subprocess.run(command, stdout=out, **options) for command in commands)
        passed = all(result.returncode == 0 for result in results)
    took = (time.monotonic() - begun) / 60
    print(f"{name}: {'fine' if passed else 'FAILED'} after {took:.1f} minutes", flush=True)
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    if passed:  # the line with the versions that tests/helpers/student.py prints
        shown = [line for line in lines if re.match(r"\w+ \w+, Python 3", line)]
    else:
        shown = lines[-SHOWN:]
    for line in shown:
        print(f"    {line}", flush=True)
    return passed


def clone(folder, name="course"):
    """Return the command that makes a fresh clone in a folder."""
    return ["git", "clone", "--quiet", str(ROOT), str(folder / name)]


def as_newcomer(python, folder):
    """Run `python course.py` from nothing, where names are not plain."""
    # The folder to run in does not exist yet, so a shell goes there.
    script = ["-c", 'cd "$1" && exec "$0" course.py', str(python), ODD]
    commands = (clone(folder, ODD), ["sh", *script])
    return run(f"python course.py with {python}", folder, *commands, LANG="C", LC_ALL="C")


def as_student(python, constraints, versions, folder):
    """Solve the exercises with what students install, in an environment of its own."""
    (folder / "constraints.txt").write_text("\n".join(constraints), encoding="utf-8")
    venv_python = str(folder / "venv" / "bin" / "python")
    pip = [venv_python, "-m", "pip", "install", "--quiet", "--constraint", "constraints.txt"]
    return run(
        f"the exercises with {python}, {versions}",
        folder,
        clone(folder),
        # released by .venv's Python: students don't have what that needs
        ["sh", "-c", 'cd course && exec "$0" -m autograder release', sys.executable],
        [str(python), "-m", "venv", "venv"],
        [*pip, *PROJECT["dependencies"]],
        [venv_python, "course/tests/helpers/student.py", "course/exercises", "course/solutions"],
    )


def as_promised(version, folder):
    """See that each pin has a wheel for a Python that is not here."""
    options = ["--quiet", "--dry-run", "--ignore-installed", "--no-deps"]
    options += ["--python-version", version]
    wheels = ["--only-binary=:all:", f"--no-binary={','.join(PURE)}", "--target", "none"]
    pins = ["--requirement", str(ROOT / "requirements.txt")]
    return run(
        f"wheels for Python {version}",
        folder,
        [sys.executable, "-m", "pip", "install", *options, *wheels, *pins],
    )


def parts(pythons_here, venv_version, turn=None):
    """Return what is to be tried, functions with their arguments: given Pythons by version, and
    .venv's version.

    Given the number of a `turn`, leave out the long parts whose turn it is not.
    """
    versions = sorted(pythons_here, key=numbers)
    others = {version: pythons_here[version] for version in versions if version != venv_version}
    old = [version for version in others if numbers(version) <= numbers(OLD)]
    with_least = old[0] if old and len(others) > 1 else venv_version
    newest = [(as_newcomer, path) for path in list(others.values())[-1:]]
    students = [
        (as_student, path, (), "newest versions")
        for version, path in others.items()
        if version != with_least
    ]
    least_ones = (as_student, others.get(with_least, sys.executable), least(), "least versions")
    missing = [
        (as_promised, version)
        for version in promised()
        if version not in pythons_here and version != venv_version
    ]
    long = [*newest, *students, least_ones]
    if turn is not None:  # of twelve, the first part has turn 0, the second one turn 4, and so on
        long = [part for index, part in enumerate(long) if (turn - 4 * index) % 12 == 0]
    return [*long, *missing]


def main():
    """Find the Pythons, and try the course with them; return the status."""
    here = pythons(folders_of_pythons())
    venv_version = ".".join(map(str, sys.version_info[:2]))
    for version in promised():
        path = here.get(version, "not on this machine")
        print(f"Python {version}: {'that of .venv' if version == venv_version else path}")
    if not set(here) - {venv_version}:
        print(f"There is no other Python here than .venv's {venv_version}: no other is tried.")
    if "--list" in sys.argv[1:]:
        return 0
    status = 0
    turn = next((int(argument) for argument in sys.argv[1:] if argument.isdecimal()), None)
    for part, *arguments in parts(here, venv_version, turn):
        with tempfile.TemporaryDirectory(prefix="course-") as folder:
            status |= not part(*arguments, folder=Path(folder))
    return status


if __name__ == "__main__":
    sys.exit(main())
