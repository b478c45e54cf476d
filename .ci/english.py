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
UNREAD = (
    "CHANGELOG.md",
    "changelog.d/",
    "locale/",
    "/test_figure_",
    "right_answers.py",
    "specifications.py",
)
WITH_HELP = re.compile(r"autograder/commands/|course\.py$|.*/checks\.py$")
"""Where docstrings are read as well: they are a command's help, or a check's sentence."""
LEAST_WORDS = 3
"""A string of fewer words in a program is a name, and no text."""
NO_TEXT = re.compile(
    r"\$\$.*?\$\$|\$[^$\n]+\$|\{(?:math|glue|cite\S*|eval)\}`[^`]*`|``[^`]+``|`[^`]*`|\]\([^)]*\)|<[^>]*>|https?://\S+|\{[^{}]*\}",
    re.DOTALL,
)
NOT_READ = re.compile(r"\{(code-cell|math|raw|code-block|mermaid|toctree|glossary-table)\}|[a-z]*$")
SENTENCE = re.compile(r"(?<=[.!?])[\"')\]]*\s+(?=[\"'(\[*_]*[A-Z`x$])")


def paragraphs(text, first=1):
    """Yield the paragraphs, items and cells of a Markdown text, each with its line; no code, no
    comments.
    """
    fence, lines, begun = [], [], first
    in_head = text.startswith("---\n")
    for number, line in enumerate(text.splitlines(), first):
        bare = line.strip()
        if in_head:
            in_head = number == first or bare != "---"
            if field := re.match(r"(description|needs|learn|about): (.*)", bare):
                yield number, field[2]
            continue
        mark = re.match(r"(`{3,}|:{3,}|~{3,})(.*)", bare)
        if mark:
            if lines:
                yield begun, " ".join(lines)
                lines = []
            if fence and not mark[2].strip() and len(mark[1]) >= len(fence[-1][0]):
                fence.pop()
            elif not any(skipped for _, skipped in fence):
                fence.append((mark[1], bool(NOT_READ.match(mark[2].strip())) and mark[1][0] != ":"))
            continue
        if any(skipped for _, skipped in fence):
            continue
        new = not bare or re.match(r"([-*+]|\d+\.|#+|>|\|)\s|:\w[\w-]*:|\(.*\)=$|<!--|%", bare)
        if new and lines:
            yield begun, " ".join(lines)
            lines = []
        if not bare or re.match(
            r"(:(?!name|class|width|align|label)\w[\w-]*: "
            r"?)?(<!--|\(.*\)=$|%|:(name|class|width|align|label):)",
            bare,
        ):
            continue
        if bare.startswith("|"):
            yield from (
                (number, cell) for cell in re.split(r"(?<!\\)\|", bare) if cell.strip(" -:")
            )
            continue
        if not lines:
            begun = number
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


def is_text(node):
    """Tell whether a module, class or function begins with a docstring."""
    return ast.get_docstring(node, clean=False) is not None


def of_program(text, with_help):
    """Yield the texts of a program: its strings of several words, with their lines; docstrings
    only with its help.
    """
    tree = ast.parse(text)
    alone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    if with_help:
        documented = (ast.Module, ast.ClassDef, ast.FunctionDef)
        alone -= {
            id(node.body[0].value)
            for node in ast.walk(tree)
            if isinstance(node, documented) and is_text(node)
        }
    joined = {
        id(part)
        for node in ast.walk(tree)
        if isinstance(node, ast.JoinedStr)
        for part in node.values
    }
    for node in ast.walk(tree):
        if id(node) in alone or id(node) in joined:
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
