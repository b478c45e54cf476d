"""What `exercise.toml` may say, what it changes, and how a fault in it is named."""

import nbformat
import pytest
from hostile.case import Case
from toy_course import toy_course
from typer.testing import CliRunner

from autograder import cli
from autograder.authoring.release import release
from autograder.commands import doctor
from autograder.course import seeds
from autograder.course.config import ROOT, Course, Exercise, Settings, UserError
from autograder.course.limits import Limits
from autograder.grades import gradebook
from autograder.grades.results import Kind
from autograder.grading.worker_config import WorkerConfig

FAULTS = {
    "gpu = ": "is not TOML",
    "limit = 3": "has limit, but there is no such key. Did you mean limits? The keys are: gpu, "
    "limits, packages,",
    "title = 'x'": "has title, but there is no such key. The title is the first heading of the "
    "exercise's notebook",
    "gpu = 'yes'": "gpu should be true or false, but is 'yes'.",
    "packages = 'einops'": "packages should be a list, but is 'einops'.",
    "packages = ['scikit-learn']": "packages should name packages as Python imports them, such as "
    "'einops', but has",
    "[race]\nrival = 3": "race.rival should be text, but is 3.",
    "[race]\nvalues = [32, 'x']": "race.values should be a list of whole numbers, but is [32, "
    "'x'].",
    "[race]\nrival = 'x'": "[race] has no functions. It needs: functions, rival, setting, values, "
    "lengths,",
    "limits = 3": "limits should be a table, but is 3.",
    "[limits]\ncpu = 3": "has limits.cpu, but there is no such key.",
    "[limits]\nmemory_mb = 0.5": "limits.memory_mb should be a whole number above 0, but is 0.5.",
    "[limits]\nmemory_mb = true": "limits.memory_mb should be a whole number above 0, but is True.",
    "[limits]\ncpu_seconds = -1": "limits.cpu_seconds should be a number above 0, but is -1.",
    "[limits]\nrun_all_cells = 1": "limits.run_all_cells should be true or false, but is 1.",
}


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    """A released course of one small exercise, which allows two limits less and prints them."""
    course = toy_course(tmp_path_factory.mktemp("course"))
    settings = "[limits]\ndescriptors = 99\noutput_kb = 1"
    (course.sources()[0].solution / "exercise.toml").write_text(settings, encoding="utf-8")
    release(course, course.sources()[0])
    return course


def test_without_a_file_all_has_its_default(tmp_path):
    assert Settings.read(tmp_path) == Settings(False, "", {})
    assert Exercise("01-none", tmp_path).title == "01-none"


def test_what_it_says_is_read(tmp_path):
    settings = "gpu = true\nrehearsal = 'import json'\n[limits]\ncpu_seconds = 5\nmemory_mb = 7"
    (tmp_path / "exercise.toml").write_text(settings, encoding="utf-8")
    assert Settings.read(tmp_path) == Settings(
        True, "import json", {"cpu_seconds": 5, "memory_mb": 7}
    )


@pytest.mark.parametrize("settings", FAULTS)
def test_a_fault_is_one_line_that_names_file_and_key(tmp_path, settings):
    folder = tmp_path / "solutions" / "01-toy"
    folder.mkdir(parents=True)
    (folder / "exercise.toml").write_text(settings, encoding="utf-8")
    with pytest.raises(UserError) as error:
        Settings.read(folder)
    line = str(error.value)
    assert (
        line.startswith("solutions/01-toy/exercise.toml")
        and FAULTS[settings] in line
        and "\n" not in line
    )


def test_a_title_is_the_notebooks_first_heading(course, tmp_path):
    notebook = course.exercises()[0].notebook
    there = Exercise("01-toy", tmp_path)
    there.released.mkdir(parents=True)
    cells = [
        nbformat.v4.new_code_cell("# no heading"),
        nbformat.v4.new_markdown_cell("# 1. Adding \n\nText.\n# More"),
    ]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), there.notebook)
    assert there.title == "1. Adding"
    heading = next(
        cell.source for cell in nbformat.read(notebook, 4).cells if cell.source.startswith("# ")
    )
    assert course.exercises()[0].title == heading.partition("\n")[0].removeprefix("# ")


@pytest.mark.parametrize("exercise", Course().sources(), ids=lambda exercise: exercise.name)
def test_an_exercise_is_called_what_its_chapter_is(exercise):
    """The notebook's heading, as it is written and as it is released, has the chapter's number
    and title.
    """
    page = (ROOT / "book" / f"{exercise.name}.md").read_text(encoding="utf-8")
    title = next(line.removeprefix("# ") for line in page.splitlines() if line.startswith("# "))
    called = f"{int(exercise.name[:2])}. {title}"
    assert exercise.text.read_text(encoding="utf-8").splitlines()[1] == f"# # {called}"
    assert exercise.title == called


