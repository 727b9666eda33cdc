"""SQL expressions over columns: numbers of one row, or a sentence that says why not."""

from __future__ import annotations

import polars as pl
import pytest

from features.custom import evaluate_expression, find_column, parse_expression
from features.errors import ConfigError
from tests.features.test_time import EVERYTHING_AT_ONCE

COLUMNS = {
    "item.price": pl.Series([10.0, 0.0, None, 40.0]),
    "list_price": pl.Series([20.0, 0.0, 5.0, 40.0]),
    "brand": pl.Series(["a", "b", None, "a"]),
}


def evaluate(text: str) -> list[float | None]:
    values = evaluate_expression("share", text, COLUMNS.__getitem__, COLUMNS)
    assert values.dtype == pl.Float32
    return values.to_list()


def test_expression_when_evaluated_then_numbers_and_null_where_not_finite():
    assert evaluate("1 - item_price / list_price") == [0.5, None, None, 0.0]
    assert evaluate('"item.price" + 1') == [11.0, 1.0, None, 41.0]
    assert evaluate("-list_price") == [-20.0, 0.0, -5.0, -40.0]


def test_expression_when_its_last_bits_depend_on_the_number_of_rows_then_no_mixture():
    prices = pl.Series("price", range(1, 400, 7))
    assert (1 - prices / 100).to_list() != [1 - price / 100 for price in prices]  # Polars multiplies by a hundredth
    found = evaluate_expression("saved", "1 - price / 100", {"price": prices}.__getitem__, ["price"])
    assert found.to_list() == pytest.approx([1 - price / 100 for price in prices], rel=1e-6)


def test_expression_when_it_compares_then_one_and_zero():
    assert evaluate("brand = 'a'") == [1.0, 0.0, None, 1.0]
    assert evaluate("case when item_price > 5 then 2 else 0 end") == [2, 0, 0, 2]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("1 -", "cannot be read"),
        ("42", "names no column"),
        ("random() + list_price", "cannot be read"),
        ("__import__('os')", "cannot be read"),
        ("sum(list_price)", "mixes rows"),
        ("list_price - avg(list_price)", "mixes rows"),
        ("list_price / max(list_price) over (partition by brand)", "mixes rows"),
        ("rank() over (order by list_price)", "mixes rows"),
        ("brand + list_price", "does not fit its columns|gives"),
        ("brand", "gives String"),
    ],
)
def test_expression_when_unfit_then_refused_with_the_reason(text, reason):
    with pytest.raises(ConfigError, match=f"share = .* ({reason}).*; expected a SQL expression"):
        evaluate(text)


def test_expression_when_a_column_does_not_exist_then_the_nearest_is_named():
    with pytest.raises(ConfigError, match=r"'share' names the column 'lst_price', which does not exist.*'list_price'"):
        evaluate("lst_price * 2")


def test_column_when_spelled_with_dots_or_underscores_then_found():
    assert find_column("item_age_days", ["item.age_days"], what="x") == "item.age_days"
    assert find_column("item.age_days", ["item.age_days"], what="x") == "item.age_days"


def test_expression_when_parsed_alone_then_only_its_text_is_judged():
    assert parse_expression("x", "no_such_column * 2").meta.root_names() == ["no_such_column"]


def test_custom_feature_when_it_reads_unused_features_and_fields_then_built():
    """price is 1 and 2 when shown, weight 1 and 2 in the catalogue: price / (1 + weight)."""
    table = EVERYTHING_AT_ONCE.table(EVERYTHING_AT_ONCE.fit())
    found = dict(table.frame.select("item", "custom.cheap").iter_rows())
    assert found == {0: pytest.approx(1 / 2), 1: pytest.approx(2 / 3)}
    assert table.feature_names[-1] == "custom.cheap"
