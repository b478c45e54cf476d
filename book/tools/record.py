"""Run the experiments of the book's pages again, and keep their results: see `records.py`.

    python book/tools/record.py                      # every experiment, into book/data/experiments/
    python book/tools/record.py 08-heads-deeper ...  # those of these pages

A page that measures time is refused while other programs use more than half of the machine's cores,
before or during the run. It runs again minutes later, until each cell that measures time has given
the same times to a tenth in two runs: what disturbs a machine for a while does not show in the work
of programs. The record says how many minutes two such runs were apart at least (`minutes`) and what
share they differ by at most (`differ`), and the page says it. A record that is refused stays as it
was.
"""

import copy
import math
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import psutil
import records
import run_pages
from rich.console import Console

# The most that other programs may use while times are measured, as a share of the machine's cores.
BUSY = 0.5
LOOK = 2  # seconds for which other programs are watched before a run
WAIT = 90  # seconds between two runs of a page that measures time
RUNS = 10  # the most runs of such a page
AGREE = 0.1  # the share by which a time may differ between two runs


def records_time(notebook):
    """Tell whether a page records times: with a cell tagged `clock` and `recorded`."""
    return any({"clock", records.TAG} <= records.tags(cell) for cell in notebook.cells)


def watch_others():
    """Return a function that returns how many cores other programs have used since now, on average.

    The load average follows only minutes later, and counts this program as well.
    """

    def processor_seconds():
        times = psutil.cpu_times()
        # Linux counts the time of guests in "user" and "nice" as well.
        idle = [getattr(times, name, 0.0) for name in ("idle", "iowait", "guest", "guest_nice")]
        # `os.times`: our own, and our children's that ended
        return sum(times) - sum(idle) - sum(os.times()[:4])

    seconds, start = processor_seconds(), time.perf_counter()

    def cores():
        return max(0.0, (processor_seconds() - seconds) / (time.perf_counter() - start))

    return cores


class Refused(Exception):
    """A page is not recorded, for the reason in the message."""


def run(page, notebook, timed):
    """Run a page's experiments once; return the notebook, the seconds that it took, and the record.

    Raises
    ------
    Refused
        If the page fails, or measures time on a busy machine.
    """
    cores = os.cpu_count()

    def refuse_if_busy(used):
        if timed and used > BUSY * cores:
            raise Refused(
                f"{page.stem} measures time, and other programs use {used:.1f} of {cores} cores, "
                f"more than {BUSY * cores:g}. Its record is as it was. Wait, or end them, and run "
                "this again."
            )

    cores_used = watch_others()  # a function: the mean since this call
    time.sleep(LOOK if timed else 0)
    refuse_if_busy(cores_used())
    cores_used = watch_others()
    with tempfile.TemporaryDirectory() as folder:
        notebook, seconds, failure = run_pages.execute(page, notebook, rerun=True, folder=folder)
        if failure:
            raise Refused(failure.message)
        others = cores_used()
        refuse_if_busy(others)
        record = records.read(page.stem, folder)
    record["made"]["others"] = round(others, 2)  # the cores that other programs used
    return notebook, seconds, record


def times_of(notebook, record):
    """Return what each clock cell timed: its fractional numbers, by the cell's number and by
    their name.
    """
    times = {}
    for number, cell in records.cells_of(notebook).items():
        if "clock" not in records.tags(cell):
            continue
        times[number] = {}
        values = records.decoded(record["cells"][number]["values"])
        for path, value in records.parts(values, f"cell {number} "):
            array = np.asarray(value)
            if array.dtype.kind == "f":  # whole numbers, such as lengths, are no times
                for index, seconds in enumerate(array.reshape(-1).tolist()):
                    times[number][f"{path} {index}"] = seconds
    return times


def difference(first, second):
    """Return the largest share by which two runs' times differ, and where that is."""
    if first.keys() != second.keys():
        return math.inf, "the number of times"
    largest = 0.0, ""
    for path, a in first.items():
        b = second[path]
        if a != b:
            largest = max(largest, (abs(a - b) / max(abs(a), abs(b)), path))
    return largest


