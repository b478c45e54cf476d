"""What a check may need of the machine that it runs on, and what is said where the machine lacks it.

What is there may still not work: another version of Triton or NumPy, a driver, a missing compiler. So before a
student's code is judged by it, a bit of the course's own goes the same way (`kernels.trial`). If that does not get
through, the machine counts as one without, and the reason is said.
"""

import importlib.util
import os
from collections.abc import Mapping

from . import kernels
from .words import Message

PERSON = "person"
LACKS = {
    "gpu": Message("This check needs a GPU that PyTorch can use, and there is none here."),
    "triton": Message("This check needs Triton, which runs on Linux and is not installed here."),
    "bf16": Message("This check needs a GPU on which Triton kernels compute in bfloat16, and there is none here."),
    "compile": Message("This check needs `torch.compile`, which does not run here."),
}
"""What `on=` may name, each with what is said where the machine does not have it."""

FAULTY = "This check needs {what}, but the course's own code for it fails here as well: {reason}"

NAMES = {
    "gpu": Message("a GPU"),
    "triton": Message("Triton"),
    "bf16": Message("a GPU with bfloat16"),
    "compile": Message("torch.compile"),
    "own": Message("versions with which the course's own answer passes"),
    PERSON: Message("a person"),
}
"""The same in a few words; besides, what points wait for where the course's own answer failed a check as well, and
where a function is built on another one that fails."""

_tried: dict[str, str] = {}
"""Of each thing that was tried: why it does not work; "" if it does."""


def has(what: str) -> bool:
    """Tell whether the machine that this runs on has what `on=` names, as far as that is known without a trial."""
    if what in ("own", PERSON):  # nobody knows before the course's own answer, or somebody, is asked
        return True
    return _installed(what) and not _tried.get(what)


def lacks(what: str) -> Message | str:
    """Return what the machine lacks of what `on=` names, as a `Message`; an empty text if nothing."""
    if not what or has(what):
        return ""
    reason = _tried.get(what, "")
    return Message(FAULTY, what=NAMES[what], reason=reason) if reason else LACKS[what]


def fails(what: str) -> Message | str:
    """Do as `lacks`, but try what is there, once in a process, before anyone is judged by it."""
    if what and what not in _tried and has(what):
        if not _installed("gpu"):
            os.environ.setdefault("TRITON_INTERPRET", "1")  # Triton asks for it as it is imported
        _tried[what] = kernels.trial(what)
    return lacks(what)


def presume(found: Mapping[str, str]) -> None:
    """Take over what was found where submissions run: for each thing, why it does not work there, "" if it does."""
    _tried.update(found)


def known(what: str, whose: str) -> str:
    """Return `what`; raise ValueError, with whose it is, where there is no such thing to name."""
    if what and what not in LACKS:
        raise ValueError(f"{whose} has on={what!r}, which does not exist; use one of: {', '.join(LACKS)}")
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
