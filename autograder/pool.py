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


def preload(setting):
    """Begin to load what workers need, once for all of them, while this process does other things.

    Returns
    -------
    Nursery or None
        Where the workers' guests will come from, if they are isolated.
    """
    texts, imports = [], []
    for name in setting.exercises:
        folder = Path(setting.root, "exercises", name)
        texts += [path.read_text(encoding="utf-8") for path in folder.glob("*.py")]
        imports += _imports(folder / f"{name}.ipynb")
    torch = any(re.search(r"^\s*(import|from) torch\b", text, re.MULTILINE) for text in texts)
    if hasattr(os, "fork"):
        forkserver.set_forkserver_preload(["autograder.work", *(["torch"] if torch else [])])
        forkserver.ensure_running()
    if not setting.sandbox:
        return None
    from autograder.sandbox import Nursery

    nursery = Nursery(setting.limits, dict.fromkeys(imports), setting.hidden)
    nursery.start()
    return nursery


def _imports(path):
    """Return the modules that a released notebook's locked cells import."""
    try:
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    except (OSError, ValueError, KeyError):
        return []
    locked = [cell for cell in cells if not cell["metadata"].get("nbgrader", {}).get("solution")]
    code = "\n".join("".join(cell["source"]) for cell in locked if cell["cell_type"] == "code")
    return [name for name in re.findall(r"^(?:import|from) ([\w.]+)", code, re.MULTILINE) if name not in OURS]


def start(jobs, setting, nursery):
    """Return an executor with `jobs` worker processes."""
    from autograder import work

    context = multiprocessing.get_context("forkserver" if hasattr(os, "fork") else "spawn")
    lanes = [nursery.lane() for _ in range(jobs)] if nursery else []
    initargs = (setting, lanes, context.Value("i", 0))
    return ProcessPoolExecutor(jobs, mp_context=context, initializer=work.start, initargs=initargs)
