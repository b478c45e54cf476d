"""Feedback for people: drawn in Jupyter, plain text elsewhere."""

import html
import sys
from typing import Any

from .report import Report, Result, Status, cause_text, shared_cause_text
from .words import Message, between, joined, lead, shown
from .words import translated as _

WITHOUT_POINTS = {
    Status.PASSED: "passed, ungraded",
    Status.FAILED: "not passed yet, ungraded",
    Status.BLOCKED: "not done yet, ungraded",
    Status.UNVERIFIED: "partly pending, ungraded",
}
STATUS = {
    Status.PASSED: "passed",
    Status.FAILED: "FAILED",
    Status.ADVICE: "advice, worth no points",
    Status.BLOCKED: "waits",
    Status.UNVERIFIED: "pending",
}
# For each matrix, its name in a record, which stays English, and its heading, which is translated.
SIDES = {"expected": "expected", "got": "got"}

# Inline, because feedback must look the same in JupyterLab, nbgrader's pages and a saved file;
# translucent backgrounds suit light and dark.
BOX = (
    "border:1px solid rgba(128,128,128,.45);border-radius:6px;padding:.6em "
    ".9em;max-width:52em;line-height:1.45"
)
COLOR = {
    Status.PASSED: "0,158,115",
    Status.FAILED: "213,94,0",
    Status.ADVICE: "0,114,178",
    Status.BLOCKED: "128,128,128",
    Status.UNVERIFIED: "128,128,128",
}
MARK = {
    Status.PASSED: "&#10003;",
    Status.FAILED: "&#10007;",
    Status.ADVICE: "i",
    Status.BLOCKED: "&#8230;",
    Status.UNVERIFIED: "?",
}


def number(value: Any) -> str:
    """Return a number as short text: 4 significant digits.

    What is not finite may come as text, as JSON has it.
    """
    return f"{float(value):.4g}"


def element(where: dict[str, Any]) -> str:
    """Return the sentence that names the first wrong element."""
    values = {"expected": number(where["expected"]), "got": number(where["got"])}
    if not where["index"]:
        return str(Message("Expected {expected}, got {got}.", **values))
    message = "First wrong element {index}: expected {expected}, got {got}."
    return str(Message(message, index=str(where["index"]), **values))


def points(report: Report) -> str:
    """Return the points of a `Report`, in words."""
    if not report.points:
        return str(Message(WITHOUT_POINTS[standing(report)]))
    values = {"score": f"{report.score:g}", "points": f"{report.points:g}"}
    if report.pending:
        text = "{score} of {points} points; {pending} pending"
        return str(Message(text, pending=f"{report.pending:g}", **values))
    return str(Message("{score} of {points} points", **values))


def standing(report: Report) -> Status:
    """Return the status of a `Report`: passed if all checks passed, blocked if none could begin,
    else failed.

    It is unverified if all passed except those that could not be verified here. Advice makes no
    difference.
    """
    statuses = {result.status for result in report.results} - {Status.ADVICE}
    if statuses <= {Status.PASSED, Status.UNVERIFIED}:
        return Status.UNVERIFIED if Status.UNVERIFIED in statuses else Status.PASSED
    return Status.BLOCKED if statuses == {Status.BLOCKED} else Status.FAILED


def needs_fixing(report: Report) -> bool:
    """Tell whether a `Report` has something to fix, as far as it could be verified."""
    return standing(report) not in (Status.PASSED, Status.UNVERIFIED)


def instead(report: Report) -> str | Message:
    """Return the sentence that names the functions replaced by the course's own; "" if there are
    none.
    """
    if not report.instead:
        return ""
    names = joined("{left}, {right}", [f"`{name}`" for name in report.instead])
    return Message(
        "Tested with the course's own {names}, because yours is missing or fails its own checks.",
        names=names,
    )


def ordered(report: Report) -> list[Result]:
    """Return a `Report`'s results, with advice below the graded checks."""
    return sorted(report.results, key=lambda result: result.status == Status.ADVICE)


def held(result: Result) -> str:
    """Return the sentence that says what passed before a check failed."""
    return str(Message("Passed: {held}.", held=result.held))


def unwritten(report: Report) -> str | Message:
    """Return why no check of a `Report` could begin, or an empty text: the first one waits for
    no other.
    """
    first = next(iter(report.results), None)
    return first.message if first and first.status == Status.BLOCKED else ""


