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
        tensor.__index__ = lambda own: int(
            own.handle.data.item()
        )  # Triton up to 3.6 asks int() of an array with an axis

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
    jit, knobs = triton.runtime.jit.JITFunction, triton.knobs.runtime
    made: dict[int, Any] = {}

    def of(kernel: Any) -> Any:
        # a kernel's hash is that of all that it calls, which is patched here
        if id(kernel) not in made:
            made[id(kernel)] = interpreter.InterpretedFunction(_with_names_of_its_own(kernel.fn))
        return made[id(kernel)]

    def run(kernel: Any, *arguments: Any, grid: Any, warmup: bool = False, **named: Any) -> Any:
        if warmup:
            return None
        own = of(kernel)
        return interpreter.GridExecutor(own.rewrite(), own.arg_names, grid)(*arguments, **named)

    def call(kernel: Any, *arguments: Any, **named: Any) -> Any:
        return of(kernel)(*arguments, **named)

    def bind(kernel: Any, held: Any, _kind: Any = None) -> Any:
        return functools.partial(call, kernel, held) if isinstance(held, tl.tensor) else kernel

    # to time kernels here would tell nothing
    def first(tuner: Any, *arguments: Any, **named: Any) -> Any:
        return tuner.fn.run(*arguments, **named, **tuner.configs[0].all_kwargs())

    tuner = triton.runtime.autotuner.Autotuner
    with _put_back([*_language(), jit, tuner]):
        interprets = knobs.interpret
        jit.run, jit.__call__, jit.__get__, tuner.run = run, call, bind, first
        knobs.interpret = True
        try:
            yield
        finally:
            knobs.interpret = interprets
            for own in made.values():
                own.rewritten_fn.pop(own.fn, None)


def _with_names_of_its_own(function: Any) -> Any:
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
    found: dict[int, Any] = {}
    for name in [
        name
        for name in sys.modules
        if name == "triton.language" or name.startswith("triton.language.")
    ]:
        module = sys.modules[name]
        found[id(module)] = module
        kinds = [own for own in vars(module).values() if isinstance(own, type)]
        found.update(
            (id(own), own) for own in kinds if own.__module__.startswith("triton.language")
        )
    return list(found.values())


@contextlib.contextmanager
def _put_back(places: list[Any]) -> Iterator[None]:
    """Let what these modules and classes hold be changed for as long as the context lasts."""
    before = [dict(vars(place)) for place in places]
    try:
        yield
    finally:
        for place, held in zip(places, before, strict=True):
            for name in [
                name
                for name, own in vars(place).items()
                if name not in held or held[name] is not own
            ]:
                if name in held:
                    setattr(place, name, held[name])
                else:
                    delattr(place, name)


# What a function's kernels do.


def written_in(code: list[Any] | None) -> bool:
    """Tell whether code, as `Suite.code_of` returns it, has a kernel of Triton's; True if the
    code is not known.
    """
    import ast

    if code is None:
        return True
    imported = {
        part.asname or part.name
        for part in code
        if isinstance(part, ast.alias) and part.name == "jit"
    }
    for part in (part for node in code for part in ast.walk(node)):
        used = [part.func] if isinstance(part, ast.Call) else getattr(part, "decorator_list", [])
        for name in used:
            if getattr(name, "attr", None) == "jit" or getattr(name, "id", None) in imported:
                return True
    return False


def outside(function: Any, way_back: bool, *arguments: Any) -> tuple[int, int] | None:
    """Return how many numbers kernels read and wrote outside of the tensors that they were given;
    None of no result.

    Kernels run in Triton's interpreter for this, on a GPU too, and it asks before it follows a
    pointer: what lies outside stays as it is, whatever a kernel does.

    Parameters
    ----------
    function : callable
        It launches kernels.
    way_back : bool
        Whether to go back through the result, too.
    arguments : tuple
        What it is called with; it gets copies of tensors.
    """
    import numpy as np
    import torch

    load()
    inside: list[tuple[int, int]] = []
    reads, writes = [0], [0]
    executor, memory = interpreter.GridExecutor, interpreter._interpreter
    bring = executor._init_args_hst

    def extent(own: Any) -> tuple[int, int]:
        size = 1 + sum(
            (length - 1) * step for length, step in zip(own.shape, own.stride(), strict=True)
        )
        return own.data_ptr(), own.data_ptr() + size * own.element_size()

    def brought(own: Any, *given: Any) -> Any:
        """Bring tensors to where kernels are interpreted, the CPU's memory, and note where they
        lie there.
        """
        positional, named = bring(own, *given)
        held = [getattr(one, "base", one) for one in (*positional, *named.values())]
        inside[:] = [extent(one) for one in held if isinstance(one, torch.Tensor) and one.numel()]
        return positional, named

    def allowed(places: Any, mask: Any, count: list[int]) -> Any:
        found = np.zeros(np.shape(places), bool)
        for begin, end in inside:
            found |= (places >= begin) & (places < end)
        count[0] += int((mask & ~found).sum())
        return mask & found

    class Watched:
        def load(self, places: Any, mask: Any, other: Any, kind: Any) -> Any:
            return memory.load(places, allowed(places, mask, reads), other, kind)

        def store(self, places: Any, value: Any, mask: Any) -> Any:
            return memory.store(places, value, allowed(places, mask, writes))

        def atomic_rmw(self, operation: Any, places: Any, value: Any, mask: Any, order: Any) -> Any:
            return memory.atomic_rmw(operation, places, value, allowed(places, mask, writes), order)

        def __getattr__(self, name: str) -> Any:
            return getattr(memory, name)

    given = [
        own.clone().requires_grad_(way_back) if isinstance(own, torch.Tensor) else own
        for own in arguments
    ]
    with interpreted():
        try:
            executor._init_args_hst, interpreter._interpreter = brought, Watched()
            result = function(*given)
            if way_back and isinstance(result, torch.Tensor) and result.requires_grad:
                result.backward(torch.ones_like(result))
        finally:
            executor._init_args_hst, interpreter._interpreter = bring, memory
    return None if result is None else (reads[0], writes[0])


