"""The built book in a real browser: every page, in light and dark, wide and narrow, with no
network.
"""

import json
import math
import re
import zipfile
from urllib.request import urlopen

import pytest
from book_pages import IN_EVERY_RUN, IN_THE_DARK, PAGES, PHONES, broken_rules, visit, watch
from browser_tools import AXE

from autograder.course.config import ROOT

pytestmark = [pytest.mark.browser, pytest.mark.slow]

EXERCISES = [
    name
    for page in PAGES
    for name in re.findall(
        r"^[`:]+\{exercise\} (\S+)", (ROOT / "book" / f"{page}.md").read_text(), re.M
    )
]
WIDE = {"width": 1280, "height": 900}


def long_unless(names, chosen):
    """Return names as parameters, those that are not chosen marked as long."""
    return [pytest.param(name, marks=() if name in chosen else pytest.mark.long) for name in names]


@pytest.fixture(scope="module", params=long_unless(PAGES, IN_EVERY_RUN))
def opened(request, browser, site):
    """Each page of the book, opened once for the tests that leave it as it is; and what must not
    have happened.
    """
    context = browser.new_context(viewport=WIDE)
    page = context.new_page()
    trouble = watch(page, site)
    visit(page, site, request.param)
    yield page, trouble
    context.close()


def test_page_works_without_network(opened):
    page, trouble = opened
    assert not trouble
    assert page.locator("h1").count() >= 1
    # Prose as the reader sees it: no formula left raw, no role or directive left unread.
    text = page.locator("article.bd-article").evaluate(
        "article => { const copy = article.cloneNode(true);"
        " copy.querySelectorAll('pre, code, script, mjx-container').forEach(e => e.remove());"
        " return copy.textContent; }"
    )
    assert not re.search(r"\\\(|\\\[|\$\$|\{(term|ref|cite|doc)[^}]*\}`|^:::", text, re.M)
    if page.locator(".math").count():
        assert page.locator("mjx-container").count() > 0
        # Screen readers get the formulas as MathML.
        assert page.locator("mjx-assistive-mml").count() == page.locator("mjx-container").count()
        assert page.locator("mjx-merror").count() == 0


def test_page_is_accessible(opened):
    page, _ = opened
    page.emulate_media(reduced_motion="reduce")  # no colour on its way to another
    page.add_script_tag(path=AXE)
    violations = broken_rules(page, "light")
    page.evaluate("document.documentElement.dataset.theme = 'dark'")
    violations += broken_rules(page, "dark", runOnly=list(IN_THE_DARK))
    page.evaluate("document.documentElement.dataset.theme = 'light'")
    assert not violations


def test_page_fits_a_phone(opened):
    """Nothing reaches past the edge, and the letters of figures can be read."""
    page, _ = opened
    page.set_viewport_size(PHONES[0])
    page.wait_for_timeout(200)
    wide = page.evaluate("""() => {
        // What scrolls within itself may be wide; nothing else may reach past the edge.
        const scrolls = e => e && (/auto|scroll|hidden|clip/.test(getComputedStyle(e).overflowX)
                                   || scrolls(e.parentElement));
        return [...document.querySelectorAll("main *")].filter(e => {
            const box = e.getBoundingClientRect();
            const seen = e.checkVisibility({visibilityProperty: true});
            return seen && box.right > innerWidth + 1 && !scrolls(e.parentElement);
        }).map(e => e.outerHTML.slice(0, 120));
    }""")
    assert not wide
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    page.set_viewport_size(PHONES[1])
    page.wait_for_timeout(200)
    small = page.evaluate("""() => [...document.querySelectorAll(".bd-article svg text, .abh-figure *")].filter(e => {
        if (![...e.childNodes].some(part => part.nodeType === 3 && part.textContent.trim())) return false;
        if (!e.getBoundingClientRect().width || !e.checkVisibility({visibilityProperty: true})) return false;
        const drawn = e.closest("svg") && e.getScreenCTM && e.getScreenCTM();  // a drawing may be scaled
        return parseFloat(getComputedStyle(e).fontSize) * (drawn ? Math.hypot(drawn.a, drawn.b) : 1) < 10.95;
    }).map(e => e.outerHTML.slice(0, 120))""")
    page.set_viewport_size(WIDE)
    assert not small


