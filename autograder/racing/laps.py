"""One lap of a race: a submission's kernels are tried in a guest, with one value of the race's
setting.

The guest returns numbers, and no more. They are bounded here, and a guest that dies, hangs or
returns anything else costs only its own lap. Numbers come from where the submission runs, so they
could be faked: a race gives no points.
"""

import inspect
import math
import statistics
from dataclasses import dataclass, field
from typing import Any

from autograder.checking import kernels
from autograder.course.cells import Notebook, call_of, is_code, is_skipped
from autograder.course.config import Race
from autograder.course.limits import Limits
from autograder.grading.notebook import parse, restore
from autograder.grading.phase_timer import PhaseTimer
from autograder.grading.remote import Remote, RemoteNotebook
from autograder.grading.run import guest_after_cells, send_source
from autograder.grading.submissions import Unit
from autograder.grading.worker import Worker
from autograder.racing import laps_in_guest
from autograder.sandbox.guest import Ended
from autograder.sandbox.guests import Guests
from autograder.sanitize import text

PARTS = ("forward", "forward and backward")
SOURCE = inspect.getsource(kernels) + inspect.getsource(laps_in_guest)
MOST_REASON = 300
SHORTEST, LONGEST = 1e-3, 1e6  # milliseconds of a call
MOST_COUNT = 1 << 50
ROUNDED = 4
"""How many times the dtype's epsilon a result may differ, in units of its largest number: as in
the checks.
"""


@dataclass(frozen=True)
class Mode:
    """How kernels are measured: on which device, for inputs of which dtype, and whether they are
    timed or counted.
    """

    device: str
    dtype: str
    timed: bool


@dataclass(frozen=True)
class Measured:
    """One part at one length: median milliseconds, also the rival's, or the counts of
    `laps_in_guest.COUNTED`.
    """

    part: str
    n: int
    milliseconds: float = 0.0
    rival: float = 0.0
    launches: int = 0
    programs: int = 0
    loaded: int = 0
    stored: int = 0
    products: int = 0

    @property
    def moved(self) -> int:
        """Bytes loaded and stored."""
        return self.loaded + self.stored


@dataclass
class Lap:
    """The result with one value of the setting: what was measured, or the reason why it does not
    count.

    `conditions` are those of the GPU meanwhile, as `gpu_conditions.summarize_samples` returns them;
    empty if they are not known.
    """

    value: int
    measured: list[Measured] = field(default_factory=list)
    reason: str = ""
    conditions: dict[str, Any] = field(default_factory=dict)


class Dropped(Exception):
    """The lap does not count; the text says why."""


def run(
    notebook: Notebook,
    guests: Guests,
    unit: Unit,
    limits: Limits,
    race: Race,
    value: int,
    mode: Mode,
) -> Lap:
    """Return the lap of a restored notebook; see `Lap`."""
    cells = [cell for cell in notebook.cells if is_code(cell) and not is_skipped(cell)]
    calls = [call_of(cell) for cell in cells]
    # The cells after the last of the two functions change nothing that is measured.
    end = 1 + max(
        place for place, call in enumerate(calls) if call and call.subject in race.functions
    )
    try:
        with guest_after_cells(cells[:end], guests, unit, limits) as guest:
            # After the cells, which have a value of their own; the functions read it when called.
            send_source(guest, f"{race.setting} = {value}")
            names = RemoteNotebook(lambda output: None, PhaseTimer())
            names.guest = guest
            return Lap(value, _measured(_Kernels(names, race, mode), race, mode))
    except Dropped as error:
        return Lap(value, reason=str(error))
    except Ended as error:
        return Lap(value, reason=f"Its process was stopped: {text.line(str(error), MOST_REASON)}")
    except Exception as error:
        if not getattr(error, "from_guest", False):
            raise
        return Lap(value, reason=text.line(f"{type(error).__name__}: {error}", MOST_REASON))


def lap_of(worker: Worker, unit: Unit, value: int, mode: Mode) -> Lap:
    """Return the lap of a submission that has passed its checks, with one value of the race's
    setting.
    """
    name = unit.assignment
    race = worker.worker_config.exercise(name).settings.race
    assert race is not None and unit.data is not None
    restored = restore(parse(unit.data, unit.notebook), worker.released[name][""], unit.files)
    unit.files = {**unit.files, **worker.files[name]}
    return run(
        restored.notebook,
        worker.guests,
        unit,
        worker.limits[name],
        race,
        value,
        mode,
    )


class _Kernels:
    """The two functions of a notebook in its guest."""

    def __init__(self, names: RemoteNotebook, race: Race, mode: Mode):
        self.race, self.mode = race, mode
        self.functions = [names.find(name, missing=None) for name in race.functions]
        for name, function in zip(race.functions, self.functions, strict=True):
            # `plain_remote` sets this to None for what cannot be called.
            if not isinstance(function, Remote) or type(function).__call__ is None:
                raise Dropped(f"{name} is not a function.")

    def ask(self, function: Any, *arguments: Any) -> Any:
        """Run a function of `laps_in_guest` there."""
        # `_run` passes the object itself, here the first function, before the other arguments.
        first, second = self.functions
        return first._run(function.__name__, SOURCE, (second, self.race.code, *arguments))


