"""Which checks separate strong from weak work, how many submissions a pass took, and how another
class did.
"""

import dataclasses
import json

import pytest
from browser_tools import AXE, VIOLATIONS
from bs4 import BeautifulSoup
from document_tools import fields
from report_tools import visit
from toy_course import RIGHT, hand_in, run, toy_course

from autograder.authoring.release import release
from autograder.checking import Result, Status
from autograder.checking.words import Message
from autograder.commands import documents
from autograder.course.config import ROOT, Course, UserError
from autograder.grades import item_analysis, records, report
from autograder.grades.item_analysis import Tally
from autograder.grades.records import CODEC
from autograder.grades.results import CellResult, Kind, Record

P, F, B, U = Status.PASSED, Status.FAILED, Status.BLOCKED, Status.UNVERIFIED
NAME = "01-toy"


def cell_of(statuses, points=4.0, weight=1.0):
    """A cell with these checks, by name, worth the same or as `weight` has it; it has the points
    that they earn.
    """
    weights = weight if isinstance(weight, dict) else dict.fromkeys(statuses, weight)
    checks = [
        Result(name, f"Returns {name}.", weights[name], status, Message(""))
        for name, status in statuses.items()
    ]
    worth = points / (sum(weights.values()) or 1)
    earned = sum(worth * check.weight for check in checks if check.status == P)
    pending = sum(worth * check.weight for check in checks if check.status == U)
    return CellResult(earned, points, subject="add", checks=checks, pending=pending)


def record(student, *, submission="one", history=(), exercise=NAME, **cells):
    """A submission of these cells."""
    score, most = (
        sum(cell.points for cell in cells.values()),
        sum(cell.max_points for cell in cells.values()),
    )
    latest = Record(
        student, exercise, submission, "v1", 1, True, "2026-11-23T09:30:00+00:00", Kind.WRONG,
        Message(""), [], [],
        cells, score, most,
    )  # fmt: skip
    return dataclasses.replace(latest, history=[CODEC.unstructure(past) for past in history])


def class_of(students, *, rest, **checks):
    """A class in which the rest of the exercise and each check pass for some numbers of
    students.
    """
    return [
        record(
            f"s{number:02d}",
            rest=cell_of({"rest": P if rest(number) else F}),
            check=cell_of({name: P if passes(number) else F for name, passes in checks.items()}),
        )
        for number in range(students)
    ]


def found_in(graded):
    """The discrimination of each check, with how many passed and how many students there are."""
    items = item_analysis.discriminations(graded)
    assert [item.correlation for item in items] == sorted(item.correlation for item in items)
    return {item.item.check: (item.correlation, item.passed, item.students) for item in items}


@pytest.mark.parametrize(
    "passes, correlation",
    [
        (lambda number: number < 10, 1.0),
        (lambda number: number % 2, 0.0),
        (lambda number: number >= 10, -1.0),
        # the root of a third: a quarter passes, all of them strong
        (lambda number: number < 5, 0.58),
    ],
    ids=["perfectly", "not at all", "the wrong way round", "somewhat"],
)
def test_a_check_separates_strong_work_from_weak(passes, correlation):
    graded = class_of(20, rest=lambda number: number < 10, own=passes)
    passed = sum(bool(passes(number)) for number in range(20))
    by_check = found_in(graded)
    assert by_check["own"] == (correlation, passed, 20)
    assert by_check["rest"] == (correlation, 10, 20)  # of two checks each is the rest of the other


def test_the_points_of_a_check_are_not_in_its_total():
    """Otherwise a check worth most of the points would separate well, no matter how it is drawn."""
    graded = [
        record(
            f"s{number}",
            large=cell_of({"large": P if number % 2 else F}, points=96.0),
            small=cell_of({"small": P if number < 10 else F}, points=4.0),
        )
        for number in range(20)
    ]
    assert found_in(graded)["large"] == (0.0, 10, 20)
    # also within a cell, where advice is worth nothing
    weights = {"large": 9.0, "small": 1.0, "advice": 0.0}
    graded = [
        record(
            f"s{number}",
            check=cell_of(
                {"large": P if number % 2 else F, "small": P if number < 10 else F, "advice": P},
                7.0,
                weights,
            ),
        )
        for number in range(20)
    ]
    assert found_in(graded) == {"large": (0.0, 10, 20), "small": (0.0, 10, 20)}


