"""Listed answers: wrong ones with a name, right ones, and the families of mistakes that any
function can have.
"""

import functools
from collections.abc import Callable, Collection, Sequence
from types import ModuleType
from typing import Any, TypeAlias

import numpy as np

from . import machine
from .shared_with_guest import is_tensor

Mistake: TypeAlias = Callable[..., Any]
"""Takes the right answer and the arguments of a call, and returns what the mistaken function
would.
"""


def misconception(
    subject: str, label: str = "", hint: str = "", on: str = ""
) -> Callable[[Any], Any]:
    """Declare a wrong answer for `subject`: a function that people really write.

    Parameters
    ----------
    subject : str
        The name of the function that it stands for.
    label : str
        What is wrong with it in a few words, such as "scores transposed". Default: the function's
        name in words.
    hint : str
        The advice for a student who wrote it.
    on : str
        What a machine needs for checks to catch it, as in `Suite.check`; elsewhere it is left out.
    """

    def declare(function: Any) -> Any:
        function.wrong_for, function.hint = subject, hint
        function.on = machine.known(on, f"the wrong answer {function.__name__}")
        function.label = label or function.__name__.replace("_", " ")
        return function

    return declare


def misconception_of_each(*kinds: type) -> Callable[..., Callable[[type], type]]:
    """Return a decorator like `misconception` for a class whose methods are a mistake that each of
    these right classes can have: a subclass of both is listed for each of them.
    """

    def decorator(label: str, hint: str) -> Callable[[type], type]:
        def declare(mistake: Any) -> type:
            # The mistake comes first among the bases: its methods replace those of the right class.
            mistake.families = [
                misconception(kind.__name__, label, hint)(
                    type(f"{kind.__name__}_{mistake.__name__}", (mistake, kind), {})
                )
                for kind in kinds
            ]
            return mistake  # type: ignore[no-any-return]

        return declare

    return decorator


def right(subject: str) -> Callable[[Any], Any]:
    """Declare a right answer for `subject` that is written differently from ours."""

    def declare(function: Any) -> Any:
        function.right_for = subject
        return function

    return declare


def families(
    *labels: str, but: Sequence[str] = (), hints: dict[str, str] | None = None, shapes: str = ""
) -> Callable[[Any], Any]:
    """Declare wrong answers for the function for which this is a right one: mistakes that any
    function can have.

    ```
    @families(
        but=["works for two axes only"],
        hints={"result in float64": "..."},
        shapes="n d_in, d_in d_out",
    )
    @right("project")
    def project_matmul(X, W):
        return X @ W
    ```

    Parameters
    ----------
    labels : str
        Which of `FAMILIES` apply. Default: those of `COMMON`.
    but : sequence of str
        Families that do not apply: such an answer would be right, or would do the same as a listed
        one.
    hints : dict of str
        For a label, the hint to show instead of the family's own.
    shapes : str
        The last axes of the arguments, with commas between arguments: "n_q d_k, n_k d_k". If it is
        given, an answer that stretches a size of 1 to the other size of that name is a wrong one
        too.

    Raises
    ------
    ValueError
        If there is no such family, or it does not apply anyway, or what it stands above is no right
        answer.
    """
    hints = hints or {}
    known = dict(FAMILIES)
    chosen = set(labels or COMMON)
    if shapes:
        known[STRETCHED] = (_stretched(shapes), STRETCHED_HINT)
        chosen.add(STRETCHED)
    _check_labels(known, chosen, labels, but, hints)

    def declare(function: Any) -> Any:
        if not _declared(function, "right_for"):
            name = getattr(function, "__name__", "it")
            raise ValueError(
                f'@families needs a right answer; write @right("function") between it and {name}'
            )
        function.families = [
            _member(function, label, mistaken, hints.get(label, hint))
            for label, (mistaken, hint) in known.items()
            if label in chosen and label not in but
        ]
        return function

    return declare


def _check_labels(
    known: Collection[str],
    chosen: Collection[str],
    labels: Sequence[str],
    but: Sequence[str],
    hints: Collection[str],
) -> None:
    """Raise `ValueError` for a label that does not exist, or that has no effect in `families`."""
    for label in [*labels, *but, *hints]:
        if label not in known:
            raise ValueError(
                f"there is no family of mistakes called {label!r}; there are: {', '.join(known)}"
            )
    unused = [label for label in [*but, *hints] if label not in chosen]
    unused += [label for label in hints if label in but]
    if unused:
        raise ValueError(
            f"{unused[0]!r} is left out or has a new hint, but does not apply here anyway"
        )


