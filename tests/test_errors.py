"""Errors say what was found, what was expected and what to do; the command line prints that and exits with 2."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from features import errors
from pipeline import cli


def tree(cls: type[errors.RankingError] = errors.RankingError) -> Iterator[type[errors.RankingError]]:
    yield cls
    for child in cls.__subclasses__():
        yield from tree(child)


def test_the_tree_on_top_of_the_file_names_every_error() -> None:
    missing = [
        cls.__name__
        for cls in tree()
        if cls.__module__ == errors.__name__ and cls.__name__ not in (errors.__doc__ or "")
    ]
    assert missing == []


def test_a_message_is_one_sentence_in_three_parts() -> None:
    error = errors.DataError("12 rows", expected="13 rows", fix="add one")
    assert str(error) == "12 rows; expected 13 rows; add one"
    assert (error.found, error.expected, error.fix) == ("12 rows", "13 rows", "add one")


def test_a_missing_extra_prints_the_install_line() -> None:
    assert "pip install 'rankloom[onnx]'" in str(errors.MissingExtraError("onnx", "onnx"))


@pytest.mark.parametrize("error", [errors.RankingError, errors.ParityError, errors.PackageError])
def test_the_command_line_turns_errors_into_a_line_and_code_2(
    error: type[errors.RankingError], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        raise error("this", expected="that", fix="do it")

    monkeypatch.setattr(cli, "app", fail)
    monkeypatch.setattr(sys, "argv", ["rankloom"])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    assert stop.value.code == 2
    assert capsys.readouterr().err == "error: this; expected that; do it\n"


def test_a_bug_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise KeyError("a bug")

    monkeypatch.setattr(cli, "app", fail)
    with pytest.raises(KeyError, match="a bug"):
        cli.main()
