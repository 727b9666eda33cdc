"""Fixtures shared by all tests."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from pipeline import cli

SHARED_DATA = Path(__file__).parents[2] / "shared" / "data"


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str


@pytest.fixture
def rankloom(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Outcome]:
    """Runs the command line in this process: a crash of the process would be a crash of the tests."""

    def run(*arguments: object) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["rankloom", *map(str, arguments)])
        capsys.readouterr()
        code = 0
        try:
            cli.main()
        except SystemExit as stop:
            code = int(stop.code or 0)
        captured = capsys.readouterr()
        return Outcome(code, captured.out, captured.err)

    return run


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real data beside the project; tests that need it are skipped where it is absent."""
    if not SHARED_DATA.is_dir():
        pytest.skip(f"no real data at {SHARED_DATA.name} beside the project")
    return SHARED_DATA