def answers_in(module: ModuleType, kind: str, subject: str) -> list[Any]:
    """Return the answers that a module lists for `subject`, members of families last.

    `kind` is `wrong_for` or `right_for`.
    """
    answers = list(vars(module).values())
    members = [member for answer in answers for member in _declared(answer, "families", ())]
    return [answer for answer in [*answers, *members] if _declared(answer, kind) == subject]


def _declared(answer: Any, name: str, missing: Any = None) -> Any:
    """Return what was declared on an answer itself, ignoring classes that it is derived from."""
    return getattr(answer, "__dict__", {}).get(name, missing)


def _member(right_answer: Any, label: str, mistaken: Mistake, hint: str) -> Any:
    member: Any
    if isinstance(right_answer, type):  # a module of torch: what it does goes wrong
        kind: Any = right_answer

        def forward(self: Any, *arguments: Any) -> Any:
            return mistaken(functools.partial(kind.forward, self), *arguments)

        member = type(right_answer.__name__, (right_answer,), {"forward": forward})
    else:

        def member_function(*arguments: Any) -> Any:
            return mistaken(right_answer, *arguments)

        member = member_function

    member.__name__ = f"{right_answer.right_for}_{label.replace(' ', '_')}"
    member.made_from = right_answer
    return misconception(right_answer.right_for, label, hint)(member)


def _is_array(value: Any) -> bool:
    """Tell whether a value is an array, of NumPy or of torch."""
    return isinstance(value, np.ndarray) or is_tensor(value)


def _is_floating(array: Any) -> bool:
    return bool(array.is_floating_point() if is_tensor(array) else array.dtype.kind == "f")


def _converted(array: Any, dtype: str) -> Any:
    """Return an array in a dtype, given by the name that NumPy and torch have for it."""
    if is_tensor(array):
        import torch

        return array.to(getattr(torch, dtype))
    return array.astype(dtype)


def _parts(change: Callable[[Any], Any]) -> Mistake:
    """Return the mistake that changes an array that the right answer returns, or each one of a
    tuple.
    """

    def mistaken(answer: Any, *arguments: Any) -> Any:
        result = answer(*arguments)
        return tuple(map(change, result)) if isinstance(result, (tuple, list)) else change(result)

    return mistaken


def _arguments(change: Callable[[Any], Any]) -> Mistake:
    """Return the mistake that changes each argument that is an array, and then does what is
    right.
    """

    def mistaken(answer: Any, *arguments: Any) -> Any:
        changed = [change(value) if _is_array(value) else value for value in arguments]
        return answer(*changed)

    return mistaken


def _asserts(answer: Any, *arguments: Any) -> Any:
    try:
        return answer(*arguments)
    except (ValueError, RuntimeError, IndexError) as error:
        raise AssertionError from error


def _two_axes_only(answer: Any, *arguments: Any) -> Any:
    first = next(argument for argument in arguments if _is_array(argument))
    _n, _d = first.shape  # the mistake: it raises ValueError for a batch
    return answer(*arguments)


def _in_float64(answer: Any, *arguments: Any) -> Any:
    def in_float64(array: Any) -> Any:
        return _converted(array, "float64") if _is_floating(array) else array

    computed_in_float64 = functools.partial(_arguments(in_float64), answer)
    return _parts(lambda part: _converted(part, "float64"))(computed_in_float64, *arguments)


def _written_into_an_argument(answer: Any, *arguments: Any) -> Any:
    result = answer(*arguments)
    for argument in arguments:
        if isinstance(argument, np.ndarray) and argument.shape == result.shape:
            argument[...] = result
            return argument
    return result


def _stretched(shapes: str) -> Mistake:
    """Return the mistake of stretching a size of 1, for arguments with these last axes."""
    # For each name of a size, the axes that have it: the argument's number, and the axis. Axes are
    # counted from the end, because a batch has more of them at the beginning.
    shared_axes: dict[str, list[tuple[int, int]]] = {}
    for number, axes in enumerate(shapes.split(",")):
        for back, size in enumerate(reversed(axes.split()), 1):
            shared_axes.setdefault(size, []).append((number, -back))

    def mistaken(answer: Any, *arguments: Any) -> Any:
        changed = list(arguments)
        for shared in shared_axes.values():
            largest = max(changed[number].shape[axis] for number, axis in shared)
            for number, axis in shared:
                if changed[number].shape[axis] == 1:
                    changed[number] = np.repeat(changed[number], largest, axis)
        return answer(*changed)

    return mistaken


