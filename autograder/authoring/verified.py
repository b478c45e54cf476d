"""Records that an exercise was verified or released, so that neither has to be repeated.

The record of a verification is `solutions/NN-name/verified.json`. It is tracked: people who clone
the course rely on what its authors and CI verified. It is valid as long as the exercise, the
checks' runtime, the verifying code, and the versions of NumPy and PyTorch are the same. The same
sources make the same bytes, so that git shows what changed.

The record of a release here is `_build/released/NN-name.json`, which is not tracked.
"""

import contextlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from autograder.authoring import handout, published
from autograder.checking import files, machine
from autograder.course import archive, catalogs, deadlines
from autograder.course.config import CONFIG, Course, Exercise
from autograder.course.seeds import digest_of

NAME = "verified.json"
HERE = Path(__file__).parent
TOOLS = [
    HERE / name
    for name in ("verify.py", "verified.py", "answer_trials.py", "loader.py", "source.py")
]
TOOLS += [HERE / name for name in ("syntax.py", "sentences.py")]
TOOLS += [HERE.parent / "course" / name for name in ("cells.py", "imports.py")]
BUILDERS = (
    "handout",
    "packages",
    "published",
    "regrade",
    "release",
    "source",
    "translations",
)
PACKAGES = ("numpy", "torch")
DIGITS = 16


@dataclass(frozen=True)
class Function:
    """The results for the answers that are listed for one function.

    Attributes
    ----------
    wrong : dict
        The names of the checks that each wrong answer fails, by its name, in order. Checks that
        need a GPU are left out, and so are answers that only a GPU shows: the record is the same
        with and without one.
    unrecognized : list of str
        The wrong answers that are not named as the cause of their failure.
    right : list of str
        The right answers.
    """

    wrong: dict[str, list[str]]
    unrecognized: list[str]
    right: list[str]


# That it was verified.


def state(folder: Path) -> dict[str, str]:
    """Return what decides whether the exercise in an author's folder has to be verified again."""
    # a build, +cpu, does not matter
    versions = {name: metadata.version(name).partition("+")[0] for name in PACKAGES}
    return {
        "exercise": _digest([folder], without=_products(folder)),
        "runtime": _digest([archive.RUNTIME]),
        "tools": _digest(TOOLS),
        **versions,
    }


def holds(folder: Path) -> bool:
    """Tell whether an exercise was verified in its present state, as far as this machine can
    verify it.
    """
    return read(folder) is not None


def read(folder: Path) -> dict[str, Function] | None:
    """Return the results for an exercise's listed answers, function by function; None if there is
    no valid record.

    A record that cannot be read, or that was edited by hand, is not valid.
    """
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
        record = json.loads((folder / NAME).read_text(encoding="utf-8"))
        expected = {**state(folder), "record": _seal(record["not verified"], record["functions"])}
        if record["verified"] == expected and all(map(machine.lacks, record["not verified"])):
            return {name: _function(entry) for name, entry in record["functions"].items()}
    return None


def write(
    folder: Path, verified: dict[str, str], left_out: Iterable[str], results: dict[str, Function]
) -> None:
    """Record that an exercise was verified.

    Parameters
    ----------
    folder : Path
        The author's folder.
    verified : dict
        Its `state` before verification: files saved meanwhile were not verified.
    left_out : iterable of str
        The values of `on=` that this machine lacks, except a GPU; a machine that has them verifies
        it again.
    results : dict
        The results for the answers of each function.
    """
    functions = {
        name: {
            "wrong": {answer: " ".join(failed) for answer, failed in function.wrong.items()},
            "unrecognized": function.unrecognized,
            "right": function.right,
        }
        for name, function in results.items()
    }
    without = sorted(left_out)
    record = {
        "verified": {**verified, "record": _seal(without, functions)},
        "not verified": without,
        "functions": functions,
    }
    files.write(folder / NAME, json.dumps(record, indent=1, ensure_ascii=False) + "\n")


def _function(entry: dict[str, Any]) -> Function:
    wrong = {answer: failed.split() for answer, failed in entry["wrong"].items()}
    return Function(wrong, list(entry["unrecognized"]), list(entry["right"]))


def _seal(*parts: Any) -> str:
    """Return a digest of a record's contents, which reveals an edited record."""
    return digest_of(json.dumps(parts).encode())[:DIGITS]


# That it was released.


def is_released(course: Course, exercise: Exercise) -> bool:
    """Tell whether an exercise was released in its present state, and the release is still
    there.
    """
    try:
        return bool(
            json.loads(_note(course, exercise).read_text(encoding="utf-8"))
            == _built(course, exercise)
        )
    except (OSError, ValueError):
        return False


def note_release(course: Course, exercise: Exercise) -> None:
    """Record that an exercise was released in its present state."""
    note = _note(course, exercise)
    note.parent.mkdir(parents=True, exist_ok=True)
    files.write(note, json.dumps(_built(course, exercise)))


def _note(course: Course, exercise: Exercise) -> Path:
    return course.root / "_build" / "released" / f"{exercise.name}.json"


def _built(course: Course, exercise: Exercise) -> dict[str, str]:
    """Return fingerprints of a release's sources and of its results; the gradebook also has
    them.
    """
    tools = [HERE / f"{name}.py" for name in BUILDERS]
    tools += [Path(catalogs.__file__), Path(archive.__file__)]
    tools += [published.TEMPLATE, handout.TEMPLATE]
    products = [exercise.solution / f"{exercise.name}.ipynb", exercise.solution / archive.NAME]
    sources = [
        exercise.solution,
        archive.RUNTIME,
        course.root / CONFIG,
        *tools,
        *catalogs.files(course.root),
    ]
    due = deadlines.read(course).due.get(exercise.name)
    return {
        "due": str(due),
        "from": _digest(sources, without=_products(exercise.solution)),
        "made": _digest([exercise.released, *products]),
        "gradebook": str(course.gradebook.exists()),
        "site": published.site(course.root),
    }


# What both use.


def _products(folder: Path) -> list[Path]:
    """Return the files in an author's folder that are made from the rest."""
    names = (NAME, f"{folder.name}.ipynb", archive.NAME, f"{archive.NAME}.part")
    return [folder / name for name in names]


def _digest(paths: Sequence[Path], without: Sequence[Path] = ()) -> str:
    """Return a digest of files and of the contents of folders; git's line endings on this system
    do not matter.
    """
    parts = []
    for root in paths:
        for path in sorted(root.rglob("*"), key=Path.as_posix) if root.is_dir() else [root]:
            name = path.relative_to(root.parent)
            hidden = any(part.startswith((".", "__pycache__")) for part in name.parts)
            if path.is_file() and path not in without and not hidden:
                parts += [name.as_posix().encode(), path.read_bytes().replace(b"\r\n", b"\n")]
    return digest_of(*parts)[:DIGITS]
