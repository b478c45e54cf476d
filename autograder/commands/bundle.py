"""An offline classroom: one folder with the packages that students install, the built book, and
the exercises.
"""

import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from packaging.utils import canonicalize_name, parse_wheel_filename

from autograder.commands.console import Root, course_at, progress_of, say
from autograder.course.config import ROOT, Course, Exercise, UserError

PINS = ROOT / "requirements.txt"
# The lines of pip that name a package or a file: the progress bar shows these.
SHOWN_LINE = re.compile(r"\s*(Collecting|Downloading|Building|Saved|Processing)\b\s*(\S+)")
# A teacher may have opened an exercise here, and run its checks.
LEFT_OUT = shutil.ignore_patterns("__pycache__", ".ipynb_checkpoints", "*.pyc")
README = """\
# {title}: an offline classroom

Everything is in this folder, and no step needs a network. It was made on {system} with Python {python}, and works on
machines with the same system and Python version. Copy the folder to each of them, and open a terminal in it.

1. Install the packages that the exercises use into a folder `.venv` next to this file:

       {python_command} -m venv .venv
       {pip} install --no-index --find-links wheelhouse -r requirements.txt

2. Open the book: run this command, then open http://127.0.0.1:8000 in a browser.

       {python_command} -m http.server --bind 127.0.0.1 --directory book 8000

The exercises are in `exercises/`, one folder each. Open one, and run its cells from the top:

       {jupyter} lab exercises/{first}/{first}.ipynb
"""  # noqa: E501


def bundle(
    folder: Annotated[Path, typer.Argument(help="The folder to make.", show_default=False)],
    root: Root = ROOT,
) -> None:
    """Make a folder for a classroom without a network: Python packages, the built book, and the
    exercises.

    Its README has the commands that students need. The packages are for machines with the same
    system and Python version as this one.
    """
    course = course_at(root)
    exercises = course.exercises()
    book = course.root / "_build" / "html"
    _check_built(course, book, exercises)
    with _complete_folder(folder.absolute()) as building:
        _add_packages(building)
        _add_book_and_exercises(building, book, exercises)
        (building / "README.md").write_text(_readme(exercises), encoding="utf-8")
        size = sum(path.stat().st_size for path in building.rglob("*") if path.is_file()) / 1e6
        count = len(_wheels(building / "wheelhouse"))
    say(
        f"{folder}: {size:.0f} MB, with {count} packages, the book and {len(exercises)} exercises. "
        f"Instructions are in {folder / 'README.md'}."
    )


def _check_built(course: Course, book: Path, exercises: Sequence[Exercise]) -> None:
    """Raise `UserError` unless the book and the exercises are there, and up to date."""
    from autograder.course import archive

    if not (book / "index.html").exists():
        raise UserError(
            f"The book is not built: {book / 'index.html'} does not exist. Run: make book"
        )
    if not exercises:
        raise UserError(
            f"There are no exercises in {course.root / 'exercises'}. Run: python -m "
            "autograder release"
        )
    for exercise in exercises:
        # An exercise without its source cannot be released again: it is taken as it is.
        if exercise.solution.exists() and (fault := archive.fault(exercise)):
            raise UserError(fault)


def _add_packages(building: Path) -> None:
    """Add the folder `wheelhouse` and the list of its packages."""
    from autograder.commands.doctor import needs

    wheelhouse = building / "wheelhouse"
    with progress_of("Packages") as progress:
        task = progress.add_task("", total=None)

        def show(line: str) -> None:
            progress.update(task, description=line, completed=len(_wheels(wheelhouse)))

        packages = collect_wheels([*needs(""), *needs("triton")], wheelhouse, show)
    (building / "requirements.txt").write_text(
        "".join(f"{package}\n" for package in packages), encoding="utf-8"
    )


def _add_book_and_exercises(building: Path, book: Path, exercises: Sequence[Exercise]) -> None:
    with progress_of("Book and exercises") as progress:
        task = progress.add_task("book", total=1 + len(exercises))
        shutil.copytree(book, building / "book")
        for exercise in exercises:
            progress.update(task, advance=1, description=exercise.name)
            shutil.copytree(
                exercise.released, building / "exercises" / exercise.name, ignore=LEFT_OUT
            )
        progress.advance(task)


@contextmanager
def _complete_folder(folder: Path) -> Iterator[Path]:
    """Yield a folder that is renamed to `folder` when it is complete, and deleted when something
    fails.
    """
    if folder.exists():
        raise UserError(f"{folder} already exists. Name a new folder, or remove that one.")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as temporary:
        building = Path(temporary) / folder.name
        building.mkdir()
        yield building
        building.rename(folder)


def collect_wheels(
    names: Sequence[str], wheelhouse: Path, progress: Callable[[str], None]
) -> list[str]:
    """Put wheels of these packages and of all their dependencies into a folder; return the packages
    with versions.

    pip finds them by its own settings. The versions are those that were tested, if they are known.

    Raises
    ------
    UserError
        If pip does not find a package.
    """
    # Without a checkout, as after `pip install`, there are no tested versions.
    pins = ["--constraint", str(PINS)] if PINS.exists() else []
    # A wheel of an older version is better than a newer one that has to be built here.
    options = ["--wheel-dir", str(wheelhouse), "--prefer-binary", *pins]
    command = [sys.executable, "-m", "pip", "wheel", *options, *names]
    reason = ""
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as pip:
        assert pip.stdout is not None
        for line in pip.stdout:
            if line.startswith("ERROR:"):
                # pip's first error names the versions that there are; the next one repeats it.
                reason = reason or line.removeprefix("ERROR:").strip()
            match = SHOWN_LINE.match(line)
            if match:
                progress(f"{match[1]} {match[2].rpartition('/')[2]}")
    if pip.returncode:
        raise UserError(
            f"pip could not collect the packages: {reason or f'status {pip.returncode}'}. "
            "Check this machine's network connection, and run the same command again."
        )
    parsed = [parse_wheel_filename(wheel.name) for wheel in _wheels(wheelhouse)]
    # The list for students names what they need; pip finds the dependencies next to it.
    versions = {name: version for name, version, *_ in parsed}
    return [f"{name}=={versions[canonicalize_name(name)]}" for name in names]


def _wheels(wheelhouse: Path) -> list[Path]:
    return sorted(wheelhouse.glob("*.whl"))


def _readme(exercises: Sequence[Exercise]) -> str:
    windows = sys.platform == "win32"
    python = ".".join(platform.python_version_tuple()[:2])
    scripts = ".venv\\Scripts\\" if windows else ".venv/bin/"
    return README.format(
        title="Attention by Hand",
        system=f"{platform.system()} ({platform.machine()})",
        python=python,
        python_command=f"py -{python}" if windows else f"python{python}",
        pip=f"{scripts}python -m pip",
        jupyter=f"{scripts}jupyter",
        first=exercises[0].name,
    )
