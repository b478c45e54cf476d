"""All of Triton's insides: kernels watched and counted, and a trial of whether this machine can
judge any.

Beside this, only `racing/laps_in_guest.py` reaches into Triton, which counts for a race. Tried with

| Triton | comes with torch | what differs inside |
|---|---|---|
| 3.4    | 2.8              | an interpreted kernel's `kernel[grid]` is a `GridExecutor`; language stays patched; A |
| 3.5    | 2.9              | the same; A |
| 3.6    | 2.10, 2.11       | `kernel[grid]` calls `run`; helpers of kernels leave the language patched; A |
| 3.7    | 2.12, 2.13       | the same, without A |
| 3.8    | 2.14             | the same, without A |

A: an index is made by `int()` of an array with one axis, which NumPy 2.5 refuses.
`tests/checking/test_kernels.py` runs all of this with each version that can be installed. With any other
version, `trial` tells whether it works.

Functions that take a student's function run where that lives. They go there as the text of this
whole module, so it stands by itself and imports nothing of the course's.
"""  # noqa: E501

import contextlib
import functools
import subprocess
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

TRAVELS_WHOLE = True
"""A function of this module goes elsewhere with all of the module (`modules.text_of`)."""

MOST_REASON = 200
"""Characters of the reason that `trial` gives."""

triton: Any = None
tl: Any = None
interpreter: Any = None


def load() -> None:
    """Import Triton, which takes a second, and let the interpreter of each version convert sizes
    for any NumPy.
    """
    global triton, tl, interpreter
    if triton is not None:
        return
    import triton.language
    import triton.runtime.interpreter

    triton, tl, interpreter = sys.modules["triton"], triton.language, triton.runtime.interpreter
    patch = interpreter._patch_lang_tensor

    def patch_lang_tensor(tensor: Any, *scope: Any) -> None:
        patch(tensor, *scope)
        # Triton up to 3.6 calls int() of an array with an axis.
        tensor.__index__ = lambda size: int(size.handle.data.item())

    interpreter._patch_lang_tensor = patch_lang_tensor


# Compiled kernels, interpreted.


@contextlib.contextmanager
def interpreted() -> Iterator[None]:
    """Let each launch be interpreted, of kernels that Triton compiles as well; afterwards all is as
    it was.

    On a machine with a GPU kernels are compiled, and so are the library's own functions, `tl.sum`
    and others. Here each becomes an interpreted one, when it is launched or called. Without a GPU
    kernels are interpreted anyway.
    """
    load()
    jit = triton.runtime.jit.JITFunction
    tuner = triton.runtime.autotuner.Autotuner
    knobs = triton.knobs.runtime
    functions: dict[int, Any] = {}

    def interpreted_function(kernel: Any) -> Any:
        # By id: a kernel's hash depends on all that it calls, which is patched here.
        if id(kernel) not in functions:
            function = _with_separate_names(kernel.fn)
            functions[id(kernel)] = interpreter.InterpretedFunction(function)
        return functions[id(kernel)]

    def run(kernel: Any, *arguments: Any, grid: Any, warmup: bool = False, **named: Any) -> Any:
        if warmup:  # only compiles
            return None
        function = interpreted_function(kernel)
        executor = interpreter.GridExecutor(function.rewrite(), function.arg_names, grid)
        return executor(*arguments, **named)

    def call(kernel: Any, *arguments: Any, **named: Any) -> Any:
        return interpreted_function(kernel)(*arguments, **named)

    def bind(kernel: Any, instance: Any, _kind: Any = None) -> Any:
        is_tensor = isinstance(instance, tl.tensor)
        return functools.partial(call, kernel, instance) if is_tensor else kernel

    def run_first_config(tuner: Any, *arguments: Any, **named: Any) -> Any:
        # Without a trial of each: times of interpreted kernels mean nothing.
        return tuner.fn.run(*arguments, **named, **tuner.configs[0].all_kwargs())

    with _restored([*_language(), jit, tuner]):
        interprets = knobs.interpret
        jit.run = run
        jit.__call__ = call
        jit.__get__ = bind
        tuner.run = run_first_config
        knobs.interpret = True
        try:
            yield
        finally:
            knobs.interpret = interprets
            # Triton keeps rewritten functions for good, in a dict of the class.
            for function in functions.values():
                function.rewritten_fn.pop(function.fn, None)