@pytest.mark.parametrize(
    "students, rest, passes, numbers",
    [
        (19, lambda number: number < 10, lambda number: number < 10, set()),  # too few
        (
            40,
            lambda number: number < 20,
            lambda number: True,
            set(),
        ),  # all pass: then the rest of the other one is constant
        (40, lambda number: number < 20, lambda number: False, set()),
        (40, lambda number: number < 20, lambda number: number < 2, {"rest"}),  # two people
        (40, lambda number: number < 20, lambda number: number < 3, {"rest", "own"}),
    ],
)
def test_a_number_that_means_nothing_is_not_shown(students, rest, passes, numbers):
    assert set(found_in(class_of(students, rest=rest, own=passes))) == numbers


def test_only_students_for_whom_a_check_was_run_count():
    """A blocked check is no failure, a pending one is open; and a submission without checks says
    nothing.
    """
    graded = class_of(20, rest=lambda number: number < 10, own=lambda number: number < 10)
    for number, status in enumerate([B, B, B, U, U]):
        graded.append(
            record(f"t{number}", rest=cell_of({"rest": F}), check=cell_of({"own": status}))
        )
    graded.append(dataclasses.replace(graded[0], student="u", kind=Kind.MALFORMED, cells={}))
    by_check = found_in(graded)
    assert by_check["own"] == (1.0, 10, 20)
    # with a pending check, nothing else of these two is decided
    assert by_check["rest"][1:] == (10, 23)
    assert not found_in(
        [record(f"s{number}", check=cell_of({"own": B, "rest": P})) for number in range(30)]
    )


def test_points_by_a_person_count_in_the_rest_as_far_as_they_are_given():
    proof = CellResult(0.0, 4.0, is_graded_by_hand=True, waits=True)
    graded = [
        record(
            f"s{number}",
            proof=dataclasses.replace(
                proof, waits=False, manual_points=4.0 if number < 10 else 0.0
            ),
            check=cell_of({"own": P if number < 10 else F}),
        )
        for number in range(20)
    ]
    graded += [record(f"t{number}", proof=proof, check=cell_of({"own": F})) for number in range(5)]
    assert found_in(graded) == {"own": (1.0, 10, 20)}
    # The part of one check in the points that a person gave its cell is not known.
    graded = class_of(20, rest=lambda number: number < 10, own=lambda number: number < 10)
    for submission in graded:
        submission.cells["check"] = dataclasses.replace(
            submission.cells["check"], manual_points=4.0
        )
    assert found_in(graded)["own"] == (1.0, 10, 20) and "rest" not in found_in(graded)


# Attempts


def passing(*statuses, student="s"):
    """A student whose submissions one, two, ... had these results of the check."""
    attempts = [
        record(student, submission=f"{number}", check=cell_of({"own": status}))
        for number, status in enumerate(statuses)
    ]
    return dataclasses.replace(
        attempts[-1], history=[CODEC.unstructure(past) for past in attempts[:-1]]
    )


def took(*graded):
    return [
        (check.item.check, check.median, check.students) for check in item_analysis.attempts(graded)
    ]


def test_attempts_are_submissions_until_the_check_first_passed():
    assert took(passing(F, F, P)) == [("own", 3, 1)]
    assert took(passing(F, P), passing(B, F, F, P), passing(F, P, P)) == [("own", 2, 3)]
    assert took(passing(F, P), passing(F, F, P)) == [("own", 2.5, 2)]
    assert took(passing(P, F, P)) == [("own", 1, 1)]
    assert took(passing(F, P), passing(F, F), passing(P, F), passing(P)) == [("own", 2, 1)]
    assert not took(passing(P), passing(F))


