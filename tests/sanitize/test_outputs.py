"""What students display and write becomes bounded and inert, whatever it is."""

import base64
import json
import time
from dataclasses import replace

import nbformat
import pytest
from hostile.case import live
from hostile_markup import ACTING, LIMITS, ONLY_IN_MARKDOWN, SECONDS, SLOW
from nbconvert.filters import markdown2html as stock_markdown
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from autograder.sanitize import markdown, markup, outputs

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(100)).decode()
JPEG = base64.b64encode(b"\xff\xd8\xff\xe0" + bytes(100)).decode()
GIF = base64.b64encode(b"GIF89a" + bytes(100)).decode()


def collected(*messages, **limits):
    cell = outputs.Collected(replace(LIMITS, **limits), room=10**9)
    for message in messages:
        cell.add(message)
    return cell


def test_a_cell_keeps_no_more_than_the_others_left():
    cell = outputs.Collected(LIMITS, room=1000)
    cell.add({"output_type": "stream", "name": "stdout", "text": "x" * 600})
    cell.add(shows(image_png=PNG))
    assert cell.kept == 600 + outputs.MESSAGE_COST * 2 + 108 and not cell.cut
    cell.add({"output_type": "stream", "name": "stdout", "text": "x" * 600})
    assert cell.cut and cell.kept <= 2000
    full = outputs.Collected(LIMITS, room=-5)
    full.add(shows(image_png=PNG))
    assert full.kept == 0 and full.cut and full.outputs == []


def shows(**data):
    return {
        "output_type": "display_data",
        "data": {name.replace("_", "/"): value for name, value in data.items()},
    }


def assert_inert(shown):
    assert not live(shown), shown
    for word in (
        "position",
        "url(",
        "expression",
        "navbar",
        "-500px",
        "srcset",
        "onerror=h",
        'id="',
        "name=",
    ):
        assert word not in shown.replace("&lt;img src=x onerror", ""), (word, shown)


@pytest.mark.parametrize("name", ACTING)
def test_nothing_in_displayed_html_acts(name):
    cell = collected(shows(text_html=ACTING[name]))
    assert_inert(cell.outputs[0].data["text/html"])


@pytest.mark.parametrize("name", [*ACTING, *ONLY_IN_MARKDOWN])
def test_nothing_in_a_text_cell_acts(name):
    text = {**ACTING, **ONLY_IN_MARKDOWN}[name]
    cell = new_markdown_cell(f"Before\n\n{text}\n\nAfter")
    outputs.clean_markdown([cell], LIMITS)
    assert_inert(markdown.inert_markdown(cell.source)[0])
    shown = stock_markdown(cell.source)  # other programs show a graded notebook as well
    assert not live(shown), shown
    assert "Before" in shown and "After" in shown


@pytest.mark.parametrize("name", [*ACTING, *ONLY_IN_MARKDOWN])
def test_nothing_in_displayed_markdown_acts(name):
    cell = collected(shows(text_markdown={**ACTING, **ONLY_IN_MARKDOWN}[name]))
    assert_inert(cell.outputs[0].data["text/html"])


@pytest.mark.parametrize(
    "text",
    [
        "# Why *addition* commutes\n\nBecause $a + b = b + a$, see [the "
        "book](https://example.org/a?b=1&c=2).",
        "| a | b |\n|:--|--:|\n| 1 | 2 |\n\n1. one\n2. two\n\n> quoted\n\n```python\nadd(1, "
        "2)\n```\n\n- [x] done",
        "Line<br>break, 1 < 2 & 3 > 2, and $\\begin{pmatrix}1 & 2\\end{pmatrix}$",
    ],
)
def test_ordinary_markdown_is_left_as_it_is(text):
    cell = new_markdown_cell(text)
    assert outputs.clean_markdown([cell], LIMITS) == []
    assert cell.source == text
    shown = markdown.inert_markdown(text)[0]
    for word in (
        ("<table>", "<blockquote>", "<ol>", 'type="checkbox"', 'class="m"') if "|" in text else ()
    ):
        assert word in shown


def test_plain_formatting_and_colours_stay():
    text = (
        '<p style="color: red; margin: 0 auto; border: 1px solid rgb(1, 2, '
        '3)"><b>x</b><sub>1</sub></p>'
    )
    shown = markup.inert_html(text)
    assert (
        shown == '<p style="color:red;margin:0 auto;border:1px solid rgb(1, 2, '
        '3)"><b>x</b><sub>1</sub></p>'
    )