def launches(function: Any, way_back: bool, *arguments: Any) -> tuple[bool, bool]:
    """Return whether a call launches kernels of Triton's, compiled or interpreted, and whether
    its way back does.
    """
    import torch

    load()
    count = [0]

    def counted(own: Any) -> Any:
        def launch(*arguments: Any, **named: Any) -> Any:
            count[0] += 1
            return own(*arguments, **named)

        return launch

    places = [(interpreter.GridExecutor, "__call__"), (triton.runtime.jit.JITFunction, "run")]
    given = [
        own.clone().requires_grad_(way_back) if isinstance(own, torch.Tensor) else own
        for own in arguments
    ]
    with _put_back([place for place, _ in places]):
        for place, name in places:
            setattr(place, name, counted(getattr(place, name)))
        result = function(*given)
        forward, count[0] = count[0], 0
        if way_back and isinstance(result, torch.Tensor) and result.requires_grad:
            result.sum().backward()
    return forward > 0, count[0] > 0


# Whether this machine can judge: the course's own code goes the ways that a student's would.


def trial(what: str) -> str:
    """Return why a check that needs `what` could not be judged on this machine, in one line; "" if
    it can be.

    Parameters
    ----------
    what : str
        "gpu", "triton", "bf16" or "compile".
    """
    try:
        TRIALS[what]()
    # a compiler, which has said on stderr what it lacks
    except subprocess.CalledProcessError as error:
        program = error.cmd if isinstance(error.cmd, str) else error.cmd[0]
        return f"{program} ended with status {error.returncode}"[:MOST_REASON]
    except Exception as error:
        said = next(iter(str(error).strip().splitlines()), "")
        return f"{type(error).__name__}: {said}"[:MOST_REASON].rstrip(": ")
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
    x = torch.ones(5, 16, device=device)
    if launches(_products, False, x) != (True, False):
        raise RuntimeError("launches of kernels are not seen")
    found = [outside(_products, False, x, guarded) for guarded in (True, False)]
    if found[0] != (0, 0):
        raise RuntimeError(f"a kernel that keeps to its tensors is said to leave them: {found[0]}")
    if found[1] is None or min(found[1]) <= 0:
        raise RuntimeError(f"a kernel that leaves its tensors is said to keep to them: {found[1]}")
    _launch(torch.float32, device)  # as before, after all of that


def _try_bf16() -> None:
    """Launch a kernel on the device in bfloat16."""
    import torch

    _launch(torch.bfloat16, "cuda")


def _launch(kind: Any, device: str) -> None:
    """Launch the trial's kernel, and compare."""
    import torch

    # sums are exact in any dtype
    x = (torch.arange(37 * 16, device=device).reshape(37, 16) % 7 - 3).to(kind)
    exact = x.double()
    own = exact @ exact.mT
    _expect(_products(x), torch.stack([own.amax(1), own.square().sum(1)], 1))


def _expect(found: Any, expected: Any) -> None:
    """Raise ArithmeticError unless two tensors agree."""
    gap = (found.detach().double().cpu() - expected.detach().double().cpu()).abs().max().item()
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
        own = tl.load(x + rows[:, None] * TILE + columns[None, :], mask=inside[:, None], other=0.0)
        top = tl.full((TILE,), float("-inf"), tl.float32)
        total = tl.zeros((TILE,), tl.float32)
        for start in range(0, n, TILE):
            others = start + columns
            tile = tl.load(
                x + others[:, None] * TILE + columns[None, :], mask=others[:, None] < n, other=0.0
            )
            products = tl.dot(own, tl.trans(tile), input_precision="ieee")
            top = tl.maximum(top, tl.max(tl.where(others[None, :] < n, products, float("-inf")), 1))
            total += tl.sum(_squared(products), 1)
        tl.store(out + rows * 2, top, mask=inside)
        tl.store(out + rows * 2 + 1, total, mask=inside)

    return kernel
