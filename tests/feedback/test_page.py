"""The feedback page: what it says and where, nothing from elsewhere, and nothing of a student's
that acts.
"""

import base64
import copy
import io
import re
import time
from dataclasses import replace

import nbformat
import nbgrader.api
import pytest
from babel.messages.catalog import Catalog
from babel.messages.mofile import write_mo
from browser_tools import AXE, VIOLATIONS
from bs4 import BeautifulSoup
from hostile.case import RIGHT, live
from hostile_markup import ACTING, LIMITS, ONLY_IN_MARKDOWN, SECONDS, SLOW
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
from nbgrader.apps import NbGraderAPI
from PIL import Image
from toy_course import toy_course

from autograder.authoring.release import release
from autograder.checking import MIME, Report, Result
from autograder.checking import words as translations
from autograder.checking.words import Message
from autograder.course.config import ROOT
from autograder.feedback import outcome_cell
from autograder.feedback import page as feedback_page
from autograder.feedback.page import render
from autograder.grades import gradebook
from autograder.grades.results import (
    CellResult,
    Kind,
    Outcome,
    StoredCell,
    StoredGrades,
    SubmissionScore,
)
from autograder.sanitize import outputs

STUDENT = "ada"
PAGE = "http://feedback.test/page.html"
COMMENT = "The proof is short. It says $a + b$."
PROOF = "Because $a + b = b + a$ for *all* numbers; 1 < 2."


@pytest.fixture(scope="module")
def graded(tmp_path_factory):
    """A course, an ordinary notebook graded in it, and what the gradebook says of that."""
    root = tmp_path_factory.mktemp("page") / "course"
    course = toy_course(root)
    exercise = course.sources()[0]
    release(course, exercise)
    notebook = nbformat.read(exercise.notebook, as_version=4)
    for cell in notebook.cells:
        flags = cell.metadata.get("nbgrader", {})
        cell.source = {**RIGHT, "proof": PROOF}.get(flags.get("grade_id"), cell.source)
        if cell.cell_type == "code" and flags.get("grade"):
            cell.outputs = [
                outputs.new_output("execute_result", data={"text/plain": repr(flags["points"] / 2)})
            ]
    text = new_code_cell(
        "print('hello')", outputs=[outputs.new_output("stream", name="stdout", text="hello\n")]
    )
    notebook.cells += [text, new_markdown_cell("# My notes\n\n| a | b |\n|---|---|\n| 1 | 2 |")]
    half = {"check_add": CellResult(2.0, 4.0), "check_twice": CellResult(1.0, 2.0)}
    outcome = Outcome(
        Kind.WRONG,
        Message(""),
        [],
        [],
        {**half, "proof": CellResult(3.0, 3.0, is_graded_by_hand=True)},
        "",
    )
    with gradebook.opened(course) as book:
        gradebook.register(course, book, exercise)
        writer = gradebook.Writer(course, book)
        comment = "The reasons, which the page tells in its own way."
        writer.write(exercise.name, STUDENT, outcome, None, lambda stored: comment)
        book.find_comment("proof", exercise.name, exercise.name, STUDENT).manual_comment = COMMENT
        book.db.commit()
        stored = writer.read(exercise.name, STUDENT)
    return course, notebook, stored


def page_of(graded, *cells, **more):
    """Return the page of the graded notebook, with more cells in it."""
    _, notebook, stored = graded
    notebook = copy.deepcopy(notebook)
    notebook.cells += cells
    return render(notebook, stored, **{"assignment": "01-toy", "student": STUDENT, **more})


def body(page):
    return BeautifulSoup(page, "html.parser").body


def test_the_nbgrader_command_writes_the_same_page(graded):
    course, notebook, _ = graded
    folder = course.output_folder / "autograded" / STUDENT / "01-toy"
    folder.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, folder / "01-toy.ipynb")
    with gradebook.opened(course):
        result = NbGraderAPI(config=course.config).generate_feedback("01-toy", STUDENT)
    assert result["success"], result
    stock = (course.output_folder / "feedback" / STUDENT / "01-toy" / "01-toy.html").read_text()
    assert stock == page_of(graded)
    text = " ".join(body(stock).get_text(" ").split())
    for part in (
        "3 of 9 points",
        "The proof is short.",
        "def add",
        "hello",
        "My notes",
        "proof is still to be graded by a person",
    ):
        assert part in text, part
    assert "which the page tells" not in text


