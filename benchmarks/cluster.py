"""Measure grading on Dask's workers beside grading without Dask: `python benchmarks/cluster.py`.

Three parts, in about eight minutes on a machine of two cores that does nothing else:

* `beside`: the same class with as many processes, without Dask and with it, in turn;
* `kill`: workers are killed in the middle, and every grade is compared with those of a run without;
* `writer`: a thousand students on eight workers whose work is replaced by the time that it took
  when it was measured, then by less and less of it: how much one writer can take.

Results go to `benchmarks/results.json`, under `cluster`; `--table` prints what is there as
Markdown.
"""

import argparse
import contextlib
import json
import random
import shutil
import signal
import statistics
import tempfile
import time
from pathlib import Path

import classes
import graders
import psutil
import tables
import watch
from rich.console import Console
from run import machine

from autograder.authoring import json_entries
from autograder.course.config import Course
from autograder.course.seeds import digest_of
from autograder.course.startup import begin
from autograder.grading import backends, cluster
from autograder.grading.session import Session

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
SIZES = {"01-qkv": 80, "07-transformer": 24}
WORKERS = (1, 2, 4)
# With so many workers there are two turns: as many as the smallest machine has cores.
TWICE = 2
STUDENTS, SIMULATED = 1000, 8
# Parts of the measured time that a simulated worker takes: with a quarter, 8 are as fast as 32.
SHARES = (1.0, 0.25, 0.0)
MEASURED = 24  # submissions whose work is measured, to be replayed
# What the checks' inputs are drawn from: with the same one, two runs write the same records.
SECRET = "the same draws for all\n"
out = Console(width=118, highlight=False)


def make_class(work, name, count):
    """Write a mixed class below the folder of work; return where."""
    folder = work / f"{name}-{count}"
    if not folder.exists():
        students = classes.students(classes.answers_of(name), "mixed", count, classes.SEED)
        classes.write(students, name, folder)
    return folder


def fresh(into):
    """Return an empty folder for grades, with the secret that all of them have."""
    shutil.rmtree(into, ignore_errors=True)
    into.mkdir(parents=True)
    (into / ".course-secret").write_text(SECRET)
    return into


def records(into):
    """Return the lines of each student's record, without that of the time."""
    entries = {}
    for path in graders.records(into, "*"):
        lines = path.read_text(encoding="utf8").splitlines()
        entries[path.parts[-3]] = [line for line in lines if not line.startswith('"graded_at"')]
    return entries


def expect_same(ours, theirs, count):
    """End with an error unless two runs wrote the same records."""
    if len(ours) != count or ours != theirs:
        differing = sorted(
            student for student in {*ours, *theirs} if ours.get(student) != theirs.get(student)
        )
        raise SystemExit(
            f"{len(ours)} and {len(theirs)} records for {count}, and these differ: {differing[:10]}"
        )


def busy():
    """Return how much of the processors other programs use, in percent.

    The load average would still count the run before.
    """
    return psutil.cpu_percent(interval=2)


def timed(name, submitted, into, *more):
    """Grade; return the wall seconds, those until the first record, and the rate from there to
    the last.
    """
    start = time.time()
    command = graders.our_command(name, submitted, fresh(into), *more)
    seconds, _ = graders.run(command, ROOT)
    return {"seconds": seconds, **rate_of(into, start)}


def rate_of(into, start):
    """Return when the first record was written, and how many a second from there to the last."""
    written = sorted(path.stat().st_mtime for path in graders.records(into, "*"))
    return {
        "first_after": written[0] - start,
        "rate": (len(written) - 1) / max(written[-1] - written[0], 1e-9),
    }


# With and without Dask.


