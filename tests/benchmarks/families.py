"""What each family of features is worth: ndcg of a model of it alone, of all without it, of the first families, of all.

    python -m tests.benchmarks.families configs/movielens.toml --set data.events=ratings.csv
    python -m tests.benchmarks.families configs/shop.toml

The tables are built once, with everything that the log offers; each model is trained as the config says on a choice of
their columns. Validation and test values are of the chosen round; differences are to all features, paired, on test.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np

from features.registry import FAMILIES
from features.table import Table
from pipeline.booster import load_model, predict
from pipeline.config import Config, load_config
from pipeline.log import load_parts
from pipeline.metrics import ndcg_per_query
from pipeline.reductions import paired_interval
from pipeline.results import query_users
from pipeline.run import build_datasets
from pipeline.split import Parts
from pipeline.train import train_ranker

FIRST = ("item", "user", "cross", "query", "shown", "text")
"""The families of the first version; those of today hold more."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("config", type=Path)
    parser.add_argument("--set", dest="settings", action="append", default=[])
    given = parser.parse_args()
    config = load_config(given.config, [*given.settings, 'features.use=["*"]'])
    parts = load_parts(config)
    families = [name for name in FAMILIES if any(_family(each) == name for each in parts.train.feature_names)]
    _, everything = _report(config, parts, "all", families, None)
    _report(config, parts, "all but the wide field.*", [name for name in families if name != "field"], everything)
    _report(config, parts, "first families", [name for name in families if name in FIRST], everything)
    for name in families:
        _report(config, parts, f"{name} alone", [name], everything)
        _report(config, parts, f"without {name}", [other for other in families if other != name], everything)


def _report(
    config: Config, parts: Parts, what: str, families: list[str], everything: np.ndarray | None
) -> tuple[float, np.ndarray]:
    """Prints a line; returns the value on valid and the values of the test queries."""
    chosen = replace(parts, **{name: _of(getattr(parts, name), families) for name in ("train", "valid", "test")})
    convention = config.resolved_convention(continuous=parts.origin.continuous)
    datasets = build_datasets(chosen, config, convention)
    ranker = train_ranker(datasets.train, datasets.valid, config)
    model = load_model(ranker.model_text)
    values = [
        ndcg_per_query(predict(model, part.features), part.relevance, part.sizes, config.train_k, convention=convention)
        for part in (datasets.valid, datasets.test)
    ]
    valid, test = (float(np.nanmean(found)) for found in values)
    against = ""
    if everything is not None:
        found = paired_interval(values[1], everything, clusters=query_users(datasets.test), seed=config.seed)
        against = f"  {found.mean:+.4f} [{found.low:+.4f}, {found.high:+.4f}]"
    count = len(datasets.train.schema.names)
    print(f"{what:28} {count:4} features  valid {valid:.4f}  test {test:.4f}{against}", flush=True)
    return valid, values[1]


def _of(table: Table, families: list[str]) -> Table:
    """The table with the features of some families."""
    kept = tuple(spec for spec in table.features if _family(spec.name) in families)
    left_out = [spec.name for spec in table.features if spec not in kept]
    return Table(table.frame.drop(left_out), kept)


def _family(name: str) -> str:
    return name.partition(".")[0]


if __name__ == "__main__":
    main()
