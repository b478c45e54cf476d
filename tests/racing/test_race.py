"""A race over a class: who takes part, what is counted or timed, the ranking, and entrants that
cheat or die.
"""

import copy
import csv
import os
import shutil
import subprocess
import sys
from types import SimpleNamespace

import nbformat
import pytest
import torch

from autograder.authoring.answer_cells import AnswerCells
from autograder.checking import machine
from autograder.checking.words import Message
from autograder.course.config import ROOT, Course, UserError
from autograder.course.limits import Limits
from autograder.grades.records import to_text
from autograder.grades.results import CellResult, Kind, Record
from autograder.grading import submissions
from autograder.grading.worker_config import WorkerConfig
from autograder.racing import laps, laps_in_guest, race

pytestmark = pytest.mark.long

NAME = "11-gpu"
FORWARD, BOTH = "flash_attention_forward", "flash_attention"
SMALL = {
    "torch.randn(1, 16, n, 64)": "torch.randn(1, 1, n, 16)",
    "[1024, 4096, 8192]": "[32]",
}
# In the race alone, a function finds itself called by one of these functions of the guest's
# program.
CALLED_BY = """

import os
import sys
import time

_attend = flash_attention_forward


def flash_attention_forward(q, k, v, causal=False):
    frame = sys._getframe()
    while frame:
        if frame.f_code.co_name == "counts":
            {act}
        frame = frame.f_back
    return _attend(q, k, v, causal)
"""


@pytest.fixture(scope="module", autouse=True)
def triton():
    """Triton is installed, where there is one for this machine."""
    if machine.lacks("triton"):
        pytest.skip("not verified here: no triton, which is made for Linux on x86-64")


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    """A course with exercises 1 and 11, whose race is small; and a class."""
    root = tmp_path_factory.mktemp("course")
    shutil.copy(ROOT / "nbgrader_config.py", root)
    for name in ("01-qkv", NAME):
        shutil.copytree(ROOT / "exercises" / name, root / "exercises" / name)
    shutil.copytree(ROOT / "solutions" / NAME, root / "solutions" / NAME)
    path = root / "exercises" / NAME / "exercise.toml"
    text = (ROOT / "solutions" / NAME / "exercise.toml").read_text(encoding="utf-8")
    for before, after in SMALL.items():
        assert before in text
        text = text.replace(before, after)
    path.write_text(f"{text}\n[limits]\nidle_seconds = 4.0\n", encoding="utf-8")
    course = Course(root=root, output_folder=root / "into")
    write_class(course)
    return course


def write_class(course):
    """Write what eight students handed in, and their records: all but two have one with all
    points so far.
    """
    answers = AnswerCells(
        ROOT / "solutions" / NAME, nbformat.read(course.exercises([NAME])[0].notebook, as_version=4)
    )
    forward, both = (answers.solutions[name] for name in (FORWARD, BOTH))
    slow = both.replace("begin = first", "begin = 0")
    wrong = forward.replace("acc * shrink[:, None]", "acc")
    assert slow != both and wrong != forward
    nonsense = CALLED_BY.format(act='frame.f_locals["forward"].update(loaded=float("nan"))')
    for student, cells in {
        "ada": (forward, both),
        "boris": (forward, slow),
        "chen": (wrong, both),
        "dora": (wrong, both),
        "emil": (forward, both),
        "fritz": (forward, both),
        "grit": (forward + nonsense, both),
        "hugo": (
            forward + CALLED_BY.format(act="os._exit(3) if BLOCK == 32 else time.sleep(99)"),
            both,
        ),
    }.items():
        notebook = copy.deepcopy(answers.released)
        written = dict(zip((FORWARD, BOTH), cells, strict=True))
        for cell in notebook.cells:
            cell.source = written.get(
                cell.metadata.get("nbgrader", {}).get("grade_id"), cell.source
            )
        folder = course.submitted / student / NAME
        folder.mkdir(parents=True)
        nbformat.write(notebook, folder / f"{NAME}.ipynb")
    for submission in submissions.find(course.exercises([NAME]), course.submitted):
        if submission.student != "fritz":
            lost = 1.0 if submission.student == "dora" else 0.0
            digest = submission.read(Limits()).digest if submission.student != "emil" else "another"
            write_record(course, submission.student, digest, lost)


