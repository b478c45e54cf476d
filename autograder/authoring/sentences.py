"""The sentences of checks, as found in the syntax tree: each can be looked up in a catalog, and
has its values.
"""

import ast
import re
from collections.abc import Iterator

from autograder.checking import words

COUNTED = "counted"
TRANSLATED = ("Message", "translated", "_", "lead", "joined", COUNTED)
"""Functions whose first argument is a text of feedback; `counted` takes two."""
CALLS = (*TRANSLATED, "Failed", "failed")
"""Functions whose arguments are sentences, like all those that begin with `expect`."""
NAMED = ("what", "because", "message")
"""The keyword arguments that are sentences, in all calls."""
MADE = ("Message", COUNTED)
"""Functions that take a template and its values."""

_WORD = re.compile(r"\b[^\W\d_]{2,}\b")  # and no part of a name such as d_model
_NO_WORDS = re.compile(r"\$.*?\$|`[^`]*`|\{\}", re.DOTALL)


def faults(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the lines on which a sentence is an f-string, or lacks a value, with the problem and
    the fix.
    """
    problems: dict[int, str] = {}
    for scope in _scopes(tree):
        inside = list(_inside(scope))
        written: dict[str, list[ast.expr]] = {}
        for node in inside:
            for name, value in _assigned(node):
                written.setdefault(name, []).append(value)
        for call in [node for node in inside if isinstance(node, ast.Call)]:
            arguments = _sentence_arguments(call)
            texts = [text for argument in arguments for text in _texts(argument, written)]
            for text in filter(_is_sentence, texts):
                problems[text.lineno] = (
                    "an f-string cannot be translated; write a Message with its values: "
                    'Message("d_k is {left}", left=left).'
                )
            if lacks := _lacking(call):
                problems[call.lineno] = (
                    f"this message has no value for {{{lacks[0]}}}; add the argument {lacks[0]}=..."
                )
    yield from sorted(problems.items())


def _scopes(tree: ast.Module) -> Iterator[ast.AST]:
    yield tree
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield node


def _inside(scope: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a function itself, but not those of functions inside it."""
    for part in ast.iter_child_nodes(scope):
        if not isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield part
            yield from _inside(part)


def _assigned(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """Yield each name that a statement assigns, with the value."""
    if isinstance(node, ast.Assign):
        for target in node.targets:
            pairs = [(target, node.value)]
            if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                pairs = list(zip(target.elts, node.value.elts, strict=False))
            yield from [(ast.unparse(target_part), value) for target_part, value in pairs]
    elif isinstance(node, ast.AnnAssign | ast.AugAssign | ast.NamedExpr) and node.value is not None:
        yield ast.unparse(node.target), node.value


def _sentence_arguments(call: ast.Call) -> Iterator[ast.expr]:
    """Yield the arguments of a call that are sentences."""
    name = ast.unparse(call.func).rpartition(".")[2]
    if name in CALLS or name.startswith("expect"):
        yield from call.args
        yield from [word.value for word in call.keywords if word.arg]
    else:
        yield from [word.value for word in call.keywords if word.arg in NAMED]


def _texts(
    argument: ast.expr, written: dict[str, list[ast.expr]], deep: int = 3
) -> Iterator[ast.JoinedStr]:
    """Yield the f-strings that an argument may be, following names that are assigned in the same
    function.
    """
    if isinstance(argument, ast.JoinedStr):
        yield argument
    elif isinstance(argument, ast.Name | ast.Attribute):
        for value in written.get(ast.unparse(argument), []) if deep else []:
            yield from _texts(value, written, deep - 1)
    elif isinstance(
        argument,
        ast.IfExp | ast.BoolOp | ast.BinOp | ast.List | ast.Tuple | ast.NamedExpr | ast.Starred,
    ):
        for part in ast.iter_child_nodes(argument):
            if isinstance(part, ast.expr):
                yield from _texts(part, written, deep)


def _is_sentence(text: ast.JoinedStr) -> bool:
    """Tell whether an f-string has two words or more that are not a value, code or a formula."""
    parts = [str(part.value) if isinstance(part, ast.Constant) else "{}" for part in text.values]
    return len(_WORD.findall(_NO_WORDS.sub(" ", "".join(parts)))) >= 2


def _lacking(call: ast.Call) -> list[str]:
    """Return the names in braces for which a call that makes a message visibly gives no value."""
    name = ast.unparse(call.func).rpartition(".")[2]
    if name not in MADE or any(word.arg is None for word in call.keywords):
        return []
    templates = [
        argument.value
        for argument in call.args[:2]
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
    ]
    values = {word.arg for word in call.keywords} | ({"count"} if name == COUNTED else set())
    return [name for text in templates for name in words.names_in(text) if name not in values]