def test_a_page_is_the_same_each_time(graded):
    assert page_of(graded) == page_of(graded)


def test_one_students_comment_is_not_on_anothers_page(graded):
    course, notebook, stored = graded
    cells = {name: replace(cell, comment=None) for name, cell in stored.cells.items()}
    assert "The proof is short" in page_of(graded)
    assert "The proof is short" not in page_of((course, notebook, replace(stored, cells=cells)))


def test_the_gradebooks_version_is_asked_for_here_only_while_it_is_opened(graded):
    asked = nbgrader.api.get_alembic_version
    with gradebook.opened(graded[0]):
        assert nbgrader.api.get_alembic_version is asked


# What stands where


def checked(*results, points=6.0, score=2.0):
    """Return a check cell `check_add` with a report on `add`, and the results that it is made
    of.
    """
    report = Report("add", points, score, 7, "chapter 1, *Sums*", list(results))
    cell = new_code_cell("checks.run('add', points=6)", id="check_add")
    flags = {
        "grade": True,
        "grade_id": "check_add",
        "locked": True,
        "points": points,
        "solution": False,
    }
    cell.metadata["nbgrader"] = flags
    cell.outputs = [
        outputs.new_output(
            "display_data",
            data={MIME: report.to_dict(), "text/html": "<b>the report</b>"},
            metadata={},
        ),
        outputs.new_output("execute_result", data={"text/plain": repr(score)}),
    ]
    return cell


WHERE = {
    "index": [0, 1], "expected": 2.0, "got": 3.5, "lead": [], "origin": [0, 0],
    "expected_matrix": [[1.0, 2.0]], "got_matrix": [[1.0, 3.5]], "wrong_matrix": [[False, True]],
}  # fmt: skip
PASSED = Result("shape", "`add(a, b)` has the shape of `a`.", 1, "passed")
SWAPPED = {"cause": "minus", "label": "`b` taken away", "hint": "You subtract <b>."}
FAILED = [
    Result(
        "value",
        "Entry i is a_i + b_i.",
        1,
        "failed",
        Message("1 of 2 is wrong."),
        ["the shape"],
        WHERE,
        **SWAPPED,
    ),
    Result("zero", "Adding `0` changes nothing.", 1, "failed", "It does.", **SWAPPED),
    Result("large", "Large numbers add up.", 1, "failed", "They do not."),
]
WAITING = [
    Result(f"more{number}", f"Waits {number}.", 1, "blocked", "Waits until this holds: a.")
    for number in (1, 2)
]


def page_with(*results, cells=(), head_cell=None, score=2.0, **score_fields):
    """Return the page of a notebook with a text, an answer and its check, as it is parsed."""
    text = new_markdown_cell("# 1. Sums of $x$\n\nAdd them.", id="title")
    text.metadata["nbgrader"] = {
        "grade": False,
        "grade_id": "title",
        "locked": True,
        "solution": False,
    }
    answer = new_code_cell("def add(a, b):\n    return a - b", id="add")
    answer.metadata["nbgrader"] = {
        "grade": False,
        "grade_id": "add",
        "locked": False,
        "solution": True,
    }
    head_cells = [head_cell] if head_cell else []
    notebook = new_notebook(
        cells=[*head_cells, text, answer, *cells, checked(*results, score=score)]
    )
    stored_cells = {
        "check_add": StoredCell(score, 6.0),
        "add": StoredCell(automatic="The reasons."),
    }
    stored = StoredGrades(SubmissionScore(score, 6.0, **score_fields), stored_cells)
    return body(render(notebook, stored, assignment="01-sums", student="ada"))


def said_of(kind, reason, notes=(), evidence=(), stops=()):
    """Return the cell at a graded notebook's head."""
    return outcome_cell.cell(
        outcome_cell.Summary(kind, reason, list(notes), list(evidence), list(stops))
    )


