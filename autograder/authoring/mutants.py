"""Mutants, which test the checks: right answers changed mechanically, each of which the checks
should reject.

`python -m autograder mutants NN-name` changes the reference solution and the listed right answers
of an exercise in one place at a time, runs the checks on each mutant under three seeds, and writes
the counts where the book reads them. A mutant that passes is a gap in the checks, or behaves as the
original does. The record has the number of those for each function, which an author looked at and
accepted. It may only fall: the command fails if more pass, and then records nothing for that
function.
"""

import ast
import concurrent.futures
import contextlib
import functools
import gc
import hashlib
import json
import linecache
import os
import signal
import sys
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

import pebble
from rich.console import Console
from rich.progress import track

from autograder.authoring import json_entries, loader
from autograder.checking import Result, Status, machine
from autograder.course import cores
from autograder.course.config import ROOT, Exercise, UserError

RECORD, DETAIL = Path("book", "data", "mutants.json"), Path("_build", "mutants.json")
"""Where a course records the counts for its mutants, for the book to show, and where everything
else about them is written.
"""

SEEDS = (1, 2, 3)
SECONDS = 20
MOST_MEMORY = 3 << 30
MOST = 400
"""Seconds and bytes of memory for one mutant; mutants of one function (if there are more, a
fixed choice).
"""

