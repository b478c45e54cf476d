"""How long a student waits for feedback after a hand-in, and what an idle `watch` costs.

    python benchmarks/exchange.py [--counts 1 30 300] [--exercise 01-qkv] [--seconds 60]

A class hands in through an exchange in a temporary folder, all at once, while a watch runs: as many
students as each count says, a mixed class as in `classes.py`. Then the watch has nothing to do for
some seconds, before its first batch and after its last one. The results go to `results.json`.
"""

import argparse
import base64
import json
import os
import secrets
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from datetime import UTC, datetime
from pathlib import Path

import classes
import nbformat
import psutil

from autograder.authoring import json_entries
from autograder.school.hand_ins import STAMP_FORMAT

ROOT = Path(__file__).resolve().parent.parent
RESULTS = Path(__file__).parent / "results.json"
SETTINGS = """
c.Exchange.root = {root!r}
c.Watch.check_owner = False  # the whole class is one system user
c.Watch.per_hour = 0  # without a limit, for the same reason
"""
LONGEST = 3600  # seconds for a class to get its feedback
SETTLED = 5  # seconds after a batch
AGAIN = 3  # more hand-ins, one by one, with the watch warm


def course_in(folder, exercise):
    """Make a course of one exercise with an exchange; return both folders."""
    course, root = folder / "course", folder / "exchange"
    shutil.copytree(ROOT / "exercises" / exercise, course / "exercises" / exercise)
    config = (ROOT / "nbgrader_config.py").read_text(encoding="utf-8")
    (course / "nbgrader_config.py").write_text(config + SETTINGS.format(root=str(root)))
    exchange = root / "attention-by-hand"
    for name, mode in (("inbound", 0o2733), ("feedback", 0o711)):
        (exchange / name).mkdir(parents=True)
        (exchange / name).chmod(mode)
    return course, exchange


def submit(exchange, exercise, student, text):
    """Write a hand-in as nbgrader's `submit` does."""
    stamp = datetime.now(UTC).strftime(STAMP_FORMAT)
    letters = base64.urlsafe_b64encode(os.urandom(9)).decode()
    folder = exchange / "inbound" / f"{student}+{exercise}+{stamp}+{letters}"
    folder.mkdir()
    for name, content in (
        (f"{exercise}.ipynb", text),
        ("timestamp.txt", stamp),
        ("submission_secret.txt", secrets.token_hex(64)),
    ):
        (folder / name).write_text(content, encoding="utf-8")
    folder.chmod(0o777)  # last: it says that the hand-in is complete


class Watch:
    """A running watch, with the events that it prints."""

    def __init__(self, course):
        command = [sys.executable, "-m", "autograder", "watch", "--json", "--course", str(course)]
        self.process = subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self.events = []
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            self.events.append(json.loads(line))

    def published(self):
        """Return the seconds from each hand-in to its page."""
        return [event["seconds"] for event in self.events if event["event"] == "published"]

    def until(self, condition):
        """Wait until a function returns true; end with a line if the watch can't go on."""
        end = time.monotonic() + LONGEST
        while not condition():
            waits = [event["note"] for event in self.events if event["event"] == "waits"]
            if waits or self.process.poll() is not None or time.monotonic() > end:
                self.process.terminate()
                sys.exit(f"the watch waits, ended, or takes too long: {waits}")
            time.sleep(0.05)

    def idle(self, seconds):
        """Return the share of a core, and the memory, that the idle watch takes (PSS, in MB)."""
        main = psutil.Process(self.process.pid)
        everyone = [main, *main.children(recursive=True)]

        def processor_seconds():
            times = [each.cpu_times() for each in everyone]
            return sum(each.user + each.system for each in times)

        before = processor_seconds()
        time.sleep(seconds)
        after = processor_seconds()
        memory = [each.memory_full_info().pss / 1e6 for each in everyone]
        return {
            "cpu_percent": round(100 * (after - before) / seconds, 2),
            "megabytes": round(sum(memory)),
            "processes": len(everyone),
            "seconds": seconds,
        }


def measured(count, exercise, notebooks, seconds):
    """Return how long a class of this size waits, and what its watch costs when idle."""
    with tempfile.TemporaryDirectory(prefix="exchange-") as folder:
        course, exchange = course_in(Path(folder), exercise)
        watch = Watch(course)
        try:
            watch.until(lambda: watch.events)  # it has begun
            before = watch.idle(seconds)
            began = time.monotonic()
            for student, text in notebooks[:count]:
                submit(exchange, exercise, student, text)
            handed_in = time.monotonic() - began
            watch.until(lambda: len(watch.published()) == count)
            in_all = time.monotonic() - began
            waits = sorted(watch.published())
            again = []
            for number in range(AGAIN if count == 1 else 0):
                known = len(watch.published())
                time.sleep(SETTLED)
                text = notebooks[number + 1][1]
                submit(exchange, exercise, f"again-{number}", text)
                watch.until(lambda known=known: len(watch.published()) > known)
                again.append(watch.published()[-1])
            time.sleep(SETTLED)
            after = watch.idle(seconds)
        finally:
            watch.process.terminate()
            watch.process.wait()
    return {
        "count": count,
        "submitting": round(handed_in, 2),
        "first": waits[0],
        "median": round(statistics.median(waits), 2),
        "last": waits[-1],
        "in_all": round(in_all, 2),
        "again": again,
        "idle_before": before,
        "idle_after": after,
    }


def main():
    """Measure, print a line for each count, and keep the results."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--counts", type=int, nargs="+", default=[1, 30, 300])
    parser.add_argument("--exercise", default="01-qkv")
    parser.add_argument("--seconds", type=float, default=60, help="idle seconds to measure")
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args()
    students = classes.students(
        classes.answers_of(options.exercise), "mixed", max(*options.counts, 1 + AGAIN)
    )
    notebooks = [(student.name, nbformat.writes(student.notebook)) for student in students]
    measurements = []
    for count in options.counts:
        measurements.append(measured(count, options.exercise, notebooks, options.seconds))
        print(json.dumps(measurements[-1]), flush=True)
    results = json.loads(options.results.read_text()) if options.results.exists() else {}
    results["exchange"] = {
        "exercise": options.exercise,
        "measured": datetime.now(UTC).isoformat(timespec="seconds"),
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1),
        "counts": measurements,
    }
    json_entries.write(options.results, results)


if __name__ == "__main__":
    main()
