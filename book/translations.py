"""What there is to translate: brings the catalogues in locale/ up to date with the English text, and says what they lack.

    python book/translations.py            # `make translations`: updates each catalogue, lists what is stale or missing
    python book/translations.py --check    # changes nothing; fails where a catalogue lacks something, as in `make lint`

A catalogue has one message for each paragraph, heading or cell of a table that has words, in the order of the page. When
the English changes a little, the message is kept as stale (fuzzy, with the English that it was made for): the edition shows
English there until somebody looks at it and removes the mark. No code is run, and pages are read again only when they changed.
"""

import argparse
import ast
import contextlib
import difflib
import io
import re
import sys
import textwrap
import tomllib
from pathlib import Path

import editions
from autograder import catalogues
from autograder.authoring import translations as exercises
from babel.messages.catalog import Catalog
from babel.messages.extract import extract_from_dir
from babel.messages.pofile import read_po, write_po
from rich.console import Console
from rich.table import Table

BOOK = Path(__file__).resolve().parent
# What of a message is no words: formulas, code, roles (but not their texts), targets of links, attributes, names in braces.
NO_WORDS = re.compile(
    r"\$[^$]+\$|\{[\w:-]+\}`[^`<]*`|`{1,2}[^`]*`{1,2}|\]\([^)]*\)|(?<=\])\{[^}]*\}|\{[^}]*\}|<[^>]*>|https?://\S+"
)
IN_FORMULA = re.compile(r"(?<!_)(?<!_\{)\\text\{([^}]*)\}")
WORD = re.compile(r"[A-Za-z]\w*(?=\W|$)")
ENGLISH_ONLY = ("catches.py", "corpus.py")
"""Extensions whose pages no edition has."""
console = Console(highlight=False)


def has_words(message, kept=()):
    """Tell whether a message has anything to translate: a word of three letters, or "no", and none of those that are kept.

    Parameters
    ----------
    message : str or tuple of str
        A formula of its own has its words in \\text; others have no words in formulas, or in code.
    kept : sequence of str
        Names, which are the same in both languages.
    """
    text = message if isinstance(message, str) else " ".join(message)
    text = " ".join(IN_FORMULA.findall(text)) if is_formula(text) else NO_WORDS.sub(" ", text)
    words = [word for word in WORD.findall(text) if re.match("[A-Za-z]{3}|[Nn]o$", word)]
    return not set(words) <= set(kept)


def is_formula(message):
    """Tell whether a message is a formula of its own."""
    return bool(re.search(r"\\[A-Za-z]", NO_WORDS.sub("", message.replace("\n", " ")))) and "$" not in message


# Sources: functions that return the messages of each catalogue, by its path below LC_MESSAGES/, without its ending.


def of_pages():
    """Return the messages of the pages that some edition has."""
    wanted = set().union(*map(editions.pages, editions.languages()))
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        found = editions.read_messages()
    if not found:
        sys.exit(f"The pages could not be read:\n{said.getvalue()[-2000:]}")
    return {name: found[name] for name in sorted(wanted)}


