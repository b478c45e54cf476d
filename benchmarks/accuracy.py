"""How often checks are wrong, and how often they say why: `python benchmarks/accuracy.py`, or `...
01-qkv 05`.

For each function of an exercise it counts

* what is told to wrong answers that are not listed: each listed one is taken off the list in turn,
  and our solution is changed in two places at once;
* right answers that lose points: those that are listed, and their rewrites
  (`autograder/authoring/rewrites.py`).

Results go to `book/data/accuracy.json` after each function. What is there already and was found
with the same files stays as it is, so that a run that was broken off goes on; `--again` finds all
anew. What became of mutants, which are wrong answers too, stands in `book/data/mutants.json`:
`python -m autograder mutants` writes that.
"""

import argparse
import json
import warnings
from collections import Counter
from pathlib import Path

from rich.console import Console

from autograder.authoring import (
    answer_trials,
    hint_coverage,
    json_entries,
    loader,
    mutants,
    rewrites,
)
from autograder.course import archive
from autograder.course.seeds import digest_of

RECORD = loader.ROOT / "book" / "data" / "accuracy.json"
SEED = 1
SLOW = {"11-gpu": 8}  # rewrites of one function, where each takes seconds
PAIRS = 24  # answers with two mistakes, for one function
out = Console(width=118, highlight=False)


def recorded():
    """Return what was found before: for each exercise, for each function, the counts."""
    return json.loads(RECORD.read_text(encoding="utf8")) if RECORD.exists() else {}


def state(folder):
    """Return a fingerprint of what decides the counts."""
    tools = [Path(mutants.__file__), Path(rewrites.__file__)]
    files = [*sorted(folder.glob("*.py")), *sorted(archive.RUNTIME.glob("*.py")), *tools]
    # The same, whether git ends lines as Windows does or not.
    texts = (file.read_bytes().replace(b"\r\n", b"\n") for file in files)
    return digest_of(*texts)[:16]


def of_pairs(exercise, subject):
    """Return what is told to answers with two mistakes, and say which of them are accepted."""
    pairs = mutants.pairs_of(exercise, subject, PAIRS)
    counts = Counter(dict.fromkeys(("cause", "relation", "words", "nothing", "accepted"), 0))
    for pair, outcome in zip(pairs, mutants.examined(exercise.folder, pairs), strict=True):
        if not outcome.killed:
            out.print(f"  {subject}: accepted: {pair.name}", style="red")
            counts["accepted"] += 1
        elif outcome.cause:
            counts["cause"] += 1
        elif outcome.relation:
            counts["relation"] += 1
        elif outcome.raised or outcome.explained or not outcome.ended:
            counts["words"] += 1
        else:
            counts["nothing"] += 1
    return dict(counts)


def counted(exercise, subject):
    """Return the counts of one function, and say which right answers lost points."""
    told = list(hint_coverage.hints(exercise, subject))
    kinds = Counter(answer.kind for answer in told)
    lost = []
    for answer in exercise.suite.listed("right_for", subject):
        report = exercise.suite.examine(subject, answer, seed=SEED, diagnosis=False)
        lost.append((answer.__name__, answer_trials.lost(report)))
    most = SLOW.get(exercise.folder.name, rewrites.MOST)
    rewritten = [
        (own.name, why) for own, why in rewrites.try_rewrites(exercise, subject, most, SEED)
    ]
    for name, why in lost + rewritten:
        if why:
            out.print(f"  {subject}: {name} {why}", style="red")
    return {
        "left_out": len(told),
        **{name.replace(" ", "_"): kinds[name] for name in hint_coverage.KINDS},
        "astray": sum(answer.astray for answer in told),
        "right": len(lost),
        "right_rejected": sum(bool(why) for _name, why in lost),
        "pairs": of_pairs(exercise, subject),
        "rewrites": len(rewritten),
        "rewrites_rejected": sum(bool(why) for _name, why in rewritten),
    }


def main():
    """Count for the exercises that are named, by default for all."""
    names = [folder.name for folder in loader.FOLDERS]
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "exercises", nargs="*", metavar="EXERCISE", help="such as 01-qkv, or 01; default: all"
    )
    parser.add_argument(
        "--again", action="store_true", help="count also what was counted with the same files"
    )
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    for wanted in options.exercises:
        if not any(name.startswith(wanted) for name in names):
            parser.error(f"there is no exercise {wanted!r}; they are: {', '.join(names)}")
    for folder in loader.FOLDERS:
        if options.exercises and not folder.name.startswith(tuple(options.exercises)):
            continue
        exercise, now = loader.load(folder), state(folder)
        for subject in exercise.programs:
            known = recorded()
            own = known.setdefault(folder.name, {})
            if own.get(subject, {}).get("state") == now and not options.again:
                continue
            own[subject] = {**counted(exercise, subject), "state": now}
            known[folder.name] = {name: own[name] for name in exercise.programs if name in own}
            json_entries.write(RECORD, known)
            shown = {name: count for name, count in own[subject].items() if name != "state"}
            out.print(f"{folder.name} {subject}: {shown}")


if __name__ == "__main__":
    main()