def test_front_door_leads_to_the_landing_page(page, site):
    page.goto(site + "/")
    page.wait_for_url("**/book/index.html")
    page.get_by_role("link", name="Start with chapter 1").click()
    page.wait_for_url("**/book/01-qkv.html")
    page.locator("a.navbar-brand").first.click()
    page.wait_for_url("**/book/index.html")


def test_hero_numbers_are_right(page, site):
    visit(page, site, "index")
    hero = page.locator(".abh-hero-figure")
    q, keys, values, weights, z = (
        [
            [float(number) for number in row.split()]
            for row in hero.get_attribute(f"data-{name}").split(",")
        ]
        for name in ("q", "k", "v", "a", "z")
    )
    powers = [math.exp(sum(a * b for a, b in zip(q[0], key, strict=True))) for key in keys]
    right = [power / sum(powers) for power in powers]
    assert weights[0] == [round(weight, 3) for weight in right]
    assert z[0] == [
        round(sum(w * v[c] for w, v in zip(right, values, strict=True)), 2) for c in (0, 1)
    ]
    shown = hero.locator("text").all_text_contents()
    assert {f"{weight:.3f}" for weight in weights[0]} | {f"{number:.2f}" for number in z[0]} <= set(
        shown
    )
    # With a pencil, from the numbers as they are shown.
    assert z[0] == [
        round(sum(w * v[c] for w, v in zip(weights[0], values, strict=True)), 2) for c in (0, 1)
    ]


def test_search_finds_softmax(page, site):
    trouble = watch(page, site)
    page.goto(f"{site}/search.html?q=softmax")
    # results come one after another
    page.locator("#search-results li a[href*=notation]").first.wait_for()
    assert not trouble


@pytest.mark.parametrize("word", ["softmax", "K.T"])
def test_search_shows_prose(page, site, word):
    page.goto(f"{site}/search.html?q={word}")
    page.locator("#search-results p.search-summary", has_text="found").wait_for()
    page.wait_for_load_state("networkidle")
    results = page.locator("#search-results p.context").all_text_contents()
    assert results
    for text in results:
        assert len(text) < 260
        assert not re.search(r"[\\{}$]|import numpy as np\n|\bprint\(", text), text
        assert not text.startswith("…") or word.lower() in text.lower()
    # Each begins and ends with a whole word, which is one of the book's.
    words = {
        word
        for path in (ROOT / "_build" / "html" / "book").glob("*.html")
        for word in re.findall(r"\b[a-z]+\b", path.read_text())
    }
    ends = [text.split()[1] for text in results if text.startswith("… ")]
    ends += [text.split()[-2] for text in results if text.endswith(" …")]
    assert len(ends) > 3 and {word for word in ends if re.fullmatch("[a-z]{3,}", word)} <= words


def test_each_page_says_what_it_is_about(html):
    seen = {}
    for name in PAGES:
        page = (html / "book" / f"{name}.html").read_text(encoding="utf8")
        (title,) = re.findall(r"<title>(.*?)</title>", page)
        (sentence,) = re.findall(
            r'<meta content="([^"]*)" (?:lang="[^"]*" )?name="description"', page
        ) or re.findall(r'<meta name="description" content="([^"]*)"', page)
        assert 50 <= len(sentence) <= 175, f"{name}: {sentence}"
        assert not re.search(r"[\\${}]", title + sentence), name
        assert title.count("Attention by Hand") == 1, title
        assert not {title, sentence} & set(seen), (
            f"{name} and {seen.get(sentence) or seen.get(title)}"
        )
        seen |= {title: name, sentence: name}


def test_the_cheat_sheet_fits_on_two_sides(page, site, tmp_path):
    visit(page, site, "cheatsheet", "dark")
    sheet = page.pdf(prefer_css_page_size=True)
    (size,) = set(re.findall(rb"/MediaBox \[([^]]*)\]", sheet))
    assert [round(float(x)) for x in size.split()] == [0, 0, 595, 842]  # A4
    assert len(re.findall(rb"/Type\s*/Page\b", sheet)) == 2


