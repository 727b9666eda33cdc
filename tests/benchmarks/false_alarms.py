"""How often compare cries wolf, and how often its interval holds the truth, in worlds whose truth is known.

    python tests/benchmarks/false_alarms.py [REPETITIONS]

A user leans towards one of two rankings, and its queries share that lean: what is the same on average over users is not
the same for one of them. The share of false alarms at level 5 % should be at most 6 %, and the 95 % interval should
hold a known effect in 93 to 97 % of the worlds; a test that takes queries for independent fails both.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from pipeline.significance import LEVEL, contrast, pair, t_test

Floats = npt.NDArray[np.float64]

EFFECT = 0.01


@dataclass(frozen=True)
class World:
    """`users` users of `queries` queries each on average (Poisson, plus one; `skewed`: a few have most)."""

    name: str
    users: int
    queries: int
    draw: Callable[[np.random.Generator, int, int], npt.NDArray[np.int64]]

    def rankings(self, rng: np.random.Generator) -> tuple[Floats, Floats, pl.Series]:
        """(Q,) values of two rankings without a difference, and the user of each query."""
        counts = self.draw(rng, self.users, self.queries)
        user = np.repeat(np.arange(self.users), counts)
        a = rng.beta(4, 3, self.users)[user] + rng.normal(0, 0.15, len(user))
        return a, a + rng.normal(0, 0.05, self.users)[user] + rng.normal(0, 0.1, len(user)), pl.Series(user)


def even(rng: np.random.Generator, users: int, queries: int) -> npt.NDArray[np.int64]:
    return rng.poisson(queries, users) + 1


def skewed(rng: np.random.Generator, users: int, queries: int) -> npt.NDArray[np.int64]:
    return np.ceil(rng.lognormal(np.log(queries) - 0.5, 1.0, users)).astype(np.int64)


WORLDS = (
    World("20 users x 50 queries", 20, 50, even),
    World("100 users x 20 queries", 100, 20, even),
    World("200 users, a few with most queries", 200, 10, skewed),
    World("400 queries, each its own user", 400, 0, even),
)


def measure(world: World, repetitions: int) -> dict[str, float]:
    """Shares of the repetitions."""
    found = dict.fromkeys(("t", "Wilcoxon", "randomisation", "bootstrap", "queries as units", "covered"), 0)
    for seed in range(repetitions):
        a, b, users = world.rankings(np.random.default_rng([seed, world.users, world.queries]))
        same = contrast(a, b, users, seed=seed)
        low, high = same.difference.low or 0.0, same.difference.high or 0.0
        found["t"] += (same.p_t or 0.0) < LEVEL
        found["Wilcoxon"] += (same.p_wilcoxon or 0.0) < LEVEL
        found["randomisation"] += (same.p_random or 0.0) < LEVEL
        found["bootstrap"] += not low <= 0.0 <= high
        found["queries as units"] += t_test(pair(a, b, None)) < LEVEL
        better = contrast(a, b + EFFECT, users, seed=seed + 10**6).difference
        found["covered"] += (better.low or 0.0) <= EFFECT <= (better.high or 0.0)
    return {name: count / repetitions for name, count in found.items()}


def main() -> None:
    repetitions = int(sys.argv[1]) if len(sys.argv) > 1 else 500
    print(f"{repetitions} repetitions; false alarms at {LEVEL:.0%}, then the coverage of an effect of {EFFECT}")
    for world in WORLDS:
        shares = ", ".join(f"{name} {share:.1%}" for name, share in measure(world, repetitions).items())
        print(f"{world.name}: {shares}", flush=True)


if __name__ == "__main__":
    main()
