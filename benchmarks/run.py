"""Measure the autograder, and nbgrader beside it: `python benchmarks/run.py throughput cells single batch kill`.

Results go to `benchmarks/results.json`, each part under its own name; `--table` prints what is there as Markdown.
`benchmarks/README.md` says what is measured, and what is not.
"""

import argparse
import contextlib
import json
import os
import platform
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import make
import psutil
from rich.console import Console
from rich.table import Table

HERE = Path(__file__).resolve().parent
OURS = HERE / "ours.py"
NAME = make.NAME
NBGRADER = ["-m", "nbgrader"]
PACKAGES = ("nbgrader", "nbconvert", "ipykernel", "ipython", "numpy", "torch", "matplotlib", "sqlalchemy")
out = Console(width=110)


def now():
    """Return seconds of a clock that only goes forward."""
    return time.perf_counter()


def fresh(folder, source=None, count=None):
    """Make a course folder that is a copy of `source` with its first `count` submissions, and no grades."""
    shutil.rmtree(folder, ignore_errors=True)
    if source is None:
        make.course(folder)
        return folder
    folder.mkdir(parents=True)
    for name in ("solutions", "exercises"):
        shutil.copytree(source / name, folder / name)
    shutil.copy(source / "nbgrader_config.py", folder)
    for student in sorted((source / "submitted").iterdir())[:count]:
        shutil.copytree(student, folder / "submitted" / student.name)
    return folder


def python(*arguments, cwd, check=True, **more):
    """Run Python as a command; return its wall seconds, and the finished process."""
    start = now()
    done = subprocess.run(
        [sys.executable, *map(str, arguments)],
        cwd=cwd, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **more,
    )  # fmt: skip
    seconds = now() - start
    if check and done.returncode:
        raise SystemExit(f"{' '.join(map(str, arguments))} ended with {done.returncode}:\n{done.stdout[-3000:]}")
    return seconds, done


def grade_ours(folder, jobs):
    """Grade the class in a course folder with the course's own command; return its wall seconds."""
    return python(*_ours(folder, jobs), cwd=folder)[0]


def _ours(folder, jobs):
    into = folder / "graded"
    into.mkdir(exist_ok=True)
    return [OURS, folder, "grade", NAME, "--submitted", folder / "submitted", "--into", into, "--jobs", jobs]


def grade_stock(folder, *options):
    """Grade the class with stock nbgrader, one command after the other; return the wall seconds of the two."""
    graded = python(*NBGRADER, "autograde", NAME, *options, cwd=folder)[0]
    return graded, python(*NBGRADER, "generate_feedback", NAME, *options, cwd=folder)[0]


def register_stock(folder):
    """Make the gradebook that stock nbgrader wants before it grades: not counted, for it happens at release."""
    from autograder import gradebook
    from autograder.course import Course

    own = Course(root=folder, into=folder)
    gradebook.register(own, own.exercises()[0])


def scores(folder):
    """Return every student's score in a gradebook, by cell: read with nbgrader's own API."""
    from nbgrader.api import Gradebook

    with Gradebook(f"sqlite:///{folder / 'gradebook.db'}", "benchmark") as book:
        return {
            (found.student.id, grade.name): grade.score
            for assignment in book.assignments
            for found in assignment.submissions
            for notebook in found.notebooks
            for grade in notebook.grades
        }


def agree(ours, theirs, what):
    """End with an error unless two sets of grades are the same, cell by cell, for every student in `theirs`."""
    students = {student for student, _ in theirs}
    ours = {key: score for key, score in ours.items() if key[0] in students}
    wrong = [
        f"  {key}: ours {ours.get(key)}, {what} {theirs.get(key)}"
        for key in sorted({*ours, *theirs})
        if ours.get(key) is None or theirs.get(key) is None or abs(ours[key] - theirs[key]) > 0.005
    ]
    if wrong:
        raise SystemExit(f"The grades differ from those of {what} in {len(wrong)} cells:\n" + "\n".join(wrong[:30]))
    return len(students)


def feedback_pages(folder):
    """Return how many feedback pages there are."""
    return len(list(folder.glob(f"feedback/*/{NAME}/{NAME}.html")))


# a. Throughput.


