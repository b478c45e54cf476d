"""What a check may need of the machine that it runs on, and what is said where the machine lacks it."""

import importlib.util

from .words import Message

LACKS = {
    "gpu": Message("It needs a GPU that torch can use, and there is none here."),
    "triton": Message("It needs Triton, which is for Linux on x86-64 and is not installed here."),
}
"""What `on=` may name, each with what is said where the machine does not have it."""

NAMES = {"gpu": Message("a GPU"), "triton": Message("Triton")}
"""The same in two words."""


def has(what: str) -> bool:
    """Tell whether the machine that this runs on has what `on=` names."""
    return _gpu() if what == "gpu" else _triton()


def lacks(what: str) -> Message | str:
    """Return what the machine lacks of what `on=` names, as a `Message`; an empty text if nothing."""
    return LACKS[what] if what and not has(what) else ""


def known(what: str, whose: str) -> str:
    """Return `what`; raise ValueError, with whose it is, where there is no such thing to name."""
    if what and what not in LACKS:
        raise ValueError(f"{whose} says on={what!r}, and there is no such thing; it may be: {', '.join(LACKS)}")
    return what


def _gpu() -> bool:
    if importlib.util.find_spec("torch") is None:
        return False
    import torch

    return bool(torch.cuda.is_available())


def _triton() -> bool:
    return importlib.util.find_spec("triton") is not None  # without importing it, which takes a second and more
