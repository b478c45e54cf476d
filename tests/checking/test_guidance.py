"""What a student can ask for beside a check: where one stands, a hint at a time, a given cell, a
report as JSON.
"""

import json
import shutil

import nbformat
import pytest
from jupyter_client.manager import start_new_kernel
from playwright.sync_api import expect
from servers import jupyter
from toy_course import toy_course

from autograder.authoring.release import release
from autograder.checking import progress
from autograder.course import deadlines, seeds
from autograder.course.config import ROOT, Course, UserError

WRONG = "def add(a, b):\n    return a - b\n\n\ndef twice(a):\n    return a + a + 1"


def released(root, settings="", dates=""):
    """Return the released folder of a toy course with these settings and due dates."""
    toy = toy_course(root, settings)
    course = Course(root=toy.root, output_folder=toy.root)
    if dates:
        deadlines.path_of(course).write_text(dates, encoding="utf-8")
    (exercise,) = course.sources()
    return release(course, exercise)


class Notebook:
    """A kernel in an exercise's folder, where cells are run as a student runs them."""

    def __init__(self, folder):
        self.manager, self.client = start_new_kernel(kernel_name="python3", cwd=str(folder))

    def run(self, code):
        """Return what a cell shows, as text, and its reply."""
        shown = []

        def note(message):
            content = message["content"]
            if message["msg_type"] in ("display_data", "execute_result"):
                shown.append(content["data"]["text/plain"])
                assert "<script" not in content["data"].get("text/html", "")
            elif message["msg_type"] == "stream":
                shown.append(content["text"])
            elif message["msg_type"] == "error":
                shown.append(f"{content['ename']}: {content['evalue']}")

        reply = self.client.execute_interactive(code, timeout=1800, output_hook=note)
        return "\n".join(shown), reply["content"]

    def close(self):
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)


@pytest.fixture
def notebook():
    """Open a notebook in a folder; all are closed at the end."""
    opened = []

    def start(folder):
        opened.append(Notebook(folder))
        opened[-1].run("import checks")
        return opened[-1]

    yield start
    for opened_notebook in opened:
        opened_notebook.close()


@pytest.mark.slow
def test_status_has_each_exercise_of_the_folder_and_what_is_next(tmp_path, notebook):
    folder = released(
        tmp_path / "course", dates='timezone = "Europe/Berlin"\n[due]\n01-toy = 2026-12-01\n'
    )
    other = shutil.copytree(folder, folder.with_name("02-other"))
    opened = notebook(folder)
    assert "not checked yet" in opened.run("checks.status()")[0]
    opened.run(WRONG + '\nchecks.run("add", points=4)')
    opened.run('def twice(a):\n    return 2 * a\nchecks.run("twice", points=2)')
    output, _ = opened.run("checks.status()")
    lines = output.splitlines()
    assert lines[0].split() == ["Exercise", "Points", "Due", "Next"]
    assert (
        "3 of 6" in lines[1]
        and "2026-12-01 23:59 (UTC+01:00)" in lines[1]
        and "`add` (read: " in lines[1]
    )
    assert "not checked yet" in lines[2] and lines[2].rstrip().endswith("`add`")
    assert lines[3] == "3 of 12 points, as the checks last found them."
    opened.run('def add(a, b):\n    return a + b\nchecks.run("add", points=4)')
    assert "all checks pass" in opened.run("checks.status()")[0]
    checked = json.loads((folder / progress.CHECKED).read_text())
    assert checked == {"add": 4.0, "twice": 2.0}
    for text in ("[]", "{", '{"add": "x"}'):  # whatever became of the file
        (other / progress.CHECKED).write_text(text)
        output, reply = opened.run("checks.status()")
        assert reply["status"] == "ok" and "6 of 12 points" in output


@pytest.mark.slow
def test_hints_are_shown_one_at_a_time_and_begin_again_for_another_check(tmp_path, notebook):
    opened = notebook(released(tmp_path / "course"))
    opened.run(WRONG + '\nchecks.run("add", points=4)')
    first, second, third = (opened.run('checks.hint("add")')[0] for _ in range(3))
    assert first.startswith("`add`: 1 of 3 hints\n1. Read: ") and "Run the same line again" in first
    assert (
        "2. " in second and "First wrong element" not in first and "subtract" not in first + second
    )
    assert (
        "3. Likely cause: subtracted instead of added. You subtract." in third
        and "Run the same line again" not in third
    )
    assert opened.run('checks.hint("add")')[0] == third
    fixed = opened.run('def add(a, b):\n    return a + b\nchecks.hint("add")')[0]
    assert fixed == "`add`: all checks pass; there is nothing to fix."
    assert opened.run(WRONG + '\nchecks.hint("add")')[0] == first
    output, reply = opened.run('checks.hint("ad")')
    assert output == "There is no function `ad` here. There is: `add`." and reply["status"] == "ok"


