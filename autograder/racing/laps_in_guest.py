"""What a guest runs in a race: it times or counts the kernels of a notebook, and returns their
results.

It goes there as text, behind that of `kernels`, and imports nothing else of the course's. Each
function takes the two functions of the notebook and the code of the exercise's race
(`config.Race`).
"""

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

with contextlib.suppress(ImportError):  # in a guest, the text of that module comes before this one
    from autograder.checking.kernels import load

SECONDS = 0.25  # for which a function and its rival are timed together, each time
WARM_UP = 0.1  # seconds
LEAST, MOST = 5, 100  # calls of each
# bytes written before each call: they clear a GPU's cache, and meanwhile the call is prepared
CACHE = 1 << 30
COUNTED = ("launches", "programs", "loaded", "stored", "products")

Call = Callable[[], Any]


def results(
    first: Any, second: Any, code: str, inputs: list[Any], upstream: Any, device: str, kind: str
) -> list[Any]:
    """Return the outputs of both functions, and the gradients of the second, as float32 on the CPU.

    Parameters
    ----------
    first, second : callable
        The notebook's function for the forward pass, and the one that also has gradients.
    code : str
        The code of the exercise's race.
    inputs, upstream : list of tensor, tensor
        The judge's; float32 on the CPU, with numbers that the dtype `kind` has.
    device, kind : str
        Where the functions run, and the name of the dtype that they compute with.
    """
    race = _defined(code)
    leaves = [tensor.to(device, getattr(torch, kind)).requires_grad_() for tensor in inputs]
    with torch.no_grad():
        forward = race["forward"](first, *leaves)
    with torch.enable_grad():
        out = race["with_gradients"](second, *leaves)
        tensors = [forward, out, *torch.autograd.grad(out, leaves, upstream.to(out))]
    return [tensor.detach().float().cpu() for tensor in tensors]


def times(
    first: Any, second: Any, code: str, n: int, device: str, kind: str
) -> list[list[list[float]]]:
    """Return milliseconds of calls, forward, then forward and backward: each time the notebook's
    and the rival's.
    """
    race = _defined(code)
    leaves = [
        tensor.to(device, getattr(torch, kind)).requires_grad_() for tensor in race["inputs"](n)
    ]
    with torch.no_grad():
        upstream = torch.randn_like(race["rival"](*leaves))

    def forward(call: Call) -> Call:
        def run() -> None:
            with torch.no_grad():
                call()

        return run

    def both(call: Call) -> Call:
        def run() -> None:
            with torch.enable_grad():
                torch.autograd.grad(call(), leaves, upstream)

        return run

    def rival() -> Any:
        return race["rival"](*leaves)

    return [
        _in_turn([forward(lambda: race["forward"](first, *leaves)), forward(rival)], device),
        _in_turn([both(lambda: race["with_gradients"](second, *leaves)), both(rival)], device),
    ]


def _in_turn(runs: list[Call], device: str) -> list[list[float]]:
    """Return the milliseconds of calls of each function, which take turns: each meets the same
    clock and heat.

    On a GPU, this is the time between two events on the device. Inputs are no longer in its cache.
    """

    def synchronize() -> None:
        if device == "cuda":
            torch.cuda.synchronize()

    def mark() -> Any:
        if device != "cuda":
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def between(begin: Any, end: Any) -> float:
        return float(begin.elapsed_time(end)) if device == "cuda" else 1e3 * float(end - begin)

    for run in runs:
        run()  # compiles
    synchronize()
    # The rounds of the warm-up also say how many calls fit into `SECONDS`.
    began, rounds = time.perf_counter(), 0
    while not rounds or time.perf_counter() - began < WARM_UP:
        for run in runs:
            run()
        synchronize()
        rounds += 1
    seconds_per_round = (time.perf_counter() - began) / rounds
    # Without this, a call would find its inputs in the cache, where the call before left them.
    evicting = torch.empty(CACHE, dtype=torch.int8, device=device) if device == "cuda" else None
    spans: list[list[tuple[Any, Any]]] = [[] for _ in runs]
    for _ in range(min(max(int(SECONDS / seconds_per_round), LEAST), MOST)):
        for run, spans_of_run in zip(runs, spans, strict=True):
            if evicting is not None:
                evicting.zero_()
            begin = mark()
            run()
            spans_of_run.append((begin, mark()))
    # Only at the end: waiting after each call would measure the wait as well.
    synchronize()
    return [[between(*span) for span in spans_of_run] for spans_of_run in spans]


def counts(first: Any, second: Any, code: str, n: int, kind: str) -> list[dict[str, int]]:
    """Return what `COUNTED` names, of kernels in Triton's interpreter: forward, then forward and
    backward.
    """
    race = _defined(code)
    leaves = [tensor.to(getattr(torch, kind)).requires_grad_() for tensor in race["inputs"](n)]
    with torch.no_grad(), _counting() as forward:
        race["forward"](first, *leaves)
    with torch.enable_grad(), _counting() as both:
        out = race["with_gradients"](second, *leaves)
        torch.autograd.grad(out, leaves, torch.randn_like(out))
    return [forward, both]


class _CountedMemory:
    """Counts the bytes that kernels load and store, in place of the memory of Triton's interpreter.

    A masked element is not counted: a GPU does not move it either.
    """

    def __init__(self, memory: Any, count: dict[str, int]):
        self._memory, self._count = memory, count

    def load(self, pointers: Any, mask: Any, other: Any, kind: Any) -> Any:
        self._count["loaded"] += int(mask.sum()) * np.dtype(kind).itemsize
        return self._memory.load(pointers, mask, other, kind)

    def store(self, pointers: Any, value: Any, mask: Any) -> Any:
        self._count["stored"] += int(mask.sum()) * value.itemsize
        return self._memory.store(pointers, value, mask)

    def atomic_rmw(self, operation: Any, pointers: Any, value: Any, mask: Any, order: Any) -> Any:
        self._count["loaded"] += int(mask.sum()) * value.itemsize
        self._count["stored"] += int(mask.sum()) * value.itemsize
        return self._memory.atomic_rmw(operation, pointers, value, mask, order)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._memory, name)


@contextlib.contextmanager
def _counting() -> Iterator[dict[str, int]]:
    """Count what interpreted kernels do: launches, programs, bytes loaded and stored, and tiles
    multiplied.
    """
    load()
    from triton.runtime import interpreter

    builder, memory = interpreter.interpreter_builder, interpreter._interpreter
    count = dict.fromkeys(COUNTED, 0)
    set_grid_dim, create_dot = builder.set_grid_dim, builder.create_dot

    def grid(*sides: int) -> Any:
        count["launches"] += 1
        count["programs"] += int(np.prod(sides))
        return set_grid_dim(*sides)

    def dot(*arguments: Any, **named: Any) -> Any:
        count["products"] += 1
        return create_dot(*arguments, **named)

    builder.set_grid_dim, builder.create_dot = grid, dot
    interpreter._interpreter = _CountedMemory(memory, count)
    try:
        yield count
    finally:
        # They hid the methods of the class, which are there again.
        interpreter._interpreter = memory
        del builder.set_grid_dim, builder.create_dot


def _defined(code: str) -> dict[str, Any]:
    """Return the names that the code of a race defines."""
    names: dict[str, Any] = {}
    exec(code, names)  # noqa: S102 (the course's own, in a guest)
    return names