def _with_separate_names(function: Any) -> Any:
    """Return a copy of a kernel's function with a copy of its module's names, since the
    interpreter adds its own.
    """
    names = dict(function.__globals__)
    copied = types.FunctionType(
        function.__code__, names, function.__name__, function.__defaults__, function.__closure__
    )
    functools.update_wrapper(copied, function)
    del copied.__dict__["__wrapped__"]  # where `inspect` would look for its text
    copied.__kwdefaults__ = function.__kwdefaults__
    return copied


def _language() -> list[Any]:
    """Return the modules of Triton's language and their classes, which the interpreter patches."""
    owners: dict[int, Any] = {}  # by id: several modules have the same class
    for name, module in list(sys.modules.items()):
        if name != "triton.language" and not name.startswith("triton.language."):
            continue
        owners[id(module)] = module
        for value in vars(module).values():
            if isinstance(value, type) and value.__module__.startswith("triton.language"):
                owners[id(value)] = value
    return list(owners.values())


@contextlib.contextmanager
def _restored(owners: list[Any]) -> Iterator[None]:
    """Undo, at the end of the context, all changes of these modules' and classes' attributes."""
    before = [dict(vars(owner)) for owner in owners]
    try:
        yield
    finally:
        for owner, attributes in zip(owners, before, strict=True):
            for name, value in list(vars(owner).items()):
                if name not in attributes:
                    delattr(owner, name)
                elif attributes[name] is not value:
                    setattr(owner, name, attributes[name])


# What a function's kernels do.


def written_in(code: list[Any] | None) -> bool:
    """Tell whether code, as `Suite.code_of` returns it, has a kernel of Triton's; True if the
    code is not known.
    """
    import ast

    if code is None:
        return True
    # `from triton import jit as compiled`
    imports = [part for part in code if isinstance(part, ast.alias) and part.name == "jit"]
    imported = {part.asname or part.name for part in imports}
    for node in code:
        for part in ast.walk(node):
            is_call = isinstance(part, ast.Call)
            # A kernel is decorated, or made by a call, as in `jit(function)`.
            used = [part.func] if is_call else getattr(part, "decorator_list", [])  # type: ignore[attr-defined]
            for name in used:
                if getattr(name, "attr", None) == "jit" or getattr(name, "id", None) in imported:
                    return True
    return False


def outside(function: Any, way_back: bool, *arguments: Any) -> tuple[int, int] | None:
    """Return how many numbers kernels read and wrote outside of the tensors that they were given;
    None of no result.

    Kernels run in Triton's interpreter for this, also on a GPU. Each load and store is masked, so
    that memory outside is neither read nor changed, whatever a kernel does.

    Parameters
    ----------
    function : callable
        It launches kernels.
    way_back : bool
        Whether to call `backward` on the result as well.
    arguments : tuple
        What it is called with; it gets copies of tensors.
    """
    import torch

    load()
    extents: list[tuple[int, int]] = []
    executor, memory = interpreter.GridExecutor, interpreter._interpreter
    watched = _WatchedMemory(memory, extents)
    to_cpu = executor._init_args_hst

    def to_cpu_with_extents(launch: Any, *inputs: Any) -> Any:
        """Copy tensors to the CPU's memory, where kernels are interpreted; note their addresses
        there.
        """
        positional, named = to_cpu(launch, *inputs)
        values = [getattr(value, "base", value) for value in (*positional, *named.values())]
        tensors = [value for value in values if isinstance(value, torch.Tensor) and value.numel()]
        # In place: `watched` has this list, and each launch has other tensors.
        extents[:] = [_extent(tensor) for tensor in tensors]
        return positional, named

    inputs = _copied(arguments, way_back)
    with interpreted():
        try:
            executor._init_args_hst = to_cpu_with_extents
            interpreter._interpreter = watched
            result = function(*inputs)
            if way_back and isinstance(result, torch.Tensor) and result.requires_grad:
                result.backward(torch.ones_like(result))
        finally:
            executor._init_args_hst = to_cpu
            interpreter._interpreter = memory
    return None if result is None else (watched.reads, watched.writes)


def _extent(tensor: Any) -> tuple[int, int]:
    """Return the addresses of a tensor: the first one, and one past the last one."""
    steps = zip(tensor.shape, tensor.stride(), strict=True)
    size = 1 + sum((length - 1) * stride for length, stride in steps)
    return tensor.data_ptr(), tensor.data_ptr() + size * tensor.element_size()