def test_a_submission_that_is_graded_again_counts_once_with_its_last_grading():
    def submission_of(submission, status, **fields):
        return dataclasses.replace(
            record("s", submission=submission, check=cell_of({"own": status})), **fields
        )

    def after(*history, final):
        return dataclasses.replace(final, history=[CODEC.unstructure(past) for past in history])

    assert not took(
        after(submission_of("one", F), submission_of("one", F), final=submission_of("one", P))
    )
    assert took(
        after(submission_of("one", F), submission_of("two", F), final=submission_of("two", P))
    ) == [("own", 2, 1)]
    assert took(
        after(submission_of("one", F), submission_of("one", P), final=submission_of("two", P))
    ) == [("own", 1, 1)]
    fault = submission_of("two", P, kind=Kind.INFRASTRUCTURE, cells={})
    assert took(after(submission_of("one", F), fault, final=submission_of("three", P))) == [
        ("own", 2, 1)
    ]
    unreadable = dataclasses.replace(
        submission_of("two", P), history=["no record", {"submission": "one"}]
    )
    assert not took(unreadable)


def test_attempts_are_counted_from_the_first_submission_that_had_the_check():
    older = record("s", submission="old", check=cell_of({"other": P}))
    class_before = passing(F, P)
    class_before.history.insert(0, CODEC.unstructure(older))
    assert took(class_before) == [("own", 2, 1)]
    assert not took(dataclasses.replace(passing(P), history=[CODEC.unstructure(older)]))


# Another class


def some(failed, students, **more):
    """A class of which some fail the check `own`; `more` has the statuses of other checks."""
    return [
        record(f"s{number}", check=cell_of({"own": F if number < failed else P, **more}))
        for number in range(students)
    ]


def test_two_classes_are_compared_check_by_check():
    here, there = some(6, 10, new=P, easier=P), some(2, 8, gone=F, easier=F)
    for submission in there:
        submission.score = 1.0
    comparison = item_analysis.compared(here, there)
    assert [(pair.item.check, pair.this_class, pair.other_class) for pair in comparison.checks] == [
        ("own", Tally(6, 10), Tally(2, 8)),
        ("easier", Tally(0, 10), Tally(8, 8)),
        ("new", Tally(0, 10), None),
        ("gone", None, Tally(8, 8)),
    ]
    assert [pair.difference for pair in comparison.checks] == [
        pytest.approx(0.35),
        -1.0,
        None,
        None,
    ]
    assert comparison.other_class == (0.25, 8) and comparison.this_class.submissions == 10
    assert comparison.this_class.share == pytest.approx((4 * 1 + 6 * 2 / 3) / 10)
    assert comparison.difference == pytest.approx(comparison.this_class.share - 0.25)
    blocked = item_analysis.compared(some(1, 4), [record("s", check=cell_of({"own": B}))])
    assert [(pair.other_class, pair.difference) for pair in blocked.checks] == [(Tally(0, 0), None)]


# In the report


@pytest.fixture
def classes(monkeypatch, tmp_path):
    """The records of classes, by the name of their folder below `tmp_path`; each has a
    gradebook.
    """
    records_by_path = {}

    def folder(name, graded):
        records_by_path[name] = graded
        (tmp_path / name).mkdir()
        (tmp_path / name / "gradebook.db").touch()
        return Course(root=tmp_path, output_folder=tmp_path / name)

    monkeypatch.setattr(
        records, "all_of", lambda course: records_by_path[course.output_folder.name]
    )
    return folder


def this_class():
    """A class with a check that separates, one that is the wrong way round, and one that
    students tried again.
    """
    graded = class_of(
        30,
        rest=lambda number: number < 15,
        own=lambda n: n < 14,
        odd=lambda n: n % 15 > 12 or n > 20,
    )
    for number, student in enumerate(("zelda", "yann")):
        earlier = record(
            student,
            submission="zero",
            rest=cell_of({"rest": F}),
            check=cell_of({"own": F, "odd": F}),
        )
        graded[number] = dataclasses.replace(
            graded[number], student=student, history=[CODEC.unstructure(earlier)]
        )
    return graded