def measure_beside(options, known):
    """Grade the same class with as many processes, without Dask and with it, in turn."""
    for name in options.exercises:
        count = max(4, round(SIZES[name] * options.scale))
        submitted = make_class(options.work, name, count)
        by_workers = known.setdefault(name, {})
        for workers in options.workers:
            entry = {"n": count, "local": [], "cluster": [], "busy": busy()}
            by_workers[str(workers)] = entry
            for _ in range(2 if workers == TWICE else 1):
                one, other = options.work / "local", options.work / "cluster"
                entry["local"].append(timed(name, submitted, one, "--jobs", workers))
                entry["cluster"].append(
                    timed(name, submitted, other, "--cluster", f"local:{workers}")
                )
                expect_same(records(one), records(other), count)
            without = statistics.median(run["rate"] for run in entry["local"])
            with_it = statistics.median(run["rate"] for run in entry["cluster"])
            out.print(
                f"{count} of {name} in {workers}: {without:.1f}/s without Dask, "
                f"{with_it:.1f}/s with it"
            )
            yield


# Workers that are killed.


def measure_kill(options, known):
    """Kill workers in the middle, and compare every record with those of a run without."""
    name, count = "01-qkv", max(12, round(SIZES["01-qkv"] * options.scale))
    submitted = make_class(options.work, name, count)
    calm, hurt = fresh(options.work / "calm"), fresh(options.work / "hurt")
    graders.run(graders.our_command(name, submitted, calm), ROOT)
    command = graders.our_command(name, submitted, hurt, "--cluster", "local:2")
    process = watch.started(command, ROOT)
    rng, kills = random.Random(classes.SEED), []
    for number in range(options.kills):
        # Each kill has a share of the class, and happens in the middle of it.
        goal = round((number + rng.uniform(0.2, 0.8)) * count / options.kills)
        while len(records(hurt)) < goal and process.poll() is None:
            time.sleep(0.05)
        if worker := rng.choice(dask_workers(process) or [None]):
            kills.append(len(records(hurt)))
            worker.send_signal(signal.SIGKILL)
    if process.wait() or len(kills) < options.kills:
        raise SystemExit(
            f"The run whose workers were killed ended with {process.returncode}, after {kills}."
        )
    expect_same(records(calm), records(hurt), count)
    known.clear()
    known.update(exercise=name, n=count, kills=kills)
    out.print(f"{len(kills)} workers killed, when {kills} of {count} were graded: the same records")
    yield


def dask_workers(process):
    """Return Dask's worker processes below a command, which its process spawned."""
    children = []
    with contextlib.suppress(psutil.Error):
        for child in psutil.Process(process.pid).children():
            with contextlib.suppress(psutil.Error):
                if "spawn_main" in " ".join(child.cmdline()):
                    children.append(child)
    return children


# One writer.


def replayed(digest, method, arguments):
    """Stand in for a worker's work: take a part of the time that it took, and answer what it
    answered.
    """
    from distributed import get_worker

    kept = get_worker().replayed[method]
    number = int(digest_of(arguments[0].student.encode())[:8], 16)  # the same in each process
    answer, seconds = kept[number % len(kept)]
    time.sleep(seconds * get_worker().share)
    return answer


def keep(answers, share, dask_worker=None):
    """Give a worker what it is to answer."""
    dask_worker.replayed, dask_worker.share = answers, share


class Replaying(cluster.Cluster):
    """A cluster whose workers have no station: they wait, and answer what was answered when it
    was measured.
    """

    def __init__(self, address, answers, share):
        super().__init__(address)
        self.measured, self.share = answers, share

    def _equip(self, workers):
        self._run(workers, keep, self.measured, self.share)
        return dict(workers)


def measured(options, name):
    """Return answers of grading and of making pages, as workers send them, each with the seconds
    that it took.
    """
    submitted = make_class(options.work, name, MEASURED)
    course = Course(root=ROOT, output_folder=fresh(options.work / "measured"))
    by_method = {"grade": [], "page": []}

    class Noting(backends.Local):
        """One worker, which has one job at a time and is timed."""

        def submit(self, job):
            self.start, self.method = time.perf_counter(), job.method
            super().submit(job)

        def result(self):
            job, answer = super().result()
            by_method[self.method].append(
                (cluster.as_text(answer), time.perf_counter() - self.start)
            )
            return job, answer

    session = Session(course, course.exercises([name]), submitted)
    session.choose_sandbox(True, False, out.print)
    with session:
        session.batch.make_backend = lambda: Noting(
            1, session.worker_config, session.executor.pool, jobs_per_worker=1
        )
        for _ in session.run():
            pass
    # the first waits for the warm parent
    return {method: answers[1:] for method, answers in by_method.items()}


