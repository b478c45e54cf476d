"""Submissions that make trouble where they are shown: pictures, sizes, time, pages."""

import base64

import nbformat

from autograder.grades.results import Kind
from hostile.case import ALL, LIVE, RIGHT, Case, code, find

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)

# Each command is four of the one before.
GROWING = "".join(
    rf"\def\{b}{{\{a} \{a} \{a} \{a}}}" for a, b in zip("abcdefgh", "bcdefghi", strict=True)
)
GROWING = rf"$\def\a{{xxxxxxxx}}{GROWING}\i$"


def writes(name, does, text, attachments=None, **more):
    """Return a case with this text, and these attachments, in the cell of the written answer."""

    def edit(notebook, folder):
        cell = notebook.cells[find(notebook, "proof")]
        cell.source = text
        if attachments is not None:
            cell["attachments"] = attachments

    return Case(name, does, ALL, more.pop("kind", Kind.RIGHT), edit=edit, **more)


def adds(name, does, text, attachments=None):
    """Return a case with a text cell of the student's own, with these attachments."""

    def edit(notebook, folder):
        cell = nbformat.v4.new_markdown_cell(text)
        if attachments is not None:
            cell["attachments"] = attachments
        notebook.cells.append(cell)

    return Case(name, does, ALL, Kind.RIGHT, edit=edit)


def acts(name, does, markup):
    """Return two cases with this HTML: one writes it into a text cell, one displays it."""
    return [
        adds(f"text-{name}", f"has a text cell with {does}", markup),
        displays(f"shows-{name}", f"displays {does}", f"display(HTML({markup!r}))"),
    ]


def displays(name, does, text, kind=Kind.RIGHT, **more):
    """Return a case whose solution cell also displays something."""
    text = "from IPython.display import HTML, Markdown, display\n" + code(text)
    return Case(name, does, ALL, kind, cells={"add": RIGHT["add"] + "\n\n" + text}, **more)


def picture(data, mime="image/png"):
    return {mime: base64.b64encode(data).decode()}


def with_pictures(notebook, folder):
    """Add cells whose pictures together have 600 MB; they lie before the answers, and so run."""
    text = code(
        """
        import base64
        import os
        from IPython.display import display
        for _ in range(5):
            picture = b"\\x89PNG\\r\\n\\x1a\\n" + os.urandom(2000) * 1000
            display({"image/png": base64.b64encode(picture).decode()}, raw=True)
        """
    )
    notebook.cells[1:1] = [nbformat.v4.new_code_cell(text) for _ in range(60)]