def text_of(path):
    page = BeautifulSoup(path.read_text(encoding="utf-8"), "html.parser")
    return " ".join(page.main.get_text(" ").split())


def test_the_page_and_the_document_say_which_checks_earn_their_place(classes, tmp_path):
    here = classes("here", this_class())
    path = tmp_path / "report.html"
    page = report.write(here, path)
    (part,) = page.assignments
    low = [check for check in part.discriminations if check.correlation < item_analysis.LOW]
    assert [check.item.check for check in low] == ["odd"] and low[0].correlation < 0
    text = text_of(path)
    number = f"{low[0].correlation:.2f}".replace("-", "−")
    assert "1 check is below 0.2. Look at it first" in text
    assert f"add Returns odd. {number}, from 30 students It is the wrong way round" in text
    assert "Discrimination of 3 of 3 checks" in text and "at least 20 of them" in text
    assert f"Returns odd. {number} {low[0].passed} of 30" in text
    assert "How many submissions a pass took" in text and "add Returns own. 2 2" in text
    assert "Compared with" not in text
    (document,) = documents.of_report(page, path)["exercises"]
    assert document["discrimination"][0] == {
        "function": "add", "check": "odd", "title": "Returns odd.",
        "correlation": low[0].correlation,
        "passed": low[0].passed, "students": 30,
    }  # fmt: skip
    assert {
        "function": "add",
        "check": "own",
        "title": "Returns own.",
        "median": 2,
        "students": 2,
    } in document["attempts"]
    assert document["comparison"] is None


def test_a_small_class_has_no_such_section(classes, tmp_path):
    here = classes(
        "here", class_of(8, rest=lambda number: number < 4, own=lambda number: number < 4)
    )
    report.write(here, tmp_path / "report.html")
    assert "earn their place" not in text_of(tmp_path / "report.html")


@pytest.mark.parametrize("anonymous", [False, True])
def test_another_class_is_next_to_this_one_and_has_no_names(classes, tmp_path, anonymous):
    here = classes(
        "here", [*some(6, 10, new=P), record("s1", exercise="02-ours", check=cell_of({"own": P}))]
    )
    there = some(2, 8, gone=F)
    for number, submission in enumerate(there):
        submission.student, submission.evidence, submission.repairs = (
            f"quentin{number}",
            ["quentin"],
            [Message("By quentin.")],
        )
    there.append(record("quentin", exercise="09-theirs", check=cell_of({"own": P})))
    classes("2025", there)
    path = tmp_path / "report.html"
    page = report.write(here, path, anonymous, tmp_path / "2025")
    text = text_of(path)
    assert "Compared with the class in 2025; none of its students is named." in text
    assert (
        "Exercises that only this class has: 02-ours. Exercises that only the other class has: "
        "09-theirs." in text
    )
    assert text.count("Compared with the other class") == 1
    assert (
        "Mean share of the points here: 70%, from 10 submissions. In the other class: 38%, from 8 "
        "submissions." in text
    )
    assert "Difference: +32 percentage points." in text
    assert "add Returns own. 2 of 8 (25%) 6 of 10 (60%) +35" in text
    assert "add Returns new. – 0 of 10 (0%) only here" in text
    assert "add Returns gone. 8 of 8 (100%) – only there" in text
    document = documents.of_report(page, path)
    assert document["beside"]["only_here"] == ["02-ours"] and document["beside"]["only_there"] == [
        "09-theirs"
    ]
    assert document["exercises"][0]["comparison"]["checks"][0]["there"] == {"failed": 2, "run": 8}
    assert document["exercises"][1]["comparison"] is None
    text = (ROOT / "book" / "operating.md").read_text(encoding="utf-8")
    assert not [name for name in fields(document) if f"`{name}`" not in text]
    assert "quentin" not in path.read_text(encoding="utf-8") + json.dumps(document)
    if anonymous:
        assert '"s1"' not in path.read_text(encoding="utf-8") + json.dumps(document)


