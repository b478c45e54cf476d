"""The Chinese edition says what the English one says: catalogues, terms, signs; and its pages
work in a browser.
"""

import ast
import copy
import functools
import re
import sys
from collections import Counter
from types import SimpleNamespace
from urllib.parse import quote

import editions
import pytest
import translations
from babel.messages.pofile import read_po
from book_pages import broken_rules, visit, watch
from browser_tools import AXE
from bs4 import BeautifulSoup, SoupStrainer

from autograder.authoring import chapters
from autograder.course.config import ROOT

LANGUAGE = "zh_CN"
CATALOGUES = sorted(editions.catalog_folder(LANGUAGE).rglob("*.po"))
NAMES = [
    path.relative_to(editions.catalog_folder(LANGUAGE)).with_suffix("").as_posix()
    for path in CATALOGUES
]
PAGES = sorted(page.removeprefix("book/") for page in editions.pages(LANGUAGE))
PHONE = {"width": 390, "height": 844}
GENERATED = "catches/exercise-01-qkv"  # has no catalogue of its own
HAN = "\u3007\u3400-\u9fff"
FORMULA = re.compile(r"\$\$?[^$]+\$\$?|\{math\}`[^`]*`")
CODE = re.compile(r"(?<![`}])(`{1,2})(?!`)(.+?)(?<!`)\1(?!`)")
ROLE = re.compile(r"(?<!`)\{(?!math\})[\w:-]+\}`[^`]*`")
LINK = re.compile(r"\]\(([^)\s]+)[^)]*\)")
PLACE = re.compile(r"\{\w+\}|%\.?\d*[dfgsr]|%\(\w+\)s")
NUMBER = re.compile(r"(?<![A-Za-z\d.])[−-]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?")


@functools.cache
def translated(path):
    """The messages of a catalogue that are translated, as pairs; of those that count, the last
    form.
    """
    with path.open("rb") as file:
        messages = [
            message
            for message in read_po(file, LANGUAGE)
            if message.id and translations.is_done(message)
        ]
    return [
        (translations.forms(message.id)[-1], translations.forms(message.string)[-1])
        for message in messages
    ]


def invariants(text):
    """What a translation has as often as the English: formulas, code, roles, targets, places for
    values, numbers.
    """
    if translations.is_formula(text):
        return Counter([re.sub(r"\\text\{[^}]*\}|\s+|[.。]", "", text)])
    counts = Counter()
    for pattern in (FORMULA, ROLE, CODE, LINK, PLACE, NUMBER):
        for part in pattern.finditer(text):
            part_text = part[0]
            if pattern is ROLE:  # {doc}`text <target>`: the target
                part_text = re.sub(r"`.*<(.*)>`", r"`\1`", part_text)
            elif pattern is LINK:
                part_text = part[1]
            elif pattern is FORMULA:
                part_text = re.sub(r"\\text\{[^}]*\}|\s+", "", part_text)
            counts[part_text.replace("-", "−") if pattern is NUMBER else part_text] += 1
        text = pattern.sub(" ", text)
    return counts


def differences(english, translation):
    """What a translation lacks and has beside the English; a heading that is a link as a whole
    says so only there.
    """
    lacks, has = (
        invariants(english) - invariants(translation),
        invariants(translation) - invariants(english),
    )
    if re.fullmatch(r"\d+ [^$`]*", english) and re.fullmatch(r"\[.*\]\(.*\)", translation):
        has.clear()
    return {"lacks": dict(lacks), "has": dict(has)} if lacks or has else {}


def test_translations_keep_formulas_code_links_and_numbers():
    for path in CATALOGUES:
        by_message = {
            english[:70]: differences(english, translation)
            for english, translation in translated(path)
        }
        assert not {english: different for english, different in by_message.items() if different}, (
            path
        )


def plain(text):
    """A text without what is the same in both languages: each formula, code span and role is a
    letter.
    """
    for pattern in (FORMULA, ROLE, CODE):
        text = pattern.sub("x", text)
    return re.sub(r"\]\([^)]*\)|(?<=\])\{[^}]*\}|\[|\*+", "", text)


