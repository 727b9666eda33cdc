"""What a search may try: a range or a list of choices for each parameter, checked before the first trial.

A setting drawn from a space never holds a value that LightGBM would reject or ignore: a parameter whose condition is
not met (`NEEDS` of `pipeline.params`, truncation under rank_xendcg, a bag under goss) is not drawn at all.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, PlainValidator, ValidationError, model_validator

from pipeline.params import ALIASES, LAMBDARANK_ONLY, NEEDS, POSITION_BIAS, param_problems

OBJECTIVE, GAIN, TRUNCATION, RATE = "objective", "gain", "lambdarank_truncation_level", "learning_rate"
OBJECTIVES = ("lambdarank", "rank_xendcg")
ROWS_PER_LEAF = 50
"""A tree gets at most one leaf for so many training rows: beyond that it repeats labels by heart."""
LEAVES_PER_TREE = 20
"""A leaf is asked to hold at most this part of the training rows: with fewer leaves, trees hardly split."""
DRAWS = 100


class Range(BaseModel):
    """Numbers from `low` to `high`, both included; whole where the parameter is. `log`: even on a log scale."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    low: int | float
    high: int | float
    log: bool = False
    step: int | float | None = None

    @model_validator(mode="after")
    def _sound(self) -> Range:
        if self.low > self.high:
            raise ValueError(f"low = {self.low} is above high = {self.high}")
        if self.log and self.low <= 0:
            raise ValueError(f"log = true needs a low above 0, found {self.low}")
        if self.step is not None and (self.log or self.step <= 0):
            raise ValueError("step is above 0, and does not go with log")
        return self


def as_entry(value: object) -> object:
    """What a config may say of one parameter: a range, a list of choices, or true. Raises ValueError."""
    if isinstance(value, Range) or value is True:
        return value
    if isinstance(value, list | tuple):
        return tuple(value)
    if not isinstance(value, dict):
        raise ValueError(f"{value!r} is no range: write {{ low = 8, high = 255 }}, a list of choices, or true")
    try:
        return Range.model_validate(value)
    except ValidationError as error:
        first = error.errors()[0]
        raise ValueError(
            f"{'.'.join(map(str, first['loc'])) or value}: {first['msg'].removeprefix('Value error, ')}"
        ) from error


Dimension = Range | tuple[Any, ...]
Entry = Annotated[Any, PlainValidator(as_entry)]
"""A dimension as a config has it, or true, which stands for the parameter's usual range."""
Suggest = Callable[[str, Dimension], Any]


@dataclass(frozen=True)
class Knob:
    """A parameter that is worth searching: LightGBM's default, the values LightGBM takes, and where to look."""

    default: Any
    lowest: float
    highest: float
    usual: Dimension | None


_ANY = float("inf")
_SWITCH = (False, True)

KNOBS: dict[str, Knob] = {
    RATE: Knob(0.1, 1e-6, _ANY, Range(low=0.02, high=0.3, log=True)),
    "num_leaves": Knob(31, 2, 131_072, Range(low=8, high=128, log=True)),
    "max_depth": Knob(-1, -1, _ANY, (-1, 4, 6, 8, 10)),
    "min_data_in_leaf": Knob(20, 0, _ANY, Range(low=5, high=200, log=True)),
    "min_sum_hessian_in_leaf": Knob(1e-3, 0, _ANY, Range(low=1e-3, high=10.0, log=True)),
    "min_gain_to_split": Knob(0.0, 0, _ANY, Range(low=0.0, high=1.0)),
    "lambda_l1": Knob(0.0, 0, _ANY, Range(low=1e-3, high=10.0, log=True)),
    "lambda_l2": Knob(0.0, 0, _ANY, Range(low=1e-3, high=100.0, log=True)),
    "feature_fraction": Knob(1.0, 1e-6, 1, Range(low=0.3, high=1.0)),
    "feature_fraction_bynode": Knob(1.0, 1e-6, 1, Range(low=0.3, high=1.0)),
    "bagging_freq": Knob(0, 0, _ANY, (0, 1)),
    "bagging_fraction": Knob(1.0, 1e-6, 1, Range(low=0.2, high=0.5)),
    "max_bin": Knob(255, 2, 65_535, (63, 255)),
    "min_data_in_bin": Knob(3, 1, _ANY, Range(low=1, high=20)),
    "path_smooth": Knob(0.0, 0, _ANY, Range(low=1e-2, high=100.0, log=True)),
    "extra_trees": Knob(False, 0, 1, _SWITCH),
    "max_cat_to_onehot": Knob(4, 1, _ANY, Range(low=1, high=16)),
    "max_cat_threshold": Knob(32, 1, _ANY, Range(low=8, high=128, log=True)),
    "cat_smooth": Knob(10.0, 0, _ANY, Range(low=1.0, high=100.0, log=True)),
    "cat_l2": Knob(10.0, 0, _ANY, Range(low=0.1, high=100.0, log=True)),
    "min_data_per_group": Knob(100, 1, _ANY, Range(low=10, high=500, log=True)),
    TRUNCATION: Knob(None, 1, _ANY, None),
    "lambdarank_norm": Knob(True, 0, 1, _SWITCH),
    "sigmoid": Knob(1.0, 1e-6, _ANY, Range(low=0.5, high=2.0, log=True)),
    POSITION_BIAS: Knob(0.0, 0, _ANY, Range(low=1e-2, high=10.0, log=True)),
    OBJECTIVE: Knob("lambdarank", 0, 0, OBJECTIVES),
    GAIN: Knob(None, 0, 0, ("exp2", "linear")),
}

