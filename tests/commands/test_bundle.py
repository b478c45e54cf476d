"""An offline classroom: what `bundle` makes and refuses, and what its README says. pip is real,
packages are not.
"""

import base64
import hashlib
import os
import shutil
import subprocess
import sys
import zipfile

import pytest
from toy_course import toy_course

from autograder.authoring.release import release
from autograder.commands import bundle, doctor
from autograder.course.config import ROOT

pytestmark = pytest.mark.long

NAMES = [*doctor.needs(""), *doctor.needs("triton")]
PINS = dict(doctor.PIN.findall((ROOT / "requirements.txt").read_text(encoding="utf-8")))


def write_wheel(folder, name, version, needs=()):
    """Write a wheel with nothing but a module that says its version."""
    stem = f"{name.replace('-', '_')}-{version}"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    files = {
        f"{name}.py": f"VERSION = {version!r}\n",
        f"{stem}.dist-info/METADATA": metadata
        + "".join(f"Requires-Dist: {need}\n" for need in needs),
        f"{stem}.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: us\nRoot-Is-Purelib: "
        "true\nTag: py3-none-any\n",
    }
    rows = []
    for path, text in files.items():
        digest = (
            base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
        )
        rows.append(f"{path},sha256={digest},{len(text)}\n")
    files[f"{stem}.dist-info/RECORD"] = "".join(rows) + f"{stem}.dist-info/RECORD,,\n"
    with zipfile.ZipFile(folder / f"{stem}-py3-none-any.whl", "w") as wheel:
        for path, text in files.items():
            wheel.writestr(path, text)


@pytest.fixture
def index(tmp_path):
    """Where pip finds packages: those that students need as tested, a newer one, and one that
    torch needs.
    """
    folder = tmp_path / "index"
    folder.mkdir()
    for name in NAMES:
        write_wheel(
            folder,
            name,
            f"{PINS[name]}+cpu" if name == "torch" else PINS[name],
            ["deep"] * (name == "torch"),
        )
    write_wheel(folder, "numpy", "99.0")
    write_wheel(folder, "deep", "1.0")
    return folder


@pytest.fixture
def course(tmp_path):
    course = toy_course(tmp_path / "course")
    release(course, course.sources()[0])
    (course.exercises()[0].released / "__pycache__").mkdir()
    book = course.root / "_build" / "html"
    book.mkdir(parents=True)
    (book / "index.html").write_text("<p>the book")
    return course


def environment(**more):
    """Return an environment in which pip has no settings but these."""
    others = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
    return others | {
        "PYTHONPATH": str(ROOT),
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        **more,
    }


def command(course, folder, index):
    return subprocess.run(
        [sys.executable, "-m", "autograder", "bundle", str(folder), "--course", str(course.root)],
        env=environment(PIP_NO_INDEX="1", PIP_FIND_LINKS=str(index)),
        capture_output=True,
        text=True,
    )


@pytest.mark.slow
def test_a_bundle_has_all_that_its_readme_needs_without_a_network(course, index, tmp_path):
    folder = tmp_path / "for" / "classroom"
    result = command(course, folder, index)
    assert result.returncode == 0 and "the book and 1 exercises" in result.stdout, result.stderr
    assert "Book and exercises" in result.stderr  # progress
    assert sorted(path.name for path in folder.iterdir()) == [
        "README.md", "book", "exercises", "requirements.txt", "wheelhouse",
    ]  # fmt: skip
    assert (folder / "book" / "index.html").read_text() == "<p>the book"
    released = course.exercises()[0].released
    assert sorted(path.name for path in (folder / "exercises" / "01-toy").iterdir()) == sorted(
        path.name for path in released.iterdir() if path.is_file()
    )
    assert list(folder.parent.iterdir()) == [folder]
    shutil.rmtree(index)  # the network is gone
    readme = (folder / "README.md").read_text(encoding="utf-8")
    (line,) = [line.split() for line in readme.splitlines() if " install " in line]
    assert line[:3] == [".venv/bin/python", "-m", "pip"] and "--no-index" in line
    target = tmp_path / "installed"
    whole = [sys.executable, *line[1:], "--quiet", "--target", str(target)]
    subprocess.run(whole, cwd=folder, check=True, env=environment())
    assert (target / "deep.py").exists() and "99.0" not in (target / "numpy.py").read_text()
    assert sorted(path.stem for path in target.glob("*.py")) == sorted([*NAMES, "deep"])
    (line,) = [line.split() for line in readme.splitlines() if "http.server" in line]
    assert (folder / line[line.index("--directory") + 1] / "index.html").exists()
    assert "exercises/01-toy/01-toy.ipynb" in readme and "{" not in readme


@pytest.mark.slow
def test_what_pip_does_not_find_is_named_and_nothing_is_left(course, index, tmp_path):
    for path in index.glob("deep-*"):
        path.unlink()
    result = command(course, tmp_path / "classroom", index)
    assert result.returncode == 1 and "Traceback" not in result.stderr
    last = result.stderr.strip().splitlines()[-1]
    assert last.startswith("Error: pip could not collect the packages:") and "deep" in last
    assert sorted(path.name for path in tmp_path.iterdir()) == ["course", "index"]


@pytest.mark.slow
def test_an_unbuilt_book_and_an_existing_folder_are_one_line_each(course, index, tmp_path):
    there = tmp_path / "there"
    there.mkdir()
    result = command(course, there, index)
    assert (
        result.returncode == 1
        and "already exists. Name a new folder" in result.stderr
        and not list(there.iterdir())
    )
    checks = course.sources()[0].solution / "misconceptions.py"
    checks.write_text(checks.read_text() + "\n# newer\n")
    result = command(course, tmp_path / "new", index)
    assert (
        result.returncode == 1 and "checking.zip is older than its sources. Run:" in result.stderr
    )
    (course.root / "_build" / "html" / "index.html").unlink()
    result = command(course, tmp_path / "new", index)
    assert result.returncode == 1 and result.stderr.startswith("Error: The book is not built")
    assert len(result.stderr.splitlines()) == 1 and not (tmp_path / "new").exists()


def test_the_readme_is_for_the_system_that_it_was_made_on(course, monkeypatch):
    assert "python3." in bundle._readme(course.exercises()) or sys.platform == "win32"
    monkeypatch.setattr(bundle.sys, "platform", "win32")
    readme = bundle._readme(course.exercises())
    assert "py -3." in readme and ".venv\\Scripts\\python -m pip install --no-index" in readme
