"""Show what was measured as Markdown tables: for `run.py --table`, and for the book's page for
instructors.
"""

from statistics import median

PACKAGES = (
    *("nbgrader", "nbconvert", "ipykernel", "ipython"),
    *("numpy", "torch", "matplotlib", "sqlalchemy"),
)
KINDS = {"right": "right", "mixed": "with mistakes"}


def markdown(results):
    """Return `results.json` as Markdown: a table for each part that was measured, and the
    machine.
    """
    parts = [make(results[name]) for name, make in TABLES.items() if results.get(name)]
    return "\n\n".join([*parts, _machine(results["machine"])]) + "\n"


def cluster(results):
    """Return what was measured of grading on a cluster as Markdown."""
    cluster = results["cluster"]
    return "\n\n".join([*_cluster(cluster), _machine(cluster["machine"])]) + "\n"


def exchange(results):
    """Return how long students waited for feedback with `watch`, as Markdown."""
    part = results["exchange"]
    rows = []
    for entry in part["counts"]:
        waits = [entry["first"], entry["median"], entry["last"]]
        rows.append([entry["count"], *(f"{seconds:.1f} s" for seconds in waits)])
    head = ("hand-ins at once", "first page after", "half of the pages after", "last page after")
    again = part["counts"][0]["again"]
    summary = (
        f"One run for each row, with the first exercise, on {part['cores']} cores with a load of "
        f"{part['load']:.1f} beforehand. In {len(again)} more tries, a single hand-in had its page "
        f"after {min(again):.1f} to {max(again):.1f} s. {part['measured'][:10]}."
    )
    return "\n\n".join([_table(head, rows, right=range(4)), summary]) + "\n"


def _table(head, rows, right=()):
    """Return a Markdown table; the columns whose numbers stand in `right` are aligned to the
    right.
    """
    marks = ["---:" if number in right else "---" for number in range(len(head))]
    return "\n".join("| " + " | ".join(map(str, row)) + " |" for row in (head, marks, *rows))


def _rows(part):
    """Yield exercise, kind and what was measured, for parts that measure each exercise and kind."""
    for name, kinds in sorted(part.items()):
        for kind in sorted(kinds, key=list(KINDS).index):
            yield name, kind, kinds[kind]


def _class(part):
    rows, graded, partial = [], 0, 0
    loads, runs, tried = [], 1, set()
    for name, kind, entry in _rows(part):
        ours, stock, best = median(entry["ours_seconds"]), entry["stock"]["of_n"], entry["best"]
        row = [name, f"{entry['n']}, {KINDS[kind]}", f"{ours:.1f} s ({entry['n'] / ours:.1f}/s)"]
        row += [f"{stock:.0f} s", _times(stock / ours)]
        if best:
            # Where starting several processes costs more than it saves, one is the best.
            several = entry["parallel"][best]["of_n"]
            seconds, count = min((stock, "1 process"), (several, f"{best} processes"))
            row += [f"{seconds:.0f} s, {count}", _times(seconds / ours)]
        else:
            row += ["", ""]
        rows.append(row)
        graded += entry["stock"]["count"]
        loads.append(entry["load"])
        tried |= {int(processes) for processes in entry["parallel"]}
        runs = max(runs, len(entry["ours_seconds"]))
        partial += len(entry["stock"]["partial"])
    ours_is = "one run" if runs == 1 else f"the median of up to {runs} runs"
    summary = (
        f"nbgrader graded {graded} of these submissions one by one. Its seconds for a class are "
        "computed: those that do not depend on the class's size, and the median of a submission's "
        f"times their number. Each of our times is {ours_is}. In parallel means {min(tried)} "
        f"processes; where {max(tried)} were tried as well, it is the better of the two. The load "
        f"before a run was {min(loads):.1f} to {max(loads):.1f}. "
    )
    if partial:
        summary += (
            f"Cells with a mistake for which it gave another part of the points: {partial}; all "
            "others are the same."
        )
    else:
        summary += "Every cell of them got the same points from both."
    head = ("exercise", "class", "ours", "nbgrader", "ratio", "best in parallel", "ratio")
    return "\n\n".join([_table(head, rows, right=range(2, len(head))), summary])


