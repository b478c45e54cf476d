"""The exercises' downloads: the book refuses to be built with one whose archive is missing, or
is not its own.
"""

import re
import shutil
import sys
import zipfile
from types import SimpleNamespace

import pytest
from sphinx.errors import ExtensionError
from toy_course import toy_course

from autograder.authoring.release import release
from autograder.course import archive
from autograder.course.config import ROOT


@pytest.fixture(scope="module")
def theme():
    """The extension of the book that packs the downloads."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "book" / "_ext"))
        import theme

        yield theme
    sys.modules.pop("theme", None)


@pytest.fixture
def toy(tmp_path):
    """A released toy exercise, and what Sphinx would say of a book beside it."""
    course = toy_course(tmp_path / "course")
    (exercise,) = course.sources()
    release(course, exercise)
    app = SimpleNamespace(
        srcdir=course.root, outdir=tmp_path / "html", builder=SimpleNamespace(format="html")
    )
    app.config = SimpleNamespace(language="en")
    return exercise, app


def test_a_download_has_what_a_release_has(theme, toy):
    exercise, app = toy
    theme.require_archives(app)
    theme.pack_exercises(app, None)
    with zipfile.ZipFile(app.outdir / "exercises" / "01-toy.zip") as download:
        files = {name: download.read(name) for name in download.namelist()}
    assert files == {
        f"01-toy/{path.name}": path.read_bytes() for path in exercise.released.iterdir()
    }
    assert "01-toy/checking.zip" in files


@pytest.mark.parametrize("fault", ["missing", "older than its sources", "no archive"])
def test_without_its_archive_one_line_says_what_to_run(theme, toy, fault):
    exercise, app = toy
    if fault == "missing":
        exercise.archive.unlink()
    elif fault == "no archive":
        exercise.archive.write_bytes(b"PK")
        fault = "older than its sources"
    else:
        with (exercise.solution / "misconceptions.py").open("a") as text:
            text.write("\n# one more\n")
    message = f"exercises/01-toy/checking.zip is {fault}. Run: python -m autograder release 01-toy"
    with pytest.raises(ExtensionError, match=re.escape(message)):
        theme.require_archives(app)


def test_another_exercises_archive_is_not_taken_for_it(toy):
    exercise, _app = toy
    assert archive.is_current(exercise)
    shutil.copy(ROOT / "exercises" / "01-qkv" / "checking.zip", exercise.archive)
    assert not archive.is_current(exercise)