class _WatchedMemory:
    """The interpreter's memory, of which kernels reach no more than their tensors.

    `reads` and `writes` count the numbers outside of them. `extents` are the tensors' addresses, as
    `_extent` returns them.
    """

    def __init__(self, memory: Any, extents: list[tuple[int, int]]):
        self.memory, self.extents = memory, extents
        self.reads = self.writes = 0

    def load(self, pointers: Any, mask: Any, other: Any, kind: Any) -> Any:
        inside, outside = self._divided(pointers, mask)
        self.reads += outside
        return self.memory.load(pointers, inside, other, kind)

    def store(self, pointers: Any, value: Any, mask: Any) -> Any:
        inside, outside = self._divided(pointers, mask)
        self.writes += outside
        return self.memory.store(pointers, value, inside)

    def atomic_rmw(self, op: Any, pointers: Any, value: Any, mask: Any, order: Any) -> Any:
        inside, outside = self._divided(pointers, mask)
        self.writes += outside
        return self.memory.atomic_rmw(op, pointers, value, inside, order)

    def _divided(self, pointers: Any, mask: Any) -> tuple[Any, int]:
        """Return the mask without pointers to no tensor, and how many those are."""
        import numpy as np

        known = np.zeros(np.shape(pointers), bool)
        for begin, end in self.extents:
            known |= (pointers >= begin) & (pointers < end)
        return mask & known, int((mask & ~known).sum())

    def __getattr__(self, name: str) -> Any:
        return getattr(self.memory, name)


def _copied(arguments: Any, requires_grad: bool) -> list[Any]:
    """Return arguments with copies of tensors."""
    import torch

    return [
        value.clone().requires_grad_(requires_grad) if isinstance(value, torch.Tensor) else value
        for value in arguments
    ]


def launches(function: Any, way_back: bool, *arguments: Any) -> tuple[bool, bool]:
    """Return whether a call launches kernels of Triton's, compiled or interpreted, and whether
    its way back does.
    """
    import torch

    load()
    count = 0

    def counted(method: Any) -> Any:
        def launch(*arguments: Any, **named: Any) -> Any:
            nonlocal count
            count += 1
            return method(*arguments, **named)

        return launch

    methods = [(interpreter.GridExecutor, "__call__"), (triton.runtime.jit.JITFunction, "run")]
    inputs = _copied(arguments, way_back)
    with _restored([owner for owner, _name in methods]):
        for owner, name in methods:
            setattr(owner, name, counted(getattr(owner, name)))
        result = function(*inputs)
        forward = count
        count = 0
        if way_back and isinstance(result, torch.Tensor) and result.requires_grad:
            result.sum().backward()
    return forward > 0, count > 0


# Whether this machine can judge: the course's own code runs as a student's would.


def trial(on: str) -> str:
    """Return why a check that needs `on` could not be judged on this machine, in one line; "" if
    it can be.

    Parameters
    ----------
    on : str
        "gpu", "triton", "bf16" or "compile".
    """
    try:
        TRIALS[on]()
    except subprocess.CalledProcessError as error:  # of a compiler; its reason is on stderr
        program = error.cmd if isinstance(error.cmd, str) else error.cmd[0]
        return f"{program} ended with status {error.returncode}"[:MOST_REASON]
    except Exception as error:
        reason = next(iter(str(error).strip().splitlines()), "")
        return f"{type(error).__name__}: {reason}"[:MOST_REASON].rstrip(": ")
    return ""


def _try_gpu() -> None:
    """Multiply on the device in each dtype, forward and backward."""
    import torch

    for kind in (torch.float32, torch.float16, torch.bfloat16):
        a = torch.ones(16, 16, device="cuda", dtype=kind, requires_grad=True)
        (a @ a).sum().backward()
        _expect(a.grad, torch.full((16, 16), 32.0))


def _try_compile() -> None:
    """Let torch make one graph of a layer, forward and backward."""
    import torch

    torch._dynamo.reset()
    try:
        layer = torch.nn.Linear(3, 2)
        x = torch.ones(4, 3, requires_grad=True)
        out = torch.compile(layer, fullgraph=True, backend="aot_eager")(x)
        out.sum().backward()
        _expect(out, layer(x))
        _expect(x.grad, layer.weight.sum(0).expand(4, 3))
    finally:
        torch._dynamo.reset()


