"""Time submissions' cells in a bare warm fork, and in the sandbox with a judge: `cells.py COURSE ROUNDS`.

The two take turns on the same notebook. The last line of output is the result, as JSON.
"""

import copy
import json
import logging
import statistics
import subprocess
import sys
import time
import warnings
from pathlib import Path


def main():
    """Measure both on every submission of the course, and print what came of it."""
    warnings.filterwarnings("ignore")
    logging.getLogger("traitlets").setLevel(logging.CRITICAL)
    root, rounds = Path(sys.argv[1]).resolve(), int(sys.argv[2])
    from autograder import engine, submission
    from autograder.course import Course
    from autograder.limits import Limits
    from autograder.pool import Setting
    from autograder.work import Worker

    course = Course(root=root, into=root)
    exercise = course.exercises()[0]
    limits = Limits(config=course.config).plain()
    items = submission.find(course, [exercise], root / "submitted")
    worker = Worker(Setting(str(root), (exercise.name,), limits, sandbox=True, hidden=(str(root),)))
    released = worker.released[exercise.name]
    notebooks = []
    for item in items:
        unit = item.read(limits)
        notebooks.append(submission.restore(submission.parse(unit.data, unit.notebook), released).notebook)

    def plain(notebook):
        code = [cell for cell in notebook.cells if cell.cell_type == "code"]
        return [{"source": cell.source, "id": cell.id, "check": engine.is_check(cell)} for cell in code]

    def ours(notebook, seed):
        notebook = copy.deepcopy(notebook)
        start = time.perf_counter()
        engine.execute(notebook, worker.judges[exercise.name], worker.guests, limits, seed, 1)
        seconds = time.perf_counter() - start
        return seconds, {cell.id: engine.points_of(cell)[0] for cell in notebook.cells if engine.is_check(cell)}

    bare = subprocess.Popen(
        [sys.executable, Path(__file__).with_name("bare.py"), str(exercise.released)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=root,
    )  # fmt: skip

    def ask(notebook):
        print(json.dumps(plain(notebook)), file=bare.stdin, flush=True)
        return json.loads(bare.stdout.readline())

    # Every submission once, unmeasured: ours is warm then, and the best of them is the other's rehearsal.
    right = max(notebooks, key=lambda notebook: sum(ours(notebook, 1)[1].values()))
    ask(right)
    ask(right)
    bare_seconds, our_seconds = [], []
    for number in range(rounds):
        for place, notebook in enumerate(notebooks):
            # Take turns in who goes first, and let what the one left behind go before the other begins.
            for turn in (0, 1) if (place + number) % 2 else (1, 0):
                time.sleep(0.05)
                if turn:
                    seconds, points = ours(notebook, number + 2)
                    our_seconds.append(seconds)
                else:
                    said = ask(notebook)
                    bare_seconds.append(said["seconds"])
            if any(abs(points[name] - said["points"][name]) > 0.005 for name in points):
                raise SystemExit(f"{items[place].student}: ours {points}, in a bare fork {said['points']}")
    bare.stdin.close()
    bare.wait()
    worker.close()
    result = {"count": len(our_seconds)}
    for kind, seconds in (("bare", bare_seconds), ("ours", our_seconds)):
        result[f"{kind}_median_ms"] = 1e3 * statistics.median(seconds)
        result[f"{kind}_mean_ms"] = 1e3 * statistics.mean(seconds)
        result[f"{kind}_ms"] = [round(1e3 * own, 2) for own in seconds]
    for name in ("median", "mean"):
        result[f"ratio_{name}"] = result[f"ours_{name}_ms"] / result[f"bare_{name}_ms"]
    pairs = sorted(own / other for own, other in zip(our_seconds, bare_seconds, strict=True))
    result["ratio_of_pairs_median"] = statistics.median(pairs)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
