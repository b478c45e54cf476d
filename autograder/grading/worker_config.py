"""Where a worker works: plain values that another process or machine can be given. Light to import."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autograder import imports
from autograder.checking import machine
from autograder.course import Course, Exercise
from autograder.sandbox.guests import Bare, Nursery


@dataclass(frozen=True)
class WorkerConfig:
    """Where a worker works.

    Attributes
    ----------
    root : str
        The course's folder.
    exercises : tuple of str
        The names of those to grade.
    limits : dict
        What one submission may use, where its exercise says nothing else; see `autograder.limits`.
    sandbox : bool
        Whether guests are isolated.
    hidden : tuple of str
        Folders that no guest may see, wherever they lie.
    imports : tuple of str
        Modules for guests to load beforehand, besides those that the exercises import or name.
    hide_gpu : bool
        Whether this machine is to be taken for one without a GPU.
    """

    root: str
    exercises: tuple[str, ...]
    limits: dict[str, Any]
    sandbox: bool = True
    hidden: tuple[str, ...] = ()
    imports: tuple[str, ...] = ()
    hide_gpu: bool = False

    @property
    def course(self) -> Course:
        """The course that is graded."""
        return Course(root=Path(self.root))

    def exercise(self, name: str) -> Exercise:
        """Return the exercise of this name."""
        return Exercise(name, Path(self.root))

    def limits_of(self, name: str) -> dict[str, Any]:
        """Return what a submission for the exercise of this name may use."""
        return self.limits | self.exercise(name).settings.limits

    def guests(self) -> Nursery | Bare:
        """Return where guests come from, not started yet: a warm parent, or without a sandbox plain processes."""
        exercises = [self.exercise(name) for name in self.exercises]
        names = [name for one in exercises for name in (*imports.modules(one.notebook), *one.settings.preload)]
        names, gpu = list(dict.fromkeys(names)), self.uses_gpu()
        if self.sandbox:
            return Nursery(self.limits, names, self.hidden, gpu, self.imports)
        return Bare(self.limits, list(dict.fromkeys([*names, *self.imports])), gpu)

    def uses_gpu(self) -> bool:
        """Tell whether guests may use a GPU: one of the exercises asks for it, and this machine has one."""
        asked = any(self.exercise(name).settings.gpu for name in self.exercises)
        return asked and not self.hide_gpu and machine.has("gpu")