CATEGORICAL = ("max_cat_to_onehot", "max_cat_threshold", "cat_smooth", "cat_l2", "min_data_per_group")

USUAL = (
    "num_leaves",
    "max_depth",
    "min_data_in_leaf",
    "lambda_l1",
    "lambda_l2",
    "feature_fraction",
    "bagging_freq",
    "bagging_fraction",
    "max_bin",
    "path_smooth",
    "cat_smooth",
    "cat_l2",
    OBJECTIVE,
    TRUNCATION,
    "lambdarank_norm",
    "sigmoid",
    GAIN,
)
"""What is searched where a config says nothing. The learning rate is not: it is high in the search, low at the end. Nor
is the regularisation of the position bias: it needs rows that were all shown somewhere."""


@dataclass(frozen=True)
class Setting:
    """One point of a space: what `[train]` would say."""

    objective: str
    gain: Any
    params: Mapping[str, Any]

    @classmethod
    def from_plain(cls, plain: list[Any]) -> Setting:
        """Undoes `to_plain`."""
        objective, gain, params = plain
        return cls(objective, tuple(gain) if isinstance(gain, list) else gain, params)

    def to_plain(self) -> list[Any]:
        """In the values that JSON has."""
        plain: list[Any] = json.loads(self.key)
        return plain

    @property
    def key(self) -> str:
        """Equal for equal settings."""
        return json.dumps([self.objective, self.gain, dict(self.params)], sort_keys=True)


