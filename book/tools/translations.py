"""What there is to translate: brings the catalogs in locale/ up to date with the English text,
and says what lacks.

    python book/tools/translations.py             # `make translations`: updates the catalogs
    python book/tools/translations.py --check     # changes nothing; reports how much is translated
    python book/tools/translations.py --complete  # the same, and fails if something is missing

A catalog has one message for each paragraph, heading or cell of a table that has words, in the
order of the page. When the English changes a little, the message is kept as stale (fuzzy, with the
English that it was made for): the edition shows English there until somebody looks at it and
removes the mark. No code is run.
"""

import argparse
import ast
import contextlib
import difflib
import io
import itertools
import re
import sys
import textwrap
from pathlib import Path

import editions
import pdf
from babel.messages.catalog import Catalog
from babel.messages.extract import extract_from_dir
from babel.messages.pofile import denormalize, read_po, write_po
from rich.console import Console
from rich.table import Table

BOOK = Path(__file__).resolve().parent.parent
# What in a message is no words: formulas, code, roles (but not their texts), targets of links,
# attributes, places for values.
NO_WORDS = re.compile(
    r"\$[^$]+\$|\{[\w:-]+\}`[^`<]*`|`{1,2}[^`]*`{1,2}|\]\([^)]*\)|(?<=\])\{[^}]*\}|\{[^}]*\}|<[^>]*>|https?://\S+"
)
# Words in a formula, but not those of a name, as in d_\text{model}.
IN_FORMULA = re.compile(r"(?<!_)(?<![^}]_\{)\\text\{([^}]*)\}")
WORD = re.compile(r"[A-Za-z]\w*(?=\W|$)")
JOINS = {", ", "”, “"}
"""What stands between the parts of a list: it is translated though it has no words."""
console = Console(highlight=False)


def with_words(messages):
    """Return the messages that have anything to translate: words, and not only names that stay as
    they are.

    A formula of its own has its words in \\text; others have no words in formulas, or in code.
    """
    unchanged_names = {
        name
        for language in editions.languages()
        for name in editions.terms(language, "kept").get("names", ())
    }
    return [
        message for message in messages if message in JOINS or not words(message) <= unchanged_names
    ]


def words(message):
    """Return the words of a message as a set: two letters or more, which are no formula, code or
    unit.
    """
    if is_formula(message):
        text = " ".join(IN_FORMULA.findall(message))
    else:
        text = NO_WORDS.sub(" ", message)
    # Of two letters, units such as GB and MB end in a capital.
    return {word for word in WORD.findall(text) if re.match("[A-Za-z]{3}|[A-Za-z][a-z]$", word)}


def is_formula(message):
    """Tell whether a message is a formula of its own: TeX, without dollar signs around it."""
    rest = NO_WORDS.sub("", message.replace("\n", " "))
    return "$" not in message and bool(re.search(r"\\[A-Za-z]", rest))


# Sources: functions that return the messages of each catalog, by its path below LC_MESSAGES/,
# without its ending. One that depends on a number is a pair: for one, and for many.


def of_pages():
    """Return the messages of the pages that some edition has."""
    wanted = set().union(*map(editions.pages, editions.languages()))
    log = io.StringIO()
    with contextlib.redirect_stdout(log), contextlib.redirect_stderr(log):
        messages = editions.read_messages()
    if not messages:
        sys.exit(f"The pages could not be read:\n{log.getvalue()[-2000:]}")
    return {name: with_words(messages[name]) for name in sorted(wanted)}


def of_figures():
    """Return the words of the interactive figures, from `TEXT` in each module, and of the
    drawings in `_static/`.
    """
    messages = []
    modules = [*BOOK.glob("figures/*.py"), *BOOK.glob("[0-9][0-9]-*/*.py")]
    modules = [path for path in modules if not path.name.startswith("test_")]
    for path in sorted(modules, key=lambda path: path.name):
        for node in ast.parse(path.read_text(encoding="utf8")).body:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "TEXT":
                messages += texts(ast.literal_eval(node.value))
    for path in sorted((BOOK / "_static").glob("*.svg")):
        found = re.findall(r"<(?:text|title|desc)\b[^>]*>([^<]+)", path.read_text(encoding="utf8"))
        messages += [" ".join(text.split()) for text in found]
    return {"figures": with_words(messages)}


