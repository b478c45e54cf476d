"""Check and measure attention on a GPU: `python benchmarks/gpu.py all --budget 540`.

It writes book/data/gpu.json.

    python benchmarks/gpu.py all --budget 540  # what is missing, what tells the most first; stops before 540 s
    python benchmarks/gpu.py ceilings layer    # these parts again; the records of the others stay
    python benchmarks/gpu.py --table            # what was measured last, as Markdown
    python benchmarks/gpu.py --goals           # which goals were met, and by how much others were missed
    python benchmarks/gpu.py all --quick       # run all of it on a CPU, in Triton's interpreter; no record

`benchmarks/README.md` says what is measured, and how. This process measures nothing: another does
(`gpu_worker.py`).
"""  # noqa: E501

import argparse
import contextlib
import json
import os
import sys
import tempfile
import time
from pathlib import Path

import gpu_compile
import gpu_tables
from gpu_worker import HUNG, Died, Worker
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT))  # for a Python in which the course is not installed

from gpu_record import Record  # noqa: E402

from autograder.racing.gpu_conditions import sample_conditions  # noqa: E402

RECORD = ROOT / "book" / "data" / "gpu.json"
ALL = "all"
PARTS = {  # in the order of their worth
    "check": "kernel and layer beside float64; if anything is wrong, nothing else is measured",
    "ceilings": "copying, and products of matrices",
    "variants": "steps towards faster kernels",
    "paged": "one step of decoding over a cache in pages",
    "layer": "the layer beside PyTorch's, over n",
    "exercise": "exercise 11, solved and checked",
    "pending": "a class that was graded without a device",
    "tests": "the tests that ask something of a device",
    "attention": "the kernel beside PyTorch's, over n",
    "leaderboard": "CS336's configuration",
    "newest": "FlashAttention-4, where it is installed",
    "trace": "a step in the profiler",
    "accuracy": "errors by precision",
    "cache": "reading from the L2 cache",
    "timing": "right and wrong ways to time",
    "window": "flex attention within a window",
    "rnn": "a recurrent layer beside attention",
    "tuning": "block sizes of the kernels",
}
# Seconds after which a part lets the next one begin; its other cases come when all have had a turn.
TURN = 90
FRESH = ("timing",)  # parts that need a process in which nothing was computed yet
RESERVED = 3  # seconds of the budget, to end the process and print


class Wrong(Exception):
    """The kernel or the layer is wrong."""


# What one question may end with; after each, the next case can go on.
FAULTS = (RuntimeError, TimeoutError, Died)