def text_of(element):
    return " ".join(element.get_text(" ").split())


def test_the_first_screen_has_the_points_and_a_card_for_each_cause():
    page = page_with(PASSED, *FAILED, *WAITING)
    assert "Sums of" in text_of(page.h1) and page.h1.math and "ada" in text_of(page.header)
    assert text_of(page.select_one(".score")) == "2 of 6 points"
    (row,) = page.select(".bars a")
    assert text_of(row) == "add 2 of 6" and page.find(id=row["href"][1:]) is not None
    first, second = page.select(".card")
    assert text_of(first).startswith(
        "add −2 Entry i is a_i + b_i. 1 of 2 is wrong. First wrong element [0, 1]: expected 2"
    )
    assert (
        "Likely cause: b taken away. You subtract <b>." in text_of(first)
        and first.select_one(".cause code").text == "b"
    )
    assert "These failed for the same reason: Adding 0 changes nothing." in text_of(first)
    assert "Passed: the shape." in text_of(first) and "chapter 1" in text_of(first)
    assert [cell.text for cell in first.select("td.wrong")] == ["3.5"] and len(
        first.select("td")
    ) == 4
    assert "−3" in text_of(second) and "2 more checks wait until this one passes." in text_of(
        second
    )
    assert (
        "more checks" not in text_of(first)
        and "the report" not in text_of(page)
        and "The reasons." not in text_of(page)
    )


def test_what_follows_from_another_failure_is_on_its_card():
    earlier = Result(
        "early", "Sums are added.", 1, "failed", "add raised TypeError.", follows="value"
    )
    page = page_with(earlier, *FAILED[:1])
    (card,) = page.select(".card")
    assert text_of(card).startswith("add −6 Entry i is a_i + b_i.")
    assert "These failed for the same reason: Sums are added." in text_of(card)
    (line,) = page.select('[id$=".early"]')
    assert (
        "Probably the same mistake as in value : b taken away. It makes this check fail as "
        "well." in text_of(line)
    )


def test_a_relation_is_shown_where_a_check_found_one():
    waiting = copy.copy(FAILED[2])
    waiting.relation = Message("Yours is {times} times as large.", times="2.65")
    check = feedback_page._failed_check(waiting)
    assert check.relation == "Yours is 2.65 times as large."


def test_a_perfect_submission_sees_so():
    page = page_with(PASSED, score=6.0)
    assert "Every check passed" in text_of(page.select_one(".sum")) and not page.select(".card")
    assert "Every check passed" not in text_of(page_with(PASSED, *FAILED))


def test_a_function_that_is_not_written_says_so_once():
    message = Message("{function} is not written yet.", function="add")
    page = page_with(
        *[Result(f"c{n}", f"Check {n}.", 1, "blocked", message) for n in range(5)], score=0.0
    )
    (card,) = page.select(".card")
    assert text_of(card).startswith("add −6 add is not written yet.")
    assert text_of(page.select_one(".check details summary")) == "add is not written yet."


def test_the_outcome_is_shown_first_and_at_its_cell():
    reason, note = Message("a locked cell was altered."), Message("The cell `x` was put back.")
    stops = [("add", Message("it took too long."))]
    head = said_of(Kind.HOSTILE, reason, [note], ["- 1\n+ <b>2"], stops)
    page = page_with(PASSED, *FAILED, head_cell=head, penalty=1.5, seconds_late=2 * 86400 + 5.0)
    top = text_of(page.select_one(".sum"))
    for part in ("hostile: a locked cell was altered.", "The cell x was put back.", "+ <b>2"):
        assert part in top, part
    assert "It was submitted 2 days after the due date; points lost: 1.5." in top
    assert page.select_one(".stopped")["id"] == "cell-add"
    head = said_of(Kind.LIMIT, Message("whatever"), stops=stops)
    page = page_with(PASSED, *FAILED, head_cell=head)
    assert "limit: add : it took too long." in text_of(page.select_one(".sum"))
    assert page.find(id=page.select_one(".note a")["href"][1:]) is page.select_one(".stopped")