SAMPLE = 6
"""At least how many mutants of a function the tests try; they try at most twice as many."""

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
COUNTERPARTS = {
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

NO_RESULT = "(no result)"
"""In place of a check's name, where none failed, but one had no result although the machine has
what it needs: the course's own answer failed as well.
"""

MESSAGES = {ast.JoinedStr, ast.Raise}
"""Nodes that only make a message: they are not changed inside."""


@dataclass
class Mutant:
    """A right answer that was changed in one place.

    `name` is stable: the answer, and the line before and after the change.
    """

    subject: str
    answer: str
    name: str
    source: str


@dataclass
class Outcome:
    """The checks' results for a mutant.

    `first` has the check that failed first under each seed, "" where all passed, `NO_RESULT` where
    that is unknown. `raised` says
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
        return all(self.first) and NO_RESULT not in self.first

    @property
    def survived(self) -> bool:
        """Whether all checks passed under some seed."""
        return "" in self.first


# Changing a syntax tree in one place.


def _negative(value: float) -> ast.expr:
    return ast.UnaryOp(ast.USub(), ast.Constant(-value)) if value < 0 else ast.Constant(value)


def _numbers(value: float) -> list[ast.expr]:
    others: list[float]
    if isinstance(value, int):
        others = [value + 1, value - 1, -value, 0]
    else:
        others = [0.0, 1.0, -value, 2 * value]
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
    changed: list[ast.expr] = [
        _with(node, args=arguments) for arguments in _without(node.args) + _exchanged(node.args)
    ]
    changed += [_with(node, keywords=keywords) for keywords in _without(node.keywords)]
    if isinstance(function, ast.Attribute) and not isinstance(
        function.value, ast.Name | ast.Attribute
    ):
        changed.append(function.value)
    elif node.args and not isinstance(node.args[0], ast.Starred | ast.GeneratorExp):
        changed.append(node.args[0])
    elif isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name):
        changed.append(function.value)
    if name in COUNTERPARTS:
        part = "attr" if isinstance(function, ast.Attribute) else "id"
        other = _with(function, **{part: COUNTERPARTS[name]})
        changed.append(_with(node, func=other))
    return changed


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


def _nodes(
    parent: ast.AST, statement: ast.AST
) -> Iterator[tuple[ast.AST, str, int | None, ast.AST, ast.AST]]:
    """Yield (parent, field name, index, child, statement) for each node that may be changed, from
    the top.

    `statement` is the statement that contains the child, or the child itself if it is one.
    """
    for field_name, value in ast.iter_fields(parent):
        if field_name in ("decorator_list", "args", "returns") and isinstance(
            parent, ast.FunctionDef
        ):
            continue
        if field_name in ("decorator_list", "bases", "keywords") and isinstance(
            parent, ast.ClassDef
        ):
            continue
        for index, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if not isinstance(child, ast.AST):
                continue
            within = child if isinstance(child, ast.stmt) else statement
            yield parent, field_name, index, child, within
            if type(child) not in MESSAGES:
                yield from _nodes(child, within)


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
        Loses its docstrings, and all decorators but `triton.jit`; otherwise left as it was.
    subject, answer : str
        The function that students write, and which right answer to it this is.
    """
    function.decorator_list = [
        decorator for decorator in function.decorator_list if ast.unparse(decorator) == "triton.jit"
    ]
    functions = [function] if isinstance(function, ast.FunctionDef) else _methods(function)
    parameters_at = dict[int, list[str]]()
    for part in {function, *functions}:
        if ast.get_docstring(part) is not None:
            part.body = part.body[1:]
    for each in functions:
        parameters = [argument.arg for argument in each.args.args if argument.arg != "self"]
        parameters_at |= dict.fromkeys(map(id, ast.walk(each)), parameters)
    seen = {ast.unparse(function)}
    counts_by_name: dict[str, int] = {}
    mutants: list[Mutant] = []
    for parent, field_name, index, child, statement in _nodes(function, statement=function):
        changes: list[ast.AST] = []
        if isinstance(child, ast.stmt):
            changes = [*_statements(child), ast.Pass()]
        elif isinstance(child, ast.expr) and not _negated_constant(parent, child):
            changes = [*_expressions(child, parameters_at.get(id(child), []))]
        elif isinstance(child, ast.comprehension):
            changes = [_with(child, iter=iterated) for iterated in _shorter(child.iter)]
            changes += [_with(child, ifs=ifs) for ifs in _without(child.ifs)]
        before = _line(statement)
        for change in changes:
            _put(parent, field_name, index, change)
            try:
                source = ast.unparse(ast.fix_missing_locations(function))
                _compiled(source, answer)
                after = _line(change if child is statement else statement)
            except (SyntaxError, ValueError):  # such as a slice outside an index
                continue
            finally:
                _put(parent, field_name, index, child)
            if source in seen:
                continue
            seen.add(source)
            of_helper = "" if function.name in (subject, answer) else f", {function.name}"
            if isinstance(change, ast.Pass):
                after = DROPPED
            mutant_name = f"{answer}{of_helper}: {before}  ->  {after}"
            counts_by_name[mutant_name] = counts_by_name.get(mutant_name, 0) + 1
            if counts_by_name[mutant_name] > 1:
                mutant_name += f"  #{counts_by_name[mutant_name]}"
            mutants.append(Mutant(subject, answer, mutant_name, source))
    return mutants


def _compiled(source: str, answer: str) -> CodeType:
    with warnings.catch_warnings():
        # Python warns of a number that is indexed, which is a mutant's right
        warnings.simplefilter("ignore")
        return compile(source, answer, "exec", dont_inherit=True)


def _put(parent: ast.AST, field_name: str, index: int | None, child: ast.AST) -> None:
    if index is None:
        setattr(parent, field_name, child)
    else:
        getattr(parent, field_name)[index] = child


# The mutants of an exercise.


def _definitions(text: str) -> dict[str, Definition]:
    return {
        node.name: node
        for node in ast.parse(text).body
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
    }


def cell_definitions(exercise: loader.Loaded, subject: str) -> list[Definition]:
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
    replacements = _definitions(changed)
    statements: list[ast.stmt] = []
    for node in tree.body:
        match node:
            case ast.Import() if not any(alias.name == "checks" for alias in node.names):
                statements.append(node)
            case ast.ImportFrom() | ast.Assign(targets=[ast.Name()], value=ast.Constant()):
                statements.append(node)
            case ast.Try() if all(
                isinstance(statement, ast.Import | ast.ImportFrom) for statement in node.body
            ):
                statements.append(node)
            case ast.FunctionDef() | ast.ClassDef():
                statements.append(replacements.get(node.name, node))
    text = ast.unparse(ast.Module(statements, []))
    lines = text.splitlines(keepends=True)
    # Triton reads the text of a kernel from there.
    linecache.cache[folder.name] = (len(text), None, lines, folder.name)
    module = ModuleType(folder.name)
    sys.modules[folder.name] = module  # torch.compile looks names up there
    exec(_compiled(text, folder.name), vars(module))  # noqa: S102 (the author's own text)
    return vars(module)


def listed_definitions(exercise: loader.Loaded) -> dict[str, tuple[ModuleType, Definition]]:
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
    mutants = _of_reference(cell_definitions(exercise, subject), subject)
    listed = listed_definitions(exercise)
    rights = exercise.suite.listed("right_for", subject)
    for name in dict.fromkeys(right.__name__ for right in rights):
        if name in listed:  # one that is made by a function has no text of its own
            mutants += mutate(listed[name][1], subject, name)
    if len(mutants) <= most:
        return mutants, len(mutants)
    # All mutants of the reference are chosen: most students write what it has.
    by_rank = sorted(mutants, key=lambda mutant: (mutant.answer != "reference", _drawn(mutant)))
    chosen = {mutant.name for mutant in by_rank[:most]}
    return [mutant for mutant in mutants if mutant.name in chosen], len(mutants)


def _of_reference(definitions: list[Definition], subject: str) -> list[Mutant]:
    return [
        mutant for definition in definitions for mutant in mutate(definition, subject, "reference")
    ]


def pairs_of(exercise: loader.Loaded, subject: str, most: int) -> list[Mutant]:
    """Return mutants of our solution with a second change: at most `most`, none like a mutant.

    A mutant that the checks do not reject is no mistake that is known, and is not changed again.
    """
    definitions = cell_definitions(exercise, subject)
    mutants = sorted(_of_reference(definitions, subject), key=_drawn)
    # The definitions have no docstrings anymore, like the mutants that are made of them.
    seen = {*map(ast.unparse, definitions), *(mutant.source for mutant in mutants)}
    pairs: list[Mutant] = []
    while mutants and len(pairs) < most:
        batch = mutants[: most - len(pairs)]
        mutants = mutants[len(batch) :]
        for mutant, outcome in zip(batch, examined(exercise.folder, batch), strict=True):
            pair = _changed_again(mutant, seen) if outcome.killed else None
            if pair:
                pairs.append(pair)
                seen.add(pair.source)
    return pairs


def _changed_again(mutant: Mutant, seen: set[str]) -> Mutant | None:
    """Return a mutant with a second change, whose source is not among `seen`."""
    (definition,) = _definitions(mutant.source).values()
    changed = mutate(definition, mutant.subject, "reference")
    unseen = [other for other in changed if other.source not in seen]
    if not unseen:
        return None
    other = min(unseen, key=_drawn)
    return replace(other, name=f"{mutant.name}  and  {other.name}")


def sample_of(mutants: list[Mutant]) -> list[Mutant]:
    """Return every n-th of the mutants of a function: those that the tests try."""
    return mutants[:: max(7, len(mutants) // SAMPLE)]


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
    # This ends the process. It counts the process's own time: a busy machine is no endless loop.
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
    # A right answer sees the helpers of its own module; the reference those of the notebook.
    if mutant.answer == "reference":
        subject = reference(folder, mutant.source)[mutant.subject]
    else:
        names = dict(vars(listed_definitions(exercise)[mutant.answer][0]))
        exec(_compiled(mutant.source, mutant.answer), names)  # noqa: S102 (made here)
        subject = names[mutant.answer]
    outcome = Outcome()
    for number, seed in enumerate(seeds):
        # To look for a cause takes most of the time of a wrong answer.
        report = exercise.suite.examine(mutant.subject, subject, 1.0, seed, diagnosis=number == 0)
        failed = [result for result in report.results if result.status.costs_points]
        advice = [result for result in report.results if result.status == Status.ADVICE]
        if advice and not failed:
            ignored = _ignored_advice(folder, mutant.subject, mutant.answer, seed)
            failed = [result for result in advice if result.name not in ignored]
            outcome.advice |= bool(failed)
        unknown = NO_RESULT if any(map(_is_without_result, report.results)) else ""
        outcome.first.append(failed[0].name if failed else unknown)
        if number == 0 and failed:
            outcome.raised, outcome.explained = failed[0].raised, failed[0].explained
            outcome.cause = any(result.cause for result in failed)
            outcome.relation = any(getattr(result, "relation", None) for result in failed)
    # A mutant that filled the memory must not leave it full: the next would be rejected for that.
    gc.collect()
    return outcome


def _is_without_result(result: Result) -> bool:
    """Tell whether a check is unverified although the machine has what it needs."""
    return result.status == Status.UNVERIFIED and machine.has(result.on)


@functools.cache
def _ignored_advice(folder: Path, subject: str, answer: str, seed: int) -> set[str]:
    """Return the checks whose advice the original of a mutant does not follow."""
    exercise = _loaded(folder)
    if answer == "reference":
        original = reference(folder)[subject]
    else:
        original = vars(listed_definitions(exercise)[answer][0])[answer]
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
        futures = [
            pool.schedule(examine, args=[folder, mutant], timeout=seconds) for mutant in mutants
        ]
        for future in track(futures, folder.name, console=Console(stderr=True), transient=True):
            try:
                outcomes.append(future.result())
            except (concurrent.futures.TimeoutError, pebble.ProcessExpired, MemoryError):
                outcomes.append(Outcome(["does not finish"] * len(SEEDS), ended=False))
    return outcomes


# The record.


@dataclass
class MutantCounts:
    """The results for the mutants of one function.

    `told` counts the killed mutants whose author gets an explanation: their own error, a cause, a
    relation, or a sentence on how the result differs from the expected one, such as in its shape.
    `advice` counts those that only advice distinguished from their original, under some seed.
    `equal` counts those that passed all checks under some seed, and `passed` names them;
    `equal_in_sample` counts those of them that are in `sample_of`. `without_result` names those
    that are neither killed nor equal.
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
    equal_in_sample: int
    passed: list[str]
    without_result: list[str]
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
    "equal_in_sample",
)
"""The parts of a `MutantCounts` that the book and the tests need."""


def summed(mutants: list[Mutant], outcomes: list[Outcome], made: int) -> MutantCounts:
    """Count the results for a function's mutants, of which there are `made`."""
    dead = [outcome for outcome in outcomes if outcome.killed]
    both = list(zip(mutants, outcomes, strict=True))
    passed = [mutant.name for mutant, outcome in both if outcome.survived]
    without_result = [
        mutant.name for mutant, outcome in both if not (outcome.survived or outcome.killed)
    ]
    sample = {mutant.name for mutant in sample_of(mutants)}
    kills_by_check: dict[str, int] = {}
    for outcome in dead:
        kills_by_check[outcome.first[0]] = kills_by_check.get(outcome.first[0], 0) + 1
    return MutantCounts(
        made=made,
        examined=len(mutants),
        killed=len(dead),
        raised=sum(outcome.raised for outcome in dead),
        cause=sum(outcome.cause for outcome in dead),
        relation=sum(outcome.relation and not outcome.cause for outcome in dead),
        told=sum(outcome.explained or outcome.cause or outcome.relation for outcome in dead),
        advice=sum(outcome.advice for outcome in dead),
        endless=sum(not outcome.ended for outcome in dead),
        equal=len(passed),
        equal_in_sample=len(sample.intersection(passed)),
        passed=passed,
        without_result=without_result,
        by=dict(sorted(kills_by_check.items())),
    )


def recorded(root: Path = ROOT) -> dict[str, dict[str, Any]]:
    """Return a course's recorded results: for each exercise and each function, its `MutantCounts`'s
    `SHOWN`.
    """
    return _read(root / RECORD)


def _read(path: Path) -> dict[str, dict[str, Any]]:
    if not path.exists():
        return {}
    rows: dict[str, dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
    return rows


def record(path: Path, name: str, rows: dict[str, dict[str, Any]], functions: list[str]) -> None:
    """Record rows of an exercise's functions; those of other functions and exercises stay."""
    before = _read(path)
    present = {
        subject: row for subject, row in before.get(name, {}).items() if subject in functions
    }
    json_entries.write(path, before | {name: present | rows})


@dataclass
class Findings:
    """The results for an exercise's mutants.

    `rows` has the counts for each function, `accepted` how many of its mutants may pass.
    """

    rows: dict[str, MutantCounts]
    accepted: dict[str, int]

    def survived(self, subject: str) -> int:
        """Return how many more of a function's mutants passed than are accepted."""
        return max(0, self.rows[subject].equal - self.accepted[subject])


def look_at(
    exercise: Exercise, function: str = "", workers: int | None = None, accept: bool = False
) -> Findings:
    """Run the checks on the mutants of an exercise, or of one of its functions, and record the
    results.

    A function of which more mutants pass than the record accepts is not recorded, unless `accept`
    is true; one with a mutant without a result never is.

    Raises
    ------
    UserError
        If it has no such function.
    """
    loaded = loader.load(exercise.solution)
    subjects = [subject for subject in loaded.programs if function in ("", subject)]
    if not subjects:
        raise UserError(
            f"{exercise.name} has no function {function!r}. It has: {', '.join(loaded.programs)}."
        )
    by_subject = {subject: mutants_of(loaded, subject) for subject in subjects}
    every = [mutant for mutants, _ in by_subject.values() for mutant in mutants]
    outcomes = examined(exercise.solution, every, workers)
    before = recorded(exercise.root).get(exercise.name, {})
    findings = Findings({}, {})
    for subject, (mutants, made) in by_subject.items():
        row = summed(mutants, outcomes[: len(mutants)], made)
        outcomes = outcomes[len(mutants) :]
        findings.rows[subject] = row
        findings.accepted[subject] = (
            row.equal if accept else before.get(subject, {}).get("equal", 0)
        )
    details = {subject: asdict(row) for subject, row in findings.rows.items()}
    shown = {
        subject: {key: row[key] for key in SHOWN}
        for subject, row in details.items()
        if not findings.survived(subject) and not findings.rows[subject].without_result
    }
    record(exercise.root / DETAIL, exercise.name, details, loaded.programs)
    record(exercise.root / RECORD, exercise.name, shown, loaded.programs)
    return findings