CASES = [
    # Attachments
    writes(
        "photo-in-answer",
        "answers with a picture pasted into the cell",
        "My proof:\n\n![proof.png](attachment:proof.png)",
        {"proof.png": picture(PNG)},
    ),
    adds(
        "photo-in-own-cell",
        "pastes a picture into a text cell of its own",
        "![a photo](attachment:a%20photo.png)",
        {"a photo.png": picture(PNG)},
    ),
    writes("photo-missing", "refers to a missing picture", "![proof](attachment:proof.png)"),
    writes(
        "photo-by-reference",
        "refers to the picture by a label",
        "![proof][p]\n\n[p]: attachment:proof.png",
        {},
    ),
    writes(
        "photo-undecodable",
        "pastes a picture that cannot be decoded",
        "![proof](attachment:proof.png)",
        {"proof.png": {"image/png": "no picture at all!"}},
    ),
    writes(
        "photo-of-another-kind",
        "pastes an HTML page as a picture",
        "![proof](attachment:proof.png)",
        {"proof.png": picture(f"<script>{LIVE}()</script>".encode(), "text/html")},
    ),
    writes(
        "photo-too-large",
        "pastes a picture that is too large",
        "![proof](attachment:proof.png)",
        {"proof.png": picture(PNG + bytes(9_000_000))},
    ),
    writes(
        "photo-elsewhere",
        "pastes a picture whose name leads out of the folder",
        "![proof](attachment:../../gradebook.db)",
        {"../../gradebook.db": picture(PNG)},
    ),
    writes(
        "attachments-no-dict",
        "has a list for its attachments",
        "![x](attachment:x.png)",
        [1, None],
    ),
    writes(
        "attachments-odd",
        "has odd attachments",
        "![x](attachment:x.png)",
        {"x.png": [7], "y": None},
    ),
    # Texts that take long
    adds("text-280-kb", "has a text cell of 280 KB", "word *a* `b` $c$ <b>d</b>\n" * 11_000),
    adds(
        "text-unclosed-formulas",
        "has a text cell of formulas that never end",
        "\\begin{a}" * 30_000,
    ),
    adds(
        "text-doubling",
        "names a language whose highlighting takes twice as long with each character",
        '```chapel\n"' + "\\" * 200 + "\n```",
    ),
    adds("text-brackets", "has a text cell of opening brackets", "[" * 200_000),
    adds("text-nested-quotes", "has quotes nested 20,000 deep", "> " * 20_000 + "deep"),
    adds(
        "text-nested-lists",
        "has lists nested 500 deep",
        "\n".join(" " * (2 * n) + "- a" for n in range(500)),
    ),
    adds("text-blanks", "has a text cell of 3 million blanks", " " * 3_000_000 + "x"),
    adds(
        "request-underscores",
        "writes 20,000 underscores as a regrade request",
        "_" * 20_000 + "!",
    ),
    adds("text-unclosed-tags", "has a text cell of 30,000 unclosed tags", "<div>" * 30_000),
    displays(
        "html-unclosed-tags", "displays 30,000 unclosed tags", "display(HTML('<div>' * 30_000))"
    ),
    displays(
        "html-reopened-tags",
        "displays unclosed tags that every paragraph opens again",
        """
        many = "".join(f"<b title={n}>" for n in range(2000))
        display(HTML("<p>" + many + "</p>" + "<p>x</p>" * 4000))
        """,
    ),
    displays("terminal-colours", "prints a colour for each letter", r"print('\x1b[31mx' * 60_000)"),
    # Sizes
    displays(
        "alternating-streams",
        "writes to both streams in turn, forever",
        """
        import sys
        for _ in range(20_000):
            print("x", flush=True)
            print("y", file=sys.stderr, flush=True)
        """,
    ),
    Case(
        "pictures-in-many-cells",
        "displays five pictures of 2 MB in each of 60 cells of its own",
        ALL,
        Kind.RIGHT,
        edit=with_pictures,
    ),
    adds(
        "attachments-that-are-none",
        "attaches 20,000 things that are no pictures to a text cell",
        "My notes.",
        attachments={f"{number}.png": {} for number in range(20_000)},
    ),
    displays(
        "many-small-displays",
        "displays 20,000 small things",
        "for _ in range(20_000):\n    display(7)",
    ),
    Case(
        "errors-without-end",
        "raises an error of 50 MB in a cell of its own",
        ALL,
        Kind.RIGHT,
        edit=lambda notebook, folder: notebook.cells.append(
            nbformat.v4.new_code_cell(
                "class E(Exception):\n    pass\n\n\nraise E('x' * 50_000_000)"
            )
        ),
    ),
    # Pages that act
    *acts(
        "quoted-handler",
        "a handler inside a title",
        f'<b title="<img src=x onerror={LIVE}()>">x</b>',
    ),
    *acts(
        "quoted-focus",
        "a handler behind quotes",
        f"<b title='<img alt=\" onfocus={LIVE}() x=\"'>x</b>",
    ),
    *acts("backslash-host", "a picture behind a backslash", f'<img src="/\\{LIVE}/x.png">'),
    *acts(
        "control-host", "a picture behind a control character", f'<img src="\x01//{LIVE}/x.png">'
    ),
    *acts(
        "background",
        "a background from elsewhere",
        f'<p style="background:url(//{LIVE}/x.png)">x</p>',
    ),
    *acts(
        "escaped-background",
        "an escaped background",
        f'<p style="background:\\75rl(//{LIVE}/x.png)">x</p>',
    ),
    *acts(
        "style-sheet",
        "a style sheet that imports",
        f"<style>@import url(//{LIVE}/x.css);</style><p>x</p>",
    ),
    *acts(
        "sources",
        "pictures in sets",
        f'<img srcset="https://{LIVE}/x.png 1x"><video poster="//{LIVE}/x"></video>',
    ),
    *acts(
        "overlay",
        "a box over the page",
        f'<div title="{LIVE}" style="position:fixed;top:0">20 / 20</div>',
    ),
    *acts(
        "overlay-class",
        "a box by a class of the page",
        f'<div title="{LIVE}" class="navbar-fixed-top">20</div>',
    ),
    *acts(
        "overlay-margin",
        "a box moved up",
        f'<div title="{LIVE}" style="margin:-900px 0 0 0">20 / 20</div>',
    ),
    *acts(
        "refresh", "a page that leads away", f'<meta http-equiv="refresh" content="0;url=//{LIVE}">'
    ),
    *acts(
        "foreign",
        "a script in a drawing",
        f"<svg><style><img src=x onerror={LIVE}()></style></svg>",
    ),
    *acts("comment", "a script in a comment", f"<!--><img src=x onerror={LIVE}()>-->"),
    adds(
        "formula-link",
        "has a formula that links to a script",
        f"$\\href{{javascript:{LIVE}()}}{{x}}$",
    ),
    adds(
        "formula-markup",
        "has a formula that holds markup",
        f"$\\text{{<img src=x onerror={LIVE}()>}}$",
    ),
    adds(
        "formula-braces",
        "has a formula of 20,000 braces",
        "$" + "{" * 10_000 + "x" + "}" * 10_000 + "$",
    ),
    adds("formula-commands", "has a formula whose commands grow", GROWING),
    adds(
        "text-mermaid",
        "has a diagram that is a script",
        f"```mermaid\n<script>{LIVE}()</script>\n```",
    ),
    adds(
        "text-reference",
        "has a link by reference that runs",
        f"[x][y]\n\n[y]: javascript:{LIVE}()",
    ),
    # Exceptions while cleaning
    *[
        Case(case.name, case.does, case.points, case.kind, cells=case.cells, edit=case.edit)
        for case in acts(
            "brackets-in-style", "1,000 brackets in a style", f'<p style="color:{"(" * 1000}">x</p>'
        )
    ],
    writes(
        "half-a-letter",
        "has half a character in its answer",
        "\x00\x0b\x0c\x85\u2028 <b>\ud83d",
    ),
]