def write_record(course, student, digest, lost=0.0):
    """Write the record of a grade: pending points do not count as lost."""
    cells = {
        f"check_{FORWARD}": CellResult(8.2 - lost, 9.0, subject=FORWARD, pending=0.8),
        f"check_{BOTH}": CellResult(6.4, 7.0, subject=BOTH, pending=0.6),
        "check_MultiHeadLayer": CellResult(0.0, 8.0, subject="MultiHeadLayer"),
    }
    record = Record(
        student, NAME, digest, "v1", 1, True, "2026-11-27T09:30:00+00:00", Kind.WRONG, Message(""),
        [], [], cells,
        14.6 - lost, 24.0,
    )  # fmt: skip
    path = course.paths_of(student, NAME).record
    path.parent.mkdir(parents=True)
    path.write_text(to_text(record), encoding="utf-8")


def rows(course):
    with (course.output_folder / "race.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def run(course, *arguments):
    command = [sys.executable, "-m", "autograder", "race", *arguments, "--course", str(course.root)]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "COLUMNS": "200"}
    result = subprocess.run(
        [*command, "--into", str(course.output_folder)],
        cwd=course.root,
        env=environment,
        capture_output=True,
        text=True,
    )
    return result.returncode, result.stdout, result.stderr


@pytest.fixture(scope="module")
def raced(isolated, course):
    """What the command printed without a GPU."""
    if torch.cuda.is_available():
        pytest.skip("not verified here: kernels are counted where there is no GPU")
    status, printed, errors = run(course, NAME)
    assert status == 0, errors
    return printed


def test_a_class_is_ranked_by_the_bytes_that_its_kernels_move(raced, course):
    """Boris's kernel reads tiles that are masked anyway; the course's own is like ada's, and
    shares her place.
    """
    best = [row for row in rows(course) if row["best"] == "1" and row["n"] == "64"]
    assert [(row["rank"], row["entrant"], row["is_course"]) for row in best[::2]] == [
        ("1", "ada", "0"), ("1", race.COURSE, "1"), ("3", "boris", "0"),
    ]  # fmt: skip
    # One program with a tile of 64 x 16 numbers of 2 bytes for each of q, k and v; it also stores
    # 64 float32.
    assert {name: int(best[0][name]) for name in race.COUNTS} == {
        "launches": 1, "programs": 1, "loaded": 3 * 2048, "stored": 2048 + 256, "products": 2,
    }  # fmt: skip
    smaller = next(row for row in rows(course) if row["BLOCK"] == "32" and row["n"] == "64")
    assert (smaller["programs"], smaller["products"], smaller["loaded"]) == (
        "2",
        "6",
        str(2048 + 2 * 3 * 1024),
    )
    assert "nothing was timed" in raced and "Nothing was timed" in page(course)


def page(course):
    return (course.output_folder / "race.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", [race.COURSE, "The Course’s Own", "the course's\u200b own "])
def test_a_student_with_the_name_of_the_course_entry_is_marked(name):
    assert (
        race._name_of(name).lower().rstrip().endswith("own (a student)")
        and race._name_of("ada") == "ada"
    )


def test_each_student_who_is_left_out_is_named_with_the_reason(raced, course):
    reasons = {row["entrant"]: row["reason"] for row in rows(course) if not row["rank"]}
    assert reasons.keys() == {"chen", "dora", "emil", "fritz", "grit", "hugo"}
    assert reasons["chen"].startswith(
        f"Checked again on this machine: {FORWARD} lost points: likely cause: "
    )
    assert reasons["dora"].startswith(f"{FORWARD} lost points")
    assert reasons["emil"] == "It has changed since it was graded; grade it again first."
    assert reasons["fritz"] == "It has no grade yet."
    assert reasons["grit"] == "With BLOCK = 32: Its counts are not all whole numbers."
    assert reasons["hugo"].startswith(
        "With BLOCK = 32: Its process was stopped: it ended Python, with exit status 3"
    )
    for student in reasons:
        assert student in raced and f">{student}<" in page(course)


def test_a_race_changes_no_grade(raced, course):
    assert not course.gradebook.exists() and not course.feedback.exists()
    assert sorted(path.name for path in course.output_folder.iterdir()) == [
        "autograded",
        "race.csv",
        "race.html",
    ]


class Chosen(race.Contest):
    """A race of two, timed on a CPU, as if it were a GPU."""

    def choose_sandbox(self):
        super().choose_sandbox(True, lambda line: None)
        self.mode = laps.Mode("cpu", "float16", timed=True)
        self.entrants = [entrant for entrant in self.entrants if entrant.name in ("ada", "boris")]


