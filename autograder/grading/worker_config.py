"""Where a worker works: plain values that another process or machine can be given. Light to import."""

import dataclasses
from dataclasses import dataclass
from pathlib import Path

from autograder import imports
from autograder.checking import machine
from autograder.course import Course, Exercise
from autograder.limits import Limits
from autograder.sandbox.guests import GuestPool, Guests, UnsandboxedGuests


@dataclass(frozen=True)
class WorkerConfig:
    """Where a worker works.

    Attributes
    ----------
    root : str
        The course's folder.
    exercises : tuple of str
        The names of those to grade.
    limits : Limits
        What one submission may use, where its exercise says nothing else; see `autograder.limits`.
    sandbox : bool
        Whether guests are isolated.
    hidden : tuple of str
        Folders that no guest may see, wherever they lie.
    imports : tuple of str
        Modules for guests to load beforehand, besides those that the exercises import.
    hide_gpu : bool
        Whether this machine is to be taken for one without a GPU.
    """

    root: str
    exercises: tuple[str, ...]
    limits: Limits
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

    def limits_of(self, name: str) -> Limits:
        """Return what a submission for the exercise of this name may use."""
        return dataclasses.replace(self.limits, **self.exercise(name).settings.limits)

    def guests(self) -> Guests:
        """Return where guests come from, not started yet: a warm parent, or without a sandbox plain processes."""
        if self.sandbox:
            return self.pool()
        names = list(dict.fromkeys([*self._given_imports(), *self.imports]))
        return UnsandboxedGuests(self.limits, names, self.uses_gpu())

    def pool(self) -> GuestPool:
        """Return a warm parent, not started yet."""
        rehearsals = [self.exercise(name).settings.rehearsal for name in self.exercises]
        given = self._given_imports()
        return GuestPool(self.limits, given, self.hidden, self.uses_gpu(), self.imports, filter(None, rehearsals))

    def _given_imports(self) -> list[str]:
        """Return the modules that the exercises' given cells import, each once."""
        notebooks = [self.exercise(name).notebook for name in self.exercises]
        return list(dict.fromkeys(name for notebook in notebooks for name in imports.modules(notebook)))

    def uses_gpu(self) -> bool:
        """Tell whether guests may use a GPU: one of the exercises asks for it, and this machine has one."""
        asked = any(self.exercise(name).settings.gpu for name in self.exercises)
        return asked and not self.hide_gpu and machine.has("gpu")
