"""Studies that outlive their process and are shared by several: SQLite, a journal, a real PostgreSQL."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import optuna
import polars as pl
import pytest
from sqlalchemy import create_engine, text

from features.errors import ConfigError, MissingExtraError
from pipeline.tune import run_search
from pipeline.tune.keep import keeper
from pipeline.tune.objective import Objective
from pipeline.tune.study import ended, open_storage, open_study, quiet
from tests.factories import write_config
from tests.test_tune import SPACE, task_of, timed_frame

PARTS = "[split]\nvalid = 0.25\ntest = 0.25\n"
WAIT_SECONDS = 60


def tune_process(config: Path, out: Path, *options: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "pipeline", "tune", str(config), "--out", str(out), *map(str, options)]
    return subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def wait_until(happened: Callable[[], bool]) -> None:
    end = time.monotonic() + WAIT_SECONDS
    while not happened():
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.05)


def finished(study: Path) -> dict[int, str]:
    """trial number -> its end, of a SQLite study that another process may be writing."""
    if not study.is_file():
        return {}
    with closing(sqlite3.connect(f"file:{study}?mode=ro", uri=True, timeout=30)) as database:
        try:
            rows = database.execute(
                "SELECT number, datetime_complete FROM trials WHERE state IN ('COMPLETE', 'PRUNED')"
            )
            return dict(rows.fetchall())
        except sqlite3.OperationalError:
            return {}


def test_a_killed_search_loses_no_trial_that_had_ended(tmp_path: Path) -> None:
    config = write_config(tmp_path, timed_frame(), PARTS + SPACE)
    process = tune_process(config, tmp_path / "out", "--trials", 500)
    study = tmp_path / "out" / "study.db"
    wait_until(lambda: len(finished(study)) >= 4)
    process.kill()
    process.communicate()
    before = finished(study)
    assert before
    resumed = tune_process(config, tmp_path / "out", "--trials", len(before) + 3, "--resume")
    printed, _ = resumed.communicate()
    assert resumed.returncode == 0, printed
    after = finished(tmp_path / "out" / "study.db")
    assert before.items() <= after.items()
    assert len(after) == len(before) + 3
    trials = pl.read_parquet(tmp_path / "out" / "trials.parquet")
    assert trials.filter(pl.col("same_as").is_null())["lambda_l2"].drop_nulls().is_unique().all()


def test_ctrl_c_ends_a_search_in_one_sentence(tmp_path: Path) -> None:
    config = write_config(tmp_path, timed_frame(), PARTS + SPACE)
    process = tune_process(config, tmp_path / "out", "--trials", 500)
    wait_until(lambda: len(finished(tmp_path / "out" / "study.db")) >= 3)
    process.send_signal(signal.SIGINT)
    printed, _ = process.communicate()
    assert process.returncode == 2
    assert "error: the search was stopped after" in printed
    assert "Traceback" not in printed
    assert (tmp_path / "out" / "best.toml").is_file()


def test_two_jobs_share_a_search_over_gains(tmp_path: Path) -> None:
    task = task_of(space={"gain": ["exp2", "linear"], "lambda_l2": True}, trials=8, jobs=2)
    tried = run_search(task, f"sqlite:///{tmp_path / 's.db'}", resume=False, on_trial=lambda _: None)
    assert 8 <= len(tried) <= 9
    assert all(trial.state in ("complete", "pruned") for trial in tried)
    assert {trial.setting.gain for trial in tried if trial.setting} >= {"exp2", "linear"}


def test_what_is_written_in_one_go_is_what_optuna_would_have_written(tmp_path: Path) -> None:
    task = task_of(
        space={
            "objective": True,
            "gain": ["exp2", [0, 1, 2, 4]],
            "lambda_l2": True,
            "num_leaves": {"low": 2, "high": 9},
        }
    )
    with quiet():
        working = optuna.create_study(direction="maximize")
        working.enqueue_trial({"lambda_l2": 1.0})
        working.optimize(Objective(task), n_trials=6)
        working.tell(working.ask(), state=optuna.trial.TrialState.FAIL)
        found = []
        for name, writes in (("ours", keeper), ("optunas", lambda study, _: study.add_trial)):
            storage = open_storage(f"sqlite:///{tmp_path / name}.db")
            study = open_study(task, storage, resume=False)
            write = writes(study, storage)
            for trial in working.trials:
                write(trial)
            found.append([vars(trial) for trial in optuna.load_study(study_name=task.name, storage=storage).trials])
        assert getattr(keeper(study, storage), "func", None) is not None, "the schema is the one that ours is for"
    assert found[0] == found[1]
    assert {trial["_values"] is None for trial in found[0]} == {True, False}


def test_a_journal_file_holds_a_study(tmp_path: Path) -> None:
    place = str(tmp_path / "shared" / "study.log")
    run_search(task_of(trials=3), place, resume=False, on_trial=lambda _: None)
    tried = run_search(task_of(trials=5), place, resume=True, on_trial=lambda _: None)
    assert [trial.number for trial in tried] == [0, 1, 2, 3, 4]


def test_the_trial_of_a_process_that_fell_silent_is_begun_anew(tmp_path: Path) -> None:
    place = f"sqlite:///{tmp_path / 's.db'}"
    task = task_of(trials=4, storage=place)
    with quiet():
        dead = open_study(task, open_storage(place, heartbeat_seconds=1), resume=False)
        with pytest.warns(UserWarning, match="Heartbeat"):
            trial = dead.ask()
        dead._storage.record_heartbeat(trial._trial_id)  # type: ignore[attr-defined]
        time.sleep(5)
        study = open_study(task, open_storage(place, heartbeat_seconds=1), resume=True)
        study.optimize(Objective(task), n_trials=2)
    assert study.trials[trial.number].state == optuna.trial.TrialState.FAIL
    assert [held.is_default for held in ended(study)] == [True, False]


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("nonsense", "storage nonsense:... cannot be opened"),
        ("oracle+nothing://host/name", "cannot be opened"),
        ("sqlite:////nowhere/at/all/study.db", "cannot be opened: .*unable to open database file"),
    ],
)
def test_a_storage_that_cannot_be_opened_is_one_sentence(place: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        open_storage(place)


def test_a_missing_driver_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipeline.tune.study.find_spec", lambda _: None)
    with pytest.raises(MissingExtraError, match=r"pip install 'rankloom\[postgres\]'"):
        open_storage("postgresql://user:secret@host/name")


def test_a_password_is_not_printed() -> None:
    pytest.importorskip("psycopg", reason="the extra postgres is not installed")
    with pytest.raises(ConfigError) as raised:
        open_storage("postgresql://user:secret@127.0.0.1:1/name")
    assert "secret" not in str(raised.value)


# --- PostgreSQL


def _binaries() -> Path | None:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    return found[-1].parent if found else None


def _account() -> dict[str, Any]:
    """PostgreSQL refuses root: then its files and processes belong to the user that Debian's package makes."""
    if os.geteuid() != 0:
        return {}
    user = pwd.getpwnam("postgres")
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}


