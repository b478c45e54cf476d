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

FAULTY = "This check needs {what}, but the course's own code for it fails here as well: {reason}"

NAMES = {
    "gpu": Message("a GPU"),
    "triton": Message("Triton"),
    "bf16": Message("a GPU with bfloat16"),
    "compile": Message("torch.compile"),
    "own": Message("versions with which the course's own answer passes"),
}
"""The same in a few words, and what points wait for if the course's own answer also fails a
check.
"""

_tried: dict[str, str] = {}
"""For each thing that was tried, why it does not work; "" if it does."""


def has(what: str) -> bool:
    """Tell whether this machine has what `on=` names, as far as is known without a trial."""
    if what == "own":  # nobody knows before the course's own answer is asked
        return True
    return _installed(what) and not _tried.get(what)


def lacks(what: str) -> Message | str:
    """Return a `Message` if the machine lacks what `on=` names; otherwise an empty text."""
    if not what or has(what):
        return ""
    reason = _tried.get(what, "")
    return Message(FAULTY, what=NAMES[what], reason=reason) if reason else LACKS[what]


def fails(what: str) -> Message | str:
    """Do as `lacks`, but try the requirement first, once per process, before any student is
    judged by it.
    """
    if what and what not in _tried and has(what):
        if not _installed("gpu"):
            os.environ.setdefault("TRITON_INTERPRET", "1")  # Triton asks for it as it is imported
        _tried[what] = kernels.trial(what)
    return lacks(what)


def presume(found: Mapping[str, str]) -> None:
    """Take over the results from where submissions run: for each thing, why it does not work
    there, "" if it does.
    """
    _tried.update(found)


def known(what: str, whose: str) -> str:
    """Return `what`; raise ValueError, naming whose it is, if `what` is unknown."""
    if what and what not in LACKS:
        raise ValueError(
            f"{whose} has on={what!r}, which does not exist; use one of: {', '.join(LACKS)}"
        )
    return what


def _installed(what: str) -> bool:
    if what == "triton":
        return _is_there("triton")  # without importing it, which takes a second and more
    if what == "compile":
        return _is_there("torch")
    if what == "bf16":
        return _installed("triton") and _installed("gpu")
    if not _is_there("torch"):
        return False
    import torch

    return bool(torch.cuda.is_available())


def _is_there(module: str) -> bool:
    return importlib.util.find_spec(module) is not None
