"""The benchmarks' classes are what they say, for every exercise; and what was measured is shown
as it was.
"""

import contextlib
import io
import linecache
from unittest import mock

import nbformat
import numpy as np
import pytest
from benchmark_tools import MEASURED

from autograder.authoring import loader
from autograder.checking.diagnosis import Diagnosis

COUNT = 10  # a block of each kind, as `classes.KINDS` has it
SEED = 1
with_torch = [
    folder
    for folder in loader.FOLDERS
    if "\nimport torch" in (folder / "checks.py").read_text("utf8")
]


def each(mark_of):
    """Parametrize a test with each exercise, all but the first with a mark."""
    first, *others = loader.FOLDERS
    parameters = [first, *(pytest.param(folder, marks=mark_of(folder)) for folder in others)]
    return pytest.mark.parametrize(
        "folder", parameters, ids=[folder.name for folder in loader.FOLDERS]
    )


each_exercise = each(lambda folder: pytest.mark.slow)
each_in_full = each(  # checks of torch modules take ten times as long
    lambda folder: pytest.mark.long if folder in with_torch else pytest.mark.slow
)


@pytest.fixture(autouse=True)
def without_causes():
    """Points and states alone: saying why checks fail takes most of the time, and changes
    neither.
    """
    with mock.patch.object(Diagnosis, "findings", return_value=()):
        yield


def run(sources, namespace=()):
    """Run cells one after the other, as a notebook does, in a copy of a namespace; return the
    copy.
    """
    namespace = dict(namespace)
    for source in sources:
        name = f"<cell {hash(source)}>"
        linecache.cache[name] = (
            len(source),
            None,
            source.splitlines(keepends=True),
            name,
        )  # Triton reads kernels there
        with (
            contextlib.suppress(Exception),
            contextlib.redirect_stdout(io.StringIO()),
            np.errstate(all="ignore"),
        ):
            exec(compile(source, name, "exec"), namespace)
    return namespace


def code_of(notebook):
    """The code cells up to the last check cell: which of them are checks, which are written, and
    their sources.
    """
    cells, last = [], 0
    for cell in notebook.cells:
        metadata = cell.metadata.get("nbgrader", {})
        if cell.cell_type == "code":
            check, written = metadata.get("grade", False), metadata.get("solution", False)
            cells.append((check, written, cell.source))
            last = len(cells) if check else last
    return cells[:last]


def handed_in(student):
    """What a student's notebook defines before its checks."""
    return run(source for check, _, source in code_of(student.notebook) if not check)


def score(answers, subject, function):
    """What a function earns of one point, with what waits for a GPU."""
    report = answers.exercise.suite.examine(subject, function, points=1, seed=SEED)
    return round(report.score + report.pending, 2)


@pytest.mark.long
@each_in_full
def test_a_listed_answer_is_the_same_as_a_cell(benchmarks, folder):
    """Its helpers come along, under names that replace nothing which the notebook gives or asks
    for.
    """
    answers = benchmarks("classes").answers_of(folder.name)
    code = code_of(answers.released)
    first = [written for _, written, _ in code].index(True)
    released = run(source for _, _, source in code[:first])
    examine = answers.exercise.suite.examine
    for subject in answers.subjects:
        listed = answers.listed(subject, "right") | answers.listed(subject, "wrong")
        # such checks take ten times as long
        every = 5 if "torch" in vars(answers.exercise.checks) else 1
        for label, answer in list(listed.items())[::every]:
            cell = answers.cell(subject, label)
            namespace = run([cell], released)
            assert all(namespace[name] is value for name, value in released.items()), label
            assert set(answers.subjects) & set(namespace) == {subject}, label
            outcomes = [
                [
                    (result.name, result.status)
                    for result in examine(subject, function, seed=1).results
                ]
                for function in (namespace[subject], answer)
            ]
            assert outcomes[0] == outcomes[1], f"{label}:\n{cell}"


