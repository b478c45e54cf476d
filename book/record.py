"""Run the experiments of the book's pages again, and keep what they gave: see `records.py`.

    python book/record.py                      # every experiment, into book/data/experiments/
    python book/record.py 08-heads-deeper ...  # those of these pages

A page that measures time is refused while other programs use more than half of the machine's cores, before or during
the run: its record stays as it was. The record says how many they used (`others`), and the page says it.
"""

import os
import sys
import tempfile
import time
from pathlib import Path

import psutil
import records
import run_pages
from rich.console import Console

BUSY = 0.5  # the most that other programs may use where times are recorded, as a share of the machine's cores
LOOK = 2  # the seconds for which they are watched before


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
        return sum(spent) - sum(waited) - sum(os.times()[:4])  # `os.times`: our own, and our children's that ended

    began, start = worked(), time.perf_counter()
    return lambda: max(0.0, (worked() - began) / (time.perf_counter() - start))


def make(page, notebook):
    """Make the experiments of a page anew; return whether they are recorded, and what there is to say, in lines."""
    cores = os.cpu_count()

    def refused(used):
        said = f"{page.stem} measures time, and other programs use {used:.1f} of {cores} cores, more than "
        return f"{said}{BUSY * cores:g}. Its record is as it was. Wait, or end them, and run this again."

    timed, used = records_time(notebook), watch_others()
    time.sleep(LOOK if timed else 0)
    if timed and used() > BUSY * cores:
        return False, [refused(used())]
    used = watch_others()
    with tempfile.TemporaryDirectory() as folder:
        made, seconds, fault = run_pages.execute(page, anew=True, into=folder)
        others = used()
        if fault or (timed and others > BUSY * cores):
            return False, [fault.said if fault else refused(others)]
        kept = records.read(page.stem, folder)
    kept["made"]["others"] = round(others, 2)
    records.put(page.stem, kept)
    said = [f"{page.stem}: {seconds:.0f} s"]
    for cell in records.cells_of(made).values():
        if wrote := records.printed(cell, "stderr").strip():
            where = run_pages.place(page, made, cell)
            said.append(f"{where}: it also wrote to stderr, which is not kept: {wrote.splitlines()[0]}")
    return True, said


def main():
    """Make the experiments anew; return the exit status."""
    console = Console(highlight=False)
    named = [Path(name).stem for name in sys.argv[1:]]
    having = {page.stem: page for page in run_pages.pages() if records.cells_of(run_pages.read(page))}
    if unknown := [name for name in named if name not in having]:
        console.print(f"{unknown[0]} has no recorded cell; those that have: {', '.join(having) or 'none'}.")
        return 2
    fine = True
    for name in named or having:
        with console.status(f"{name} …"):
            done, said = make(having[name], run_pages.read(having[name]))
        fine = fine and done
        for line in said:
            console.print(line, markup=False, soft_wrap=True)
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