def of_figures():
    """Return the words of the interactive figures, from `TEXT` in each module, and of the drawings in `_static/`."""
    messages = []
    for path in sorted((BOOK / "figures").glob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf8")).body:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "TEXT":
                messages += texts(ast.literal_eval(node.value))
    for path in sorted((BOOK / "_static").glob("*.svg")):
        found = re.findall(r"<(?:text|title|desc)\b[^>]*>([^<]+)", path.read_text(encoding="utf8"))
        messages += [" ".join(text.split()) for text in found]
    return {"figures": messages}


def texts(value):
    """Yield the texts in a value of dictionaries and lists."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list | tuple):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from texts(inner)


def of_extensions():
    """Return what the extensions say on pages, and what _toc.yml and chapters.toml do."""
    said = extract_from_dir(BOOK / "_ext", [(name, "ignore") for name in ENGLISH_ONLY] + [("**.py", "python")], keywords={"_": None})
    rows = tomllib.loads((BOOK / "chapters.toml").read_text(encoding="utf8")).values()
    captions = [part["caption"] for part in editions.read(editions.ROOT / "_toc.yml")["parts"]]
    told = [row[key] for row in rows for key in ("learn", "needs") if row[key]]
    return {"extensions": [*captions, *(message for _, _, message, *_ in said), *told]}


def of_exercises():
    """Return the text cells of the exercises, and what feedback says: all of it is to be translated."""
    return exercises.texts(editions.ROOT)


SOURCES = [of_pages, of_figures, of_extensions, of_exercises]
WHOLE = (f"{catalogues.EXERCISES}/", f"{catalogues.FEEDBACK}/")
"""How the names of catalogues begin in which every message is to be translated, such as the two signs that join values."""


# Catalogues.


def read(path, language):
    """Return a catalogue; an empty one where there is none."""
    if not path.exists():
        return Catalog(language, project="Attention by Hand", fuzzy=False)
    with path.open("rb") as file:
        return read_po(file, language)


def updated(catalogue, messages):
    """Bring a catalogue up to date with the messages that there are, in their order; return it."""
    wanted = Catalog(creation_date=catalogue.creation_date)
    for message in messages:
        wanted.add(message)
    catalogue.update(wanted, update_header_comment=False)
    for message in catalogue:
        if message.id and message.fuzzy and not any(message.string):  # like one that nobody translated either
            message.flags.discard("fuzzy")
            message.previous_id = []
    return catalogue


def taken_over(catalogue, path, language):
    """Give messages that lack a translation the one that a catalogue beside this has: a text of two exercises has moved."""
    missing = lacks(catalogue)[1]
    for other in sorted(path.parent.glob("*.po")) if missing else ():
        known = read(other, language)
        for message in missing:
            if (found := known.get(message.id)) and found.string and not found.fuzzy:
                message.string = found.string
    return catalogue


def text_of(catalogue):
    """Return a catalogue as its file has it: a line for each message, no places, nothing that is gone."""
    file = io.BytesIO()
    write_po(file, catalogue, width=0, no_location=True, ignore_obsolete=True, include_previous=True)
    return file.getvalue()


def lacks(catalogue):
    """Return the messages that are stale, and those that are missing."""
    messages = [message for message in catalogue if message.id]
    missing = [message for message in messages if not (message.string and all(message.string))]
    return [message for message in messages if message.fuzzy], missing


def changed_words(old, new):
    """Return an old and a new sentence with what differs in brackets."""
    one, two = old.split(" "), new.split(" ")
    sides = [], []
    for kind, *places in difflib.SequenceMatcher(None, one, two, autojunk=False).get_opcodes():
        for side, words, (first, last) in zip(sides, (one, two), (places[:2], places[2:]), strict=True):
            part = " ".join(words[first:last])
            if part:
                side.append(part if kind == "equal" else f"[[{part}]]")
    return tuple(" ".join(side) for side in sides)


def show(name, stale, missing):
    """Print what a catalogue lacks: stale messages side by side, missing ones as they are."""
    if stale:
        table = Table("English before", "English now", "translation", title=f"{name}: stale", title_justify="left")
        for message in stale:
            before = message.previous_id[0] if message.previous_id else ""
            now = message.id if isinstance(message.id, str) else message.id[0]
            string = message.string if isinstance(message.string, str) else message.string[0]
            table.add_row(*map(escaped, (*changed_words(before, now), string)))
        console.print(table)
    for message in missing:
        console.print(f"{name}: missing: {textwrap.shorten(str(message.id), 100)}", markup=False, soft_wrap=True)


def escaped(text):
    """Return text for a table: what differs in colour, other brackets as they are."""
    from rich.markup import escape

    return re.sub(r"\\?\[\\?\[(.*?)\]\]", r"[bold red]\1[/]", escape(text))


def main(arguments=None):
    """Update the catalogues, or check them; return the exit status."""
    parser = argparse.ArgumentParser(description="Bring the catalogues in locale/ up to date with the English text.")
    parser.add_argument("--check", action="store_true", help="change nothing; fail where a catalogue lacks something")
    check = parser.parse_args(arguments).check
    messages = {}
    for source in SOURCES:
        messages |= source()
    status = 0
    for language in editions.languages():
        kept = editions.terms(language, "kept").get("names", [])
        shares = Table("catalogue", "messages", "translated", "stale", "missing", title=language, title_justify="left")
        total = found = 0
        for name, given in messages.items():
            path = editions.messages(language) / f"{name}.po"
            wanted = given if name.startswith(WHOLE) else [message for message in given if has_words(message, kept)]
            catalogue = taken_over(updated(read(path, language), wanted), path, language)
            stale, missing = lacks(catalogue)
            many = sum(1 for message in catalogue if message.id)
            total, found = total + many, found + many - len(stale) - len(missing)
            shares.add_row(name, *map(str, (many, many - len(stale) - len(missing), len(stale), len(missing))))
            if not check:
                show(name, stale, missing)
                path.parent.mkdir(parents=True, exist_ok=True)
                if not path.exists() or path.read_bytes() != text_of(catalogue):
                    path.write_bytes(text_of(catalogue))
        if not check:
            console.print(shares)
        console.print(f"{language}: {found} of {total} messages translated ({100 * found // total} %)")
        if found < total:
            status = 1 if check else 0
            console.print(f"`make translations` shows the other {total - found}.")
    return status


if __name__ == "__main__":
    sys.exit(main())
