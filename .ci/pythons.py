"""Try the course with the other Pythons of this machine, as newcomers and as students do.

    .venv/bin/python .ci/pythons.py [--list] [TURN]

The newest Python runs `python course.py` in a fresh clone, with LANG=C, in a folder with an odd
name. Each Python but .venv's own solves the exercises, as tests/helpers/student.py does: one that is old
enough with the least versions that pyproject.toml allows (.venv's, if no other is), the others with
the newest that pip finds. For a Python that is promised and not here, each pin needs a wheel. Each
part has a folder of its own, up to 10 GB, until it ends. What fails is shown with its log's end;
status 1. With the number of a turn, each of the long parts runs in one of twelve.
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
ODD = "Kurs & Übung 注意力"
SHOWN = 60  # lines of the log of what failed
MAKES_ENVIRONMENTS = "import ensurepip, sys, venv; print('%d.%d.%d' % sys.version_info[:3])"


def promised():
    """Return the Pythons that pyproject.toml promises, such as "3.11", the oldest first."""
    found = [line.rpartition(" ")[2] for line in PROJECT["classifiers"] if "Python :: 3." in line]
    return sorted(found, key=numbers)


def numbers(version):
    """Return the numbers of a version, to compare."""
    return [int(part) for part in re.findall(r"\d+", version)]


def pythons(folders):
    """Return the first Python in these folders that runs, of each promised version: paths by
    version.

    One that is there and does not run (a pyenv shim of a version that is not active, a Debian
    Python without venv) is none.
    """
    found = {}
    for version in promised():
        for path in (Path(folder) / f"python{version}" for folder in folders):
            if path.exists() and version not in found:
                said = subprocess.run(
                    [path, "-c", MAKES_ENVIRONMENTS], capture_output=True, text=True, cwd="/"
                )
                if said.returncode == 0 and said.stdout.startswith(f"{version}."):
                    found[version] = path
    return found


def places():
    """Return the folders in which Pythons may lie: those of PATH, and pyenv's."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    own = sorted(
        pyenv.glob("versions/*/bin"), key=lambda path: numbers(path.parent.name), reverse=True
    )
    return [*filter(os.path.isabs, os.environ.get("PATH", "").split(os.pathsep)), *own]


def least():
    """Return the least versions that pyproject.toml allows of what students install, as pip's
    constraints.
    """
    found = [re.match(r"([\w.-]+)>=([\d.]+)$", line) for line in PROJECT["dependencies"]]
    if not all(found):
        sys.exit("pyproject.toml: each of `dependencies` needs a least version, such as numpy>=2")
    return [f"{name}=={version}" for name, version in (match.groups() for match in found)]


def run(name, place, *commands, **variables):
    """Run commands in a folder, one after another; say how long it took, or what failed.

    Return whether all went.
    """
    begun, log = time.monotonic(), place / "log"
    environment = {
        key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV")
    }
    environment |= variables
    with log.open("w", encoding="utf-8") as out:
        fine = all(
            subprocess.run(
                command, cwd=place, env=environment, stdout=out, stderr=subprocess.STDOUT
            ).returncode
            == 0
            for command in commands
        )
    print(
        f"{name}: {'fine' if fine else 'FAILED'} after {(time.monotonic() - begun) / 60:.1f} "
        "minutes",
        flush=True,
    )
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    for line in (
        lines[-SHOWN:] if not fine else filter(re.compile(r"\w+ \w+, Python 3").match, lines)
    ):
        print(f"    {line}", flush=True)
    return fine


def clone(place, name="course"):
    """Return the command that makes a fresh clone in a folder."""
    return ["git", "clone", "--quiet", str(ROOT), str(place / name)]


def as_newcomer(python, place):
    """Run `python course.py` from nothing, where names are not plain."""
    script = ["-c", 'cd "$1" && exec "$0" course.py', str(python), ODD]
    return run(
        f"python course.py with {python}",
        place,
        clone(place, ODD),
        ["sh", *script],
        LANG="C",
        LC_ALL="C",
    )


def as_student(python, constraints, what, place):
    """Solve the exercises with what students install, in an environment of its own."""
    (place / "constraints.txt").write_text("\n".join(constraints), encoding="utf-8")
    own = str(place / "venv" / "bin" / "python")
    return run(
        f"the exercises with {python}, {what}",
        place,
        clone(place),
        ["sh", "-c", 'cd course && exec "$0" -m autograder release', sys.executable],
        [str(python), "-m", "venv", "venv"],
        [
            own,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--constraint",
            "constraints.txt",
            *PROJECT["dependencies"],
        ],
        [own, "course/tests/helpers/student.py", "course/exercises", "course/solutions"],
    )


def as_promised(version, place):
    """See that each pin has a wheel for a Python that is not here."""
    options = [
        "--quiet",
        "--dry-run",
        "--ignore-installed",
        "--no-deps",
        "--python-version",
        version,
    ]
    wheels = ["--only-binary=:all:", f"--no-binary={','.join(PURE)}", "--target", "none"]
    pins = ["--requirement", str(ROOT / "requirements.txt")]
    return run(
        f"wheels for Python {version}",
        place,
        [sys.executable, "-m", "pip", "install", *options, *wheels, *pins],
    )


def parts(found, own, turn=None):
    """Return what is to be tried, functions with their arguments: given Pythons by version, and
    .venv's version.

    Given the number of a `turn`, leave out the long parts whose turn it is not.
    """
    others = {version: found[version] for version in sorted(found, key=numbers) if version != own}
    old = [version for version in others if numbers(version) <= numbers(OLD)]
    with_least = old[0] if old and len(others) > 1 else own
    newest = [(as_newcomer, path) for path in list(others.values())[-1:]]
    students = [
        (as_student, path, (), "newest versions")
        for version, path in others.items()
        if version != with_least
    ]
    least_ones = (as_student, others.get(with_least, sys.executable), least(), "least versions")
    missing = [(as_promised, version) for version in promised() if version not in {*found, own}]
    long = [*newest, *students, least_ones]
    of_turn = (
        long
        if turn is None
        else [part for place, part in enumerate(long) if (turn - 4 * place) % 12 == 0]
    )
    return [*of_turn, *missing]


def main():
    """Find the Pythons, and try the course with them; return the status."""
    found = pythons(places())
    own = ".".join(map(str, sys.version_info[:2]))
    for version in promised():
        print(
            f"Python {version}: "
            f"{'that of .venv' if version == own else found.get(version, 'not on this machine')}"
        )
    if not set(found) - {own}:
        print(f"There is no other Python here than .venv's {own}: no other is tried.")
    if "--list" in sys.argv[1:]:
        return 0
    status = 0
    turn = next((int(argument) for argument in sys.argv[1:] if argument.isdecimal()), None)
    for part, *arguments in parts(found, own, turn):
        with tempfile.TemporaryDirectory(prefix="course-") as place:
            status |= not part(*arguments, place=Path(place))
    return status


if __name__ == "__main__":
    sys.exit(main())
