"""Without an install: a released notebook that was opened by itself fetches its files, and is
graded as any other.

Here the site of the course is a server of this machine, which writes down what it is asked for.
"""

import functools
import http.server
import io
import json
import subprocess
import sys
import threading
import zipfile
from types import SimpleNamespace

import nbformat
import pytest
import student
from toy_course import toy_course

from autograder.authoring import published, verified
from autograder.authoring.release import release
from autograder.course.cells import grade_id, is_skipped
from autograder.course.config import ROOT, UserError

pytestmark = pytest.mark.long

NAME = "01-toy"
ADDRESS = "https://github.com/owner/a-course"
# there each cell is run; nbclient would pass over the one that fetches
COLAB = {"skip_cells_with_tag": ""}


def configured(root, text):
    """Give a course a `_config.yml`."""
    (root / published.CONFIG).write_text(text, encoding="utf-8")
    return root


# The address.


@pytest.mark.parametrize(
    ("url", "repository", "site"),
    [
        ("", "", ""),
        (ADDRESS, "owner/a-course", "https://owner.github.io/a-course"),
        (f"{ADDRESS}.git", "owner/a-course", "https://owner.github.io/a-course"),
        ("github.com/Owner/a.course/", "Owner/a.course", "https://owner.github.io/a.course"),
        (
            "https://github.com/Owner/owner.github.io",
            "Owner/owner.github.io",
            "https://owner.github.io",
        ),
        ("https://example.org/owner/a-course", "", ""),
        ("https://github.com/owner", "", ""),
        ("https://github.com/owner/a-course/tree/main", "", ""),
    ],
)
def test_the_site_follows_from_the_repository(tmp_path, url, repository, site):
    root = configured(tmp_path, f'repository:\n  url: "{url}"\n')
    assert (published.repository(root), published.site(root)) == (repository, site)


@pytest.mark.parametrize(
    "text", [None, "", "repository:", "repository:\n  url:\n", "- a list", "repository: x"]
)
def test_a_course_without_a_book_or_an_address_is_published_nowhere(tmp_path, text):
    if text is not None:
        configured(tmp_path, text)
    assert published.repository(tmp_path) == published.site(tmp_path) == ""


def test_another_site_has_another_address(tmp_path):
    root = configured(
        tmp_path, f"html:\n  baseurl: https://example.org/book/\nrepository:\n  url: {ADDRESS}\n"
    )
    assert (
        published.site(root) == "https://example.org/book"
        and published.repository(root) == "owner/a-course"
    )


def test_what_is_no_yaml_is_one_line(tmp_path):
    with pytest.raises(UserError, match=r"_config\.yml is not YAML: ") as error:
        published.site(configured(tmp_path, "repository: [\n"))
    assert "\n" not in str(error.value)


# The cell.


def test_with_an_address_a_release_has_the_cell_behind_its_title_and_without_a_book_it_has_none(
    tmp_path,
):
    course = toy_course(configured(tmp_path, f"repository:\n  url: {ADDRESS}\n"))
    release(course, course.sources()[0])
    notebook = nbformat.read(course.exercises()[0].notebook, as_version=4)
    cell = notebook.cells[1]
    assert grade_id(cell) == cell.id == "fetch_files" and is_skipped(cell)
    assert 'fetch_files("https://owner.github.io/a-course/exercises/01-toy.zip")' in cell.source
    verified.note_release(course, course.sources()[0])
    assert verified.is_released(course, course.sources()[0])
    (course.root / published.CONFIG).unlink()
    assert not verified.is_released(course, course.sources()[0])
    release(course, course.sources()[0])
    without = nbformat.read(course.exercises()[0].notebook, as_version=4)
    assert [cell_before.id for cell_before in notebook.cells if cell_before is not cell] == [
        cell_without.id for cell_without in without.cells
    ]


@pytest.mark.parametrize("missing", [True, False])
def test_without_an_address_the_cell_says_in_one_line_that_the_checks_are_missing(
    tmp_path, monkeypatch, capsys, missing
):
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell("# Toy")])
    published.add_cell(notebook, configured(tmp_path, ""), "01-toy")
    assert notebook.cells[1].id == published.CELL and is_skipped(notebook.cells[1])
    monkeypatch.chdir(tmp_path)
    if not missing:
        (tmp_path / "checks.py").touch()
    names = {}
    exec(notebook.cells[1].source, names)
    assert set(names) == {"__builtins__"}
    output = (
        "checks.py is missing next to this notebook. Download the exercise from the book, or "
        "run: make release\n"
    )
    assert capsys.readouterr().out == (output if missing else "")