def throughput(own):
    """Grade a class with ours and with nbgrader, serial and in parallel; everything counted, start-up too."""
    work, jobs = own.work, own.jobs
    base = fresh(work / "base")
    make.students(base, max(own.n, own.m), own.seed)
    ours = [grade_ours(fresh(work / "ours", base, own.n), jobs) for _ in range(own.repeat)]
    pages = feedback_pages(work / "ours" / "graded")
    if pages != own.n:
        raise SystemExit(f"{pages} feedback pages of {own.n}")
    points = scores(work / "ours" / "graded")
    few = [grade_ours(fresh(work / "few", base, 2), jobs)]
    result = {
        "n": own.n, "m": own.m, "jobs": jobs, "ours_seconds": ours, "ours_seconds_of_2": few,
        "ours_rate": own.n / min(ours), "points": sum(points.values()),
    }  # fmt: skip
    result["ours_rate_without_start"] = (own.n - 2) / max(min(ours) - min(few), 1e-9)
    out.print(f"ours: {own.n} in {min(ours):.1f} s with {jobs} jobs")

    stock = []
    for count in (2, own.m):
        folder = fresh(work / "stock", base, count)
        register_stock(folder)
        graded, fed = grade_stock(folder)
        stock.append((graded, fed))
        out.print(f"nbgrader: {count} in {graded:.1f} s, feedback {fed:.1f} s")
    result["agreed"] = agree(points, scores(work / "stock"), "stock nbgrader")
    if feedback_pages(work / "stock") != own.m:
        raise SystemExit("stock nbgrader left feedback pages out")
    result["stock_seconds_of_2"], result["stock_seconds"] = stock
    result["stock_rate"] = own.m / sum(stock[1])
    result["stock_rate_without_start"] = (own.m - 2) / (sum(stock[1]) - sum(stock[0]))

    result["parallel"] = {}
    for processes in own.processes:
        seconds, together = parallel_stock(base, work, processes, own.m)
        agree(points, together, f"nbgrader in {processes} processes")
        result["parallel"][processes] = seconds
        out.print(f"nbgrader in {processes} processes: {own.m} in {seconds:.1f} s")
    if result["parallel"]:
        result["parallel_rate"] = own.m / min(result["parallel"].values())
        result["ratio_parallel"] = result["ours_rate"] / result["parallel_rate"]
    result["ratio_serial"] = result["ours_rate"] / result["stock_rate"]
    # Start-up taken from nbgrader alone, and ours left with its own: the least favourable way to compare.
    result["ratio_serial_stock_without_start"] = result["ours_rate"] / result["stock_rate_without_start"]
    result["ratio_serial_both_without_start"] = result["ours_rate_without_start"] / result["stock_rate_without_start"]
    return result


def parallel_stock(base, work, processes, count):
    """Grade slices of the class at one time, each with nbgrader in a course copy of its own."""
    folders = []
    for number in range(processes):
        folder = fresh(work / f"slice{number}", base, count)
        for place, student in enumerate(sorted((folder / "submitted").iterdir())):
            if place % processes != number:
                shutil.rmtree(student)
        register_stock(folder)
        folders.append(folder)
    start = now()
    with ThreadPoolExecutor(processes) as pool:
        list(pool.map(grade_stock, folders))
    seconds = now() - start
    together = {}
    for folder in folders:
        together.update(scores(folder))
        shutil.rmtree(folder)
    return seconds, together


# b. Guest and judge against warm forked shells.


def cells(own):
    """Time the same submissions' cells: in a bare fork of a warm shell, and in the sandbox with a judge."""
    folder = fresh(own.work / "cells")
    make.students(folder, own.cells, own.seed)
    done = python(HERE / "cells.py", folder, own.rounds, cwd=folder)[1]
    result = json.loads(done.stdout.strip().splitlines()[-1])
    out.print(
        f"cells: bare fork {result['bare_median_ms']:.0f} ms, ours {result['ours_median_ms']:.0f} ms "
        f"(medians of {result['count']}), ratio {result['ratio_median']:.2f}"
    )
    return result


# c. One submission, cold.