@pytest.fixture(scope="module")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of an empty database of a server of our own."""
    binaries = _binaries()
    if binaries is None:
        pytest.skip("no PostgreSQL under /usr/lib/postgresql (Debian: apt-get install postgresql)")
    if find_spec("psycopg") is None:
        pytest.skip("the extra postgres is not installed")
    folder = Path(tempfile.mkdtemp(prefix="rankloom-postgres-"))
    account = _account()
    if account:
        os.chown(folder, account["user"], account["group"])
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    run: dict[str, Any] = {"check": True, "cwd": folder, "stdout": subprocess.DEVNULL, **account}
    data = folder / "data"
    options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={folder} -c fsync=off"
    try:
        subprocess.run([binaries / "initdb", "-D", data, "-U", "rankloom", "--auth=trust"], **run)
        subprocess.run([binaries / "pg_ctl", "-D", data, "-w", "-l", folder / "log", "-o", options, "start"], **run)
        yield f"postgresql://rankloom@127.0.0.1:{port}/postgres"
        subprocess.run([binaries / "pg_ctl", "-D", data, "-m", "immediate", "stop"], **run)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def open_at(place: str, start: float) -> int:
    """How many studies there are in a storage opened at a time that several processes agree on."""
    time.sleep(max(0.0, start - time.time()))
    return len(open_storage(place).get_all_studies())


def test_processes_that_meet_in_an_empty_postgresql_all_open_it(postgres: str) -> None:
    server = create_engine(postgres.replace("postgresql", "postgresql+psycopg"), isolation_level="AUTOCOMMIT")
    for turn in range(2):
        with server.connect() as connection:
            connection.execute(text(f"CREATE DATABASE meeting{turn}"))
        place, start = postgres.removesuffix("postgres") + f"meeting{turn}", time.time() + 4
        with ProcessPoolExecutor(3, mp_context=get_context("spawn")) as pool:
            assert list(pool.map(open_at, [place] * 3, [start] * 3)) == [0] * 3
    server.dispose()


def test_two_processes_work_on_one_study_in_postgresql(postgres: str, tmp_path: Path) -> None:
    config = write_config(tmp_path, timed_frame(), PARTS + SPACE)
    options = ("--trials", 12, "--storage", postgres, "--resume")
    processes = [tune_process(config, tmp_path / f"out{i}", *options) for i in (1, 2)]
    for process in processes:
        printed, _ = process.communicate()
        assert process.returncode == 0, printed
    with quiet():
        storage = open_storage(postgres)
        study = optuna.load_study(study_name="run", storage=storage)
    tried = ended(study)
    assert 12 <= len(tried) <= 13
    assert sum(trial.is_default for trial in tried) == 1
    assert len({trial.setting.key for trial in tried if trial.setting and trial.same_as is None}) >= len(tried) - 2
    for i in (1, 2):
        assert (tmp_path / f"out{i}" / "package" / "model.txt").is_file()
