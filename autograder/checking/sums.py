"""Finds the terms of which an array is the sum."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from .expect import RTOL

COUNTS = 0.005
"""Below this, a term does not count."""


def counts_in(array: Any, terms: Mapping[str, Any], rtol: float = RTOL) -> dict[str, float] | None:
    """Return how often each of these terms, arrays of its shape, counts in an array, such as 1 or
    -0.5.

    None if it is not a sum of them, up to `rtol` of its largest number, or if the terms are not
    independent.
    """
    numbers = np.asarray(array, dtype=float)
    columns = [np.asarray(term, dtype=float) for term in terms.values()]
    if any(column.shape != numbers.shape for column in columns) or not np.isfinite(numbers).all():
        return None
    matrix = np.stack([column.ravel() for column in columns], axis=1)
    counts, _, rank, _ = np.linalg.lstsq(matrix, numbers.ravel(), rcond=None)
    counts = np.where(np.abs(counts) < COUNTS, 0.0, counts)
    # Without full rank, other counts would fit as well.
    rest = np.abs(matrix @ counts - numbers.ravel()).max(initial=0.0)
    if rank < len(terms) or rest > rtol * np.abs(numbers).max(initial=0.0):
        return None
    return dict(zip(terms, counts.tolist(), strict=True))


def as_sum(counts: Mapping[str, float]) -> str:
    """Return a sum as text, what is added first, such as "0.25 A - B"."""
    parts = []
    for term, count in sorted(counts.items(), key=lambda item: item[1] < 0):
        if count:
            sign = "-" if count < 0 else "+"
            factor = "" if abs(abs(count) - 1) < COUNTS else f"{abs(count):.3g} "
            parts.append(f"{sign} {factor}{term}")
    text = " ".join(parts).removeprefix("+ ")
    return f"-{text[2:]}" if text.startswith("- ") else text or "0"
