"""The engine: runs a restored notebook and leaves in each check cell exactly one outcome.

Here a submission runs in nbgrader's own kind of kernel, one cell after another. Whoever calls sees only
`execute`: a notebook, the exercise's folder and a seed go in, the notebook with outputs comes out.
"""

import asyncio
import contextlib
import math
import os
import shutil
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from subprocess import DEVNULL

import nbformat
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from nbclient.exceptions import CellTimeoutError, DeadKernelError

from checking import MIME

SECONDS_PER_CELL = 60


def execute(notebook, exercise, seed, extras=None, on_cell=lambda cell: None):
    """Run `notebook` in a folder of its own, beside the exercise's checks.

    Parameters
    ----------
    notebook : NotebookNode
        A restored notebook; its outputs are filled in.
    exercise : Exercise
        Its released folder gives the files beside the notebook.
    seed : int
        The seed of the checks' draws.
    extras : Path, optional
        A folder whose other files the student handed in as well.
    on_cell : callable, optional
        Called with each cell after it ran.

    Returns
    -------
    str
        Why the run ended early, or an empty string.
    """
    with tempfile.TemporaryDirectory(prefix="grading-") as name:
        folder = Path(name)
        if extras:
            shutil.copytree(extras, folder, dirs_exist_ok=True, ignore=_links_and_notebooks)
        shutil.copytree(
            exercise.released, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.ipynb", "__pycache__")
        )
        with ThreadPoolExecutor(1) as own:  # a thread of its own, because the caller may be inside an event loop
            ended = own.submit(asyncio.run, _run(notebook, folder, seed, on_cell)).result()
    for cell in notebook.cells:
        if is_check(cell):
            settle(cell, ended)
    return ended


def is_check(cell):
    """Tell whether a cell is a check cell: graded by running, worth points."""
    own = cell.metadata.get("nbgrader", {})
    return cell.cell_type == "code" and own.get("grade", False) and not own.get("solution", False)


def settle(cell, ended=""):
    """Leave in a check cell exactly one outcome that nbgrader reads as points: a number from 0 to its maximum."""
    most = float(cell.metadata.nbgrader.points)
    points = 0.0
    for output in cell.outputs:
        if output.output_type == "execute_result":
            with contextlib.suppress(ValueError, KeyError):
                points = float(output.data["text/plain"])
    if not math.isfinite(points) or not 0 <= points <= most or any(_is_error(out) for out in cell.outputs):
        points = 0.0
    cell.outputs = [out for out in cell.outputs if out.output_type in ("display_data", "stream", "error")]
    for output in cell.outputs:
        if output.output_type == "stream":
            output.name = "stdout"  # a warning is not a fault, and nbgrader takes stderr for one
        if output.output_type == "error":
            output.output_type, text = "stream", "\n".join(output.get("traceback", []))
            output.update(name="stdout", text=text or f"{output.get('ename')}: {output.get('evalue')}")
            for gone in ("ename", "evalue", "traceback"):
                output.pop(gone, None)
    if ended and not any(MIME in out.get("data", {}) for out in cell.outputs):
        cell.outputs.append(nbformat.v4.new_output("stream", name="stdout", text=f"Not run: {ended}\n"))
    result = nbformat.v4.new_output("execute_result", {"text/plain": repr(points)}, execution_count=None)
    cell.outputs.append(result)


def points_of(cell):
    """Return the points in a settled check cell, and the most it is worth."""
    earned = next(float(out.data["text/plain"]) for out in cell.outputs if out.output_type == "execute_result")
    return earned, float(cell.metadata.nbgrader.points)


def report_of(cell):
    """Return the checks' report in a settled check cell, or None."""
    for output in cell.outputs:
        report = output.get("data", {}).get(MIME)
        if isinstance(report, dict):
            return report
    return None


def _is_error(output):
    return output.output_type == "error"


def _links_and_notebooks(folder, names):
    return [name for name in names if name.endswith(".ipynb") or (Path(folder) / name).is_symlink()]


async def _run(notebook, folder, seed, on_cell):
    manager = AsyncKernelManager(connection_file=str(folder / ".kernel.json"))
    manager.kernel_spec.argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    client = NotebookClient(
        notebook,
        km=manager,
        timeout=SECONDS_PER_CELL,
        allow_errors=True,
        interrupt_on_timeout=False,
        resources={"metadata": {"path": str(folder)}},
    )
    # What the cells print goes into the notebook; what the kernel itself says has no place in our output.
    client.log.setLevel("CRITICAL")
    environment = {
        **os.environ,
        "CHECKING_SEED": str(seed),
        "MPLBACKEND": "module://matplotlib_inline.backend_inline",
    }
    ended = ""
    try:
        async with client.async_setup_kernel(env=environment, stdout=DEVNULL, stderr=DEVNULL):
            for place, cell in enumerate(notebook.cells):
                try:
                    await client.async_execute_cell(cell, place, store_history=True)
                except CellTimeoutError:
                    ended = f"the cell {cell.id} ran longer than {SECONDS_PER_CELL} seconds and was stopped."
                except DeadKernelError:
                    ended = f"the cell {cell.id} ended Python itself."
                on_cell(cell)
                if ended:
                    break
    except Exception as error:
        if not ended:
            raise RuntimeError(f"the kernel failed: {type(error).__name__}: {error}") from error
    finally:
        # nbclient leaves a kernel running that it did not make itself; asked politely, an endless loop would stay.
        if manager.has_kernel:
            await manager.shutdown_kernel(now=True)
    return ended