@pytest.mark.slow
@pytest.mark.parametrize("path", CATALOGUES, ids=NAMES)
def test_terms_are_those_of_the_list(path):
    senses = editions.terms(LANGUAGE, "senses")
    terms = [
        (re.sub(r" \(.*", "", term), translation)
        for term, translation in editions.terms(LANGUAGE).items()
    ]
    free = tuple(editions.terms(LANGUAGE, "free")["beginnings"])
    wrong = []
    for english, translation in translated(path):
        words = (
            "" if english.startswith(free) or translations.is_formula(english) else plain(english)
        )
        for term, wanted in terms:
            used = re.search(rf"(?<![\w-]){re.escape(term)}(s|es)?(?![\w-])", words, re.I)
            if used and not any(
                sense in translation for sense in (wanted, term, *senses.get(term, ()))
            ):
                wrong.append((term, english[:60], translation[:60]))
    assert not wrong


def test_signs_are_chinese_and_spaces_are_where_they_belong():
    faults = {
        "a space is missing between Chinese and Latin": rf"[{HAN}][A-Za-z\d]|[A-Za-z\d%][{HAN}]",
        "a half-width sign beside Chinese": rf"[{HAN}][,.:;?!(\"]|[,.:;?!)\"][{HAN}]",
        "a space beside a full-width sign": r" [，。：；？！（）《》]|[，。：；？！（《》] ",
    }
    for path in CATALOGUES:
        texts = [
            plain(translation)
            for english, translation in translated(path)
            if not translations.is_formula(english)
        ]
        faulty = [
            (fault, text[:80])
            for fault, sign in faults.items()
            for text in texts
            if re.search(sign, text)
        ]
        assert not faulty, path


def test_translations_keep_placeholders_in_figures():
    catalogue = editions.catalog_folder(LANGUAGE) / "figures.po"
    lost = [
        english
        for english, translation in translated(catalogue)
        if set(PLACE.findall(english)) != set(PLACE.findall(translation))
    ]
    assert not lost


def test_names_in_pages_are_those_on_the_figures():
    """What a page quotes of a button is what the button says."""
    figures = dict(translated(editions.catalog_folder(LANGUAGE) / "figures.po"))
    wrong = []
    for path in CATALOGUES:
        for english, translation in translated(path) if path.parent.name == "book" else []:
            quoted = re.findall(r"“([^”]+)”", translation)
            for label in re.findall(r"(?<!\*)\*([A-Z][^*]+)\*(?!\*)", english):
                on_figure = figures.get(label.replace("'", "’"))
                if on_figure and on_figure not in quoted:
                    wrong.append((path.stem, label, on_figure, quoted))
    assert not wrong


def test_missing_chinese_is_reported_and_fails_only_a_complete_edition(monkeypatch, capsys):
    def source():
        return {"figures": ["Nobody has translated this sentence yet."]}

    monkeypatch.setattr(translations, "SOURCES", [source])
    assert translations.main(["--check"]) == 0 and "0 of 1 messages" in capsys.readouterr().out
    assert translations.main(["--complete"]) == 1


def test_a_stale_message_keeps_the_english_that_it_was_made_for_until_it_is_looked_at(
    monkeypatch, tmp_path, capsys
):
    broken = ['A tile sees $\\sqrt{n}$ of a row,\nand only "that" part.']
    monkeypatch.setattr(translations, "SOURCES", [lambda: {"figures": broken}])
    monkeypatch.setattr(editions, "catalog_folder", lambda language: tmp_path)
    path = tmp_path / "figures.po"
    assert translations.main([]) == 0
    path.write_bytes(path.read_bytes()[:-3] + '"分块"\n'.encode())
    assert translations.main([]) == 0 and "fuzzy" not in path.read_text(encoding="utf8")
    before, broken[0] = broken[0], broken[0].replace("only", "just")
    assert translations.main([]) == 0
    stale = path.read_bytes()
    assert "#, fuzzy\n#| msgid" in stale.decode()
    assert translations.main([]) == 0 and path.read_bytes() == stale
    assert [message.previous_id for message in translations.read(path, LANGUAGE) if message.id] == [
        [before]
    ]
    path.write_text(re.sub("^#.*\n", "", stale.decode(), flags=re.M), encoding="utf8")
    assert translations.main([]) == 0 and "#" not in path.read_text(encoding="utf8")
    capsys.readouterr()


