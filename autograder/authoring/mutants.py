"""Mutants, which test the checks: right answers changed mechanically, each of which the checks
should reject.

`python -m autograder mutants NN-name` changes the reference solution and the listed right answers
of an exercise in one place at a time, runs the checks on each mutant under three seeds, and writes
the counts where the book reads them. A mutant that passes is a gap in the checks, or behaves as the
original does. In the second case `equal.toml`, next to the exercise's text, marks it with the
reason.

    [project."The order of two sizes that are compared makes no difference."]
    'fits(a, b)' = 'fits(b, a)'

marks each mutant of `project` in which the first text became the second, in any context; `'name:
fits(a, b)'` marks only those of the answer of that name. Several texts after the change are a list.
"""

import ast
import concurrent.futures
import contextlib
import functools
import gc
import hashlib
import itertools
import json
import linecache
import os
import signal
import sys
import tomllib
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

import pebble
from rich.console import Console
from rich.progress import track

from autograder.authoring import json_entries, loader
from autograder.checking import Status
from autograder.course import cores
from autograder.course.config import ROOT, Exercise, UserError

RECORD, DETAIL = Path("book", "data", "mutants.json"), Path("_build", "mutants.json")
"""Where a course keeps the counts for its mutants, for the book to show, and where all that was
found is kept.
"""

SEEDS = (1, 2, 3)
SECONDS = 20
MOST_MEMORY = 3 << 30
MOST = 400
"""Seconds and bytes of memory for one mutant; mutants of one function (if there are more, a
fixed choice).
"""

BINARY: dict[type, list[type]] = {
    ast.Add: [ast.Sub],
    ast.Sub: [ast.Add],
    ast.Mult: [ast.Div, ast.Add],
    ast.Div: [ast.Mult, ast.FloorDiv],
    ast.MatMult: [ast.Mult],
    ast.Pow: [ast.Mult],
    ast.FloorDiv: [ast.Div],
    ast.Mod: [ast.FloorDiv],
    ast.BitAnd: [ast.BitOr],
    ast.BitOr: [ast.BitAnd],
}
COMPARISONS: dict[type, list[type]] = {
    ast.Lt: [ast.LtE, ast.GtE],
    ast.LtE: [ast.Lt, ast.Gt],
    ast.Gt: [ast.GtE, ast.LtE],
    ast.GtE: [ast.Gt, ast.Lt],
    ast.Eq: [ast.NotEq, ast.LtE, ast.GtE],
    ast.NotEq: [ast.Eq, ast.Lt, ast.Gt],
    ast.Is: [ast.IsNot],
    ast.IsNot: [ast.Is],
    ast.In: [ast.NotIn],
    ast.NotIn: [ast.In],
}
NEIGHBOURS = {
    "sum": "mean",
    "mean": "sum",
    "max": "min",
    "min": "max",
    "amax": "amin",
    "maximum": "minimum",
    "minimum": "maximum",
    "sin": "cos",
    "cos": "sin",
    "exp": "expm1",
    "log": "log2",
    "sqrt": "square",
    "tril": "triu",
    "triu": "tril",
    "zeros": "ones",
    "zeros_like": "ones_like",
    "ones": "zeros",
    "ones_like": "zeros_like",
    "any": "all",
    "all": "any",
    "argmax": "argmin",
}
Definition = ast.FunctionDef | ast.ClassDef

DROPPED = "(dropped)"
"""The replacement for a statement that is left out."""

Change = tuple[str, str]
"""A text of an answer, before and after the change."""

SAID = {ast.JoinedStr, ast.Raise}
"""Nodes that only make a message: they are not changed inside."""


@dataclass
class Mutant:
    """A right answer that was changed in one place.

    `name` is stable: the answer, and the line before and after the change. `changes` has the
    changed texts, from the smallest expression to the whole line.
    """

    subject: str
    answer: str
    name: str
    source: str
    changes: list[Change] = field(default_factory=list)

    def has(self, change: Change) -> bool:
        """Tell whether this change was made; only in one answer, if the change begins with its
        name.
        """
        before, after = change
        return (
            change in self.changes
            or (before.removeprefix(f"{self.answer}: "), after) in self.changes
        )


