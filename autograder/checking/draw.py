"""Inputs drawn afresh, so that a mistake shows: sizes odd, prime and all different; values not
symmetric.
"""

import zlib
from typing import Any

import numpy as np

from .shared_with_guest import is_tensor

# No axis can be split evenly, and no two sizes multiply to a third: a wrong `reshape` raises.
PRIMES = (3, 5, 7, 11, 13)


class Draw:
    """A seeded source of inputs for one check.

    Parameters
    ----------
    seed : int
        The seed of the whole run.
    name : str
        The check's name. Each check has its own stream, so adding one does not change the others'
        inputs.
    """

    def __init__(self, seed: int, name: str = ""):
        # Not `hash`, which differs from process to process: a seed repeats the inputs anywhere.
        self.rng = np.random.default_rng([seed, zlib.crc32(name.encode())])

    def sizes(self, count: int) -> list[int]:
        """Return `count` (at most 5) different odd primes, in random order."""
        return [int(size) for size in self.rng.choice(PRIMES, size=count, replace=False)]

    def long(self) -> int:
        """Return a length past 512, a usual size of tables and blocks, for one axis; the others
        should be small.
        """
        return int(self.rng.integers(520, 600))

    def magnitudes(self, count: int, orders: float = 8) -> Any:
        """Return `count` positive numbers, evenly spread over so many powers of ten around 1, in
        random order.
        """
        return 10.0 ** self.rng.permutation(np.linspace(-orders / 2, orders / 2, count))

    def array(self, *shape: int, dtype: Any = np.float64) -> Any:
        """Return an array of `shape` with magnitudes from 0.5 to 1.5, seven in ten of them
        positive.

        No entry is near 0, and neither the mean nor any symmetry hides a sign or a swapped axis.
        """
        magnitude = self.rng.uniform(0.5, 1.5, size=shape)
        sign = np.where(self.rng.random(size=shape) < 0.7, 1.0, -1.0)
        return (magnitude * sign).astype(dtype)

    def weights(self, *shape: int, dtype: Any = np.float64) -> Any:
        """Return an array of `shape` whose rows (last axis) are positive, differ, and sum to 1."""
        raw = self.rng.uniform(0.2, 1.8, size=shape)
        return (raw / raw.sum(-1, keepdims=True)).astype(dtype)

    def tensor(self, *shape: int, dtype: Any = None) -> Any:
        """Return an `array` as a torch tensor, in float64 unless there is a `dtype`."""
        import torch

        return torch.tensor(self.array(*shape), dtype=dtype or torch.float64)

    def mask(self, *shape: int) -> Any:
        """Return a torch mask that allows each query (last axis: the keys) one key or more, and
        hides one from it if there are several.
        """
        import torch

        mask = self.rng.random(shape) < 0.5
        # In each row, the key with number 0 is allowed, and the one with number 1 is hidden.
        order = self.rng.permuted(np.broadcast_to(np.arange(shape[-1]), shape), axis=-1)
        return torch.tensor((mask | (order == 0)) & ((order != 1) | (shape[-1] == 1)))


def noncontiguous(array: Any) -> Any:
    """Return the same values, laid out in memory with the last two axes exchanged, as a
    transposed array or tensor has them.
    """
    if is_tensor(array):
        return array.transpose(-1, -2).contiguous().transpose(-1, -2)
    return np.swapaxes(np.swapaxes(array, -1, -2).copy(), -1, -2)


def read_only(array: Any) -> Any:
    """Return the same values in an array that refuses to be written to."""
    array = array.copy()
    array.flags.writeable = False
    return array