def page(name, language=LANGUAGE, only=None):
    """A built page, or all of its elements of these names: what is left out is not parsed, which
    takes longest.
    """
    path = editions.HTML / editions.folder(language) / "book" / f"{name}.html"
    return BeautifulSoup(
        path.read_text(encoding="utf8"), "html.parser", parse_only=only and SoupStrainer(only)
    )


@functools.cache
def said_by(name, language=LANGUAGE):
    """What tests compare of a built page, which takes long to parse."""
    article = page(name, language, "article")
    for part in article.select("script"):
        part.decompose()
    counted = copy.copy(article)
    for part in counted.select("style, .abh-told, .abh-drawing, aside"):
        part.decompose()
    parts_of_page = SimpleNamespace(ids={part["id"] for part in counted.select("[id]")})
    parts_of_page.code = [part.get_text() for part in counted.select(".highlight pre")]
    formulas = [
        re.sub(r"\\text\{[^}]*\}|\s+|[.。]", "", part.get_text())
        for part in counted.select(".math")
    ]
    parts_of_page.formulas = Counter(formulas)
    for part in counted.select(".math, .highlight, code, svg"):
        part.decompose()
    parts_of_page.numbers = Counter(NUMBER.findall(counted.get_text(" ").replace("-", "−")))
    for part in article.select("pre, code, .math"):
        part.decompose()
    parts_of_page.text = article.get_text()
    for part in article.select("[hreflang=en], .abh-measured, .bibtex-citation, .citation"):
        part.decompose()
    parts = article.select("p, li, td, th, dt, h1, h2, h3, h4, figcaption, summary, text")
    parts_of_page.paragraphs = [
        part.get_text(" ", strip=True) for part in parts if not part.find("p")
    ]
    parts_of_page.computed = [part.get_text() for part in article.select(".pasted-text")]
    return parts_of_page


@pytest.mark.long
@pytest.mark.parametrize("name", PAGES)
def test_numbers_formulas_and_places_are_those_of_the_english_page(html, name):
    english, chinese = said_by(name, editions.SOURCE), said_by(name)
    assert english.formulas == chinese.formulas
    assert english.code == chinese.code
    # Sphinx numbers citations by itself, and another order in a sentence gives one number twice.
    ids = [
        {each for each in page.ids if not re.fullmatch(r"id\d+", each)}
        for page in (english, chinese)
    ]
    assert ids[0] == ids[1]
    assert english.numbers == chinese.numbers


def test_every_word_of_a_drawing_is_translated(html):
    wanted = translations.of_drawings()["drawings"]
    translations_by_text = dict(translated(editions.catalog_folder(LANGUAGE) / "drawings.po"))
    assert "squared error" in wanted and not [
        words for words in wanted if words not in translations_by_text
    ]
    drawn = page("03-softmax-gradients").select(".abh-drawing text")
    assert {"分数", "权重", "损失", "成绩", "平均 2.5"} <= {text.get_text() for text in drawn}
    assert not page("03-softmax-gradients", editions.SOURCE).select(".abh-drawing text")


