"""Run `python -m autograder check` with a clock: `phases.py COURSE NOTEBOOK`. Prints a line of JSON."""

import functools
import json
import sys
import time
from pathlib import Path

import psutil


def main():
    """Check one notebook, and print how many seconds each phase took."""
    root, notebook = Path(sys.argv[1]).resolve(), Path(sys.argv[2])
    entered = time.time()
    from autograder import cli
    from autograder.course import Course

    cli.Course = functools.partial(Course, root=root)
    spent = dict.fromkeys(("waiting for the guest", "cells", "checks"), 0.0)
    marks = {}
    inside = [0]

    def timed(owner, name, phase):
        own = getattr(owner, name)

        @functools.wraps(own)
        def call(*arguments, **more):
            inside[0] += 1
            start = time.time()
            try:
                return own(*arguments, **more)
            finally:
                inside[0] -= 1
                if not inside[0]:  # a request within a check is the check's
                    spent[phase] += time.time() - start

        setattr(owner, name, call)

    # The same imports that `check` makes, a moment earlier; the guest starts beside them there, and here as well.
    from autograder.limits import Limits
    from autograder.sandbox import Bare, Guest

    start_guest = Bare.start
    early = [Bare(Limits(config=Course(root=root).config).plain())]
    early[0].start()

    def start(self):
        if early:
            vars(self).update(vars(early.pop()))
        else:
            start_guest(self)

    Bare.start = start
    import nbformat  # noqa: F401

    from autograder import engine, judge, submission  # noqa: F401
    from checking import show  # noqa: F401

    imported = time.time()
    timed(Bare, "guest", "waiting for the guest")
    timed(Guest, "request", "cells")
    timed(judge.Judge, "check", "checks")
    execute = engine.execute

    def executed(*arguments, **more):
        marks["begin"] = time.time()
        try:
            return execute(*arguments, **more)
        finally:
            marks["end"] = time.time()

    engine.execute = executed
    cli.check(notebook)
    finished = time.time()
    run = marks["end"] - marks["begin"]
    phases = {
        "Python itself": entered - psutil.Process().create_time(),
        "imports, the guest starting beside them": imported - entered,
        "reading and restoring the notebook": marks["begin"] - imported,
        **spent,
        "the rest of the run": run - sum(spent.values()),
        "feedback and end": finished - marks["end"],
    }
    print(json.dumps(phases))


if __name__ == "__main__":
    main()
