"""Compile the kernels with many block sizes for an H100, without one: `python
benchmarks/gpu_compile.py`.

It writes `compiled.json`, one row for each: the registers of a thread, its local memory (what did
not fit into registers), and the chip's shared memory. So a GPU's time is spent only on those that
can be fast: `python benchmarks/gpu.py tuning` tries those that `worth_trying` returns.
"""

import argparse
import ast
import hashlib
import itertools
import json
import subprocess
import sys
import tempfile
from concurrent.futures import as_completed
from pathlib import Path

from gpu_needs import Absent

HERE = Path(__file__).resolve().parent
COMPILED = HERE / "compiled.json"
KERNELS = {"forward": "_forward", "queries": "_backward_queries", "keys": "_backward_keys"}
WIDTHS = (64, 128)  # of a head; narrower ones take the block sizes of 64
PATIENCE = 300  # seconds for one, on a machine that may be busy
NAMES = ("kernel", "bytes", "d_head", "queries", "keys", "warps", "stages")  # of what is compiled
CAPABILITY = 90  # an H100's, and an H200's
# What a multiprocessor has; one program may take 227 KB, and one thread 255 registers.
REGISTERS, SHARED, WARPS = 65536, 228 * 1024, 64
SPILLED = 256  # bytes of a thread's local memory, up to which a kernel is worth trying
RESERVED = 1024  # bytes of shared memory that each program takes in addition


def candidates():
    """Return what to compile: (kernel, bytes of a number, width of a head, queries, keys, warps,
    stages) each.
    """
    found = []
    for size, width, kernel in itertools.product((2, 4), WIDTHS, KERNELS):
        # Products of float32 need many registers: smaller tiles, and no pipeline.
        rows, columns = ((64, 128), (32, 64, 128)) if size == 2 else ((32, 64), (16, 32, 64))
        stages = (2, 3, 4) if size == 2 else (1,)
        for own, other, warps, depth in itertools.product(rows, columns, (4, 8), stages):
            # A program owns rows: of queries, but of keys in the kernel for dK and dV.
            queries, keys = (other, own) if kernel == "keys" else (own, other)
            found.append((kernel, size, width, queries, keys, warps, depth))
    return found


def tuned():
    """Return the block sizes of `flash_attention.TUNED`, in the same form."""
    import flash_attention

    found = []
    for (kernel, size), blocks in flash_attention.TUNED.items():
        found += [(kernel, size, width, *blocks[width]) for width in WIDTHS]
    return found


def compiled(kernel, size, width, queries, keys, warps, stages, causal=True):
    """Compile one kernel for an H100; return what Triton made of it.

    Parameters
    ----------
    kernel : str
        One of `KERNELS`.
    size : int
        Bytes of a number: 2 (bfloat16) or 4 (float32).
    width : int
        Of a head.
    queries, keys, warps, stages : int
        As in `flash_attention.Blocks`.
    """
    import flash_attention as kernels
    import torch

    blocks = kernels.Blocks(queries, keys, warps, stages)
    options = kernels._options(*torch.empty(2, 1, 1, 8, width), causal, blocks)
    constants = {key: value for key, value in options.items() if key.isupper()}
    return for_h100(
        getattr(kernels, KERNELS[kernel]), constants, size, num_warps=warps, num_stages=stages
    )


def step(kernel, width):
    """Compile the fastest step of a kernel in `variants.py`, causal, in bfloat16; return what
    Triton made of it.
    """
    import variants

    made = {"forward": variants._forward_described, "queries": variants._queries_described}
    flags = {"forward": {"PERSISTENT": False}, "keys": {"ONE_PASS": False}}.get(kernel, {})
    blocks = variants.FASTEST[kernel, width]
    flags |= {"CAUSAL": True, "D": width, "BLOCK_Q": blocks.queries, "BLOCK_K": blocks.keys}
    flags |= {"ACROSS": True}
    launch = {"num_warps": blocks.warps, "num_stages": blocks.stages, "maxnreg": blocks.registers}
    return for_h100(made.get(kernel, variants._keys_described), flags, 2, **launch)


