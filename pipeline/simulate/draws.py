"""Random numbers that are a function of what they are for, not of when they are drawn.

A number is a hash (splitmix64) of the world, its seed, a named stream and integer keys: query, item, user ...
So blocks may have any size, come in any order and be made anywhere, and no release of NumPy changes a row.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from features.hashing import UInt64s, splitmix64, unit_interval

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

_LOW_16_BITS = np.uint64(0xFFFF)


@dataclass(frozen=True, slots=True)
class Draws:
    """All randomness of a world. Keys are arrays of integers that broadcast against each other."""

    world: str
    seed: int

    def uniform(self, stream: str, *keys: Ints) -> Floats:
        """Uniform on [0, 1), 53 bits."""
        return unit_interval(self._bits(stream, keys))

    def below(self, bound: int | Ints, stream: str, *keys: Ints) -> Ints:
        """Whole numbers 0 .. bound - 1, all equally likely."""
        return (self.uniform(stream, *keys) * bound).astype(np.int64)

    def chance(self, probability: float | Floats, stream: str, *keys: Ints) -> Bools:
        return self.uniform(stream, *keys) < probability

    def delay(self, longest: int | Ints, stream: str, *keys: Ints) -> Ints:
        """Whole seconds below `longest`, mostly short ones."""
        return (self.uniform(stream, *keys) ** 2 * longest).astype(np.int64)

    def bell(self, stream: str, *keys: Ints) -> Floats:
        """Mean 0, standard deviation 1, within +-3.47: the sum of four 16-bit uniforms (Irwin-Hall).

        Close to normal, and without the logarithms and cosines in which mathematical libraries differ.
        """
        bits = self._bits(stream, keys)
        total = sum((bits >> np.uint64(shift)) & _LOW_16_BITS for shift in (0, 16, 32, 48))
        return np.asarray((np.asarray(total, np.float64) / 2.0**16 - 2.0) * 3.0**0.5)

    def _bits(self, stream: str, keys: tuple[Ints, ...]) -> UInt64s:
        state = np.full(1, _stream_start(self.world, self.seed, stream), np.uint64)
        for key in keys:
            state = splitmix64(state ^ key.astype(np.uint64))
        return state


@lru_cache(maxsize=256)
def _stream_start(world: str, seed: int, stream: str) -> int:
    return int.from_bytes(hashlib.blake2b(f"{world} {seed} {stream}".encode(), digest_size=8).digest(), "little")
