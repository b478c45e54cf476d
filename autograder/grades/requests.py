"""Regrade requests: what students write below the last cell of a notebook about checks that they
think are wrong.

A request begins with the name of a function and a colon, and goes on until the next one begins. Its
answer is nbgrader's comment on the cell of that function: a request is open until there is one.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from autograder.checking.words import Message, joined
from autograder.course.cells import Cell, call_of, grade_id, is_answer, is_check, is_locked
from autograder.grades.results import Request, StoredCell
from autograder.sanitize import text

HEADING_ID, CELL = "ask_regrade", "regrade"
"""The grade id of the locked cell that asks for requests, and the id of the cell in which they
are written.
"""
MOST, MOST_TEXT = 3, 2_000
"""How many requests of a submission are kept, and how many characters of each."""
MOST_READ, MOST_NAME = 20_000, 200
"""How many characters of all requests are read, and within how many of a line a name has to end."""
BEFORE_A_NAME, AROUND_A_NAME = " \t>*+-.)0123456789", " \t`*_"
"""What Markdown may have there: a quotation, a list, code, and emphasis."""
TOO_MANY = "Only the first {count} regrade requests were kept."
NAMELESS = (
    "A regrade request was not kept, because it does not begin with the name of a function and a "
    "colon. The functions are: {names}."
)


def found_in(cells: Iterable[Cell]) -> tuple[list[Request], list[Message]]:
    """Return the regrade requests in a restored notebook, and notes for its student.

    They are in the cell of that name; a program that gives cells other ids has added one after the
    locked cell.
    """
    cells = list(cells)
    heads = [index for index, cell in enumerate(cells) if grade_id(cell) == HEADING_ID]
    if not heads:
        return [], []
    after = [
        cell for cell in cells[heads[-1] :] if cell.cell_type == "markdown" and not is_locked(cell)
    ]
    source = next((cell.source for cell in after if cell.id == CELL), "")
    if not source.strip():
        source = "\n".join(cell.source for cell in after)
    return parsed(source, answers_in(cells))


def parsed(written: str, answers: Mapping[str, str]) -> tuple[list[Request], list[Message]]:
    """Return the regrade requests in a text, and notes for its student.

    Parameters
    ----------
    written : str
    answers : mapping
        The grade id of the answer to each function, by the function's name.
    """
    requests: list[tuple[str, list[str]]] = []
    nameless = False
    for line in written[:MOST_READ].splitlines():
        name, rest = _begun_by(line)
        if name in answers:
            requests.append((name, [rest]))
        elif requests:
            requests[-1][1].append(line)
        else:
            nameless = nameless or bool(line.strip())
    accepted = [
        Request(function, answers[function], text.block("\n".join(lines).strip())[:MOST_TEXT])
        for function, lines in requests[:MOST]
    ]
    notes = []
    if nameless:
        names = joined("{left}, {right}", [f"`{name}`" for name in answers]) if answers else ""
        notes.append(Message(NAMELESS, names=names))
    if len(requests) > MOST:
        notes.append(Message(TOO_MANY, count=MOST))
    return accepted, notes


def _begun_by(line: str) -> tuple[str, str]:
    """Return what a line has before its first colon, as a name, and after it; "" and the line if
    it has none.
    """
    places = [index for sign in ":：" if (index := line.find(sign, 0, MOST_NAME)) >= 0]
    if not places:
        return "", line
    before, rest = line[: min(places)], line[min(places) + 1 :]
    # The example in the notebook is code, and some students leave the backquotes around all of it.
    if before.count("`") == 1 and rest.rstrip().endswith("`"):
        rest = rest.rstrip()[:-1]
    return before.lstrip(BEFORE_A_NAME).strip(AROUND_A_NAME), rest


def answers_in(cells: Iterable[Cell]) -> dict[str, str]:
    """Return the grade id of the answer that each check cell is about, by the function's name."""
    # A check is about the last answer above it.
    answers, last = {}, ""
    for cell in cells:
        if is_answer(cell):
            last = grade_id(cell) or last
        call = call_of(cell) if is_check(cell) else None
        if call and last:
            answers[call.subject] = last
    return answers


def with_earlier_comments(
    requests: Iterable[Request], earlier: Iterable[Request], stored: Mapping[str, StoredCell]
) -> list[Request]:
    """Return requests with the comments that were there before them: those are no answers.

    Parameters
    ----------
    requests : iterable of Request
        As a submission has them now.
    earlier : iterable of Request
        As its last grading found them: the same request is not asked again.
    stored : mapping
        What the gradebook has on each cell.
    """
    known = {(request.function, request.text): request.before for request in earlier}
    result = []
    for request in requests:
        now = stored.get(request.answer, StoredCell()).comment or ""
        before = known.get((request.function, request.text), now)
        result.append(replace(request, before=before))
    return result
