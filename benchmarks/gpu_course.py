"""The course on a device: its tests, exercise 11 solved and checked, and a class whose points
waited for a GPU.

Each runs in a process of its own. A case that lacks what it needs, such as bubblewrap, says so.
"""

import contextlib
import csv
import functools
import json
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from pathlib import Path

from gpu_needs import Absent, needs

ROOT = Path(__file__).resolve().parent.parent
EXERCISE = "11-gpu"
SCRIPT = ROOT / "solutions" / EXERCISE / f"{EXERCISE}.py"
QUICK = os.environ.get("TRITON_INTERPRET") == "1"
# A dry run stops at this cell: in the interpreter, the rest takes long.
LAST = "# %% ask_tiled_backward [markdown]"
LAST_FIGURE = "# %% demo_beside"  # it draws how fast the kernels are, which is measured elsewhere
# The tests that need a device, by file, as pytest's -k chooses them. test_gpu.py would compare the
# kernel with float64 again, as the part `check` has done by then.
CHOSEN = {
    "test_gpu.py": "what_does_not_fit" if QUICK else "not right_on_a_gpu",
    "test_gpu_guest.py": "interpreted or devices" if QUICK else "",
}


def run(*arguments, **environment):
    """Run Python in the repository; return what it printed.

    Raises
    ------
    RuntimeError
        If it fails, with the last line that it printed.
    """
    known = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    known |= environment
    done = subprocess.run(
        [sys.executable, *map(str, arguments)], cwd=ROOT, env=known, capture_output=True, text=True
    )
    if done.returncode:
        last = (done.stderr.strip() or done.stdout.strip() or "nothing printed").splitlines()[-1]
        raise RuntimeError(f"status {done.returncode}: {last}")
    return done.stdout


# The tests.


def tests():
    """Return the cases: one for each file of tests that asks something of a device."""
    return {file: functools.partial(tested, file, words) for file, words in CHOSEN.items()}


