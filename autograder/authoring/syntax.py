"""What is seen in the text of an exercise's modules before they run: each fault is one line with its mend."""

import ast
from collections.abc import Iterator
from pathlib import Path

from autograder.authoring import sentences

DECLARED = {"check": "()", "families": "()", "misconception": '("function", ...)', "right": '("function")'}
"""What declares checks and listed answers, as a decorator that is called, and how."""
LISTS = ("misconceptions.py", "right_answers.py")
"""Modules of listed answers: of two with one name, only the second would count."""
CHECKS = "checks.py"


def faults(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines of a module at which something is wrong, with what it is; the module is Python."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    first: dict[str, int] = {}
    for node in tree.body:
        if not isinstance(node, ast.FunctionDef | ast.ClassDef):
            continue
        for decorator in node.decorator_list:
            name = ast.unparse(decorator)
            mend = DECLARED.get(name.rpartition(".")[2])
            if mend:
                said = f"@{name} without parentheses declares nothing; write @{name}{mend} above {node.name}."
                yield decorator.lineno, said
        if path.name in LISTS and node.name in first:
            said = f"{node.name} is defined on line {first[node.name]} too, and that one is lost; rename one of them."
            yield node.lineno, said
        first.setdefault(node.name, node.lineno)
    if path.name == CHECKS:
        yield from sentences.faults(tree)