def test_kernels_are_timed_beside_pytorchs_in_one_process(isolated, course, tmp_path, monkeypatch):
    """All but the device is as on a GPU. Boris's clock tells nonsense, in his own process."""
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\necho '1980, 45, 210.55, 0x4'\nexec sleep 60\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    contest = Chosen(course, course.exercises([NAME])[0], course.submitted)
    contest.choose_sandbox()
    (boris,) = [entrant for entrant in contest.entrants if entrant.name == "boris"]
    notebook = nbformat.reads(boris.unit.data.decode(), as_version=4)
    (cell,) = [
        cell for cell in notebook.cells if cell.metadata.get("nbgrader", {}).get("grade_id") == BOTH
    ]
    cell.source += (
        "\n\nimport itertools, time\ntime.perf_counter = itertools.count(0.0, 1e6).__next__"
    )
    boris.unit.data = nbformat.writes(notebook).encode()
    with contest:
        steps = list(contest.run())
    assert steps == ["ada, BLOCK = 32", "ada, BLOCK = 64", "boris, BLOCK = 32", "boris, BLOCK = 64"]
    (placed,) = contest.placed()
    assert [(measurement.part, measurement.n) for measurement in placed.lap.measured] == [
        (part, 32) for part in laps.PARTS
    ]
    ratios = [measurement.milliseconds / measurement.rival for measurement in placed.lap.measured]
    assert min(ratios) > 1, "an interpreter is slower than PyTorch"
    assert placed.score == pytest.approx((ratios[0] * ratios[1]) ** 0.5)
    assert placed.lap.conditions["slowed_by"] == ["power cap"]
    reasons = {entrant.student: entrant.reason for entrant in contest.left_out}
    assert (
        reasons["boris"] == "With BLOCK = 32: Its times are not all between 0.001 and 1e+06 "
        "milliseconds."
    )
    race.write_page(contest, tmp_path / "race.html")
    race.write_csv(contest, tmp_path / "race.csv")
    text = (tmp_path / "race.html").read_text(encoding="utf-8")
    assert (
        "1980 MHz, up to 45 °C and 211 W, slowed by power cap" in text
        and "Nothing was timed" not in text
    )
    assert "rival_milliseconds" in (tmp_path / "race.csv").read_text(encoding="utf-8")


def test_on_a_gpu_events_are_read_after_all_calls_and_the_cache_is_cleared(monkeypatch):
    """The calls of two functions take turns, each between two events, after a write to a cache's
    worth of memory.
    """
    order = []

    class Event:
        def __init__(self, enable_timing):
            assert enable_timing

        def record(self):
            order.append("event")
            self.time = len(order)

        def elapsed_time(self, end):
            assert order[-1] == "synchronize"
            return end.time - self.time

    cache = SimpleNamespace(zero_=lambda: order.append("clear"))
    cuda = SimpleNamespace(Event=Event, synchronize=lambda: order.append("synchronize"))
    fake_torch = SimpleNamespace(
        cuda=cuda, int8=torch.int8, empty=lambda size, dtype, device: cache
    )
    monkeypatch.setattr(laps_in_guest, "torch", fake_torch)
    monkeypatch.setattr(laps_in_guest, "WARM_UP", 0)
    monkeypatch.setattr(laps_in_guest, "SECONDS", 0)
    runs = [lambda: order.append("own"), lambda: order.append("rival")]
    times = laps_in_guest._in_turn(runs, "cuda")
    assert times == [[2.0] * laps_in_guest.LEAST] * 2
    turn = ["clear", "event", "own", "event", "clear", "event", "rival", "event"]
    assert order[-1 - len(turn) * laps_in_guest.LEAST :] == turn * laps_in_guest.LEAST + [
        "synchronize"
    ]


def test_kernels_are_timed_where_guests_can_use_a_gpu(course, monkeypatch):
    monkeypatch.setattr(machine, "has", lambda need: True)
    works = {"gpu": "", "triton": "", "bf16": ""}

    def mode(**faults):
        return race.mode_of(
            WorkerConfig(
                str(course.root), (NAME,), Limits(), trial_results=tuple((works | faults).items())
            )
        )

    assert mode() == laps.Mode("cuda", "bfloat16", timed=True)
    assert mode(bf16="PTXASError") == laps.Mode("cuda", "float16", timed=True)
    assert mode(gpu="no device", bf16="no device") == laps.Mode("cpu", "float16", timed=False)
    with pytest.raises(
        UserError, match="No kernel can run here, so there is no race: gcc ended with status 1"
    ):
        mode(triton="gcc ended with status 1")


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ([1.0] * 4, "could not be read"),
        ([1.0] * 101, "could not be read"),
        ({"a": 1}, "could not be read"),
        ([1.0, 1.0, 1.0, 1.0, float("nan")], "not all between"),
        ([1.0, 1.0, 1.0, 1.0, 0.0], "not all between"),
        ([1.0, 1.0, 1.0, 1.0, "1"], "not all between"),
        ([True] * 5, "not all between"),
    ],
)
def test_times_are_bounded_numbers(answer, reason):
    with pytest.raises(laps.Dropped, match=reason):
        laps._median(answer)
    assert laps._median([1.0, 2.0, 3.0, 4.0, 500.0]) == 3.0