def waits(result: Result) -> str:
    """Return what a check waits for, briefly: the names of the failed checks."""
    checks = getattr(result.message, "values", {}).get("checks")
    return str(Message("for {checks}", checks=checks)) if checks else shown(result.message)


def report(report: Report, mime: str) -> None:
    """Show a `Report`: as a rich output inside IPython, as printed text elsewhere."""
    display(text(report), as_html(report), {mime: report.to_dict()})


def display(plain: str, drawn: str, more: dict[str, Any] | None = None) -> None:
    """Show what is given as text and as HTML: drawn in IPython, printed elsewhere; `more` has
    other MIME types.
    """
    if "IPython" not in sys.modules or sys.modules["IPython"].get_ipython() is None:
        write(plain)
        return
    from IPython import display as of_ipython

    # `raw`: the keys are MIME types already.
    of_ipython.display({"text/plain": plain, "text/html": drawn, **(more or {})}, raw=True)


def write(message: str) -> None:
    """Print `message`, replacing characters that the console's encoding lacks."""
    encoding = sys.stdout.encoding or "utf-8"
    print(message.encode(encoding, "replace").decode(encoding))


def text(report: Report) -> str:
    """Return a `Report` as plain text."""
    lines = [f"{report.subject}{lead(between('{label}:'))}{points(report)}"]
    if unwritten(report):
        return "\n".join([*lines, f"  {shown(unwritten(report))}"])
    if report.instead:
        lines.append(f"  {shown(instead(report))}")
    for result in ordered(report):
        lines.append(f"  {_text_title(result)}")
        lines += [f"          {line}" for line in _text_details(result, report)]
    if needs_fixing(report):
        if report.read:
            lines.append(f"  {lead('Read:')}{shown(report.read)}")
        if report.points:
            lines.append(f"  {lead('To repeat these inputs:')}{report.again}")
    return "\n".join(lines)


def _text_title(result: Result) -> str:
    """Return a check's status and title, with its name if others may wait for it, or what it waits
    for.
    """
    status = _(STATUS[result.status])
    if result.status == Status.ADVICE:
        status = str(Message("{label}:", label=status))
    title = shown(result.title)
    note = ""
    if result.status == Status.FAILED:
        note = f"`{result.name}`"
    elif result.status == Status.BLOCKED:
        note = waits(result)
    if note:
        title = str(Message("{title} ({note})", title=title, note=note))
    return f"{status:7} {title}"  # as long as "pending"; only advice has more letters


def _text_details(result: Result, report: Report) -> list[str]:
    """Return the lines below a check's title."""
    if result.status == Status.UNVERIFIED:
        return [shown(result.message)]
    if not result.status.is_unmet:
        return []
    lines = [shown(result.message)]
    if result.held:
        lines.append(held(result))
    if cause := shared_cause_text(result, ordered(report)):
        lines.append(cause)
    elif result.cause:
        lines.append(f"{lead('Likely cause:')}{cause_text(result)}")
    if result.relation:
        lines.append(shown(result.relation))
    if result.where:
        lines.append(element(result.where))
        lines += _text_matrices(result.where)
    return lines


def _text_matrices(where: dict[str, Any]) -> list[str]:
    if "got_matrix" not in where:
        return []
    at = f" {Message('at {index}', index=str(where['lead']))}" if where["lead"] else ""
    lines = []
    for name in SIDES:
        heading = "{label}:" if name == "expected" else "{label} ({note}):"
        values = {"label": f"{_(SIDES[name])}{at}", "note": _("* = wrong")}
        lines.append(str(Message(heading, **values)))
        for row, wrong in zip(where[f"{name}_matrix"], where["wrong_matrix"], strict=True):
            line = ""
            for value, bad in zip(row, wrong, strict=True):
                mark = "*" if bad and name == "got" else " "
                line += f"{number(value) + mark:>10}"
            lines.append(line)
    return lines


