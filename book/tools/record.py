"""Run the experiments of the book's pages again, and keep what they gave: see `records.py`.

    python book/tools/record.py                      # every experiment, into book/data/experiments/
    python book/tools/record.py 08-heads-deeper ...  # those of these pages

A page that measures time is refused while other programs use more than half of the machine's cores,
before or during the run. It runs again minutes later, until each cell that measures time has given
the same times to a tenth in two runs: what disturbs a machine for a while does not show in the work
of programs. The record says how many minutes two such runs were apart at least (`minutes`) and what
share they differ by at most (`differ`), and the page says it. A record that is refused stays as it
was.
"""

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

# the most that other programs may use where times are recorded, as a share of the machine's cores
BUSY = 0.5
LOOK = 2  # the seconds for which they are watched before
WAIT = 90  # the seconds between two runs of a page that measures time
RUNS = 10  # the most runs of such a page
AGREE = 0.1  # the share by which a time may differ between two runs


def records_time(notebook):
    """Tell whether a page records times: with a cell tagged `clock` and `recorded`."""
    return any({"clock", records.TAG} <= records.tags(cell) for cell in notebook.cells)


def watch_others():
    """Return a function that returns how many cores other programs have used since now, on average.

    The load average says it only minutes later, and counts this program as well.
    """

    def worked():
        spent = psutil.cpu_times()
        waited = [getattr(spent, name, 0.0) for name in ("idle", "iowait", "guest", "guest_nice")]
        # `os.times`: our own, and our children's that ended
        return sum(spent) - sum(waited) - sum(os.times()[:4])

    began, start = worked(), time.perf_counter()
    return lambda: max(0.0, (worked() - began) / (time.perf_counter() - start))


class Refused(Exception):
    """A page is not recorded, for the reason in the message."""


def run(page, timed):
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

    used = watch_others()
    time.sleep(LOOK if timed else 0)
    refuse_if_busy(used())
    used = watch_others()
    with tempfile.TemporaryDirectory() as folder:
        made, seconds, fault = run_pages.execute(page, anew=True, into=folder)
        if fault:
            raise Refused(fault.said)
        others = used()
        refuse_if_busy(others)
        kept = records.read(page.stem, folder)
    kept["made"]["others"] = round(others, 2)
    return made, seconds, kept


def times_of(notebook, kept):
    """Return what each clock cell timed: its fractional numbers, by the cell's number and by
    their name.
    """
    times = {}
    for number, cell in records.cells_of(notebook).items():
        if "clock" in records.tags(cell):
            times[number] = {}
            for path, value in records.parts(
                records.decoded(kept["cells"][number]["values"]), f"cell {number} "
            ):
                if (array := np.asarray(value)).dtype.kind == "f":
                    times[number] |= {
                        f"{path} {place}": one
                        for place, one in enumerate(array.reshape(-1).tolist())
                    }
    return times


def difference(first, second):
    """Return the largest share by which two runs' times differ, and where that is."""
    if first.keys() != second.keys():
        return math.inf, "the number of times"
    shares = {
        path: abs(a - b) / max(abs(a), abs(b))
        for path, a in first.items()
        if a != (b := second[path])
    }
    return max(((share, path) for path, share in shares.items()), default=(0.0, ""))


class Agreement(NamedTuple):
    """Two runs in which a cell's times agree: seconds between them, the share by which they
    differ, what is kept.
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
        made, seconds, kept = run(page, timed=True)
        now, times = time.time(), times_of(notebook, kept)
        for number in sorted(times.keys() - agreed.keys()):
            differences = [
                (difference(earlier[number], times[number]), ended)
                for ended, earlier in earlier_runs
            ]
            if not differences:  # the first run
                continue
            (share, path), ended = min(differences)  # the run that is most alike
            if share <= AGREE:
                agreed[number] = Agreement(now - ended, share, kept["cells"][number])
            else:
                console.print(
                    f"{page.stem}: two runs differ by {share:.0%} in {path}",
                    markup=False,
                    soft_wrap=True,
                )
        if agreed.keys() == times.keys():  # the last run is kept, but each cell of it as it agreed
            for number, agreement in agreed.items():
                kept["cells"][number] = agreement.cell
            kept["made"]["minutes"] = round(
                min(agreement.seconds for agreement in agreed.values()) / 60, 1
            )
            kept["made"]["differ"] = round(max(agreement.share for agreement in agreed.values()), 3)
            return made, seconds, kept
        earlier_runs.append((now, times))
    raise Refused(
        f"{page.stem}: no two of {RUNS} runs gave times that agree within {AGREE:.0%}. Its record "
        "is as it was."
    )


def make(page, notebook, console):
    """Make the experiments of a page anew; return what there is to say, in lines.

    Raises
    ------
    Refused
        As `run` and `run_until_times_agree`. The record is as it was.
    """
    timed = records_time(notebook)
    # How busy the machine is does not matter to results without times.
    made, seconds, kept = (
        run_until_times_agree(page, notebook, console) if timed else run(page, timed=False)
    )
    records.put(page.stem, kept)
    lines = [f"{page.stem}: {seconds:.0f} s"]
    for cell in records.cells_of(made).values():
        if wrote := records.printed(cell, "stderr").strip():
            where = run_pages.place(page, made, cell)
            lines.append(
                f"{where}: it also wrote to stderr, which is not kept: {wrote.splitlines()[0]}"
            )
    return lines


def main():
    """Make the experiments anew; return the exit status."""
    console = Console(highlight=False)
    named = [Path(name).stem for name in sys.argv[1:]]
    having = {
        page.stem: page for page in run_pages.pages() if records.cells_of(run_pages.read(page))
    }
    if unknown := [name for name in named if name not in having]:
        console.print(
            f"{unknown[0]} has no recorded cell; those that have: {', '.join(having) or 'none'}."
        )
        return 2
    fine = True
    for name in named or having:
        with console.status(f"{name} …"):
            try:
                lines = make(having[name], run_pages.read(having[name]), console)
            except Refused as refused:
                fine, lines = False, [str(refused)]
        for line in lines:
            console.print(line, markup=False, soft_wrap=True)
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
