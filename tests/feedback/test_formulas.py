"""Formulas: which text is one, how it becomes MathML, and that nothing else comes of it,
whatever it is.
"""

import re
import time

import jupytext
import pytest
from bs4 import BeautifulSoup
from hostile.case import live
from hostile_markup import ACTING, ONLY_IN_MARKDOWN, SECONDS
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath

from autograder.course.config import Course
from autograder.feedback import formulas
from autograder.sanitize import code, markdown, markup

ODD = [
    "- a\n\n  $$\n  x\n\n  y\n  $$\n- b",
    "> $$\n> a\n> $$",
    "#no blank\n##two ##",
    "a \\\\(x_1 * y * z\\\\) b \\\\[ q \\\\]",
    "\\begin{align}\na &= b\\\\\n\nc\n\\end{align}",
    "| a | b |\n|:--|--:|\n| 1 | $x|y$ |",
    "~~x~~ https://example.org/c?d=1&e and `$x$`",
    "- [ ] a\n- [x] b\n\nterm\n: meaning",
    "$$a$$ and $b_1$ and $c*d*e$ \\$5 and \\$6, or $5 and $6",
    "a$b$c$$d$$e$ [$x$](http://a.b) **$a$** _$b_c$_ $`x`$ \\$a$b$",
    "<div>$a_1 b_2$\n\n$c$</div>",
    "1. a\n2. b\n   - c\n\n\ttab\n\n***\nx\\\ny  \nz &amp; &lt;",
]


def shown(text, room=None):
    """Return a student's Markdown as a page shows it."""
    return formulas.with_formulas(
        markdown.inert_markdown(text)[0], room or formulas.FormulaBudget()
    )


@pytest.fixture(scope="module")
def texts():
    """The texts of the course's exercises."""
    cells = [cell for exercise in Course().sources() for cell in jupytext.read(exercise.text).cells]
    return [cell.source for cell in cells if cell.cell_type == "markdown"]


def test_markdown_is_what_jupyter_makes_of_it(texts):
    elsewhere = re.compile(r'<img src="(?!data).*?/>|<em>\[A picture from elsewhere.*?</em>')
    for text in [*texts, *ACTING.values(), *ONLY_IN_MARKDOWN.values(), *ODD]:
        if "mermaid" not in text:  # a diagram stays its source
            jupyters = MarkdownWithMath(
                renderer=IPythonRenderer(escape=False, exclude_anchor_links=True)
            )
            ours = markdown.as_html(text, markdown.Renderer()).replace(markdown.DOLLAR, "$")
            assert elsewhere.sub("picture", ours) == elsewhere.sub("picture", jupyters.render(text))


def test_every_formula_of_the_course_becomes_mathml(texts):
    for text in texts:
        page = BeautifulSoup(shown(text), "html.parser")
        for literal in page.find_all(["code", "pre"]):
            literal.decompose()
        assert "$" not in page.get_text() and "\\" not in page.get_text(), page.get_text()


@pytest.mark.parametrize(
    "text, count",
    [
        ("$x$ and $$y$$", 2),
        ("\\begin{align*} a &= b \\\\ c &= d \\end{align*}", 1),
        ("$$\\begin{aligned} a &= b \\end{aligned}$$", 1),
        ("$$\\begin{cases} 1 & x < 0 \\\\ 0 & \\text{otherwise} \\end{cases}$$", 1),
        ("<div>a $x$ b <b>\\(y\\)</b></div>", 2),
        ("`$x$` and\n\n    $y$\n\n```\n$z$\n```", 0),
        ("It costs \\$5, and \\$6 elsewhere.", 0),
        ("a $ b", 0),
        ("$$", 0),
        ('<b title="$x$">b</b>', 0),
        ("\\begin{tikzpicture} a \\end{tikzpicture}", 0),
    ],
)
def test_what_is_a_formula(text, count):
    assert shown(text).count("<math") == count


def test_a_dollar_sign_is_shown_as_one():
    assert (
        BeautifulSoup(shown("It costs \\$5, and \\$6."), "html.parser").get_text().strip()
        == "It costs $5, and $6."
    )