def test_an_author_may_not_have_a_cell_of_its_name(tmp_path):
    course = toy_course(tmp_path)
    text = course.sources()[0].text
    text.write_text(text.read_text().replace("# %% twice", "# %% fetch_files"))
    configured(course.root, f"repository:\n  url: {ADDRESS}\n")
    with pytest.raises(
        UserError, match="01-toy: 'fetch_files' is the title of a cell that release adds"
    ):
        release(course, course.sources()[0])


class Site(http.server.SimpleHTTPRequestHandler):
    """Serves a folder, and writes down what it was asked for."""

    def log_message(self, *args):
        self.server.asked.append(self.path)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A site: its address, its folder, and what it was asked for, a list to be emptied."""
    folder = tmp_path_factory.mktemp("site")
    with http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(Site, directory=str(folder))
    ) as server:
        server.asked = []
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield SimpleNamespace(
            address=f"http://127.0.0.1:{server.server_port}", folder=folder, asked=server.asked
        )
        server.shutdown()


@pytest.fixture
def fetched(site, tmp_path, monkeypatch, capsys):
    """A function that runs the cell in a folder with these files, the download having these
    members.
    """

    def fetch(members, **beside):
        site.asked.clear()
        (site.folder / "exercises").mkdir(exist_ok=True)
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as download:
            for name, text in members.items():
                download.writestr(zipfile.ZipInfo(name), text)
        (site.folder / "exercises" / "01-own.zip").write_bytes(packed.getvalue())
        folder = tmp_path / "outer" / "own"
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in beside.items():
            (folder / name.replace("_", ".")).write_text(text)
        monkeypatch.chdir(folder)
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell("# Toy")])
        published.add_cell(
            notebook, configured(tmp_path, f"html:\n  baseurl: {site.address}\n"), "01-own"
        )
        names = {}
        exec(notebook.cells[1].source, names)
        assert set(names) == {"__builtins__"}, (
            "a student could come to need what the cell leaves behind"
        )
        files = {
            path.relative_to(tmp_path / "outer").as_posix(): path
            for path in (tmp_path / "outer").rglob("*")
        }
        return {
            name: path.read_text() for name, path in files.items() if path.is_file()
        }, capsys.readouterr().out

    return fetch


WHOLE = {"01-own/01-own.ipynb": "theirs", "01-own/checks.py": "new", "01-own/checking.zip": "new"}


def test_what_is_missing_is_written_and_nothing_is_overwritten(fetched, site):
    files, output = fetched({**WHOLE, "01-own/data/a.csv": "1"}, **{"checks_py": "mine"})
    assert files == {"own/checks.py": "mine", "own/checking.zip": "new", "own/data/a.csv": "1"}
    assert (
        output == "Fetched the files that belong next to this notebook from "
        f"{site.address}/exercises/01-own.zip\n"
    )
    assert site.asked == ["/exercises/01-own.zip"]


def test_where_the_files_are_nothing_is_fetched(fetched, site):
    files, output = fetched(WHOLE, **{"checks_py": "mine", "checking_zip": "mine"})
    assert set(files.values()) == {"mine"} and not output and not site.asked


@pytest.mark.parametrize(
    "name",
    [
        "checks.py",
        "../evil",
        "01-own/../evil",
        "01-own/../../evil",
        "/tmp/evil",
        "01-own//evil",
        "01-own/.evil",
        "01-own/.ipython/evil.py",
        r"01-own/..\evil",
        "01-own/C:evil",
        "01-own/evil.ipynb",
        "01-own/evil/",
    ],
)
def test_only_plain_files_below_the_folder_are_written(fetched, name):
    files, _said = fetched({**WHOLE, name: "evil"})
    assert files == {"own/checks.py": "new", "own/checking.zip": "new"}


def test_a_failed_download_is_one_line_with_a_fix(fetched, site, monkeypatch):
    monkeypatch.setattr(site, "address", f"{site.address}/nowhere")
    files, output = fetched(WHOLE)
    assert not files and output.count("\n") == 1
    assert output.startswith(
        "checks.py and checking.zip are missing next to this notebook, and http://127.0.0.1:"
    )
    assert (
        "(HTTP Error 404: File not found)" in output
        and "put these two files next to the notebook" in output
    )


# A student in Colab: the notebook alone, in a real kernel.


@pytest.fixture(scope="module")
def course(site, tmp_path_factory):
    """The toy course, published on the site as the book publishes one."""
    root = configured(tmp_path_factory.mktemp("course"), f"html:\n  baseurl: {site.address}\n")
    course = toy_course(root)
    release(course, course.sources()[0])
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "book" / "_ext"))
        import theme
    sys.modules.pop("theme")
    theme.pack(course.exercises()[0].released, site.folder / "exercises" / f"{NAME}.zip")
    return course


@pytest.fixture
def solved(course):
    """The released notebook with the author's solutions."""
    exercise = course.exercises()[0]
    return student.answered(
        exercise.notebook, student.solutions(exercise.text.read_text(encoding="utf-8"))
    )


