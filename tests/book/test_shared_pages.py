"""The pages of the whole book keep to its chapters: notation, glossary, cheat sheet, map, and
how words are set.
"""

import itertools
import math
import re
import sys
from operator import itemgetter
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from book_pages import IMPACTS, IN_EVERY_RUN, IN_THE_DARK, PHONES
from bs4 import BeautifulSoup
from docutils import nodes
from sphinx.errors import ConfigError
from sphinx.testing.util import SphinxTestApp

from autograder.authoring import chapters as listed
from autograder.course.config import ROOT

sys.path.insert(0, str(ROOT / "book" / "_ext"))

import glossary
import superscripts

BOOK = ROOT / "book"
CORE = sorted(path for path in BOOK.glob("[0-9][0-9]-*.md") if not path.stem.endswith("-deeper"))
CHAPTERS = sorted(BOOK.glob("[0-9][0-9]-*.md"))
PROSE = [
    *CHAPTERS,
    *(
        BOOK / f"{name}.md"
        for name in ("index", "notation", "glossary", "claims", "cheatsheet", "ten-questions")
    ),
]


def whole(path):
    """A page, with what chapters enter into it."""

    def entered(directive):
        parts = (
            chapter.sections.get(directive[1], (0, []))[1] for chapter in listed.read(ROOT).values()
        )
        return "\n".join(line for lines in parts for line in [*lines, ""])

    return re.sub(
        r"^```\{entries\} (.*)\n```\n", entered, path.read_text(encoding="utf8"), flags=re.M
    )


def text_of(path):
    """What a page says, without its code and its front matter."""
    text = re.sub(r"\A---\n.*?\n---\n", "", whole(path), flags=re.S)
    return re.sub(
        r"^(`{3,})(\{code-cell\}|\{code-block\}|python|bash).*?^\1$", "", text, flags=re.S | re.M
    )


def formulas(text):
    """Every formula of a page, as TeX."""
    displayed = r"\$\$(.*?)\$\$|```\{math\}\n(.*?)```|\{math\}`([^`]*)`"
    texts = ["".join(parts) for parts in re.findall(displayed, text, flags=re.S)]
    rest = re.sub(r"`[^`]*`", "", re.sub(displayed, "", text, flags=re.S))
    texts += re.findall(r"(?<![\\\w])\$([^$]+)\$", rest)
    return [re.sub(r"^:label: .*$", "", formula, flags=re.M) for formula in texts]


def bare(tex):
    """TeX without what changes only its look."""
    tex = re.sub(r"\\[,;:! ]|\\(?:big|Big|left|right|displaystyle)(?![A-Za-z])|\s|[{}]", "", tex)
    return tex.replace(r"\q", "q").replace(r"\k", "k").replace(r"\vv", "v")


def letters(tex):
    """The letters of a formula that stand for something: Latin and Greek ones, not words and not
    commands.
    """
    tex = re.sub(r"\\(?:text|operatorname|mathrm|mathbb|phantom|begin|end)\{[^}]*\}", " ", tex)
    tex = re.sub(r"\\(Q|K|V|A|q|k|vv)(?![A-Za-z])", lambda name: name[1][0], tex)
    greek = r"\\(?:alpha|beta|gamma|delta|Delta|varepsilon|theta|mu|pi|rho|sigma|omega|phi|psi|ell)(?![A-Za-z])"
    return set(re.findall(greek, tex)) | set(
        re.findall(r"[A-Za-z]", re.sub(r"\\[A-Za-z]+", " ", tex))
    )


# ---- notation
# --------------------------------------------------------------------------------------------


def symbols():
    """The symbols that the notation page defines, as (symbol, chapter or None)."""
    page = text_of(BOOK / "notation.md")
    for title in ("Sizes", "Attention", "Letters of single chapters"):
        part = re.split(r"^## ", page[page.index(f"## {title}") + 3 :], flags=re.M)[0]
        for first, second in re.findall(r"^\| (.*?) \| (.*?) \|", part, re.M):
            chapter = re.match(r"\d+", second)
            for formula in re.findall(r"\$([^$]+)\$", first):
                for symbol in re.split(r",\\ |=", formula):
                    yield symbol, chapter and f"{int(chapter[0]):02}"