def test_words_of_drawings_are_where_the_glyphs_were(monkeypatch):
    sys.path.insert(0, str(ROOT / "book" / "_ext"))
    import drawings
    from figures import drawing

    axes = drawing.panels(bare=True)
    placed = {"left": (100, 40, "start"), "center": (200, 60, "middle"), "right": (300, 80, "end")}
    for side, (x, y, _anchor) in placed.items():
        axes.text(x, y, f"the {side} one, $16 = d_k$", ha=side, fontsize=12)
    axes.text(50, 50, "7 left")
    svg = drawing.as_svg(axes)
    monkeypatch.setattr(drawings, "translated", lambda words: words.replace("the ", "这 "))
    soup = BeautifulSoup(drawings.in_page(svg, "", "d", english=False), "html.parser")
    assert drawings.words_of(svg)[0] == "the left one, $16 = d_k$" and "<!--" not in str(soup)
    for text, (side, (x, y, anchor)) in zip(soup.select("text"), placed.items(), strict=True):
        x_left, top = map(
            float, re.match(r"translate\((\S+) (\S+)\)$", text.parent["transform"]).groups()
        )
        assert 96 / 72 * (x_left + float(text["x"])) == pytest.approx(x, abs=1.5)
        assert 96 / 72 * top == pytest.approx(y, abs=1)
        assert f"font-size: 12px; text-anchor: {anchor}" in text["style"]
        assert (
            text.get_text().startswith(f"这 {side} one, 16 = dk")
            and len(text.select("tspan.abh-sub")) == 1
        )
    plain = drawings.in_page(svg, "", "d")
    assert (
        "<text" not in plain
        and "<!--" not in plain
        and plain.count("<use") > str(soup).count("<use") > 0
    )


def test_the_glossary_is_in_the_order_of_sounds(html):
    sys.path.insert(0, str(ROOT / "book" / "_ext"))
    import glossary

    names = [
        term.get_text().partition("（")[0].strip("#\n ")
        for term in page("glossary").select("dl.glossary > dt")
    ]
    some = ("GPU 核函数", "KV 缓存", "编码器", "查询", "词元", "键", "熵", "输出投影", "掩码", "值")
    places = list(map(names.index, some))
    assert places == sorted(places) and len(names) > 80
    for letter in re.findall(f"[{HAN}]", "".join(names)):  # others are not counted by their sound
        assert letter in glossary.RARE or letter.encode("gb2312") < b"\xd8"


@pytest.mark.parametrize(
    "path", sorted((ROOT / "book" / "_ext").glob("*.py")), ids=lambda path: path.stem
)
def test_every_text_is_where_the_catalogues_find_it(path):
    """Before Python 3.12 an f-string is one token: nothing finds the texts in it."""
    texts = [
        part
        for part in ast.walk(ast.parse(path.read_text(encoding="utf8")))
        if isinstance(part, ast.JoinedStr)
    ]
    calls = [part for text in texts for part in ast.walk(text) if isinstance(part, ast.Call)]
    translated = [call for call in calls if ast.unparse(call.func) in ("_", "N_", "figures")]
    assert not [ast.unparse(call) for call in translated if isinstance(call.args[0], ast.Constant)]


@pytest.mark.long
@pytest.mark.parametrize("name", [*PAGES, GENERATED])
def test_no_paragraph_is_left_in_english(html, name):
    def is_english(text):
        return not re.search(f"[{HAN}]", text)

    chinese = said_by(name)
    assert not [
        text
        for text in chinese.paragraphs
        if len(re.findall(r"[A-Za-z]{2,}", text)) > 3 and is_english(text)
    ]
    computed = [re.sub("torch|triton", "", text) for text in chinese.computed]
    assert not [text for text in computed if re.search(r"\b[a-z]{2,}\b", text) and is_english(text)]


def test_a_claim_is_translated_once_for_all_pages(html):
    claims = {name: row["statement"] for name, row in chapters.claims(ROOT).items()}
    of_pages = {
        english
        for path in CATALOGUES
        if path.parent.name == "book"
        for english, _ in translated(path)
    }
    assert not of_pages & {*claims.values()}
    translation = dict(translated(editions.catalog_folder(LANGUAGE) / "extensions.po"))[
        claims["A9"]
    ]
    for name in ("claims", "06-multi-head-deeper", "08-heads-deeper"):
        assert translation in page(name, only="article").get_text()