@pytest.mark.long
@each_in_full
def test_a_right_class_gets_full_points(benchmarks, folder):
    classes = benchmarks("classes")
    answers, labels = classes.answers_of(folder.name), set()
    for student in classes.students(answers, "right", COUNT):
        namespace = handed_in(student)
        for subject in answers.subjects:
            assert score(answers, subject, namespace[subject]) == 1, (
                f"{student.name}: {student.answers}"
            )
            labels.add(student.answers[subject])
    assert "solution" in labels and len(labels) > len(answers.subjects)


@pytest.mark.long
@each_in_full
def test_a_mixed_class_has_mistakes_where_it_says_so(benchmarks, folder):
    classes = benchmarks("classes")
    answers = classes.answers_of(folder.name)
    students = classes.students(answers, "mixed", COUNT)
    kinds = [student.kind for student in students]
    assert [kinds.count(kind) for kind in ("right", "wrong", "error")] == [
        COUNT / 2,
        COUNT * 2 / 5,
        COUNT / 10,
    ]
    for student in students:
        namespace, faulty = handed_in(student), 0
        for subject in answers.subjects:
            label = student.answers[subject]
            wrong = label in answers.listed(subject, "wrong") or label in classes.ERRORS
            earned = score(answers, subject, namespace.get(subject))
            faulty += wrong
            if wrong and earned == 1:  # some mistakes are told by advice alone, which costs nothing
                report = answers.exercise.suite.examine(subject, namespace[subject], seed=SEED)
                assert any(result.status == "advice" for result in report.results), (
                    f"{student.name}: {label}"
                )
            if student.kind == "right":
                assert earned == 1, f"{student.name}: {label}"
        assert faulty in {"right": (0,), "wrong": (1, 2, 3), "error": (1, 2)}[student.kind]


@each_exercise
def test_every_kind_of_error_is_one(benchmarks, folder):
    classes = benchmarks("classes")
    answers = classes.answers_of(folder.name)
    released = run(
        source for check, written, source in code_of(answers.released) if not check and not written
    )
    for name, spoil in classes.ERRORS.items():
        for subject in answers.subjects:
            namespace = run([spoil(answers.stubs[subject], 7)], released)
            assert (subject not in namespace) == (name == "no Python")
            assert score(answers, subject, namespace.get(subject)) == 0