def test_each_symbol_of_the_notation_is_used():
    used = dict.fromkeys((path.stem[:2] for path in CHAPTERS), "")
    for path in CHAPTERS:
        used[path.stem[:2]] += " ".join(bare(formula) for formula in formulas(text_of(path)))
    names = list(symbols())
    assert len(names) > 30
    for symbol, chapter in names:
        wanted = re.sub(r"\(.*\)|_j$|\\ldots", "", bare(symbol))
        where = used[chapter] if chapter else " ".join(used.values())
        assert wanted in where, (
            f"{symbol}: in no formula of {f'chapter {chapter}' if chapter else 'any chapter'}"
        )


@pytest.mark.parametrize("path", CORE, ids=lambda path: path.stem)
def test_each_letter_of_a_chapter_is_in_the_notation(path):
    known = set().union(*map(letters, formulas(text_of(BOOK / "notation.md"))))
    used = set().union(*map(letters, formulas(text_of(path))))
    assert not used - known


# A shape in words, in a table, behind a line of a formula, or in a comment.
SAID = re.compile(
    r"\$([^$\n]{1,24}?)\$(?:,? (?:of )?shape|,? which is| is| \||,|) " r"\$\(([^()$]*,[^()$]*)\)\$"
)
DISPLAYED = re.compile(r"^ *([^&=\n]{1,12}?) *&= .*?& *\(([^()\n]*,[^()\n]*)\)", re.M)
COMMENTED = re.compile(r"^([A-Za-z_, ]{1,14}) = [^#\n]*# \(([^()\n]*,[^()\n]*)\)", re.M)
NO_AXES = re.compile(r"(a )?numbers?$")
ALSO = {  # what an axis may be called where the page has fewer sizes than the notation
    "n_q": {"n"}, "n_k": {"n"}, "d_in": {"d_model", "d"}, "d_model": {"d", "hd_head"},
    "d_k": {"d_head", "d"}, "d_v": {"d_head", "d"}, "d_head": {"d/h"},
}  # fmt: skip


def axes(shape):
    """The axes of a shape, `n_q, d_k`, without leading ones."""
    plain = re.sub(r"_\{([^{}]*)\}", r"_\1", re.sub(r"\\text\{([^}]*)\}", r"\1", shape))
    plain = re.sub(r"\\[,;! ]|\s", "", plain.replace(r"\ldots", "..."))
    return [axis for axis in plain.split(",") if axis not in ("", "...")]


def symbol(tex):
    """A symbol without its colour and what it equals; a gradient is as what it belongs to."""
    return re.sub(r"^d\\?(?=[A-Z])|^\\(?=[A-Z]$)", "", bare(tex.split(" = ")[0]))


def listed_parts(cell):
    """The parts of a table's cell that commas divide, those within a formula left whole."""
    return [part.strip() for part in re.findall(r"(?:\$[^$]*\$|[^,$])+", cell)]


def shapes_of_symbols():
    """What the notation says: (symbol, chapter or None) -> its axes; none for a number."""
    page = text_of(BOOK / "notation.md")
    axes_of_symbol = {}
    for title in ("Attention", "Letters of single chapters"):
        part = re.split(r"^## ", page[page.index(f"## {title}") + 3 :], flags=re.M)[0]
        for row in re.findall(r"^\| (\$.*?) \|$", part, re.M):
            first, *chapter, shape, _meaning = row.split(" | ")
            number = chapter[0][:2].strip(" ,").zfill(2) if chapter else None
            names = [
                name for cell in listed_parts(first) for name in re.split(r",\\ ", cell.strip("$"))
            ]
            shapes = listed_parts(shape)
            for name, written in zip(
                names, shapes if len(shapes) == len(names) else shapes * len(names), strict=False
            ):
                if written.startswith("$(") and written.endswith(")$"):
                    axes_of_symbol[symbol(name), number] = axes(written[2:-2])
                elif NO_AXES.match(written):
                    axes_of_symbol[symbol(name), number] = []
    return axes_of_symbol


