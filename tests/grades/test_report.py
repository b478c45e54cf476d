"""The report of a thousand students in a browser: a screenful at a time, found by name; and
names are only text.
"""

import dataclasses
import html
import json
import re

import pytest
from browser_tools import AXE, VIOLATIONS
from bs4 import BeautifulSoup
from report_tools import rows_of, visit

from autograder.checking import Result, Status
from autograder.checking.words import Message
from autograder.course.config import ROOT, Course
from autograder.grades import reasons, records, report
from autograder.grades.records import CODEC
from autograder.grades.results import CellResult, Kind, Record

EXERCISES = [f"0{number}-toy" for number in range(1, 6)]
HOSTILE = [
    "</script><script>document.title = 'acted'</script>",
    "<img src=x onerror=alert(1)>",
    "Zoë\u2028`b` & \"c'",
]
MOST_ROWS = 2 * 5 * report.SCREEN + 100
"""Of tables: for each exercise a screenful of the picture and of changes, and what cost the
class most.
"""


def record(student, assignment, number):
    """A submission of three checks; every third fails one, and every tenth was graded before the
    check was mended.
    """
    passed = number % 3 > 0
    cause = (
        {}
        if passed
        else {"cause": "minus", "label": "minus for plus", "hint": "You subtract with `-`."}
    )
    checks = [
        Result(f"values_{name}", f"It holds {name} of `A`.", 1.0, Status.PASSED, Message(""))
        for name in "ab"
    ]
    checks.append(Result("sums", "Rows sum to 1.", 2.0, *((Status.PASSED, Message("")) if passed else (
        Status.FAILED, Message("entry {at} is wrong", at=number % 40))), **cause))  # fmt: skip
    points = 4.0 if passed else 2.0
    latest = Record(
        student, assignment, "same", "v2", 1, True, "2026-11-23T09:30:00+00:00",
        Kind.RIGHT if passed else Kind.WRONG,
        Message(""), [], [], {"check_add": CellResult(points, 4.0, subject="add", checks=checks)},
        points, 4.0,
    )  # fmt: skip
    if number % 10:
        return latest
    other = dataclasses.replace(checks[-1], status=Status.FAILED if passed else Status.PASSED)
    cells = {"check_add": CellResult(6 - points, 4.0, subject="add", checks=[*checks[:-1], other])}
    before = dataclasses.replace(
        latest, cells=cells, score=6 - points, graded_at="2026-11-16T09:30:00+00:00"
    )
    return dataclasses.replace(latest, history=[CODEC.unstructure(before)])


def test_common_mistakes_are_listed_with_their_students(monkeypatch, tmp_path):
    """Causes and relations, with who they are of: most first; numbers of a draw make no other
    one.
    """

    def failed(student, **finding):
        check = Result(
            "sums", "Rows sum to 1.", 2.0, Status.FAILED, Message("8 of 8 are wrong."), **finding
        )
        return dataclasses.replace(
            record(student, "01-toy", 1),
            cells={"check_add": CellResult(0, 4.0, subject="add", checks=[check])},
        )

    def times(text, factor):
        return {
            "relation": Message("It is {text} = {factor} times as large.", text=text, factor=factor)
        }

    cause = {
        "cause": "turned",
        "label": "`W` transposed",
        "hint": "W is transposed. Leave it as it is.",
    }
    graded = [
        failed("ada", **times("sqrt(d)", "2.65")),
        failed("ben", **cause),
        failed("cem", **times("sqrt(n)", "2.65")),
        failed("<i>dee</i>", **times("sqrt(d)", "1.73")),
        failed("eva"),
    ]
    monkeypatch.setattr(records, "all_of", lambda course: graded)
    course, path = Course(root=tmp_path, output_folder=tmp_path), tmp_path / "report.html"
    (part,) = report.write(course, path).assignments
    assert [(met.label, met.kind, met.students, met.who) for met in part.misconceptions] == [
        ("It is sqrt(d) = 2.65 times as large.", "relation", 2, ["<i>dee</i>", "ada"]),
        ("`W` transposed", "cause", 1, ["ben"]),
        ("It is sqrt(n) = 2.65 times as large.", "relation", 1, ["cem"]),
    ]
    assert [met.hint for met in part.misconceptions] == [
        report.OTHER_NUMBERS,
        "Leave it as it is.",
        "",
    ]
    text = path.read_text(encoding="utf-8")
    table = BeautifulSoup(text, "html.parser").find("table", class_="met").get_text(" ", strip=True)
    assert (
        "W transposed. Leave it as it is. 1 ben" in table
        and "<i>" not in text.partition("<script")[0]
    )
    reasons = {student: row["reasons"] for (student, _), row in rows_of(text).items()}
    assert reasons["ada"] == ["add −4: It is sqrt(d) = 2.65 times as large; failed: Rows sum to 1"]
    assert reasons["ben"] == ["add −4: likely cause: `W` transposed; failed: Rows sum to 1"]
    assert reasons["eva"] == ["add −4: 8 of 8 are wrong; failed: Rows sum to 1"]
    (nameless,) = report.write(course, path, anonymous=True).assignments
    assert {name.split()[0] for met in nameless.misconceptions for name in met.who} == {"Student"}
    assert "ada" not in path.read_text(encoding="utf-8")


