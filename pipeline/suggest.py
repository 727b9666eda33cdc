"""A `[features]` section from the data: what to use, what to drop, and why, a line each."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from glob import escape
from typing import Final

import polars as pl

from features.description import Description
from features.log import Log
from features.spec import FeatureSpec
from pipeline.config import Config
from pipeline.dataset import RankingDataset
from pipeline.leaks import leaks_in_tables
from pipeline.metrics import Convention
from pipeline.run import Datasets
from pipeline.settings import Features
from pipeline.signals import sample, source_of
from pipeline.tempo import suggest_gap, suggest_windows

ALMOST_ALL: Final = 0.99
"""A feature that is missing in so many training rows says almost nothing."""
ROWS_PER_LEVEL: Final = 20
"""A category with fewer training rows to a level is an id in disguise: it would be learned by heart."""
MANY_LEVELS: Final = 50
CUSTOM: Final = "custom."
AS_GIVEN: Final = "as the config has it"
_LEAK: Final = "a leak?"
_AN_ID: Final = re.compile(r"(\b|_)id$|[a-z]Id$")


@dataclass(frozen=True)
class Suggestion:
    """`options` each with its reason; per feature family what it holds; per dropped name the reason; remarks."""

    options: Mapping[str, tuple[object, str]]
    families: Mapping[str, str]
    dropped: Mapping[str, str]
    custom: Mapping[str, str] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()

    def to_toml(self) -> str:
        """The section, as `train` takes it in the place of the config's own."""
        lines = [
            "[features]",
            *(f"{name} = {_toml(value)}  {_comment(why)}" for name, (value, why) in self.options.items()),
        ]
        for key, names in (("use", self.families), ("drop", self.dropped)):
            listed = [f"    {_toml(name)},  {_comment(why)}" for name, why in names.items()]
            lines += [f"{key} = [", *listed, "]"] if names else []
        lines += map(_comment, self.remarks)
        lines += ["", "[features.custom]"] if self.custom else []
        lines += [f"{_toml(name)} = {_toml(text)}" for name, text in self.custom.items()]
        return "\n".join(lines) + "\n"


def suggest_options(given: Features, log: Log | None, until: datetime | None) -> dict[str, tuple[object, str]]:
    """Windows and the silence between sessions as a log suggests them until then, and what the config has set."""
    usual, kept = Features(), ("zone", "recent", "channels", "categories")
    as_set = [name for name in kept if getattr(given, name) != getattr(usual, name)]
    found = {name: (getattr(given, name), AS_GIVEN) for name in as_set}
    if log is None or until is None:
        return found
    return {"windows": suggest_windows(log, until), "session_gap": suggest_gap(log)} | found


def remarks_on(log: Log, description: Description) -> list[str]:
    """Text columns of items and users that are no categories: what becomes of them."""
    said = []
    for what, table, fields in (
        ("item", log.items, description.item_fields),
        ("user", log.users, description.user_fields),
    ):
        kinds = {(each.name, each.kind) for each in fields}
        for name in [] if table is None else table.columns:
            if table is None or table.schema[name] != pl.String or name == what or (name, "category") in kinds:
                continue
            levels = f"{what}.{name} has {table[name].n_unique()} levels in {table.height} rows"
            free = (name, "text") in kinds
            said.append(
                f"{levels}: {'free text, held against what is asked' if free else 'an id in disguise, no feature'}"
            )
    return said


def suggest(
    config: Config,
    datasets: Datasets,
    fields: tuple[str, ...],
    options: Mapping[str, tuple[object, str]],
    convention: Convention,
    remarks: Sequence[str] = (),
) -> Suggestion:
    """What the training part says for and against each feature; `datasets` hold all that the data offers.

    `fields` are the columns of the user's that features are made of, `options` other settings, each with its reason.
    """
    train = sample(datasets.train)
    specs = [spec for spec in train.schema.features if not spec.name.startswith(CUSTOM)]
    dropped = dict(_useless(train, specs)) | dict(_leaking(config, datasets, fields, convention, specs))
    dropped |= dict(_doubles(train, [spec for spec in specs if spec.name not in dropped]))
    kept = [spec for spec in specs if spec.name not in dropped]
    families = _families(train, kept) if config.data.is_log else {"*": _in_words(train, kept)}
    ordered = {spec.name: dropped[spec.name] for spec in specs if spec.name in dropped}
    unwanted = dict.fromkeys(config.features.drop, AS_GIVEN) | _shortened(ordered, specs, fields)
    return Suggestion(options, families, unwanted, config.features.custom, tuple(remarks))