def _measured(tested: _Kernels, race: Race, mode: Mode) -> list[Measured]:
    """Compare the results, then measure; raise `Dropped` if anything is wrong."""
    names: dict[str, Any] = {}
    exec(race.code, names)  # noqa: S102 (the course's own)
    _compare(tested, race, mode, names)
    measured = []
    for n in race.lengths if mode.timed else race.counted:
        if mode.timed:
            answer = tested.ask(laps_in_guest.times, n, mode.device, mode.dtype)
            for part, pair in zip(PARTS, _two(answer), strict=True):
                milliseconds, rival = map(_median, _two(pair))
                measured.append(Measured(part, n, milliseconds, rival))
        else:
            answer = tested.ask(laps_in_guest.counts, n, mode.dtype)
            least = _least(names, n, mode)
            for part, counts, (loaded, stored) in zip(PARTS, _two(answer), least, strict=True):
                measured.append(Measured(part, n, **_counts(counts, loaded, stored)))
    return measured


def _compare(tested: _Kernels, race: Race, mode: Mode, names: dict[str, Any]) -> None:
    """Compare outputs and gradients with the rival's in float64, for new inputs."""
    import torch

    # Rounded to the dtype first: the right results are then those of the very same numbers.
    kind = getattr(torch, mode.dtype)
    inputs = [tensor.to(kind).float() for tensor in names["inputs"](race.counted[-1])]
    leaves = [tensor.double().requires_grad_() for tensor in inputs]
    out = names["rival"](*leaves)
    upstream = torch.randn_like(out).to(kind).float()
    # Both functions have the same output.
    expected = [out, out, *torch.autograd.grad(out, leaves, upstream.double())]
    answer = tested.ask(laps_in_guest.results, inputs, upstream, mode.device, mode.dtype)
    if type(answer) is not list or len(answer) != len(expected):
        raise Dropped("Its results could not be read.")
    labels = [f"the output of {name}" for name in race.functions]
    labels += [f"the gradient of input {number}" for number, _ in enumerate(leaves, 1)]
    for name, got, right in zip(labels, answer, expected, strict=True):
        if (
            not isinstance(got, torch.Tensor)
            or got.dtype != torch.float32
            or got.shape != right.shape
        ):
            raise Dropped(f"It returned no tensor of the right shape for {name}.")
        # At least 0.1: where all numbers are near zero, rounding is not relative to them.
        unit = max(right.abs().max().item(), 0.1)
        gap = (got.double() - right).abs().max().item() / unit
        # "not <=" also refuses NaN.
        if not gap <= ROUNDED * torch.finfo(kind).eps:
            raise Dropped(
                f"{name[0].upper()}{name[1:]} is wrong, by {gap:.2g} of its largest number."
            )


def _least(names: dict[str, Any], n: int, mode: Mode) -> list[tuple[int, int]]:
    """Return the fewest bytes that kernels can load and store: each input is read, each result
    is written, once.
    """
    import torch

    size = getattr(torch, mode.dtype).itemsize
    inputs = names["inputs"](n)
    read = size * sum(tensor.numel() for tensor in inputs)
    output = size * names["rival"](*inputs).numel()
    # Backward also writes a gradient for each input.
    return [(read, output), (read, output + read)]


def _two(answer: Any) -> list[Any]:
    if type(answer) is not list or len(answer) != len(PARTS):
        raise Dropped("Its numbers could not be read.")
    return list(answer)


def _median(times: Any) -> float:
    if type(times) is not list or not laps_in_guest.LEAST <= len(times) <= laps_in_guest.MOST:
        raise Dropped("Its times could not be read.")
    if not all(type(time) is float and SHORTEST <= time <= LONGEST for time in times):  # NaN is not
        raise Dropped(f"Its times are not all between {SHORTEST:g} and {LONGEST:g} milliseconds.")
    return float(statistics.median(times))


def _counts(counts: Any, loaded: int, stored: int) -> dict[str, int]:
    """Return the counts, if they are possible: the kernels load and store at least so many
    bytes.
    """
    if type(counts) is not dict or set(counts) != set(laps_in_guest.COUNTED):
        raise Dropped("Its counts could not be read.")
    if not all(type(count) is int and 0 <= count <= MOST_COUNT for count in counts.values()):
        raise Dropped("Its counts are not all whole numbers.")
    if counts["loaded"] < loaded or counts["stored"] < stored:
        raise Dropped(
            "Its kernels moved fewer bytes than inputs and results have. Either they do not do "
            "the work, or the counts are false."
        )
    return counts


def geometric_mean(values: list[float]) -> float:
    """Return the geometric mean of positive numbers."""
    return math.exp(statistics.fmean(map(math.log, values)))