@dataclass
class Outcome:
    """The checks' results for a mutant.

    `first` has the check that failed first under each seed, "" where all passed. `raised` says
    whether the function raised an error there, which the student reads, `explained` whether the
    check's own sentence says how the result differs; `cause` and `relation` whether one of them was
    named. `advice` says whether only advice rejected it under some seed, so that no point was lost.
    """

    first: list[str] = field(default_factory=list)
    raised: bool = False
    explained: bool = False
    cause: bool = False
    relation: bool = False
    advice: bool = False
    ended: bool = True

    @property
    def killed(self) -> bool:
        """Whether it was rejected under every seed; a check that notices it only by chance is
        not good enough.
        """
        return all(self.first)


# Changing a syntax tree in one place.


def _negative(value: float) -> ast.expr:
    return ast.UnaryOp(ast.USub(), ast.Constant(-value)) if value < 0 else ast.Constant(value)


def _numbers(value: float) -> list[ast.expr]:
    others = (
        [value + 1, value - 1, -value, 0]
        if isinstance(value, int)
        else [0.0, 1.0, -value, 2 * value]
    )
    return [_negative(other) for other in dict.fromkeys(others) if other != value]


def _exchanged(items: list[Any]) -> list[list[Any]]:
    """Return the list with two neighbors exchanged, one pair at a time."""
    return [[*items[:i], items[i + 1], items[i], *items[i + 2 :]] for i in range(len(items) - 1)]


def _without(items: list[Any]) -> list[list[Any]]:
    return [[*items[:i], *items[i + 1 :]] for i in range(len(items))]


def _subscripts(text: str) -> list[ast.expr]:
    """Return an einsum's subscripts with two neighboring letters of a term exchanged, one pair
    at a time.
    """
    pairs = [i for i in range(len(text) - 1) if text[i].isalpha() and text[i + 1].isalpha()]
    return [ast.Constant(text[:i] + text[i + 1] + text[i] + text[i + 2 :]) for i in pairs]


def _with(node: Any, **fields: Any) -> Any:
    return type(node)(
        **{name: fields.get(name, getattr(node, name, None)) for name in node._fields}
    )


def _expressions(node: ast.expr, parameters: list[str]) -> list[ast.expr]:
    """Return the possible changes of an expression."""
    match node:
        case ast.Constant():
            return _constants(node.value)
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)):
            return _numbers(-value)
        case ast.UnaryOp():
            return [node.operand]
        case ast.BinOp():
            return _operations(node)
        case ast.BoolOp():
            other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
            fewer = [
                _with(node, values=values) if len(values) > 1 else values[0]
                for values in _without(node.values)
            ]
            return [_with(node, op=other), *fewer]
        case ast.Compare():
            return _comparisons(node)
        case ast.IfExp():
            return [node.body, node.orelse]
        case ast.Call():
            return _calls(node)
        case ast.Attribute(attr="T" | "mT", ctx=ast.Load()) | ast.Subscript(ctx=ast.Load()):
            return [node.value]
        case ast.Slice():
            return [
                _with(node, **{part: None})
                for part in ("lower", "upper", "step")
                if getattr(node, part)
            ]
        case ast.Tuple(ctx=ast.Load()) | ast.List(ctx=ast.Load()):
            return [_with(node, elts=elements) for elements in _exchanged(node.elts)]
        case ast.Name(ctx=ast.Load()) if node.id in parameters:
            return [ast.Name(other, ast.Load()) for other in parameters if other != node.id]
    return []


def _constants(value: Any) -> list[ast.expr]:
    match value:
        case bool():
            return [ast.Constant(not value)]
        case int() | float():
            return _numbers(value)
        case str() if "->" in value:
            return _subscripts(value)
    return []


def _operations(node: ast.BinOp) -> list[ast.expr]:
    others: list[ast.expr] = [_with(node, op=op()) for op in BINARY.get(type(node.op), [])]
    if not isinstance(node.op, ast.Add | ast.Mult):
        others.append(_with(node, left=node.right, right=node.left))
    return [*others, node.left, node.right]


def _comparisons(node: ast.Compare) -> list[ast.expr]:
    changed: list[ast.expr] = []
    for i, op in enumerate(node.ops):
        changed += [
            _with(node, ops=[*node.ops[:i], other(), *node.ops[i + 1 :]])
            for other in COMPARISONS[type(op)]
        ]
    return changed