class Agreement(NamedTuple):
    """Two runs in which a cell's times agree: seconds between them, the share by which they
    differ, and the cell's part of the record.
    """

    seconds: float
    share: float
    cell: dict


def run_until_times_agree(page, notebook, console):
    """Run a page that measures time until each of its clock cells agrees in two runs; return what
    `run` does.

    Of each clock cell, the record has what the second of the two runs gave.

    Raises
    ------
    Refused
        If a cell agrees in no two of the runs, or as `run`.
    """
    earlier_runs = []  # when each ended, and its times
    agreed = {}  # of each cell, by its number, the two runs that agree
    while len(earlier_runs) < RUNS:
        time.sleep(WAIT if earlier_runs else 0)
        executed, seconds, record = run(page, copy.deepcopy(notebook), timed=True)
        now, times = time.time(), times_of(notebook, record)
        for number in sorted(times.keys() - agreed.keys()) if earlier_runs else ():
            share, path, ended = most_alike(times[number], number, earlier_runs)
            if share <= AGREE:
                agreed[number] = Agreement(now - ended, share, record["cells"][number])
            else:
                console.print(
                    f"{page.stem}: two runs differ by {share:.0%} in {path}",
                    markup=False,
                    soft_wrap=True,
                )
        if agreed.keys() == times.keys():
            keep_agreed(record, agreed)
            return executed, seconds, record
        earlier_runs.append((now, times))
    raise Refused(
        f"{page.stem}: no two of {RUNS} runs gave times that agree within {AGREE:.0%}. Its record "
        "is as it was."
    )


def most_alike(times, number, earlier_runs):
    """Compare a cell's times with those of the earlier run that is most alike; return the share by
    which they differ, where, and when that run ended.
    """
    candidates = []
    for ended, earlier in earlier_runs:
        share, path = difference(earlier[number], times)
        candidates.append((share, path, ended))
    return min(candidates)


def keep_agreed(record, agreed):
    """Give the record of the last run each cell as it agreed, and how well the runs agree."""
    for number, agreement in agreed.items():
        record["cells"][number] = agreement.cell
    least_seconds = min(agreement.seconds for agreement in agreed.values())
    largest_share = max(agreement.share for agreement in agreed.values())
    record["made"]["minutes"] = round(least_seconds / 60, 1)
    record["made"]["differ"] = round(largest_share, 3)


def rerun(page, notebook, console):
    """Run the experiments of a page again and write its record; return lines to print.

    Raises
    ------
    Refused
        As `run` and `run_until_times_agree`. The record is as it was.
    """
    if records_time(notebook):
        executed, seconds, record = run_until_times_agree(page, notebook, console)
    else:  # how busy the machine is does not matter to results without times
        executed, seconds, record = run(page, notebook, timed=False)
    records.store_record(page.stem, record)
    lines = [f"{page.stem}: {seconds:.0f} s"]
    for cell in records.cells_of(executed).values():
        warnings = records.printed(cell, "stderr").strip()
        if warnings:
            where = run_pages.location(page, executed, cell)
            lines.append(
                f"{where}: it also wrote to stderr, which is not kept: {warnings.splitlines()[0]}"
            )
    return lines


def main():
    """Run the experiments again; return the exit status."""
    console = Console(highlight=False)
    names = [Path(name).stem for name in sys.argv[1:]]
    notebooks = {page: run_pages.read(page) for page in run_pages.pages()}
    pages = {page.stem: page for page, notebook in notebooks.items() if records.cells_of(notebook)}
    unknown = [name for name in names if name not in pages]
    if unknown:
        console.print(
            f"{unknown[0]} has no recorded cell; those that have: {', '.join(pages) or 'none'}."
        )
        return 2
    status = 0
    for name in names or pages:
        with console.status(f"{name} …"):
            try:
                lines = rerun(pages[name], notebooks[pages[name]], console)
            except Refused as refused:
                status, lines = 1, [str(refused)]
        for line in lines:
            console.print(line, markup=False, soft_wrap=True)
    return status


if __name__ == "__main__":
    sys.exit(main())
