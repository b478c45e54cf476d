"""Looks at the English that people read: the words, patterns, spelling and lengths that
`.ci/english.toml` refuses.

    .venv/bin/python .ci/english.py            # every text; a part of `make lint`
    .venv/bin/python .ci/english.py FILE ...   # those of some files

Texts are Markdown; the sentences of checks, labels and hints; notebooks; messages of programs; and
their help. Code, formulas and the docstrings of functions inside the engine are not.
"""

import argparse
import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RULES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf8"))
READ = (
    "*.md",
    "solutions/*/*.py",
    "autograder/**.py",
    "book/_ext/*.py",
    "book/figures/*.py",
    "book/[0-9][0-9]-*/*.py",
    "course.py",
)
UNREAD = ("CHANGELOG.md", "changelog.d/", "locale/")
UNREAD += ("/test_figure_", "right_answers.py", "specifications.py")
WITH_HELP = re.compile(r"autograder/commands/|course\.py$|.*/checks\.py$")
"""Where docstrings are read as well: they are a command's help, or a check's sentence."""
LEAST_WORDS = 3
"""A string of fewer words in a program is a name, and no text."""
# Formulas, code, roles, the targets of links, tags, addresses, and places for values.
NO_TEXT = re.compile(
    r"\$\$.*?\$\$|\$[^$\n]+\$|\{(?:math|glue|cite\S*|eval)\}`[^`]*`|``[^`]+``|`[^`]*`|\]\([^)]*\)|<[^>]*>|https?://\S+|\{[^{}]*\}",
    re.DOTALL,
)
# The info strings of fenced blocks that have no prose in them: these directives, and any language.
NOT_READ = re.compile(r"\{(code-cell|math|raw|code-block|mermaid|toctree|glossary-table)\}|[a-z]*$")
# Between two sentences.
SENTENCE = re.compile(r"(?<=[.!?])[\"')\]]*\s+(?=[\"'(\[*_]*[A-Z`x$])")


FENCE = re.compile(r"(`{3,}|:{3,}|~{3,})(.*)")
# The fields of front matter that are read.
HEAD_FIELD = re.compile(r"(description|needs|learn|about): (.*)")
# What begins a paragraph: items, headings, quotes, rows, a directive's options, labels, comments.
BEGINS = re.compile(r"([-*+]|\d+\.|#+|>|\|)\s|:\w[\w-]*:|\(.*\)=$|<!--|%")
# Comments, labels, and the options of a directive that are no prose.
IGNORED = re.compile(
    r"(:(?!name|class|width|align|label)\w[\w-]*: "
    r"?)?(<!--|\(.*\)=$|%|:(name|class|width|align|label):)"
)


def paragraphs(text, first=1):
    """Yield the paragraphs, items and cells of a Markdown text, each with its line; no code, no
    comments.
    """
    fences, lines, begun = [], [], first  # the open fenced blocks; the paragraph so far
    in_head = text.startswith("---\n")
    for number, line in enumerate(text.splitlines(), first):
        bare = line.strip()
        if in_head:
            in_head = number == first or bare != "---"
            if field := HEAD_FIELD.match(bare):
                yield number, field[2]
            continue
        mark = FENCE.match(bare)
        skipped = any(is_skipped for _, is_skipped in fences)
        begins = bool(mark) or (not skipped and (not bare or BEGINS.match(bare)))
        if begins and lines:
            yield begun, " ".join(lines)
            lines = []
        if mark:
            marks, info = mark[1], mark[2].strip()
            # As in CommonMark, a fence is closed by a bare one of at least its length.
            if fences and not info and len(marks) >= len(fences[-1][0]):
                fences.pop()
            elif not skipped:
                fences.append((marks, bool(NOT_READ.match(info)) and marks[0] != ":"))
        elif skipped or not bare or IGNORED.match(bare):
            continue
        elif bare.startswith("|"):
            for cell in re.split(r"(?<!\\)\|", bare):
                if cell.strip(" -:"):
                    yield number, cell
        else:
            begun = begun if lines else number
            lines.append(re.sub(r"^([-*+]|\d+\.|#+|>)\s+|^:\w[\w-]*:\s*", "", bare))
    if lines:
        yield begun, " ".join(lines)


