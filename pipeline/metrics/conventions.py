"""The five conventions that decide which number an NDCG is, and the presets that equal the libraries.

    DCG@k = sum over positions i = 1..k of gain(relevance_i) * discount(i)
    NDCG@k = DCG@k / IDCG@k

Jarvelin and Kekalainen 2002 (linear gain); Burges et al. 2005 (2^relevance - 1);
McSherry and Najork 2008 (expected values under tied scores).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

MAX_GAIN = 2.0**996
"""A larger gain could overflow the sum of a list."""

MAX_GRADE = math.log2(MAX_GAIN)
"""The relevance of that gain under "exp2"."""

GAINS = ("exp2", "linear")
DISCOUNTS = ("log2", "ln", "none")
IDEALS = ("candidates", "retrieved", "all")
TIES = ("average", "stable", "reverse", "worst", "best")
EMPTIES = ("skip", "zero", "one")
NEGATIVES = ("refuse", "zero")

EMPTY_VALUES = {"skip": math.nan, "zero": 0.0, "one": 1.0}

_WORDS = {
    "gain": {"exp2": "gain 2^relevance - 1", "linear": "gain = relevance"},
    "discount": {
        "log2": "discount 1/log2(position + 1)",
        "ln": "discount 1/ln(position + 1)",
        "none": "no discount",
    },
    "ideal": {
        "candidates": "ideal = best order of all the query's items",
        "retrieved": "ideal = best order of the k returned items",
        "all": "ideal = best order of all known relevant items, retrieved or not",
    },
    "ties": {
        "average": "tied scores averaged over their orders",
        "stable": "tied scores in input order",
        "reverse": "tied scores in reverse input order",
        "worst": "tied scores worst first",
        "best": "tied scores best first",
    },
    "empty": {
        "skip": "queries without a relevant item left out",
        "zero": "queries without a relevant item count 0",
        "one": "queries without a relevant item count 1",
    },
    "negative": {"refuse": "", "zero": "negative relevance counts 0"},
}


@dataclass(frozen=True)
class Convention:
    """Which NDCG a number is: frozen, hashable, and able to say itself in words.

    gain: "exp2" (2^rel - 1), "linear" (rel), or a table of gains per grade 0, 1, 2 ...: starting at 0, never falling.
    discount: "log2" 1/log2(i+1), "ln" 1/ln(i+1), "power:s" 1/i^s, "none", or a table of weights for the positions
        1, 2, 3 ...: never rising; positions beyond the table are not looked at (weight 0).
    ideal: "candidates" (best order of all the query's items), "retrieved" (of the k returned ones),
        "all" (of a given list of relevances that includes the items never retrieved).
    ties: "average" (expected value over the orders of tied scores), "stable" (input order), "reverse",
        "worst" and "best" (the least and the most relevant of the tied items first).
    empty: what a query without any item of positive gain scores: "skip" (NaN), "zero" or "one".
    negative: "refuse" raises on negative relevance, "zero" counts it as 0 (as trec_eval does).

    Raises ValueError for an unknown name, a table that is not monotone, not finite, or does not start at gain 0.
    """

    gain: str | tuple[float, ...] = "exp2"
    discount: str | tuple[float, ...] = "log2"
    ideal: str = "candidates"
    ties: str = "average"
    empty: str = "skip"
    negative: str = "refuse"

    def __post_init__(self) -> None:
        object.__setattr__(self, "gain", _checked_gain(self.gain))
        object.__setattr__(self, "discount", _checked_discount(self.discount))
        for field, allowed in (("ideal", IDEALS), ("ties", TIES), ("empty", EMPTIES), ("negative", NEGATIVES)):
            check_choice(field, getattr(self, field), allowed)

    @classmethod
    def named(cls, name: str) -> Convention:
        """A preset by name, for example "lightgbm"; ValueError lists the known ones."""
        check_choice("convention", name, tuple(PRESETS))
        return PRESETS[name]

    def names(self) -> tuple[str, ...]:
        """The presets that equal this convention, in the order of `PRESETS`."""
        return tuple(name for name, preset in PRESETS.items() if preset == self)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; `Convention(**d)` gives the convention back."""
        return {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(self).items()}

    def describe(self) -> str:
        """One line in words, to stand beside every result."""
        parts = [_in_words(field, value) for field, value in asdict(self).items()]
        names = f" (as {', '.join(self.names())})" if self.names() else ""
        return "; ".join(part for part in parts if part) + names

    @property
    def empty_value(self) -> float:
        """What a query without any relevant item scores; NaN for "skip"."""
        return EMPTY_VALUES[self.empty]


def gain_values(convention: Convention, relevance: npt.ArrayLike) -> Floats:
    """Relevance of any shape -> gains (float64). The relevance has passed `check_relevance` of `.arrays`."""
    values = np.asarray(relevance)
    if convention.negative == "zero":
        values = np.maximum(values, 0)
    if isinstance(convention.gain, tuple):
        return np.asarray(convention.gain, np.float64)[values.astype(np.int64)]
    values = values.astype(np.float64)
    return np.exp2(values) - 1.0 if convention.gain == "exp2" else values


def discount_values(discount: str | tuple[float, ...], positions: int) -> Floats:
    """Discounts of the positions 1..positions (float64)."""
    if isinstance(discount, tuple):
        table = np.zeros(positions)
        known = min(positions, len(discount))
        table[:known] = discount[:known]
        return table
    i = np.arange(1, positions + 1, dtype=np.float64)
    if discount == "log2":
        return 1.0 / np.log2(i + 1.0)
    if discount == "ln":
        return 1.0 / np.log(i + 1.0)
    if discount == "none":
        return np.ones(positions)
    return i ** -float(discount.removeprefix("power:"))


def check_convention(convention: object) -> None:
    """Raise ValueError for what is no Convention, the name of one for instance."""
    if not isinstance(convention, Convention):
        raise ValueError(f"convention is {convention!r}; expected a Convention, such as Convention.named('lightgbm')")


def check_choice(field: str, value: object, allowed: tuple[str, ...]) -> None:
    """Raise ValueError that lists the allowed values."""
    if value not in allowed:
        raise ValueError(f"{field} is {value!r}; expected one of {', '.join(allowed)}")


def _checked_gain(gain: object) -> str | tuple[float, ...]:
    if isinstance(gain, str):
        check_choice("gain", gain, (*GAINS, "a table of gains per grade"))
        return gain
    table = _checked_table("gain", gain)
    if table[0] != 0:
        raise ValueError(f"gain[0] is {table[0]}; grade 0 must have the gain 0")
    for grade, (lower, upper) in enumerate(pairwise(table), start=1):
        if upper < lower:
            raise ValueError(f"gain[{grade}] is {upper}, below gain[{grade - 1}] = {lower}; gains must not fall")
    if table[-1] > MAX_GAIN:
        raise ValueError(f"gain[{len(table) - 1}] is {table[-1]}; gains end at 2^996")
    return table


def _checked_discount(discount: object) -> str | tuple[float, ...]:
    if isinstance(discount, str):
        if not discount.startswith("power:"):
            check_choice("discount", discount, (*DISCOUNTS, "power:s", "a table of weights per position"))
        elif not _is_power(discount.removeprefix("power:")):
            raise ValueError(f"discount is {discount!r}; power:s takes a finite number s of at least 0")
        return discount
    table = _checked_table("discount", discount)
    for position, (before, after) in enumerate(pairwise(table), start=1):
        if after > before:
            raise ValueError(f"discount[{position}] is {after}, above discount[{position - 1}] = {before}")
    if table[0] <= 0 or table[-1] < 0:
        raise ValueError(f"discount is {table}; weights must not be negative, and the first must be positive")
    return table


def _checked_table(field: str, values: object) -> tuple[float, ...]:
    if not isinstance(values, Iterable):
        raise ValueError(f"{field} is {values!r}; expected a name or a table of numbers")
    table = tuple(float(value) for value in values)
    if not table:
        raise ValueError(f"the table of {field} is empty")
    for index, value in enumerate(table):
        if not math.isfinite(value):
            raise ValueError(f"{field}[{index}] is {value}; expected a finite number")
    return table


def _is_power(text: str) -> bool:
    try:
        power = float(text)
    except ValueError:
        return False
    return math.isfinite(power) and power >= 0


def _in_words(field: str, value: object) -> str:
    if isinstance(value, tuple):
        return f"{field} table {', '.join(f'{number:g}' for number in value)}"
    text = str(value)
    if text.startswith("power:"):
        return f"discount 1/position^{text.removeprefix('power:')}"
    return _WORDS[field][text]


PRESETS: dict[str, Convention] = {
    "lightgbm": Convention(ties="stable", empty="one"),
    "xgboost": Convention(ties="stable", empty="one"),
    "xgboost-": Convention(ties="stable", empty="zero"),
    "catboost_exp": Convention(ties="worst", empty="one"),
    "catboost_base": Convention(gain="linear", ties="worst", empty="one"),
    "sklearn": Convention(gain="linear", empty="zero"),
    "trec_eval": Convention(gain="linear", ideal="all", ties="reverse", empty="zero", negative="zero"),
    "ranx": Convention(gain="linear", ideal="all", ties="stable", empty="zero"),
    "ranx_burges": Convention(ideal="all", ties="stable", empty="zero"),
    "textbook": Convention(ties="stable", empty="zero"),
    "recall_list": Convention(gain="linear", ideal="retrieved", ties="stable", empty="zero"),
    "recsys_ln": Convention(gain="linear", discount="ln", ideal="retrieved", ties="stable", empty="zero"),
}
"""What each library reports (golden values in tests/golden). xgboost- is its `ndcg@k-`; ranx only without ties."""
