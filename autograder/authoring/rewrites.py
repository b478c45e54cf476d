"""Rewrites, which test the checks from the other side: right answers written otherwise, which may
lose no points.

Our solution and the listed right answers are written anew by machine: matrix products as `einsum`,
as products and sums or in a loop, functions for methods, sums in another order, other names;
arguments and results lie in memory in other ways, or are float64 inside. Several of these are put
together, up to a number for each function. Each keeps the meaning up to rounding: one that loses
points shows a check that asks for a way of writing.
"""

import ast
import copy
import functools
import inspect
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from autograder.authoring import answer_trials, loader, mutants

MOST = 100
"""The maximal number of rewrites of one function."""

Wrapper = Callable[[Callable[..., Any]], Callable[..., Any]]

# What rewritten answers call in place of an operator.


def _fit(a: Any, b: Any) -> bool:
    """Tell whether two operands of `@` are stacks of matrices; raise as `@` does if they do not
    fit.
    """
    if min(getattr(a, "ndim", 0), getattr(b, "ndim", 0)) < 2:
        return False
    if a.shape[-1] != b.shape[-2] or not a.shape[-1]:
        a @ b
        return False
    return True


def as_einsum(a: Any, b: Any) -> Any:
    """Return `a @ b`."""
    return _library(a).einsum("...ij,...jk->...ik", a, b) if _fit(a, b) else a @ b


def as_sum(a: Any, b: Any) -> Any:
    """Return `a @ b`."""
    return (a[..., :, :, None] * b[..., None, :, :]).sum(-2) if _fit(a, b) else a @ b


def as_loop(a: Any, b: Any) -> Any:
    """Return `a @ b`."""
    if not _fit(a, b) or a.ndim != b.ndim or a.ndim < 3 or len(a) != len(b) or not len(a):
        return a @ b
    return _library(a).stack([first @ second for first, second in zip(a, b, strict=True)])


def exchanged(a: Any, b: Any) -> Any:
    """Return `a + b`."""
    return b + a if _is_array(a) or _is_array(b) or isinstance(a, (int, float)) else a + b


def negated(a: Any, b: Any) -> Any:
    """Return `a - b`."""
    return (
        a + -b
        if _is_array(b) and "bool" not in str(b.dtype) and "uint" not in str(b.dtype)
        else a - b
    )


def _is_array(value: Any) -> bool:
    return isinstance(value, np.ndarray) or hasattr(type(value), "detach")


