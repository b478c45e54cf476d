"""A new exercise works as it is made: it is verified, released, and its listed answers do what the tests ask for."""

import shutil

import pytest
import test_exercises
from test_released_answers import answers_in_text
from typer.testing import CliRunner

from autograder import cli
from autograder.authoring import loader, verify
from autograder.course import ROOT, Course, Settings


@pytest.fixture
def course(tmp_path):
    shutil.copy(ROOT / "nbgrader_config.py", tmp_path)
    return Course(root=tmp_path)


def run(course, *arguments):
    return CliRunner().invoke(cli.app, [*arguments, "--course", str(course.root)])


def test_a_new_exercise_can_be_released(course):
    done = run(course, "new", "06-multi-head")
    assert done.exit_code == 0 and "python -m autograder release 06-multi-head" in done.output
    folder = course.root / "solutions" / "06-multi-head"
    text = (folder / "06-multi-head.py").read_text(encoding="utf-8")
    assert text.startswith("# %% title [markdown]\n# # 6. Multi head\n") and "## 6.1 `centred`" in text
    assert "TITLE" not in text and "name" not in {path.stem for path in folder.iterdir()}
    assert Settings.read(folder).title == "Multi head"
    assert run(course, "release").exit_code == 0
    assert course.title_of("06-multi-head") == "Multi head"
    assert answers_in_text(course.exercises()[0]) == []
    assert "YOUR CODE" in course.exercises()[0].notebook.read_text(encoding="utf-8").upper()


def test_its_lists_do_what_the_tests_ask_for(course):
    """Each wrong answer is told its own hint, and each check is failed by one of them."""
    run(course, "new", "06-multi-head")
    folder = course.root / "solutions" / "06-multi-head"
    assert verify.fault(folder) == ""
    exercise = loader.load(folder)
    idle = {check.__name__ for check in exercise.suite.checks}
    for subject in exercise.subjects:
        for wrong, failed in loader.caught(exercise, subject, seed=0):
            assert failed and failed[0].cause == wrong.__name__
            idle -= {result.name for result in failed}
    assert not idle
    # What every exercise has beside its functions.
    test_exercises.test_time_and_difficulty_stand_below_each_heading(folder)
    test_exercises.test_a_question_for_a_pencil_comes_first_and_costs_nothing(folder)


@pytest.mark.parametrize(
    "name", ["multi-head", "6-multi", "06_multi", "06-Multi", "06-", "../06-x", "06-multi--head"]
)
def test_a_bad_name_is_refused_with_one_line(course, name):
    done = run(course, "new", name)
    assert done.exit_code == 1 and "is no name for an exercise" in str(done.exception)
    assert not (course.root / "solutions").exists()


def test_what_is_there_stays(course, tmp_path):
    kept = course.root / "solutions" / "06-multi-head"
    kept.mkdir(parents=True)
    done = run(course, "new", "06-multi-head")
    assert done.exit_code == 1 and "is there already" in str(done.exception) and not list(kept.iterdir())


def test_a_folder_that_is_no_course_is_refused(tmp_path):
    done = run(Course(root=tmp_path), "new", "06-multi-head")
    assert done.exit_code == 1 and "is no course" in str(done.exception) and not list(tmp_path.iterdir())