@pytest.mark.parametrize(
    "latex, parts",
    [
        (r"\operatorname{Var}(x)", ["<mi>Var</mi>"]),
        (r"\mathbb{R}^{n \times d}", ["ℝ", "<msup>", "×"]),
        (r"f''(x)", ["<mi>f</mi><mi>″</mi>"]),
        (r"\ln 3", ['<mi>ln</mi><mspace width=".17em"></mspace><mn>3</mn>']),
        (r"(-1, 2)", ['<mo form="prefix">−</mo><mn>1</mn>']),
        (r"\sqrt{d_k}", ["<msqrt>", "<msub>"]),
        (r"a < b", ["<mo>&lt;</mo>"]),
        (r"\begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}", ["<mtable><mtr><mtd><mn>1</mn></mtd>"]),
    ],
)
def test_a_formula_is_set_as_tex_sets_it(latex, parts):
    math = formulas.mathml(latex, True)
    for part in parts:
        assert part in math, math


# Each would act, be fetched, or leave its place, if latex2mathml's own text were shown as it is.
HOSTILE = [
    r"\href{javascript:hostile_mark()}{x}",
    r"\style{position:fixed;top:0;left:0}{x}",
    r"\class{bars sum}{x}",
    r'\style{" onclick="hostile_mark()}{x}',
    r"\color{red' onclick='hostile_mark()}{x}",
    r'\color{red" onclick="hostile_mark()}{x}',
    r"\textcolor{url(//hostile_mark)}{x}",
    r"\colorbox{url(//hostile_mark)}{x}",
    r"\unicode{x3c}script\unicode{x3e}",
    r"\text{<script>hostile_mark()</script>}",
    r"\text{</math><img src=x onerror=hostile_mark()>}",
    r"\text{&lt;img src=x onerror=hostile_mark()&gt;}",
    r"\text{&amp;lt;img src=x onerror=hostile_mark()&amp;gt;}",
    r"\text{&#60;img src=x onerror=hostile_mark()&#62;}",
    r"\verb|<script>hostile_mark()</script>|",
    r"\operatorname{<script>}",
    r"\mbox{<b id='at-check_add'>x</b>}",
    r"\tag{<script>hostile_mark()</script>}",
    r"<script>hostile_mark()</script>",
    r"&lt;script&gt;hostile_mark()&lt;/script&gt;",
    r"\begin{array}{\" onclick=hostile_mark()} 1 \end{array}",
    r"\rule{999em}{999em}",
    r"\raise{500em}{x} \lower{500em}{x} \moveleft{500em}{x}",
    r"\hspace{-500em} x \hspace{99999em}",
    r"\kern-500pt x",
    r"\llap{x} \rlap{x} \smash{x}",
    r"\above{999em} x",
    r"x \\[-900em] y",
    r"\begin{matrix} 1 \\[-900em] 2 \end{matrix}",
    r"\sqrt[\href{javascript:hostile_mark()}{3}]{x}",
]


@pytest.mark.parametrize(
    "form", ["${}$", "$${}$$", "<p>${}$</p>", "\\begin{{align}}{}\\end{{align}}"]
)
def test_a_formula_only_lays_out(form):
    for latex in HOSTILE:
        assert_only_laid_out(shown(form.format(latex)))


def assert_only_laid_out(page):
    assert not live(page), page
    for element in BeautifulSoup(page, "html.parser").find_all(True):
        if element.name in formulas.ELEMENTS:
            attributes = {name: value for name, value in element.attrs.items() if name != "style"}
            assert all(
                formulas.ATTRIBUTES[name].fullmatch(value) for name, value in attributes.items()
            ), element
            assert element.get("style", "text-align:left") in (
                "text-align:left",
                "text-align:right",
            )
        else:
            assert set(element.attrs) <= {"class", "tabindex"}, element
            assert element.get("class", ["formula"]) == ["formula"], element
    assert "500" not in re.sub(r">[^<]*<", "><", page) and "999" not in re.sub(
        r">[^<]*<", "><", page
    )


def test_a_formula_in_html_of_a_student_is_not_their_markup():
    page = shown('<div><math href="javascript:hostile_mark()"><mtext>a</mtext></math> $b$</div>')
    assert page.count("<math") == 1 and "javascript" not in page


