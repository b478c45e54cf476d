"""Feedback for people: drawn in Jupyter, plain text elsewhere."""

import html
import sys

STATUS = {"passed": "passed", "failed": "FAILED", "waiting": "waits"}

# Inline, because feedback must look the same in JupyterLab, nbgrader's pages and a saved file; translucent
# backgrounds suit light and dark.
BOX = "border:1px solid rgba(128,128,128,.45);border-radius:6px;padding:.6em .9em;max-width:52em;line-height:1.45"
COLOUR = {"passed": "0,158,115", "failed": "213,94,0", "waiting": "128,128,128"}
MARK = {"passed": "&#10003;", "failed": "&#10007;", "waiting": "&#8230;"}


def number(value):
    """Return a number as short text: 4 significant digits."""
    return f"{value:.4g}"


def element(where):
    """Return the sentence that names the first wrong element."""
    place = f" {where['index']}" if where["index"] else ""
    label = "First wrong element" if place else "The value"
    return f"{label}{place}: expected {number(where['expected'])}, got {number(where['got'])}."


def report(report, mime):
    """Show a `Report`: as a rich output inside IPython, as printed text elsewhere."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    if shell is None:
        write(text(report))
        return
    from IPython.display import display

    bundle = {"text/plain": text(report), "text/html": as_html(report), mime: report.to_dict()}
    display(bundle, raw=True)


def write(message):
    """Print `message`, whatever the console's encoding can show."""
    encoding = sys.stdout.encoding or "utf-8"
    print(message.encode(encoding, "replace").decode(encoding))


def text(report):
    """Return a `Report` as plain text."""
    lines = [f"{report.subject}: {report.score:g} of {report.points:g} points"]
    hinted = set()
    for result in report.results:
        lines.append(f"  {STATUS[result.status]:7} {result.title}")
        if result.status != "failed":
            continue
        lines.append(f"          {result.message}")
        if result.held:
            lines.append(f"          Held: {'; '.join(result.held)}.")
        if result.hint and result.cause not in hinted:
            hinted.add(result.cause)
            lines.append(f"          Likely cause: {result.hint}")
        if result.where:
            lines.append(f"          {element(result.where)}")
            lines += [f"          {line}" for line in _text_matrices(result.where)]
    waiting = {result.message for result in report.results if result.status == "waiting"}
    lines += [f"  {message}" for message in sorted(waiting)]
    if any(result.status != "passed" for result in report.results):
        if report.read:
            lines.append(f"  Read: {report.read}")
        lines.append(f"  The same inputs again: seed={report.seed}")
    return "\n".join(lines)


def _text_matrices(where):
    if "got_matrix" not in where:
        return []
    place = f" at {where['lead']}" if where["lead"] else ""
    lines = []
    for name in ("expected", "got"):
        lines.append(f"{name}{place}:" if name == "expected" else f"{name}{place} (* = wrong):")
        for values, wrong in zip(where[f"{name}_matrix"], where["wrong_matrix"], strict=True):
            cells = [
                number(value) + ("*" if bad and name == "got" else " ")
                for value, bad in zip(values, wrong, strict=True)
            ]
            lines.append("".join(f"{cell:>10}" for cell in cells))
    return lines


def as_html(report):
    """Return a `Report` as an HTML fragment without scripts."""
    parts = [
        f'<div style="{BOX}"><p style="margin:0 0 .4em"><strong><code>{html.escape(report.subject)}</code>: '
        f"{report.score:g} of {report.points:g} points</strong></p>"
        '<ul style="list-style:none;margin:0;padding:0">'
    ]
    hinted = set()
    for result in report.results:
        colour = COLOUR[result.status]
        parts.append(
            f'<li style="margin:.25em 0;padding:.2em .6em;border-left:4px solid rgb({colour});'
            f'background:rgba({colour},.08)">{MARK[result.status]} {STATUS[result.status].lower()}: '
            f"{_inline(result.title)}"
        )
        if result.status == "failed":
            parts.append(f'<div style="margin:.3em 0 .3em 1.4em">{_inline(result.message)}')
            if result.held:
                parts.append(f"<br>Held: {_inline('; '.join(result.held))}.")
            if result.hint and result.cause not in hinted:
                hinted.add(result.cause)
                parts.append(f'<p style="margin:.4em 0"><strong>Likely cause:</strong> {_inline(result.hint)}</p>')
            if result.where:
                parts.append(f"{_inline(element(result.where))}{_html_matrices(result.where)}")
            parts.append("</div>")
        elif result.status == "waiting" and result.message not in hinted:
            hinted.add(result.message)
            parts.append(f'<div style="margin:.2em 0 .2em 1.4em">{_inline(result.message)}</div>')
        parts.append("</li>")
    parts.append("</ul>")
    if any(result.status != "passed" for result in report.results):
        read = f"Read: {_inline(report.read)}<br>" if report.read else ""
        parts.append(f'<p style="margin:.5em 0 0">{read}The same inputs again: <code>seed={report.seed}</code></p>')
    return "".join(parts) + "</div>"


def _inline(message):
    """Escape text; what stands between backticks becomes code."""
    pieces = html.escape(message).split("`")
    if len(pieces) % 2 == 0:
        return "`".join(pieces)
    return "".join(f"<code>{piece}</code>" if i % 2 else piece for i, piece in enumerate(pieces))


def _html_matrices(where):
    if "got_matrix" not in where:
        return ""
    tables = []
    for name in ("expected", "got"):
        rows = []
        for values, wrong in zip(where[f"{name}_matrix"], where["wrong_matrix"], strict=True):
            cells = "".join(
                f'<td style="padding:.1em .5em;text-align:right;font-variant-numeric:tabular-nums;'
                f'{_cell(bad and name == "got")}">{number(value)}</td>'
                for value, bad in zip(values, wrong, strict=True)
            )
            rows.append(f"<tr>{cells}</tr>")
        tables.append(
            '<table style="display:inline-table;border-collapse:collapse;margin:.3em 1.5em .3em 0;'
            f'vertical-align:top"><caption style="text-align:left">{name}</caption>{"".join(rows)}</table>'
        )
    lead = f"<div>at leading index {where['lead']}</div>" if where["lead"] else ""
    return f'<div style="overflow-x:auto">{lead}{"".join(tables)}</div>'


def _cell(bad):
    if bad:
        return "border:1px solid rgb(213,94,0);background:rgba(213,94,0,.18);font-weight:bold"
    return "border:1px solid rgba(128,128,128,.3)"
