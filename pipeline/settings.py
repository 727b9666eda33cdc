"""The sections of a config: what may be set, what it means, and which values make sense."""

from __future__ import annotations

import re
from datetime import timedelta
from difflib import get_close_matches
from math import inf
from typing import Annotated, Any, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from features import durations
from features.columns import (
    CREATED_AT,
    EVENT,
    ITEM,
    POSITION,
    QUERY,
    RELEVANCE,
    SESSION,
    TIMESTAMP,
    USER,
    VALID_FROM,
    VALUE,
)
from features.description import NO_OPTIONS, Options
from features.errors import ConfigError
from pipeline.metrics import Convention
from pipeline.params import param_problems
from pipeline.space import Entry

_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(s|m|h|d|w)")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def parse_duration(text: object) -> object:
    """ "7d", "30m", "12h", "2w" or "45s" -> timedelta; raises ValueError for anything else."""
    if isinstance(text, timedelta):
        return text
    match = _DURATION.fullmatch(text.strip()) if isinstance(text, str) else None
    if match is None:
        raise ValueError(f"{text!r} is no length of time: write a number and s, m, h, d or w, such as '7d' or '30m'")
    try:
        return timedelta(**{_UNITS[match.group(2)]: float(match.group(1))})
    except OverflowError as error:
        raise ValueError(f"{text!r} is longer than any log: write a number of days such as '7d'") from error


def format_duration(value: timedelta) -> str:
    """The inverse of `parse_duration`."""
    seconds = value.total_seconds()
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds and seconds % size == 0:
            return f"{seconds / size:g}{unit}"
    return f"{seconds:g}s"


Duration = Annotated[timedelta, BeforeValidator(parse_duration)]
Positive = Annotated[int, Field(ge=1)]
Share = Annotated[float, Field(gt=0, lt=1)]


Gain = Literal["exp2", "linear"] | tuple[float, ...]
OUR_COLUMNS = (QUERY, ITEM, USER, TIMESTAMP, EVENT, VALUE, POSITION, SESSION, RELEVANCE, CREATED_AT, VALID_FROM)


def our_column(name: str) -> str:
    """A key of `data.columns`; raises ValueError for a name that is none of ours."""
    if name not in OUR_COLUMNS:
        near = get_close_matches(name, OUR_COLUMNS, n=1)
        guess = f" (did you mean {near[0]}?)" if near else ""
        raise ValueError(
            f"{name!r} is no column of ours{guess}: write ours = yours, ours being {', '.join(OUR_COLUMNS)}"
        )
    return name


def known_length(text: str) -> str:
    """A length of time as it stands in a feature's name, such as 7d; raises ValueError for anything else."""
    try:
        durations.parse_duration(text)
    except ConfigError as error:
        raise ValueError(str(error)) from error
    return text


def several_lengths(value: object) -> object:
    """Windows come as a list; raises ValueError for a bare length, and for one that is named twice."""
    if not isinstance(value, list | tuple):
        raise ValueError(f'{value!r} is no list of windows: write one such as ["7d", "30d"]')
    if len(set(map(str, value))) < len(value):
        raise ValueError(f"{list(value)} names a window twice")
    return value


def known_zone(name: str) -> str:
    """A time zone by name; raises ValueError for one that does not exist."""
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ValueError(f"{name!r} is no time zone: write one such as 'Europe/Lisbon'") from error
    return name


Length = Annotated[str, AfterValidator(known_length)]
OurColumn = Annotated[str, AfterValidator(our_column)]
Format = Literal["lightgbm", "json", "vespa", "onnx", "solr", "elasticsearch", "opensearch", "c", "python"]
RESERVED_RANKERS = ("model", "random", "popularity", "shown", "best_feature", "default")
"""Rankers of every run, whose names no baseline may take."""


