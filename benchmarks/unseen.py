"""What checks make of answers that were never listed: `python benchmarks/unseen.py`, or `... 01-qkv
05`.

They lie in `tests/unseen/`, and were written from the released notebooks alone. Counts go to
`book/data/unseen.json`, with what a reader may want to look at: wrong answers that lose no point,
and right ones that lose some; and which did so when they were graded for the first time, before a
check was changed for their sake. `causes` has for each function how many wrong answers were written
for it, and for how many of them the checks named each cause.
"""

import argparse
import os
import warnings
from collections import Counter

from rich.console import Console

from autograder.authoring import json_entries, loader, unseen

os.environ.setdefault("TRITON_INTERPRET", "1")  # before an exercise's checks import Triton
out = Console(width=118, highlight=False)


def counted(folder):
    """Return the counts of an exercise."""
    counts = Counter(dict.fromkeys(("wrong", "right", "cause", "relation", "words", "nothing"), 0))
    accepted, rejected, causes = [], [], {}
    for told in unseen.results(folder):
        answer = told.answer
        counts[answer.kind] += 1
        if answer.kind == "wrong":
            own = causes.setdefault(answer.subject, {"wrong": 0, "named": Counter()})
            own["wrong"] += 1
            own["named"].update(told.labels if told.lost else ())
        about = f"{answer.subject}: {answer.about}"
        if answer.kind == "right" and told.lost:
            rejected.append(about)
        elif answer.kind == "wrong" and told.lost:
            counts[told.why] += 1
        elif answer.kind == "wrong":
            accepted.append(about)
    # Once recorded, what the first grading found stays, however often this is counted again.
    before = unseen.recorded().get(folder.name, {})
    at_first = {
        "accepted_at_first": before.get("accepted_at_first", accepted),
        "rejected_at_first": before.get("rejected_at_first", rejected),
    }
    return {**counts, "accepted": accepted, "rejected": rejected, **at_first, "causes": causes}


def main():
    """Count for the exercises that are named, by default for all."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "exercises", nargs="*", metavar="EXERCISE", help="such as 01-qkv, or 01; default: all"
    )
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    for folder in loader.FOLDERS:
        if options.exercises and not folder.name.startswith(tuple(options.exercises)):
            continue
        known = unseen.recorded()
        known[folder.name] = counted(folder)
        json_entries.write(unseen.RECORD, known, levels=1)
        out.print(f"{folder.name}: {known[folder.name]}")


if __name__ == "__main__":
    main()
