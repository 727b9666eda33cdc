"""Every config that ships is valid, says how to run it, and is counted."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.config import load_config

CONFIGS = sorted((Path(__file__).parents[1] / "configs").rglob("*.toml"))


def test_all_configs_are_found() -> None:
    assert [path.stem for path in CONFIGS] == ["deskdrop", "letor", "movielens", "shop", "video"]


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.name)
def test_a_config_is_valid_and_opens_with_its_command(path: Path) -> None:
    load_config(path)
    assert f"rankloom train configs/{path.name}" in "".join(path.read_text().splitlines(keepends=True)[:4])
