"""Faults in the text of an exercise's modules, found before they run: one line each, with the
fix.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

from autograder.authoring import sentences

DECLARED = {
    "check": "()",
    "families": "()",
    "misconception": '("function", ...)',
    "right": '("function")',
}
"""The decorators that declare checks and listed answers, which have to be called, and how."""
LISTS = ("misconceptions.py", "right_answers.py")
"""Modules of listed answers: of two with the same name, only the second would count."""
CHECKS = "checks.py"


def faults(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the faulty lines of a module, which is valid Python, with what is wrong."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    first: dict[str, int] = {}
    for node in tree.body:
        if not isinstance(node, ast.FunctionDef | ast.ClassDef):
            continue
        for decorator in node.decorator_list:
            name = ast.unparse(decorator)
            call = DECLARED.get(name.rpartition(".")[2])
            if call:
                problem = (
                    f"@{name} without parentheses declares nothing; write @{name}{call} above "
                    f"{node.name}."
                )
                yield decorator.lineno, problem
        if path.name in LISTS and node.name in first:
            problem = (
                f"{node.name} replaces the one on line {first[node.name]}, which is lost; "
                "rename one of them."
            )
            yield node.lineno, problem
        first.setdefault(node.name, node.lineno)
    if path.name == CHECKS:
        yield from sentences.faults(tree)
