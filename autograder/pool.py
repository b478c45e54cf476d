"""The worker processes of a batch: how they start, and where they work. Light to import, so that they start first."""

import json
import multiprocessing
import os
import pickle
import re
import secrets
import shutil
import tempfile
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import forkserver
from pathlib import Path

OURS = ("checks", "misconceptions", "checking")


@dataclass(frozen=True)
class Setting:
    """Where a worker works: the course, its limits, whether guests are isolated, and what they must not see."""

    root: str
    exercises: tuple
    limits: dict
    sandbox: bool
    hidden: tuple = ()


def preload(root, exercises):
    """Begin to load what workers need, once for all of them, while this process does other things."""
    if not hasattr(os, "fork"):
        return
    texts = [path.read_text(encoding="utf-8") for name in exercises for path in Path(root, name).glob("*.py")]
    torch = any(re.search(r"^\s*(import|from) torch\b", text, re.MULTILINE) for text in texts)
    forkserver.set_forkserver_preload(["autograder.work", *(["torch"] if torch else [])])
    forkserver.ensure_running()


def nursery(setting):
    """Return where the workers' guests will come from, which begins to warm up; None if they are not isolated."""
    if not setting.sandbox:
        return None
    from autograder.sandbox import Nursery

    found = [_imports(Path(setting.root, "exercises", name, f"{name}.ipynb")) for name in setting.exercises]
    own = Nursery(setting.limits, dict.fromkeys(name for names in found for name in names), setting.hidden)
    own.start()
    return own


def _imports(path):
    """Return the modules that a released notebook's locked cells import."""
    try:
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    except (OSError, ValueError, KeyError):
        return []
    locked = [cell for cell in cells if not cell["metadata"].get("nbgrader", {}).get("solution")]
    code = "\n".join("".join(cell["source"]) for cell in locked if cell["cell_type"] == "code")
    return [name for name in re.findall(r"^(?:import|from) ([\w.]+)", code, re.MULTILINE) if name not in OURS]


class Workers:
    """Worker processes. What they are given and what they answer crosses in files; their queues carry names alone.

    A process killed in the middle of a long message would leave the others waiting for the rest of it for ever. A
    name is written whole or not at all (POSIX: up to 512 bytes, `PIPE_BUF`).
    """

    def __init__(self, jobs, setting, parent):
        from autograder import work

        context = multiprocessing.get_context("forkserver" if hasattr(os, "fork") else "spawn")
        lanes = [parent.lane() for _ in range(jobs)] if parent else []
        self.folder = Path(tempfile.mkdtemp(prefix="autograder-"))
        initargs = (setting, lanes, context.Value("i", 0), self.folder)
        self.executor = ProcessPoolExecutor(jobs, mp_context=context, initializer=work.start, initargs=initargs)

    def submit(self, name, *arguments):
        """Have a worker call its own method `name`; return the future, for `result`."""
        from autograder import work

        path = self.folder / secrets.token_hex(8)
        path.write_bytes(pickle.dumps((name, arguments)))
        return self.executor.submit(work.call, path)

    def result(self, future):
        """Return what the call returned, or raise what it raised."""
        path = future.result()
        answer = pickle.loads(path.read_bytes())
        path.unlink()
        if isinstance(answer, Exception):
            raise answer
        return answer

    def close(self):
        """Let the workers end, and forget what was under way."""
        self.executor.shutdown(wait=False, cancel_futures=True)
        shutil.rmtree(self.folder, ignore_errors=True)