def _phases(part):
    """A table for each kind of class, with a column for each exercise, and the phases that take
    longest first.
    """
    tables = []
    for kind in KINDS:
        columns = [(name, entry) for name, this, entry in _rows(part) if this == kind]
        if not columns:
            continue
        total = {}
        for _, entry in columns:
            for phase, spent in entry["phases"].items():
                total[phase] = total.get(phase, 0) + spent
        head = [f"milliseconds for each submission, {KINDS[kind]}", *(name for name, _ in columns)]
        rows = []
        for phase in sorted(total, key=lambda phase: -total[phase]):
            rows.append([phase, *(_ms(entry["phases"].get(phase)) for _, entry in columns)])
        rows.append(["all of these", *(_ms(sum(entry["phases"].values())) for _, entry in columns)])
        rows.append(["wall time of the command", *(_ms(entry["wall"]) for _, entry in columns)])
        tables.append(_table(head, rows, right=range(1, len(head))))
    tables.append(
        "Several processes work at one time, so that phases add up to more than the wall time; "
        "the wall time has the start of Python in it."
    )
    return "\n\n".join(tables)


def _check(part):
    rows = []
    for name, entry in sorted(part.items()):
        # Phases whose names begin with a space are parts of the run, which is a phase itself.
        inner, outer = [], []
        for phase, spent in (entry["phases"] or {}).get("phases", {}).items():
            phases = inner if phase.startswith(" ") else outer
            phases.append(f"{phase.strip()} {spent:.0f}")
        times = ", ".join(outer)
        if inner:
            times += f"; of the run: {', '.join(inner)}"
        rows.append((name, f"{median(entry['seconds']):.2f} s", times or "not recorded"))
    return _table(
        ("one notebook, `check`", "from start to end", "of which milliseconds"), rows, right=(1,)
    )


def _batch(part):
    rows = []
    # Keys of JSON are texts: 10 jobs come after 2.
    for jobs, entry in sorted(part["jobs"].items(), key=lambda pair: int(pair[0])):
        rows.append(
            (
                f"{part['n']} of {part['exercise']}, {jobs} jobs",
                f"{entry['seconds']:.0f} s ({part['n'] / entry['seconds']:.1f}/s)",
                f"{entry['tenths'][0]:.1f}/s, {entry['tenths'][-1]:.1f}/s",
                f"{_mb(entry['first_mb'])}, {_mb(entry['last_mb'])}",
                _mb(entry["peak_mb"]),
                entry["sandboxes"],
            )
        )
    head = (
        "a large batch",
        "seconds",
        "rate of first and last tenth",
        "memory in them",
        "at its peak",
        "sandboxes",
    )
    return _table(head, rows, right=range(1, len(head)))


def _kill(part):
    graded = ", ".join(str(one["graded"]) for one in part["kills"])
    row = (
        f"{part['n']} of {part['exercise']}, killed when {graded} were graded, and started again "
        "each time",
        f"{part['same_grades']} cells graded as in a batch that nobody disturbed",
        f"left behind: {part['left_behind']} processes",
    )
    return _table(("killed", "grades", "processes"), [row])


def _plugin(part):
    row = (
        f"{part['n']} of {part['exercise']}",
        f"{part['seconds']:.0f} s",
        f"{part['each']:.2f} s",
        part["sandboxes"],
    )
    head = (
        "`nbgrader autograde`, this engine in it",
        "seconds",
        "for each submission",
        "most sandboxes",
    )
    return _table(head, [row], right=(1, 2, 3))


def _database(part):
    sqlite, server = (
        {key: median(run[key] for run in part[kind]) for key in ("seconds", "writing_ms")}
        for kind in ("sqlite", "server")
    )
    row = (
        f"{part['n']} of {part['exercise']}, {part['jobs']} jobs",
        f"{sqlite['seconds']:.1f} s, {_ms(sqlite['writing_ms'])} ms",
        f"{server['seconds']:.1f} s, {_ms(server['writing_ms'])} ms",
        _times(server["seconds"] / sqlite["seconds"]),
        f"{part['load']:.1f}",
    )
    head = (
        "a class, and of it the writing of each submission",
        "into SQLite",
        f"into PostgreSQL {part['version'].split()[0]}",
        "time of that",
        "load before",
    )
    return _table(head, [row], right=(1, 2, 3, 4))


