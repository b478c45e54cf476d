"""The least that running a notebook can cost: a fork of a warm shell, without a sandbox and without a judge.

Started by `cells.py`. Reads lines of JSON, each a notebook's code cells; forks for each, runs all cells, check cells
too, in the child's own shell, and writes a line with the seconds and the points. The first notebook is the rehearsal:
it runs in the parent itself, so that every import, every cache and the checks are warm in all forks.
"""

import contextlib
import gc
import json
import os
import sys
import time
import types

os.environ["MPLBACKEND"] = "module://matplotlib_inline.backend_inline"
os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"))

from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from traitlets.config import Config


class Shell(InteractiveShell):
    """A shell without a terminal."""

    def enable_gui(self, gui=None):
        """There is no window here."""


def make_shell():
    """Return an IPython shell that keeps no history on disk."""
    import torch

    torch.set_num_threads(1)
    config = Config()
    config.HistoryManager.enabled = False
    config.InteractiveShell.colors = "nocolor"
    main = types.ModuleType("__main__")
    sys.modules["__main__"] = main
    shell = Shell.instance(config=config, user_module=main, user_ns=main.__dict__)
    shell.run_line_magic("matplotlib", "inline")
    return shell


def draw_once_less(shell):
    """Leave out the drawing that pyplot adds after each cell and nobody sees, as ours does."""
    import matplotlib.pyplot as plt

    with contextlib.suppress(AttributeError, ValueError):
        shell.events.unregister("post_execute", plt._draw_all_if_interactive)


def run(shell, cells):
    """Run cells as a notebook does; return the points of the check cells, and how many bytes were put out."""
    points, size = {}, 0
    for cell in cells:
        with capture_output() as captured:
            done = shell.run_cell(cell["source"], store_history=True)
        outputs = [output._repr_mimebundle_() for output in captured.outputs]
        size += len(json.dumps([captured.stdout, captured.stderr, outputs], default=_text))
        if cell["check"]:
            value = done.result if done.success else 0.0
            points[cell["id"]] = float(value) if isinstance(value, (int, float)) else 0.0
    return {"points": points, "size": size}


def _text(value):
    import base64

    return base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)


def forked(shell, cells):
    """Run cells in a fork; return what came of it, and the seconds from the fork until it is all here."""
    start = time.perf_counter()
    ours, theirs = os.pipe()
    pid = os.fork()
    if not pid:
        os.close(ours)
        with os.fdopen(theirs, "w") as file:
            json.dump(run(shell, cells), file)
        os._exit(0)
    os.close(theirs)
    with os.fdopen(ours) as file:
        result = json.load(file)
    seconds = time.perf_counter() - start
    os.waitpid(pid, 0)
    return {**result, "seconds": seconds}


def main():
    """Rehearse the first notebook, and fork for each after it."""
    replies, sys.stdout = sys.stdout, open(os.devnull, "w")
    sys.path.insert(0, sys.argv[1])  # the released exercise, with its checks
    shell = make_shell()
    run(shell, json.loads(sys.stdin.readline()))
    shell.reset(new_session=True)
    draw_once_less(shell)
    gc.collect()
    gc.freeze()
    print("{}", file=replies, flush=True)
    for line in iter(sys.stdin.readline, ""):
        print(json.dumps(forked(shell, json.loads(line))), file=replies, flush=True)


if __name__ == "__main__":
    main()
