"""Requirements that a check may have of its machine, and the message if the machine lacks one.

Something that is installed may still not work, because of a version of Triton or NumPy, a driver,
or a missing compiler. So before a student's code is judged, a piece of the course's own code is
tried in the same way (`kernels.trial`). If that fails, the machine counts as lacking it, and the
reason is reported.
"""

import importlib.util
import os
from collections.abc import Mapping

from . import kernels
from .words import Message

LACKS = {
    "gpu": Message("This check needs a GPU that PyTorch can use, and there is none here."),
    "triton": Message("This check needs Triton, which runs on Linux and is not installed here."),
    "bf16": Message(
        "This check needs a GPU on which Triton kernels compute in bfloat16, and "
        "there is none here."
    ),
    "compile": Message("This check needs `torch.compile`, which does not run here."),
}
"""The names that `on=` accepts, each with the message for a machine that lacks it."""

OWN_ANSWER = "own"
"""What points wait for if the course's own answer also fails a check."""

FAULTY = "This check needs {what}, but the course's own code for it fails here as well: {reason}"

NAMES = {
    "gpu": Message("a GPU"),
    "triton": Message("Triton"),
    "bf16": Message("a GPU with bfloat16"),
    "compile": Message("torch.compile"),
    OWN_ANSWER: Message("versions with which the course's own answer passes"),
}
"""The same in a few words, with `OWN_ANSWER`."""

_tried: dict[str, str] = {}
"""For each thing that was tried, why it does not work; "" if it does."""


def has(on: str) -> bool:
    """Tell whether this machine has what `on=` names, as far as is known without a trial."""
    if on == OWN_ANSWER:  # unknown until the course's own answer is examined
        return True
    return _installed(on) and not _tried.get(on)


def lacks(on: str) -> Message | str:
    """Return a `Message` if the machine lacks what `on=` names; otherwise an empty text."""
    if not on or has(on):
        return ""
    reason = _tried.get(on, "")
    return Message(FAULTY, what=NAMES[on], reason=reason) if reason else LACKS[on]


def fails(on: str) -> Message | str:
    """Do as `lacks`, but try the requirement first, once per process, before any student is
    judged by it.
    """
    # Without the package, there is nothing to try: `lacks` says that it is not there.
    if on and on not in _tried and has(on):
        if not _installed("gpu"):
            os.environ.setdefault("TRITON_INTERPRET", "1")  # Triton asks for it as it is imported
        _tried[on] = kernels.trial(on)
    return lacks(on)


def presume(results: Mapping[str, str]) -> None:
    """Take over the results from where submissions run: for each thing, why it does not work
    there, "" if it does.
    """
    _tried.update(results)


def known(on: str, declared_by: str) -> str:
    """Return `on`; raise ValueError, naming what declared it, if it is unknown."""
    if on and on not in LACKS:
        raise ValueError(
            f"{declared_by} has on={on!r}, which does not exist; use one of: {', '.join(LACKS)}"
        )
    return on


def _installed(on: str) -> bool:
    if on == "triton":
        return _is_there("triton")  # without importing it, which takes a second and more
    if on == "compile":
        return _is_there("torch")
    if on == "bf16":
        return _installed("triton") and _installed("gpu")
    # What is left is "gpu".
    if not _is_there("torch"):
        return False
    import torch

    return bool(torch.cuda.is_available())


def _is_there(module: str) -> bool:
    return importlib.util.find_spec(module) is not None