def _calls(node: ast.Call) -> list[ast.expr]:
    function = node.func
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    if name in ("errstate", "super"):
        return []
    found: list[ast.expr] = [
        _with(node, args=arguments) for arguments in _without(node.args) + _exchanged(node.args)
    ]
    found += [_with(node, keywords=keywords) for keywords in _without(node.keywords)]
    if isinstance(function, ast.Attribute) and not isinstance(
        function.value, ast.Name | ast.Attribute
    ):
        found.append(function.value)
    elif node.args and not isinstance(node.args[0], ast.Starred | ast.GeneratorExp):
        found.append(node.args[0])
    elif isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name):
        found.append(function.value)
    if name in NEIGHBOURS:
        other = NEIGHBOURS[name]
        named = (
            _with(function, attr=other)
            if isinstance(function, ast.Attribute)
            else _with(function, id=other)
        )
        found.append(_with(node, func=named))
    return found


def _not(test: ast.expr) -> ast.expr:
    return ast.UnaryOp(ast.Not(), test)


def _statements(node: ast.stmt) -> list[ast.stmt]:
    """Return the possible changes of a statement, other than dropping it."""
    match node:
        case ast.If() | ast.While():
            return [_with(node, test=_not(node.test))]
        case ast.AugAssign(target=ast.Name() | ast.Subscript()):
            others = [_with(node, op=op()) for op in BINARY.get(type(node.op), [])]
            return [*others, ast.Assign([node.target], node.value)]
        case ast.For():
            return [_with(node, iter=iterated) for iterated in _shorter(node.iter)]
        case ast.Raise(exc=ast.Call(func=ast.Name())):
            return [_with(node, exc=_with(node.exc, func=ast.Name("RuntimeError", ast.Load())))]
    return []


def _shorter(iterated: ast.expr) -> list[ast.expr]:
    """Return a loop's iterable without its first item, and without its last."""
    items = ast.Call(ast.Name("list", ast.Load()), [iterated], [])
    ends = ast.Slice(ast.Constant(1), None, None), ast.Slice(None, _negative(-1), None)
    return [ast.Subscript(items, end, ast.Load()) for end in ends]


def _line(node: ast.AST) -> str:
    """Return the text of a node; of a statement its own line, without the lines of its body."""
    return ast.unparse(ast.fix_missing_locations(node)).strip().partition("\n")[0]


def _places(
    node: ast.AST, above: tuple[ast.AST, ...] = ()
) -> Iterator[tuple[ast.AST, str, int | None, ast.AST, tuple[ast.AST, ...]]]:
    """Yield (parent, field, index, child, around) for each node that may be changed, from the top.

    `around` has the nodes that hold the child, the nearest first, up to its statement; a statement
    has none.
    """
    for name, value in ast.iter_fields(node):
        if name in ("decorator_list", "args", "returns") and isinstance(node, ast.FunctionDef):
            continue
        if name in ("decorator_list", "bases", "keywords") and isinstance(node, ast.ClassDef):
            continue
        for index, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if not isinstance(child, ast.AST):
                continue
            around = () if isinstance(child, ast.stmt) else (node, *above)
            yield node, name, index, child, around
            if type(child) not in SAID:
                yield from _places(child, around)


def _negated_constant(parent: ast.AST, child: ast.AST) -> bool:
    return (
        isinstance(parent, ast.UnaryOp)
        and isinstance(parent.op, ast.USub)
        and isinstance(child, ast.Constant)
    )


def _methods(kind: ast.ClassDef) -> list[ast.FunctionDef]:
    return [part for part in kind.body if isinstance(part, ast.FunctionDef)]


