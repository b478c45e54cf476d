"""Measure grading on the course's exercises, and nbgrader beside it: `python benchmarks/run.py
class phases check`.

Results go to `benchmarks/results.json`, each part under its name; `--table` prints what is there as
Markdown. `benchmarks/README.md` says what is measured, and what is not.
"""

import argparse
import contextlib
import functools
import json
import os
import platform
import random
import shutil
import statistics
import tempfile
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import classes
import graders
import psutil
import sqlalchemy
import tables
import thousand
import watch
from rich.console import Console

from autograder.authoring import json_entries, loader

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
EXERCISES = [folder.name for folder in loader.FOLDERS]
DEFAULT_PARTS = ("class", "phases", "check")
CHECKS = 3  # runs of one notebook; the median counts
SECRET = ".course-secret"  # what the checks' inputs are drawn from, in the folder of the grades
LONGEST_WAIT = 120  # seconds for a batch to begin, before it is killed all the same
out = Console(width=118, highlight=False)


def make_class(options, name, kind, count):
    """Write a class into the folder of work; return that folder and the students."""
    folder = options.work / f"{name}-{kind}-{count}"
    students = classes.students(classes.answers_of(name), kind, count, options.seed)
    classes.write(students, name, folder)
    return folder, students


# Classes: the course's command, nbgrader, nbgrader in parallel.


def measure_class(options, known):
    """Grade a class of each exercise and kind with ours and with nbgrader, everything counted."""
    for name in options.exercises:
        for kind in options.kinds:
            known.setdefault(name, {})[kind] = one_class(options, name, kind)
            yield known


@dataclass
class OwnGrading:
    """How the course's command graded a class: what other graders are compared with.

    Attributes
    ----------
    about : str
        The exercise and the kind of the class.
    n : int
        Its students.
    seconds : float
    points : dict
        What each student got for each cell.
    waiting : dict
        The points that wait for a GPU, by cell.
    """

    about: str
    n: int
    seconds: float
    students: list
    points: dict
    waiting: dict

    def compare(self, who, count, timing, points):
        """Print how long another grader took for `count` of the students, and return that with the
        seconds for all n; end with an error if its grades are others.
        """
        _expect_right_full(who, self.students, points, self.waiting)
        partial = _expect_same(self.about, who, self.points, points)
        of_n = timing["fixed"] + self.n * timing["each"]
        out.print(
            f"  {who}: {count} in {timing['seconds']:.1f} s; {self.n} take {timing['fixed']:.1f} s "
            f"+ {self.n} x {timing['each']:.2f} s = {of_n:.0f} s, {of_n / self.seconds:.1f} times "
            "ours"
        )
        for line in partial:
            out.print(f"    other parts of the points (ours, theirs): {line}")
        return {**timing, "count": count, "of_n": of_n, "partial": partial}


def one_class(options, name, kind):
    """Return what grading one class took, with ours and with nbgrader; end with an error if the
    grades are wrong.
    """
    load = os.getloadavg()[0]
    n = options.n
    m = min(options.m, n)  # nbgrader is too slow for all of them
    submitted, students = make_class(options, name, kind, n)
    folders = [submitted / student.name for student in students]

    into = options.work / "ours"
    runs = [graders.grade_ours(name, submitted, into, options.jobs) for _ in range(options.repeat)]
    seconds = statistics.median(runs)
    out.print(
        f"{name}, {kind}: ours {n} in {seconds:.1f} s, {n / seconds:.1f}/s, {options.jobs} jobs"
    )
    points, waiting = graders.scores(into), _waiting(into, name)
    _expect_whole_class(into, name, points, n)
    _expect_right_full("ours", students, points, waiting)
    ours = OwnGrading(f"{name}, {kind}", n, seconds, students, points, waiting)

    course = options.work / "stock"
    graders.stock_course(course, name, folders[:m])
    timing = graders.grade_stock(course, name)
    stock = ours.compare("nbgrader", m, timing, graders.scores(course))

    parallel = {}
    for processes in options.processes:
        count = max(m, 2 * processes)  # two for each: the time between them is what one takes
        timing, theirs = graders.grade_stock_in_parallel(course, name, folders[:count], processes)
        who = f"nbgrader in {processes} processes"
        parallel[str(processes)] = ours.compare(who, count, timing, theirs)
    best = min(parallel, key=lambda number: parallel[number]["of_n"], default=None)
    return {
        "n": n, "jobs": options.jobs, "ours_seconds": runs, "stock": stock, "parallel": parallel,
        "best": best, "cells": len(points), "date": _today(), "load": load,
    }  # fmt: skip