def test_a_head_that_cannot_be_read_is_shown_as_it_is():
    head = said_of(Kind.HOSTILE, Message("altered."))
    head.metadata[outcome_cell.METADATA_KEY] = {"kind": 7}
    assert "hostile : altered." in text_of(page_with(PASSED, head_cell=head))


@pytest.mark.parametrize(
    "report",
    [{"results": 7}, {"subject": "add"}, [], "x", {"subject": 1, "points": "x", "results": [{}]}],
)
def test_a_report_that_is_none_costs_no_page(report):
    cell = checked(PASSED)
    cell.outputs[0]["data"][MIME] = report
    cell.outputs.insert(0, outputs.new_output("stream", name="stdout", text="first\n<b>last</b>\n"))
    stored = StoredGrades(SubmissionScore(2.0, 6.0), {"check_add": StoredCell(2.0, 6.0)})
    page = body(render(new_notebook(cells=[cell]), stored, assignment="01-sums", student="ada"))
    assert "<b>last</b>" in text_of(page.select_one(".card")) and "checks.run" in text_of(
        page.select_one(".check")
    )


def test_the_notebook_has_a_check_beside_its_code_and_the_courses_text_folded():
    page = page_with(PASSED, *FAILED, cells=[new_code_cell("print(1)")])
    text = page.select_one("details.text")
    assert (
        not text.has_attr("open")
        and "Sums of" in text_of(text.summary)
        and "Add them." in text_of(text)
    )
    pair = page.select_one(".pair")
    assert (
        "return a - b" in text_of(pair.select_one(".work"))
        and "print(1)" in pair.select_one(".work").text
    )
    marks = [(row["class"][0], row["id"]) for row in pair.select(".check li")]
    assert marks[:2] == [("passed", "at-check_add.shape"), ("failed", "at-check_add.value")]
    assert ", seed=7)" in text_of(pair.select_one(".check"))


@pytest.mark.parametrize(
    "seconds, words",
    [
        (59, "less than a minute"),
        (60, "1 minute"),
        (7300, "2 hours, 1 minute"),
        (97200, "1 day, 3 hours"),
        (86460, "1 day"),
    ],
)
def test_lateness_is_a_sentence(seconds, words):
    assert f"It was submitted {words} after the due date; no points are lost." in text_of(
        page_with(PASSED, seconds_late=seconds)
    )


def test_a_manual_comment_is_at_its_answer_and_on_the_first_screen(graded):
    course, notebook, stored = graded
    proof = replace(stored.cells["proof"], score=2.0, waits=False, has_manual_score=True)
    page = body(
        page_of((course, notebook, replace(stored, cells={**stored.cells, "proof": proof})))
    )
    (pair,) = page.select("#at-proof")
    assert "Because" in text_of(pair) and "The proof is short." in text_of(
        pair.select_one(".comment")
    )
    assert pair.select_one(".comment math") and "2 of 3" in text_of(pair.select_one(".check"))
    assert any("The proof is short." in text_of(card) for card in page.select(".card"))


def test_a_page_speaks_the_readers_language(monkeypatch, tmp_path):
    folder = tmp_path / "de" / "LC_MESSAGES"
    folder.mkdir(parents=True)
    catalogue = Catalog(locale="de")
    catalogue.add("Your notebook", "Dein Notebook")
    catalogue.add("of {points} points", "von {points} Punkten")
    with (folder / "checking.mo").open("wb") as file:
        write_mo(file, catalogue)
    monkeypatch.setattr(translations, "LOCALES", tmp_path)
    with translations.use("de"):
        page = page_with(PASSED)
    assert "von 6 Punkten" in text_of(page) and "Dein Notebook" in text_of(page)
    assert page.find_parent("html")["lang"] == "de"
    assert page_with(PASSED).find_parent("html")["lang"] == "en"


# In a browser


