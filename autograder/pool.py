"""The worker processes of a batch: how they start, and where they work. Light to import, so that they start first."""

import multiprocessing
import os
import re
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import forkserver
from pathlib import Path


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
    texts = [path.read_text() for name in exercises for path in Path(root, "exercises", name).glob("*.py")]
    torch = any(re.search(r"^\s*(import|from) torch\b", text, re.MULTILINE) for text in texts)
    if hasattr(os, "fork"):
        forkserver.set_forkserver_preload(["autograder.work", *(["torch"] if torch else [])])
        forkserver.ensure_running()


def start(jobs, setting):
    """Return an executor with `jobs` worker processes."""
    from autograder import work

    context = multiprocessing.get_context("forkserver" if hasattr(os, "fork") else "spawn")
    return ProcessPoolExecutor(jobs, mp_context=context, initializer=work.start, initargs=(setting,))