def single(own):
    """Time one submission from a cold start, with ours and with nbgrader, and say where ours spends its time."""
    folder = fresh(own.work / "single")
    names = make.students(folder, 3, own.seed)
    notebook = folder / "submitted" / names[0] / NAME / f"{NAME}.ipynb"
    checks = [python(OURS, folder, "check", notebook, cwd=folder)[0] for _ in range(own.repeat)]
    parts = []
    for _ in range(own.repeat):
        done = python(HERE / "phases.py", folder, notebook, cwd=folder)[1]
        parts.append(json.loads(done.stdout.strip().splitlines()[-1]))
    register_stock(folder)
    stock = []
    for _ in range(own.repeat):
        for name in ("autograded", "feedback"):
            shutil.rmtree(folder / name, ignore_errors=True)
        stock.append(grade_stock(folder, "--student", names[0]))
    result = {
        "check_seconds": checks, "stock_seconds": stock, "phases": parts,
        "ratio": statistics.median(map(sum, stock)) / statistics.median(checks),
    }  # fmt: skip
    out.print(f"one: ours {statistics.median(checks):.1f} s, nbgrader {statistics.median(map(sum, stock)):.1f} s")
    return result


# d. A large batch.


class Watch:
    """Reads every half second what a process and its descendants hold in memory."""

    def __init__(self, process):
        self.process, self.samples, self.start = psutil.Process(process.pid), [], now()

    def sample(self):
        """Add up the proportional and the unshared memory, by what each process is."""
        total = {"t": now() - self.start, "pss": 0, "uss": 0, "processes": 0, "by": {}}
        with contextlib.suppress(psutil.Error):
            for one in [self.process, *self.process.children(recursive=True)]:
                with contextlib.suppress(psutil.Error, OSError):
                    memory, kind = one.memory_full_info(), _kind(one, self.process)
                    total["pss"] += memory.pss
                    total["uss"] += memory.uss
                    total["processes"] += 1
                    total["by"][kind] = total["by"].get(kind, 0) + memory.pss
        self.samples.append(total)

    def until_done(self, process, seconds=0.5):
        """Sample until the process has ended."""
        while process.poll() is None:
            began = now()
            self.sample()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(0.01, seconds - (now() - began)))


def _kind(one, main):
    if one.pid == main.pid:
        return "main"
    line = " ".join(one.cmdline())
    if "guest/parent.py" in line or line.startswith("bwrap"):
        return "warm parents, keepers and guests"
    return "workers" if "multiprocessing" in line else "others"