SLOW = {
    "100 KB": "$" + "x + " * 25_000 + "x$",
    "100 KB of braces": "$" + "{" * 50_000 + "}" * 50_000 + "$",
    "nested braces": "$" + "{" * 900 + "x" + "}" * 900 + "$",
    "nested fractions": "$" + r"\frac{1}{" * 200 + "x" + "}" * 200 + "$",
    "nested roots": "$" + r"\sqrt" * 390 + "x$",
    "nested brackets": "$" + r"\left(" * 150 + "x" + r"\right)" * 150 + "$",
    "nested environments": "$$" + r"\begin{matrix}" * 60 + "x" + r"\end{matrix}" * 60 + "$$",
    "exponents": "$" + "x^{" * 500 + "x" + "}" * 500 + "$",
    "laughs": r"$\def\a{xxxxxxxxxx}\def\b{\a\a\a\a\a\a\a\a}\def\c{\b\b\b\b\b\b\b\b}\def\d{\c\c\c\c\c\c\c\c}\d\d\d\d$",
    "new commands": r"$\newcommand{\a}{\a\a}\a$",
    "many": " ".join(f"$x_{{{number}}}$" for number in range(4000)),
    "dollars": "<p>" + "$ " * 50_000 + "</p>",
    "unclosed": "<p>" + r"\begin{align} $$ \( \[ " * 5000 + "</p>",
    "primes": "$x" + "'" * 1900 + "$",
    "columns": r"$$\begin{array}{" + "c" * 1900 + r"}1\end{array}$$",
}


@pytest.mark.parametrize("name", SLOW)
def test_formulas_end_soon(name):
    start = time.process_time()
    page = shown(SLOW[name])
    assert time.process_time() - start < SECONDS
    assert len(page) < formulas.MOST_GROWTH * len(SLOW[name]) + markup.SMALL


@pytest.mark.parametrize(
    "name", ["100 KB", "100 KB of braces", "nested braces", "exponents", "laughs"]
)
def test_what_is_too_much_stays_as_it_was_written(name):
    assert "<math" not in shown(SLOW[name])


def test_a_page_has_room_for_so_many():
    room = formulas.FormulaBudget(10)
    assert formulas.with_formulas("$abc$ $defg$ $hijk$ $l$", room).count("<math") == 2


# Code, and what a terminal shows


def test_code_that_takes_a_lexer_long_is_not_colored():
    doubling = '"' + "\\" * 200  # pygments' lexer for Chapel needs 2 ** 200 steps
    began = time.process_time()
    for text, language in ((doubling, "chapel"), (" \n" * 10_000, "python")):
        assert "<span" not in code.block(text, language)
    assert time.process_time() - began < 1


def test_a_page_has_a_budget_for_colors():
    text = "x = 1\n" * 2_000
    with code.limited_coloring():
        colored = ["<span" in code.block(text) for _ in range(30)]
    assert sum(colored) == code.MOST_ON_A_PAGE // len(text)
    assert "<span" in code.block(text)


def test_a_text_with_code_in_another_language_is_not_left_to_other_programs():
    assert markdown.inert_markdown("```python\nx = 1\n```")[1]
    assert not markdown.inert_markdown("```chapel\nx = 1\n```")[1]


def test_code_is_coloured_and_complete():
    source = 'def f(x):  # why\n    return "<b>" + str(1.5)\n\n\n%matplotlib inline\n'
    page = code.block(source)
    assert BeautifulSoup(page, "html.parser").get_text() == source + "\n"
    for part in (
        '<span class="k">def </span>',
        '<span class="nf">f</span>',
        '<span class="c"># why',
        "&lt;b&gt;",
    ):
        assert part in page, page


@pytest.mark.parametrize("language", ["python", "javascript", "no such", "", "Python3"])
def test_code_of_any_language_is_shown(language):
    assert BeautifulSoup(code.block("x = 1", language), "html.parser").get_text().strip() == "x = 1"


@pytest.mark.parametrize(
    "text, page",
    [
        ("\x1b[31mred\x1b[0m plain", '<span class="t1">red</span> plain'),
        ("\x1b[1;94mx\x1b[22my\x1b[39mz", '<span class="b t4">x</span><span class="t4">y</span>z'),
        ("\x1b[38;5;28;01mx\x1b[39;00my", '<span class="b">x</span>y'),
        ("\x1b[48;2;1;2;3mx\x1b[m<y>", "x&lt;y&gt;"),
        ("\x1b]8;;javascript:hostile_mark()\x07x\x1b]8;;\x07", "x"),
        ("\x1b[2J\x1b[999;999Hx\x1b[", "x["),
        ("\x1b[;;;mx\x1b[38mx\x1b[38;2mx", "xxx"),
    ],
)
def test_colours_of_a_terminal_stay_and_nothing_else(text, page):
    assert code.terminal(text) == page
