"""A folder is whole or absent, and nothing that is not ours is ever deleted."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from features.errors import OutputError
from pipeline.folder import check_free, new_folder


def test_a_folder_appears_whole_at_the_end(tmp_path: Path) -> None:
    out = tmp_path / "deep" / "run"
    with new_folder(out, marker="m") as draft:
        (draft / "m").write_text("1")
        assert not out.exists()
    assert (out / "m").read_text() == "1"
    assert [path.name for path in out.parent.iterdir()] == ["run"]


def test_nothing_is_left_of_a_failure(tmp_path: Path) -> None:
    with pytest.raises(FileExistsError), new_folder(tmp_path / "run", marker="m") as draft:
        draft.mkdir()
    assert list(tmp_path.iterdir()) == []


def test_an_empty_folder_is_taken_and_a_full_one_refused(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    with new_folder(tmp_path / "run", marker="m") as draft:
        (draft / "m").write_text("1")
    with pytest.raises(OutputError, match="is not empty"):
        check_free(tmp_path / "run", marker="m", overwrite=False)


def test_only_what_we_wrote_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "thesis").write_text("years of work")
    with pytest.raises(OutputError, match="holds no m"):
        check_free(tmp_path / "run", marker="m", overwrite=True)
    (tmp_path / "run" / "m").write_text("old")
    with new_folder(tmp_path / "run", marker="m", overwrite=True) as draft:
        (draft / "m").write_text("new")
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["m"]
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_a_failed_replacement_keeps_the_old(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "m").write_text("old")
    with pytest.raises(ZeroDivisionError), new_folder(tmp_path / "run", marker="m", overwrite=True):
        1 / 0  # noqa: B018
    assert (tmp_path / "run" / "m").read_text() == "old"


KILLED = """
import os, pathlib, signal, sys
from pipeline.folder import new_folder
with new_folder(pathlib.Path(sys.argv[1]), marker="m") as draft:
    (draft / "half").write_text("a half-written file")
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there a draft cannot be told from one in use")
def test_the_next_run_removes_what_a_killed_one_left_and_nothing_else(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path / "run")], check=False)
    assert done.returncode == -signal.SIGKILL
    (left,) = tmp_path.iterdir()
    (tmp_path / ".run.notes").mkdir()
    with new_folder(tmp_path / "run", marker="m") as young:
        assert left.exists()
        for path in tmp_path.iterdir():
            os.utime(path, (0, 0))
        with new_folder(tmp_path / "run", marker="m"):
            assert {path.name for path in tmp_path.iterdir()} > {young.name, ".run.notes"}
            assert not left.exists()


def test_a_file_in_the_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("a file")
    with pytest.raises(OutputError, match="is a file"):
        check_free(tmp_path / "run", marker="m", overwrite=True)