def several(value: object) -> object:
    """Cut-offs come as a list; raises ValueError for a bare number."""
    if not isinstance(value, list | tuple):
        raise ValueError(f"{value!r} is no list of cut-offs: write one such as [10, 20]")
    return value


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class Data(Section):
    """Where the data lies: an event log, or a ready-made table (one file, or one per part)."""

    events: str | None = None
    queries: str | None = None
    items: str | None = None
    users: str | None = None
    event: str | None = None
    """The kind of all events, where the log has no such column."""
    shown: str | None = None
    truth: str | None = None
    """A table of query, item and relevance by another judge, a simulator or people: the model is held to it too."""
    table: str | None = None
    train: str | None = None
    valid: str | None = None
    test: str | None = None
    columns: dict[OurColumn, str] = {}
    """Ours = theirs."""
    time_unit: Literal["s", "ms", "us", "ns"] | None = None
    delay: Duration | dict[str, Duration] = timedelta(0)
    """How late an event reaches the store, for all kinds or per event kind."""
    max_rejected: Annotated[float, Field(ge=0, le=1)] = 0.01
    merge: Duration | None = None
    """Events of the same query, user, item and kind that follow one another sooner than this count once; None: all."""

    @model_validator(mode="after")
    def _one_source(self) -> Data:
        sources = [name for name in ("events", "table", "train") if getattr(self, name)]
        if len(sources) != 1:
            found = " and ".join(sources) or "none of them"
            raise ValueError(f"exactly one of events, table and train says where the data lies, found {found}")
        if not self.train and (self.valid or self.test):
            raise ValueError("valid and test go with train: one file per part")
        return self

    @property
    def is_log(self) -> bool:
        return self.events is not None


class Queries(Section):
    """What a query is."""

    by: Literal["query", "session", "user_day", "table"] = "query"
    gap: Duration = timedelta(minutes=30)
    column: str | None = None


class Watch(Section):
    """Watch-time relevance: min(1, watched / target)."""

    event: str | None = None
    target: Annotated[float, Field(gt=0, strict=True)] | str = "duration"
    """Seconds, an item column that holds them, or "median" (per item, of the training window)."""


class Relevance(Section):
    """From interactions to one relevance per query and item; a ready-made table needs no rule."""

    tiers: dict[str, Annotated[int, Field(ge=0)]] | None = None
    watch: Watch | None = None
    column: str | None = None
    map: dict[str, Annotated[float, Field(ge=0)]] | None = None
    window: Duration = timedelta(days=1)
    levels: Annotated[int, Field(ge=2, le=10_000)] | None = None
    """Into how many levels continuous relevance is cut for LightGBM; None: whole grades as they are, else 100."""

    @model_validator(mode="after")
    def _one_rule(self) -> Relevance:
        rules = [name for name in ("tiers", "watch", "column") if getattr(self, name) is not None]
        if len(rules) > 1:
            raise ValueError(f"one rule says what is relevant, found {' and '.join(rules)}")
        if self.map is not None and self.column is None:
            raise ValueError("map goes with column")
        return self


class Candidates(Section):
    """Which items compete in a query."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)
    source: Annotated[Literal["shown", "sampled"], Field(alias="from")] = "shown"
    negatives: Positive = 50


class Features(Section):
    """Which features a model may use: names or globs of the registry, or of the columns of a ready-made table."""

    use: tuple[str, ...] | None = None
    """None: all columns of a ready-made table; of a log all features but the wide family `field.*`."""
    drop: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    """Columns of a ready-made table that hold categories."""
    custom: dict[str, str] = {}
    windows: Annotated[tuple[Length, ...], BeforeValidator(several_lengths)] = NO_OPTIONS.windows
    """Rolling windows of counts and rates of a log."""
    zone: Annotated[str, AfterValidator(known_zone)] = NO_OPTIONS.zone
    """Where the clock of hours and weekdays hangs."""
    session_gap: Length = NO_OPTIONS.session_gap
    """The silence that ends a session, as far as features look at sessions."""
    recent: Annotated[int, Field(ge=1, le=1000)] = NO_OPTIONS.recent
    """How many of the last items of a user the features look at."""
    channels: tuple[str, ...] = NO_OPTIONS.channels
    """Names or globs of the number fields of what was shown that hold scores or ranks of recall channels."""

    @property
    def options(self) -> Options:
        """What the features of a log need to know of these settings."""
        return Options(self.windows, self.zone, self.session_gap, self.recent, self.channels)


class Split(Section):
    """The parts in time (lengths), or, where there is no time, by a fixed hash of the query (shares)."""

    by: Literal["auto", "time", "hash"] = "auto"
    valid: Duration | Share | None = None
    test: Duration | Share | None = None
    gap: Duration | None = None
    """None: as long as the attribution window of a log, else nothing."""


class Train(Section):
    objective: Literal["lambdarank", "rank_xendcg"] = "lambdarank"
    rounds: Positive = 1000
    early_stopping: Positive = 50
    k: Positive | None = None
    """The cut-off that early stopping, truncation and tuning follow; None: the first of the report's."""
    params: dict[str, Any] = {}
    gain: Gain | None = None
    """The gain that trees are grown for, a table or a name; None: that of the convention, by which they are judged."""
    refit: bool = False
    threads: Positive | None = None
    """None: all that this process may use."""

    @model_validator(mode="after")
    def _known_params(self) -> Train:
        problems = param_problems(self.params, self.objective)
        if problems:
            raise ValueError("; ".join(problems))
        if self.gain is not None:
            Convention(gain=self.gain)
        return self