def measure_writer(options, known):
    """Grade a thousand with eight workers that only wait; measure how many a second one writer
    takes.
    """
    name, count = "01-qkv", round(STUDENTS * options.scale)
    submitted = make_class(options.work, name, count)
    answers = measured(options, name)
    each = {
        method: statistics.mean(seconds for _, seconds in timed_answers)
        for method, timed_answers in answers.items()
    }
    known.clear()
    known.update(exercise=name, n=count, workers=SIMULATED, each=each, runs=[], busy=busy())
    cluster.work = replayed  # what a worker's task runs
    for share in SHARES:
        executor = Replaying(f"local:{SIMULATED}", answers, share)
        run = write_replayed(options, name, submitted, count, executor)
        known["runs"].append({"share": share, **run})
        out.print(
            f"{count} with {share:g} of the time: {run['rate']:.0f}/s graded, "
            f"{run['pages']:.0f} pages/s"
        )
        yield


def write_replayed(options, name, submitted, count, executor):
    """Grade a class with workers that replay; return rates, and what reading and writing took."""
    course, start = Course(root=ROOT, output_folder=fresh(options.work / "writer")), time.time()
    session = Session(course, course.exercises([name]), submitted, executor=executor)
    session.choose_sandbox(True, False, out.print)
    begun, ended = {}, {}
    with session:
        for step, _, _ in session.run():
            begun.setdefault(step, time.perf_counter())
            ended[step] = time.perf_counter()
    into = course.output_folder
    if len(graders.records(into, name)) != count or graders.pages(into, name) != count:
        raise SystemExit(f"Not every one of {count} has a record and a page.")
    pages = (count - 1) / (ended["page"] - begun["page"])
    spent = {phase: 1e3 * seconds / count for phase, seconds in session.timer.seconds.items()}
    writer = {phase: spent.get(phase, 0.0) for phase in ("read", "database", "files")}
    return {"pages": pages, **rate_of(into, start), "writer_ms": writer}


PARTS = {"beside": measure_beside, "kill": measure_kill, "writer": measure_writer}


def main():
    """Measure the parts that are named, and keep what was measured before of the others."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "parts", nargs="*", metavar="PART", help=f"{', '.join(PARTS)}; default: all"
    )
    parser.add_argument(
        "--exercises", nargs="+", choices=list(SIZES), default=list(SIZES), help="which (beside)"
    )
    parser.add_argument(
        "--workers", nargs="+", type=int, default=WORKERS, help="numbers of processes (beside)"
    )
    parser.add_argument("--kills", type=int, default=3, help="workers that are killed (kill)")
    parser.add_argument(
        "--scale", type=float, default=1.0, help="classes of this part of their size, for a trial"
    )
    parser.add_argument(
        "--table", action="store_true", help="only print the results there are, as Markdown"
    )
    parser.add_argument(
        "--results", type=Path, default=HERE / "results.json", help="file of the results"
    )
    options = parser.parse_args()
    if unknown := [part for part in options.parts if part not in PARTS]:
        parser.error(f"there is no part {unknown[0]!r}; the parts are {', '.join(PARTS)}")
    path = options.results.resolve()
    results = (
        json.loads(path.read_text(encoding="utf8")) if path.exists() else {"machine": machine()}
    )
    if options.table:
        print(tables.cluster(results), end="")
        return
    known = results.setdefault("cluster", {})
    with tempfile.TemporaryDirectory(prefix="benchmark-") as folder:
        options.work = Path(folder).resolve()
        for part in options.parts or PARTS:
            for _ in PARTS[part](options, known.setdefault(part, {})):
                known["machine"] = machine()
                json_entries.write(path, results)
    print(tables.cluster(results), end="")


if __name__ == "__main__":
    begin()
    main()