def test_a_folder_that_is_no_other_class_is_one_line(classes, tmp_path):
    here, empty = classes("here", some(1, 4)), classes("empty", [])
    (tmp_path / "bare").mkdir()
    own_database = Course(
        root=tmp_path, output_folder=here.output_folder, db=f"sqlite:///{empty.gradebook}"
    )
    for course, name, message in (
        (here, "nowhere", "There is no folder"),
        (here, "bare", "There is no gradebook in"),
        (here, "here", "has the grades of this class"),
        (here, "bare/../here", "has the grades of this class"),
        (own_database, "empty", "has the grades of this class"),
        (here, "empty", "Nothing is graded in"),
    ):
        with pytest.raises(UserError, match=message) as refused:
            report.write(course, tmp_path / "report.html", beside=tmp_path / name)
        assert name in str(refused.value) and "\n" not in str(refused.value)
    assert not (tmp_path / "report.html").exists()


@pytest.mark.slow
def test_two_graded_classes_are_compared_by_the_command(isolated, tmp_path):
    course = toy_course(tmp_path / "course")
    for exercise in course.sources():
        release(course, exercise)
    for year, students in {"2025": {"quentin": RIGHT, "rosa": {}}, "2026": {"ada": RIGHT}}.items():
        for student, answers in students.items():
            hand_in(tmp_path / f"submitted-{year}", student, answers, toy=course)
        (tmp_path / year).mkdir()
        grade = ("grade", "--submitted", tmp_path / f"submitted-{year}", "--into", tmp_path / year)
        assert run(course, *grade).exit_code == 0
    command = ("report", "--into", tmp_path / "2026", "--anonymous", "--json", "--beside")
    result = run(course, *command, tmp_path / "2025")
    (exercise,) = json.loads(result.stdout)["exercises"]
    assert (
        exercise["comparison"]["here"]["submissions"] == 1
        and exercise["comparison"]["there"]["submissions"] == 2
    )
    page = (tmp_path / "2026" / "report-anonymous.html").read_text(encoding="utf-8")
    assert not [
        name
        for name in ("ada", "quentin", "rosa")
        if f'"{name}' in result.stdout + page or f">{name}" in page
    ]
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "gradebook.db").write_text("no database")
    for folder, message in (
        ("broken", "cannot be compared with. The gradebook"),
        ("2026", "grades of this class"),
    ):
        result = run(course, *command, tmp_path / folder)
        assert result.exit_code == 1 and message in result.output


@pytest.mark.browser
@pytest.mark.parametrize("width, scheme", [(390, "light"), (390, "dark"), (1280, "dark")])
def test_the_new_tables_fit_a_phone_and_are_accessible(browser, classes, tmp_path, width, scheme):
    here, path = classes("here", this_class()), tmp_path / "report.html"
    classes("2025", some(2, 8, gone=F))
    report.write(here, path, beside=tmp_path / "2025")
    context = browser.new_context(
        viewport={"width": width, "height": 800}, color_scheme=scheme, bypass_csp=True
    )
    page = context.new_page()
    trouble = visit(page, path)
    for summary in page.locator("summary").all():
        if not summary.evaluate("e => e.parentElement.open"):
            summary.click()
    assert page.evaluate("document.documentElement.scrollWidth") == width
    for name in (
        "Discrimination",
        "How many submissions a pass took",
        "Compared with the other class",
    ):
        box = page.get_by_role("region", name=f"{name}, {NAME}")
        assert box.is_visible() and box.bounding_box()["width"] <= width
    if AXE.exists():
        page.evaluate(AXE.read_text(encoding="utf-8"))
        assert not page.evaluate(VIOLATIONS)
    assert not trouble
    context.close()
