"""How well an item's text answers the query's: the share of the query's words that it contains."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

import polars as pl

from features.context import Context, Feature
from features.description import Description
from features.spec import FeatureSpec

_WORD: Final = r"[\p{L}\p{N}]+"
_DEFAULT: Final = "text"
"""The query field that needs no mention in a feature's name."""


def text_features(log: Description) -> Iterator[Feature]:
    """`text.*`: for each text of the query, its overlap with each text and category of the item."""
    texts = [field.name for field in log.query_fields if field.kind == "text"]
    targets = dict.fromkeys(field.name for field in log.item_fields if field.kind in ("text", "category"))
    for text in texts:
        for target in targets:
            name = f"text.{target}_overlap" if text == _DEFAULT else f"text.{text}_{target}_overlap"
            spec = FeatureSpec(name, missing=f"no {text} with a word in it, or no {target}")
            yield Feature(spec, partial(_overlap, text=text, target=target))


def _overlap(context: Context, text: str, target: str) -> pl.Series:
    """|words of the query that the item has| / |words of the query|, in lower case; each pair of texts once."""
    pairs = pl.DataFrame({"asked": context.query_field(text), "found": context.item_field(target)}).cast(pl.String)
    asked, found = _words("asked"), _words("found")
    overlap = asked.list.set_intersection(found).list.len() / asked.list.len()
    known = pl.when(asked.list.len() > 0).then(overlap).cast(pl.Float32)
    distinct = pairs.unique().drop_nulls().with_columns(known.alias("overlap"))
    return pairs.join(distinct, on=["asked", "found"], how="left", maintain_order="left")["overlap"]


def _words(name: str) -> pl.Expr:
    return pl.col(name).str.to_lowercase().str.extract_all(_WORD).list.unique()
