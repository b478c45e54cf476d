"""The configuration of a worker: plain values that can be sent to another process or machine.

Light to import.
"""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from autograder.checking import machine
from autograder.course import imports
from autograder.course.config import Course, Exercise
from autograder.course.limits import Limits
from autograder.sandbox.guests import GuestPool, Guests, UnsandboxedGuests


@dataclass(frozen=True)
class WorkerConfig:
    """The configuration of a worker.

    Attributes
    ----------
    root : str
        The course's folder.
    exercises : tuple of str
        The names of those to grade.
    limits : Limits
        What one submission may use, where its exercise says nothing else; see
        `autograder.course.limits`.
    sandbox : bool
        Whether guests are isolated.
    hidden : tuple of str
        Folders that no guest may see, wherever they lie.
    imports : tuple of str
        Modules for guests to load beforehand, besides those that the exercises import.
    packages : tuple of str
        The packages that the course adds; the warm parent loads them beforehand, if they are
        installed.
    trial_results : tuple of (str, str), optional
        What was tried where guests run: what a check's `on=` names, and why it does not work there,
        or "" if it does.
    """

    root: str
    exercises: tuple[str, ...]
    limits: Limits
    sandbox: bool = True
    hidden: tuple[str, ...] = ()
    imports: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    trial_results: tuple[tuple[str, str], ...] = ()

    @classmethod
    def for_course(
        cls,
        course: Course,
        exercises: Sequence[Exercise],
        limits: Limits,
        sandbox: bool = True,
        hidden: Sequence[Path] = (),
        imports: tuple[str, ...] = (),
    ) -> "WorkerConfig":
        """Return the configuration that grades these exercises of a course.

        No guest sees the course's folder, that of its grades, or the `hidden` ones.
        """
        return cls(
            root=str(course.root),
            exercises=tuple(exercise.name for exercise in exercises),
            limits=limits,
            sandbox=sandbox,
            hidden=tuple(map(str, [course.root, course.output_folder, *hidden])),
            imports=imports,
            packages=tuple(course.packages),
        )

    def exercise(self, name: str) -> Exercise:
        """Return the exercise of this name."""
        return Exercise(name, Path(self.root))

    def limits_of(self, name: str) -> Limits:
        """Return what a submission for the exercise of this name may use."""
        return dataclasses.replace(self.limits, **self.exercise(name).settings.limits)

    def guests(self) -> Guests:
        """Return where guests come from, not started yet: a warm parent, or without a sandbox
        plain processes.
        """
        if self.sandbox:
            return self.pool()
        # Each of these guests loads them again, so not what the course only may need.
        names = list(dict.fromkeys([*self._given_imports(), *self.imports]))
        return UnsandboxedGuests(self.limits, names, self.uses_gpu())

    def bare_guests(self) -> Guests:
        """Return where guests come from that are like others, but load and rehearse nothing but
        torch beforehand.
        """
        if self.sandbox:
            return GuestPool(self.limits, (), self.hidden, self.uses_gpu(), ["torch"])
        return UnsandboxedGuests(self.limits, ["torch"], self.uses_gpu())

    def pool(self) -> GuestPool:
        """Return a warm parent, not started yet."""
        rehearsals = [self.exercise(name).settings.rehearsal for name in self.exercises]
        given_imports = self._given_imports()
        of_exercises = [
            package for name in self.exercises for package in self.exercise(name).settings.packages
        ]
        load_only = dict.fromkeys([*self.imports, *self.packages, *of_exercises])
        return GuestPool(
            self.limits,
            given_imports,
            self.hidden,
            self.uses_gpu(),
            load_only,
            filter(None, rehearsals),
        )

    def _given_imports(self) -> list[str]:
        """Return the modules that the exercises' given cells import, each once."""
        notebooks = [self.exercise(name).notebook for name in self.exercises]
        return list(
            dict.fromkeys(name for notebook in notebooks for name in imports.modules(notebook))
        )

    def uses_gpu(self) -> bool:
        """Tell whether guests may use a GPU: one of the exercises asks for it, and this machine
        has one.
        """
        asked = any(self.exercise(name).settings.gpu for name in self.exercises)
        return asked and not dict(self.trial_results).get("gpu") and machine.has("gpu")

    def wants(self) -> list[str]:
        """Return what checks of the exercises need of the machine, as their `on=` names it, in a
        fixed order.
        """
        asked = {need for name in self.exercises for need in self.exercise(name).wants}
        return [need for need in machine.LACKS if need in asked]