def of_notebook(text):
    """Yield the paragraphs of a notebook in jupytext's percent format, with their lines."""
    inside, block, begun = False, [], 1
    for number, line in enumerate([*text.splitlines(), "# %%"], 1):
        if line.startswith("# %%"):
            yield from paragraphs("\n".join(block), begun)
            inside, block, begun = "[markdown]" in line, [], number + 1
        elif inside:
            block.append(line.removeprefix("#").removeprefix(" "))
        elif comment := re.match(r"\s*# (.*)", line):
            yield number, comment[1]


def of_program(text, with_help):
    """Yield the texts of a program: its strings of several words, with their lines; docstrings
    only with its help.
    """
    every = list(ast.walk(ast.parse(text)))
    left_out = set()
    for node in every:
        if isinstance(node, ast.Expr):  # a string by itself: a docstring, or a comment
            left_out.add(id(node.value))
        elif isinstance(node, ast.JoinedStr):  # read as a whole
            left_out.update(map(id, node.values))
    for node in every if with_help else ():
        documented = isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        if documented and ast.get_docstring(node, clean=False) is not None:
            left_out.discard(id(node.body[0].value))
    for node in every:
        if id(node) in left_out:
            continue
        string = ""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            string = node.value
        elif isinstance(node, ast.JoinedStr):
            string = "".join(
                part.value if isinstance(part, ast.Constant) else "`x`" for part in node.values
            )
        if " " in string and len(re.findall(r"[A-Za-z]{2,}", string)) >= LEAST_WORDS:
            yield from paragraphs(string, node.lineno)


def texts(path):
    """Yield what people read of a file: paragraphs with their lines."""
    name = path.as_posix()
    text = (ROOT / path).read_text(encoding="utf8")
    if path.suffix == ".md":
        yield from paragraphs(text)
    elif name.startswith("solutions/") and path.stem == path.parent.name:
        yield from of_notebook(text)
    else:
        yield from of_program(text, bool(WITH_HELP.match(name)))


def faults(text):
    """Yield what the rules refuse in a paragraph: what stands there, and what to write instead."""
    plain = NO_TEXT.sub(" x ", text.replace("’", "'"))
    for sentence in SENTENCE.split(" ".join(plain.replace("**", "").replace("*", "").split())):
        if any(sentence.lower().startswith(begin.lower()) for begin in RULES["exceptions"]):
            continue
        for pattern, instead in RULES["rules"].items():
            if match := re.search(pattern, sentence, re.IGNORECASE):
                yield match[0][:70], instead
        for british, american in RULES["spelling"].items():
            for match in re.finditer(rf"\b{british}\w*", sentence, re.IGNORECASE):
                if not match[0].lower().startswith(tuple(RULES["exceptions"])):
                    yield match[0], f"American spelling: {american}"
        words = re.findall(r"[A-Za-z']{2,}|\bx\b", sentence)
        if len(words) > RULES["max_words"] and re.search(r"[.!?:][\"')\]]*$", sentence):
            yield f"{sentence[:60]}...", f"{len(words)} words; make two sentences of it"


def main():
    """Print each fault with its place; end with status 1 if there is one."""
    arguments = argparse.ArgumentParser(description="Check the English that people read.")
    arguments.add_argument("files", nargs="*", type=Path)
    files = arguments.parse_args().files
    listed = subprocess.run(
        ["git", "ls-files", *READ],  # noqa: S607
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split()
    wanted = {path.resolve() for path in files}
    count = 0
    for name in listed:
        path = Path(name)
        if any(part in name for part in UNREAD) or (
            wanted and (ROOT / path).resolve() not in wanted
        ):
            continue
        for line, text in texts(path):
            for words, instead in faults(text):
                print(f"{name}:{line}: {words!r}: {instead}")
                count += 1
    print(
        f"{count} to rewrite; CONTRIBUTING.md has the style guide."
        if count
        else "The English is plain."
    )
    return bool(count)


if __name__ == "__main__":
    sys.exit(main())