def shapes_said(text, code=False):
    """What a page says: (symbol, axes), the symbol as the notation writes it."""
    shapes_stated = SAID.findall(text) + DISPLAYED.findall("\n".join(formulas(text)))
    shapes_stated += COMMENTED.findall(text) if code else []
    for names, shape in shapes_stated:
        for name in names.split(", ") if code else [names]:
            yield symbol(name), axes(shape)


def wrong_shapes(text, chapter, code=False):
    """The symbols of a page that it gives another shape than the notation does."""
    known = shapes_of_symbols()
    for name, shape in shapes_said(text, code):
        meant = known.get((name, chapter), known.get((name, None)))
        sizes = {
            "1",
            *itertools.chain.from_iterable(known.values()),
            *itertools.chain.from_iterable(ALSO.values()),
        }
        # a part of it, such as a tile
        if meant is None or not sizes.issuperset(shape[-len(meant) :]):
            continue
        more = len(shape) - len(meant)
        fits = more >= 0 and (meant or not shape)
        for axis, right in zip(shape[more:], meant, strict=False) if fits else ():
            fits = fits and (axis == right or axis in ALSO.get(right, ()))
        if not fits or not {"b", "h"}.issuperset(shape[: max(more, 0)]):
            yield f"{name} is {shape}, in the notation {meant}"


@pytest.mark.parametrize("path", [*CHAPTERS, BOOK / "ten-questions.md"], ids=lambda path: path.stem)
def test_a_symbol_has_the_shape_of_the_notation(path):
    assert not list(wrong_shapes(text_of(path), path.stem[:2]))


def test_the_cheat_sheet_has_the_shapes_of_the_notation():
    text = whole(BOOK / "cheatsheet.md")
    assert len(list(shapes_said(text, code=True))) > 10
    assert not list(wrong_shapes(text, None, code=True))


@pytest.mark.parametrize(
    ("text", "chapter", "wrong"),
    [
        (
            r"Keys $\K$ $(n_k, d_k)$, values $\V$, shape $(n_k, d_v)$, and $r$, shape $(n_q, 1)$",
            "03",
            0,
        ),
        (r"Keys $\K$ $(n_q, d_k)$", "01", 1),
        (r"The weights $\A$, $(n_k, n_q)$, and $r$, shape $(n_k, 1)$", "03", 2),
        ("$$\ndS &= x & (n_k, n_q) \\\\[.2em]\n" + r"d\K &= y & (n_k, d_k)" + "\n$$", "03", 1),
        (r"$\rho$, shape $(n, n)$", "02", 1),
    ],
)
def test_a_wrong_shape_is_noticed(text, chapter, wrong):
    assert len(list(wrong_shapes(text, chapter))) == wrong


# ---- entries
# ---------------------------------------------------------------------------------------------

ENTRIES = """---
after: []
needs: ""
learn: ""
about: ""
---

## Letters

| Symbol | Chapter |
|---|---|
| {letter} | 1 |

## Glossary

```{{glossary}}
{term}
  What it is.
```

## Cheat sheet

A block of {term}.
"""


