"""Whose points depend on the draw: `python benchmarks/draws.py 05`, or `... 12 unpatch --causes`.

Each wrong answer, of the lists and of `tests/unseen/`, is checked with 12 seeds. The answers
printed are those whose points differ by more than a hundredth of the function's, or, with
`--causes`, whose first cause differs.
"""

import argparse
import os
import time
import warnings
from collections import Counter

from rich.console import Console

from autograder.authoring import draws, loader

os.environ.setdefault("TRITON_INTERPRET", "1")  # before an exercise's checks import Triton
out = Console(width=118, highlight=False)


def main():
    """Try the answers to the exercises and functions that are named, by default all."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "names", nargs="*", metavar="EXERCISE or FUNCTION", help="such as 12, or unpatch"
    )
    parser.add_argument(
        "--causes", action="store_true", help="compare the first cause that feedback names, as well"
    )
    parser.add_argument("--seeds", type=int, default=len(draws.SEEDS), help="how many seeds")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    # Exercises begin with a number; functions cannot.
    numbers = tuple(name for name in options.names if name[0].isdigit())
    functions = {name for name in options.names if not name[0].isdigit()}
    seeds = tuple(range(1, options.seeds + 1))
    for folder in loader.FOLDERS:
        if numbers and not folder.name.startswith(numbers):
            continue
        subjects = set(loader.load(folder).subjects)
        if functions:
            subjects &= functions
        for kind in (draws.listed, draws.written):
            begun = time.perf_counter()
            tried, unlike = report(kind(folder, subjects, seeds, options.causes), options.causes)
            seconds = time.perf_counter() - begun
            out.print(
                f"{folder.name}, {kind.__name__}: {unlike} of {tried} answers, {seconds:.0f} s"
            )


def report(answers, causes):
    """Print the answers whose result depends on the draw; return how many there are of all, and
    of these.
    """
    tried = unlike = 0
    for drawn in answers:
        tried += 1
        if drawn.same_points and drawn.same_cause:
            continue
        unlike += 1
        shares = " ".join(f"{share:.2f}" for share in drawn.shares)
        out.print(f"{drawn.subject}: {drawn.name}\n    {shares}")
        if causes:
            out.print(f"    {dict(Counter(drawn.causes))}")
    return tried, unlike


if __name__ == "__main__":
    main()
