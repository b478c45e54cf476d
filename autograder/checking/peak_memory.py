"""Counts the memory that a call holds at once.

All of this module goes, as text, to where the function lives.
"""

import contextlib
import linecache
import sys
import tracemalloc
import types
import weakref
from collections.abc import Callable
from typing import Any

TRAVELS_WHOLE = True
"""A function of this module goes elsewhere with all of the module (`modules.text_of`)."""


class Living(weakref.ref[Any]):
    """A storage that a `Ledger` counts: its name there, and its bytes."""

    __slots__ = "name", "size"


class Ledger:
    """The bytes that torch holds: `now`, and `peak`; and in `largest` the size, shape, dtype and
    line of a tensor.

    A storage counts from where it is first seen until it is gone, however many views share it.
    Those of the inputs do not count. `names` are the globals of the module whose lines are named.
    """

    def __init__(self, inputs: tuple[Any, ...], names: Any):
        self.inputs = {part.untyped_storage()._cdata for part in inputs if _is_tensor(part)}
        self.names = names
        self.clear()

    def clear(self) -> None:
        """Start again without the storages that are living now."""
        self.living: dict[Any, Any] = {}
        self.largest: list[Any] = [0, (), "", ""]
        self.now = self.peak = 0

    def see(self, part: Any) -> None:
        """Count a tensor, or those in a list."""
        if type(part) in (list, tuple):
            for item in part:
                self.see(item)
        if not _is_tensor(part):
            return
        if _is_sparse(part):  # it has no storage of its own
            self.see(_parts_of_sparse(part))
            return
        storage = part.untyped_storage()
        # `_cdata` is the address of the storage itself: all tensors on it give the same one.
        name, size = storage._cdata, storage.nbytes()
        if name in self.inputs:
            return
        reference: Any = self.living.get(name)
        if reference is None:
            reference = Living(storage, self._gone)
            reference.name = name
            reference.size = 0
            self.living[name] = reference
        elif reference.size == size:
            return
        # A new storage, or one that was resized.
        self.now += size - reference.size
        reference.size = size
        if size > self.largest[0]:
            dtype = str(part.dtype).removeprefix("torch.")
            self.largest = [size, tuple(part.shape), dtype, self._line()]

    def _gone(self, reference: Any) -> None:
        self.now -= self.living.pop(reference.name).size

    def _line(self) -> str:
        """Return the line of the function's module that is running."""
        frame: types.FrameType | None = sys._getframe(1)
        while frame is not None and frame.f_globals is not self.names:
            frame = frame.f_back
        if frame is None:
            return ""
        return linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip()


def _is_tensor(part: Any) -> bool:
    import torch

    return isinstance(part, torch.Tensor)


def _is_sparse(part: Any) -> bool:
    import torch

    return part.layout != torch.strided and not part.is_mkldnn


def _parts_of_sparse(part: Any) -> list[Any]:
    """Return the dense tensors that a sparse one consists of."""
    import torch

    if part.layout == torch.sparse_coo:
        return [part._indices(), part._values()]
    if part.layout in (torch.sparse_csr, torch.sparse_bsr):
        return [part.crow_indices(), part.col_indices(), part.values()]
    return [part.ccol_indices(), part.row_indices(), part.values()]


def counting(ledger: Ledger) -> Any:
    """Return a context in which a ledger sees what each operation of torch takes and returns."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Counting(TorchDispatchMode):
        @classmethod
        def _should_skip_dynamo(cls) -> bool:
            return False  # nothing is compiled here, and to skip it takes two seconds of imports

        def __torch_dispatch__(
            self, function: Any, types: Any, arguments: Any = (), keywords: Any = None
        ) -> Any:
            result = function(*arguments, **(keywords or {}))
            ledger.see((*arguments, *(keywords or {}).values(), result))
            ledger.peak = max(ledger.peak, ledger.now)
            return result

    return Counting()


def traced(target: Callable[..., Any], *arguments: Any) -> int:
    """Call a function; return the bytes of NumPy and Python that it holds at once."""
    # A student may have started it.
    tracing = tracemalloc.is_tracing()
    if not tracing:
        tracemalloc.start()
    try:
        # What is held already does not count: the peak begins from here.
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        target(*arguments)
        return max(tracemalloc.get_traced_memory()[1] - before, 0)
    finally:
        if not tracing:
            tracemalloc.stop()


def peak_memory(target: Callable[..., Any], *arguments: Any) -> tuple[Any, ...]:
    """Call a function; return its result, its peak memory in bytes, and the largest tensor.

    What NumPy and Python hold is counted by `tracemalloc`, in a call of its own, and added: both at
    once take three times as long, and the counting would be counted.

    Returns
    -------
    tuple
        Result, bytes, shape, dtype as text, and the line of the function's module that made the
        largest tensor.
    """
    ledger = Ledger(arguments, getattr(target, "__globals__", None))
    # A first call may load or cache something, which is not memory for these inputs: so the
    # function is called with a few rows before.
    small = [part[..., :3, :].clone() if _is_tensor(part) else part for part in arguments]
    # It may refuse them, which is no fault: the result for its real arguments counts.
    with contextlib.suppress(Exception), counting(ledger):
        target(*small)
    ledger.clear()
    with counting(ledger):
        result = target(*arguments)
    return result, int(ledger.peak + traced(target, *arguments)), *ledger.largest[1:]
