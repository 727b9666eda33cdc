"""A run's configuration: TOML -> frozen models, checked whole and at once."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from copy import deepcopy
from datetime import timedelta
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal

import tomli_w
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

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
from features.errors import ConfigError
from pipeline.metrics import Convention
from pipeline.params import param_problems
from pipeline.space import Entry, Setting, Space, build_space

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

    use: tuple[str, ...] = ("*",)
    drop: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    """Columns of a ready-made table that hold categories."""
    custom: dict[str, str] = {}


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


class Memory(Section):
    limit: Annotated[str, Field(pattern=r"^\d+(\.\d+)?\s*[KMG]iB$")] | None = None


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
    """Validation windows, one behind the other in time: the last is the split's own."""
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


class Config(Section):
    """A whole run. See `load_config`."""

    k: Annotated[tuple[Positive, ...], Field(min_length=1), BeforeValidator(several)] = (10, 20)
    seed: Annotated[int, Field(ge=0, lt=2**31)] = 7
    convention: str | ConventionTable = ConventionTable()
    data: Data
    queries: Queries = Queries()
    relevance: Relevance = Relevance()
    candidates: Candidates = Candidates()
    features: Features = Features()
    split: Split = Split()
    train: Train = Train()
    baselines: dict[str, str] = {}
    tune: Tune = Tune()
    export: Export = Export()
    monitor: Monitor = Monitor()
    memory: Memory = Memory()

    @model_validator(mode="after")
    def _nothing_ignored(self) -> Config:
        """A setting that this run would not look at is a mistake, and is said."""
        idle = _idle_on_log(self) if self.data.is_log else _idle_on_table(self)
        if idle:
            kind = "a log" if self.data.is_log else "a ready-made table"
            raise ValueError(f"{' and '.join(idle)} would be ignored: the data is {kind}")
        taken = [name for name in self.baselines if name in RESERVED_RANKERS]
        if taken:
            raise ValueError(f"baselines.{taken[0]} takes the name of a ranker that every run has: choose another")
        if self.queries.column is not None and self.queries.by != "session":
            raise ValueError(
                f"queries.column names a session, and queries.by is {self.queries.by!r}: set it to 'session'"
            )
        return self

    @model_validator(mode="after")
    def _sound(self) -> Config:
        if len(set(self.k)) != len(self.k):
            raise ValueError(f"k names a cut-off twice: {list(self.k)}")
        if self.resolved_convention().ideal != "candidates":
            raise ValueError(f"convention {self.convention!r} needs an ideal that a ranking run does not know")
        if self.data.is_log and not (self.relevance.tiers or self.relevance.watch or self.relevance.column):
            raise ValueError("a log needs a [relevance] rule: tiers, watch or column")
        if self.candidates.source == "shown" and self.data.is_log and not self.data.shown:
            raise ValueError(
                "data.shown names the event kind of what was shown; without one, set candidates.from = 'sampled'"
            )
        self._check_space()
        if self.data.is_log and self.split.gap is not None and self.split.gap < self.relevance.window:
            raise ValueError(f"split.gap must be at least relevance.window ({_format_duration(self.relevance.window)})")
        return self

    def _check_space(self) -> None:
        try:
            self.search_space()
        except ValueError as error:
            raise ValueError(f"tune.space: {error}") from error

    @property
    def train_k(self) -> int:
        return self.train.k or self.k[0]

    @property
    def split_gap(self) -> timedelta:
        """The gap between parts: at least the attribution window of the labels, which would reach across otherwise."""
        if self.split.gap is not None:
            return self.split.gap
        return self.relevance.window if self.data.is_log else timedelta(0)

    def search_space(self) -> Space:
        """What `[tune]` searches, around what `[train]` says. Raises ValueError for what LightGBM would not take."""
        start = Setting(self.train.objective, self.train.gain, self.train.params)
        return build_space(self.tune.space, start, self.train_k)

    def with_setting(self, setting: Setting) -> Config:
        """The same run trained by `setting`."""
        chosen = {"objective": setting.objective, "gain": setting.gain, "params": dict(setting.params)}
        return self.model_copy(update={"train": self.train.model_copy(update=chosen)})

    def resolved_convention(self, *, continuous: bool = False) -> Convention:
        """The run's NDCG: the preset or the table given, gain linear for continuous relevance unless said otherwise."""
        if isinstance(self.convention, str):
            return Convention.named(self.convention)
        chosen = {name: value for name, value in self.convention.model_dump().items() if value is not None}
        default_gain = {"gain": "linear"} if continuous else {}
        return Convention(**{**default_gain, **chosen})

    def to_plain(self) -> dict[str, Any]:
        """The resolved config in plain values; `config_from` reads it back to an equal one."""
        plain: dict[str, Any] = _plain(self.model_dump(by_alias=True, exclude_none=True))
        return plain

    def to_toml(self) -> str:
        """The same as TOML, for `load_config`."""
        return tomli_w.dumps(self.to_plain())


