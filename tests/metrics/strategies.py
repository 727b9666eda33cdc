"""What Hypothesis draws: legal conventions, and ragged queries full of ties, zeros and single items."""

from __future__ import annotations

from hypothesis import strategies as st

from pipeline.metrics import Convention
from pipeline.metrics.conventions import EMPTIES, IDEALS, TIES

GRADES = 4

gains = st.one_of(
    st.sampled_from(["exp2", "linear"]),
    st.lists(st.floats(0, 50), min_size=GRADES, max_size=GRADES).map(lambda table: (0.0, *sorted(table))),
)
discounts = st.one_of(
    st.sampled_from(["log2", "ln", "none", "power:1", "power:0.5", "power:0"]),
    st.lists(st.floats(0, 1), max_size=6).map(lambda table: (1.0, *sorted(table, reverse=True))),
)


def conventions(ties: tuple[str, ...] = TIES, ideals: tuple[str, ...] = IDEALS) -> st.SearchStrategy[Convention]:
    return st.builds(
        Convention,
        gain=gains,
        discount=discounts,
        ideal=st.sampled_from(ideals),
        ties=st.sampled_from(ties),
        empty=st.sampled_from(EMPTIES),
    )


def queries(largest: int = 12, grades: st.SearchStrategy[float] | None = None) -> st.SearchStrategy[list]:
    """Lists of (scores, relevances), one pair per query; few different scores, so that many are tied."""
    row = st.tuples(
        st.integers(-2, 3).map(lambda score: score / 2), st.integers(0, GRADES) if grades is None else grades
    )
    return st.lists(
        st.lists(row, min_size=1, max_size=largest).map(lambda rows: tuple(zip(*rows, strict=True))),
        min_size=1,
        max_size=4,
    )


cutoffs = st.one_of(st.none(), st.integers(1, 15))
