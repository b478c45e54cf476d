"""Makes the feedback page of a graded notebook: one file, without a script or a request, by
`templates/page.html.j2`.

All pages are made by `render`. Everything that a student wrote passes through `markup`, and nothing
of it is trusted: even the report that a check cell displays is not taken as HTML, but read as data.
"""

import functools
import html
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, pass_context
from markupsafe import Markup, escape

from autograder.checking import show, words
from autograder.checking.report import Report, Result, Status, likely, shared_cause_text
from autograder.checking.words import Message
from autograder.course.cells import (
    OUTCOME_ID,
    Cell,
    Notebook,
    call_of,
    grade_id,
    is_answer,
    is_check,
    is_code,
    is_graded,
    is_locked,
    points_worth,
    report_of,
    texts,
)
from autograder.course.limits import Limits
from autograder.course.seeds import Origin
from autograder.feedback import formulas, outcome_cell
from autograder.feedback.bare_page import disclosed
from autograder.feedback.values import (
    Card,
    FailedCheck,
    FeedbackPage,
    Function,
    GivenCode,
    Output,
    Prose,
    StudentCell,
    StudentWork,
)
from autograder.grades import file_problems, reasons
from autograder.grades.reasons import describe_needs
from autograder.grades.requests import HEADING_ID
from autograder.grades.results import Kind, Request, StoredCell, StoredGrades, SubmissionScore
from autograder.sanitize import code, markdown, markup, outputs
from autograder.sanitize.text import line, printed

REMEMBERED = 500
"""How many texts are cached as HTML; a course has a few hundred."""
TITLE_LENGTH = 60
"""How many characters of a cell's first line are its title, when it is folded."""
PICTURE = "A figure from this cell"
HEADING = re.compile(r"\s*#{1,6}[ \t]*(?P<title>[^\n]*?)[ \t#]*(?:\n|$)")
HEADING_TAG = re.compile(r"<(/?)h([1-6])\b")
ONE_HEADING = re.compile(r"<h1>(.*)</h1>\s*", re.DOTALL)

OPEN_IT = (
    "Open your notebook in Jupyter. If it opens, save it and submit it again. If it does not, "
    "copy your answers into a fresh copy of the exercise and submit that."
)
HAND_IT_IN = "Submit your notebook again, and do not rename it."
"""What to do about a file that could not be graded, if the reason does not say so itself."""


def render(
    notebook: Notebook,
    stored: StoredGrades,
    *,
    assignment: str,
    student: str,
    most_mb: float = Limits.graded_mb,
) -> str:
    """Return the feedback page for a graded notebook, as HTML.

    Parameters
    ----------
    notebook : Notebook
        Changed if the page would be too large: then outputs are cut, and if that is not enough,
        also the student's texts.
    stored : StoredGrades
        The gradebook's data on the submission.
    assignment, student : str
    most_mb : float
        The page's largest size.
    """
    # First the outputs, which a program wrote: most pages are small enough then.
    page = _page(notebook, stored, assignment, student)
    for cut in (outputs.cut_outputs, outputs.cut_source):
        if len(page.encode("utf-8", "replace")) <= most_mb * 1_000_000:
            break
        for cell in notebook.cells:
            if not is_locked(cell):
                cut(cell)
        page = _page(notebook, stored, assignment, student)
    return page


def _page(notebook: Notebook, stored: StoredGrades, assignment: str, student: str) -> str:
    # For each page: coloring code takes long, and a student can write any amount of it.
    with code.limited_coloring():
        return _rendered(notebook, stored, assignment, student)