def load_config(path: Path, settings: Sequence[str] = ()) -> Config:
    """Reads a TOML file, applies `section.key=value` settings, and checks everything.

    `include = "best.toml"` names another file, whose keys take the place of the same keys of each section; settings
    have the last word.
    Raises ConfigError that names all problems at once, each with the nearest known key where one is unknown.
    """
    raw = _read_toml(path)
    for setting in settings:
        _apply(raw, setting)
    include = raw.pop("include", None)
    if include is not None:
        for section, content in _read_toml(Path(str(include))).items():
            raw[section] = {**raw.get(section, {}), **content} if isinstance(content, dict) else content
        for setting in settings:
            if setting.partition("=")[0].strip() != "include":
                _apply(raw, setting)
    return config_from(raw, str(path))


def with_settings(plain: Mapping[str, Any], settings: Sequence[str], source: str) -> Config:
    """A checked Config from plain values, changed by `section.key=value` settings. Raises ConfigError."""
    raw = deepcopy(dict(plain))
    for setting in settings:
        _apply(raw, setting)
    return config_from(raw, source)


def config_from(raw: Mapping[str, Any], source: str) -> Config:
    """A checked Config from plain values; `source` is named in the message. Raises ConfigError."""
    try:
        return Config.model_validate(raw)
    except ValidationError as error:
        problems = _sentences([dict(detail) for detail in error.errors()])
    listed = problems[0] if len(problems) == 1 else "\n" + "\n".join(f"  - {problem}" for problem in problems)
    count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
    raise ConfigError(
        f"{count} in {source}: {listed}", expected="a config as the README shows it", fix="mend the file or --set"
    )


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError as error:
        raise ConfigError(f"no config at {path}", expected="a TOML file", fix="check the path") from error
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}", expected="a TOML file", fix="mend it there") from error


def _idle_on_log(config: Config) -> list[str]:
    idle = ["features.categories"] if config.features.categories else []
    return idle + (["split.by = 'hash'"] if config.split.by == "hash" else [])


def _idle_on_table(config: Config) -> list[str]:
    rule = config.relevance
    settings = {
        "features.custom": config.features.custom,
        "relevance.tiers": rule.tiers,
        "relevance.watch": rule.watch,
        "relevance.column": rule.column,
        "data.shown": config.data.shown,
        "candidates.from = 'sampled'": config.candidates.source == "sampled",
    }
    return [name for name, value in settings.items() if value]


def _apply(raw: dict[str, Any], setting: str) -> None:
    key, equals, text = setting.partition("=")
    path = [part.strip() for part in key.split(".")]
    if not equals or not all(re.fullmatch(r"[\w .-]+", part) for part in path):
        raise ConfigError(
            f"--set {setting!r}", expected="section.key=value", fix="write for example --set train.rounds=200"
        )
    section = raw
    for part in path[:-1]:
        section = section.setdefault(part, {})
        if not isinstance(section, dict):
            raise ConfigError(
                f"--set {setting!r}", expected=f"{part} to be a section", fix="set the whole value instead"
            )
    section[path[-1]] = _value(text)


def _value(text: str) -> Any:
    """A TOML value, or, where it is none, the text itself, so that paths need no quotes."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _sentences(details: Sequence[dict[str, Any]]) -> list[str]:
    """One per key: where a value may be of several kinds, pydantic reports each kind, and the first says enough."""
    found: dict[str, str] = {}
    for detail in details:
        detail["loc"] = [str(part) for part in detail["loc"] if _is_key(part)]
        found.setdefault(".".join(detail["loc"]), _sentence(detail))
    return list(found.values())


def _is_key(part: object) -> bool:
    """Whether a part of a location is the user's, and not pydantic's name for one of several kinds of value."""
    kinds = ("constrained-", "function-", "literal", "ConventionTable")
    return not isinstance(part, str) or not ("[" in part or part.startswith(kinds))


def _sentence(detail: dict[str, Any]) -> str:
    location = detail["loc"]
    key = ".".join(location)
    if detail["type"] == "extra_forbidden":
        near = get_close_matches(location[-1], _known_keys(location[:-1]), n=1)
        return f"{key} is not known" + (f" (did you mean {near[0]}?)" if near else "")
    if detail["type"] == "value_error":
        message = str(detail["ctx"]["error"])
        return f"{key}: {message}" if key else message
    if detail["type"] == "missing":
        return f"{key} is missing"
    return f"{key} = {detail['input']!r}: {detail['msg'][0].lower()}{detail['msg'][1:]}"


def _known_keys(location: Sequence[str]) -> list[str]:
    section: Any = Config
    for part in location:
        field = section.model_fields.get(part) if isinstance(section, type) and issubclass(section, Section) else None
        section = _section_of(field.annotation) if field else None
    if section is None:
        return []
    return [field.alias or name for name, field in section.model_fields.items()]


def _section_of(annotation: Any) -> Any:
    choices = (annotation, *getattr(annotation, "__args__", ()))
    return next((choice for choice in choices if isinstance(choice, type) and issubclass(choice, Section)), None)


def _plain(value: Any) -> Any:
    if isinstance(value, timedelta):
        return _format_duration(value)
    if isinstance(value, dict):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(entry) for entry in value]
    return value


def _format_duration(value: timedelta) -> str:
    seconds = value.total_seconds()
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds and seconds % size == 0:
            return f"{seconds / size:g}{unit}"
    return f"{seconds:g}s"
