"""Pages of the built book in a browser: opened, watched, and looked at with axe."""

import re

from autograder.course.config import ROOT

PAGES = ["index", *re.findall(r"file: book/(\S+)", (ROOT / "_toc.yml").read_text())]
IMPACTS = ("serious", "critical")
"""The findings of axe that fail a test of the book.

The page on accessibility names them, and the next two also.
"""
IN_THE_DARK = ("color-contrast",)
"""The rules that axe runs on a dark page: nothing else is different there."""
PHONES = ({"width": 360, "height": 740}, {"width": 390, "height": 844})
"""Where nothing reaches past the edge, and where letters can be read."""
IN_EVERY_RUN = ("index", "05-masking", "claims")
"""The pages that `make test` looks at; also, it tries one download."""
SETTLED = """async () => {
    if (document.readyState !== "complete") await new Promise(done => addEventListener("load", done));
    await window.MathJax?.startup?.promise;
    await document.fonts.ready;
}"""


def watch(page, site):
    """Collect what must not happen on a page: errors, failed answers, requests to elsewhere."""
    trouble = []
    page.on("console", lambda message: message.type == "error" and trouble.append(message.text))
    page.on("pageerror", lambda error: trouble.append(str(error)))
    page.on(
        "response",
        lambda answer: answer.status >= 400 and trouble.append(f"{answer.status} {answer.url}"),
    )
    inside = (site + "/", "data:", "blob:")
    page.on(
        "request", lambda request: request.url.startswith(inside) or trouble.append(request.url)
    )
    return trouble


def visit(page, site, name, mode="light"):
    """Open a page of the book and wait until its formulas, fonts and widgets are there."""
    page.add_init_script(
        f"localStorage.setItem('mode', '{mode}'); localStorage.setItem('theme', '{mode}')"
    )
    page.goto(f"{site}/book/{name}.html")
    page.wait_for_load_state("networkidle")
    page.evaluate(SETTLED)


def broken_rules(page, mode, **options):
    """Return what axe finds on a page that is seriously wrong, a line for each place."""
    assert page.evaluate("document.documentElement.dataset.theme") == mode
    report = page.evaluate(
        "options => axe.run(document, options)", {"resultTypes": ["violations"], **options}
    )
    return [
        f"{mode}: {violation['id']}: {node['target']} {node['failureSummary']}"
        for violation in report["violations"]
        if violation["impact"] in IMPACTS
        for node in violation["nodes"][:5]
    ]
