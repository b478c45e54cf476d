"""Regrade requests: what students write below the last cell of a notebook about checks that they think are wrong.

A request begins with the name of a function and a colon, and goes on until the next one begins. Its answer is
nbgrader's comment on the cell of that function: a request is open until there is one.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from autograder.checking.words import Message
from autograder.course.cells import Cell, call_of, grade_id, is_answer, is_check, is_locked
from autograder.grades.results import Request, SavedCell
from autograder.sanitize import text

HEAD = "ask_regrade"
"""The grade id of the locked cell that asks for requests; what students write after it are requests."""
MOST, MOST_TEXT = 3, 2_000
"""How many requests of a submission are kept, and how many characters of each."""
TOO_MANY = "Only the first {count} regrade requests were kept."
NAMELESS = "A regrade request was not kept, because it does not begin with the name of a function and a colon."
_BEGINS = re.compile(r"^[\s>*+\-\d.)]*[`*_]*(\w+)[`*_]*\s*[:：]\s*", re.ASCII)


def found_in(cells: Iterable[Cell]) -> tuple[list[Request], list[Message]]:
    """Return the regrade requests in a restored notebook, and notes for its student."""
    cells = list(cells)
    heads = [place for place, cell in enumerate(cells) if grade_id(cell) == HEAD]
    if not heads:
        return [], []
    answers = _answers(cells)
    written = [cell.source for cell in cells[heads[-1] :] if cell.cell_type == "markdown" and not is_locked(cell)]
    parts: list[tuple[str, list[str]]] = []
    for line in "\n".join(written).splitlines():
        begins = _BEGINS.match(line)
        if begins and begins[1] in answers:
            parts.append((begins[1], [line[begins.end() :]]))
        elif parts:
            parts[-1][1].append(line)
        elif line.strip():
            parts.append(("", [line]))
    requests = [
        Request(function, answers[function], text.block("\n".join(lines).strip())[:MOST_TEXT])
        for function, lines in parts
        if function
    ]
    notes = [Message(NAMELESS)] * any(not function for function, _ in parts)
    notes += [Message(TOO_MANY, count=MOST)] * (len(requests) > MOST)
    return requests[:MOST], notes


def _answers(cells: Iterable[Cell]) -> dict[str, str]:
    """Return the grade id of the answer that each check cell is about, by the function's name."""
    found, last = {}, ""
    for cell in cells:
        if is_answer(cell):
            last = grade_id(cell) or last
        call = call_of(cell) if is_check(cell) else None
        if call and last:
            found[call.subject] = last
    return found


def begun(requests: Iterable[Request], earlier: Iterable[Request], saved: Mapping[str, SavedCell]) -> list[Request]:
    """Return requests with the comments that were there before them: those are no answers.

    Parameters
    ----------
    requests : iterable of Request
        As a submission has them now.
    earlier : iterable of Request
        As its last grading found them: the same request is not asked again.
    saved : mapping
        What the gradebook has on each cell.
    """
    known = {(request.function, request.text): request.before for request in earlier}
    return [
        replace(
            request,
            before=known.get((request.function, request.text), saved.get(request.answer, SavedCell()).comment or ""),
        )
        for request in requests
    ]