def gluon(kernel, width, blocks):
    """Compile a kernel of `hopper.py`, causal, in bfloat16; return what Triton made of it."""
    import hopper

    shape = {"CAUSAL": True, "D": width, "BLOCK_K": blocks.keys, "STAGES": blocks.stages}
    if kernel == "forward":
        return for_h100(hopper._forward, shape | {"GROUPS": blocks.queries // 64}, 2, num_warps=4)
    return for_h100(
        hopper._backward_keys, shape | {"BLOCK_Q": blocks.queries}, 2, num_warps=blocks.warps
    )


def paged(kernel, page_size, width, blocks, group=4):
    """Compile a kernel of `paged.py`, "decode" or "merge", in bfloat16, for 8 key heads; return
    what Triton made of it.
    """
    import paged

    constants = {"D_V": width, "BLOCK_D_V": width}
    if kernel == "merge":
        return for_h100(
            paged._merge, constants | {"PARTS": 16}, 2, {"parts": "i32", "partial": "*fp32"}
        )
    constants |= {"GROUP": group, "BLOCK_G": max(16, group), "D_K": width, "BLOCK_D_K": width}
    constants |= {"HEADS_KV": 8, "PAGE": page_size, "BLOCK_K": blocks.keys}
    kinds = {"max_pages": "i32", "out": "*fp32", "table": "*i32", "lengths": "*i32"}
    launch = {"num_warps": blocks.warps, "num_stages": blocks.stages}
    return for_h100(paged._decode, constants, 2, kinds, **launch)


def for_h100(made, constants, size, others=(), **launch):
    """Compile a kernel for an H100 with these constants; its numbers have 2 bytes (bfloat16) or
    4 (float32).

    `others` has the types of arguments that are no matrix of such numbers.
    """
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource
    from triton.experimental.gluon._runtime import GluonASTSource

    kinds = dict.fromkeys(("n_q", "n_k", "heads", "together"), "i32")
    kinds |= {"scale": "fp32", "lse": "*fp32", "delta": "*fp32", **dict(others)}
    matrix = "*bf16" if size == 2 else "*fp32"
    types = {
        key: "constexpr" if key in constants else kinds.get(key, matrix) for key in made.arg_names
    }
    aligned = [number for number, key in enumerate(types) if types[key].startswith("*")]
    kind = GluonASTSource if made.is_gluon() else ASTSource
    # As Triton finds when it launches a kernel: PyTorch's memory begins at multiples of 16 bytes.
    attributes = {(number,): [["tt.divisibility", 16]] for number in aligned}
    source = kind(made, types, constants, attributes)
    return triton.compile(source, target=GPUTarget("cuda", CAPABILITY, 32), options=launch)


def resources(made):
    """Return (registers of a thread, bytes of its local memory) of a compiled kernel, by
    Triton's own cuobjdump.
    """
    import triton

    program = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(made.asm["cubin"])
        file.flush()
        command = [str(program), "--dump-resource-usage", file.name]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    # Such as "Function _forward: REG:168 STACK:0 SHARED:0 ...", after a line on all functions.
    words = said.partition("Function ")[2].split()
    usage = dict(word.split(":") for word in words if word.count(":") == 1)
    return int(usage["REG"]), int(usage["STACK"])


def usage_of(kernel, size, width, queries, keys, warps, stages):
    """Compile one kernel, and return what it takes: a part of its row of `compiled.json`."""
    made = compiled(kernel, size, width, queries, keys, warps, stages)
    registers, local = resources(made)
    return {"shared_bytes": made.metadata.shared, "registers": registers, "local_bytes": local}


def programs(row):
    """Return how many programs of a kernel a multiprocessor runs at one time, and what runs out
    first.

    Returns
    -------
    count : int
        0 where one asks for more shared memory than there is.
    limit : str
        "registers", "shared memory" or "warps".
    """
    registers = -(-row["registers"] // 8) * 8 * 32  # of a warp: given out by 8 for each thread
    counts = {
        "registers": REGISTERS // registers // row["warps"],
        "shared memory": SHARED // (row["shared_bytes"] + RESERVED),
        "warps": WARPS // row["warps"],
    }
    limit = min(counts, key=counts.get)
    return counts[limit], limit


def worth_trying(record, kernel, size, width):
    """Return the rows whose kernel fits the chip, and spills at most `SPILLED` bytes, or at most
    twice as many as the one that spills the least.

    Spilling a little costs little: of the fastest kernels on an H100, one spills 152 bytes.
    """
    same = {"kernel": kernel, "bytes": size, "d_head": width}
    rows = [row for row in record["rows"] if all(row[key] == value for key, value in same.items())]
    rows = [row for row in rows if row.get("registers") and programs(row)[0]]
    most = max(SPILLED, 2 * min((row["local_bytes"] for row in rows), default=0))
    return [row for row in rows if row["local_bytes"] <= most]


def read(path=COMPILED):
    """Return the record; raise Absent if there is none."""
    if not path.exists():
        raise Absent(f"{path.name} is not there: python benchmarks/gpu_compile.py makes it")
    return json.loads(path.read_text(encoding="utf-8"))


def limits(record):
    """Return lines on the kernels as they are: how many programs a multiprocessor holds, and
    what bounds that.
    """
    lines = []
    for row in record["rows"]:
        if row.get("tuned"):
            count, limit = programs(row)
            spilled = f", {row['local_bytes']} bytes of a thread spilled" * bool(row["local_bytes"])
            lines.append(
                f"{row['kernel']:8} {row['bytes']} bytes, d = {row['d_head']:3}: {row['queries']} "
                f"x {row['keys']}, {row['warps']} warps: {count} at a time, for want of {limit} "
                f"({row['registers']} registers, {row['shared_bytes'] // 1024} KB{spilled})"
            )
    return lines


def digests():
    """Return a fingerprint of the code in each file that is measured: results of other code are
    not results of this one.
    """
    files = {"kernels": "flash_attention.py", "layer_code": "multi_head_layer.py"}
    files |= {"steps_code": "variants.py", "gluon_code": "hopper.py", "paged_code": "paged.py"}
    return {key: _digest((HERE / name).read_text("utf-8")) for key, name in files.items()}


def of_kernels():
    """Return a fingerprint of the kernels alone, without the block sizes that they are given."""
    text = (HERE / "flash_attention.py").read_text(encoding="utf-8")
    lines, kernels = text.split("\n"), []
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef) and node.decorator_list:
            kernels += lines[node.decorator_list[0].lineno - 1 : node.end_lineno]
    return _digest("\n".join(kernels))


def _digest(code):
    """Return a fingerprint of code, whatever its comments and docstrings say."""
    from autograder.authoring.code_tokens import plain

    return hashlib.sha256(plain(code).encode()).hexdigest()[:16]


def main():
    """Compile all, and write the record."""
    import triton
    from pebble import ProcessPool
    from rich.console import Console
    from rich.progress import track

    from autograder.authoring import json_entries

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=2, help="how many to compile at one time")
    parser.add_argument("--record", type=Path, default=COMPILED, help="the file of results")
    options = parser.parse_args()
    todo, rows = list(dict.fromkeys([*candidates(), *tuned()])), {}
    with ProcessPool(max_workers=options.jobs) as pool:
        futures = {pool.schedule(usage_of, args=one, timeout=PATIENCE): one for one in todo}
        shown = track(
            as_completed(futures), "compiling", len(futures), console=Console(stderr=True)
        )
        for future in shown:
            one = futures[future]
            try:
                found = future.result()
            except TimeoutError:
                found = {"why": f"not compiled within {PATIENCE} s"}
            except Exception as error:  # Triton raises many kinds; the other kernels go on
                found = {"why": f"{type(error).__name__}: {error}"[:120]}
            rows[one] = dict(zip(NAMES, one, strict=True)) | found
    for one in tuned():
        rows[one]["tuned"] = True
    about = {"target": f"sm_{CAPABILITY}", "triton": triton.__version__, "kernels": of_kernels()}
    json_entries.write(options.record, about | {"rows": [rows[one] for one in todo]}, levels=1)
    record = read(options.record)
    groups = itertools.product(KERNELS, (2, 4), WIDTHS)
    print(
        f"{len(todo)} compiled, {sum(len(worth_trying(record, *group)) for group in groups)} "
        "worth trying"
    )


if __name__ == "__main__":
    sys.exit(main())
