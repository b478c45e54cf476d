"""What a student can ask for in a notebook, as text: hints one at a time, where one stands, a
given cell, JSON.
"""

import dataclasses
import html
import json
from collections.abc import Mapping, Sequence
from typing import Any

from . import show
from .progress import Standing
from .report import Report, Result, cause_text
from .words import Message, lead, shown
from .words import translated as _


def without_hints(report: Report) -> Report:
    """Return a `Report` that says which checks failed and what they found, and leaves the rest
    to hints.
    """
    # `where` has the numbers around the first wrong element: they are a part of the hints.
    hints: dict[str, Any] = {
        "cause": "",
        "label": "",
        "hint": "",
        "relation": "",
        "follows": "",
        "where": None,
    }
    results = [dataclasses.replace(result, **hints) for result in report.results]
    return dataclasses.replace(report, results=results, read="")


def show_how_to_get_hints(report: Report) -> None:
    """Say how to get hints on a `Report`, if there is something to fix."""
    if show.needs_fixing(report):
        write(Message("For a hint: `{command}`", command=f'checks.hint("{report.subject}")'))


def hints(report: Report) -> list[str]:
    """Return the hints on a `Report`'s first failed check, in their order."""
    failed = next((result for result in report.results if result.status.costs_points), None)
    if failed is None:
        return []
    read = [f"{lead('Read:')}{shown(report.read)}"] if report.read else []
    if show.unwritten(report):
        return [*read, shown(show.unwritten(report))]
    cause = [f"{lead('Likely cause:')}{cause_text(failed)}"] if failed.cause else []
    return [*read, _difference(failed), *cause]


def _difference(result: Result) -> str:
    """Return how a result differs from a right one: the relation if there is one, or else the
    first wrong element.
    """
    sentences = [shown(result.title), shown(result.relation or result.message)]
    if result.where and not result.relation:
        sentences.append(show.element(result.where))
    return " ".join(sentences)


def show_hints(report: Report, count: int) -> None:
    """Show the first `count` hints on a `Report`."""
    texts = hints(report)
    if not texts:
        write(
            Message(
                "`{function}`: all checks pass; there is nothing to fix.", function=report.subject
            )
        )
        return
    values = {"function": report.subject, "count": min(count, len(texts)), "all": len(texts)}
    rows = [str(Message("`{function}`: {count} of {all} hints", **values))]
    rows += [f"{number}. {hint}" for number, hint in enumerate(texts[:count], 1)]
    if count < len(texts):
        rows.append(_("Run the same line again for the next one."))
    lines(rows)


def show_given(subject: str, text: str, has_cells: bool) -> None:
    """Say where the given text of a function is; outside a notebook, show it."""
    if not text:
        fault = (
            "The given text of `{function}` is not here: exercise.json is missing next to "
            "checks.py."
        )
        write(Message(fault, function=subject))
    elif has_cells:
        sentence = (
            "The given text of `{function}` is in a new cell below. Your own cell, which is "
            "graded, is unchanged."
        )
        write(Message(sentence, function=subject))
    else:
        show.write(text)


def show_status(standings: Sequence[Standing], current: str, read: Mapping[str, str]) -> None:
    """Show how exercises stand.

    Parameters
    ----------
    standings : sequence of Standing
    current : str
        The exercise whose checks run.
    read : mapping
        Where to read about each of its functions.
    """
    if not standings:
        write(Message("exercise.json is missing next to checks.py. Unpack the exercise again."))
        return
    has_dates = any(standing.due for standing in standings)
    rows = [[_("Exercise"), _("Points"), _("Due"), _("Next")]]
    for standing in standings:
        values = {"score": f"{standing.score:g}", "points": f"{standing.points:g}"}
        points = str(Message("{score} of {points}", **values))
        rows.append(
            [
                standing.title or standing.name,
                points if standing.checked else _("not checked yet"),
                standing.due or "–",
                _next(standing, read if standing.name == current else {}),
            ]
        )
    # A course without due dates has no empty column for them.
    if not has_dates:
        rows = [[exercise, points, following] for exercise, points, _due, following in rows]
    score = sum(standing.score for standing in standings)
    most = sum(standing.points for standing in standings)
    values = {"score": f"{score:g}", "points": f"{most:g}"}
    total = str(Message("{score} of {points} points, as the checks last found them.", **values))
    table(rows, total)


def _next(standing: Standing, read: Mapping[str, str]) -> str:
    if not standing.next:
        return _("all checks pass")
    name = f"`{standing.next}`"
    where = read.get(standing.next)
    if not where:
        return name
    return str(Message("{function} (read: {where})", function=name, where=shown(where)))


def show_json(report: Report, shapes: Mapping[str, str | Message]) -> None:
    """Print a `Report` as JSON in the reader's language; `shapes` are those of each check's last
    call.
    """
    document = {
        "function": report.subject,
        "points": report.points,
        "score": report.score,
        "pending": report.pending,
        "seed": report.seed,
        "read": shown(report.read),
        "checks": [_as_json(result, shapes.get(result.name, "")) for result in report.results],
    }
    show.write(json.dumps(document, indent=1, ensure_ascii=False, default=str))


def _as_json(result: Result, shapes: str | Message) -> dict[str, Any]:
    where = result.where or {}
    first_wrong = {name: where[name] for name in ("index", "expected", "got") if name in where}
    return {
        "name": result.name,
        "title": shown(result.title),
        "status": result.status.value,
        "shapes": shown(shapes),
        "message": shown(result.message),
        "first_wrong": first_wrong,
        "relation": shown(result.relation),
        "cause": cause_text(result) if result.cause else "",
    }


def write(message: Message) -> None:
    """Show one sentence."""
    lines([str(message)])


def lines(texts: Sequence[str]) -> None:
    """Show lines of text: drawn in Jupyter, printed elsewhere."""
    rows = "".join(f'<p style="margin:.2em 0">{show.code(text)}</p>' for text in texts)
    show.display("\n".join(texts), f'<div style="{show.BOX}">{rows}</div>')


def table(rows: Sequence[Sequence[str]], last: str) -> None:
    """Show a table with a heading, and a line below it."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    plain = []
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        plain.append("  ".join(cells).rstrip())
    drawn = ""
    for number, row in enumerate(rows):
        kind = "td" if number else "th"
        style = "text-align:left;padding:.15em .8em .15em 0"
        cells = [f'<{kind} style="{style}">{show.code(cell)}</{kind}>' for cell in row]
        drawn += f"<tr>{''.join(cells)}</tr>"
    frame = '<div style="overflow-x:auto"><table style="border-collapse:collapse">'
    below = f'<p style="margin:.4em 0 0">{html.escape(last)}</p>'
    show.display(
        "\n".join([*plain, last]),
        f'<div style="{show.BOX}">{frame}{drawn}</table></div>{below}</div>',
    )