def batch(own):
    """Grade a large batch with each number of jobs; watch the rate and the memory."""
    base = fresh(own.work / "large")
    make.students(base, own.batch, own.seed)
    result = {"n": own.batch, "jobs": {}}
    sums = set()
    for jobs in own.batch_jobs:
        folder = fresh(own.work / "batch", base)
        start = now()
        process = subprocess.Popen(
            [sys.executable, *map(str, _ours(folder, jobs))],
            cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        watch = Watch(process)
        watch.until_done(process)
        seconds = now() - start
        if process.returncode:
            raise SystemExit(f"the batch with {jobs} jobs ended with {process.returncode}")
        points = scores(folder / "graded")
        sums.add(_proper(folder, points, own.batch))
        result["jobs"][jobs] = {"seconds": seconds, "rate": own.batch / seconds, **_over_time(folder, watch, start)}
        line = result["jobs"][jobs]
        out.print(
            f"{own.batch} with {jobs} jobs: {seconds:.0f} s; first tenth {line['tenths'][0]:.2f}/s, last "
            f"{line['tenths'][-1]:.2f}/s; peak {line['peak_pss_mb']:.0f} MB"
        )
    if len(sums) > 1:
        raise SystemExit(f"the sum of all points depends on the number of jobs: {sums}")
    result["points"] = sums.pop()
    return result


def _proper(folder, points, count):
    """Return the sum of all points if gradebook, records and pages agree on it; end with an error if not."""
    records = [json.loads(path.read_text()) for path in folder.glob(f"graded/autograded/*/{NAME}/grade.json")]
    pages = feedback_pages(folder / "graded")
    students = len({student for student, _ in points})
    total, said = round(sum(points.values()), 2), round(sum(record["score"] for record in records), 2)
    if {students, len(records), pages} != {count} or abs(total - said) > 0.5 or len(points) != 6 * count:
        raise SystemExit(
            f"{students} students and {len(points)} cells in the gradebook, {len(records)} records, {pages} pages "
            f"for {count} submissions; points {total} in the gradebook, {said} in the records"
        )
    return total


def _over_time(folder, watch, start):
    """Return the rate in each tenth of the batch, and memory in the first and the last tenth and at its peak."""
    wall = time.time() - (now() - start)  # when `start` was, on the clock of files
    done = sorted(path.stat().st_mtime - wall for path in folder.glob(f"graded/autograded/*/{NAME}/grade.json"))
    step = max(1, len(done) // 10)
    tenths = []
    for place in range(0, step * 10, step):
        own = done[place : place + step]
        before = done[place - 1] if place else own[0]
        if own:
            tenths.append((len(own) - (not place)) / max(own[-1] - before, 1e-9))
    span = [sample for sample in watch.samples if sample["t"] >= done[0]]
    tenth = max(1, len(span) // 10)
    peak = max(watch.samples, key=lambda sample: sample["pss"])

    def mean(samples, name):
        return statistics.mean(sample[name] for sample in samples) / 1e6 if samples else None

    return {
        "first_grade_after": done[0],
        "tenths": tenths,
        "peak_pss_mb": peak["pss"] / 1e6,
        "peak_uss_mb": max(sample["uss"] for sample in watch.samples) / 1e6,
        "peak_by_mb": {kind: size / 1e6 for kind, size in peak["by"].items()},
        "pss_first_tenth_mb": mean(span[:tenth], "pss"),
        "pss_last_tenth_mb": mean(span[-tenth:], "pss"),
        "main_first_tenth_mb": statistics.mean(s["by"].get("main", 0) for s in span[:tenth]) / 1e6 if span else None,
        "main_last_tenth_mb": statistics.mean(s["by"].get("main", 0) for s in span[-tenth:]) / 1e6 if span else None,
        "samples": len(watch.samples),
    }


# e. A batch that is killed.


def kill(own):
    """Kill a batch at random moments, start it again each time, and compare with one that nobody disturbed."""
    base = fresh(own.work / "kill-base")
    make.students(base, own.batch, own.seed)
    calm, hurt = fresh(own.work / "calm", base), fresh(own.work / "hurt", base)
    for folder in (calm, hurt):  # the same secret, so that both draw the same inputs
        (folder / "graded").mkdir()
        (folder / "graded" / ".course-secret").write_text("0" * 64 + "\n")
    undisturbed = grade_ours(calm, own.jobs)
    rng, killed = random.Random(own.seed), []
    for number in range(own.kill):
        process = subprocess.Popen(
            [sys.executable, *map(str, _ours(hurt, own.jobs))],
            cwd=hurt, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        # In between a third and all of an equal share of the work, counted from when grading begins.
        wait = rng.uniform(0.3, 1) * undisturbed / (own.kill + 1)
        before = _records(hurt)
        begun, deadline = None, now() + undisturbed + 120
        descendants = {}
        while process.poll() is None and now() < deadline and (begun is None or now() - begun < wait):
            time.sleep(0.05)
            with contextlib.suppress(psutil.Error):
                for one in psutil.Process(process.pid).children(recursive=True):
                    descendants[one.pid] = one
            if begun is None and _records(hurt) > before:
                begun = now()
        ended = process.poll() is not None
        process.send_signal(signal.SIGKILL)
        process.wait()
        left = _orphans(descendants.values())
        killed.append({"graded": _records(hurt), "had_ended": ended, "left_behind": left})
        for one in descendants.values():  # so that none of them is still there when this benchmark has ended
            with contextlib.suppress(psutil.Error):
                if one.is_running():
                    one.kill()
        late = "; the batch was over before: take a larger --batch" if ended else ""
        out.print(f"killed {number + 1}: {_records(hurt)} graded, {len(left)} processes left behind{late}")
    last = grade_ours(hurt, own.jobs)
    ours, theirs = scores(calm / "graded"), scores(hurt / "graded")
    total = _proper(hurt, theirs, own.batch)
    _proper(calm, ours, own.batch)
    agree(ours, theirs, "the batch that was killed")
    twice, scraps = _twice(hurt / "graded"), [str(path) for path in (hurt / "graded").rglob("*.new")]
    orphans = [line for run in killed for line in run["left_behind"]]
    if orphans or twice or scraps:
        raise SystemExit(f"left behind: processes {orphans}; submissions twice {twice}; files {scraps[:5]}")
    out.print(f"killed {own.kill} times: all {own.batch} grades as undisturbed, nothing left behind")
    return {
        "n": own.batch, "jobs": own.jobs, "kills": killed, "undisturbed_seconds": undisturbed,
        "last_seconds": last, "points": total, "same_grades": len(theirs), "left_behind": 0,
    }  # fmt: skip


def _records(folder):
    return len(list(folder.glob(f"graded/autograded/*/{NAME}/grade.json")))


def _orphans(descendants, seconds=15):
    """Return the command lines of processes that are still there some seconds after their main process was killed."""
    deadline = now() + seconds
    while True:
        left = []
        for one in descendants:
            with contextlib.suppress(psutil.Error):
                if one.is_running() and one.status() != psutil.STATUS_ZOMBIE:
                    left.append(f"{one.pid} {' '.join(one.cmdline())[:80]}")
        if not left or now() > deadline:
            return left
        time.sleep(0.2)


def _twice(folder):
    """Return the students whom a gradebook has more than once for the exercise."""
    from nbgrader.api import Gradebook

    with Gradebook(f"sqlite:///{folder / 'gradebook.db'}", "benchmark") as book:
        ids = [found.student.id for assignment in book.assignments for found in assignment.submissions]
    return sorted({student for student in ids if ids.count(student) > 1})


# The report.


def machine():
    """Return what is measured on: processor, cores, memory, versions."""
    model = platform.processor()
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), model)
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "cpu": model,
        "cores": len(os.sched_getaffinity(0)),
        "memory_gb": round(psutil.virtual_memory().total / 1e9, 1),
        "load_before": os.getloadavg()[0],
        "system": platform.platform(),
        "python": platform.python_version(),
        **{name: version(name) for name in PACKAGES},
    }


def rows(results):
    """Return what was measured as rows: what, ours, the other, and their ratio."""
    found = []
    part = results.get("throughput")
    if part:
        n, m = part["n"], part["m"]
        ours = f"{min(part['ours_seconds']):.1f} s for {n} ({part['ours_rate']:.2f}/s)"
        stock = f"{sum(part['stock_seconds']):.1f} s for {m} ({part['stock_rate']:.3f}/s)"
        found.append(("class, all of nbgrader counted", ours, f"serial nbgrader: {stock}", _x(part["ratio_serial"])))
        rate = f"serial nbgrader, start-up taken off: {part['stock_rate_without_start']:.3f}/s"
        found.append(("", ours, rate, _x(part["ratio_serial_stock_without_start"])))
        rate = f"{part['ours_rate_without_start']:.2f}/s"
        both = f"serial nbgrader: {part['stock_rate_without_start']:.3f}/s"
        found.append(("start-up taken off both", rate, both, _x(part["ratio_serial_both_without_start"])))
        if part["parallel"]:
            count, seconds = min(part["parallel"].items(), key=lambda pair: pair[1])
            best = f"best of nbgrader in parallel ({count} processes): {seconds:.1f} s for {m}"
            found.append(("class", ours, best, _x(part["ratio_parallel"])))
        found.append(("same grades", f"{part['agreed']} submissions, every cell", "", ""))
    part = results.get("cells")
    if part:
        for name in ("median", "mean"):
            ours, bare = part[f"ours_{name}_ms"], part[f"bare_{name}_ms"]
            what = f"one submission's cells, {name} of {part['count']}"
            found.append((what, f"{ours:.0f} ms, isolated", f"bare warm fork: {bare:.0f} ms", _x(ours / bare)))
    part = results.get("single")
    if part:
        ours, stock = statistics.median(part["check_seconds"]), statistics.median(map(sum, part["stock_seconds"]))
        found.append(("one submission, cold", f"{ours:.1f} s", f"nbgrader: {stock:.1f} s", _x(part["ratio"])))
        for name in part["phases"][0]:
            seconds = statistics.median(phases[name] for phases in part["phases"])
            found.append((f"  of which {name}", f"{seconds:.2f} s", "", ""))
    part = results.get("batch")
    for jobs, own in (part or {"jobs": {}})["jobs"].items():
        what = f"{part['n']} submissions, {jobs} jobs"
        found.append((what, f"{own['seconds']:.0f} s ({own['rate']:.2f}/s)", "", ""))
        first, last = own["tenths"][0], own["tenths"][-1]
        found.append(("  last tenth against the first", f"{last:.2f}/s", f"{first:.2f}/s", _x(last / first)))
        first, last = own["pss_first_tenth_mb"], own["pss_last_tenth_mb"]
        found.append(("  memory, last tenth", f"{last:.0f} MB", f"first tenth: {first:.0f} MB", _x(last / first)))
        found.append(("  memory at its peak", f"{own['peak_pss_mb']:.0f} MB", "", ""))
    counted = sorted((int(jobs), own["peak_pss_mb"]) for jobs, own in (part or {"jobs": {}})["jobs"].items())
    for (fewer, before), (more, after) in zip(counted, counted[1:], strict=False):
        each = (after - before) / (more - fewer)
        found.append((f"memory of each job added, {fewer} to {more}", f"{each:.0f} MB", "", ""))
    part = results.get("kill")
    if part:
        what = f"{part['n']} submissions, killed {len(part['kills'])} times"
        same = f"{part['same_grades']} cells as undisturbed"
        found.append((what, same, f"left behind: {part['left_behind']}", ""))
    return found


def _x(ratio):
    return f"{ratio:.2f}" if ratio < 10 else f"{ratio:.1f}"


def markdown(results):
    """Return the results as a Markdown table, with the machine under it."""
    lines = ["| what | ours | other | ratio |", "|---|---|---|---:|"]
    lines += ["| " + " | ".join(part.strip() for part in row) + " |" for row in rows(results)]
    about = results["machine"]
    lines += ["", f"{about['cpu']}, {about['cores']} cores, {about['memory_gb']} GB; {about['system']}; "]
    lines[-1] += f"Python {about['python']}, " + ", ".join(f"{name} {about[name]}" for name in PACKAGES)
    return "\n".join([*lines[:-1], f"{lines[-1]}. {about['date']}."])


def table(results):
    """Return the results as a table for the terminal."""
    own = Table(header_style="bold", show_edge=False)
    for name, justify in (("what", "left"), ("ours", "left"), ("other", "left"), ("ratio", "right")):
        own.add_column(name, justify=justify, overflow="fold")
    for row in rows(results):
        own.add_row(*row)
    return own


PARTS = {"throughput": throughput, "cells": cells, "single": single, "batch": batch, "kill": kill}


def main():
    """Measure the parts that are named, and keep the other parts' earlier results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("parts", nargs="*", choices=[*PARTS, []], help="what to measure; default: throughput cells single")
    add("--n", type=int, default=200, help="submissions for ours (throughput)")
    add("--m", type=int, default=40, help="submissions for nbgrader (throughput)")
    add("--all", action="store_true", help="nbgrader grades all --n as well")
    add("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="jobs of ours; default: the cores")
    add("--processes", type=int, nargs="*", default=[2, 4], help="processes of nbgrader in parallel")
    add("--cells", type=int, default=30, help="submissions (cells)")
    add("--rounds", type=int, default=2, help="how often each is run (cells)")
    add("--repeat", type=int, default=3, help="runs of ours (throughput: the best counts; single: the median)")
    add("--batch", type=int, default=1000, help="submissions (batch, kill)")
    add("--batch-jobs", type=int, nargs="+", default=[1, 2, 4], help="numbers of jobs (batch)")
    add("--kill", type=int, default=3, help="how often the batch is killed (kill)")
    add("--seed", type=int, default=1, help="another seed makes another class")
    add("--work", type=Path, help="folder to work in; default: a temporary one, removed at the end")
    add("--results", type=Path, default=HERE / "results.json", help="file of the results")
    add("--table", action="store_true", help="only print the results there are, as Markdown")
    own = parser.parse_args()
    results = json.loads(own.results.read_text()) if own.results.exists() else {}
    if own.table:
        if not results:
            parser.error(f"there is no {own.results} yet")
        print(markdown(results))
        return
    own.m = own.n if own.all else min(own.m, own.n)
    if own.m < 3:
        parser.error("--m and --n must be 3 or more: start-up is measured with 2")
    given, own.results = own.work, own.results.resolve()
    own.work = (given or Path(tempfile.mkdtemp(prefix="benchmark-"))).resolve()
    try:
        results["machine"] = machine()
        for part in own.parts or ["throughput", "cells", "single"]:
            results[part] = {**PARTS[part](own), "load_after": os.getloadavg()[0]}
            new = own.results.with_suffix(".new")
            new.write_text(json.dumps(results, indent=1) + "\n")
            new.replace(own.results)
    finally:
        if given is None:
            shutil.rmtree(own.work, ignore_errors=True)
    out.print(table(results))


if __name__ == "__main__":
    main()