def _library(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return np
    import torch

    return torch


HELPERS = {helper.__name__: helper for helper in (as_einsum, as_sum, as_loop, exchanged, negated)}

# Writing a text anew.


class _Operator(ast.NodeTransformer):
    """Replaces an operator by the call of a helper."""

    def __init__(self, operator: type[ast.operator], helper: str):
        self.operator, self.helper = operator, helper

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        """Change one operation."""
        self.generic_visit(node)
        if not isinstance(node.op, self.operator):
            return node
        return ast.Call(ast.Name(self.helper, ast.Load()), [node.left, node.right], [])


class _Factors(ast.NodeTransformer):
    """Exchanges the factors of each product."""

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        """Change one product."""
        self.generic_visit(node)
        return ast.BinOp(node.right, node.op, node.left) if isinstance(node.op, ast.Mult) else node


class _Functions(ast.NodeTransformer):
    """Writes `np.sum(x, ...)` for `x.sum(...)`, and the same for other methods."""

    METHODS = ("sum", "max", "min", "mean", "any", "all", "swapaxes", "reshape")

    def visit_Call(self, node: ast.Call) -> ast.expr:
        """Change one call."""
        self.generic_visit(node)
        function = node.func
        if not isinstance(function, ast.Attribute) or function.attr not in self.METHODS:
            return node
        if isinstance(function.value, ast.Name) and function.value.id in ("np", "math", "torch"):
            return node
        if function.attr == "reshape" and len(node.args) != 1:
            return node
        name = ast.Attribute(ast.Name("np", ast.Load()), function.attr, ast.Load())
        return ast.Call(name, [function.value, *node.args], node.keywords)


class _Results(ast.NodeTransformer):
    """Assigns the returned value to a name first."""

    def visit_Return(self, node: ast.Return) -> Any:
        """Change one return."""
        if node.value is None:
            return node
        name = ast.Name("what_comes_out", ast.Store())
        return [ast.Assign([name], node.value), ast.Return(ast.Name(name.id, ast.Load()))]


class _Names(ast.NodeTransformer):
    """Renames the local names of a function, except its parameters."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        """Change one function; names that it shares with nested functions stay."""
        nodes = list(ast.walk(node))
        inner = [part for part in nodes if isinstance(part, (ast.FunctionDef, ast.Lambda))]
        if inner != [node]:
            return node
        unchanged = {
            argument.arg for argument in ast.walk(node.args) if isinstance(argument, ast.arg)
        }
        unchanged |= {
            name
            for part in nodes
            if isinstance(part, (ast.Global, ast.Nonlocal))
            for name in part.names
        }
        names = [part for part in nodes if isinstance(part, ast.Name)]
        local = {name.id for name in names if isinstance(name.ctx, ast.Store)} - unchanged
        for name in names:
            if name.id in local:
                name.id += "_of_mine"
        return node


TEXTS: dict[str, ast.NodeTransformer] = {
    "products by einsum": _Operator(ast.MatMult, "as_einsum"),
    "products as sums": _Operator(ast.MatMult, "as_sum"),
    "products in a loop": _Operator(ast.MatMult, "as_loop"),
    "sums exchanged": _Operator(ast.Add, "exchanged"),
    "negatives added": _Operator(ast.Sub, "negated"),
    "factors exchanged": _Factors(),
    "results named": _Results(),
    "other names": _Names(),
}
OF_NUMPY: dict[str, ast.NodeTransformer] = {"functions for methods": _Functions()}
"""What a text of NumPy's alone can be written as."""

# Wrappers around an answer.


def _around(
    change: Callable[[Any], Any], back: Callable[[Any, Any], Any] = lambda result, first: result
) -> Wrapper:
    """Return the wrapper that changes each array among the arguments, and gives `back` the
    result and the first.
    """

    def wrapped(function: Callable[..., Any]) -> Callable[..., Any]:
        def changed(*arguments: Any, **named: Any) -> Any:
            changed_arguments = [_changed(value, change) for value in arguments]
            changed_named = {name: _changed(value, change) for name, value in named.items()}
            arrays = filter(_is_array, (*arguments, *named.values()))
            first = next(filter(_is_floating, arrays), None)
            return back(function(*changed_arguments, **changed_named), first)

        return changed

    return wrapped


def _each(change: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
    """Return what changes a result that is an array, or each of several."""

    def back(result: Any, first: Any) -> Any:
        if isinstance(result, (tuple, list)):
            return type(result)(_changed(value, change) for value in result)
        return _changed(result, change)

    return back


def _changed(value: Any, change: Callable[[Any], Any]) -> Any:
    """Return a value, changed if it is an array."""
    return change(value) if _is_array(value) else value


def _turned(array: Any) -> Any:
    """Return the same numbers, stored in memory with the last two axes exchanged."""
    if array.ndim < 2:
        return array
    if isinstance(array, np.ndarray):
        return np.swapaxes(np.swapaxes(array, -1, -2).copy(), -1, -2)
    return array.transpose(-1, -2).contiguous().transpose(-1, -2)


def _copied(array: Any) -> Any:
    return array.copy() if isinstance(array, np.ndarray) else array.clone()


def _is_floating(array: Any) -> bool:
    return "float" in str(array.dtype)


def _wide(array: Any) -> Any:
    if not _is_floating(array):
        return array
    return array.astype(np.float64) if isinstance(array, np.ndarray) else array.double()


def _narrowed(result: Any, first: Any) -> Any:
    if first is None:
        return result

    def narrow(array: Any) -> Any:
        if type(array) is not type(first) or not _is_floating(array):
            return array
        return array.astype(first.dtype) if isinstance(array, np.ndarray) else array.to(first.dtype)

    return _each(narrow)(result, first)


def _by_sequence(function: Callable[..., Any]) -> Callable[..., Any]:
    """Call the function for one sequence after another, if all arguments are stacks of equal
    length.
    """

    @functools.wraps(function)
    def one_by_one(*arguments: Any) -> Any:
        shapes = [array.shape for array in arguments if _is_array(array)]
        all_arrays = shapes and len(shapes) == len(arguments)
        same_stack = all_arrays and len({shape[:-2] for shape in shapes}) == 1
        if not same_stack or len(shapes[0]) < 3 or not shapes[0][0]:
            return function(*arguments)
        results = [function(*sequence) for sequence in zip(*arguments, strict=True)]
        stack = _library(arguments[0]).stack
        if not isinstance(results[0], (tuple, list)):
            return stack(results)
        return tuple(stack(list(parts)) for parts in zip(*results, strict=True))

    return one_by_one


AROUND: dict[str, Wrapper] = {
    "arguments turned in memory": _around(_turned),
    "arguments copied": _around(_copied),
    "arguments as views": _around(lambda array: array[...]),
    "results turned in memory": _around(lambda array: array, _each(_turned)),
    "results as views": _around(lambda array: array, _each(lambda array: array[...])),
}
OF_FUNCTIONS: dict[str, Wrapper] = {
    "float64 inside": _around(_wide, _narrowed),
}
"""Wrappers for a function, but not for a module's `forward`, whose parameters have their dtype."""
APART = {"products as sums", "float64 inside"}
"""Each is right alone; together they use more memory than exercises allow that measure it."""
OF_STACKS: dict[str, Wrapper] = {"one sequence after another": _by_sequence}
"""Wrappers for a function of NumPy arrays that keeps leading dimensions."""


@dataclass(frozen=True)
class Rewrite:
    """A right answer written differently: its function, the original answer, and the changes."""

    subject: str
    answer: str
    changes: tuple[str, ...]

    @property
    def name(self) -> str:
        """The answer and its changes."""
        return f"{self.answer}: {', '.join(self.changes)}"


class Rewriter:
    """Rewrites the right answers of an exercise.

    Parameters
    ----------
    exercise : Loaded
    """

    def __init__(self, exercise: loader.Loaded):
        self.exercise = exercise
        self.listed = mutants.listed_definitions(exercise)
        text = (exercise.folder / f"{exercise.folder.name}.py").read_text(encoding="utf-8")
        self.texts = TEXTS if "import torch" in text else TEXTS | OF_NUMPY

    def rewrites(self, subject: str, most: int = MOST) -> list[Rewrite]:
        """Return rewrites of one function: each change of each answer alone, then several,
        always the same.
        """
        names = dict.fromkeys(
            right.__name__ for right in self.exercise.suite.listed("right_for", subject)
        )
        singles = {
            name: self._possible(subject, name)
            for name in ["reference", *names]
            if name in {"reference", *self.listed}
        }
        every = [
            Rewrite(subject, name, (change,))
            for name, changes in singles.items()
            for change in changes
        ]
        chosen = every[:most]
        rng = random.Random(f"{self.exercise.folder.name} {subject}")  # noqa: S311 (always the same)
        known = set(chosen)
        for _ in range(20 * most):
            if len(chosen) >= most:
                break
            name = rng.choice(list(singles))
            possible = singles[name]
            number = min(len(possible), rng.choice([2, 2, 3, 4]))
            changes = sorted(rng.sample(possible, number), key=possible.index)
            rewrite = Rewrite(subject, name, tuple(changes))
            if rewrite not in known and not set(changes) >= APART:
                known.add(rewrite)
                chosen.append(rewrite)
        return chosen

    def build(self, rewrite: Rewrite) -> Any:
        """Return the function or the class of a rewrite."""
        tree: Any = self._definition(rewrite.subject, rewrite.answer)
        for change in rewrite.changes:
            if change in self.texts:
                tree = self.texts[change].visit(tree)
        source = ast.unparse(ast.fix_missing_locations(tree))
        if rewrite.answer == "reference":
            names = mutants.reference(self.exercise.folder)
        else:
            names = dict(vars(self.listed[rewrite.answer][0]))
        names |= HELPERS
        exec(compile(source, rewrite.answer, "exec"), names)  # noqa: S102 (made here)
        subject = names[tree.name]
        for change in rewrite.changes:
            wrapper = (AROUND | OF_FUNCTIONS | OF_STACKS).get(change)
            subject = _wrapped(subject, wrapper) if wrapper else subject
        return subject

    def _definition(self, subject: str, answer: str) -> mutants.Definition:
        """Return a copy of the syntax tree of a right answer, without its decorators."""
        if answer == "reference":
            definitions = mutants.cell_definitions(self.exercise, subject)
            node = next(part for part in definitions if part.name == subject)
        else:
            node = self.listed[answer][1]
        node = copy.deepcopy(node)
        node.decorator_list = []
        return node

    def _possible(self, subject: str, answer: str) -> list[str]:
        """Return the possible changes to the text of an answer, and the possible wrappers."""
        node = self._definition(subject, answer)
        before = ast.unparse(node)
        possible = []
        for name, change in (TEXTS if "torch" in before else self.texts).items():
            changed = change.visit(self._definition(subject, answer))
            if ast.unparse(ast.fix_missing_locations(changed)) != before:
                possible.append(name)
        possible += AROUND
        if isinstance(node, ast.FunctionDef):
            possible += OF_FUNCTIONS
            if self.texts is not TEXTS:
                possible += OF_STACKS
        return possible


def _wrapped(subject: Any, wrapper: Wrapper) -> Any:
    """Return a function with a wrapper around it, or a class with one around its `forward`."""
    if not isinstance(subject, type):
        return wrapper(subject)
    if not hasattr(subject, "forward"):
        return subject
    forward = inspect.getattr_static(subject, "forward")

    def wrapped(self: Any, *arguments: Any, **named: Any) -> Any:
        return wrapper(functools.partial(forward, self))(*arguments, **named)

    return type(
        subject.__name__, (subject,), {"forward": wrapped, "__module__": subject.__module__}
    )


def try_rewrites(
    exercise: loader.Loaded, subject: str, most: int = MOST, seed: int = 1
) -> Iterator[tuple[Rewrite, str]]:
    """Yield each rewrite of a function, and in words the first check in which it lost points; ""
    if there is none.
    """
    rewriter = Rewriter(exercise)
    for rewrite in rewriter.rewrites(subject, most):
        report = exercise.suite.examine(
            subject, rewriter.build(rewrite), seed=seed, diagnosis=False
        )
        yield rewrite, answer_trials.lost(report)