@pytest.mark.long
@pytest.mark.parametrize("name", PAGES)
def test_pages_of_both_editions_know_each_other(html, name):
    english = page(name, editions.SOURCE, ["a", "link"])
    (switch,) = english.select(".abh-edition")
    goal = (editions.HTML / "book" / switch["href"]).resolve()
    assert goal.is_file() and switch["hreflang"] == switch["lang"] == "zh-CN"
    alternates = {link["hreflang"]: link["href"] for link in english.select("link[rel=alternate]")}
    assert set(alternates) == {"en", "zh-CN"} and switch.has_attr("rel")
    assert '<html lang="zh-CN"' in (editions.HTML / "zh" / "book" / f"{name}.html").read_text(
        encoding="utf8"
    )
    switch = page(name, only="a").select_one(".abh-edition")
    back = (editions.HTML / "zh" / "book" / switch["href"]).resolve()
    assert back == (editions.HTML / "book" / f"{name}.html").resolve()


def test_where_there_is_no_chinese_page_the_switch_leads_to_the_chapter_or_the_first(
    html, monkeypatch
):
    sys.path.insert(0, str(ROOT / "book" / "_ext"))
    import edition_pages

    monkeypatch.setattr(editions, "pages", lambda language: {"book/index", "book/01-qkv"})
    english = {"book/index", "book/01-qkv", "book/01-qkv-deeper", "book/references"}
    app = SimpleNamespace(
        env=SimpleNamespace(found_docs=english), config=SimpleNamespace(root_doc="book/index")
    )
    assert edition_pages.counterpart(app, "book/01-qkv", LANGUAGE) == ("book/01-qkv", True)
    assert edition_pages.counterpart(app, "book/01-qkv-deeper", LANGUAGE) == ("book/01-qkv", False)
    assert edition_pages.counterpart(app, "book/references", LANGUAGE) == ("book/index", False)
    assert (
        page(GENERATED, editions.SOURCE).select_one(".abh-edition")["href"]
        == f"../../zh/book/{GENERATED}.html"
    )


@pytest.mark.long
@pytest.mark.parametrize("name", PAGES)
def test_links_to_english_pages_say_so(html, name):
    for link in page(name, only="a").select("a[href]:not(.abh-edition)"):
        goal = (editions.HTML / "zh" / "book" / link["href"].partition("#")[0]).resolve()
        if "://" not in link["href"] and goal.suffix == ".html":
            assert goal.is_file(), link["href"]
            english = goal.is_relative_to((editions.HTML / "book").resolve())
            assert (link.get("hreflang") == "en") == english, link


@pytest.fixture(scope="module", params=PAGES)
def opened(request, browser, site):
    """Each Chinese page, opened once, on a phone; and what must not have happened."""
    context = browser.new_context(viewport=PHONE)
    tab = context.new_page()
    trouble = watch(tab, site)
    visit(tab, f"{site}/zh", request.param)
    yield tab, trouble
    context.close()


@pytest.mark.long
@pytest.mark.browser
@pytest.mark.slow
def test_page_works_without_network(opened):
    tab, trouble = opened
    assert not trouble
    assert tab.locator("mjx-merror").count() == 0


@pytest.mark.long
@pytest.mark.parametrize("name", [*PAGES, GENERATED])
def test_no_markup_is_left(html, name):
    assert not re.findall(r".{20}(?:\*|`|\$\$|\{\w+\}).{20}", said_by(name).text)


@pytest.mark.long
@pytest.mark.browser
@pytest.mark.slow
def test_page_is_accessible(opened):
    tab, _ = opened
    tab.emulate_media(reduced_motion="reduce")
    tab.add_script_tag(path=AXE)
    assert not broken_rules(tab, "light")  # its colors are those of the English page