def as_html(report: Report) -> str:
    """Return a `Report` as an HTML fragment without scripts."""
    colon = lead(between("{label}:"))
    parts = [
        f'<div style="{BOX}"><p style="margin:0 0 '
        f'.4em"><strong><code>{html.escape(report.subject)}</code>{colon}'
        f"{html.escape(points(report))}</strong></p>"
    ]
    if unwritten(report):
        return f"{parts[0]}{_inline(unwritten(report))}</div>"
    if report.instead:
        parts.append(f'<p style="margin:0 0 .4em">{_inline(instead(report))}</p>')
    parts.append('<ul style="list-style:none;margin:0;padding:0">')
    for result in ordered(report):
        color = COLOR[result.status]
        parts.append(
            '<li style="margin:.25em 0;padding:.2em .6em;border-left:4px solid '
            f'rgb({color});background:rgba({color},.08)">{MARK[result.status]} '
            f"{_status(result)}{colon}{_inline(result.title)}"
        )
        details = _html_details(result, report)
        if details:
            parts.append(f'<div style="margin:.3em 0 .3em 1.4em">{details}</div>')
        parts.append("</li>")
    parts.append("</ul>")
    if needs_fixing(report):
        last = [f"{html.escape(lead('Read:'))}{_inline(report.read)}"] if report.read else []
        if report.points:
            label = html.escape(lead("To repeat these inputs:"))
            last.append(f"{label}<code>{html.escape(report.again)}</code>")
        parts.append(f'<p style="margin:.5em 0 0">{"<br>".join(last)}</p>')
    return "".join(parts) + "</div>"


def _html_details(result: Result, report: Report) -> str:
    """Return what is below a check's title, as HTML; "" if nothing is."""
    if result.status == Status.UNVERIFIED:
        return _inline(result.message)
    if not result.status.is_unmet:
        return ""
    parts = [_inline(result.message)]
    if result.held:
        parts.append(f"<br>{code(held(result))}")
    if cause := shared_cause_text(result, ordered(report)):
        parts.append(f'<p style="margin:.4em 0">{code(cause)}</p>')
    elif result.cause:
        label = html.escape(lead("Likely cause:"))
        cause = code(cause_text(result))
        parts.append(f'<p style="margin:.4em 0"><strong>{label}</strong>{cause}</p>')
    if result.relation:
        parts.append(f'<p style="margin:.4em 0"><strong>{_inline(result.relation)}</strong></p>')
    if result.where:
        parts.append(f"<div>{code(element(result.where))}</div>{_html_matrices(result.where)}")
    return "".join(parts)


def _status(result: Result) -> str:
    """Return a check's status as HTML, with its name where others wait for it, or the names of
    those it waits for.
    """
    status = html.escape(_(STATUS[result.status]).lower())
    if result.status == Status.BLOCKED:
        return f"{status} {code(waits(result))}"
    return f"{status} {code(f'`{result.name}`')}" if result.status == Status.FAILED else status


def _inline(message: Any) -> str:
    return code(shown(message))


def code(text: str) -> str:
    """Escape text; text between backticks becomes code."""
    pieces = html.escape(text).split("`")
    if len(pieces) % 2 == 0:  # a backtick without a partner: all of them are shown
        return "`".join(pieces)
    for i in range(1, len(pieces), 2):
        pieces[i] = f"<code>{pieces[i]}</code>"
    return "".join(pieces)


def _html_matrices(where: dict[str, Any]) -> str:
    if "got_matrix" not in where:
        return ""
    tables = []
    for name in SIDES:
        rows = []
        for values, wrong in zip(where[f"{name}_matrix"], where["wrong_matrix"], strict=True):
            pairs = zip(values, wrong, strict=True)
            cells = [_html_cell(value, bad and name == "got") for value, bad in pairs]
            rows.append(f"<tr>{''.join(cells)}</tr>")
        caption = f'<caption style="text-align:left">{html.escape(_(SIDES[name]))}</caption>'
        tables.append(
            '<table style="display:inline-table;border-collapse:collapse;margin:.3em 1.5em .3em 0;'
            f'vertical-align:top">{caption}{"".join(rows)}</table>'
        )
    heading = ""
    if where["lead"]:
        leading_index = Message("at leading index {index}", index=str(where["lead"]))
        heading = f"<div>{html.escape(str(leading_index))}</div>"
    return f'<div style="overflow-x:auto">{heading}{"".join(tables)}</div>'


def _html_cell(value: Any, bad: bool) -> str:
    style = "padding:.1em .5em;text-align:right;font-variant-numeric:tabular-nums"
    return f'<td style="{style};{_cell(bad)}">{number(value)}</td>'


def _cell(bad: bool) -> str:
    if bad:
        return "border:1px solid rgb(213,94,0);background:rgba(213,94,0,.18);font-weight:bold"
    return "border:1px solid rgba(128,128,128,.3)"