@pytest.mark.parametrize("name", long_unless(EXERCISES, EXERCISES[:1]))
def test_exercise_downloads_and_opens(page, site, name, tmp_path):
    visit(page, site, name)
    line = page.locator(".abh-pointer:not(.abh-notebook) a")
    assert line.count() == 1
    line.click()
    card = page.locator(f"#exercise-{name}")
    assert card.is_visible()
    with page.expect_download() as download:
        card.get_by_role("link", name=f"{name}.zip").click()
    with zipfile.ZipFile(download.value.path()) as archive:
        names = archive.namelist()
        assert all(entry.startswith(f"{name}/") for entry in names)
        assert {f"{name}/{name}.ipynb", f"{name}/checks.py", f"{name}/checking.zip"} <= set(names)
        assert not [entry for entry in names if re.search(r"__pycache__|checkpoints|\.pyc$", entry)]
        for entry in names:
            assert archive.read(entry) == (ROOT / "exercises" / entry).read_bytes()
        notebook = json.loads(archive.read(f"{name}/{name}.ipynb"))
    points = sum(
        cell["metadata"]["nbgrader"].get("points", 0)
        for cell in notebook["cells"]
        if cell["metadata"].get("nbgrader", {}).get("grade")
    )
    assert f"{points:g} points" in card.inner_text()


def test_keyboard_reaches_the_main_controls(page, site):
    visit(page, site, "index")
    reached = []
    # past every page that the sidebar names
    for _ in range(50 + page.locator("#pst-primary-sidebar a").count()):
        page.keyboard.press("Tab")
        reached.append(
            page.evaluate(
                "() => { const e = document.activeElement;"
                " return [e.innerText || e.getAttribute('aria-label') || e.title || '',"
                " getComputedStyle(e).outlineStyle]; }"
            )
        )
    labels = " | ".join(label for label, _outline in reached)
    assert reached[0][0] == "Skip to main content"
    for control in ("Search", "Notation", "Start with chapter 1", "See the chapters"):
        assert control in labels, control
    assert all(
        outline != "none"
        for label, outline in reached
        if label in ("Start with chapter 1", "See the chapters")
    )


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_the_link_to_the_content_can_be_read(page, site, mode):
    visit(page, site, "index", mode)
    page.keyboard.press("Tab")
    page.wait_for_timeout(300)  # it slides in
    page.add_script_tag(path=AXE)
    violations = page.evaluate("axe.run('.skip-link', {runOnly: ['color-contrast']})")
    assert violations["passes"] and not violations["violations"]


def test_wide_code_scrolls_for_the_keyboard(page, site):
    page.set_viewport_size({"width": 360, "height": 740})
    visit(page, site, "index")
    block = page.locator(".highlight pre").first
    assert block.evaluate("e => e.scrollWidth > e.clientWidth")
    assert block.get_attribute("tabindex") == "0"


def test_no_solution_is_published(html):
    for path in html.rglob("*"):
        assert "solutions" not in path.relative_to(html).parts, path
        if path.is_file() and "vendor" not in path.parts:
            assert b"BEGIN SOLUTION" not in path.read_bytes(), path
    for path in html.rglob("*.zip"):
        with zipfile.ZipFile(path) as archive:
            assert not [
                entry for entry in archive.namelist() if b"BEGIN SOLUTION" in archive.read(entry)
            ]
    # The exercises themselves are there only as zips; the notebooks are those of the chapters.
    assert {path.parent.name for path in html.rglob("*.ipynb")} == {"notebooks"}
    names = {path.stem for path in html.rglob("*.ipynb")}
    assert not {name.removesuffix("-chapter") for name in names} - set(PAGES)
    assert not names & {path.stem for path in ROOT.glob("exercises/*/*.ipynb")}


def test_zip_is_the_same_each_time(site):
    import sys

    sys.path.insert(0, str(ROOT / "book" / "_ext"))
    from theme import pack

    for name in EXERCISES:
        again = ROOT / "_build" / "zip-test" / f"{name}.zip"
        pack(ROOT / "exercises" / name, again)
        with urlopen(f"{site}/exercises/{name}.zip") as answer:
            # pytest would take minutes to show where they differ
            same = answer.read() == again.read_bytes()
        assert same, name