@pytest.fixture
def small(tmp_path, monkeypatch):
    """What builds a book of two chapters and a page with their entries; it returns warnings and
    the page as text.
    """
    import chapters

    for number, letter, term in ((1, "one", "zero"), (2, "two", "Ace")):
        folder = tmp_path / "book" / f"0{number}-x"
        folder.mkdir(parents=True)
        entries = ENTRIES.format(letter=letter, term=term)
        (folder / listed.ENTRIES).write_text(entries, encoding="utf8")
        folder.with_suffix(".md").write_text(f"# Title {number}\n", encoding="utf8")
    (tmp_path / "conf.py").write_text(
        "extensions = ['myst_parser', 'sphinx_design', 'chapters']\nmyst_enable_extensions = "
        "['colon_fence']\n"
    )
    (tmp_path / "_toc.yml").touch()
    page = "".join(
        f"```{{entries}} {heading}\n```\n\n" for heading in ("Letters", "Glossary", "Cheat sheet")
    )
    (tmp_path / "book" / "page.md").write_text(f"# Book\n\n{page}", encoding="utf8")
    (tmp_path / "index.md").write_text(
        "# All\n\n```{toctree}\n:glob:\nbook/*\n```\n", encoding="utf8"
    )
    monkeypatch.setattr(chapters, "BOOK", tmp_path / "book")

    def build():
        app = SphinxTestApp(
            srcdir=tmp_path,
            builddir=tmp_path / "build",
            confoverrides={"exclude_patterns": ["book/*/*"]},
        )
        try:
            app.build()
            page = (tmp_path / "build" / "html" / "book" / "page.html").read_text(encoding="utf8")
            return app.warning.getvalue(), BeautifulSoup(page, "html.parser").select_one("#book")
        finally:
            app.cleanup()

    return build


def test_entries_of_chapters_become_one_page(small):
    warnings, page = small()
    assert not warnings
    (table,), (terms,) = page.select("table"), page.select("dl.glossary")
    assert [cell.get_text() for cell in table.select("tbody tr td:first-child")] == ["one", "two"]
    assert [term.get_text().rstrip("#\u00b6\uf0c1") for term in terms.select("dt")] == [
        "Ace",
        "zero",
    ]
    assert [block.get_text().split() for block in page.select(".abh-sheet-block")] == [
        ["1", "Title", "1", "A", "block", "of", "zero."],
        ["2", "Title", "2", "A", "block", "of", "Ace."],
    ]


def test_a_changed_entry_is_noticed_and_a_wrong_one_named(small, tmp_path):
    small()
    path = tmp_path / "book" / "02-x" / listed.ENTRIES
    text = (
        path.read_text(encoding="utf8")
        .replace("| two |", "| {nosuch}`two` |")
        .replace("is.", "is {nosuch}`it`.")
    )
    path.write_text(text.replace("A block", "```{nosuch}\n```\n\nA block"), encoding="utf8")
    warnings, _page = small()
    lines = [
        number
        for number, line in enumerate(path.read_text(encoding="utf8").splitlines(), 1)
        if "nosuch" in line
    ]
    assert (
        sorted(map(int, re.findall(rf"{path}:(\d+): WARNING", warnings))) == lines
        and len(lines) == 3
    ), warnings
    path.write_text("## Letters\n", encoding="utf8")
    with pytest.raises(ConfigError, match=r"book/02-x/entries\.md:1: should begin with"):
        small()


# ---- glossary
# --------------------------------------------------------------------------------------------


def terms():
    """The terms of the glossary."""
    return re.findall(r"^(\S.*)\n  \[", text_of(BOOK / "glossary.md"), re.M)


def test_each_term_of_the_glossary_is_used_in_a_chapter():
    text = "\n".join(text_of(path) for path in CHAPTERS)
    assert len(terms()) > 50
    assert not [term for term in terms() if not glossary.pattern(term).search(text)]


def stated(html):
    """The links of the built glossary: (term, page, place)."""
    page = (html / "book" / "glossary.html").read_text(encoding="utf8")
    for term, line in re.findall(
        r'<dt id="term-[^"]*">(.*?)<a ' r'class="headerlink".*?</dt><dd>(.*?)</dd>', page, re.S
    ):
        link = re.search(r'<a class="abh-told[^"]*" href="([^"#]+)#([^"]+)"', line)
        yield (re.sub(r"<[^>]+>|\n", "", term).strip(), *(link.groups() if link else (None, None)))