def _expect_same(about, who, ours, theirs):
    """End with an error unless two graders agree on which cells are fully right; return the cells
    to which they give other parts of the points, as lines to read.
    """
    serious, partial = graders.differences(ours, theirs)
    if serious:
        raise SystemExit(f"{about}: grades of ours and of {who} differ:\n  " + "\n  ".join(serious))
    return partial


def _waiting(into, name):
    """Return the points that wait for a GPU, by cell: no grader on this machine can give them.

    After a mistake fewer wait than in a right answer, whose points count here.
    """
    waiting = {}
    for record in _read_records(into, name):
        for cell, outcome in record["cells"].items():
            if outcome["pending"]:
                waiting[cell] = max(outcome["pending"], waiting.get(cell, 0))
    return waiting


def _expect_right_full(who, students, points, waiting=None):
    """End with an error unless a grader gave all points, except those that wait, to all students
    who are right.
    """
    right = {student.name for student in students if student.kind == classes.RIGHT}
    lost = graders.not_full({key: own for key, own in points.items() if key[0] in right}, waiting)
    if lost:
        raise SystemExit(f"Right submissions lost points with {who}:\n  " + "\n  ".join(lost[:30]))


def _expect_whole_class(into, name, points, count):
    """End with an error unless gradebook, records and pages have the whole class, and agree on
    its points.
    """
    records = _read_records(into, name)
    students, pages = len({student for student, _ in points}), graders.pages(into, name)
    total = sum(score for score, _ in points.values())
    recorded = sum(record["score"] for record in records)
    if (
        {students, len(records), pages} != {count}
        or len(points) % count  # each student has the same cells
        or abs(total - recorded) > 1e-2 * count  # points are rounded to hundredths
    ):
        raise SystemExit(
            f"{students} students and {len(points)} cells in the gradebook, {len(records)} "
            f"records, {pages} pages for {count} submissions; points {total:.2f} in the "
            f"gradebook, {recorded:.2f} in the records"
        )


def _read_records(into, name):
    return [json.loads(path.read_text(encoding="utf8")) for path in graders.records(into, name)]


# Where the time goes.


def measure_phases(options, known):
    """Grade a small class of each exercise and kind, while the engine writes down what takes it
    how long.
    """
    for name in options.exercises:
        for kind in options.kinds:
            submitted, _ = make_class(options, name, kind, min(options.timed, options.n))
            path = options.work / "timings.json"
            path.unlink(missing_ok=True)
            graders.grade_ours(
                name, submitted, options.work / "ours", options.jobs, **{graders.TIMINGS: str(path)}
            )
            found = graders.phases_of(path)
            if found is None:
                raise SystemExit(
                    "`python -m autograder grade` did not write the file that "
                    f"{graders.TIMINGS} names."
                )
            known.setdefault(name, {})[kind] = found
            listed = ", ".join(f"{phase} {spent:.1f}" for phase, spent in found["phases"].items())
            out.print(f"{name}, {kind}: of {found['wall']:.1f} ms for each submission: {listed}")
            yield known


# One notebook.


def measure_check(options, known):
    """Check one right notebook of each exercise, a few times, each from the start of Python to
    its end.
    """
    for name in options.exercises:
        submitted, students = make_class(options, name, "right", 1)
        path = options.work / "timings.json"
        path.unlink(missing_ok=True)
        notebook = submitted / students[0].name / name / f"{name}.ipynb"
        command = ["-m", "autograder", "check", notebook]
        seconds = [graders.run(command, ROOT)[0] for _ in range(CHECKS)]
        graders.run(command, ROOT, **{graders.TIMINGS: str(path)})
        known[name] = {"seconds": seconds, "phases": graders.phases_of(path)}
        out.print(f"{name}: check {statistics.median(seconds):.2f} s")
        yield known


# A large batch.


def measure_batch(options, known):
    """Grade a large mixed class of the first exercise with each number of jobs; watch the rate
    and the memory.
    """
    name = options.exercises[0]
    submitted, _ = make_class(options, name, "mixed", options.large)
    known.clear()
    known.update(exercise=name, n=options.large, jobs={})
    totals = set()
    for jobs in options.batch_jobs:
        into = options.work / "batch"
        shutil.rmtree(into, ignore_errors=True)
        command = graders.our_command(name, submitted, into, "--jobs", jobs)
        process = watch.started(command, ROOT)
        watched = watch.until_it_ends(process)
        if process.returncode:
            raise SystemExit(f"The batch with {jobs} jobs ended with {process.returncode}.")
        points = graders.scores(into)
        _expect_whole_class(into, name, points, options.large)
        totals.add(sum(score > 0 for score, _ in points.values()))
        found = {"seconds": watched.seconds, **_over_time(into, name, watched)}
        known["jobs"][str(jobs)] = found
        out.print(
            f"{options.large} of {name} with {jobs} jobs: {found['seconds']:.0f} s; first tenth "
            f"{found['tenths'][0]:.1f}/s, last {found['tenths'][-1]:.1f}/s; peak "
            f"{found['peak_mb']:.0f} MB, {found['sandboxes']} sandboxes"
        )
        yield known
    if len(totals) > 1:
        raise SystemExit(f"How many cells earn points depends on the number of jobs: {totals}")