def test_counts_are_whole_numbers_of_kernels_that_do_the_work():
    right = dict.fromkeys(laps_in_guest.COUNTED, 100)
    assert laps._counts(right, 100, 100) == right
    wrong = (
        {"more": 1},
        {"loaded": 99},
        {"stored": 99},
        {"programs": -1},
        {"products": 2**60},
        {"launches": True},
    )
    for answer in ({}, [], *[right | change for change in wrong]):
        with pytest.raises(laps.Dropped):
            laps._counts(answer, 100, 100)


RIGHT = {
    "inputs": lambda n: [torch.randn(n, 4), torch.randn(n, 4)],
    "rival": lambda x, y: x.softmax(-1) * y,
}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda results: tuple(results), "^Its results could not be read.$"),
        (lambda results: results[:-1], "^Its results could not be read.$"),
        (
            lambda results: [None, *results[1:]],
            f"^It returned no tensor .* for the output of {FORWARD}.$",
        ),
        (lambda results: [*results[:3], results[3].T], "right shape for the gradient of input 2.$"),
        (
            lambda results: [*results[:3], results[3].double()],
            "right shape for the gradient of input 2.$",
        ),
        (
            lambda results: [results[0], 1.1 * results[1], *results[2:]],
            f"^The output of {BOTH} is wrong, by 0.1 of its",
        ),
        (
            lambda results: [*results[:2], results[2] / 0, results[3]],
            "^The gradient of input 1 is wrong, by (nan|inf) ",
        ),
    ],
)
def test_results_are_compared_before_anything_is_measured(change, reason):
    """The judge computes what is right, and takes nothing else than a list of float32 tensors of
    these shapes.
    """
    asked = SimpleNamespace(functions=[FORWARD, BOTH], counted=[8])
    mode = laps.Mode("cpu", "float16", timed=False)

    def right(function, inputs, upstream, device, kind):
        assert function is laps_in_guest.results and (device, kind) == ("cpu", "float16")
        leaves = [tensor.double().requires_grad_() for tensor in inputs]
        out = RIGHT["rival"](*leaves)
        results = [out, out, *torch.autograd.grad(out, leaves, upstream.double())]
        return [tensor.detach().float() for tensor in results]

    laps._compare(SimpleNamespace(ask=right), asked, mode, RIGHT)
    with pytest.raises(laps.Dropped, match=reason):
        laps._compare(
            SimpleNamespace(ask=lambda *arguments: change(right(*arguments))), asked, mode, RIGHT
        )


def test_a_name_that_is_no_function_ends_the_lap():
    asked = SimpleNamespace(functions=[FORWARD, BOTH])
    with pytest.raises(laps.Dropped, match=f"^{FORWARD} is not a function.$"):
        laps._Kernels(
            SimpleNamespace(find=lambda name, missing: 3),
            asked,
            laps.Mode("cpu", "float16", timed=False),
        )


@pytest.mark.slow
def test_what_stops_a_race_is_one_line(course, tmp_path):
    status, printed, errors = run(course, "01-qkv")
    assert (status, printed) == (1, "")
    assert errors == (
        "Error: 01-qkv has no kernels to race: its exercise.toml has no [race]. Exercises with "
        "one: 11-gpu.\n"
    )
    (exercise,) = course.exercises([NAME])
    with pytest.raises(UserError, match=r"There is no folder .*nowhere"):
        race.Contest(course, exercise, tmp_path / "nowhere")
    with pytest.raises(UserError, match=r"No submission of 11-gpu in .* was found"):
        race.Contest(course, exercise, tmp_path)
    ungraded = Course(root=course.root, output_folder=tmp_path)
    with pytest.raises(UserError, match=r"has a grade. .*Run: python -m autograder grade 11-gpu"):
        race.Contest(ungraded, exercise, course.submitted)
    write_record(ungraded, "dora", "another")
    with pytest.raises(
        UserError,
        match=r"No submission of 11-gpu can take part. ada: It has no grade yet. .*And " r"5 more.",
    ):
        race.Contest(ungraded, exercise, course.submitted)