def _rendered(notebook: Notebook, stored: StoredGrades, assignment: str, student: str) -> str:
    summary = outcome_cell.summary_of(notebook)
    cells = [cell for cell in notebook.cells if cell.id != OUTCOME_ID or not summary]
    budget = formulas.FormulaBudget()
    functions = [_function(cell, stored, budget) for cell in cells if is_graded(cell)]
    # Nothing of the student's is in it then: the graded notebook is the released one.
    as_given = summary is not None and summary.kind.ungraded
    course_texts = (
        cell
        for cell in cells
        if cell.cell_type == "markdown" and is_locked(cell) and grade_id(cell) != HEADING_ID
    )
    title = next((_title(cell.source)[0] for cell in course_texts), "")
    page = FeedbackPage(
        language=words.language(),
        assignment=assignment,
        title=_line(title) if title else escape(assignment),
        student=student,
        submission_score=stored.submission_score,
        made_of=stored.digest(),
        disclosure=stored.disclosure,
        recompute=disclosed(stored.disclosure),
        style=_style(),
        summary=summary,
        advice=_advice(summary),
        dates=_dates(stored.submission_score),
        requests=[_request(request) for request in stored.requests],
        can_ask=any(grade_id(cell) == HEADING_ID for cell in cells),
        functions=functions,
        cards=[] if as_given else [card for function in functions for card in _cards(function)],
        sections=[] if as_given else list(_sections(cells, functions, stored, summary, budget)),
    )
    return _environment().get_template("page.html.j2").render(vars(page))


def from_template(name: str, **values: Any) -> str:
    """Return a page made from another template, with the style of feedback pages."""
    return _environment().get_template(name).render(style=_style(), **values)


def prepare() -> None:
    """Load what the first page would wait for."""
    _environment().get_template("page.html.j2")
    _style()


