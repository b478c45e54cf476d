"""The engine as nbgrader's own `Autograde` uses it: two preprocessors, named in `nbgrader_config.py`.

`Restore` stands for what nbgrader does before it runs a notebook, `Run` for running it. Points, comments and
penalties stay with nbgrader's own preprocessors, which come after.
"""

import atexit
from functools import lru_cache
from pathlib import Path

import nbformat
from nbgrader.preprocessors import NbGraderPreprocessor
from traitlets import Bool

from autograder import sandbox, submission
from autograder.course import Course, Exercise, UserError
from autograder.grade import course_secret, seed_for
from autograder.limits import Limits
from autograder.pool import Setting
from autograder.work import Worker, head, outcome


def _course(config):
    return Course(root=Path(config.CourseDirectory.get("root") or Path.cwd()), into=Path.cwd())


class Restore(NbGraderPreprocessor):
    """Puts a student's own cells into the released notebook: locked cells, points and metadata are the release's."""

    def preprocess(self, nb, resources):
        """Return the restored notebook; what had to be repaired is kept in its metadata for `Run`."""
        exercise = Exercise(resources["nbgrader"]["assignment"], _course(self.config).root)
        if not exercise.notebook.exists():
            raise UserError(f"{exercise.name} is not released yet. Run: python -m autograder release {exercise.name}")
        restored = submission.restore(nb, nbformat.read(exercise.notebook, as_version=4))
        restored.notebook.metadata["restored"] = {"repairs": restored.repairs, "evidence": restored.evidence}
        return restored.notebook, resources


class Run(NbGraderPreprocessor):
    """Runs a restored notebook: the student's cells in a guest, check cells in the judge."""

    sandbox = Bool(True, help="Whether guests are isolated; without, submissions run with your rights.").tag(
        config=True
    )

    def preprocess(self, nb, resources):
        """Return the notebook with its outputs, an outcome in each check cell, and a head that says what happened."""
        course, own = _course(self.config), resources["nbgrader"]
        lacks = sandbox.missing() if self.sandbox else []
        if lacks:
            raise UserError(
                f"Submissions cannot be isolated on this machine: {'; '.join(lacks)}. "
                "Mend that, or set c.Run.sandbox = False at your own risk."
            )
        repaired = nb.metadata.pop("restored", {"repairs": [], "evidence": []})
        digest = submission.digest_of(nbformat.writes(nb).encode())
        secret = course_secret(course)
        folder = Path(resources["metadata"]["path"])
        files, left_out = submission.beside(folder, Limits(config=self.config).beside_mb)
        unit = submission.Unit(
            student=own["student"],
            assignment=own["assignment"],
            notebook=f"{own['notebook']}.ipynb",
            data=None,
            problem="",
            stamp=None,
            files=files,
            left_out=left_out,
            digest=digest,
            seed=seed_for(secret, own["assignment"], digest),
            guest_seed=seed_for(secret, f"guest\0{own['assignment']}", digest),
        )
        worker = _worker(str(course.root), own["assignment"], self.sandbox, Limits(config=self.config))
        ended = worker.run(unit, nb)
        kind, reason, evidence = outcome(ended, repaired["evidence"])
        repairs = [*([left_out] if left_out else []), *repaired["repairs"]]
        if kind or repairs:
            nb.cells.insert(0, head(kind or "repaired", reason, repairs, evidence))
        return nb, resources


@lru_cache(1)
def _worker(root, assignment, isolated, limits):
    worker = Worker(Setting(root, (assignment,), limits.plain(), isolated, (root,)))
    atexit.register(worker.close)
    return worker