def acting_cells():
    """Return cells with everything that would act, as they come out of grading, and as they go
    in.
    """
    texts = {**ACTING, **ONLY_IN_MARKDOWN}.values()
    cleaned = [new_markdown_cell(text) for text in texts]
    outputs.clean_markdown(cleaned, LIMITS)
    collected = outputs.Collected(replace(LIMITS, output_kb=400), room=10**9)
    for text in texts:
        collected.add({"output_type": "display_data", "data": {"text/html": text}})
        collected.add({"output_type": "display_data", "data": {"text/markdown": text}})
        collected.add(
            {
                "output_type": "display_data",
                "data": {"image/svg+xml": f"<svg xmlns='x'>{text}</svg>"},
            }
        )
        collected.add({"output_type": "stream", "name": "stdout", "text": text})
        collected.add({"output_type": "error", "ename": text, "evalue": text, "traceback": [text]})
    raw = [
        outputs.new_output("display_data", data={"text/html": text}, metadata={}) for text in texts
    ]
    raw += [
        outputs.new_output("display_data", data={"text/markdown": text}, metadata={})
        for text in texts
    ]
    script = {"application/javascript": "hostile_mark()"}
    raw += [outputs.new_output("display_data", data=script, metadata={})]
    cells = [new_markdown_cell(text) for text in texts] + [new_code_cell(text) for text in texts]
    return [
        *cleaned,
        new_code_cell("1", outputs=collected.outputs),
        new_code_cell("2", outputs=raw),
        *cells,
    ]


def visit(page, html):
    """Open a page of HTML in a browser; return the addresses that it fetched from, and what ran."""
    fetched = []

    def answer(route):  # what the page's policy forbids never comes here
        fetched.append(route.request.url)
        route.fulfill(body=html, content_type="text/html; charset=utf-8")

    page.add_init_script("window.hostile_mark = () => { window.ran = true; }")
    page.route("**/*", answer)
    page.goto(PAGE)
    page.wait_for_timeout(300)
    return [url for url in fetched if url != PAGE], page.evaluate("window.ran") is True


@pytest.mark.browser
def test_nothing_is_fetched_and_nothing_runs(graded, page):
    html = page_of(graded, *acting_cells())
    assert not live(html)
    assert visit(page, html) == ([], False)
    assert page.locator("script").count() == 0
    placed = page.evaluate(
        "[...document.querySelectorAll('body *')]"
        ".filter(e => ['fixed', 'sticky'].includes(getComputedStyle(e).position)).length"
    )
    assert placed == 0
    assert (
        page.locator("[onerror], [srcset], iframe, form, meta[http-equiv=refresh], base").count()
        == 0
    )


@pytest.mark.browser
def test_the_policy_alone_keeps_scripts_and_requests_away(graded, page):
    forged = (
        "<script>hostile_mark()</script><img src='https://example.org/x.png'><style>@import "
        "url(//a.b)</style>"
    )
    html = page_of(graded).replace("</body>", f"{forged}</body>")
    assert visit(page, html) == ([], False)
    without = html.replace("Content-Security-Policy", "X-Nothing")
    elsewhere, ran = visit(page, without)
    assert elsewhere and ran  # the browser would have


@pytest.mark.browser
def test_a_photo_in_an_answer_is_seen(graded, page):
    buffer = io.BytesIO()
    Image.new("RGB", (40, 30), "orange").save(buffer, "JPEG")
    photo = {"my proof.jpg": {"image/jpeg": base64.b64encode(buffer.getvalue()).decode()}}
    cell = new_markdown_cell("![proof](attachment:my%20proof.jpg)", attachments=photo)
    outputs.clean_markdown([cell], LIMITS)
    assert visit(page, page_of(graded, cell)) == ([], False)
    picture = page.locator("img[alt=proof]")
    assert picture.evaluate("e => [e.naturalWidth, e.naturalHeight]") == [40, 30]