def test_what_was_made_inert_is_read_the_same_everywhere():
    text = "<pre>\n\n# no heading\n\n[x](javascript:hostile_mark())\n\r\r</pre>\n\n$$a$$ <b>b</b>"
    cell = new_markdown_cell(text)
    outputs.clean_markdown([cell], LIMITS)
    again = new_markdown_cell(cell.source)
    outputs.clean_markdown([again], LIMITS)
    assert len(cell.source.splitlines()) == 1
    assert "href" not in stock_markdown(cell.source) and "<h1" not in stock_markdown(cell.source)
    assert markdown.inert_markdown(again.source)[0] == markdown.inert_markdown(cell.source)[0]


# Attachments


def test_a_photo_in_a_text_cell_stays():
    cell = new_markdown_cell(
        "![proof](attachment:proof.jpg)", attachments={"proof.jpg": {"image/jpeg": JPEG}}
    )
    assert outputs.clean_markdown([cell], LIMITS) == []
    assert cell.attachments == {"proof.jpg": {"image/jpeg": JPEG}}
    assert (
        f'src="data:image/jpeg;base64,{JPEG}"'
        in markdown.inert_markdown(cell.source, cell.attachments)[0]
    )


@pytest.mark.parametrize("name", ["my photo.png", "Übung.png"])
def test_a_photo_of_any_name_is_shown(name):
    text = f"![x](attachment:{name.replace(' ', '%20')})"
    cell = new_markdown_cell(text, attachments={name: {"image/png": PNG}})
    outputs.clean_markdown([cell], LIMITS)
    assert PNG in stock_markdown(cell.source)
    assert PNG in markdown.inert_markdown(cell.source, cell.get("attachments"))[0]


@pytest.mark.parametrize(
    "attachments",
    [
        {},
        None,
        [],
        {"x.png": None},
        {"x.png": {}},
        {"x.png": {"image/png": 7}},
        {"x.png": {"image/png": "no base64!"}},
        {"x.png": {"image/png": base64.b64encode(b"<script>hostile_mark()</script>").decode()}},
        {"x.png": {"text/html": "<script>hostile_mark()</script>"}},
        {"x.png": {"image/png": PNG * 1000}},
        {"x.png": {"image/png": base64.b64encode(base64.b64decode(PNG) + bytes(30_000)).decode()}},
        {"../x.png": {"image/png": PNG}},
    ],
)
@pytest.mark.parametrize("name", ["x.png", "../x.png"])
def test_a_picture_that_cannot_be_shown_becomes_a_line(attachments, name):
    cell = new_markdown_cell(f"My proof:\n\n![proof](attachment:{name})")
    cell["attachments"] = attachments
    notes = outputs.clean_markdown([cell], LIMITS)
    assert len(notes) == len(attachments or {})
    shown = stock_markdown(cell.source)  # and does not raise InvalidNotebook
    assert f"[The picture {name} is not in the notebook, or is none that can be shown.]" in shown
    assert "My proof" in shown and "hostile_mark" not in shown and not cell.get("attachments")


def test_a_notebook_full_of_pictures_that_are_none_has_few_lines_about_them():
    cells = [new_markdown_cell("My proof") for _ in range(3)]
    for cell in cells:
        cell["attachments"] = {f"{number}": {} for number in range(1000)}
    assert len(outputs.clean_markdown(cells, LIMITS)) == outputs.MOST_NOTES + 1
    assert not any(cell.get("attachments") for cell in cells)


def test_a_picture_is_what_its_bytes_are():
    attachments, notes = outputs.clean_attachments({"a.png": {"image/png": JPEG}}, LIMITS)
    assert (attachments, notes) == ({"a.png": {"image/jpeg": JPEG}}, [])
    cell = collected(
        shows(image_png="nothing"),
        shows(image_png=JPEG),
        shows(image_gif=GIF),
        shows(image_png=PNG),
    )
    assert [list(out.data) for out in cell.outputs] == [
        ["image/jpeg"],
        ["text/html"],
        ["image/png"],
    ]


def test_a_good_picture_beside_a_missing_one_is_shown():
    text = "![a](attachment:a.png) ![b](attachment:b.png)"
    cell = new_markdown_cell(text, attachments={"a.png": {"image/png": PNG}})
    outputs.clean_markdown([cell], LIMITS)
    assert PNG in stock_markdown(cell.source) and "b.png is not in the notebook" in stock_markdown(
        cell.source
    )


# Sizes


FLOODS = {
    "errors": [
        {
            "output_type": "error",
            "ename": "E" * 5000,
            "evalue": "v" * 5000,
            "traceback": ["t" * 999] * 50,
        }
    ]
    * 9,
    "alternating streams": [
        {"output_type": "stream", "name": name, "text": "x"}
        for _ in range(20_000)
        for name in ("stdout", "stderr")
    ],
    "empty messages": [{"output_type": "stream", "name": "stdout", "text": ""}] * 20_000
    + [{"output_type": "stream", "name": "stdout", "text": "x" * 1000}] * 100,
    "small displays": [shows(text_plain="x")] * 20_000,
    "one text": [shows(text_plain="x" * 10_000_000)],
    "html": [shows(text_html="<b>x</b>" * 100_000)] * 5,
    "pictures": [shows(image_png=base64.b64encode(base64.b64decode(PNG) + bytes(15_000)).decode())]
    * 100,
    "drawings": [shows(**{"image_svg+xml": "<svg>" + "x" * 10_000})] * 100,
    "many types": [
        {"output_type": "display_data", "data": {f"text/{n}": "x" * 1000 for n in range(10_000)}}
    ]
    * 9,
}