def of_drawings():
    """Return the words of what cells draw, from the last build; nothing where a page has not
    run: catalogs stay.
    """
    sys.path.insert(0, str(BOOK / "_ext"))
    import run_pages
    from drawings import words_of
    from edition_pages import without_numbers
    from jupyter_cache import get_cache

    cache, messages = get_cache(str(run_pages.CACHE)), []
    for page in run_pages.pages():
        try:
            executed = cache.match_cache_notebook(run_pages.read(page))
        except KeyError:
            return {}
        cells = run_pages.code_cells(cache.get_cache_bundle(executed.pk).nb)
        outputs = list(itertools.chain(*(cell.outputs for cell in cells)))
        if not outputs:  # the page is in the book without its results
            return {}
        for output in outputs:
            drawing = output.get("data", {}).get("image/svg+xml", "")
            messages += map(without_numbers, words_of(drawing))
    return {"drawings": with_words(list(dict.fromkeys(messages)))}


def texts(value):
    """Yield the texts in a value of dictionaries and lists."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list | tuple):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from texts(inner)


def of_extensions():
    """Return what the extensions and the PDF say, and what _toc.yml, the chapters' entries and
    the benchmarks do.
    """
    from autograder.authoring import chapters

    extracted = extract_from_dir(
        BOOK / "_ext", [("**.py", "python")], keywords={"_": None, "N_": None}
    )
    captions = [part["caption"] for part in editions.read(editions.ROOT / "_toc.yml")["parts"]]
    claimed = [row["statement"] for row in chapters.claims(editions.ROOT).values()]
    sys.path.insert(0, str(BOOK / "_ext"))
    from grading import messages as measured

    of_chapters = []
    for row in chapters.read(editions.ROOT).values():
        of_chapters += filter(None, (row.learn, row.needs))
    said = [message for _file, _line, message, *_ in extracted]
    messages = [pdf.NOTE, *captions, *said, *of_chapters, *claimed, *sorted(measured())]
    return {"extensions": with_words(messages)}


def of_exercises():
    """Return the texts of notebooks, and what feedback says."""
    from autograder.authoring import translations

    return translations.texts_by_catalog(editions.ROOT)


SOURCES = [of_pages, of_figures, of_drawings, of_extensions, of_exercises]


# Catalogs.


def read(path, language):
    """Return a catalog; an empty one where there is none."""
    if not path.exists():
        return Catalog(language, project="Attention by Hand", fuzzy=False)
    with path.open("rb") as file:
        catalog = read_po(file, language)
    # Babel reads a line of `#|`, the English that a stale message had, as a comment.
    for message in catalog:
        before = [line for line in message.user_comments if line.startswith("|")]
        message.user_comments = [line for line in message.user_comments if line not in before]
        quoted = re.findall(r'"(?:[^"\\]|\\.)*"', " ".join(before))
        message.previous_id = ["".join(map(denormalize, quoted))] if quoted else []
    return catalog


def updated(catalog, messages, elsewhere=None):
    """Bring a catalog up to date with the messages that there are, in their order; return it.

    Parameters
    ----------
    catalog : Catalog
    messages : list
    elsewhere : dict
        What other catalogs of the folder translate: a message may come from there.
    """
    wanted = Catalog(creation_date=catalog.creation_date)
    for message in messages:
        wanted.add(message)
    before = {message.id: message.previous_id for message in catalog if message.fuzzy}
    catalog.update(wanted, update_header_comment=False)
    for message in catalog:
        # The first English that a translation was made for, not a later one that it never fitted.
        if message.fuzzy and message.id in before:
            message.previous_id = before[message.id]
        moved = (elsewhere or {}).get(message.id)
        if message.id and not is_done(message) and (moved or not all(forms(message.string))):
            message.string = moved or ""
            message.flags.discard("fuzzy")
            message.previous_id = []
    return catalog


def forms(text):
    """Return the forms of a message as a tuple: several if it depends on a number, else one."""
    return (text or "",) if isinstance(text, str) or text is None else text


def is_done(message):
    """Tell whether a message is translated, and its English is the same still."""
    return all(forms(message.string)) and not message.fuzzy


def translated(catalogs):
    """Return what catalogs translate, and is not stale."""
    return {
        message.id: message.string
        for message in itertools.chain(*catalogs)
        if message.id and is_done(message)
    }


def text_of(catalog):
    """Return a catalog as its file has it: a line for each message, no places or dates,
    nothing that is gone.
    """
    file = io.BytesIO()
    options = {
        "no_location": True,
        "ignore_obsolete": True,
        "include_previous": True,
        "omit_header": True,
    }
    write_po(file, catalog, width=10**6, **options)  # lines are not broken, comments neither
    body = re.sub(
        r"^#, python.*\n|(?<=^#, fuzzy), python.*", "", file.getvalue().decode(), flags=re.M
    )
    header = {
        "Language": catalog.locale_identifier,
        "Content-Type": "text/plain; charset=utf-8",
        "Plural-Forms": catalog.plural_forms,
    }
    lines = "".join(f'"{name}: {value}\\n"\n' for name, value in header.items())
    return f'msgid ""\nmsgstr ""\n{lines}\n{body.strip()}\n'.encode()


def lacks(catalog):
    """Return the messages that are stale, and those that are missing."""
    lacking = [message for message in catalog if message.id and not is_done(message)]
    return [message for message in lacking if message.fuzzy], [
        message for message in lacking if not message.fuzzy
    ]


def changed_words(old, new):
    """Return an old and a new sentence with what differs in brackets."""
    one, two = old.split(" "), new.split(" ")
    sides = [], []
    for kind, *places in difflib.SequenceMatcher(None, one, two, autojunk=False).get_opcodes():
        for side, words, (first, last) in zip(
            sides, (one, two), (places[:2], places[2:]), strict=True
        ):
            part = " ".join(words[first:last])
            if part:
                side.append(part if kind == "equal" else f"[[{part}]]")
    return tuple(" ".join(side) for side in sides)


def show(name, stale, missing):
    """Print what a catalog lacks: stale messages side by side, missing ones as they are."""
    if stale:
        table = Table(
            "English before",
            "English now",
            "translation",
            title=f"{name}: stale",
            title_justify="left",
        )
        for message in stale:
            before, now = (forms(text)[0] for text in (message.previous_id or "", message.id))
            table.add_row(*map(escaped, (*changed_words(before, now), forms(message.string)[0])))
        console.print(table)
    for message in missing:
        console.print(
            f"{name}: missing: {textwrap.shorten(str(message.id), 100)}",
            markup=False,
            soft_wrap=True,
        )


def escaped(text):
    """Return text for a table: what differs in color, other brackets as they are."""
    from rich.markup import escape

    return re.sub(r"\\?\[\\?\[(.*?)\]\]", r"[bold red]\1[/]", escape(text))


def main(arguments=None):
    """Update the catalogs, or check them; return the exit status."""
    parser = argparse.ArgumentParser(
        description="Bring the catalogs in locale/ up to date with the English text."
    )
    parser.add_argument(
        "--check", action="store_true", help="change nothing; report how much is translated"
    )
    parser.add_argument(
        "--complete", action="store_true", help="like --check, and fail if something is missing"
    )
    options = parser.parse_args(arguments)
    check = options.check or options.complete
    messages = {}
    for source in SOURCES:
        messages |= source()
    status = 0
    for language in editions.languages():
        count, total = bring_up_to_date(language, messages, check)
        console.print(
            f"{language}: {count} of {total} messages translated ({100 * count // total} %)"
        )
        if count < total:
            status = 1 if options.complete else 0
            console.print(f"`make translations` shows the other {total - count}.")
    return status


def bring_up_to_date(language, messages, check):
    """Bring a language's catalogs up to date with the messages of each, in their files only
    without `check`; return how many messages are translated, and how many there are.
    """
    shares = Table(
        *("catalog", "messages", "translated", "stale", "missing"),
        title=language,
        title_justify="left",
    )
    total = count = 0
    paths = {name: editions.catalog_folder(language) / f"{name}.po" for name in messages}
    present = {name: read(path, language) for name, path in paths.items()}
    # A paragraph that moves to another page keeps its translation.
    folders = {}
    for name, path in paths.items():
        folders.setdefault(path.parent, []).append(present[name])
    elsewhere = {folder: translated(catalogs) for folder, catalogs in folders.items()}
    for name, texts in messages.items():
        path = paths[name]
        catalog = updated(present[name], texts, elsewhere[path.parent])
        stale, missing = lacks(catalog)
        of_page = sum(1 for message in catalog if message.id)
        done = of_page - len(stale) - len(missing)
        total += of_page
        count += done
        shares.add_row(name, *map(str, (of_page, done, len(stale), len(missing))))
        if not check:
            show(name, stale, missing)
            path.parent.mkdir(parents=True, exist_ok=True)
            # a file that is as it was keeps its time, by which catalogs are compiled
            if not path.exists() or path.read_bytes() != text_of(catalog):
                path.write_bytes(text_of(catalog))
    if not check:
        console.print(shares)
    return count, total


if __name__ == "__main__":
    sys.exit(main())