def mutate(function: Definition, subject: str, answer: str) -> list[Mutant]:
    """Return all mutants of the syntax tree of a function or a class, none twice and none like the
    original.

    Parameters
    ----------
    function : ast.FunctionDef or ast.ClassDef
        Its body is left as it was.
    subject, answer : str
        The function that students write, and which right answer to it this is.
    """
    function.decorator_list = [
        decorator for decorator in function.decorator_list if ast.unparse(decorator) == "triton.jit"
    ]
    methods = [function] if isinstance(function, ast.FunctionDef) else _methods(function)
    parameters_at = dict[int, list[str]]()
    for part in {function, *methods}:
        if ast.get_docstring(part) is not None:
            part.body = part.body[1:]
    for method in methods:
        parameters = [argument.arg for argument in method.args.args if argument.arg != "self"]
        parameters_at |= dict.fromkeys(map(id, ast.walk(method)), parameters)
    seen, names, made = {ast.unparse(function)}, dict[str, int](), list[Mutant]()
    for parent, name, index, child, around in _places(function):
        changes: list[ast.AST] = []
        if isinstance(child, ast.stmt):
            changes = [*_statements(child), ast.Pass()]
        elif isinstance(child, ast.expr) and not _negated_constant(parent, child):
            changes = [*_expressions(child, parameters_at.get(id(child), []))]
        elif isinstance(child, ast.comprehension):
            changes = [_with(child, iter=iterated) for iterated in _shorter(child.iter)]
            changes += [_with(child, ifs=ifs) for ifs in _without(child.ifs)]
        before = [_line(node) for node in (child, *around)] if changes else []
        for change in changes:
            _put(parent, name, index, change)
            try:
                source = ast.unparse(ast.fix_missing_locations(function))
                _compiled(source, answer)
                after = [_line(node) for node in (change, *around)]
            except (SyntaxError, ValueError):  # such as a slice outside an index
                continue
            finally:
                _put(parent, name, index, child)
            if source in seen:
                continue
            seen.add(source)
            whose = "" if function.name in (subject, answer) else f", {function.name}"
            if isinstance(change, ast.Pass):
                after = [DROPPED]
            mutant_name = f"{answer}{whose}: {before[-1]}  ->  {after[-1]}"
            names[mutant_name] = names.get(mutant_name, 0) + 1
            mutant_name += f"  #{names[mutant_name]}" if names[mutant_name] > 1 else ""
            made.append(
                Mutant(subject, answer, mutant_name, source, list(zip(before, after, strict=True)))
            )
    return made


def _compiled(source: str, answer: str) -> CodeType:
    with warnings.catch_warnings():
        # Python warns of a number that is indexed, which is a mutant's right
        warnings.simplefilter("ignore")
        return compile(source, answer, "exec", dont_inherit=True)


def _put(parent: ast.AST, name: str, index: int | None, child: ast.AST) -> None:
    if index is None:
        setattr(parent, name, child)
    else:
        getattr(parent, name)[index] = child


# The mutants of an exercise.


def _definitions(text: str) -> dict[str, Definition]:
    return {
        node.name: node
        for node in ast.parse(text).body
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
    }


def _written(exercise: loader.Loaded, subject: str) -> list[Definition]:
    """Return what students write in the cell of a function: it, and what is next to it, such as
    its kernels.
    """
    cells = (
        _definitions(cell.source) for cell in exercise.notebook.cells if cell.cell_type == "code"
    )
    return next(list(cell.values()) for cell in cells if subject in cell)


def reference(folder: Path, changed: str = "") -> dict[str, Any]:
    """Return what an exercise's text defines and imports, without running its outputs and checks.

    `changed` is the text of a definition that takes the place of the one of its name.
    """
    tree = ast.parse((folder / f"{folder.name}.py").read_text(encoding="utf-8"))
    instead = _definitions(changed)
    kept: list[ast.stmt] = []
    for node in tree.body:
        match node:
            case ast.Import() if not any(alias.name == "checks" for alias in node.names):
                kept.append(node)
            case ast.ImportFrom() | ast.Assign(targets=[ast.Name()], value=ast.Constant()):
                kept.append(node)
            case ast.Try() if all(
                isinstance(statement, ast.Import | ast.ImportFrom) for statement in node.body
            ):
                kept.append(node)
            case ast.FunctionDef() | ast.ClassDef():
                kept.append(instead.get(node.name, node))
    text = ast.unparse(ast.Module(kept, []))
    lines = text.splitlines(keepends=True)
    # where Triton reads what a kernel does
    linecache.cache[folder.name] = (len(text), None, lines, folder.name)
    made = sys.modules[folder.name] = ModuleType(folder.name)  # where torch.compile looks names up
    exec(_compiled(text, folder.name), vars(made))  # noqa: S102 (the author's own text)
    return vars(made)