def _try_kernels() -> None:
    """Launch a kernel as it is, count its launches, and watch it and one that reads and writes
    too much.
    """
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    for kind in (torch.float32, torch.float16):
        _launch(kind, device)
    # Fewer rows than a tile of the kernel: without masks, it reads and writes outside.
    x = torch.ones(5, 16, device=device)
    if launches(_products, False, x) != (True, False):
        raise RuntimeError("launches of kernels are not seen")
    counts = [outside(_products, False, x, guarded) for guarded in (True, False)]
    if counts[0] != (0, 0):
        raise RuntimeError(f"a kernel that keeps to its tensors is said to leave them: {counts[0]}")
    if counts[1] is None or min(counts[1]) <= 0:
        raise RuntimeError(f"a kernel that leaves its tensors is said to keep to them: {counts[1]}")
    _launch(torch.float32, device)  # as before, after all of that


def _try_bf16() -> None:
    """Launch a kernel on the device in bfloat16."""
    import torch

    _launch(torch.bfloat16, "cuda")


def _launch(kind: Any, device: str) -> None:
    """Launch the trial's kernel, and compare."""
    import torch

    # 37 rows: the last tile is not full. Numbers from -3 to 3: sums are exact in any dtype.
    x = (torch.arange(37 * 16, device=device).reshape(37, 16) % 7 - 3).to(kind)
    exact = x.double()
    products = exact @ exact.mT
    _expect(_products(x), torch.stack([products.amax(1), products.square().sum(1)], 1))


def _expect(result: Any, expected: Any) -> None:
    """Raise ArithmeticError unless two tensors agree."""
    gap = (result.detach().double().cpu() - expected.detach().double().cpu()).abs().max().item()
    # `not <=`: a gap of NaN is wrong as well.
    if not gap <= 1e-3 * max(1.0, expected.abs().max().item()):
        raise ArithmeticError(f"a result is wrong by {gap:.3g}")


TRIALS: dict[str, Callable[[], None]] = {
    "gpu": _try_gpu,
    "triton": _try_kernels,
    "bf16": _try_bf16,
    "compile": _try_compile,
}


def _products(x: Any, guarded: bool = True) -> Any:
    """Return of each row of x (n, 16) the largest product with any row, and the sum of their
    squares: (n, 2).

    It uses what kernels of attention use: loops, masks, `tl.dot`, `tl.max`, `tl.sum`, `tl.zeros`,
    and a helper. Not `guarded`, it reads and writes whole tiles.
    """
    out = x.new_empty(x.shape[0], 2).float()
    _kernel()[(triton.cdiv(x.shape[0], 16),)](x, out, x.shape[0], GUARDED=guarded, TILE=16)
    return out


@functools.cache
def _kernel() -> Any:
    """Return the trial's kernel.

    Triton looks names of kernels up in their module, and reads their text there.
    """
    load()
    global _squared

    @triton.jit
    def _squared(x):  # type: ignore[no-untyped-def]
        return x * x

    @triton.jit
    def kernel(x, out, n, GUARDED: tl.constexpr, TILE: tl.constexpr):  # type: ignore[no-untyped-def]
        rows, columns = tl.program_id(0) * TILE + tl.arange(0, TILE), tl.arange(0, TILE)
        inside = rows < n
        if not GUARDED:
            inside = rows >= 0
        queries = tl.load(
            x + rows[:, None] * TILE + columns[None, :], mask=inside[:, None], other=0.0
        )
        top = tl.full((TILE,), float("-inf"), tl.float32)
        total = tl.zeros((TILE,), tl.float32)
        for start in range(0, n, TILE):
            others = start + columns
            tile = tl.load(
                x + others[:, None] * TILE + columns[None, :], mask=others[:, None] < n, other=0.0
            )
            products = tl.dot(queries, tl.trans(tile), input_precision="ieee")
            top = tl.maximum(top, tl.max(tl.where(others[None, :] < n, products, float("-inf")), 1))
            total += tl.sum(_squared(products), 1)
        tl.store(out + rows * 2, top, mask=inside)
        tl.store(out + rows * 2 + 1, total, mask=inside)

    return kernel