def _shortened(dropped: Mapping[str, str], specs: Sequence[FeatureSpec], fields: tuple[str, ...]) -> dict[str, str]:
    """One glob in the place of all that is made of a column, where that is what a leak takes along."""
    found: dict[str, str] = {}
    for name, why in dropped.items():
        source = source_of(name, fields)
        alike = [spec.name for spec in specs if source in spec.name]
        leak = next((dropped[each] for each in alike if dropped.get(each, "").startswith(_LEAK)), None)
        if len(alike) > 1 and leak is not None and all(each in dropped for each in alike):
            found[f"*{escape(source)}*"] = f"{len(alike)} features; {leak}"
        else:
            found[name] = why
    return found


def _leaking(
    config: Config,
    datasets: Datasets,
    fields: tuple[str, ...],
    convention: Convention,
    specs: Sequence[FeatureSpec],
) -> Iterator[tuple[str, str]]:
    """What `check --leaks` suspects, and all that is made of the same column."""
    for leak in leaks_in_tables(config, datasets, fields, convention):
        source = source_of(leak.column, fields)
        for spec in specs:
            if spec.name == leak.column:
                yield spec.name, f"{_LEAK} {leak.found}"
            elif source_of(spec.name, fields) == source:
                yield spec.name, f"made of the same column as {leak.column}"


def _useless(train: RankingDataset, specs: Sequence[FeatureSpec]) -> Iterator[tuple[str, str]]:
    for spec in specs:
        values = train.features[spec.name].cast(pl.Float64).fill_nan(None)
        missing, levels = values.null_count(), values.drop_nulls().n_unique()
        if missing >= ALMOST_ALL * train.rows:
            yield spec.name, f"missing in {missing / train.rows:.1%} of the training rows"
        elif missing == 0 and levels == 1:
            yield spec.name, f"constant in training: {values[0]:g}"
        elif spec.dtype == "category" and levels > MANY_LEVELS and train.rows < ROWS_PER_LEVEL * levels:
            yield spec.name, f"an id in disguise: {levels} levels, {train.rows / levels:.0f} training rows to each"
        elif spec.dtype == "float32" and _AN_ID.search(spec.name) and levels > MANY_LEVELS:
            yield spec.name, f"an id in disguise: {levels} numbers whose order means nothing"


def _doubles(train: RankingDataset, specs: Sequence[FeatureSpec]) -> Iterator[tuple[str, str]]:
    """Features in the same order as a simpler one, value by value: trees cannot tell them apart."""
    seen: dict[bytes, str] = {}
    for spec in sorted(specs, key=lambda spec: (len(spec.name), spec.name)):
        if spec.dtype == "category":
            continue
        values = train.features[spec.name].fill_nan(None)
        mark = hashlib.blake2b(values.rank("dense").fill_null(0).to_numpy().tobytes()).digest()
        if mark in seen:
            equal = values.equals(train.features[seen[mark]].fill_nan(None))
            yield spec.name, f"{'equal to' if equal else 'in the same order as'} {seen[mark]}"
        seen.setdefault(mark, spec.name)


def _families(train: RankingDataset, kept: Sequence[FeatureSpec]) -> dict[str, str]:
    found: dict[str, list[FeatureSpec]] = {}
    for spec in kept:
        found.setdefault(spec.name.partition(".")[0], []).append(spec)
    return {f"{family}.*": _in_words(train, specs) for family, specs in found.items()}


def _in_words(train: RankingDataset, specs: Sequence[FeatureSpec]) -> str:
    same = sum(_same_in_queries(train, spec.name) for spec in specs)
    said = f"{len(specs)} features" if len(specs) > 1 else "1 feature"
    if same == 0:
        return said
    part = "" if same == len(specs) else f"{same} of them "
    return f"{said}, {part}equal for all items of a query: they act only together with others"


def _same_in_queries(train: RankingDataset, name: str) -> bool:
    values = train.features[name]
    changes = values.ne_missing(values.shift(1)).to_numpy().copy()
    changes[train.starts] = False
    return not changes.any()


def _toml(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _comment(text: str) -> str:
    return f"# {' '.join(text.split())}"