def _over_time(into, name, watched):
    """Return the rate in each tenth of a batch, and its memory in the first and the last tenth
    and at its peak.
    """
    records = graders.records(into, name)
    written = sorted(path.stat().st_mtime - watched.start for path in records)
    step = max(1, len(written) // 10)
    tenths = []
    for first in range(0, len(written) - step + 1, step):
        before = written[first - 1] if first else written[0]
        counted = step if first else step - 1  # the first record has none before it to count from
        tenths.append(counted / max(written[first + step - 1] - before, 1e-9))
    return {
        "first_after": written[0],
        "tenths": tenths,
        "peak_mb": watched.peak("pss"),
        "first_mb": watched.mean("pss", written[0], written[step - 1]),
        "last_mb": watched.mean("pss", written[-step], written[-1]),
        "main_peak_mb": watched.peak("main"),
        "sandboxes": watched.peak("sandboxes"),
    }


# A batch that is killed.


def measure_kill(options, known):
    """Kill a batch at random moments, start it again each time, and compare with one that runs
    undisturbed.
    """
    name, count = options.exercises[0], options.large
    submitted, _ = make_class(options, name, "mixed", count)
    calm, hurt = options.work / "calm", options.work / "hurt"
    undisturbed = graders.grade_ours(name, submitted, calm, options.jobs)
    shutil.rmtree(hurt, ignore_errors=True)
    hurt.mkdir()
    shutil.copy(calm / SECRET, hurt / SECRET)  # so that both draw the same inputs
    command = graders.our_command(name, submitted, hurt, "--jobs", options.jobs)
    rng, kills = random.Random(options.seed), []
    for number in range(options.kills):
        # In between a third and all of an equal share of the work, counted from when grades begin
        # to be written.
        wait = rng.uniform(0.3, 1) * undisturbed / (options.kills + 1)
        kill = _killed(command, wait, hurt / "gradebook.db")
        kill["graded"] = len(graders.records(hurt, name))
        kills.append(kill)
        late = "; the batch was over before: take a larger --large" if kill["had_ended"] else ""
        left = len(kill["left_behind"])
        out.print(
            f"killed {number + 1}: {kill['graded']} graded, {left} processes left behind{late}"
        )
    graders.run(command, ROOT)
    same_grades = _expect_undisturbed(calm, hurt, name, count, kills)
    known.clear()
    known.update(
        exercise=name, n=count, jobs=options.jobs, kills=kills, undisturbed_seconds=undisturbed,
        same_grades=same_grades, left_behind=0,
    )  # fmt: skip
    out.print(
        f"killed {options.kills} times: all {count} graded as undisturbed, nothing left behind"
    )
    yield known


def _expect_undisturbed(calm, hurt, name, count, kills):
    """End with an error unless a batch that was killed has the grades and files of one that was
    not, and left no process behind; return how many grades that are.
    """
    undisturbed, killed = graders.scores(calm), graders.scores(hurt)
    for into, points in ((calm, undisturbed), (hurt, killed)):
        _expect_whole_class(into, name, points, count)
    serious, partial = graders.differences(undisturbed, killed)
    wrong = serious + partial
    orphans = [line for kill in kills for line in kill["left_behind"]]
    scraps = sorted(_files(hurt) ^ _files(calm))
    if wrong or orphans or scraps:
        raise SystemExit(
            f"grades that differ: {wrong[:30]}; processes left: {orphans}; other "
            f"files: {scraps[:5]}"
        )
    if not any(0 < kill["graded"] < count for kill in kills):
        raise SystemExit(
            "Whenever it was killed, nothing or all was graded: take a larger --large."
        )
    return len(killed)


def _files(folder):
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def _killed(command, wait, gradebook):
    """Start a batch, kill its main process some time after it wrote to the gradebook, and see
    what is left.
    """
    process, started = watch.started(command, ROOT, start_new_session=True), time.time()
    begun, kill_at, below = False, time.monotonic() + LONGEST_WAIT, {}
    while process.poll() is None and time.monotonic() < kill_at:
        time.sleep(0.05)
        # Noted while it runs: when it is dead, its processes are no longer below it.
        with contextlib.suppress(psutil.Error):
            below.update((one.pid, one) for one in watch.descendants(process)[0])
        if not begun and gradebook.exists() and gradebook.stat().st_mtime > started:
            begun, kill_at = True, time.monotonic() + wait
    ended = process.poll() is not None
    process.kill()
    process.wait()
    left = watch.still_there(below.values())
    for one in below.values():  # so that none of them is there when this benchmark has ended
        with contextlib.suppress(psutil.Error):
            if one.is_running():
                one.kill()
    return {"had_ended": ended, "left_behind": left}


# nbgrader's command with this course's settings.


def measure_plugin(options, known):
    """Grade a mixed class of the first exercise by `nbgrader autograde`, which uses the engine
    one by one.
    """
    name = options.exercises[0]
    submitted, students = make_class(options, name, "mixed", options.n)
    folder = options.work / "plugin"
    config = (ROOT / "nbgrader_config.py").read_text(encoding="utf8")
    graders.stock_course(folder, name, [submitted / student.name for student in students], config)
    process = watch.started(["-m", "nbgrader", "autograde", name], folder)
    watched = watch.until_it_ends(process)
    points = graders.scores(folder)
    graded = len({student for student, _ in points})
    if process.returncode or graded != options.n:
        raise SystemExit(
            f"nbgrader autograde ended with {process.returncode}, and graded {graded} of "
            f"{options.n}. To see why, measure with --work DIR, and run it again in DIR/plugin."
        )
    _expect_right_full("nbgrader with this course's settings", students, points)
    written = sorted(
        path.stat().st_mtime for path in folder.glob(f"autograded/*/{name}/{name}.ipynb")
    )
    known.clear()
    known.update(
        exercise=name, n=options.n, seconds=watched.seconds,
        each=(written[-1] - written[0]) / (len(written) - 1), sandboxes=watched.peak("sandboxes"),
    )  # fmt: skip
    out.print(
        f"nbgrader autograde with this course's settings: {options.n} of {name} in "
        f"{known['seconds']:.1f} s, {known['each']:.2f} s for each, at most {known['sandboxes']} "
        "sandboxes at a time"
    )
    yield known


# A gradebook on a server.


def measure_database(options, known):
    """Grade a mixed class of the first exercise into SQLite and into an empty database on a
    server, in turn.
    """
    if not options.db:
        raise SystemExit(
            "Name an empty database on a server with --db; its tables are deleted at the end."
        )
    name = options.exercises[0]
    submitted, _ = make_class(options, name, "mixed", options.n)
    engine = sqlalchemy.create_engine(options.db)
    if sqlalchemy.inspect(engine).get_table_names():
        raise SystemExit("The database of --db is not empty.")
    runs, load = {"sqlite": [], "server": []}, os.getloadavg()[0]
    for _ in range(options.repeat):
        runs["sqlite"].append(_into_database(options, name, submitted, "sqlite"))
        runs["server"].append(_into_database(options, name, submitted, "server", options.db))
        version = _emptied(engine)
    engine.dispose()
    known.clear()
    known.update(
        exercise=name, n=options.n, jobs=options.jobs, version=version, date=_today(), load=load,
        **runs,
    )  # fmt: skip
    yield known


def _into_database(options, name, submitted, kind, address=""):
    """Grade a class into SQLite, or into the database at an address; return the seconds, and the
    milliseconds of writing for each submission.
    """
    into, timings = options.work / "database", options.work / "timings.json"
    shutil.rmtree(into, ignore_errors=True)
    timings.unlink(missing_ok=True)
    database = ["--db", address] if address else []
    command = graders.our_command(name, submitted, into, "--jobs", options.jobs, *database)
    seconds, _ = graders.run(command, ROOT, **{graders.TIMINGS: str(timings)})
    count = len(graders.records(into, name))
    if count != options.n:
        raise SystemExit(f"{kind}: {count} records for {options.n} submissions")
    milliseconds = graders.phases_of(timings)["phases"]["database"]
    out.print(
        f"{kind}: {options.n} of {name} in {seconds:.1f} s, {milliseconds:.2f} ms to write each"
    )
    return {"seconds": seconds, "writing_ms": milliseconds}


def _emptied(engine):
    """Delete all tables, so that the next run finds an empty database; return the server's
    version.
    """
    with engine.begin() as connection:
        version = connection.execute(sqlalchemy.text("SHOW server_version")).scalar()
        for table in sqlalchemy.inspect(connection).get_table_names():
            connection.execute(sqlalchemy.text(f"DROP TABLE {table} CASCADE"))
    return version


# The report.


def machine():
    """Return what is measured on: processor, cores, memory, versions."""
    model = platform.processor()
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next(
            (line.partition(":")[2].strip() for line in lines if line.startswith("model name")),
            model,
        )
    return {
        "date": _today(),
        "cpu": model,
        "cores": len(os.sched_getaffinity(0)),
        "memory_gb": round(psutil.virtual_memory().total / 1e9, 1),
        "load_before": os.getloadavg()[0],
        "system": platform.platform(),
        "python": platform.python_version(),
        **{name: version(name) for name in tables.PACKAGES},
    }


def _today():
    return datetime.now(UTC).isoformat(timespec="seconds")


PARTS = {
    "class": measure_class,
    "phases": measure_phases,
    "check": measure_check,
    "batch": measure_batch,
    "kill": measure_kill,
    "plugin": measure_plugin,
    "database": measure_database,
    "thousand": functools.partial(thousand.measure, out=out),
}


def _parser():
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add, cores, kinds = parser.add_argument, len(os.sched_getaffinity(0)), list(classes.KINDS)
    parts = f"{', '.join(PARTS)}; default: {' '.join(DEFAULT_PARTS)}"
    add("parts", nargs="*", metavar="PART", help=parts)
    which = "which; batch, kill, plugin: the first"
    add("--exercises", nargs="+", choices=EXERCISES, default=EXERCISES, help=which)
    add("--kinds", nargs="+", choices=kinds, default=kinds, help="class, phases")
    add("--n", type=int, default=200, help="submissions for ours (class), and in all (plugin)")
    add("--m", type=int, default=8, help="submissions for nbgrader (class)")
    parallel = "processes of nbgrader in parallel (class)"
    add("--processes", type=int, nargs="*", default=[2, 4], help=parallel)
    add("--repeat", type=int, default=1, help="runs of ours, of which the median counts (class)")
    add("--jobs", type=int, default=cores, help="jobs of ours; default: the cores")
    add("--timed", type=int, default=50, help="submissions (phases)")
    add("--large", type=int, default=1000, help="submissions (batch, kill)")
    add("--batch-jobs", type=int, nargs="+", default=[1, 2, 4], help="numbers of jobs (batch)")
    add("--students", type=int, default=1000, help="students (thousand)")
    add("--db", default="", help="address of an empty PostgreSQL database (database)")
    add("--kills", type=int, default=3, help="how often the batch is killed (kill)")
    add("--seed", type=int, default=classes.SEED, help="another seed makes another class")
    add("--work", type=Path, help="folder to work in, which is kept; default: a temporary one")
    add("--results", type=Path, default=HERE / "results.json", help="file of the results")
    add("--table", action="store_true", help="only print the results there are, as Markdown")
    return parser


def options_of(arguments=None):
    """Return the options of the command line; end with a line on those that cannot be meant."""
    parser = _parser()
    options = parser.parse_args(arguments)
    unknown = [part for part in options.parts if part not in PARTS]
    if unknown:
        parser.error(f"there is no part {unknown[0]!r}; the parts are {', '.join(PARTS)}")
    if min(options.m, options.n) < 2:
        parser.error(
            "--n and --m must be 2 or more: what one submission takes is the time between two"
        )
    if 2 * max(options.processes, default=0) > options.n:
        parser.error("--n must be at least twice the largest of --processes, for the same reason")
    if options.table and not options.results.exists():
        parser.error(f"there is no {options.results} yet; measure first")
    return options


def main():
    """Measure the parts that are named, and keep what was measured before of the others."""
    options = options_of()
    results = (
        json.loads(options.results.read_text(encoding="utf8")) if options.results.exists() else {}
    )
    if options.table:
        print(tables.markdown(results), end="")
        return
    given, path = options.work, options.results.resolve()
    options.work = (given or Path(tempfile.mkdtemp(prefix="benchmark-"))).resolve()
    results["machine"] = machine()
    try:
        for part in options.parts or DEFAULT_PARTS:
            known = results.setdefault(part, {})
            # written after each step: a run that is broken off loses little
            for _ in PARTS[part](options, known):
                json_entries.write(path, results)
    finally:
        if given is None:
            shutil.rmtree(options.work, ignore_errors=True)
    print(tables.markdown(results), end="")


if __name__ == "__main__":
    main()
