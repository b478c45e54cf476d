"""What the project says of itself is true: packages are declared and pinned, files are packed,
the version is one.
"""

import ast
import fnmatch
import functools
import importlib.metadata
import itertools
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.version import Version

from autograder.commands import doctor
from autograder.course.config import ROOT

PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = PYPROJECT["project"]
# Which group a folder's imports must be declared in; a group brings those that it names.
USES = {
    "solutions": "triton",
    "exercises": "triton",
    "autograder": "grade",
    "book": "book",
    "hub": "hub",
    "benchmarks": "test",
    # README's pictures; the sample class itself is made with what `grade` brings
    "examples": "test",
    "tests": "test",
    ".ci": "test",
}
# What else code of a folder may import, where whoever runs it has asked for that.
IF_ASKED = {"autograder": ("cluster", "hub", "triton"), "book": ("test",)}
# What is no code of the folder that it lies in: generated, or to be copied elsewhere.
FOREIGN = {"_build", "__pycache__", "node_modules", "templates"}


def normal(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def declared(group):
    """Return the names that a group declares, with those of the groups that it names."""
    names = {normal(Requirement(line).name) for line in PROJECT["dependencies"]}
    if group == "dependencies":
        return names
    for requirement in map(Requirement, PROJECT["optional-dependencies"][group]):
        if normal(requirement.name) == normal(PROJECT["name"]):
            names = names.union(*map(declared, requirement.extras))
        else:
            names.add(normal(requirement.name))
    return names


def sources(folder):
    return [path for path in (ROOT / folder).rglob("*.py") if not FOREIGN & set(path.parts)]


def imported(folder):
    """Return the top-level modules that a folder's code imports: the files by module."""
    files = {}
    for path in sources(folder):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and not node.level:
                names = [node.module]
            for name in names:
                files.setdefault(name.partition(".")[0], []).append(
                    path.relative_to(ROOT).as_posix()
                )
    return files


@functools.cache
def installed():
    """Return which distributions hold each module that is installed here."""
    return importlib.metadata.packages_distributions()


def ours():
    """Return the names of the modules and packages in this repository."""
    files = [path for folder in USES for path in sources(folder)]
    return {path.stem for path in files} | {path.parent.name for path in files}


@pytest.mark.slow
@pytest.mark.parametrize("folder", USES)
def test_what_is_imported_is_declared(folder):
    distributions = installed()
    known, local, undeclared = declared(USES[folder]), ours(), {}
    asked = set().union(*map(declared, IF_ASKED.get(folder, ())))
    modules = imported(folder)
    assert modules
    for name, paths in modules.items():
        if name in sys.stdlib_module_names or (name in local and name not in distributions):
            continue
        holders = {normal(holder) for holder in distributions.get(name, [name])}
        if not holders & (known | asked | {normal(PROJECT["name"])}):
            undeclared[name] = paths
    assert not undeclared, f"to be declared in pyproject.toml, group {USES[folder]}: {undeclared}"


LOCKS = ("requirements.txt", "requirements-hub.txt", "requirements-test.txt")


def pins(*locks):
    text = "".join((ROOT / lock).read_text(encoding="utf-8") for lock in locks or LOCKS)
    lines = [line.partition("#")[0].strip() for line in text.splitlines()]
    return {
        normal(requirement.name): requirement
        for requirement in map(Requirement, filter(None, lines))
    }


def test_what_is_declared_is_pinned_within_its_bounds():
    pinned = pins()
    groups = [PROJECT["dependencies"], *PROJECT["optional-dependencies"].values()]
    for requirement in map(Requirement, itertools.chain(*groups)):
        name = normal(requirement.name)
        if name == normal(PROJECT["name"]):
            continue
        assert name in pinned, f"{requirement.name} is not pinned. Run: make lock"
        (pin,) = pinned[name].specifier
        assert pin.operator == "==" and pin.version in requirement.specifier, (
            f"{pinned[name]}, but {requirement}"
        )


def test_a_group_has_all_requirements_of_its_use_and_no_more():
    assert declared("dependencies") < declared("grade") < declared("book") < declared("test")
    assert "sphinx" in declared("book") and not {"sphinx", "jupyter-book", "docutils"} & declared(
        "grade"
    )
    assert "pytest" not in declared("book") and "nbgrader" not in declared("dependencies")


def test_what_the_course_installs_is_what_it_uses():
    """Tools of tests and linters are pinned by themselves, and nothing is pinned twice."""
    course, hub, beyond = (pins(lock) for lock in LOCKS)
    assert declared("book") <= set(course) | {normal(PROJECT["name"])}
    assert "jupyterhub" in hub and not set(hub) & {*course, *beyond}
    assert {"pytest", "mypy", "ruff", "playwright", "hypothesis"} <= set(beyond) and not set(
        course
    ) & set(beyond)


def test_the_lock_names_no_index():
    text = "".join((ROOT / lock).read_text(encoding="utf-8") for lock in LOCKS)
    assert len(pins()) > 100
    assert "://" not in text and not re.search(r"^\s*-", text, re.MULTILINE) and "+" not in text


def test_the_last_release_is_the_same_everywhere_and_the_version_is_the_next():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    released = re.findall(r"^## \[(.+?)\] - (\S+)$", changes, re.MULTILINE)
    assert released[0] == (citation["version"], str(citation["date-released"]))
    assert Version(PROJECT["version"]) >= Version(citation["version"])
    fragments = [path for path in (ROOT / "changelog.d").rglob("*.md") if path.name != "README.md"]
    assert bool(fragments) == (PROJECT["version"] != citation["version"]), (
        "a release has no changes that are not in it"
    )


def test_changes_are_filed_where_they_are_found():
    """A fragment under another name would be left out without a word."""
    kinds = [each["directory"] for each in PYPROJECT["tool"]["towncrier"]["type"]]
    people = [each["path"] for each in PYPROJECT["tool"]["towncrier"]["section"]]
    for path in (ROOT / "changelog.d").rglob("*"):
        if path.is_file() and path.name not in ("README.md", "template.md.j2"):
            path_inside = path.relative_to(ROOT / "changelog.d")
            assert path_inside.parent.as_posix().removeprefix(".") in people, path_inside
            assert path.name.split(".")[-2:] in [[kind, "md"] for kind in kinds], path_inside
            assert path.read_text(encoding="utf-8").startswith("- ") or path.name.endswith(
                ".note.md"
            ), path_inside
    draft = [sys.executable, "-m", "towncrier", "build", "--draft", "--version", "9.9.9"]
    shown = subprocess.run(draft, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for path in (ROOT / "changelog.d").rglob("*.*.md"):
        assert path.read_text(encoding="utf-8").strip() in shown, path


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The package as it would be handed on: built from a copy, because building leaves folders."""
    folder = tmp_path_factory.mktemp("wheel")
    copy = folder / "copy"
    copy.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    shutil.copytree(
        ROOT / "autograder", copy / "autograder", ignore=shutil.ignore_patterns("__pycache__")
    )
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*command, "--wheel-dir", str(folder), str(copy)], check=True)
    (built,) = folder.glob("*.whl")
    return built


@pytest.mark.slow
def test_a_wheel_has_every_file_of_the_package(wheel):
    """A missing file breaks an install that is no checkout."""
    packed = set(zipfile.ZipFile(wheel).namelist())
    copy = wheel.parent / "copy"
    files = [path.relative_to(copy) for path in (copy / "autograder").rglob("*") if path.is_file()]
    assert len(files) > 30
    assert not {path.as_posix() for path in files} - packed
    tops = {name.partition("/")[0] for name in packed}
    assert {name for name in tops if not name.endswith(".dist-info")} == {"autograder"}


@pytest.mark.long
@pytest.mark.usefixtures("isolated")
def test_an_installed_wheel_makes_an_exercise_and_grades_it(wheel, tmp_path):
    """In an empty environment, with what it says that grading needs, and away from this
    checkout.
    """
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "venv")], check=True)
    python = tmp_path / "venv" / "bin" / "python"
    install = [
        python,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--constraint",
        str(ROOT / "requirements.txt"),
    ]
    subprocess.run([*install, f"{wheel}[grade]"], check=True)
    course = tmp_path / "course"
    course.mkdir()
    shutil.copy(ROOT / "nbgrader_config.py", course)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

    def run(*command):
        line = [tmp_path / "venv" / "bin" / "attention-by-hand", *command, "--course", str(course)]
        result = subprocess.run(line, cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert result.returncode == 0, result.stdout + result.stderr
        return result.stdout

    where = [python, "-c", "import autograder; print(autograder.__file__)"]
    path = subprocess.run(
        where, cwd=tmp_path, env=environment, check=True, capture_output=True, text=True
    )
    assert Path(path.stdout.strip()).is_relative_to(tmp_path / "venv")
    run("new", "01-mine")
    run("release")
    released = course / "exercises" / "01-mine" / "01-mine.ipynb"
    handed_in = course / "submitted" / "ada" / "01-mine"
    shutil.copytree(released.parent, handed_in)
    assert "0 of" in run("check", str(released))
    assert "ada" in run("grade")
    assert (course / "gradebook.db").exists() and (
        course / "feedback" / "ada" / "01-mine" / "01-mine.html"
    ).exists()


def test_uv_knows_what_torch_needs():
    """Its CUDA packages alone are left out of the lock."""
    (metadata,) = PYPROJECT["tool"]["uv"]["dependency-metadata"]
    needs = [
        requirement
        for requirement in map(Requirement, importlib.metadata.requires("torch"))
        if "extra" not in str(requirement.marker)
    ]
    names = {
        normal(requirement.name)
        for requirement in needs
        if not requirement.name.startswith(("nvidia-", "cuda-", "triton"))
    }
    assert names == set(metadata["requires-dist"])


def test_doctor_names_what_each_use_lacks_and_a_fix(monkeypatch):
    version = importlib.metadata.version

    def without(*absent):
        def find_spec(name):
            if normal(name) in absent:
                raise importlib.metadata.PackageNotFoundError(name)
            return version(name)

        monkeypatch.setattr(importlib.metadata, "version", find_spec)
        return {finding.item: finding for finding in doctor.packages()}

    assert all(finding.state == "ok" for finding in without().values())
    grading = without("nbgrader", "nh3", "pyseccomp")
    assert {use: finding.state for use, finding in grading.items()} == {
        "To read and solve": "ok",
        "To grade": "optional",
        "To build the book": "ok",
        "To test": "ok",
    }
    lacking = grading["To grade"]
    assert "nbgrader, nh3, pyseccomp" in lacking.value and ".[grade]" in lacking.note
    assert without("sphinx", "pytest")["To build the book"].state == "optional"
    assert without("numpy")["To read and solve"].state == "missing"
    monkeypatch.setattr(
        importlib.metadata, "version", lambda name: "1.26.4" if name == "numpy" else version(name)
    )
    old = next(finding for finding in doctor.packages() if finding.item == "To read and solve")
    assert (old.state, old.value) == ("missing", "without numpy>=2 (found 1.26.4)")


@pytest.mark.parametrize(
    ("version", "state", "note"),
    [
        ((3, 10, 13), "missing", "Install Python 3.11 or newer."),
        ((3, 14, 0), "ok", ""),
        ((3, 15, 0), "ok", "newer than 3.14"),
    ],
)
def test_doctor_reports_an_untested_python(monkeypatch, version, state, note):
    monkeypatch.setattr(doctor, "sys", SimpleNamespace(version_info=version, platform="linux"))
    finding = next(doctor._python())
    assert (
        finding.state == state
        and finding.note.startswith(note)
        and bool(finding.note) == bool(note)
    )


def seams():
    """Return the rows of the table of seams in the engine's README."""
    text = (ROOT / "autograder" / "README.md").read_text(encoding="utf-8")
    table = text.partition("\n## Where we reach inside other libraries\n")[2].partition("\n## ")[0]
    return [line.strip("| ").split(" | ") for line in table.splitlines() if line.startswith("| ")][
        1:
    ]


def reaches():
    """Yield where code imports, uses or replaces what a library keeps to itself: file, line and
    text.

    A name that some code here defines is taken for that one. Some names begin with `_` and are
    documented.
    """
    code = [path for folder in ("autograder", "book", "benchmarks") for path in sources(folder)]
    trees = {path: list(ast.walk(ast.parse(path.read_text(encoding="utf-8")))) for path in code}
    public, here = {"_exit", "_fields", "_replace", "_asdict"}, ours()
    for node in itertools.chain(*trees.values()):
        public |= {node.name} if isinstance(node, ast.FunctionDef | ast.ClassDef) else set()
        public |= {node.arg} if isinstance(node, ast.keyword) else set()
    for path, nodes in trees.items():
        foreign = {}
        for node in nodes:
            for alias in node.names if isinstance(node, ast.Import | ast.ImportFrom) else ():
                name = f"{getattr(node, 'module', '')}.{alias.name}".lstrip(".")
                theirs = not getattr(node, "level", 0) and name.partition(".")[0] not in here
                foreign[alias.asname or alias.name.partition(".")[0]] = theirs
                if theirs and re.search(r"\b_[a-zA-Z]", name):
                    yield path, node.lineno, name
        for node in nodes:
            if isinstance(node, ast.Attribute):
                ground = node
                while isinstance(ground, ast.Attribute | ast.Call | ast.Subscript):
                    ground = ground.func if isinstance(ground, ast.Call) else ground.value
                name = getattr(ground, "id", "")
                private = (
                    re.match("_[a-zA-Z]", node.attr)
                    and node.attr not in public
                    and foreign.get(name, name != "self")
                )
                if private or (
                    isinstance(node.ctx, ast.Store) and foreign.get(name) and name != "sys"
                ):
                    yield path, node.lineno, ast.unparse(node)


def test_each_seam_is_in_the_table_and_has_a_test():
    rows, versions = seams(), {name: str(pin.specifier) for name, pin in pins().items()}
    listed = " ".join(where for _, _, where, _, _ in rows)
    for path, line, text in reaches():
        name = path.relative_to(ROOT).as_posix()
        listing = f"`{name.removeprefix('autograder/')}`" in listed
        assert listing, (
            f"{name}:{line}: {text} needs a row in autograder/README.md, or a public way"
        )
    for library, _, where, _, tests in rows:
        name, version = library.rsplit(" ", 1)
        if name != "Python":
            assert versions[normal(name)] == f"=={version}", (
                f"{library}: try the new version, then change the row"
            )
        for file in re.findall(r"`([\w./-]+\.(?:py|js|md))`", where):
            assert (ROOT / file).exists() or (ROOT / "autograder" / file).exists(), file
        assert tests.startswith("`test_")
        for file, test in re.findall(r"`(test_\w+)::(test_\w+)`", tests):
            (path,) = [*ROOT.glob(f"tests/**/{file}.py"), *ROOT.glob(f"book/**/{file}.py")]
            assert f"def {test}(" in path.read_text(encoding="utf-8"), (file, test)


# Files that a README names, and that only a build, a grader or another program makes.
MADE = re.compile(
    r"_build/.*|(submitted|autograded|feedback)/.*|.*\.zh\.ipynb|checking\.zip|grade\.json|gradebook\.db|grades\.csv"
    r"|report\.html|settings\.toml|launches\.json|lti\.pem|revealed\.json|deadlines\.toml|exercise\.json|nbextension/index\.js"
)
PATH = re.compile(
    r"(?<!`)`([\w.*/-]+(?:/|\.(?:css|csv|db|html|ipynb|js|json|md|po|py|toml|txt|yml|zip)))`(?!`)"
)
PLACEHOLDER = re.compile(
    r"\b(?:NN|15)-name\b|\b(?:NAME|KIND|LANGUAGE|PEOPLE)\b|(?<=[_/])name\b|[*]"
)


def tracked():
    """Return the files of the project, relative to its root."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    return list(
        map(
            Path,
            subprocess.run(
                command, cwd=ROOT, capture_output=True, text=True, check=True
            ).stdout.splitlines(),
        )
    )


def readmes():
    """Return the texts for developers, relative to the root: each README, and CONTRIBUTING and
    SECURITY.
    """
    paths = [
        *ROOT.glob("README.md"),
        *ROOT.glob("[a-z]*/README.md"),
        ROOT / "CONTRIBUTING.md",
        ROOT / "SECURITY.md",
    ]
    return [path.relative_to(ROOT) for path in paths]


@pytest.mark.parametrize("readme", readmes(), ids=str)
def test_each_path_that_a_readme_names_exists(readme):
    """A file, or the end of its path; a placeholder such as NN-name stands for any name."""
    if not (ROOT / ".git").exists():
        pytest.skip("no git here: which files belong to the project is not known")
    files = tracked()
    names = {
        str(folder_or_file)
        for file in files
        for folder_or_file in (file, *(f"{folder}/" for folder in file.parents))
    }
    ends = sorted(f"/{name}" for name in names)
    missing = []
    for name in PATH.findall((ROOT / readme).read_text(encoding="utf-8")):
        pattern = f"*/{PLACEHOLDER.sub('*', name)}"
        if not MADE.fullmatch(name) and not fnmatch.filter(ends, pattern):
            missing.append(name)
    assert not missing


def test_each_module_in_the_table_of_folders_exists():
    """In the table of the engine's folders: names in parentheses, without their suffix."""
    text = (ROOT / "autograder" / "README.md").read_text(encoding="utf-8")
    modules = [
        f"{folder}/{name}.py"
        for folder, row in re.findall(r"^\| `([\w/]+)/` \| (.*) \|$", text, re.MULTILINE)
        for names in re.findall(r"\(((?:`\w+`(?:, )?)+)\)", row)
        for name in re.findall(r"`(\w+)`", names)
    ]
    assert len(modules) > 40 and not [
        path for path in modules if not (ROOT / "autograder" / path).is_file()
    ]
