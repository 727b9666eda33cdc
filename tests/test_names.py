"""Feature names survive every format: what is written is what is read, and no two names meet."""

from __future__ import annotations

import lightgbm
import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.names import decode_name, encode_name

ODD = ["my price", "a,b", "préis", "a%20b", 'q"q', "[x]", "{x}", "tab\tx", "a\nb", "back\\slash", "x:y", "attribute(x)"]


@given(st.text(st.characters(codec="utf-8"), min_size=1))
def test_names_come_back(name: str) -> None:
    assert decode_name(encode_name(name)) == name


@given(st.text(st.characters(codec="utf-8"), min_size=1), st.text(st.characters(codec="utf-8"), min_size=1))
def test_two_names_never_meet(one: str, other: str) -> None:
    assert (encode_name(one) == encode_name(other)) == (one == other)


@pytest.mark.parametrize("name", ODD)
def test_lightgbm_keeps_encoded_names_through_text_and_json(name: str) -> None:
    rng = np.random.default_rng(0)
    frame = pl.DataFrame({encode_name(name): rng.normal(size=300).astype(np.float32)})
    data = lightgbm.Dataset(frame, label=rng.integers(0, 3, 300), group=[100] * 3)
    booster = lightgbm.train({"objective": "lambdarank", "verbosity": -1, "num_threads": 1}, data, 2)
    again = lightgbm.Booster(model_str=booster.model_to_string())
    assert [decode_name(found) for found in again.feature_name()] == [name]
    assert [decode_name(found) for found in again.dump_model()["feature_names"]] == [name]