@pytest.mark.long
@each_exercise
@pytest.mark.parametrize("kind", ["right", "mixed"])
def test_the_same_seed_makes_the_same_class_and_no_two_notebooks_are_alike(
    benchmarks, folder, kind
):
    classes = benchmarks("classes")
    answers = classes.answers_of(folder.name)

    def build_class(count, seed):
        return [
            nbformat.writes(student.notebook)
            for student in classes.students(answers, kind, count, seed)
        ]

    once, written = build_class(COUNT, 1), []
    assert (
        build_class(COUNT, 1) == once
        and build_class(COUNT // 2, 1) == once[: COUNT // 2]
        and build_class(COUNT, 2) != once
    )
    for student in classes.students(answers, kind, COUNT):
        written.append(
            [
                cell.source
                for cell in student.notebook.cells
                if cell.metadata.get("nbgrader", {}).get("solution")
            ]
        )
    # each written cell, so that none is drawn once for a whole class
    for cells in zip(*written, strict=True):
        assert len(set(cells)) == COUNT


@each_exercise
def test_a_submission_has_the_released_cells(benchmarks, folder, tmp_path):
    classes = benchmarks("classes")
    answers = classes.answers_of(folder.name)
    classes.write(classes.students(answers, "mixed", 2), folder.name, tmp_path)
    for path in tmp_path.glob("*/*/*.ipynb"):
        notebook = nbformat.read(path, as_version=4)
        nbformat.validate(notebook)
        assert [cell.id for cell in notebook.cells] == [cell.id for cell in answers.released.cells]
        for cell, released in zip(notebook.cells, answers.released.cells, strict=True):
            assert cell.metadata == released.metadata
            if cell.metadata.get("nbgrader", {}).get("locked"):
                assert cell.source == released.source
    assert len(list(tmp_path.glob(f"student000?/{folder.name}/{folder.name}.ipynb"))) == 2


# What was measured, as results.json has it.


def test_the_tables_show_what_was_measured(benchmarks):
    shown = benchmarks("tables").markdown(MEASURED).splitlines()
    for row in (
        "| 01-qkv | 200, with mistakes | 21.0 s (9.5/s) | 808 s | 38.5 times | 420 s, 4 processes "
        "| 20.0 times |",
        "| 01-qkv | 1.50 s | not recorded |",
        "| 1000 of 01-qkv, 2 jobs | 100 s (10.0/s) | 10.0/s, 9.0/s | 700 MB, unknown | 800 MB | 1 "
        "|",
        "| 200 of 01-qkv | 50 s | 0.25 s | 1 |",
        "| 100 of 01-qkv, 2 jobs | 10.0 s, 4.0 ms | 11.0 s, 6.2 ms | 1.1 times | 0.5 |",
        "| `report` | 8 s | 300 MB | 300 MB |",
        "Graded 10.0 a second, 2 at a time, on a machine whose load was 0.2 beforehand. Sizes: "
        "gradebook.db 6.0 MB, report.html 0.5 MB. The report's first screen was there after 0.5 "
        "s, with 300 rows of tables; a student was found in 20 ms. of this test.",
        "| 1000 of 01-qkv, killed when 300, 650 were graded, and started again each time "
        "| 5000 cells graded as in a batch that nobody disturbed | left behind: 0 processes |",
    ):
        assert row in shown
    first = shown.index("| milliseconds for each submission, with mistakes | 01-qkv | 02-scaling |")
    assert shown[first + 2 : first + 7] == [
        "| page | 12.0 | 40.0 |",
        "| guest cells | 30.5 |  |",
        "| wire |  | 1.0 |",
        "| all of these | 42.5 | 41.0 |",
        "| wall time of the command | 90.0 | 80.0 |",
    ]
    assert "2 cores, 8 GB" in shown[-1] and "torch 2" in shown[-1]


def test_what_the_engine_writes_of_its_phases_is_read_for_each_submission(benchmarks, tmp_path):
    read, path = benchmarks("graders").phases_of, tmp_path / "timings.json"
    assert read(path) is None
    path.write_text(
        '{"submissions": 4, "wall": 2.0, "phases": {"read": 0.004, "guest cells": '
        '0.4, "page": 0.1}}'
    )
    measured = read(path)
    assert measured == {
        "submissions": 4,
        "wall": 500,
        "phases": {"guest cells": 100, "page": 25, "read": 1},
    }
    assert list(measured["phases"]) == ["guest cells", "page", "read"]


def test_grades_are_compared_cell_by_cell(benchmarks):
    ours = {
        ("ada", "a"): (4, 4),
        ("ada", "b"): (1.5, 3),
        ("ada", "c"): (0, 2),
        ("zoe", "a"): (0, 4),
    }
    differences = benchmarks("graders").differences
    assert differences(ours, {key: score for key, score in ours.items() if key[0] == "ada"}) == (
        [],
        [],
    )
    assert differences(
        ours, {("ada", "a"): (4, 4), ("ada", "b"): (1, 3), ("ada", "c"): (2, 2)}
    ) == (
        ["ada c: 0 and 2"],
        ["ada b: 1.5 and 1"],
    )
    assert differences(ours, {("ada", "a"): (4, 4), ("ada", "b"): (1.5, 3)})[0] == [
        "ada c: 0 and no grade"
    ]
    not_full = benchmarks("graders").not_full
    assert not_full(ours) == ["ada b: 1.5 of 3", "ada c: 0 of 2", "zoe a: 0 of 4"]
    assert not_full(ours, {"b": 1.5, "c": 1}) == ["ada c: 0 of 2", "zoe a: 0 of 4"], (
        "what waits for a GPU is not lost"
    )