FAMILIES: dict[str, tuple[Mistake, str]] = {
    "returns nothing": (
        lambda answer, *arguments: None,
        "The function ends without `return`. Printing only shows a result; `return` gives it to "
        "the caller.",
    ),
    "a list instead of an array": (
        _parts(lambda part: part.tolist()),
        "The function returns a list. Leave out `.tolist()`, or end with `np.array(...)`.",
    ),
    "only the first of the results returned": (
        lambda answer, *arguments: answer(*arguments)[0],
        "The function returns one array. `return` ends it at once: use one `return` for all "
        "results, with commas.",
    ),
    "a dictionary instead of a tuple": (
        lambda answer, *arguments: dict(enumerate(answer(*arguments))),
        "The function returns a dictionary. Return the results in order, as a tuple.",
    ),
    "result in float64": (
        _in_float64,
        "Some step produces float64: `np.zeros` without a dtype, `astype(float)`, or a NumPy "
        "scalar such as `np.sqrt(d)`. Give the dtype, or use `math.sqrt(d)`.",
    ),
    "result always in float32": (
        _parts(lambda part: _converted(part, "float32")),
        "Keep the dtype of the inputs, or create the array for the result with it: "
        "`dtype=X.dtype`.",
    ),
    "decimals cut off": (
        _parts(np.trunc),
        "The array for the result holds integers (`dtype=int`), which cuts off the decimals.",
    ),
    "axis squeezed away": (
        _parts(lambda part: part.squeeze() if is_tensor(part) else np.squeeze(part)),
        "An axis of size 1 is gone: `squeeze` or an index removes it. A single vector is still "
        "one row.",
    ),
    "batch axis added": (
        _parts(lambda part: part[None]),
        "The result has an extra leading axis of size 1. Leave out `[None]` or `np.newaxis`.",
    ),
    "only the first sequence": (
        _arguments(lambda argument: argument[0] if argument.ndim > 2 else argument),
        "`[0]` takes the first sequence and drops the rest of the batch. `@`, `axis=-1` and `...` "
        "keep all of it.",
    ),
    "works for two axes only": (
        _two_axes_only,
        "The number of axes is fixed: `n, d = X.shape` works only for two. Take sizes from the "
        "end, `X.shape[-1]`, and let NumPy broadcast over the leading axes.",
    ),
    "leading axes left flattened": (
        _parts(lambda part: part.reshape(-1, part.shape[-1])),
        "Restore the leading axes: `.reshape(*X.shape[:-1], -1)`.",
    ),
    "assert instead of ValueError": (
        _asserts,
        "`assert` raises `AssertionError`, and Python skips it with `-O`. Write `if` and `raise "
        "ValueError(...)`.",
    ),
    "result written into an argument": (
        _written_into_an_argument,
        "The result is written into an argument, which the caller still needs. Create a new array "
        "for it.",
    ),
    "floats instead of booleans": (
        _parts(lambda part: part.astype(float)),
        "The result holds 1.0 and 0.0: `np.ones` and `np.zeros` create floats by default. Give "
        "them `dtype=bool`.",
    ),
    "a float instead of an int": (
        lambda answer, *arguments: float(answer(*arguments)),
        "The function returns a float, which has only 16 digits: `/` produces one, `//` keeps "
        "integers exact.",
    ),
    "an array instead of a tensor": (
        _parts(lambda part: part.detach().numpy()),
        "The function returns a NumPy array. Return the tensor itself: gradients cannot flow "
        "through NumPy.",
    ),
    "cut off from autograd": (
        _parts(lambda part: part.detach()),
        "No gradient flows through the result. Leave out `detach`, `.data`, `torch.no_grad` and "
        "`torch.tensor(...)`: training needs the backward pass.",
    ),
    "integers instead of booleans": (
        _parts(lambda part: part.astype(int)),
        "The result holds the integers 1 and 0. `~` turns them into -2 and -1, which both count "
        "as true: use `dtype=bool`, or leave a comparison as it is.",
    ),
}
"""For each label, what the mistaken function returns, and the hint for the student who wrote it."""

COMMON = [
    "returns nothing",
    "a list instead of an array",
    "result in float64",
    "result always in float32",
    "axis squeezed away",
    "only the first sequence",
    "works for two axes only",
    "leading axes left flattened",
    "assert instead of ValueError",
]
"""The families for a function of floating-point arrays with leading axes that rejects mismatched
sizes.
"""

STRETCHED = "sizes of 1 stretched"
STRETCHED_HINT = (
    "Broadcasting and `np.einsum` stretch silently. Compare the sizes and raise `ValueError`, or "
    "use `@`, which raises an error itself."
)
