"""What tests leave running: sandboxes, and workers of pools."""

import contextlib
import os
import time

import psutil
import pytest

LEFT_SECONDS = 15  # for what a test started to end by itself, on a busy machine
# What a test starts inherits its environment, wherever in the tree of processes it ends up.
STARTED_BY = "TESTS_OF_PROCESS"


def still_running():
    """Return the sandboxes and workers that tests of this process started and that still run:
    {process: its test}.
    """
    mine, running = set(psutil.Process().children(recursive=True)), {}
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.status() == psutil.STATUS_ZOMBIE or not (
                process.name() == "bwrap" or _is_worker(process)
            ):
                continue
            try:
                environment = process.environ()
            except psutil.AccessDenied:  # an ordinary user may not look into a process in a sandbox
                environment = {}
            if process in mine or environment.get(STARTED_BY) == os.environ[STARTED_BY]:
                running[process] = environment.get("PYTEST_CURRENT_TEST", "")
    return running


def _is_worker(process):
    """Tell whether a process was forked by a fork server; the server itself lives as long as who
    started it.
    """
    if not process.name().startswith("python"):
        return False
    return all(
        "multiprocessing.forkserver" in " ".join(member.cmdline())
        for member in (process, process.parent())
        if member
    )


def assert_nothing_left(before, seconds=LEFT_SECONDS):
    """Wait for what was started since `before` to end; end what does not, and fail with the
    names of its tests.
    """
    deadline = time.monotonic() + seconds
    while True:
        running = still_running()
        survivors = {process: running[process] for process in running.keys() - before.keys()}
        if not survivors or time.monotonic() >= deadline:
            break
        time.sleep(0.1)
    lines = [
        f"process {process.pid} ({process.name()}), started in {test}"
        for process, test in survivors.items()
    ]
    for process in survivors:
        with contextlib.suppress(psutil.Error):
            process.kill()
    if lines:
        pytest.fail(f"still running after {seconds} s: {'; '.join(lines)}", pytrace=False)