@pytest.mark.browser
@pytest.mark.parametrize("width, scheme", [(360, "light"), (1280, "dark")])
def test_a_page_fits(browser, width, scheme):
    stops = [("add", Message("too long."))]
    head = said_of(Kind.LIMIT, Message("x"), [Message("A note.")], ["- 1\n+ 2" * 50], stops)
    wide = new_code_cell(
        "x = " + "1 + " * 80, outputs=[outputs.new_output("stream", name="stdout", text="y" * 500)]
    )
    tall = new_markdown_cell(
        "# Mine\n\n| " + "wide | " * 30 + "\n|" + "---|" * 30 + "\n\n$$" + "x + " * 90 + "1$$"
    )
    html = page_with(PASSED, *FAILED, *WAITING, cells=[wide, tall], head_cell=head).find_parent(
        "html"
    )
    context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)
    page = context.new_page()
    visit(page, f"<!doctype html>{html}")
    assert page.evaluate("document.documentElement.scrollWidth") == width
    work, check = (page.locator(f".pair {part}").bounding_box() for part in (".work", ".check"))
    assert (check["x"] > work["x"] + 100) == (width > 960)
    context.close()


@pytest.mark.browser
@pytest.mark.skipif(not AXE.exists(), reason="axe comes with the book's packages: make book")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_page_is_accessible(browser, scheme):
    context = browser.new_context(color_scheme=scheme)
    page = context.new_page()
    html = page_with(PASSED, *FAILED, *WAITING).find_parent("html")
    page.set_content(str(html).replace("Content-Security-Policy", "X-Nothing"))
    page.evaluate(AXE.read_text())
    violations = page.evaluate(VIOLATIONS)
    assert not violations, violations
    context.close()


@pytest.mark.browser
@pytest.mark.skipif(not AXE.exists(), reason="axe comes with the book's packages: make book")
def test_the_page_on_accessibility_names_the_levels_of_axes_rules(page):
    page.set_content(
        "<!doctype html><html lang='en'><title>Empty</title><main><h1>Empty</h1></main>"
    )
    page.evaluate(AXE.read_text())
    rules = page.evaluate("""axe.run().then(({violations, passes, incomplete, inapplicable}) =>
        [violations, passes, incomplete, inapplicable].flat().map(rule => [rule.id, rule.tags]))""")
    level = re.compile(r"wcag2\d?a+|best-practice")
    used = {tag for _, tags in rules for tag in tags if level.fullmatch(tag)}
    text = (ROOT / "book" / "accessibility.md").read_text(encoding="utf-8")
    assert {tag for tag in re.findall("`([^`]+)`", text) if level.fullmatch(tag)} == used
    assert "target-size" not in dict(rules) and "`target-size`, is off by default" in text


# Sizes


@pytest.mark.parametrize("text", ["<&>" * 100_000, "y\n" * 150_000])
def test_a_page_has_a_largest_size(graded, text):
    printed = [
        new_code_cell("x", outputs=[outputs.new_output("stream", name="stdout", text=text)])
        for _ in range(9)
    ]
    html = page_of(graded, *printed, most_mb=1)
    assert len(html.encode()) < 1_000_000
    assert str(outputs.CUT_CELL) in html and "The proof is short" in html
    html = page_of(graded, *[new_markdown_cell(text) for _ in range(9)], most_mb=1)
    assert len(html.encode()) < 1_000_000
    assert str(outputs.CUT_SOURCE) in html


def test_a_notebook_with_odd_attachments_has_a_page(graded):
    cells = [
        new_markdown_cell("![x](attachment:../x.png)"),
        new_markdown_cell("![y][y]\n\n[y]: attachment:y.png"),
    ]
    html = page_of(graded, *cells)
    assert html.count("is not in the notebook") == 2


def test_pictures_have_a_description(graded):
    picture = outputs.new_output("display_data", data={"image/png": "aaaa"}, metadata={})
    html = page_of(graded, new_code_cell("plot()", outputs=[picture]))
    images = BeautifulSoup(html, "html.parser").find_all("img")
    assert images and all(image.get("alt") for image in images)


@pytest.mark.parametrize("name", SLOW)
def test_a_page_is_made_soon(graded, name):
    cell = new_markdown_cell(SLOW[name])
    outputs.clean_markdown([cell], LIMITS)
    page_of(graded)  # what is made once is made
    start = time.process_time()
    page_of(graded, cell, new_markdown_cell(SLOW[name]), new_code_cell(SLOW[name]))
    assert time.process_time() - start < SECONDS