@pytest.mark.parametrize("name", FLOODS)
def test_outputs_end(name):
    cell = collected(*FLOODS[name])
    size = len(json.dumps(cell.outputs))
    most = LIMITS.output_kb * 1024 + outputs.PICTURES_PER_CELL * LIMITS.picture_kb * 1024 * 4 // 3
    assert size <= most + 200 * outputs.MOST_OUTPUTS
    assert len(cell.outputs) <= outputs.MOST_OUTPUTS
    assert cell.cut or name == "many types"


def test_a_graded_notebook_has_a_largest_size():
    cells = [
        new_code_cell(
            "x = 1", outputs=[outputs.new_output("stream", name="stdout", text="y" * 90_000)]
        )
    ] * 5
    small = new_code_cell(
        "z = 1", outputs=[outputs.new_output("stream", name="stdout", text="kept")]
    )
    cells = [nbformat.from_dict(cell) for cell in cells]
    notebook = new_notebook(cells=[*cells, new_markdown_cell("w" * 90_000), small])
    assert not outputs.bound(notebook, replace(LIMITS, graded_mb=1), lambda cell: False)
    assert outputs.bound(notebook, replace(LIMITS, graded_mb=0.2), lambda cell: False)
    assert outputs.size_of(notebook) <= 200_000
    assert [cell.outputs[0].text == f"{outputs.CUT_CELL}\n" for cell in notebook.cells[:5]].count(
        True
    ) == 4
    assert small.outputs[0].text == "kept" and notebook.cells[5].source == "w" * 90_000
    assert outputs.bound(notebook, replace(LIMITS, graded_mb=0.05), lambda cell: False)
    assert (
        notebook.cells[5].source == str(outputs.CUT_SOURCE) and outputs.size_of(notebook) <= 50_000
    )


def test_the_courses_cells_are_never_cut():
    notebook = new_notebook(cells=[new_markdown_cell("w" * 90_000)])
    outputs.bound(notebook, replace(LIMITS, graded_mb=0.01), lambda cell: True)
    assert notebook.cells[0].source == "w" * 90_000


# Time


@pytest.mark.parametrize("name", SLOW)
def test_cleaning_ends_soon(name):
    start = time.process_time()
    cell = new_markdown_cell(SLOW[name])
    outputs.clean_markdown([cell], LIMITS)
    collected(shows(text_html=SLOW[name]), shows(text_markdown=SLOW[name]), output_kb=400)
    assert time.process_time() - start < SECONDS
    # each & is five characters of HTML
    assert len(cell.source) <= 5 * len(SLOW[name]) + markup.SMALL


def test_many_costly_texts_end_soon():
    cells = [new_markdown_cell("\\begin{a}" * 1900) for _ in range(100)]
    start = time.process_time()
    outputs.clean_markdown(cells, LIMITS)
    assert time.process_time() - start < 3 * SECONDS
    assert str(markup.TOO_LARGE) in cells[-1].source


def test_a_long_text_is_shown_as_it_is_written_and_cut():
    cell = new_markdown_cell("<b>&" + "x" * (markup.MOST_TEXT + 10))
    outputs.clean_markdown([cell], LIMITS)
    assert "<pre>&lt;b&gt;&amp;xxx" in cell.source and str(markup.CUT) in cell.source
    assert len(cell.source) < markup.MOST_TEXT + 1000


def test_colours_without_end_are_dropped():
    cell = collected({"output_type": "stream", "name": "stdout", "text": "\x1b[31mx" * 5000})
    assert cell.outputs[0].text == "x" * 5000
    cell = collected({"output_type": "stream", "name": "stdout", "text": "\x1b[31mx\x1b[0m"})
    assert cell.outputs[0].text == "\x1b[31mx\x1b[0m"


@pytest.mark.parametrize("broken", ["as_html", "_CLEANER"])
def test_an_exception_while_cleaning_is_a_line(monkeypatch, broken):
    class Broken:
        def __call__(self, *arguments):
            raise RecursionError

        clean = __call__

    monkeypatch.setattr(markdown if broken == "as_html" else markup, broken, Broken())
    cell = new_markdown_cell("My *text* <b>x</b>")
    outputs.clean_markdown([cell], LIMITS)
    assert str(markup.FAILED) in cell.source and "My *text* &lt;b&gt;" in cell.source