@functools.cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("autograder.feedback"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.filters.update(code=code.inline, line=line, number=_number)
    environment.globals.update(
        _=words.translated, Kind=Kind, Message=Message, counted=words.counted, shown=words.shown
    )
    environment.globals.update(lead=words.lead, gap=words.gap, between=words.between)
    environment.globals.update(Origin=Origin)
    environment.globals.update(
        ordered=show.ordered,
        instead=show.instead,
        likely=likely,
        shared_cause_text=shared_cause_text,
    )
    return environment


@functools.cache
def _style() -> Markup:
    """Return the style sheet, without comments and line breaks."""
    source = _environment().loader.get_source(_environment(), "page.css")[0]  # type: ignore[union-attr]
    return Markup(re.sub(r"\s*\n\s*", "", re.sub(r"/\*.*?\*/", "", source, flags=re.DOTALL)))


# Functions and their points


def _function(cell: Cell, stored: StoredGrades, budget: formulas.FormulaBudget) -> Function:
    """Return the page's data on one graded cell."""
    name = grade_id(cell) or cell.id
    stored_cell = stored.cells.get(name, StoredCell())
    report = _report(cell) if is_check(cell) else None
    call = call_of(cell) if is_check(cell) and not report else None
    most, score = points_worth(cell), stored_cell.score
    pending = report.pending if report and not stored_cell.has_manual_score else 0.0
    standing = show.standing(report) if report else Status.BLOCKED
    return Function(
        id=name,
        cell=cell.id,
        name=report.subject if report else call.subject if call else name,
        score=score,
        most=most,
        waits=stored_cell.waits,
        pending=_pending(report, pending) if report and pending else None,
        has_manual_score=stored_cell.has_manual_score,
        unwritten=report is not None
        and all(result.status == Status.BLOCKED for result in report.results),
        comment=_markdown(stored_cell.comment, {}, budget) if stored_cell.comment else "",
        check=is_check(cell),
        report=report,
        ending="" if report else _ending(cell, stored_cell),
        worth=_points(score, most) if most else words.translated(show.WITHOUT_POINTS[standing]),
        lost=most - score - pending,
        is_full=score + pending >= most - 1e-9
        if most
        else standing in (Status.PASSED, Status.UNVERIFIED),
        advised=report is not None
        and any(result.status == Status.ADVICE for result in report.results),
        share=100 * max(0.0, min(1.0, score / (most or 1))),
    )


def _pending(report: Report, points: float) -> Message:
    """Return a sentence on pending points, and what they are waiting for."""
    needs = sorted({result.on for result in report.results if result.on})
    text = (
        "{name}: {points} pending (not lost). These checks need a machine with {what}, and this "
        "was graded on one without it."
    )
    return Message(
        text, points=_number(points), name=f"`{report.subject}`", what=describe_needs(needs)
    )


def _report(cell: Cell) -> Report | None:
    """Return the report in a check cell's outputs; None if there is none that can be read."""
    try:
        raw = report_of(cell)
        report = Report.from_dict(raw) if raw else None
        # What is shown of it is tried here, so that no part of the page fails later.
        for result in report.results if report else ():
            _failed_check(result)
        return report
    except Exception:  # it went through a file that others may have written
        return None


def _ending(cell: Cell, stored_cell: StoredCell) -> str:
    """Return how a cell without a report ended: the last line that it left, or what nbgrader
    says of an answer.
    """
    if not is_check(cell):
        return stored_cell.automatic or ""
    errors = [
        f"{out.ename}: {out.evalue}"
        for out in cell.get("outputs", [])
        if out.output_type == "error"
    ]
    lines = "".join(texts(cell)).strip().splitlines()
    return outputs.without_codes((errors or lines[-1:] or [""])[-1])


def _advice(summary: outcome_cell.Summary | None) -> str:
    """Return what to do about a file that could not be graded; "" if the reason says so already."""
    if summary is None or summary.kind != Kind.MALFORMED:
        return ""
    if summary.reason.text in file_problems.SAY_HOW:
        return ""
    if summary.reason.text == file_problems.MISSING:
        return words.translated(HAND_IT_IN)
    return words.translated(OPEN_IT)


def _dates(score: SubmissionScore) -> list[Message]:
    """Return a sentence on when the submission was due, and one on how late it was, if there is
    anything to say.
    """
    sentences = [reasons.due(score.deadline)]
    if score.seconds_late > 0 or score.penalty:
        sentences.append(_late(score))
    sentences.append(reasons.free_days(score.deadline))
    return [sentence for sentence in sentences if sentence is not None]


def _request(request: Request) -> Message:
    """Return a sentence on how a regrade request stands."""
    name = f"`{request.function}`"
    if request.open:
        return Message("Your regrade request on {function} waits for an answer.", function=name)
    return Message(
        "Your regrade request on {function} is answered: see the comment below its code.",
        function=name,
    )


def _late(score: SubmissionScore) -> Message:
    cost = Message("points lost: {points}", points=_number(score.penalty))
    if not score.seconds_late:
        return Message("It was submitted late; {what}.", what=cost)
    if not score.penalty:
        cost = Message("no points are lost")
    text = "It was submitted {time} after the due date; {what}."
    return Message(text, time=reasons.duration(score.seconds_late), what=cost)


# Cards


def _cards(function: Function) -> Iterator[Card]:
    """Yield a card for each cause, or each failed check without one, that cost a function
    points.
    """
    report = function.report
    if function.lost <= 1e-9:  # sums of fractions differ in the last digits
        return
    read = report.read if report else ""
    blank = Card(function.id, function.name, function.lost, function.comment, read)
    if function.has_manual_score:
        yield replace(blank, message=Message("These points were given by a person."))
        return
    if report is None:
        if function.check or function.ending:
            yield replace(blank, message=function.ending or Message("The check did not finish."))
        return
    failed = [result for result in report.results if result.status == Status.FAILED]
    blocked = [
        result for result in report.results if result.status == Status.BLOCKED and result.weight
    ]
    if not failed:
        yield replace(blank, message=blocked[0].message if blocked else "")
        return
    total = sum(result.weight for result in report.results) or 1
    causes = {result.name: result.cause for result in failed}
    # Failures of one cause share a card, with those that follow from them. Without a cause, each
    # has its own: no cause has a name that begins with this character.
    groups: dict[str, list[Result]] = {}
    for result in failed:
        cause = result.cause or causes.get(result.follows)
        groups.setdefault(cause or f"\0{result.name}", []).append(result)
    # Blocked checks wait for some failed one, and no one knows for which: the last card has them.
    last = list(groups)[-1]
    for cause, group in groups.items():
        group.sort(key=lambda result: not result.cause)  # first the one of which the cause is known
        cost = sum(result.weight for result in [*group, *(blocked if cause == last else [])])
        yield replace(
            blank,
            lost=report.points * cost / total,
            check=_failed_check(group[0]),
            others=[result.title for result in group[1:]],
            blocked=len(blocked) if cause == last else 0,
        )


def _failed_check(result: Result) -> FailedCheck:
    """Return what a check found, put into words."""
    first_wrong = result.where or {}
    label, hint = likely(result.label, result.hint)
    sides = show.SIDES if "got_matrix" in first_wrong else ()
    matrices = [(name, _matrix(first_wrong, name)) for name in sides]
    return FailedCheck(
        title=words.shown(result.title),
        message=words.shown(result.message),
        held=show.held(result) if result.held else "",
        relation=words.shown(result.relation),
        element=show.element(first_wrong) if first_wrong else "",
        lead=str(first_wrong["lead"]) if first_wrong.get("lead") else "",
        matrices=matrices,
        label=label,
        hint=hint,
    )


def _matrix(first_wrong: dict[str, Any], name: str) -> list[list[tuple[str, bool]]]:
    """Return a part of an array as rows of numbers, and whether each is to be marked as wrong."""
    rows = []
    for values, marks in zip(
        first_wrong[f"{name}_matrix"], first_wrong["wrong_matrix"], strict=True
    ):
        marked = [bool(mark) and name == "got" for mark in marks]
        rows.append(list(zip(map(show.number, values), marked, strict=True)))
    return rows


# The notebook


def _sections(
    cells: list[Cell],
    functions: list[Function],
    stored: StoredGrades,
    summary: outcome_cell.Summary | None,
    budget: formulas.FormulaBudget,
) -> Iterator[Prose | GivenCode | StudentWork]:
    """Yield the notebook in sections: the course's texts, its code, and the student's cells that
    belong together, with the points for them.
    """
    by_id = {function.id: function for function in functions}
    stopped_ids = {cell_id for cell_id, _ in summary.stops} if summary else set()
    work: list[StudentCell] = []
    for cell in cells:
        graded = by_id.get(grade_id(cell) or cell.id) if is_graded(cell) else None
        # The course's text or code ends the student's cells that belong together.
        if graded is None and is_locked(cell):
            if work:
                yield StudentWork(work)
                work = []
            if cell.cell_type == "markdown":
                yield _prose(cell)
            else:
                yield _given_code(cell, stopped_ids, budget)
            continue
        # A cell that a person grades is both: written by the student, and worth points.
        if graded is None or is_answer(cell):
            work.append(_student_cell(cell, stored, stopped_ids, budget))
        if graded is not None:
            printed = list(_outputs(cell, budget)) if is_check(cell) else []
            yield StudentWork(work, graded, printed, _checked_by(cell, graded))
            work = []
    if work:
        yield StudentWork(work)


def _prose(cell: Cell) -> Prose:
    """Return a text of the course: its title, and what is folded below it."""
    title, rest = _title(cell.source)
    return Prose(_line(title), Markup(_released(rest)) if rest.strip() else "")


def _given_code(cell: Cell, stopped_ids: set[str], budget: formulas.FormulaBudget) -> GivenCode:
    """Return code of the course, and its outputs."""
    title = cell.source.strip().partition("\n")[0][:TITLE_LENGTH]
    code_text = Markup(code.block(cell.source))
    return GivenCode(
        cell.id, title, code_text, list(_outputs(cell, budget)), stop=cell.id in stopped_ids
    )


def _student_cell(
    cell: Cell, stored: StoredGrades, stopped_ids: set[str], budget: formulas.FormulaBudget
) -> StudentCell:
    """Return a cell for the student to write, with a grader's comment on it."""
    comment = stored.cells.get(grade_id(cell) or "", StoredCell()).comment
    comment_html = _markdown(comment, {}, budget) if comment else ""
    shown: list[Output] = []
    folded = text = code_text = ""
    if is_code(cell):
        lines = [line for line in cell.source.splitlines() if line.strip()]
        shown = list(_outputs(cell, budget))
        # A cell for experiments that has only the course's comments is folded.
        if (
            lines
            and not shown
            and not is_answer(cell)
            and all(line.startswith("#") for line in lines)
        ):
            folded = lines[0].lstrip("# ")[:TITLE_LENGTH]
        code_text = Markup(code.block(printed(cell.source)))
    elif cell.cell_type == "markdown":
        text = _markdown(cell.source, cell.get("attachments", {}), budget)
    else:
        code_text = Markup(code.block(printed(cell.source), ""))
    return StudentCell(
        cell.id, cell.id in stopped_ids, comment_html, text, code_text, folded, shown
    )


def _checked_by(cell: Cell, function: Function) -> Markup | str:
    """Return the code of a check that has no report to show for it."""
    return Markup(code.block(cell.source)) if is_check(cell) and not function.report else ""


def _outputs(cell: Cell, budget: formulas.FormulaBudget) -> Iterator[Output]:
    """Yield a cell's outputs."""
    for output in cell.get("outputs", []):
        kind = output.output_type
        if kind == "stream":
            yield Output(output.name == "stderr", pre=Markup(code.terminal(output.text)))
        elif kind == "error":
            trace = "\n".join(output.traceback) or f"{output.ename}: {output.evalue}"
            yield Output(True, pre=Markup(code.terminal(trace)))
        elif not is_check(cell):  # points, and the report, are shown in their own way
            shown = _displayed(output.data, budget)
            if shown:
                yield shown


def _displayed(data: dict[str, Any], budget: formulas.FormulaBudget) -> Output | None:
    """Return the richest form of what was displayed that a page can show."""
    if "text/html" in data:
        return Output(html=_with_formulas(markup.inert_html(data["text/html"]), budget))
    for mime in outputs.PAGE_PICTURES:
        if mime in data:
            address = f"data:{mime};base64,{''.join(data[mime].split())}"
            if markup.PICTURE.fullmatch(address):
                return Output(
                    html=Markup('<img alt="{}" src="{}">').format(
                        words.translated(PICTURE), address
                    )
                )
    if "image/svg+xml" in data:
        return Output(
            html=Markup(markup.as_picture("image/svg+xml", markup.as_base64(data["image/svg+xml"])))
        )
    if "text/markdown" in data:
        return Output(html=_markdown(data["text/markdown"], {}, budget))
    if "text/latex" in data:
        return Output(html=_with_formulas(html.escape(data["text/latex"], quote=False), budget))
    if "text/plain" in data:
        return Output(pre=Markup(code.terminal(data["text/plain"])))
    return None


# Texts


def _title(source: str) -> tuple[str, str]:
    """Return the heading that a text begins with, and the rest; without one, its first line is
    both.
    """
    heading = HEADING.match(source)
    if heading:
        return heading["title"], source[heading.end() :]
    return source.strip().partition("\n")[0], source


def _remembered(function: Callable[[str], str]) -> Callable[[str], str]:
    """Let a function of a text remember what it returned, as long as the text is short."""
    known = functools.lru_cache(REMEMBERED)(function)

    @functools.wraps(function)
    def call(text: str) -> str:
        return (known if len(text) <= markup.SMALL else function)(text)

    return call


@_remembered
def _released(text: str) -> str:
    """Return a text of the course as HTML."""
    return formulas.with_formulas(
        markdown.inert_markdown(text)[0], formulas.FormulaBudget(float("inf"))
    )


def _line(text: str) -> Markup:
    """Return the text of a heading as HTML."""
    shown = ONE_HEADING.fullmatch(_released(f"# {text}"))
    return Markup(shown[1]) if shown else escape(text)


def _markdown(text: str, attachments: dict[str, Any], budget: formulas.FormulaBudget) -> Markup:
    shown = markdown.inert_markdown(text, attachments)[0] if attachments else _inert(text)
    return _with_formulas(shown, budget)


@pass_context
def markdown2html(context: Any, source: str) -> Markup:
    """Return Markdown as nbgrader's formgrader shows it; replaces nbconvert's filter of the same
    name.
    """
    cell = context.get("cell") or {}
    clean = markdown.inert_markdown(source, cell.get("attachments"))[0]
    return Markup(formulas.with_formulas(clean, formulas.FormulaBudget()))


def _inert(text: str) -> str:
    # Code is colored within a page's budget: its HTML may differ from page to page.
    perhaps_has_code = "`" in text or "~~~" in text or "    " in text or "\t" in text
    return markdown.inert_markdown(text)[0] if perhaps_has_code else _inert_prose(text)


@_remembered
def _inert_prose(text: str) -> str:
    """Return a text without code, which is the same on each page."""
    return markdown.inert_markdown(text)[0]


def _with_formulas(clean: str, budget: formulas.FormulaBudget) -> Markup:
    return Markup(HEADING_TAG.sub(_below_ours, formulas.with_formulas(clean, budget)))


# Headings in texts begin with h4, below those of the page's sections.
def _below_ours(tag: re.Match[str]) -> str:
    return f"<{tag[1]}h{min(6, int(tag[2]) + 3)}"


def _number(value: float) -> str:
    return f"{round(value, 2):g}"


def _points(score: float, most: float) -> str:
    return str(Message("{score} of {points}", score=_number(score), points=_number(most)))