def said_by_the_cell(notebook):
    (cell,) = (cell for cell in notebook.cells if grade_id(cell) == published.CELL)
    assert all(output.output_type == "stream" for output in cell.outputs)
    return "".join(output.text for output in cell.outputs)


def all_points(notebook):
    return all(
        points == most and not errors
        for points, most, errors, _ in student.earned(notebook).values()
    )


@pytest.mark.slow
def test_alone_in_an_empty_folder_it_fetches_its_files_and_earns_all_points(
    course, solved, site, tmp_path
):
    site.asked.clear()
    executed = student.executed(solved, tmp_path, **COLAB)
    assert all_points(executed)
    assert said_by_the_cell(executed).startswith("Fetched ") and site.asked == [
        f"/exercises/{NAME}.zip"
    ]
    files = {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
    released = course.exercises()[0].released
    assert files.pop(".progress.json")  # of the checks that ran
    fetched_names = ("checks.py", "checking.zip", "exercise.json", "AGENTS.md")
    assert files == {name: (released / name).read_bytes() for name in fetched_names}
    site.asked.clear()  # and in a second kernel, where they are there
    again = student.executed(solved, tmp_path, **COLAB)
    assert all_points(again) and not said_by_the_cell(again) and not site.asked


@pytest.mark.slow
def test_alone_and_without_a_network_it_says_so_in_one_line(solved, site, tmp_path):
    solved.cells = solved.cells[:3]
    solved.cells[1].source = solved.cells[1].source.replace(site.address, "http://127.0.0.1:9")
    executed = student.executed(solved, tmp_path, **COLAB)
    output = said_by_the_cell(executed)
    assert (
        output.count("\n") == 1
        and "Connection refused" in output
        and "next to the notebook" in output
    )


# Grading.


@pytest.fixture
def handed_in(solved, tmp_path):
    """Submissions of the same answers: with the cell, without it, and with another one, as of
    another release.
    """

    def without(notebook):
        notebook.cells = [cell for cell in notebook.cells if grade_id(cell) != published.CELL]

    def other(notebook):
        notebook.cells[1].source = "# once more\nprint(1)"

    for name, change in {"with": lambda notebook: None, "without": without, "other": other}.items():
        notebook = nbformat.from_dict(json.loads(nbformat.writes(solved)))
        change(notebook)
        (tmp_path / name / NAME).mkdir(parents=True)
        nbformat.write(notebook, tmp_path / name / NAME / f"{NAME}.ipynb")
    return tmp_path


def ran(course, *arguments):
    command = [
        sys.executable,
        "-m",
        "autograder",
        *map(str, arguments),
        "--course",
        str(course.root),
    ]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.mark.usefixtures("isolated")
def test_a_grade_is_the_same_with_the_cell_and_without_it(course, handed_in, site):
    site.asked.clear()
    ran(course, "grade", "--submitted", handed_in)
    records, notes = {}, {}
    for name in ("with", "without", "other"):
        record = json.loads((course.autograded / name / NAME / "grade.json").read_text())
        records[name] = {
            cell: (result["points"], result["max_points"])
            for cell, result in record["cells"].items()
        }
        notes[name] = record["repairs"]
        assert not record["evidence"], "another release's cell is no attack"
        graded = nbformat.read(course.autograded / name / NAME / f"{NAME}.ipynb", as_version=4)
        assert not said_by_the_cell(graded)
    assert records["with"] == records["without"] == records["other"]
    assert [records["with"][cell] for cell in ("check_add", "check_twice")] == [(4, 4), (2, 2)]
    assert not notes["with"] and not notes["without"] and len(notes["other"]) == 1
    assert not site.asked


@pytest.mark.slow
def test_check_in_the_terminal_and_nbclient_pass_over_the_cell(course, handed_in, site, tmp_path):
    site.asked.clear()
    assert "6 of 6" in ran(course, "check", handed_in / "with" / NAME / f"{NAME}.ipynb")
    notebook = nbformat.read(handed_in / "with" / NAME / f"{NAME}.ipynb", as_version=4)
    notebook.cells = notebook.cells[:2]
    assert not said_by_the_cell(student.executed(notebook, tmp_path))
    assert not site.asked
