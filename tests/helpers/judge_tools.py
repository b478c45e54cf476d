"""A judge of the toy exercise, and a guest that it asks."""

import contextlib

from autograder.checking.words import Message
from autograder.course.limits import Limits
from autograder.grading.judge import Judge
from autograder.grading.run import execute
from autograder.grading.submissions import Unit

LIMITS = Limits(cpu_seconds=6, idle_seconds=3, run_all_cells=True)  # torch loads in 3 and more


@contextlib.contextmanager
def asking(guests, toy):
    """A judge with a guest, as a function: `asked(source)` runs a cell in the guest and returns
    the judge.
    """
    judge = judge_with(toy, guests.guest())
    judge.notebook.guest.request({"op": "start", "seed": 1, "files": []})

    def run(source):
        judge.notebook.guest.request({"op": "cell"}, [source.encode()])
        return judge

    yield run
    judge.notebook.guest.close()


def judge_with(course, guest):
    """Return a judge of the toy exercise that asks this guest."""
    judge = Judge(course.exercises()[0], LIMITS)
    judge.begin(seed=1)
    judge.notebook.guest = guest
    return judge


def run_notebook(cells, course, guests, seed=2):
    """Run a notebook's cells as grading does; return what `execute` does."""
    unit = Unit(
        "ada", "01-toy", "01-toy.ipynb", b"", Message(""), None, {}, seed=1, guest_seed=seed
    )
    return execute(cells, Judge(course.exercises()[0], LIMITS), guests, unit, LIMITS)