def _listed(exercise: loader.Loaded) -> dict[str, tuple[ModuleType, Definition]]:
    """Return what the modules of listed answers define, by name: the module, and the definition."""
    texts = [
        (module, Path(str(module.__file__)).read_text(encoding="utf-8"))
        for module in exercise.answers
    ]
    return {
        name: (module, node) for module, text in texts for name, node in _definitions(text).items()
    }


def mutants_of(exercise: loader.Loaded, subject: str, most: int = MOST) -> tuple[list[Mutant], int]:
    """Return the mutants of one function, at most `most`, and how many there are."""
    found = [
        mutant
        for part in _written(exercise, subject)
        for mutant in mutate(part, subject, "reference")
    ]
    listed = _listed(exercise)
    for name in dict.fromkeys(
        right.__name__ for right in exercise.suite.listed("right_for", subject)
    ):
        if name in listed:  # one that is made by a function has no text of its own
            found += mutate(listed[name][1], subject, name)
    if len(found) <= most:
        return found, len(found)
    # Those of the reference, which is what most students write, are all kept.
    chosen = sorted(found, key=lambda mutant: (mutant.answer != "reference", _drawn(mutant)))
    kept = {mutant.name for mutant in chosen[:most]}
    return [mutant for mutant in found if mutant.name in kept], len(found)


def pairs_of(exercise: loader.Loaded, subject: str, most: int) -> list[Mutant]:
    """Return mutants of our solution with a second change: at most `most`, none like a mutant.

    What is marked as equal is no mistake, and not changed once more.
    """
    marked = marks(exercise.folder).get(subject, {})
    parts = _written(exercise, subject)
    once = [mutant for part in parts for mutant in mutate(part, subject, "reference")]
    seen = {*map(ast.unparse, parts), *(mutant.source for mutant in once)}
    found: list[Mutant] = []
    for mutant in sorted(
        (mutant for mutant in once if not any(map(mutant.has, marked))), key=_drawn
    ):
        (definition,) = _definitions(mutant.source).values()
        twice = [
            other for other in mutate(definition, subject, "reference") if other.source not in seen
        ]
        if twice:
            other = min(twice, key=_drawn)
            found.append(replace(other, name=f"{mutant.name}  and  {other.name}"))
            seen.add(other.source)
        if len(found) == most:
            break
    return found


def _drawn(mutant: Mutant) -> bytes:
    return hashlib.sha256(mutant.name.encode()).digest()


@functools.cache
def _loaded(folder: Path) -> loader.Loaded:
    exercise = loader.load(folder)
    reference(folder)  # what it imports is there before the first is timed
    return exercise


def _begin(folder: Path) -> None:
    """Prepare a worker: load the exercise, limit the memory, print nothing."""
    with contextlib.suppress(ImportError, ValueError):  # there is no such bound on Windows
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (MOST_MEMORY, MOST_MEMORY))
    os.environ.setdefault("MPLBACKEND", "Agg")
    _loaded(folder)
    gc.collect()
    gc.freeze()  # what stays is not looked through again after each mutant
    sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115 (as long as the process lives)


def examine(folder: Path, mutant: Mutant, seeds: tuple[int, ...] = SEEDS) -> Outcome:
    """Run the exercise's checks on a mutant, and return the outcome."""
    exercise = _loaded(folder)
    # ends this process: by its own time, because a busy machine is no endless loop
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
    # A right answer sees the helpers of its own module; the reference those of the notebook.
    if mutant.answer == "reference":
        subject = reference(folder, mutant.source)[mutant.subject]
    else:
        around = dict(vars(_listed(exercise)[mutant.answer][0]))
        exec(_compiled(mutant.source, mutant.answer), around)  # noqa: S102 (made here)
        subject = around[mutant.answer]
    outcome = Outcome()
    for number, seed in enumerate(seeds):
        # To look for a cause takes most of the time of a wrong answer.
        report = exercise.suite.examine(mutant.subject, subject, 1.0, seed, diagnosis=number == 0)
        failed = [result for result in report.results if result.status.costs_points]
        advice = [result for result in report.results if result.status == Status.ADVICE]
        if advice and not failed:
            known = _not_taken(folder, mutant.subject, mutant.answer, seed)
            failed = [result for result in advice if result.name not in known]
            outcome.advice |= bool(failed)
        outcome.first.append(failed[0].name if failed else "")
        if number == 0 and failed:
            outcome.raised, outcome.explained = failed[0].raised, failed[0].explained
            outcome.cause = any(result.cause for result in failed)
            outcome.relation = any(getattr(result, "relation", None) for result in failed)
    # one that filled the memory must not leave it full: the next would be rejected for that
    gc.collect()
    return outcome