def test_a_limit_makes_no_grade_out_of_date(course):
    exercise = course.exercises()[0]
    before, path = seeds.version_of(exercise), exercise.released / "exercise.toml"
    text = path.read_text(encoding="utf-8")
    path.write_text("[limits]\ndescriptors = 98", encoding="utf-8")
    assert seeds.version_of(exercise) == before
    path.write_text(text, encoding="utf-8")


def test_limits_hold_for_this_exercise_alone(course):
    setting = WorkerConfig(str(course.root), ("01-toy",), Limits())
    assert setting.limits_of("01-toy") == Limits(descriptors=99, output_kb=1)
    assert setting.limits.descriptors != 99


LOOKS = """
import resource
print("files", resource.getrlimit(resource.RLIMIT_NOFILE)[0], "x" * 5000)
def add(a, b):
    return a + b
"""


@pytest.mark.parametrize("sandbox", [pytest.param(True, marks=pytest.mark.slow), False])
def test_limits_reach_a_guest(request, course, tmp_path, sandbox):
    """In the sandbox the kernel knows this exercise's limit, and without one what is kept of
    outputs is bounded.
    """
    if sandbox:
        request.getfixturevalue("isolated")
    exercise = course.exercises()[0]
    Case("ada", 0, "", {}, Kind.RIGHT, cells={"add": LOOKS}).write(
        exercise.notebook, tmp_path / "submitted"
    )
    arguments = [
        "--course",
        course.root,
        "--submitted",
        tmp_path / "submitted",
        "--into",
        tmp_path / "own",
    ]
    arguments += [] if sandbox else ["--no-sandbox"]
    result = CliRunner().invoke(cli.app, ["grade", *map(str, arguments)])
    assert result.exit_code == 0, result.output
    graded = nbformat.read(
        tmp_path / "own" / "autograded" / "ada" / "01-toy" / "01-toy.ipynb", as_version=4
    )
    printed = next(cell for cell in graded.cells if cell.id == "add").outputs[0].text
    assert 500 < len(printed) < 1200
    assert ("files 99 " in printed) == sandbox


def test_an_exercise_that_needs_a_gpu_says_where_there_is_none(course, tmp_path, monkeypatch):
    exercise = Exercise("01-toy", tmp_path)
    exercise.released.mkdir(parents=True)
    (exercise.released / "exercise.toml").write_text("gpu = true", encoding="utf-8")
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    (line,) = doctor.missing_gpu([exercise, course.exercises()[0]])
    assert line.startswith("01-toy needs a GPU") and "not verified" in line
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    assert doctor.missing_gpu([exercise]) == []


@pytest.mark.slow
def test_doctor_looks_at_the_course_that_is_named(course):
    result = CliRunner().invoke(cli.app, ["doctor", "--course", str(course.root)])
    assert "01-toy" in result.output and "01-qkv" not in result.output


CONFIG_FAULTS = {
    'c.Limits.cpu_seconds = "120"': ": c.Limits.cpu_seconds should be a number above 0, but is "
    "'120'.",
    "c.Limits.memory_mb = 0": ": c.Limits.memory_mb should be a whole number above 0, but is 0.",
    "c.Limits.idle_seconds = -5": ": c.Limits.idle_seconds should be a number above 0, but is -5.",
    "c.Limits.cpu_secconds = 5": " has c.Limits.cpu_secconds, but there is no such key. Did you "
    "mean cpu_seconds?",
    "c.Limit.cpu_seconds = 5": " has c.Limit, which has no effect. Did you mean c.Limits?",
    "c.limits.cpu_seconds = 5": " has c.limits, which has no effect. Did you mean c.Limits?",
    "this is no python": ", line 2 cannot be run: SyntaxError: invalid syntax.",
    "import nope": ", line 2 cannot be run: ModuleNotFoundError: No module named 'nope'.",
}


@pytest.mark.parametrize("settings", CONFIG_FAULTS)
def test_a_fault_in_the_configuration_is_one_line(tmp_path, settings):
    course = Course(tmp_path)
    (tmp_path / "nbgrader_config.py").write_text(
        f"c = get_config()\n{settings}\n", encoding="utf-8"
    )
    with pytest.raises(UserError) as error:
        _ = course.config
    assert str(error.value).startswith(
        f"nbgrader_config.py{CONFIG_FAULTS[settings]}"
    ) and "\n" not in str(error.value)
    (finding,) = doctor._configuration(tmp_path)
    assert (finding.state, finding.note) == ("missing", str(error.value))


@pytest.mark.parametrize(
    "settings",
    [
        'c.LateSubmissionPlugin.penalty_method = "half"',
        'c.AssignLatePenalties.plugin_class = "nope.X"',
    ],
)
def test_a_rule_for_late_work_that_is_none_is_one_line(tmp_path, settings):
    course = toy_course(tmp_path, f"\n{settings}\n")
    with (
        gradebook.opened(course) as book,
        pytest.raises(UserError, match=r"nbgrader_config\.py.* c\.LateSubm") as error,
    ):
        gradebook.Writer(course, book)
    assert "Traceback" not in str(error.value)
