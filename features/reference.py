"""The list of all features for people: FEATURES.md, written anew by `python -m features.reference`.

It is made from a description that offers everything, under names that stand for what a log may call its columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Final, get_args

from features.description import Description, Field, FieldKind, Options
from features.registry import FAMILIES, all_features
from features.spec import FeatureSpec

PAGE: Final = Path(__file__).with_name("FEATURES.md")

_TABLES: Final = ("item", "user", "query", "shown")
_WINDOW: Final = "7d"
_FIELDS: Final = {f"{table}{kind}": f"<{table} {kind}>" for table in _TABLES for kind in get_args(FieldKind)}
_STANDS_FOR: Final[Mapping[str, str]] = {
    **_FIELDS,
    "somekind": "<kind>",
    "shownkind": "<kind>",
    "firstscore": "<channel>",
    "otherscore": "<channel>",
    "anylist": "<list>",
}

_CHANNELS: Final = tuple(Field(name, "number") for name in ("firstscore", "otherscore"))


def _everything(*, query: tuple[Field, ...] = ()) -> Description:
    """Two kinds of events, one of them impressions, the other with values; a field of each kind in each table."""
    fields = {table: tuple(_field(table, kind) for kind in get_args(FieldKind)) for table in _TABLES}
    return Description(
        kinds=("shownkind", "somekind"),
        valued=("somekind",),
        shown="shownkind",
        users=True,
        item_fields=fields["item"],
        user_fields=fields["user"],
        query_fields=fields["query"] + query,
        shown_fields=fields["shown"] + _CHANNELS,
        options=Options(windows=(_WINDOW,), zone="features.zone"),
    )


def _field(table: str, kind: FieldKind) -> Field:
    """Lists are compared with those of the same name."""
    return Field("anylist" if kind == "list" else f"{table}{kind}", kind, size=2)


EVERYTHING: Final = _everything()
_WITHOUT: Final[Mapping[str, Description]] = {
    "users in the events": replace(EVERYTHING, users=False),
    "impressions": replace(EVERYTHING, shown=None),
    "values of the kind": replace(EVERYTHING, valued=()),
    "candidates that were shown": replace(EVERYTHING, pool="sampled"),
    "several kinds": replace(EVERYTHING, kinds=("shownkind",), valued=("shownkind",)),
}

_INTRODUCTION: Final = """# Features

Written by `python -m features.reference`; a test holds it against the code. A log offers those of these features for
which it has what they need: `<kind>` stands for each kind of event, `<window>` for each of `features.windows`,
`<item number>` for each number field of the items (`<user ...>`, `<query ...>` and `<shown ...>` for those of users,
queries and impressions), `<channel>` for the number fields of impressions that `features.channels` names. A field is a
category, a text or both by its values. `rankloom features CONFIG --out DIR` lists those of a log by their very names,
and `rankloom features CONFIG --suggest` says which of them to use.

Every feature is as of strictly before its query; where "looks back" is empty it knows all of history, or needs none.
`text.<item text>_...` is of the query field that is called `text`. A category is an integer code that the package
keeps: 0 for a level that training never saw, missing where there is none.
"""


def write_reference() -> str:
    """The whole page, Markdown."""
    short = _by_pattern(_everything(query=(Field("text", "text"),)))
    specs = _by_pattern(EVERYTHING) | {name: spec for name, spec in short.items() if name.startswith("text.")}
    parts = [_INTRODUCTION]
    for family, make in FAMILIES.items():
        says = " ".join((make.__doc__ or "").partition("\n\n")[0].split())
        own = {name: spec for name, spec in specs.items() if name.startswith(f"{family}.")}
        parts += [f"\n## {family}\n", f"{says}\n", *_table(own)]
    return "\n".join(parts) + "\n"


def _needs(pattern: str) -> Iterator[str]:
    """What a log must have for the feature to exist, besides the fields in its name."""
    if pattern in _by_pattern(EVERYTHING):
        for what, description in _WITHOUT.items():
            if pattern not in _by_pattern(description):
                yield what


@cache
def _by_pattern(description: Description) -> dict[str, FeatureSpec]:
    """Specs by their names with what may stand there in the place of the names; of equal patterns the first."""
    found: dict[str, FeatureSpec] = {}
    for feature in all_features(description):
        found.setdefault(_pattern(feature.spec.name), feature.spec)
    return found


def _pattern(text: str) -> str:
    for word, placeholder in _STANDS_FOR.items():
        text = text.replace(word, placeholder)
    return text.replace(f"_{_WINDOW}", "_<window>")


def _table(specs: Mapping[str, FeatureSpec]) -> Iterator[str]:
    yield "| feature | type | missing means | looks back | needs |"
    yield "|---|---|---|---|---|"
    for name, spec in specs.items():
        kind = "number" if spec.dtype == "float32" else spec.dtype
        back = "the window" if spec.lookback_days else ""
        yield f"| `{name}` | {kind} | {_pattern(spec.missing)} | {back} | {', '.join(_needs(name))} |"


if __name__ == "__main__":
    PAGE.write_text(write_reference(), "utf-8")