@functools.cache
def _not_taken(folder: Path, subject: str, answer: str, seed: int) -> set[str]:
    """Return the checks whose advice the original of a mutant does not follow."""
    exercise = _loaded(folder)
    original = (
        reference(folder)[subject]
        if answer == "reference"
        else vars(_listed(exercise)[answer][0])[answer]
    )
    report = exercise.suite.examine(subject, original, seed=seed, diagnosis=False)
    return {result.name for result in report.results if result.status == Status.ADVICE}


def examined(
    folder: Path, mutants: list[Mutant], workers: int | None = None, seconds: float = 30 * SECONDS
) -> list[Outcome]:
    """Run the checks on mutants in a pool of processes; one that does not finish in time counts
    as killed.
    """
    outcomes = []
    with pebble.ProcessPool(
        workers or cores.count(), initializer=_begin, initargs=[folder]
    ) as pool:
        waiting = [
            pool.schedule(examine, args=[folder, mutant], timeout=seconds) for mutant in mutants
        ]
        for future in track(waiting, folder.name, console=Console(stderr=True), transient=True):
            try:
                outcomes.append(future.result())
            except (concurrent.futures.TimeoutError, pebble.ProcessExpired, MemoryError):
                outcomes.append(Outcome(["does not finish"] * len(SEEDS), ended=False))
    return outcomes


# What is written down.


def marks(folder: Path) -> dict[str, dict[Change, str]]:
    """Return what `equal.toml` marks as equal to the original, for each function: the changes
    and the reason.
    """
    path, found = folder / "equal.toml", dict[str, dict[Change, str]]()
    named = Path(*path.parts[-3:]).as_posix()
    try:
        marked = tomllib.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{named} is not TOML: {error}.") from None
    for function, reasons in marked.items():
        own = found.setdefault(function, {})
        try:
            for reason, changes in reasons.items():
                for before, after in changes.items():
                    own |= {
                        (before, one): reason
                        for one in ([after] if isinstance(after, str) else after)
                    }
        except (AttributeError, TypeError):
            said = f"{function} should have reasons, each with its changes"
            raise UserError(
                f"{named}: {said}; write [{function}.\"why\"] above 'old' = 'new'."
            ) from None
    return found


@dataclass
class Row:
    """The results for the mutants of one function.

    `told` counts the killed mutants whose author gets an explanation: their own error, a cause, a
    relation, or a sentence on how the result differs from the expected one, such as in its shape.
    `advice` counts those that only advice distinguished from their original, under some seed. Of
    those that the checks did not reject under every seed, `equal` counts the marked ones, and
    `survived` names the others.
    """

    made: int
    examined: int
    killed: int
    raised: int
    cause: int
    relation: int
    told: int
    advice: int
    endless: int
    equal: int
    survived: list[str]
    by: dict[str, int]


SHOWN = (
    "made",
    "examined",
    "killed",
    "cause",
    "relation",
    "told",
    "advice",
    "endless",
    "equal",
    "survived",
)
"""The parts of a `Row` that the book and the tests need."""


def summed(
    mutants: list[Mutant], outcomes: list[Outcome], made: int, marked: Iterable[Change] = ()
) -> Row:
    """Count the results for a function's mutants; `marked` are the changes in `equal.toml`."""
    dead = [outcome for outcome in outcomes if outcome.killed]
    passed = [
        mutant for mutant, outcome in zip(mutants, outcomes, strict=True) if not outcome.killed
    ]
    survived = [mutant.name for mutant in passed if not any(map(mutant.has, marked))]
    by: dict[str, int] = {}
    for outcome in dead:
        by[outcome.first[0]] = by.get(outcome.first[0], 0) + 1
    return Row(
        made=made,
        examined=len(mutants),
        killed=len(dead),
        raised=sum(outcome.raised for outcome in dead),
        cause=sum(outcome.cause for outcome in dead),
        relation=sum(outcome.relation and not outcome.cause for outcome in dead),
        told=sum(outcome.explained or outcome.cause or outcome.relation for outcome in dead),
        advice=sum(outcome.advice for outcome in dead),
        endless=sum(not outcome.ended for outcome in dead),
        equal=len(passed) - len(survived),
        survived=survived,
        by=dict(sorted(by.items())),
    )


