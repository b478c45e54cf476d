"""The worker processes of a batch: how they start, and where they work. Light to import, so that they start first."""

import json
import multiprocessing
import os
import re
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


def start(jobs, setting, parent):
    """Return an executor with `jobs` worker processes."""
    from autograder import work

    context = multiprocessing.get_context("forkserver" if hasattr(os, "fork") else "spawn")
    lanes = [parent.lane() for _ in range(jobs)] if parent else []
    initargs = (setting, lanes, context.Value("i", 0))
    return ProcessPoolExecutor(jobs, mp_context=context, initializer=work.start, initargs=initargs)