class Run:
    """Measures parts, case by case, within a budget of seconds.

    Parameters
    ----------
    path : Path
        The record's file.
    budget : float
        Seconds, from now on.

    Attributes
    ----------
    record : Record
    outcome : dict
        What became of each part, in one line.
    failed : dict
        {(part, case): why} of what went wrong.

    Raises
    ------
    LookupError
        If there is no device, or the record is of another one.
    """

    def __init__(self, path, budget):
        self.end = time.monotonic() + budget - RESERVED
        self.worker = None
        self.outcome, self.failed, self.seconds = {}, {}, {}
        machine = self.ask("machine")
        self.record = Record(path, machine, gpu_compile.digests())
        if "device" in self.record.lost:
            self.close()
            raise LookupError(
                f"{path} is of another device than {machine['device']}. Name a file for this one, "
                "such as: --record book/data/gpu-NAME.json"
            )

    def ask(self, *question):
        """Ask the process that measures, which is started if there is none; return its answer.

        Raises
        ------
        RuntimeError
            If the case failed.
        LookupError
            If the machine lacks what the case needs.
        TimeoutError, Died
            As `Worker.ask`.
        """
        self.worker = self.worker or Worker()
        try:
            kind, answer = self.worker.ask(question, min(HUNG, self.end - time.monotonic()))
        except (TimeoutError, Died):
            self.worker = None
            raise
        if kind == "failed":
            self.close()  # after a fault on the device, it can compute nothing more
            raise RuntimeError(answer)
        if kind == "absent":
            raise LookupError(answer)
        return answer

    def close(self):
        """End the process that measures."""
        if self.worker:
            self.worker.end()
            self.worker = None

    def measure(self, parts, progress):
        """Measure what is missing of these parts, in turns, until all of it is done or the time is
        over.
        """
        todo = [part for part in parts if not self.record.has(part)]
        for part in parts:
            if part not in todo:
                self.outcome[part] = f"measured on {self.record.data['measured'][part]}"
        self.judge()
        while todo:
            for part in list(todo):
                if time.monotonic() >= self.end:
                    for left in todo:
                        self.outcome.setdefault(left, "left: no time")
                    return
                began = time.monotonic()
                with conditions(self.record, part):
                    over = self.turn(part, progress)
                self.seconds[part] = self.seconds.get(part, 0) + time.monotonic() - began
                if over:
                    todo.remove(part)
                self.judge()

    def judge(self):
        """Raise Wrong if the record says that the kernel, or the layer, is."""
        if wrong := self.record.data.get("check", {}).get("wrong"):
            self.outcome["check"] = "WRONG"
            raise Wrong(f"{len(wrong)} comparisons failed:\n  " + "\n  ".join(wrong[:20]))

    def turn(self, part, progress):
        """Measure cases of a part; return whether there is nothing more to be done for it now."""
        began, longest, absent = time.monotonic(), 0, ""
        if part in FRESH:
            self.close()
        try:
            cases = self.ask(part)
        except (LookupError, *FAULTS) as error:
            if self.ran_out_of_time(error):
                return False
            self.fail(part, "its cases", error)
            return True
        shown = progress.add_task(part, total=len(cases), completed=len(self.record.done(part)))
        for case in cases:
            now = time.monotonic()
            if case in self.record.done(part) or (part, case) in self.failed:
                continue
            # the next case may take as long as the longest one so far
            if now >= self.end or now + longest >= began + TURN:
                break
            progress.update(shown, description=f"{part}: {case}")
            try:
                self.record.add(part, case, self.ask(part, case))
            except LookupError as error:  # the machine lacks it for the other cases as well
                absent = str(error)
                break
            except FAULTS as error:
                if self.ran_out_of_time(error):
                    break
                self.fail(part, case, error)
            longest = max(longest, time.monotonic() - now)
            progress.update(shown, completed=len(self.record.done(part)))
        progress.update(shown, description=part)
        return self.conclude(part, len(cases), absent)

    def ran_out_of_time(self, error):
        """Tell whether an error only says that the budget is over: then the case has not failed."""
        return isinstance(error, TimeoutError) and time.monotonic() >= self.end

    def conclude(self, part, count, absent):
        """Note the outcome of a part after its turn; return whether there is nothing more to be
        done for it now.
        """
        done = len(self.record.done(part))
        failed = sum(own == part for own, _ in self.failed)
        if done == count:
            self.record.finish(part)
            self.outcome[part] = f"{count} of {count} cases"
            return True
        if absent:
            self.outcome[part] = f"left out: {absent}"
            return True
        self.outcome[part] = f"left: {count - done} of {count} cases, {failed} of them failed"
        return done + failed == count

    def fail(self, part, case, error):
        """Keep what went wrong."""
        said = (
            f"more than {HUNG} s"
            if isinstance(error, TimeoutError)
            else str(error) or type(error).__name__
        )
        self.failed[part, case] = said
        self.outcome[part] = f"failed: {said}"

    def summary(self):
        """Return what became of each part, what is left, and how long each took."""
        width = max(map(len, self.outcome), default=0)
        lines = []
        for part, said in self.outcome.items():
            seconds = f"{self.seconds[part]:5.0f} s" if part in self.seconds else " " * 7
            lines.append(f"{part:{width}}  {seconds}  {said}")
        lines += [f"failed: {part}, {case}: {why}" for (part, case), why in self.failed.items()]
        return "\n".join(lines)