def misfits(marked: Iterable[Change], mutants: list[Mutant], rejected: list[Mutant]) -> list[str]:
    """Return the wrong marks of a function, a line each: they fit no mutant, or one that is
    rejected.
    """
    found = []
    for change in marked:
        wrong = [mutant.name for mutant in rejected if mutant.has(change)]
        if wrong or not any(mutant.has(change) for mutant in mutants):
            what = f"rejected in {wrong[0]}" if wrong else "fits no mutant"
            found.append(f"{change[0]}  ->  {change[1]}: marked in equal.toml, but {what}")
    return found


def as_marks(survived: list[Mutant], rejected: list[Mutant]) -> list[str]:
    """Return lines for `equal.toml` that mark these mutants, and none that is rejected."""
    lines = []
    for mutant in survived:
        whole = mutant.changes[-1]
        alone = f"{mutant.answer}: {whole[0]}", whole[1]
        fit = (
            change for change in mutant.changes if not any(other.has(change) for other in rejected)
        )
        lines.append(" = ".join(map(_quoted, next(fit, alone))))
    return list(dict.fromkeys(lines))


def _quoted(text: str) -> str:
    """Return a text as TOML writes it."""
    return json.dumps(text, ensure_ascii=False) if "'" in text else f"'{text}'"


def recorded(root: Path = ROOT) -> dict[str, dict[str, Any]]:
    """Return a course's recorded results: for each exercise and each function, its `Row`'s
    `SHOWN`.
    """
    return _read(root / RECORD)


def _read(path: Path) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = (
        json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    )
    return found


def record(root: Path, name: str, rows: dict[str, Row], functions: list[str]) -> None:
    """Record the results for an exercise's mutants; those of other functions and exercises stay."""
    for file in (RECORD, DETAIL):
        before = _read(root / file)
        kept = {
            subject: row for subject, row in before.get(name, {}).items() if subject in functions
        }
        for subject, row in rows.items():
            whole = asdict(row)
            kept[subject] = {key: whole[key] for key in (SHOWN if file == RECORD else whole)}
        json_entries.write(root / file, before | {name: kept})


@dataclass
class Findings:
    """The results for an exercise's mutants.

    `rows` has the counts for each function; `misfits` the marks that do not fit, a line each;
    `unmarked` the lines for `equal.toml`, for each function with survivors.
    """

    rows: dict[str, Row]
    misfits: list[str]
    unmarked: dict[str, list[str]]


def look_at(exercise: Exercise, function: str = "", workers: int | None = None) -> Findings:
    """Run the checks on the mutants of an exercise, or of one of its functions, and record the
    results.

    Raises
    ------
    UserError
        If it has no such function.
    """
    folder = exercise.solution
    loaded, marked = loader.load(folder), marks(folder)
    subjects = [subject for subject in loaded.programs if function in ("", subject)]
    if not subjects:
        raise UserError(
            f"{exercise.name} has no function {function!r}. It has: {', '.join(loaded.programs)}."
        )
    chosen = {subject: mutants_of(loaded, subject) for subject in subjects}
    every = [mutant for mutants, _made in chosen.values() for mutant in mutants]
    outcomes = iter(examined(folder, every, workers))
    strange = [
        f"{own}: marked in equal.toml, but not a function"
        for own in marked
        if own not in loaded.programs
    ]
    found = Findings({}, strange, {})
    for subject, (mutants, made) in chosen.items():
        own, became = marked.get(subject, {}), list(itertools.islice(outcomes, len(mutants)))
        row = found.rows[subject] = summed(mutants, became, made, own)
        rejected = [
            mutant for mutant, outcome in zip(mutants, became, strict=True) if outcome.killed
        ]
        found.misfits += [f"{subject}: {line}" for line in misfits(own, mutants, rejected)]
        if row.survived:
            survived = [mutant for mutant in mutants if mutant.name in row.survived]
            found.unmarked[subject] = as_marks(survived, rejected)
    record(exercise.root, exercise.name, found.rows, loaded.programs)
    return found
