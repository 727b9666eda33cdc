"""Where trials are judged: validation windows one behind the other in time, each behind its own training queries.

fold 1   train ........ gap  valid
fold 2   train ...................... gap  valid
the last train .................................... gap  valid     (the split's own)
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta

import numpy as np
import numpy.typing as npt

from features.columns import TIMESTAMP
from features.errors import DataError
from features.hashing import hash_ids, unit_interval
from pipeline.dataset import RankingDataset
from pipeline.metrics import Convention
from pipeline.reductions import relevant_per_query
from pipeline.split import Borders, assign_by_time
from pipeline.train import evaluable

Floats = npt.NDArray[np.float64]

SAMPLE_SHARE = 0.25
SAMPLE_MIN_ROWS, SAMPLE_MIN_QUERIES = 20_000, 500
"""A sample smaller than this says too little about the whole."""
BLOCKS = 256
"""Queries are summed in so many runs of neighbours in time before trials are compared: the spread is the same, a study
stays small, and what neighbours share is not mistaken for evidence."""
_HASH_SEED = 20_261_201


@dataclass(frozen=True)
class Fold:
    """One window: what is trained on, and the queries that judge it. `share` of the training queries is used."""

    train: RankingDataset
    valid: RankingDataset
    share: float = 1.0

    def learnable(self) -> tuple[RankingDataset, RankingDataset]:
        """The training queries and those that early stopping watches: copies, to be binned and let go.

        Raises TrainingError where one has none.
        """
        train, watched, _ = evaluable(self._sampled, self.valid)
        return train, watched

    def counts(self, convention: Convention) -> Floats:
        """(B,) validation queries with a relevant item in each of the `Blocks`."""
        relevant = relevant_per_query(self.valid.relevance, self.valid.sizes, gain=convention.gain)
        return Blocks.of(np.where(relevant > 0, 0.0, np.nan)).counts

    @property
    def _sampled(self) -> RankingDataset:
        if self.share == 1.0:
            return self.train
        return self.train.keep(unit_interval(hash_ids(self.train.queries, seed=_HASH_SEED)) < self.share)


@dataclass(frozen=True)
class Blocks:
    """Sums and counts of per-query values over blocks of neighbouring queries; one without a value does not count."""

    sums: Floats
    counts: Floats

    @classmethod
    def of(cls, values: Floats) -> Blocks:
        """(Q,) values in order of time, NaN where a query has none."""
        known = ~np.isnan(values)
        block = np.arange(len(values)) * min(BLOCKS, len(values)) // len(values)
        sums, counts = (np.bincount(block, column) for column in (np.where(known, values, 0.0), known.astype(float)))
        return cls(sums.astype(np.float64), counts.astype(np.float64))

    @property
    def means(self) -> Floats:
        """(B,) mean of each block, NaN where it has no value."""
        return np.divide(self.sums, self.counts, out=np.full_like(self.sums, np.nan), where=self.counts > 0)


def make_folds(
    train: RankingDataset, valid: RankingDataset, *, count: int, gap: timedelta, sample: float | None
) -> tuple[Fold, ...]:
    """`count` folds in order of time, before them the sample of the first one that a trial must prove itself on.

    Raises DataError where the training part is too short for them, or where queries have no time.
    """
    folds = [*_earlier_folds(train, valid, count - 1, gap), Fold(train, valid)]
    first = folds[0]
    share = SAMPLE_SHARE if sample is None else sample
    rows, queries = first.train.rows * share, len(first.train.sizes) * share
    if sample is None and (rows < SAMPLE_MIN_ROWS or queries < SAMPLE_MIN_QUERIES):
        return tuple(folds)
    return (replace(first, share=share), *folds)


def fingerprint(folds: tuple[Fold, ...]) -> str:
    """sha256 over all that trials see: features, relevance, sizes of every fold."""
    digest = hashlib.sha256()
    for part in _parts(folds):
        digest.update(part.schema.fingerprint.encode())
        for column in part.features:
            digest.update(column.to_numpy().tobytes())
        digest.update(part.relevance.tobytes() + part.sizes.tobytes())
    return digest.hexdigest()


def _parts(folds: tuple[Fold, ...]) -> Iterator[RankingDataset]:
    for fold in folds:
        if fold.share == 1.0:
            yield from (fold.train, fold.valid)


def _earlier_folds(train: RankingDataset, valid: RankingDataset, count: int, gap: timedelta) -> list[Fold]:
    if count == 0:
        return []
    if TIMESTAMP not in train.keys.columns:
        raise DataError(
            f"tune.folds = {count + 1} for queries without a time",
            expected="a timestamp per query, as folds follow one another in time",
            fix="name the timestamp column in [data] columns, or set tune.folds = 1",
        )
    times, window = (part.keys[TIMESTAMP].gather(part.starts) for part in (train, valid))
    length = window.max() - window.min()  # type: ignore[operator]
    found: list[Fold] = []
    end = window.min()
    for _ in range(count):
        borders = Borders(end - gap - length, end, gap)  # type: ignore[operator, arg-type]
        part = assign_by_time(times, borders).to_numpy()
        if not (part == "train").any() or not (part == "valid").any():
            raise DataError(
                f"tune.folds = {count + 1}: no query is left to train on before {borders.valid_from:%Y-%m-%d %H:%M}",
                expected="a training part longer than all validation windows and gaps",
                fix="lower tune.folds, shorten split.valid, or bring a longer log",
            )
        found.append(Fold(train.keep(part == "train"), train.keep(part == "valid")))
        end = borders.valid_from
    return found[::-1]
