"""Solve the released exercises as a student does: each folder by itself, in a Jupyter kernel, on any system.

    python tests/student.py exercises solutions [NN-name ...]

It needs what students install, and neither make nor the grader. As it was handed out, a notebook earns nothing and no
check ends in an error; with the author's solutions in its cells it earns all points, but for those that wait for what
this machine lacks. A notebook that does not is named, and the status is 1.
"""

import copy
import re
import shutil
import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellTimeoutError

SECONDS = 120  # of one cell
TRIES = 3  # now and then a kernel's reply is lost on its way, and nbclient waits for it


def solutions(text):
    """Return the code of an author's cells, by title, without the marks of what students write themselves."""
    _, *parts = re.split(r"^# %% ?(.*)$", text, flags=re.MULTILINE)
    cells = dict(zip(parts[::2], parts[1::2], strict=True))
    return {title: re.sub(r"^ *### (BEGIN|END) SOLUTION\n", "", code, flags=re.M) for title, code in cells.items()}


def executed(notebook, folder, **options):
    """Return a notebook with its outputs, run in a kernel of its own in a folder; nbclient takes further options."""
    for tried in range(1, TRIES + 1):
        client = NotebookClient(
            copy.deepcopy(notebook),
            timeout=SECONDS,
            kernel_name="python3",
            allow_errors=True,
            resources={"metadata": {"path": folder}},
            **options,
        )
        try:
            return client.execute()
        except CellTimeoutError:
            if tried == TRIES:
                raise
            print(f"{folder.name}: no answer for {SECONDS} seconds; once more, in a new kernel", flush=True)


def run(folder, name, answers):
    """Run a released folder's notebook; return points, most points and errors of each check cell."""
    return earned(executed(answered(folder / f"{name}.ipynb", answers), folder))


def answered(path, answers):
    """Return a released notebook with these answers in its cells."""
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        own = cell.metadata.get("nbgrader", {})
        if own.get("solution") and cell.cell_type == "code" and own["grade_id"] in answers:
            cell.source = answers[own["grade_id"]]
    return notebook


def earned(notebook):
    """Return points, most points, errors, and whether something was not verified, of each check cell that was run."""
    found = {}
    for cell in notebook.cells:
        own = cell.metadata.get("nbgrader", {})
        if own.get("grade") and not own.get("solution"):
            results = [each for each in cell.outputs if each.output_type == "execute_result"]
            errors = [f"{each.ename}: {each.evalue}" for each in cell.outputs if each.output_type == "error"]
            shown = "".join(each.get("text", "") + str(each.get("data", {})) for each in cell.outputs)
            points = float(results[-1].data["text/plain"]) if results else None
            found[own["grade_id"]] = (points, own["points"], errors, "not verified here" in shown)
    return found


def faults(folder, text):
    """Return what is wrong with a released folder, one line each."""
    name, lines = folder.name, []
    with tempfile.TemporaryDirectory() as place:
        own = shutil.copytree(folder, Path(place) / name)
        for grade_id, (points, _most, errors, _waits) in run(own, name, {}).items():
            if errors or points:
                lines.append(f"{name}, as handed out: {grade_id} earns {points}; {errors}")
        for grade_id, (points, most, errors, waits) in run(own, name, solutions(text)).items():
            if errors or points is None or (points < most and not waits):
                lines.append(f"{name}, solved: {grade_id} earns {points} of {most}; {errors}")
    return lines


def main(released, written, *names):
    """Look at all exercises, or at those that are named; return the status."""
    folders = sorted(
        path.parent for path in Path(released).resolve().glob("*/*.ipynb") if path.stem == path.parent.name
    )
    found = []
    for folder in folders:
        if names and folder.name not in names:
            continue
        lines = faults(folder, (Path(written) / folder.name / f"{folder.name}.py").read_text(encoding="utf-8"))
        print(*lines or [f"{folder.name}: nothing as handed out, all points when solved"], sep="\n", flush=True)
        found += lines
    return 1 if found or not folders else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