@contextlib.contextmanager
def conditions(record, part):
    """Note the clock, heat, power and throttling of the device while a part is measured, if
    nvidia-smi reports them.
    """
    found = {}
    try:
        with sample_conditions() as found:
            yield
    finally:
        if found:
            record.data.setdefault("conditions", {})[part] = found
            record.write()


def arguments():
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    listed = "; ".join(f"{part}: {about}" for part, about in PARTS.items())
    parts = f"{ALL} (the default): what is missing. Or {listed}"
    parser.add_argument("parts", nargs="*", metavar="PART", help=parts)
    parser.add_argument(
        "--budget", type=float, default=1800, help="seconds that it may take in all"
    )
    parser.add_argument(
        "--record", type=Path, help="the file of results (default: book/data/gpu.json)"
    )
    parser.add_argument(
        "--table", action="store_true", help="print what was measured last, as Markdown"
    )
    parser.add_argument("--goals", action="store_true", help="print which goals were met")
    parser.add_argument(
        "--quick", action="store_true", help="tiny sizes on a CPU, in the interpreter; no record"
    )
    return parser


def main():
    """Measure, or print."""
    parser = arguments()
    options = parser.parse_args()
    unknown = set(options.parts) - {*PARTS, ALL}
    if unknown:
        parser.error(
            f"no part is called {', '.join(sorted(unknown))}; there are {ALL}, {', '.join(PARTS)}"
        )
    if options.quick and options.record and options.record.resolve() == RECORD:
        parser.error(f"--quick proves the way, and measures nothing: not into {RECORD}")
    if options.budget <= RESERVED:
        parser.error(f"--budget is in seconds, more than {RESERVED}")
    if options.table or options.goals:
        show(options)
        return 0
    os.environ.pop("TRITON_INTERPRET", None)
    if options.quick:
        os.environ["TRITON_INTERPRET"] = "1"
    with tempfile.TemporaryDirectory() as scratch:
        path = options.record or (Path(scratch) / "gpu.json" if options.quick else RECORD)
        return measure(options, path)


def show(options):
    """Print the tables of a record, or its goals and what the compiled kernels take."""
    path = options.record or RECORD
    if not path.exists():
        raise SystemExit(f"There is no {path}.")
    record = json.loads(path.read_text(encoding="utf-8"))
    print(gpu_tables.everything(record) if options.table else gpu_tables.told_goals(record))
    if options.goals and gpu_compile.COMPILED.exists():
        compiled = gpu_compile.limits(gpu_compile.read())
        print("\nThe kernels as they are compiled:", *compiled, sep="\n  ")


def measure(options, path):
    """Measure what the options ask for; return the exit status."""
    named = [part for part in options.parts if part != ALL]
    try:
        run = Run(path, options.budget)
    except (LookupError, *FAULTS) as error:
        late = f"The device did not answer within {min(HUNG, options.budget):g} s."
        raise SystemExit(late if isinstance(error, TimeoutError) else str(error)) from None
    record, status = run.record, 0
    if record.lost:
        print(f"{', '.join(record.lost)}: not as in {path}, which starts again")
    for part in named:
        record.drop(part)
    columns = [SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()]
    try:
        with Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True)) as progress:
            run.measure(named or list(PARTS), progress)
    except Wrong as wrong:
        print(f"{wrong}\nFix that first: nothing else is measured.")
        status = 1
    finally:
        run.close()
    if options.quick:
        print(gpu_tables.everything(json.loads(json.dumps(record.data))))
    print(run.summary())
    print(
        f"In {path}."
        if not options.quick
        else "A dry run: none of these figures is one of a device."
    )
    return status or bool(run.failed)


if __name__ == "__main__":
    sys.exit(main())