def tested(file, words):
    """Run a file of tests; return how many passed, and which failed or were left out, with the
    reason.
    """
    needs("pytest", "xdist", "filelock", "psutil", "sqlalchemy", "nbformat")
    if file == "test_gpu_guest.py":
        needs("nbgrader", "pyseccomp", programs=["bwrap"])
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        # conftest.py and pyproject.toml need xdist; other plugins, if installed, are not loaded.
        arguments = ["-q", "-p", "xdist.plugin", "-p", "no:cacheprovider", f"--junitxml={report}"]
        arguments += ["-k", words] if words else []
        arguments.append(next((ROOT / "tests").rglob(file)))
        try:
            run("-m", "pytest", *arguments, PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")
        except RuntimeError:
            if not report.exists():  # tests that fail are in the report
                raise
        return {file: outcome(report)}


def outcome(report):
    """Return what a JUnit report of pytest says: {"passed": how many, "failed": {test: why},
    "skipped": {...}}.
    """
    found = {"passed": 0, "failed": {}, "skipped": {}}
    for case in ET.parse(report).iter("testcase"):  # noqa: S314
        marks = {mark.tag: mark for mark in case}
        kind = next((name for name in ("failure", "error", "skipped") if name in marks), None)
        if kind is None:
            found["passed"] += 1
        else:
            said = (marks[kind].get("message") or "").splitlines() or [""]
            found["skipped" if kind == "skipped" else "failed"][case.get("name")] = said[0][:200]
    return found


# Exercise 11.


def exercise():
    """Return the case: the author's solution, checked as a student's script is, with nothing
    installed but torch.
    """
    return {"solved": solved}


def solved():
    """Check the author's solution in another process; return points and what did not pass."""
    shown = run(__file__, MPLBACKEND="agg", PYTHONPATH=str(ROOT / "autograder"), **_interpreted())
    return json.loads(shown.splitlines()[-1])


def _interpreted():
    return {"TRITON_INTERPRET": "1"} if QUICK else {}


class Place:
    """Stands in for the notebook in which checks run; its methods are those that `checking` calls
    (`use_host`). It keeps what the checks found.
    """

    seed = 1

    def __init__(self):
        self.names, self.found = {"__name__": "__main__"}, {}

    def lookup(self, name):
        """Return what the script has under a name now, or None."""
        return self.names.get(name)

    def code_of(self, name):
        """Return None: nothing looks for kernels in the author's code, which has them."""

    def why_undefined(self, name):
        """Return no reason: a script that doesn't define a name ends in an error of its own."""
        return ""

    def instead(self, answers):
        """Replace nothing: each function of the author's is checked with the author's others."""
        return contextlib.nullcontext(set())

    def show(self, report):
        """Keep a report."""
        kept = {"points": report.score, "of": report.points, "waiting": report.pending}
        results = report.results
        failed = [result for result in results if result.status in ("failed", "blocked")]
        lost = {result.name: str(result.message)[:300] for result in failed}
        self.found[report.subject] = {**kept, "checks": len(results), "lost": lost}


def main():
    """Run the author's script, and print what its checks found as one line of JSON."""
    sys.path.insert(0, str(SCRIPT.parent))
    from checking import use_host

    text = SCRIPT.read_text(encoding="utf-8")
    if QUICK:
        text = text.partition(LAST)[0]
    text = text.partition(LAST_FIGURE)[0]
    place = Place()
    with use_host(place):
        exec(compile(text, str(SCRIPT), "exec"), place.names)  # noqa: S102 (an author's own text)
    print(f"\n{json.dumps(place.found)}")


# A class that was graded without a GPU.


def pending():
    """Return the cases: a class is graded where no GPU is seen, then settled and raced here;
    release verifies.
    """
    return {"class": settled} | ({} if QUICK else {"verify": verified})


def verified():
    """Verify the exercise with its checks on the device; return the last line that the command
    prints.
    """
    needs("nbformat", "nbgrader", "pyseccomp", "jupytext", programs=["bwrap"])
    shown = run("-m", "autograder", "release", "--verify", EXERCISE)
    return {"verify": shown.strip().splitlines()[-1][:200]}


def settled():
    """Grade a class twice, the second time with `--pending`, and race its kernels beside the
    course's own.

    Return each student's points, those that wait, and the lines of the race.
    """
    needs("nbformat", "nbgrader", "pyseccomp", programs=["bwrap"])
    if not (ROOT / "exercises" / EXERCISE / "checking.zip").exists():
        raise Absent(f"{EXERCISE} is not released: python course.py release")
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        run(__file__, "class", place / "submitted", PYTHONPATH=str(ROOT), **_interpreted())
        options = [EXERCISE, "--submitted", place / "submitted", "--into", place]
        run("-m", "autograder", "grade", *options, CUDA_VISIBLE_DEVICES="")
        before, said = standings(place), {}
        try:
            run("-m", "autograder", "grade", *options, "--pending")
        except RuntimeError as error:  # of a guest that finds no device: the reason is recorded
            said = {"said": str(error)}
        if not QUICK:
            run("-m", "autograder", "race", *options)
            with (place / "race.csv").open(encoding="utf-8", newline="") as file:
                said["race"] = list(csv.reader(file))
        return {"before": before, "after": standings(place), **said}


def standings(place):
    """Return {student: {"points", "of", "waiting"}} of the records below a folder."""
    found = {}
    for path in sorted(place.glob(f"autograded/*/{EXERCISE}/grade.json")):
        record = json.loads(path.read_text(encoding="utf-8"))
        kept = {"points": record["score"], "of": record["max_score"], "waiting": record["pending"]}
        found[path.parent.parent.name] = {name: round(value, 2) for name, value in kept.items()}
    return found


def write_class(folder):
    """Write submissions: one with the layer alone and, except in a dry run, two solved."""
    # here, because the part `exercise` runs this file with nothing installed but torch
    import copy

    import nbformat

    from autograder.authoring.answer_cells import AnswerCells

    released = ROOT / "exercises" / EXERCISE / f"{EXERCISE}.ipynb"
    answers = AnswerCells(SCRIPT.parent, nbformat.read(released, as_version=4))
    students = {"layer": ["MultiHeadLayer"]}
    if not QUICK:
        solved = list(answers.solutions)
        students |= {"solved": solved, "solved-again": solved}
    for student, written in students.items():
        notebook = copy.deepcopy(answers.released)
        for cell in notebook.cells:
            name = cell.metadata.get("nbgrader", {}).get("grade_id")
            if name in written and name in answers.solutions:
                cell.source = answers.solutions[name]
        path = Path(folder) / student / EXERCISE / released.name
        path.parent.mkdir(parents=True)
        nbformat.write(notebook, path)


if __name__ == "__main__":
    if sys.argv[1:2] == ["class"]:
        write_class(sys.argv[2])
    else:
        main()