class ConventionTable(Section):
    """The five choices that decide a NDCG; None: the run's default."""

    gain: Gain | None = None
    discount: str | tuple[float, ...] | None = None
    ideal: Literal["candidates"] | None = None
    """Offline evaluation knows all candidates of a query, so it has no other ideal."""
    ties: Literal["average", "stable", "reverse", "worst", "best"] | None = None
    empty: Literal["skip", "zero", "one"] | None = None


class Monitor(Section):
    psi_alarm: Annotated[float, Field(gt=0)] = 0.2
    ndcg_alarm: Annotated[float, Field(gt=0)] = 0.05
    """By how much a day's whole interval may lie below the package's test value."""
    replay_alarm: Annotated[float, Field(ge=0, lt=1)] = 0.01
    """On what share of the served rows a feature may differ from the one rebuilt from the log."""


class Memory(Section):
    limit: Annotated[str, Field(pattern=r"^\d+(\.\d+)?\s*[KMG]iB$")] | None = None
    """What features and training may take of the machine's memory; what needs more is worked in parts."""

    @property
    def limit_bytes(self) -> float:
        """Infinite without a limit."""
        if self.limit is None:
            return inf
        power = {"K": 10, "M": 20, "G": 30}[self.limit[-3]]
        return float(self.limit[:-3]) * float(2**power)


class Export(Section):
    formats: tuple[Format, ...] = ("lightgbm",)


class Weights(Section):
    """What a search maximises: the sum of these, each times its weight."""

    ndcg: float = 1.0
    diversity: float = 0.0
    """Share of pairs among the first k that differ in `tune.diversity_by`."""
    coverage: float = 0.0
    """Share of the items of the validation queries that stand among the first k of any."""
    latency: Annotated[float, Field(le=0)] = 0.0
    """Per millisecond that 1000 rows take on one thread; measured, so that no two searches are equal."""


class Tune(Section):
    trials: Positive = 50
    """How many trials the study holds in the end, those of earlier runs and other processes among them."""
    timeout: Duration | None = None
    """No trial begins after it."""
    jobs: Positive = 1
    """Processes that search side by side; more than one, and no two searches are equal."""
    folds: Positive = 1
    """Validation windows, one behind the other in time: the last is the split's own. What features learn once (category
    codes, rates, document frequencies) is learned on the whole training window, so that earlier windows know a little
    of what came after them; counts and all else are as of each query in every window."""
    storage: str | None = None
    """Where the study lies: a database URL, or a file ending in .log; None: study.db in the run folder."""
    learning_rate: Annotated[float, Field(gt=0)] | None = None
    """While searching, unless the space has it; None: 0.15 where a fit is long, else that of the final fits, which is
    what `[train]` says, or 0.05."""
    sample: Share | None = None
    """The part of the training queries that a trial must prove itself on first; None: decided by their number."""
    finalists: Positive = 3
    """How many of the best are fitted at the low learning rate to choose from, beside the default."""
    weights: Weights = Weights()
    diversity_by: str | None = None
    space: dict[str, Entry] = {}
    """What is searched, and nothing else: a range, a list of choices, or true for the usual range; {}: the usual."""

    @model_validator(mode="after")
    def _has_aim(self) -> Tune:
        if self.weights.diversity and self.diversity_by is None:
            raise ValueError("weights.diversity needs diversity_by: the column whose values should differ")
        return self
