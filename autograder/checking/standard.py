"""Standard checks: those that many functions of arrays share, declared from the shapes of the
arguments and of the result.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .draw import Draw
from .expect import (
    RTOL,
    Failed,
    expect_all_agree,
    expect_all_raise,
    expect_array,
    expect_dtypes,
    expect_inputs_kept,
    expect_tuple,
    expect_unchanged,
)
from .subject import Subject
from .suite import Suite, check_of
from .words import Message, names_in

BATCH = "batch"
"""The name of a leading dimension, where the sizes of a case are listed."""


class StandardChecks:
    """Declares standard checks of one function. The method `ones` declares the check `NAME_ones`,
    and so on; the first argument is the check's sentence, as students read it.

    ```
    scores = StandardChecks(
        suite,
        "scores",
        dot_products,
        sizes="n_q n_k d_k",
        arguments={"Q": "... n_q d_k", "K": "... n_k d_k"},
        result="... n_q n_k",
    )
    scores.shape("Returns an array of shape (n_q, n_k).")
    ```

    Parameters
    ----------
    suite : Suite
    subject : str
        The name of the function under test.
    specification : callable
        Returns what the function should, for the same arguments.
    sizes : str
        The names of all sizes, in the order in which they are drawn.
    arguments : dict of str
        For each argument, the names of its dimensions. Leading dimensions go where "..." is.
    result : str or dict of str
        The same for the result, or for the parts of a tuple.
    inputs : callable, optional
        Called with a `Draw`, leading dimensions, and the sizes by name; returns the arguments.
        Default: what `weights` names is drawn with `Draw.weights`, the rest with `Draw.array`.
    weights : sequence of str, optional
        The arguments that are attention weights.
    prefix : str, optional
        The first part of the checks' names, where it is not the function's name.
    """

    def __init__(
        self,
        suite: Suite,
        subject: str,
        specification: Callable[..., Any],
        sizes: str,
        arguments: Mapping[str, str],
        result: str | Mapping[str, str],
        inputs: Callable[..., Sequence[Any]] | None = None,
        weights: Sequence[str] = (),
        prefix: str = "",
    ):
        self.suite, self.subject, self.specification = suite, subject, specification
        self.sizes, self.arguments, self.weights = sizes.split(), arguments, weights
        self.results = {"": result} if isinstance(result, str) else result
        self.parts = "" if isinstance(result, str) else tuple(result)
        self.draw_inputs = inputs or self._arrays
        self.prefix = prefix or subject

    def shape(self, title: str, weight: float = 1, needs: Sequence[str] = ()) -> None:
        """Declare that the result has its shape."""

        def check(function: Subject, draw: Draw, sizes: dict[str, int]) -> None:
            result = function(*self.draw_inputs(draw, **sizes))
            shapes = [_shape(dimensions, sizes) for dimensions in self.results.values()]
            if not self.parts:
                expect_array(result, shapes[0])
                return
            arrays = expect_tuple(result, self.parts)
            for array, shape, name in zip(arrays, shapes, self.parts, strict=True):
                expect_array(array, shape, what=name)

        self._declare("shape", title, weight, needs, self.sizes, check)

    def batch(self, title: str, weight: float = 2, needs: Sequence[str] = ("values",)) -> None:
        """Declare that leading dimensions are kept: one, two, and three."""

        def check(function: Subject, draw: Draw, sizes: dict[str, int]) -> None:
            b = sizes["b"]
            of_one = {name: sizes[name] for name in self.sizes}  # without b
            leads = [(b,), (2, b), (3, 2, 2)]
            cases = [self.draw_inputs(draw, *lead, **of_one) for lead in leads]
            expect_all_agree(function, self.specification, cases, names=self.parts)

        self._declare("batch", title, weight, needs, [*self.sizes, "b"], check)

    def ones(
        self,
        title: str,
        cases: Sequence[str],
        weight: float = 1,
        needs: Sequence[str] = ("values",),
        rtol: float = RTOL,
    ) -> None:
        """Declare that dimensions of size 1 are kept. Each case names the sizes that are 1, with
        commas between them; "batch" is a leading dimension.
        """

        def check(function: Subject, draw: Draw, sizes: dict[str, int]) -> None:
            inputs = []
            for case in cases:
                ones = dict.fromkeys(case.split(","), 1)
                lead = [ones.pop(BATCH)] if BATCH in ones else []
                inputs.append(self.draw_inputs(draw, *lead, **sizes | ones))
            expect_all_agree(function, self.specification, inputs, names=self.parts, rtol=rtol)

        self._declare("ones", title, weight, needs, self.sizes, check)

    def refuses(
        self,
        title: str,
        because: Mapping[str, str],
        weight: float = 1,
        needs: Sequence[str] = ("values",),
    ) -> None:
        """Declare that `ValueError` is raised when a size differs in the two arguments that share
        it, even if it is 1 in one of them.

        `because` has a sentence for each such size, with the two numbers in braces: "d_k is {left}
        and {right}".
        """

        def check(function: Subject, draw: Draw, sizes: dict[str, int]) -> None:
            refused = []
            for name, sentence in because.items():
                size, other = sizes[name], sizes["other"]
                # A size of 1 would be stretched by broadcasting, without an error.
                for pair in [(size, other), (size, 1), (1, size)]:
                    arguments = self._mismatched(draw, sizes, name, pair)
                    values = dict(zip(names_in(sentence), pair, strict=True))
                    refused.append((arguments, Message(sentence, **values)))
            expect_all_raise([ValueError], function, refused)

        self._declare("refuses", title, weight, needs, [*self.sizes, "other"], check)

    def dtype(self, title: str, weight: float = 0.5, needs: Sequence[str] = ("shape",)) -> None:
        """Declare that the result has the dtype of the arguments."""

        def check(function: Subject, draw: Draw, sizes: dict[str, int]) -> None:
            expect_dtypes(function, *self.draw_inputs(draw, **sizes), names=self.parts)

        self._declare("dtype", title, weight, needs, self.sizes, check)

    def inputs(
        self,
        title: str,
        weight: float = 0.5,
        needs: Sequence[str] = ("shape",),
        batch: bool = False,
        read_only: bool = False,
    ) -> None:
        """Declare that the arguments do not change; with `read_only`, also that they may refuse to
        be written to.

        All sizes are equal, so that the result could be written into an argument; `batch` adds a
        leading dimension.
        """
        expect_kept = expect_inputs_kept if read_only else expect_unchanged

        def check(function: Subject, draw: Draw, sizes: dict[str, int]) -> None:
            n, *lead = sizes.values()
            arguments = self.draw_inputs(draw, *lead, **dict.fromkeys(self.sizes, n))
            expect_kept(function, tuple(self.arguments), *arguments)

        self._declare("inputs", title, weight, needs, ["n", "b"] if batch else ["n"], check)

    def _declare(
        self,
        kind: str,
        title: str,
        weight: float,
        needs: Sequence[str],
        sizes: Sequence[str],
        check: Callable[[Subject, Draw, dict[str, int]], None],
    ) -> None:
        """Declare a check that draws these sizes first."""

        def with_sizes(function: Subject, draw: Draw) -> None:
            values = dict(zip(sizes, draw.sizes(len(sizes)), strict=True))
            try:
                check(function, draw, values)
            except Failed as failure:
                failure.sizes = values  # relations name them; those of other checks are variables
                raise

        needed = [f"{self.prefix}_{need}" for need in needs]
        declared = check_of(self.subject, f"{self.prefix}_{kind}", title, with_sizes)
        self.suite.check(weight, needed)(declared)

    def _arrays(self, draw: Draw, *lead: int, **sizes: int) -> list[Any]:
        """Return the arguments with these leading dimensions and sizes."""
        return [
            self._array(draw, name, _shape(dimensions, sizes, lead))
            for name, dimensions in self.arguments.items()
        ]

    def _mismatched(
        self, draw: Draw, sizes: Mapping[str, int], name: str, pair: Sequence[int]
    ) -> list[Any]:
        """Return the arguments, of which the first with the size `name` has the first number of a
        pair, and the next one the second.
        """
        numbers = iter(pair)
        arguments = []
        for argument, dimensions in self.arguments.items():
            changed = {name: next(numbers)} if name in dimensions.split() else {}
            arguments.append(self._array(draw, argument, _shape(dimensions, {**sizes, **changed})))
        return arguments

    def _array(self, draw: Draw, name: str, shape: Sequence[int]) -> Any:
        return (draw.weights if name in self.weights else draw.array)(*shape)


def _shape(dimensions: str, sizes: Mapping[str, int], lead: Sequence[int] = ()) -> tuple[int, ...]:
    """Return the shape of an array whose dimensions are named."""
    shape: list[int] = []
    for name in dimensions.split():
        shape += lead if name == "..." else [sizes[name]]
    return tuple(shape)
