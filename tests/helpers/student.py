"""Solve the released exercises as a student does: each folder by itself, in a Jupyter kernel, on
any system.

    python tests/helpers/student.py exercises solutions [NN-name ...]

It needs what students install, and neither make nor the grader. As it was handed out, a notebook
earns nothing and no check ends in an error; with the author's solutions in its cells it earns all
points, but for those that wait for what this machine lacks: a GPU, or Triton. What waits although
the machine has that is a fault. A notebook with a fault is named, and the status is 1.
"""

import copy
import importlib.metadata
import importlib.util
import platform
import re
import shutil
import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellTimeoutError

SECONDS = 120  # of one cell
TRIES = 3  # sometimes a kernel's reply is lost, and nbclient waits for it until its limit
REPORT = "application/vnd.checking.report+json"
SHOWN = ("numpy", "torch", "triton", "matplotlib")  # the packages whose versions are printed
SHOWN += ("ipykernel", "ipython", "ipywidgets", "jupyterlab")


def solutions(text):
    """Return the code of an author's cells, by title, without the marks of what students write
    themselves.
    """
    _, *parts = re.split(r"^# %% ?(.*)$", text, flags=re.MULTILINE)
    cells = dict(zip(parts[::2], parts[1::2], strict=True))
    return {
        title: re.sub(r"^ *### (BEGIN|END) SOLUTION\n", "", code, flags=re.M)
        for title, code in cells.items()
    }


def executed(notebook, folder, **options):
    """Return a notebook with its outputs, run in a kernel of its own in a folder; nbclient takes
    further options.
    """
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
            print(
                f"{folder.name}: no answer for {SECONDS} seconds; once more, in a new kernel",
                flush=True,
            )


def run(folder, name, answers):
    """Run a released folder's notebook; return points, most points and errors of each check
    cell.
    """
    return earned(executed(answered(folder / f"{name}.ipynb", answers), folder))


def answered(path, answers):
    """Return a released notebook with these answers in its cells."""
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        flags = cell.metadata.get("nbgrader", {})
        if flags.get("solution") and cell.cell_type == "code" and flags["grade_id"] in answers:
            cell.source = answers[flags["grade_id"]]
    return notebook


def earned(notebook):
    """Return points, most points, errors, and what was not verified, of each check cell that was
    run.

    What was not verified is a pair for each check: what it needs of a machine, and the reason that
    was given.
    """
    results_by_cell = {}
    for cell in notebook.cells:
        flags = cell.metadata.get("nbgrader", {})
        if flags.get("grade") and not flags.get("solution"):
            results = [each for each in cell.outputs if each.output_type == "execute_result"]
            errors = [
                f"{each.ename}: {each.evalue}"
                for each in cell.outputs
                if each.output_type == "error"
            ]
            reports = [each.data[REPORT] for each in cell.outputs if REPORT in each.get("data", {})]
            every = [result for report in reports for result in report["results"]]
            waits = [
                (result["on"], result["message"])
                for result in every
                if result["status"] == "unverified"
            ]
            points = float(results[-1].data["text/plain"]) if results else None
            results_by_cell[flags["grade_id"]] = (points, flags["points"], errors, waits)
    return results_by_cell


def lacks():
    """Return what checks may wait for on this machine, by the names that they call it."""
    lacking = {"triton", "bf16"} if importlib.util.find_spec("triton") is None else set()
    import torch

    return lacking if torch.cuda.is_available() else lacking | {"gpu", "bf16"}


def versions():
    """Return in one line the system, the Python, and the versions of what students install."""
    parts = [
        f"{sys.platform} {platform.machine()}",
        f"Python {platform.python_version()} ({sys.executable})",
    ]
    for name in SHOWN:
        try:
            parts.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            parts.append(f"no {name}")
    return ", ".join(parts)


def faults(folder, text, lacking):
    """Return what is wrong with a released folder, one line each."""
    name, lines = folder.name, []
    with tempfile.TemporaryDirectory() as temporary:
        copied = shutil.copytree(folder, Path(temporary) / name)
        for grade_id, (points, _most, errors, _waits) in run(copied, name, {}).items():
            if errors or points:
                lines.append(f"{name}, as handed out: {grade_id} earns {points}; {errors}")
        for grade_id, (points, most, errors, waits) in run(copied, name, solutions(text)).items():
            if errors or points is None or (points < most and not waits):
                lines.append(f"{name}, solved: {grade_id} earns {points} of {most}; {errors}")
            for reason in dict.fromkeys(reason for on, reason in waits if on not in lacking):
                lines.append(
                    f"{name}, solved: {grade_id} is not verified here, and should be: {reason}"
                )
    return lines


def main(released, written, *names):
    """Look at all exercises, or at those that are named; return the status."""
    every = sorted(
        path.parent
        for path in Path(released).resolve().glob("*/*.ipynb")
        if path.stem == path.parent.name
    )
    folders = [folder for folder in every if not names or folder.name in names]
    if not folders or not all((folder / "checking.zip").exists() for folder in folders):
        print(
            f"{released}: no exercises with their archives there. Release them first: python "
            "course.py release"
        )
        return 1
    print(versions(), flush=True)
    every_fault, lacking = [], lacks()
    for folder in folders:
        text = (Path(written) / folder.name / f"{folder.name}.py").read_text(encoding="utf-8")
        lines = faults(folder, text, lacking)
        print(
            *lines or [f"{folder.name}: nothing as handed out, all points when solved"],
            sep="\n",
            flush=True,
        )
        every_fault += lines
    return 1 if every_fault else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
