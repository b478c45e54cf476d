"""Fingerprints that are stored, or compared between machines, are the same on every Python, and
wherever it is.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import records
import run_pages

from autograder.authoring.code_tokens import plain
from autograder.course.config import ROOT

pytestmark = pytest.mark.long
MINORS = range(11, 15)
COPIED = ("autograder", "benchmarks", "book", "solutions", "exercises", "locale")
TEXTS = {".md", ".py", ".toml", ".js", ".css", ".yml"}


def version(python):
    """The version of a Python, such as 3.13.0; an empty text for what is none, such as pyenv's
    stand-in for one.
    """
    try:
        result = subprocess.run(
            [python, "-c", "import platform; print(platform.python_version())"], capture_output=True
        )
    except OSError:
        return ""
    return result.stdout.decode().strip() if result.returncode == 0 else ""


def pythons():
    """The other Pythons from 3.11 on, by version: on PATH, and pyenv's."""
    places = [shutil.which(f"python3.{minor}") for minor in MINORS]
    root = os.environ.get("PYENV_ROOT", "")
    if not root and shutil.which("pyenv"):
        root = subprocess.run(["pyenv", "root"], capture_output=True, text=True).stdout.strip()
    for minor in MINORS if root else ():
        places += map(str, sorted(Path(root).glob(f"versions/3.{minor}.*/bin/python")))
    pythons_found = {version(path): path for path in filter(None, places)}
    running = ".".join(map(str, sys.version_info[:2]))
    return {
        version_found: path
        for version_found, path in pythons_found.items()
        if version_found and version_found.rpartition(".")[0] != running
    }


@pytest.fixture(scope="module")
def cells():
    """The pages' cells of code, as `digests.py` takes them."""
    cells_by_page = {page.stem: run_pages.read(page).cells for page in run_pages.pages()}
    return json.dumps(
        {
            name: [
                (cell.source, sorted(records.tags(cell)))
                for cell in cells
                if cell.cell_type == "code"
            ]
            for name, cells in cells_by_page.items()
        }
    )


def digests(python, cells, root=ROOT, **more):
    """What a Python says of a checkout, with nothing installed."""
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("PYTHON")
    } | more
    result = subprocess.run(
        [python, "-s", "-S", str(ROOT / "tests" / "helpers" / "digests.py"), str(root)],
        input=cells,
        capture_output=True,
        text=True,
        cwd=root.parent,
        env=environment,
    )
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


@pytest.fixture(scope="module")
def ours(cells):
    """What this Python says."""
    expected = digests(sys.executable, cells, PYTHONHASHSEED="1")
    assert len(expected) > 200
    return expected


def differences(ours, theirs):
    """What two say otherwise."""
    return sorted(
        name for name in ours.keys() | theirs.keys() if ours.get(name) != theirs.get(name)
    )


@pytest.mark.slow
def test_every_other_python_says_the_same(ours, cells):
    others = pythons()
    if not others:
        reason = "no other Python from 3.11 on is on PATH or in pyenv"
        pytest.fail(f"CI needs one: {reason}") if os.environ.get("CI") else pytest.skip(reason)
    for version_tried, python in others.items():
        assert differences(ours, digests(python, cells)) == [], version_tried


@pytest.mark.slow
def test_neither_hashes_nor_locale_nor_place_nor_line_endings_matter(ours, cells, tmp_path):
    """In a copy elsewhere, as git for Windows checks it out; a release is as it was made there,
    too.
    """
    root = tmp_path / "a course ü"
    for name in COPIED:
        shutil.copytree(
            ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__", "node_modules")
        )
    for path in root.rglob("*"):
        if path.suffix in TEXTS and path.is_file() and "exercises" not in path.parts:
            path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    for name in ("nbgrader_config.py", "_toc.yml"):
        shutil.copy(ROOT / name, root)
    plain_locale = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    assert (
        differences(ours, digests(sys.executable, cells, root, PYTHONHASHSEED="2", **plain_locale))
        == []
    )


@pytest.mark.slow
def test_what_is_stored_is_what_is_compared(ours, cells):
    """The digest of each page's record is among those that are compared, and so is that of the
    compiled kernels.
    """
    for page in json.loads(cells):
        if recorded := records.read(page):
            assert recorded["digest"] == ours[f"record of {page}"]
    compiled = json.loads((ROOT / "benchmarks" / "compiled.json").read_text(encoding="utf8"))
    assert compiled["kernels"] == ours["kernels"]


CODE = '''"""What it is for."""
TEXT = {
    "title": "Words",
}


def far(x, y):
    """Two words."""
    label = f"π {x!r:>{y}} {{y}} {f'{x}ü'}" "z"
    return [x,
            f"""ω{y}
  ä{x}"""], label


class One:
    "What it has."

    TEXT = 3
'''


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        ("What it is for", "Other words", True),
        ("Two words", "Other words", True),
        ("What it has", "Other words", True),
        ('"Words"', '"Other words"', True),
        ("    return [x,\n            f", "    # why\n\n    return [x, f", True),
        ('return [x,', 'return [x,  # "why"', True),
        ("\n", "\r\n", True),
        ("TEXT = 3", "TEXT = 4", False),
        ("TEXT = {", "WORDS = {", False),
        ("ü", "u", False),
        ("{{y}}", "{y}", False),
        ("  ä", "ä", False),
        ("return", "    return", False),
        ("{x!r", "{x!s", False),
    ],
)  # fmt: skip
def test_what_is_plain(old, new, same):
    changed = CODE.replace(old, new)
    assert changed != CODE and (plain(changed) == plain(CODE)) is same


def test_what_is_cut_short_is_no_code():
    with pytest.raises(SyntaxError):
        plain("a = (1,\n")


def test_nothing_is_a_fingerprint_of_how_python_writes_a_tree():
    """What is hashed is no `ast.dump`, no `ast.unparse` and no `repr`, but what `digests.py`
    compares, or names here.

    `records.fingerprint` is of one process. The mutants of answers are named by what Python writes:
    compared there.
    """
    bad = re.compile(r"sha256\(.*(unparse|dump\(|repr\()|\bhash\(")
    paths = [
        path
        for folder in ("autograder", "benchmarks", "book")
        for path in (ROOT / folder).rglob("*.py")
    ]
    lines = [
        f"{path.name}: {line.strip()}" for path in paths for line in path.read_text(encoding="utf8").splitlines()
        if "node_modules" not in path.parts and bad.search(line)
    ]  # fmt: skip
    assert lines == [
        "records.py: return hashlib.sha256(value.tobytes() if numbers else "
        "repr(value).encode()).hexdigest()"
    ]