def _cluster(part):
    """Yield a table for each of the parts of `benchmarks/cluster.py` that was measured."""
    if part.get("beside"):
        yield _beside(part["beside"])
    if part.get("kill"):
        killed = part["kill"]
        graded = ", ".join(map(str, killed["kills"]))
        yield (
            f"Of {killed['n']} submissions of {killed['exercise']}, a worker got SIGKILL when "
            f"{graded} were graded. Every record is the one of a run without Dask and without "
            "kills, byte for byte but for the time."
        )
    if part.get("writer"):
        yield _writer(part["writer"])


def _beside(part):
    rows = []
    for name, by_workers in sorted(part.items()):
        for workers, entry in sorted(by_workers.items(), key=lambda pair: int(pair[0])):
            local, dask = (
                {key: median(run[key] for run in entry[way]) for key in entry[way][0]}
                for way in ("local", "cluster")
            )
            more = 100 * (local["rate"] / dask["rate"] - 1)
            rows.append(
                (
                    f"{entry['n']} of {name}, {workers} process{'es' * (workers != '1')}",
                    f"{local['rate']:.1f}/s, from {local['first_after']:.0f} s on",
                    f"{dask['rate']:.1f}/s, from {dask['first_after']:.0f} s on",
                    f"{more:+.0f} %",
                    f"{entry['busy']:.0f} %",
                )
            )
    head = ("grading", "without Dask", "on `local:N`", "time for each", "processors busy before")
    return _table(head, rows, right=range(1, len(head)))


def _writer(part):
    rows = []
    for run in part["runs"]:
        ideal = part["workers"] / (run["share"] * part["each"]["grade"]) if run["share"] else None
        like = f"{part['workers'] / run['share']:.0f} workers" if run["share"] else "no time at all"
        rows.append(
            (
                like,
                f"{ideal:.0f}/s" if ideal else "",
                f"{run['rate']:.0f}/s",
                f"{run['pages']:.0f}/s",
                _ms(sum(run["writer_ms"].values())),
            )
        )
    head = (
        f"{part['n']} of {part['exercise']}, replayed by",
        "what they could do",
        "graded",
        "pages",
        "milliseconds of reading and writing for each",
    )
    return _table(head, rows, right=range(1, len(head)))


def _thousand(part):
    rows = [
        (f"`{command}`", f"{entry['seconds']:.0f} s", _mb(entry["main_mb"]), _mb(entry["peak_mb"]))
        for command, entry in part["commands"].items()
    ]
    head = (
        f"{part['students']} students, {len(part['exercises'])} exercises, {part['submissions']} "
        "submissions",
        "seconds",
        "memory of the command itself, at its peak",
        "with all that it starts",
    )
    sizes = ", ".join(f"{name} {size:.1f} MB" for name, size in part["sizes_mb"].items())
    seen, rate = part["browser"], part["submissions"] / part["commands"]["grade"]["seconds"]
    summary = (
        f"Graded {rate:.1f} a second, {part['jobs']} at a time, on a machine whose load was "
        f"{part['load']:.1f} beforehand. Sizes: {sizes}. The report's first screen was "
        f"there after {seen['first_screen']:.1f} s, with {seen['rows']} rows of tables; a student "
        f"was found in {1e3 * seen['search']:.0f} ms. {part['date']}."
    )
    return "\n\n".join([_table(head, rows, right=range(1, len(head))), summary])


def _machine(about):
    versions = ", ".join(f"{name} {about[name]}" for name in PACKAGES)
    return (
        f"{about['cpu']}, {about['cores']} cores, {about['memory_gb']} GB; {about['system']}; "
        f"Python {about['python']}, {versions}. {about['date']}."
    )


def _times(ratio):
    return f"{ratio:.1f} times" if ratio < 100 else f"{ratio:.0f} times"


def _ms(milliseconds):
    return "" if milliseconds is None else f"{milliseconds:.1f}"


def _mb(megabytes):
    return "unknown" if megabytes is None else f"{megabytes:.0f} MB"


PARTS = {"cluster": cluster, "exchange": exchange}
"""What stands on a page of its own: about a cluster, and about a hub."""

TABLES = {
    "class": _class,
    "thousand": _thousand,
    "phases": _phases,
    "check": _check,
    "batch": _batch,
    "plugin": _plugin,
    "kill": _kill,
    "database": _database,
}
"""What stands on the book's page *Grading a class*."""