def test_mistakes_of_one_cell_are_in_the_order_of_its_checks():
    labels = [f"mistake {number}" for number in range(9)]
    checks = [
        Result(label, "", 1.0, Status.FAILED, Message(""), cause=label, label=label)
        for label in labels
    ]
    cells = {"check_add": CellResult(0, 4.0, subject="add", checks=checks)}
    graded = [dataclasses.replace(record("ada", "01-toy", 1), cells=cells)]
    assert [found.label for found in report.costs(graded)[1]] == labels


def test_packages_that_are_not_installed_are_grouped(monkeypatch, tmp_path):
    """Most first, with who imports them; without students' names, none that only one student
    imports.
    """

    def importing(student, *packages):
        notes = [
            Message(reasons.NOT_INSTALLED, package=package, cells="add") for package in packages
        ]
        return dataclasses.replace(
            record(student, "01-toy", 1), repairs=[Message("Another note."), *notes]
        )

    graded = [
        importing("ada", "einops", "adas_tools"),
        importing("ben", "einops"),
        importing("cem"),
    ]
    monkeypatch.setattr(records, "all_of", lambda course: graded)
    course, path = Course(root=tmp_path, output_folder=tmp_path), tmp_path / "report.html"
    (part,) = report.write(course, path).assignments
    sentence = (
        "2 students import packages that are not installed here: `einops` (2), `adas_tools` (1)."
    )
    assert (part.missed.said, part.missed.who) == (sentence, ["ada", "ben"])
    warning = BeautifulSoup(path.read_text(encoding="utf-8"), "html.parser").find(class_="warning")
    assert sentence.replace("`", "") in warning.get_text() and [
        link.text for link in warning.find_all("a")
    ] == [
        "ada",
        "ben",
    ]
    (nameless,) = report.write(course, path, anonymous=True).assignments
    assert nameless.missed.said == sentence.replace("`adas_tools` (1)", "…")
    assert "adas_tools" not in path.read_text(encoding="utf-8")
    graded[:] = [importing("cem")]
    assert report.write(course, path).assignments[0].missed is None


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Write a report as `written(students, exercises, anonymous)`; its page, and its file."""
    with pytest.MonkeyPatch.context() as patch:

        def write(students, exercises=EXERCISES, anonymous=False):
            graded = [
                record(student, name, number)
                for name in exercises
                for number, student in enumerate(students, 1)
            ]
            patch.setattr(records, "all_of", lambda course: graded)
            path = tmp_path_factory.mktemp("report") / "report.html"
            return report.write(
                Course(root=path.parent, output_folder=path.parent), path, anonymous
            ), path

        yield write


def test_a_chinese_report_has_no_english_but_names_and_code(monkeypatch, tmp_path):
    """Also of what its script says, and of a page without scripts."""
    title = "Does not change `X` or `W`."
    hint = "`W` is transposed, but it already has shape (d_in, d_out). Use `X @ W`, without `.T`."
    graded = []
    for number, student in enumerate(["ada", "ben", "cem"] * 7):
        latest = record(f"{student}{number}", "01-qkv", 10 * (number % 4))
        for cell in latest.cells.values():
            for check in cell.checks:
                check.title, check.message = title, Message("")
                if check.cause:
                    check.cause, check.label, check.hint = "turned", "W transposed", hint
        graded.append(latest)
    waits = Result("later", title, 1.0, Status.UNVERIFIED, Message(""), on="gpu")
    advice = Result(
        "advice", title, 0.0, Status.ADVICE, Message("Every element of {what} is 0.", what="`A`")
    )
    cell = CellResult(0.0, 4.0, subject="add", checks=[waits, advice], pending=4.0)
    graded.append(
        dataclasses.replace(
            graded[0], student="deb", cells={"check_add": cell}, score=0.0, history=[]
        )
    )
    lacking = Message("There is no {name} in the folder.", name="01-qkv.ipynb")
    kinds = {
        "kind": Kind.MALFORMED,
        "reason": lacking,
        "cells": {},
        "score": 0.0,
        "sandbox": False,
        "history": [],
    }
    graded.append(dataclasses.replace(graded[0], student="eva", **kinds))
    monkeypatch.setattr(records, "all_of", lambda course: graded)
    monkeypatch.setenv("LANGUAGE", "zh_CN")
    (tmp_path / "locale").symlink_to(ROOT / "locale")
    path = tmp_path / "report.html"
    assert (
        report.write(Course(root=tmp_path, output_folder=tmp_path), path)
        .assignments[0]
        .checks[0]
        .title
        == title
    )
    page = BeautifulSoup(path.read_text(encoding="utf-8"), "html.parser")
    data = json.loads(page.find(id="data").string)
    assert set(data["words"]) == set(report.texts_of_script())
    texts = [*data["texts"], *data["words"].values(), *(mark for _, mark in data["signs"].values())]
    texts += [title for part in data["parts"] for _, _, title in part["columns"]]
    texts += [element["aria-label"] for element in page.find_all(attrs={"aria-label": True})]
    for element in page(["script", "style", "code"]):
        element.decompose()
    text = re.sub(r"`[^`]*`|\{\w+\}", "", " ".join([page.get_text(" "), *texts]))
    names = "(ada|ben|cem|deb|eva)\\d*|add|check_add|later|advice|sums|values|[abi]|qkv|ipynb|d_in|d_out"
    names += "|UTC|GPU|JavaScript|W|X"
    english = [word for word in re.findall(r"[A-Za-z_]\w*", text) if not re.fullmatch(names, word)]
    assert page.html["lang"] == "zh-CN" and "2026 年 11 月 23 日 09:30" in text and not english


@pytest.fixture(scope="module")
def thousand(written):
    return written([f"student{number:04d}" for number in range(1000 - len(HOSTILE))] + HOSTILE)[1]


@pytest.mark.slow
def test_a_thousand_students_fit_into_a_small_file(thousand):
    assert thousand.stat().st_size < 1_500_000
    rows = rows_of(thousand.read_text(encoding="utf-8"))
    assert len(rows) == 5000 and {student for student, _ in rows} >= set(HOSTILE)


def test_what_it_says_is_returned(written):
    page, _ = written(["ada", "ben", "cem"], EXERCISES[:1])
    (part,) = page.assignments
    assert (part.mean, part.median, part.pending) == (10 / 3, 4.0, 0)
    assert [(lost.students, lost.points) for lost in part.checks] == [(1, 2.0)]
    assert [met.label for met in part.misconceptions] == ["minus for plus"]
    assert sum(bar.count for bar in part.histogram) == 3 and not part.hard and len(part.never) == 2


def test_changed_grades_have_sums_and_rows(written):
    students = [f"s{number:02d}" for number in range(1, 41)]
    page, path = written(students, EXERCISES[:1])
    assert [str(item) for item in page.assignments[0].sums] == [
        "all: 3 gain 6 points in all, 1 loses 2 points",
        "sums: 3 gain 6 points in all, 1 loses 2 points",
    ]
    rows = rows_of(path.read_text(encoding="utf-8"))
    changed = {student: row["change"] for (student, _), row in rows.items() if row["change"]}
    assert set(changed) == {"s10", "s20", "s30", "s40"}
    assert changed["s30"] == {
        "earlier": 4, "now": 2, "difference": -2, "through": ["sums: passed → failed"],
        "when": "2026-11-23 09:30"
    }  # fmt: skip


def test_hostile_names_do_not_leave_the_data(thousand):
    text = thousand.read_text(encoding="utf-8")
    assert text.lower().count("<script") == 2 and "<img" not in text
    data = BeautifulSoup(text, "html.parser").find(id="data").string
    assert "\u2028" not in data and html.unescape(data) == data, "a script's text has no entities"


@pytest.mark.browser
def test_a_screenful_of_five_thousand_rows_and_the_one_that_is_searched(page, thousand):
    trouble = visit(page, thousand)
    assert 5 * report.SCREEN < page.locator("tr").count() <= MOST_ROWS
    status, search = (
        page.locator(".find [role=status]"),
        page.get_by_role("searchbox", name="Student"),
    )
    picture = page.locator("table.picture").first.locator("tbody tr")
    assert status.text_content() == "1000 of 1000 students" and picture.count() == report.SCREEN
    search.fill("STUDENT0815")
    assert status.text_content() == "1 of 1000 students" and picture.count() == 1
    assert page.locator("table.picture tbody tr").count() == 5
    lost = page.get_by_role(
        "region", name="Each student, and where points were lost, 01-toy"
    ).locator("tbody tr")  # unfolded by the search
    assert lost.count() == 1 and "student0815" in lost.text_content()
    search.fill("zoe")  # whatever the accents
    assert picture.count() == 1 and HOSTILE[2].split("\u2028")[0] in picture.text_content()
    for name in HOSTILE[:2]:
        search.fill(name)
        assert picture.locator("th").text_content() == name
        assert picture.locator("th a").get_attribute("href").startswith("feedback/%3C")
    search.fill("nobody at all")
    assert status.text_content() == "0 of 1000 students" and picture.count() == 0
    assert page.title() == "Class report" and page.locator("img").count() == 0 and not trouble


@pytest.mark.browser
def test_pages_turn_and_columns_sort_by_keyboard(page, thousand):
    trouble = visit(page, thousand)
    region = page.get_by_role("region", name="Who failed what, 01-toy")
    pager = page.get_by_role("group", name="Pages: Who failed what, 01-toy")
    names = region.locator("tbody th")
    pager.get_by_role("button", name="Next").focus()
    page.keyboard.press("Enter")
    assert pager.get_by_role("status").text_content() == "51–100 of 1000"
    assert (
        names.first.text_content() == "student0047" and names.count() == report.SCREEN
    )  # the hostile ones are before them
    assert page.evaluate("document.activeElement.textContent") == "Next"
    for _ in range(2):
        pager.get_by_role("button", name="Previous").press("Enter")
    assert pager.get_by_role("status").text_content() == "1–50 of 1000"
    assert pager.get_by_role("button", name="Previous").get_attribute("aria-disabled") == "true"
    points = region.get_by_role("columnheader", name="Points")
    for order, score in (("ascending", "2"), ("descending", "4")):
        points.get_by_role("button").press("Enter")
        assert points.get_attribute("aria-sort") == order
        assert set(region.locator("tbody td.n").all_text_contents()) == {score}
    changed = page.get_by_role("region", name="Grades that have changed, 01-toy")
    changed.get_by_role("button", name="Difference").click()
    assert changed.locator("tbody tr").first.locator("td").nth(3).text_content() == "−2"
    page.get_by_label("Exercise").select_option("03-toy")
    assert page.get_by_role("heading", level=2).all_text_contents() == ["03-toy"] and not trouble


@pytest.mark.browser
def test_without_a_script_there_is_a_first_page(browser, thousand):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(thousand.as_uri())
    assert "shows the first 50 of 1000 students" in page.locator("main").text_content()
    assert page.locator("noscript table").first.locator("tr").count() == 1 + report.SCREEN
    assert (
        not page.locator(".find").is_visible()
        and not page.locator("table.picture").first.is_visible()
    )
    context.close()


@pytest.mark.browser
@pytest.mark.skipif(not AXE.exists(), reason="axe comes with the book's packages: make book")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_report_is_accessible(browser, written, scheme):
    _, path = written([f"s{number:02d}" for number in range(60)], EXERCISES[:1])
    context = browser.new_context(color_scheme=scheme, bypass_csp=True)
    page = context.new_page()
    trouble = visit(page, path)
    page.locator("summary").last.click()
    page.evaluate(AXE.read_text(encoding="utf-8"))
    violations = page.evaluate(VIOLATIONS)
    assert not violations and not trouble, (violations, trouble)
    context.close()


@pytest.mark.browser
@pytest.mark.parametrize("width", [1280, 390])
def test_a_report_is_no_wider_than_the_screen_and_prints_what_it_shows(page, thousand, width):
    page.set_viewport_size({"width": width, "height": 800})
    visit(page, thousand)
    assert page.evaluate("document.documentElement.scrollWidth") == width
    page.emulate_media(media="print")
    assert (
        not page.locator(".find").is_visible()
        and not page.get_by_role("button", name="Next").first.is_visible()
    )
    assert page.get_by_text("1–50 of 1000").first.is_visible()
