"""The written proof of exercise 2: graded by hand in nbgrader's formgrader, and added to the
checks' points.
"""

import csv
import functools
import os
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbgrader.api import Gradebook
from servers import FORMGRADER, jupyter
from typer.testing import CliRunner

from autograder import cli
from autograder.authoring import source
from autograder.authoring.release import release
from autograder.commands import console
from autograder.course.config import ROOT, Course

pytestmark = pytest.mark.long

NAME, PROOF = "02-scaling", "proof_variance"
WORDS = (
    "The entries are independent and have a common mean, so that $\\operatorname{Var}(q "
    "\\cdot k)$ is a sum."
)


@pytest.fixture(scope="module")
def course(isolated, tmp_path_factory):
    """A course with exercise 2 alone, graded: ada wrote code and proof, ben the code alone."""
    root = tmp_path_factory.mktemp("course")
    shutil.copy(ROOT / "nbgrader_config.py", root)
    shutil.copytree(ROOT / "solutions" / NAME, root / "solutions" / NAME)
    course = Course(root=root, output_folder=root)
    release(course, course.sources()[0])
    text = source.read(course.exercises()[0].text)
    solved = {cell.metadata.get("nbgrader", {}).get("grade_id"): cell.source for cell in text.cells}
    for student in ("ada", "ben"):
        notebook = nbformat.read(course.exercises()[0].notebook, as_version=4)
        for cell in notebook.cells:
            if cell.metadata.get("nbgrader", {}).get("solution") and cell.cell_type == "code":
                cell.source = solved[cell.metadata.nbgrader.grade_id]
            elif cell.metadata.get("nbgrader", {}).get("grade_id") == PROOF and student == "ada":
                cell.source = WORDS
        folder = root / "submitted" / student / NAME
        folder.mkdir(parents=True)
        nbformat.write(notebook, folder / f"{NAME}.ipynb")
    assert run(course, "grade", "--submitted", root / "submitted", "--into", root).exit_code == 0
    return course


def run(course, *arguments):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(console, "Course", functools.partial(Course, root=course.root))
        return CliRunner().invoke(cli.app, [str(argument) for argument in arguments])


def gradebook_of(course, student):
    """What the gradebook says: score, most, whether a person must look, and the proof's own
    grade.
    """
    with Gradebook(course.db_url, course.course_id) as book:
        submission = book.find_submission(NAME, student)
        proof = book.find_grade(PROOF, NAME, NAME, student)
        return (
            submission.score,
            submission.max_score,
            submission.needs_manual_grade,
            (proof.auto_score, proof.manual_score),
        )


@pytest.mark.slow
@pytest.mark.browser
def test_the_proof_is_graded_by_hand_and_added_to_the_rest(course, page):
    score, most, waits, proof = gradebook_of(course, "ada")
    with Gradebook(course.db_url, course.course_id) as book:
        worth = book.find_grade_cell(PROOF, NAME, NAME).max_score
        number = book.find_submission_notebook(NAME, NAME, "ada").id
    assert worth > 0 and waits and proof == (None, None) and score == most - worth
    # Who wrote nothing has nothing, and nobody needs to look.
    assert gradebook_of(course, "ben") == (most - worth, most, False, (0, None))
    assert (course.root / "exercises" / NAME / f"{NAME}.ipynb").read_text().count(
        "YOUR ANSWER HERE"
    ) == 1

    points, words = worth - 1.5, "Say where independence is used."
    with jupyter(course.root, "jupyter_server", FORMGRADER) as (address, token):
        page.goto(f"{address}login")
        page.locator("#password_input").fill(token)
        page.locator("#login_submit").click()
        page.goto(f"{address}formgrader/gradebook/{NAME}/{NAME}")
        page.get_by_text("Submission #1").first.wait_for()
        page.goto(f"{address}formgrader/submissions/{number}/?index=0")
        answer = page.locator(".nbgrader_cell", has=page.locator(f"#{PROOF}"))
        # What is typed before the page has its grades and comments goes nowhere.
        page.wait_for_function("formgrader.grades?.loaded && formgrader.comments?.loaded")
        assert "independent and have a common mean" in answer.inner_text()
        # without MathJax, which no network brings
        assert answer.locator("math mi", has_text="Var").count() == 1
        with page.expect_response(lambda r: "/api/grade/" in r.url and r.request.method == "PUT"):
            page.locator(f"#{PROOF}").fill(str(points))
            page.keyboard.press("Tab")
        with page.expect_response(lambda r: "/api/comment/" in r.url and r.request.method == "PUT"):
            page.locator(f"#{PROOF}-comment").fill(words)
            page.keyboard.press("Tab")
    assert gradebook_of(course, "ada") == (score + points, most, False, (None, points))

    # Grading again leaves it alone, and so does grading with force: the answer is the one that was
    # read.
    assert (
        run(
            course, "grade", "--submitted", course.root / "submitted", "--into", course.root
        ).exit_code
        == 0
    )
    assert gradebook_of(course, "ada") == (score + points, most, False, (None, points))
    assert run(course, "export", "--into", course.root).exit_code == 0
    with (course.root / "grades.csv").open(newline="") as file:
        rows = {row["student_id"]: row for row in csv.DictReader(file)}
    assert (
        float(rows["ada"]["score"]) == score + points
        and rows["ada"]["needs_manual_grade"] == "False"
    )
    assert run(course, "report", "--into", course.root).exit_code == 0
    assert ", needs a manual grade" not in (course.root / "report.html").read_text()

    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    command = [sys.executable, "-m", "nbgrader", "generate_feedback", NAME, "--force"]
    result = subprocess.run(
        command, cwd=course.root, env=environment, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr[-2000:]
    feedback = (course.root / "feedback" / "ada" / NAME / f"{NAME}.html").read_text()
    assert (
        words in feedback and f"<strong>{score + points:g}</strong> of {most:g} points" in feedback
    )

    assert (
        run(
            course,
            "grade",
            "--force",
            "--submitted",
            course.root / "submitted",
            "--into",
            course.root,
        ).exit_code
        == 0
    )
    assert gradebook_of(course, "ada") == (score + points, most, False, (None, points))