@pytest.mark.long
@pytest.mark.browser
@pytest.mark.slow
def test_page_fits_a_phone(opened):
    tab, _ = opened
    assert tab.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    small, wide, cut = tab.evaluate("""() => {
        const seen = e => e.checkVisibility({visibilityProperty: true}) && e.getBoundingClientRect().width;
        const said = e => [...e.childNodes].some(part => part.nodeType === 3 && part.textContent.trim());
        const scrolls = e => e
            && (/auto|scroll|hidden|clip/.test(getComputedStyle(e).overflowX) || scrolls(e.parentElement));
        const letters = document.querySelectorAll(".bd-article svg text, .abh-figure *");
        const drawn = e => e.closest(".abh-drawing");  // it is as small as the English one
        const all = [...letters].filter(e => said(e) && seen(e) && !drawn(e));
        const size = e => {
            const scaled = e.closest("svg") && e.getScreenCTM && e.getScreenCTM();
            return parseFloat(getComputedStyle(e).fontSize) * (scaled ? Math.hypot(scaled.a, scaled.b) : 1);
        };
        const beyond = [...document.querySelectorAll("main *")].filter(
            e => seen(e) && e.getBoundingClientRect().right > innerWidth + 1 && !scrolls(e.parentElement));
        const buttons = [...document.querySelectorAll(".abh-figure button")].filter(
            e => seen(e) && e.scrollWidth > e.clientWidth + 1);
        const found = [all.filter(e => size(e) < 10.95), beyond, buttons];
        return found.map(them => them.map(e => e.outerHTML.slice(0, 120)));
    }""")
    assert not small and not wide and not cut


@pytest.mark.long
@pytest.mark.browser
@pytest.mark.slow
@pytest.mark.parametrize("width", [390, 1280])
def test_no_line_begins_with_a_stop(opened, width):
    tab, _ = opened
    tab.set_viewport_size({"width": width, "height": 844})
    tab.wait_for_timeout(200)
    begin = tab.evaluate("""() => {
        const box = (node, start, end) => {
            const range = document.createRange();
            range.setStart(node, start);
            range.setEnd(node, end);
            return range.getBoundingClientRect();
        };
        const walker = document.createTreeWalker(document.querySelector("article"), NodeFilter.SHOW_TEXT);
        const found = [];
        for (let node; (node = walker.nextNode());) {
            const at = node.data.search(/\\S/);
            if (at < 0 || !/[，。；：、！？）”]/.test(node.data[at])) continue;
            const stop = box(node, at, at + 1);
            const line = node.parentElement.closest("p, li, td, th, dd, dt, figcaption, summary, h1, h2, h3, h4");
            const left = line && line.getBoundingClientRect().left + parseFloat(getComputedStyle(line).paddingLeft);
            if (line && stop.width && stop.left < left + 2) found.push(line.textContent.slice(0, 80));
        }
        return found;
    }""")
    tab.set_viewport_size(PHONE)
    assert not begin


@pytest.mark.long
@pytest.mark.browser
@pytest.mark.slow
def test_the_switch_leads_to_the_same_place(page, site):
    visit(page, site, "02-scaling")
    heading = page.locator("section section[id]").nth(2).get_attribute("id")
    page.goto(f"{site}/book/02-scaling.html#{heading}")
    page.get_by_role("link", name="中文", exact=True).click()
    page.wait_for_url(f"**/zh/book/02-scaling.html#{heading}")
    assert page.locator(f"section[id='{heading}']").count() == 1
    page.get_by_role("link", name="English", exact=True).click()
    page.wait_for_url(f"{site}/book/02-scaling.html#{heading}")


@pytest.mark.long
@pytest.mark.browser
@pytest.mark.slow
@pytest.mark.parametrize("words, first", [("秩", ""), ("softmax 的梯度", "03-")])
def test_search_finds_chinese(page, site, words, first):
    trouble = watch(page, site)
    page.goto(f"{site}/zh/search.html?q={quote(words)}")
    results = page.locator("#search-results li a")
    results.first.wait_for()
    page.locator("#search-results p.search-summary", has_text="完成").wait_for()
    assert any(first in link.get_attribute("href") for link in results.all()) and not trouble


@pytest.mark.long
@pytest.mark.browser
@pytest.mark.slow
@pytest.mark.parametrize(
    "words, first",
    [
        *[
            ("因果掩码", "05-masking"),
            ("多头", "06-multi-head"),
            ("注意力机制十问", "ten-questions"),
            ("标记", ""),
        ],
    ],
)
def test_search_begins_with_the_page_of_that_title(page, site, words, first):
    page.goto(f"{site}/zh/search.html?q={quote(words)}")
    page.locator("#search-results p.search-summary", has_text="完成").wait_for()
    assert first in page.locator("#search-results li a").first.get_attribute("href")
