"""Two or more rankings of the same queries: what differs, by how much, and what may be concluded.

The first ranking is what the others are held against. All are judged anew from the rows that a run keeps, by one
convention, so that runs of different conventions can be compared too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from features.columns import ITEM, JUDGED, POPULARITY, QUERY
from features.errors import ConfigError
from pipeline.arms import Aligned, Arm, align
from pipeline.metrics import (
    PRESETS,
    Convention,
    auc_per_query,
    category_diversity_per_query,
    coverage,
    judged_per_query,
    ndcg_per_query,
    novelty_per_query,
)
from pipeline.overlap import top_overlap
from pipeline.reductions import relevant_per_query
from pipeline.significance import Contrast, contrast, holm
from pipeline.strata import Strata, by_column, by_relevant

Floats = npt.NDArray[np.float64]

AUC = "auc"
EVERY = "all queries"
BESIDE = (
    "coverage: share of the items that competed that some list shows; novelty: bits by which the items shown are rare "
    "among all events; diversity: share of pairs of different kind; shared and rbo: overlap with the first ranking, "
    "rbo with the top of the lists counting more; judged: share of what is shown that anyone has judged"
)
"""What the rows beside the metrics mean."""


@dataclass(frozen=True)
class Tested:
    """One metric of one ranking against the first, over all queries or one group of them; `p` is corrected (Holm)."""

    name: str
    metric: str
    group: str
    contrast: Contrast
    p: float | None


@dataclass(frozen=True)
class Comparison:
    """All that `compare` found. `means` and `beside`: ranking -> metric -> mean; `overlap`: ranking -> share or RBO."""

    names: tuple[str, ...]
    convention: Convention
    ks: tuple[int, ...]
    queries: int
    rows: int
    notes: tuple[str, ...]
    means: Mapping[str, Mapping[str, float | None]]
    beside: Mapping[str, Mapping[str, float | None]]
    overlap: Mapping[str, Mapping[str, float]]
    tests: tuple[Tested, ...]
    conclusions: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return {**asdict(self), "convention": self.convention.to_dict()}


def named_convention(name: str) -> Convention:
    """A preset by its name. Raises ConfigError."""
    if name not in PRESETS or Convention.named(name).ideal == "retrieved":
        fitting = [preset for preset in PRESETS if Convention.named(preset).ideal != "retrieved"]
        raise ConfigError(
            f"the convention {name!r}", expected=f"one of {', '.join(fitting)}", fix="choose one of these"
        )
    return replace(Convention.named(name), ideal="candidates")


def compare(
    arms: Sequence[Arm], *, common: bool = False, convention: Convention | None = None, by: Sequence[str] = ()
) -> Comparison:
    """Every ranking against the first, judged by `convention` (None: that of the first run); `by` groups queries.

    Raises DataError or ConfigError for what cannot be compared.
    """
    _check_names(arms)
    rule = convention or Convention(**arms[0].metrics["convention"])
    notes = _convention_notes(arms, convention)
    ks, seed = tuple(arms[0].metrics["k"]), int(arms[0].metrics["seed"])
    aligned = align(arms, common=common)
    values = {name: dict(_values(aligned, name, ks, rule)) for name in aligned.scores}
    strata = _strata(aligned, rule, by)
    tests = _tests(values, aligned, strata, ks, seed)
    found = Comparison(
        names=tuple(aligned.scores),
        convention=rule,
        ks=ks,
        queries=len(aligned.sizes),
        rows=aligned.rows.height,
        notes=(*notes, *aligned.notes, *_depth_notes(aligned, ks)),
        means={name: {metric: _mean(v) for metric, v in own.items()} for name, own in values.items()},
        beside={name: _beside(aligned, name, ks) for name in aligned.scores},
        overlap={name: _overlap(aligned, name, ks) for name in list(aligned.scores)[1:]},
        tests=tests,
        conclusions=(),
    )
    return replace(found, conclusions=tuple(_conclusions(found)))


def _check_names(arms: Sequence[Arm]) -> None:
    names = [arm.name for arm in arms]
    if len(names) < 2 or len(set(names)) < len(names):
        raise ConfigError(
            f"{len(set(names))} ranking(s) to compare",
            expected="two or more, each once",
            fix="name another run, or RUN:RANKER for another ranker of the same run",
        )


def _convention_notes(arms: Sequence[Arm], convention: Convention | None) -> Iterator[str]:
    different = any(a.metrics["convention"] != b.metrics["convention"] for a, b in pairwise(arms))
    if different and convention is None:
        yield f"the runs judge by different conventions: all are judged anew by that of {arms[0].name}"


def _depth_notes(aligned: Aligned, ks: Sequence[int]) -> Iterator[str]:
    longest = int(aligned.sizes.max())
    whole = [str(k) for k in ks if k >= longest]
    if whole:
        yield f"no query has more than {longest} candidates: at k = {' and '.join(whole)} whole lists are judged"


def _values(aligned: Aligned, name: str, ks: Sequence[int], rule: Convention) -> Iterator[tuple[str, Floats]]:
    """Per-query values of every metric that is tested; on condensed lists too, where some items were not judged."""
    own = replace(rule, ties="average") if name in aligned.averaged else rule
    scores, relevance, sizes = aligned.scores[name], aligned.relevance, aligned.sizes
    for k, row in zip(ks, ndcg_per_query(scores, relevance, sizes, list(ks), convention=own), strict=True):
        yield f"ndcg@{k}", row
    yield AUC, auc_per_query(scores, relevance, sizes, convention=own)
    if JUDGED in aligned.rows.columns and not aligned.rows[JUDGED].all():
        yield from _condensed(aligned, name, ks, own)


def _condensed(aligned: Aligned, name: str, ks: Sequence[int], rule: Convention) -> Iterator[tuple[str, Floats]]:
    """ndcg of the lists without the items that nobody judged (Sakai 2007); NaN for queries where that leaves none."""
    judged = aligned.rows[JUDGED].fill_null(False).to_numpy()
    if not judged.any():
        return
    left = np.add.reduceat(judged.astype(np.int64), aligned.starts)
    short = aligned.only(judged)
    values = ndcg_per_query(short.scores[name], short.relevance, short.sizes, list(ks), convention=rule)
    for k, row in zip(ks, values, strict=True):
        every = np.full(len(aligned.sizes), np.nan)
        every[left > 0] = row
        yield f"condensed ndcg@{k}", every


def _strata(aligned: Aligned, rule: Convention, by: Sequence[str]) -> list[Strata]:
    relevant = relevant_per_query(aligned.relevance, aligned.sizes, gain=rule.gain)
    return [by_relevant(relevant), *(by_column(aligned.rows, aligned.starts, column) for column in by)]


def _tests(
    values: Mapping[str, Mapping[str, Floats]],
    aligned: Aligned,
    strata: Sequence[Strata],
    ks: Sequence[int],
    seed: int,
) -> tuple[Tested, ...]:
    """All metrics over all queries, and the first metric in every group; corrected for their number together."""
    first, users = next(iter(values)), aligned.users
    found = []
    for name in list(values)[1:]:
        for metric in values[name]:
            result = contrast(values[first][metric], values[name][metric], users, seed=seed)
            found.append(Tested(name, metric, EVERY, result, result.p_random))
        a, b = (values[arm][f"ndcg@{ks[0]}"] for arm in (first, name))
        for kind in strata:
            for group, mask in kind:
                inside = None if users is None else users.filter(pl.Series(mask))
                result = contrast(a[mask], b[mask], inside, seed=seed)
                found.append(Tested(name, f"ndcg@{ks[0]}", f"{kind.name}: {group}", result, result.p_random))
    corrected = holm([test.p for test in found])
    return tuple(replace(test, p=p) for test, p in zip(found, corrected, strict=True))


def _beside(aligned: Aligned, name: str, ks: Sequence[int]) -> dict[str, float | None]:
    """What the lists are like: coverage of the items that competed, novelty, diversity by category, judged share."""
    rows, scores, sizes = aligned.rows, aligned.scores[name], aligned.sizes
    items, found = rows[ITEM].rank("dense").to_numpy(), dict[str, float | None]()
    for k in ks:
        found[f"coverage@{k}"] = coverage(scores, items, sizes, k, catalogue_size=rows[ITEM].n_unique())
        if POPULARITY in rows.columns:
            found[f"novelty@{k}"] = _mean(novelty_per_query(scores, _popularity(rows), sizes, k))
        for category in _categories(aligned):
            codes = rows[category].cast(pl.String).rank("dense").fill_null(0).to_numpy()
            found[f"diversity@{k} ({category})"] = _mean(category_diversity_per_query(scores, codes, sizes, k))
        if JUDGED in rows.columns:
            judged = rows[JUDGED].fill_null(False).to_numpy()
            found[f"judged@{k}"] = _mean(judged_per_query(scores, judged, sizes, k))
    return found


def _categories(aligned: Aligned) -> list[str]:
    """Features that are categories and differ within queries."""
    text = [
        n for n in aligned.rows.columns if aligned.rows[n].dtype == pl.String and "." in n and n not in (QUERY, ITEM)
    ]
    repeated = np.repeat(aligned.starts, aligned.sizes)
    return [n for n in text if not aligned.rows[n].eq_missing(aligned.rows[n].gather(repeated)).all()]


def _popularity(rows: pl.DataFrame) -> Floats:
    """(N,) share of all events that an item had, one added to each, so that none is 0."""
    counts = rows.group_by(ITEM).agg(pl.col(POPULARITY).cast(pl.Float64).max())[POPULARITY]
    shares: Floats = (rows[POPULARITY].cast(pl.Float64).to_numpy() + 1) / float((counts + 1).sum())
    return shares


def _overlap(aligned: Aligned, name: str, ks: Sequence[int]) -> dict[str, float]:
    first = next(iter(aligned.scores.values()))
    found: dict[str, float] = {}
    for k in ks:
        share, biased = top_overlap(first, aligned.scores[name], aligned.sizes, k)
        found |= {f"shared@{k}": float(share.mean()), f"rbo@{k}": float(biased.mean())}
    return found


def _mean(values: Floats) -> float | None:
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else None


def _conclusions(found: Comparison) -> Iterator[str]:
    main = f"ndcg@{found.ks[0]}"
    for name in found.names[1:]:
        tests = {test.metric: test for test in found.tests if test.name == name and test.group == EVERY}
        yield conclude(tests[main], found.names[0], len(found.tests))
        opposed = _opposed(tests[main].contrast, tests[AUC].contrast)
        if opposed:
            yield f"{name}: {opposed}"


def conclude(test: Tested, first: str, count: int) -> str:
    """What one test allows to be said, in a sentence."""
    result, metric = test.contrast, test.metric
    difference = result.difference
    if difference.mean is None:
        return f"{test.name}: no query has a value of {metric} in both."
    units = f"{result.units} independent users or queries"
    if test.p is None:
        return f"{test.name}: too few to conclude anything, {units} cannot tell a difference from chance."
    if not result.wins and not result.losses:
        return f"{test.name} and {first} rank alike: no query differs in {metric}."
    measured = f"{difference.mean:+.4f} [{difference.low:+.4f}, {difference.high:+.4f}]"
    chance = f"p = {test.p:.2g}, corrected for {count} tests; {units}"
    if test.p < 0.05:
        better = "better" if difference.mean > 0 else "worse"
        return f"{test.name} ranks {better} than {first}: {metric} {measured} ({chance})."
    unseen = f"an effect below {result.smallest:.4f} would mostly have gone unseen"
    return f"{test.name} cannot be told from {first}: {metric} {measured} ({chance}); {unseen}."


def _opposed(ndcg: Contrast, auc: Contrast) -> str | None:
    """Where AUC and NDCG move in opposite directions, at least one of them by more than chance."""
    a, b = ndcg.difference, auc.difference
    if a.mean is None or b.mean is None or a.mean * b.mean >= 0 or not any(_clear(d.low, d.high) for d in (a, b)):
        return None
    if a.mean < 0:
        return "AUC rises while ndcg falls, the classic sign of having learned only what is popular; trust the ndcg."
    return "ndcg rises while AUC falls: the top of the lists is better, the order further down is worse."


def _clear(low: float | None, high: float | None) -> bool:
    return low is not None and high is not None and (low > 0 or high < 0)