def test_the_glossary_links_to_where_a_term_is_explained(html):
    links = list(stated(html))
    assert [term for term, *_ in links] == sorted(terms(), key=str.lower)
    for term, name, anchor in links:
        assert name, f"{term}: no chapter has it in bold or in a heading"
        page = (html / "book" / name).read_text(encoding="utf8")
        there = re.search(rf'<section (?:class="[^"]*" )?id="{re.escape(anchor)}"', page)
        assert there, f"{term}: {name} has no place {anchor}"
        section = re.split(r"<section ", page[there.end() :])[0]
        pattern = glossary.pattern(term)
        heading, *boxes = (
            re.sub(r"<[^>]+>", "", words)
            for words in re.findall(
                r'<h\d>(.*?)<a|<p class="admonition-title">(.*?)</p>', section, re.S
            )
            for words in words
            if words
        )
        bold = [
            re.sub(r"<[^>]+>|\.$", "", words)
            for words in re.findall(r"<strong>(.*?)</strong>", section, re.S)
        ]
        told_there = pattern.search(heading) or any(
            pattern.fullmatch(words) for words in bold + boxes
        )
        assert told_there, f"{term}: {name}#{anchor}"


@pytest.mark.parametrize(
    ("term", "text", "matches"),
    [
        ("key", "many keys", True),
        ("key", "a keyboard", False),
        ("dot product", "dot-product attention", True),
        ("score (of attention)", "Its score is", True),
        ("one-hot", "nearly\none-hot", True),
    ],
)
def test_terms_are_found_in_their_usual_forms(term, text, matches):
    assert bool(glossary.pattern(term).search(text)) == matches


# ---- cheat sheet
# -----------------------------------------------------------------------------------------


def sheet():
    """The cheat sheet's blocks of code: the number of a chapter -> its block."""
    texts = {
        name[:2]: "\n".join(row.sections["Cheat sheet"][1])
        for name, row in listed.read(ROOT).items()
    }
    missing = {
        number: re.search(r"^```\{code-block\} python\n(.*?)^```", texts[number], re.S | re.M)
        for number in texts
    }
    return {number: block[1] for number, block in missing.items() if block}


def spec(S):
    """Softmax by another library."""
    return torch.softmax(torch.tensor(S), -1).numpy()