@pytest.mark.slow
def test_a_course_can_have_its_checks_leave_causes_to_hints(tmp_path, notebook):
    opened = notebook(released(tmp_path / "course", '\nc.Course.hints = "staged"\n'))
    output, _ = opened.run(WRONG + '\nchecks.run("add", points=4)')
    assert "FAILED" in output and 'For a hint: `checks.hint("add")`' in output
    assert (
        "subtract" not in output and "First wrong element" not in output and "Read:" not in output
    )
    assert "subtract" not in opened.run('checks.run("add", points=4, as_json=True)')[0]
    for _ in range(3):
        output, _ = opened.run('checks.hint("add")')
    assert "You subtract." in output


def test_another_time_for_hints_is_refused(tmp_path):
    with pytest.raises(
        UserError, match=r'c\.Course\.hints should be "at once" or "staged", but ' r"is \'never\'"
    ):
        _ = toy_course(tmp_path, '\nc.Course.hints = "never"\n').config


@pytest.mark.slow
def test_reset_puts_the_given_text_into_a_new_cell_and_changes_no_file(tmp_path, notebook):
    folder = released(tmp_path / "course")
    before = (folder / "01-toy.ipynb").read_bytes()
    opened = notebook(folder)
    output, reply = opened.run('checks.reset("add")')
    (payload,) = reply["payload"]
    assert payload["source"] == "set_next_input" and not payload["replace"]
    assert (
        payload["text"].startswith("def add(a, b):")
        and "raise NotImplementedError()" in payload["text"]
    )
    assert (
        "is in a new cell below. Your own cell" in output
        and (folder / "01-toy.ipynb").read_bytes() == before
    )
    (folder / progress.RELEASED).unlink()
    output, reply = opened.run('checks.reset("add")')
    assert "exercise.json is missing" in output and not reply["payload"]
    assert "exercise.json is missing" in opened.run("checks.status()")[0]


@pytest.mark.slow
def test_a_report_as_json_has_what_a_tutor_starts_from(tmp_path, notebook):
    opened = notebook(released(tmp_path / "course"))
    output, _ = opened.run(WRONG + '\nchecks.run("add", points=4, seed=3, as_json=True)')
    report = json.loads(output.rsplit("}", 1)[0] + "}")
    assert (report["function"], report["seed"], report["points"]) == ("add", 3, 4)
    failed = [check for check in report["checks"] if check["status"] == "failed"]
    assert (
        failed
        and failed[0]["shapes"]
        and failed[0]["first_wrong"].keys() == {"index", "expected", "got"}
    )
    assert failed[0]["cause"] == "subtracted instead of added. You subtract."


def test_other_files_next_to_a_notebook_do_not_outdate_its_grade(tmp_path):
    folder = released(tmp_path / "course")
    (exercise,) = Course(root=tmp_path / "course").exercises()
    version = seeds.version_of(exercise)
    about = json.loads((folder / progress.RELEASED).read_text(encoding="utf-8"))
    assert (
        about["title"] == {"en": "Toy"}
        and about["points"] == {"add": 4, "twice": 2}
        and "due" not in about
    )
    assert "01-toy.ipynb" in (folder / "AGENTS.md").read_text(encoding="utf-8")
    (folder / progress.RELEASED).write_text("{}")
    (folder / progress.CHECKED).write_text("{}")
    (folder / "AGENTS.md").unlink()
    assert seeds.version_of(exercise) == version
    (folder / "checks.py").write_text("")
    assert seeds.version_of(exercise) != version


def test_every_exercise_gives_each_of_its_functions_in_each_language():
    for path in sorted((ROOT / "exercises").glob("*/exercise.json")):
        about = json.loads(path.read_text(encoding="utf-8"))
        for language in ("en", "zh-CN"):
            assert about["title"][language]
            given_cells = about["given"][language]
            assert given_cells.keys() == about["points"].keys(), path
            assert all("YOUR CODE HERE" in text for text in given_cells.values()), path


@pytest.mark.slow
@pytest.mark.browser
def test_jupyterlab_shows_the_given_text_in_a_new_cell(tmp_path, page):
    folder = released(tmp_path / "course")
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    cell = nbformat.v4.new_code_cell('import checks\n\nchecks.status()\nchecks.reset("add")')
    notebook = nbformat.v4.new_notebook(cells=[cell], metadata={"kernelspec": kernel})
    nbformat.write(notebook, folder / "own.ipynb")
    with jupyter(folder, "jupyterlab") as (address, token):
        page.goto(f"{address}lab/tree/own.ipynb?reset&token={token}")
        cells = page.locator(".jp-Notebook .jp-CodeCell .cm-content")
        cells.first.click(timeout=60_000)
        for _ in range(6):  # Lab drops a run that comes before its kernel is ready
            if cells.count() > 1:
                break
            page.keyboard.press("Control+Enter")
            page.wait_for_timeout(5_000)
        expect(cells).to_have_count(2)
        expect(cells.nth(1)).to_contain_text("raise NotImplementedError()")
        expect(page.locator(".jp-OutputArea").first).to_contain_text("0 of 6 points")
        page.screenshot(path=tmp_path / "lab.png")
