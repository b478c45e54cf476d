"""Sentences for people: why a result lost points, made from what grading found."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from autograder.checking import Result, Status, machine
from autograder.checking.words import FULL_STOPS, Message, counted, joined, shown, translated
from autograder.course.cells import is_check
from autograder.grades.results import CellResult, Deadline, Outcome, Record

MOST_MESSAGE = 160

NOT_INSTALLED = (
    "`{package}` is neither installed where this was graded nor submitted with the notebook, so "
    "code that uses it fails. It is imported in: {cells}."
)
TO_READ = "A person grades {cell}; until then it has 0 points."
TO_CONFIRM = (
    "A person gave {given} of {points} points for {cell}, and has to confirm them: it was graded "
    "again since."
)
LATE = Message("late")
BY_A_PERSON = Message("graded by a person")
NOT_FINISHED = Message("the check did not finish")


def lines_of(result: Outcome | Record, penalty: float = 0.0) -> list[str]:
    """Return a line for each cell that lost points or has pending ones, and for one tested with
    the course's own.
    """
    lines: list[str] = []
    if str(result.reason):
        lines.append(
            str(Message("{kind}: {reason}", kind=translated(result.kind), reason=result.reason))
        )
    if not result.kind.ungraded:
        for grade_id, cell in result.cells.items():
            # Sums of fractions differ in the last digits. If the submission has a reason, that is
            # also why a cell without checks lost its points.
            lost = cell.lost()
            if lost > 1e-9 and (
                cell.checks or cell.manual_points is not None or not str(result.reason)
            ):
                values = {
                    "name": cell.subject or grade_id,
                    "points": f"{lost:g}",
                    "reason": lost_to(cell),
                }
                lines.append(str(Message("{name} −{points}: {reason}", **values)))
            if cell.pending:
                lines.append(str(pending(cell.subject or grade_id, cell.pending, cell.waits_for())))
            if cell.replaced_functions:
                lines.append(str(tested_with(cell.subject or grade_id, cell.replaced_functions)))
    for grade_id, cell in result.cells.items():
        sentence = waiting(grade_id, cell)
        if sentence is not None:
            lines.append(str(sentence))
    if penalty:
        lines.append(f"{LATE} −{penalty:g}")
    return lines + [str(line) for line in result.repairs]


def waiting(name: str, cell: CellResult) -> Message | None:
    """Return a sentence on what a person still has to do with a cell, or None."""
    if cell.waits and cell.manual_points is not None:
        return Message(
            TO_CONFIRM,
            cell=cell.subject or name,
            given=f"{cell.manual_points:g}",
            points=f"{cell.max_points:g}",
        )
    # An error, or no response, is all that there is to say: no one has to read it.
    if cell.waits and cell.is_graded_by_hand and not cell.is_untouched:
        return Message(TO_READ, cell=name)
    return None


def lost_to(cell: CellResult) -> str:
    """Return in one line why a check cell lost points: the first check that failed, and why it
    failed.

    The student reads the same reason: the likely cause, or else how the result differs from the
    expected one.
    """
    if cell.manual_points is not None:
        return str(BY_A_PERSON)
    failed = [check for check in cell.checks if check.status == Status.FAILED]
    blocked = [check for check in cell.checks if check.status == Status.BLOCKED]
    if failed:
        # Of several failed checks, one that knows a cause or a relation says most.
        named = [check for check in failed if check.cause]
        related = [check for check in failed if str(relation_of(check))]
        title = shown(failed[0].title).rstrip(FULL_STOPS)
        if named:
            cause = str(
                Message(
                    "likely cause: {label}",
                    label=Message(named[0].label or words_of(named[0].cause)),
                )
            )
        else:
            sentence = shown(related[0].relation if related else failed[0].message)
            cause = sentence[:MOST_MESSAGE].rstrip(FULL_STOPS)
        if len(failed) > 1:
            text = "{cause}; failed: {title} (and {count} more)"
            return str(Message(text, cause=cause, title=title, count=len(failed) - 1))
        return str(Message("{cause}; failed: {title}", cause=cause, title=title))
    if blocked:
        return shown(blocked[0].message)
    return str(cell.error) or str(NOT_FINISHED)


def relation_of(check: Result) -> Message:
    """Return how the result of a failed check differs from the expected one; an empty message if
    that is not known.
    """
    return check.relation if isinstance(check.relation, Message) else Message(check.relation)


def pending(name: str, points: float, needs: Sequence[str]) -> Message:
    """Return a sentence on a function's pending points, and what they are waiting for."""
    text = "{name}: {points} pending (not lost), because these checks need a machine with {what}"
    return Message(text, name=name, points=f"{points:g}", what=describe_needs(needs))


