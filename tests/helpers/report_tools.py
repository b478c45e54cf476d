"""What tests read of the instructor's report: the data that its script draws."""

import json

from bs4 import BeautifulSoup


def rows_of(page):
    """Return the rows of a report's HTML, by student and exercise."""
    data = json.loads(BeautifulSoup(page, "html.parser").find(id="data").string)
    rows = {}
    # The data names texts by their numbers in a list.
    text = data["texts"].__getitem__
    for part in data["parts"]:
        columns = [(cell, check) for cell, check, _title in part["columns"]]
        for who, score, pending, kind, marks, tags, reasons, evidence, change in part["rows"]:
            signs = [data["signs"][letter][0] if letter != "." else "" for letter in marks]
            if change:
                earlier, now, difference, through, when = change
                change = {"earlier": earlier, "now": now, "difference": difference}
                change |= {"through": list(map(text, through)), "when": text(when)}
            rows[data["students"][who], part["name"]] = {
                "score": score,
                "pending": pending,
                "kind": kind,
                "marks": dict(zip(columns, signs, strict=False)),
                "tags": list(map(text, tags)),
                "reasons": list(map(text, reasons)),
                "evidence": list(map(text, evidence)),
                "change": change or None,
            }
    return rows


def visit(page, path):
    """Open a report, and wait until its script is done; return what went wrong, as it comes."""
    trouble = []
    page.on("console", lambda message: trouble.append(message.text))
    page.on("pageerror", lambda error: trouble.append(str(error)))
    page.on("dialog", lambda dialog: trouble.append(dialog.message))
    page.goto(path.as_uri())
    page.wait_for_function("document.querySelector('.find [role=status]').textContent !== ''")
    return trouble