@dataclass(frozen=True)
class Space:
    """Dimensions in the order they are drawn in, over the setting that `[train]` holds."""

    dimensions: Mapping[str, Dimension]
    start: Setting

    def draw(self, suggest: Suggest) -> Setting:
        """One setting; `suggest(name, dimension)` is asked for each parameter whose condition is met."""
        base = self.start
        objective = suggest(OBJECTIVE, self.dimensions[OBJECTIVE]) if OBJECTIVE in self.dimensions else base.objective
        gain = suggest(GAIN, self.dimensions[GAIN]) if GAIN in self.dimensions else base.gain
        params = dict(base.params)
        for name, dimension in self.dimensions.items():
            if name not in (OBJECTIVE, GAIN) and _applies(name, params, objective):
                params[name] = suggest(name, dimension)
        params = {name: value for name, value in params.items() if _applies(name, params, objective)}
        if params.get("max_depth", -1) > 0 and "num_leaves" in self.dimensions:
            params["num_leaves"] = min(params["num_leaves"], 2 ** params["max_depth"])
        return Setting(objective, gain, params)

    def nearest(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The point that is closest to the parameters `given` (others as LightGBM has them): how a sampler may picture
        a default that lies outside."""
        held = {name: knob.default for name, knob in KNOBS.items()} | {GAIN: self.start.gain} | dict(given)
        found: dict[str, Any] = {}
        self.draw(lambda name, dimension: found.setdefault(name, _closest(held.get(name), dimension)))
        return found

    def capped(self, rows: int, longest: int, *, categories: bool) -> Space:
        """The same for a training set of so many rows, whose longest query has `longest`.

        Leaves by the rows, truncation by the longest query; without categories what is about them goes.
        """
        tops = {"num_leaves": rows // ROWS_PER_LEAF, "min_data_in_leaf": rows // LEAVES_PER_TREE, TRUNCATION: longest}
        kept = {name: dim for name, dim in self.dimensions.items() if categories or name not in CATEGORICAL}
        return Space({name: _capped(dim, tops.get(name)) for name, dim in kept.items()}, self.start)

    def to_plain(self) -> dict[str, Any]:
        """Dimensions in plain values, for a study to remember."""
        return {
            name: list(dim) if isinstance(dim, tuple) else dim.model_dump(exclude_none=True)
            for name, dim in self.dimensions.items()
        }


def build_space(entries: Mapping[str, Entry], start: Setting, k: int) -> Space:
    """The space that `[tune.space]` names, or the usual one where it names nothing; `k` is the cut-off tuned for.

    Raises ValueError that lists what LightGBM would reject or ignore.
    """
    asked = dict(entries) or dict.fromkeys(USUAL, True)
    problems = [problem for name, entry in asked.items() if (problem := _entry_problem(name, entry))]
    if problems:
        raise ValueError("; ".join(problems))
    dimensions = {name: _usual(name, k) if entry is True else entry for name, entry in asked.items()}
    space = Space(dict(sorted(dimensions.items(), key=lambda item: _order(item[0]))), start)
    used, problems = _try_out(space)
    idle = [name for name in space.dimensions if name not in used]
    if not problems and idle and entries:
        problems = [f"{name} would never be used: {_why_idle(name)}" for name in idle]
    if problems:
        raise ValueError("; ".join(problems))
    return Space({name: dim for name, dim in space.dimensions.items() if name in used}, start)


def is_whole(name: str, dimension: Range) -> bool:
    """Whether a range holds whole numbers only: by the parameter where we know it, else by how its ends are written."""
    default = KNOBS[name].default if name in KNOBS else dimension.low
    return name == TRUNCATION or (isinstance(default, int) and isinstance(dimension.low, int))


def _order(name: str) -> tuple[bool, bool, str]:
    """What others hang on comes first."""
    return (name not in (OBJECTIVE, GAIN), name in NEEDS, name)


def _applies(name: str, params: Mapping[str, Any], objective: str) -> bool:
    if objective != "lambdarank" and name in LAMBDARANK_ONLY:
        return False
    if name.startswith("bagging_") and "goss" in (params.get("data_sample_strategy"), params.get("boosting")):
        return False
    other, idle, _ = NEEDS.get(name, ("", None, ""))
    return not other or params.get(other, idle) != idle


def _why_idle(name: str) -> str:
    if name in LAMBDARANK_ONLY:
        return "it belongs to lambdarank"
    return NEEDS[name][2] if name in NEEDS else "leave it out"


def _usual(name: str, k: int) -> Dimension:
    if name == TRUNCATION:
        return Range(low=k, high=max(3 * k, k + 20), log=True)
    usual = KNOBS[name].usual
    return () if usual is None else usual


def _entry_problem(name: str, entry: Entry) -> str | None:
    if name not in KNOBS and name not in ALIASES:
        return param_problems({name: 0}, "lambdarank")[0]
    knob = KNOBS.get(name, Knob(None, -_ANY, _ANY, None))
    if entry is True:
        known = knob.usual is not None or name == TRUNCATION
        return None if known else f"{name} has no usual range: give it low and high, or a list of choices"
    if name in (OBJECTIVE, GAIN) and isinstance(entry, Range):
        return f"{name} takes a list of choices"
    values = (entry.low, entry.high) if isinstance(entry, Range) else entry
    if not values:
        return f"{name} has no choice"
    if name == OBJECTIVE and not set(values) <= set(OBJECTIVES):
        return f"{name} is one of {' and '.join(OBJECTIVES)}"
    outside = [v for v in values if isinstance(v, int | float) and not knob.lowest <= v <= knob.highest]
    return f"{name} = {outside[0]} is not taken by LightGBM" if outside and name not in (OBJECTIVE, GAIN) else None


def _try_out(space: Space) -> tuple[set[str], list[str]]:
    """Settings from the corners of a space: which parameters they use, and what is wrong with the first bad one."""
    rng = random.Random(0)  # noqa: S311
    used: set[str] = set()

    def corner(name: str, dimension: Dimension) -> Any:
        used.add(name)
        return rng.choice(dimension if isinstance(dimension, tuple) else (dimension.low, dimension.high))

    for _ in range(DRAWS):
        setting = space.draw(corner)
        problems = param_problems(setting.params, setting.objective)
        if setting.params.get("path_smooth", 0) > 0 and setting.params.get("min_data_in_leaf", 20) < 2:
            problems.append("path_smooth needs min_data_in_leaf of at least 2: LightGBM would raise it in silence")
        if problems:
            return used, problems
    return used, []


def _closest(value: Any, dimension: Dimension) -> Any:
    if isinstance(dimension, Range):
        return dimension.low if value is None else min(max(value, dimension.low), dimension.high)
    return value if value in dimension else dimension[0]


def _capped(dimension: Dimension, top: int | None) -> Dimension:
    if top is None or not isinstance(dimension, Range) or dimension.high <= top:
        return dimension
    high: int | float = max(top, 2)
    return dimension.model_copy(update={"high": high, "low": min(dimension.low, high)})