def tested_with(name: str, helpers: Sequence[str]) -> Message:
    """Return a sentence that names the functions for which the course's own answered in a
    function's checks.
    """
    names = joined("{left}, {right}", [f"`{helper}`" for helper in helpers])
    return Message("{name}: tested with the course's own {helpers}", name=name, helpers=names)


def packages_missed(record: Record) -> list[str]:
    """Return the packages that a submission imports and that were not installed where it was
    graded.
    """
    return [str(note.values["package"]) for note in record.repairs if note.text == NOT_INSTALLED]


def points_sentence(outcome: Outcome) -> Message:
    """Return a sentence on the points from checks, and those that a person still has to give."""
    checks = [cell for cell in outcome.cells.values() if not cell.is_graded_by_hand]
    score = sum(cell.points for cell in checks)
    points = sum(cell.max_points for cell in checks)
    earned = Message("{score} of {points} points", score=f"{score:g}", points=f"{points:g}")
    manual = sum(cell.max_points for cell in outcome.cells.values() if cell.is_graded_by_hand)
    text = "{earned}, and {manual} more from the person who reads what you wrote"
    return Message(text, earned=earned, manual=f"{manual:g}") if manual else earned


def describe_needs(needs: Sequence[str]) -> str | Message:
    """Return what checks need of a machine, in words."""
    # bfloat16 kernels need a GPU as well: "bf16" says both.
    needs = [need for need in needs if need != "gpu" or "bf16" not in needs]
    names = [machine.NAMES.get(need, Message(need)) for need in needs] or [Message("it")]
    return joined("{left} and {right}", names)


def words_of(name: str) -> str:
    """Return a function's name as words."""
    return name.replace("_", " ")


def cell_feedback(cells: list[Any]) -> Iterator[str]:
    """Yield what a terminal shows of a graded notebook: errors of cells, and the feedback of
    checks.
    """
    for cell in cells:
        outputs = cell.get("outputs", [])
        if not is_check(cell):
            for output in outputs:
                if output["output_type"] == "error":
                    ended = "The cell {cell} raised {kind}: {text}\n"
                    yield str(
                        Message(ended, cell=cell["id"], kind=output["ename"], text=output["evalue"])
                    )
            continue
        # A check that only asserts displays nothing; what it printed is all there is.
        shown = [
            output["data"]["text/plain"]
            for output in outputs
            if output["output_type"] == "display_data"
        ]
        printed = [output["text"] for output in outputs if output["output_type"] == "stream"]
        yield "\n".join(shown or printed) + "\n"


def duration(seconds: float) -> Message:
    """Return a length of time in words, by its two largest units: "1 day, 3 hours"."""
    minutes = int(seconds) // 60
    days, hours, minutes = minutes // 1440, minutes // 60 % 24, minutes % 60
    units = [
        (days, counted("{count} day", "{count} days", days)),
        (hours, counted("{count} hour", "{count} hours", hours)),
        (minutes, counted("{count} minute", "{count} minutes", minutes)),
    ]
    largest = next((number for number, (count, _) in enumerate(units) if count), None)
    if largest is None:
        return Message("less than a minute")
    largest_two = joined(
        "{left}, {right}", [words for count, words in units[largest : largest + 2] if count]
    )
    assert isinstance(largest_two, Message)
    return largest_two


def due(deadline: Deadline) -> Message | None:
    """Return the sentence that says when a submission was due, with its student's extension;
    None without a date.
    """
    if not deadline.due:
        return None
    when = moment(deadline.due)
    if not deadline.extension:
        return Message("It was due on {when}.", when=when)
    text = "It was due on {when}, with your extension of {time}."
    return Message(text, when=when, time=duration(deadline.extension))


def moment(due: str) -> str:
    """Return a due date as people read it, such as "2026-12-01 23:59 (UTC+01:00)"."""
    time = datetime.fromisoformat(due)
    zone = time.isoformat()[-6:]
    return f"{time:%Y-%m-%d %H:%M} (UTC{zone if zone != '+00:00' else ''})"


def free_days(deadline: Deadline) -> Message | None:
    """Return the sentence on the free days that a late submission uses; None if it uses none."""
    used, remaining = deadline.free_days_used, deadline.free_days_left
    if not used:
        return None
    return counted(
        "{count} free day used; {left} left.",
        "{count} free days used; {left} left.",
        used,
        left=remaining,
    )
