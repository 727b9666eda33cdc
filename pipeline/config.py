"""A run's configuration: TOML -> frozen models, checked whole and at once."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from copy import deepcopy
from datetime import timedelta
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any

import tomli_w
from pydantic import BeforeValidator, Field, ValidationError, model_validator

from features.description import NO_OPTIONS
from features.errors import ConfigError
from pipeline.metrics import Convention
from pipeline.settings import (
    RESERVED_RANKERS,
    Candidates,
    ConventionTable,
    Data,
    Export,
    Features,
    Memory,
    Monitor,
    Positive,
    Queries,
    Relevance,
    Section,
    Split,
    Train,
    Tune,
    format_duration,
    several,
)
from pipeline.space import Setting, Space, build_space


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
    baselines: dict[str, str] = Field(default_factory=dict)
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
            raise ValueError(f"split.gap must be at least relevance.window ({format_duration(self.relevance.window)})")
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
        "features.windows, zone, session_gap, recent or channels": config.features.options != NO_OPTIONS,
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
        return format_duration(value)
    if isinstance(value, dict):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(entry) for entry in value]
    return value