def test_the_cheat_sheet_computes_what_it_says():
    rng = np.random.default_rng(0)
    b, n, d_in, d_k, d_v = 3, 5, 7, 4, 6
    X, dZ = rng.normal(size=(b, n, d_in)), rng.normal(size=(b, n, d_v))
    W_q, W_k, W_v = (rng.normal(size=(d_in, d)) for d in (d_k, d_k, d_v))
    here = {"np": np, "math": math, "softmax": spec} | dict(X=X, W_q=W_q, W_k=W_k, W_v=W_v, dZ=dZ)
    first, two, three, four, five, six, seven, ten = itemgetter(*"01 02 03 04 05 06 07 10".split())(
        sheet()
    )

    exec(first, here)
    Q, K, V = here["Q"], here["K"], here["V"]
    assert np.allclose(here["Z"][1, 2], spec(K[1] @ Q[1, 2]) @ V[1])

    exec(two, here)
    assert np.allclose(here["S"][1, 2], K[1] @ Q[1, 2] / 2)
    A = here["A"]
    assert np.allclose(here["H"], -(A * np.log(A)).sum(-1))

    exec(three, here)
    assert np.allclose(here["softmax"](1000 * A), spec(1000 * A))
    tensors = [torch.tensor(M, requires_grad=True) for M in (Q, K, V)]
    Z = torch.nn.functional.scaled_dot_product_attention(*tensors)
    for name, right in zip(
        ("dQ", "dK", "dV"), torch.autograd.grad(Z, tensors, torch.tensor(dZ)), strict=True
    ):
        assert np.allclose(here[name], right.numpy()), name
    assert np.allclose(here["dS"].sum(-1), 0)
    assert np.allclose(here["dK"].sum(-2), 0)
    assert np.allclose(here["r"][..., 0], (dZ * (A @ V)).sum(-1))

    here |= {"n": n, "d": d_k, "Q": np.broadcast_to(rng.normal(size=d_k), (n, d_k))}
    exec(four, here)
    right = [
        [f(p / 10000 ** (2 * i / d_k)) for i in range(d_k // 2) for f in (math.sin, math.cos)]
        for p in range(n)
    ]
    assert np.allclose(here["E"], right)
    S = here["Q_turned"] @ here["Q_turned"].T  # of one word with itself, wherever it stands
    assert np.allclose(S[0, 1], np.diagonal(S, 1))
    assert not np.allclose(S[0, 1], S[0, 0])

    here |= {"n_q": 3, "n_k": 4, "lengths": np.array([4, 1, 0]), "S": rng.normal(size=(3, 3, 4))}
    scores = here["S"].copy()
    exec(five, here)
    assert here["causal"].astype(int).tolist() == [[1, 1, 0, 0], [1, 1, 1, 0], [1, 1, 1, 1]]
    assert np.allclose(here["A"][0, 1], [*spec(scores[0, 1, :3]), 0])
    assert here["A"][1].tolist() == [[1, 0, 0, 0]] * 3
    assert not here["A"][2].any()

    layer = torch.nn.MultiheadAttention(12, 3, batch_first=True)
    names = {"h": 3, "x": torch.randn(2, 5, 12), "W_o": layer.out_proj}
    for name, weight, bias in zip(
        ("W_q", "W_k", "W_v"),
        layer.in_proj_weight.chunk(3),
        layer.in_proj_bias.chunk(3),
        strict=True,
    ):
        names[name] = lambda x, weight=weight, bias=bias: x @ weight.T + bias
    here |= names
    exec(six, here)
    assert torch.allclose(here["out"], layer(here["x"], here["x"], here["x"])[0], atol=1e-6)

    layer = torch.nn.TransformerDecoderLayer(
        12, 3, 48, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
    )
    here |= {
        name: getattr(layer, name)
        for name in ("self_attn", "norm1", "norm2", "norm3", "linear1", "linear2")
    }
    here |= {
        "F": torch.nn.functional,
        "cross": layer.multihead_attn,
        "memory": torch.randn(2, 7, 12),
    }
    here |= {"logits": torch.randn(2, 5, 9), "T": 2}
    x = here["x"]
    exec(seven, here)
    assert torch.allclose(here["x"], layer(x, here["memory"]), atol=1e-6)
    assert torch.allclose(here["p"], (here["logits"][:, -1] / 2).softmax(-1))

    Q, K, V = torch.randn(2, 5, 4), torch.randn(2, 7, 4), torch.randn(2, 7, 6)
    start = {
        "top": torch.full((2, 5, 1), -torch.inf),
        "total": torch.zeros(2, 5, 1),
        "Z": torch.zeros(2, 5, 6),
    }
    here |= {"torch": torch, "Q": Q, "K": K, "V": V, "c": 3} | start
    exec(ten, here)
    assert torch.allclose(
        here["Z"], torch.nn.functional.scaled_dot_product_attention(Q, K, V), atol=1e-6
    )


# ---- the map of the chapters
# -----------------------------------------------------------------------------


def test_the_map_has_every_chapter_and_builds_on_earlier_ones():
    rows = listed.read(ROOT)
    assert list(rows) == list(
        dict.fromkeys(listed.chapter_of_page(path.stem, ROOT) for path in CHAPTERS)
    )
    for number, row in enumerate(rows.values()):
        assert set(row.after) <= set(list(rows)[:number])


@pytest.mark.parametrize("name", listed.LISTS)
def test_what_lists_the_chapters_is_made_from_one_file(name):
    assert listed.MADE.search((ROOT / name).read_text(encoding="utf8")), (
        f"{name} has not the two marks"
    )
    assert name not in listed.stale(ROOT), (
        f"{name} lists other chapters than book/NN-name/{listed.ENTRIES}. Run: make lists"
    )


def test_a_chapter_has_the_number_of_its_file(html):
    for path in CHAPTERS:
        page = (html / "book" / f"{path.stem}.html").read_text(encoding="utf8")
        number = re.search(r'<h1>\s*<span class="section-number">(\d+)\.', page)[1]
        assert int(number) == int(path.stem[:2])
        numbered = re.findall(r'<span class="caption-number">[^<]*?(\d+)\.\d+', page)
        numbered += re.findall(r'<span class="eqno">\((\d+)\.\d+\)', page)
        assert set(map(int, numbered)) <= {int(number)}


def test_lines_of_the_map_do_not_run_over_each_other():
    from chapters import lanes

    rows = {
        name: SimpleNamespace(after=after)
        for name, after in zip("abcdef", ["", "a", "ab", "a", "bd", "a"], strict=True)
    }
    boxes = lanes(rows)
    assert sorted((start, end) for start, end, _lane in boxes) == [(0, 2), (0, 3), (0, 5), (1, 4)]
    for i, (start, end, lane) in enumerate(boxes):
        assert all(lane != other or last < start or end < first for first, last, other in boxes[:i])


# ---- writing
# ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", PROSE, ids=lambda path: path.stem)
def test_per_cent_follows_its_number(path):
    assert not re.findall(r"[\d}`] ?(?:\\,)?(?<= |,)\\?%(?! of \w+ per)", text_of(path))


def test_raised_digits_become_superscripts():
    document = nodes.paragraph("", "About 10⁻³⁵ of x², and ", nodes.literal("", "10⁻³"))
    superscripts.raise_digits(None, document, "page")
    assert [node.astext() for node in document.findall(nodes.superscript)] == ["−35", "2"]
    assert document.astext() == "About 10−35 of x2, and 10⁻³"


AXE_RUNS = {"test_book", "test_item_analysis", "test_page", "test_report", "test_translations"}
"""The files of the tests that run axe."""


def test_the_page_on_accessibility_says_what_the_tests_do():
    page = " ".join((BOOK / "accessibility.md").read_text(encoding="utf8").split())
    tests = {path.stem: path.read_text("utf8") for path in (ROOT / "tests").rglob("test_*.py")}
    impacts = {"minor", "moderate", "serious", "critical"}
    assert f"findings with the impact `{'` or `'.join(IMPACTS)}`" in page
    others = [impact for impact in ("minor", "moderate") if impact not in IMPACTS]
    assert set(IMPACTS) < impacts and f"a `{'` or `'.join(others)}` impact do not count" in page
    assert f"| dark | `{'`, `'.join(IN_THE_DARK)}` |" in page
    first, second, third = IN_EVERY_RUN
    assert f"`make test` checks the book's pages `{first}`, `{second}` and `{third}`" in page
    fit, read = (size["width"] for size in PHONES)
    assert f"fit into a width of {fit} pixels. At {read} pixels, letters" in page
    assert f"the class report fit into {read} pixels, and feedback pages into {fit}" in page
    # All rules by default but in the dark; and which tests run axe at all.
    runs = re.compile("broken_rules\\(|axe.run\\(|evaluate\\(VIOLATIONS")
    del tests["test_shared_pages"]
    assert {name for name, text in tests.items() if runs.search(text)} == AXE_RUNS
    assert [name for name, text in tests.items() if "runOnly=" in text] == ["test_book"]
    files = (ROOT / "book").glob("[0-9][0-9]-*/test_figure_*.py")
    figures = {path.stem.removeprefix("test_figure_"): path.read_text("utf8") for path in files}
    assert [name for name, text in figures.items() if "PAGE" in text and ".press(" not in text] == [
        "heads"
    ]
    assert "The figure of chapter 8 has no such test" in page
