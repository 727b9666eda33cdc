"""Writing a trial that has ended into the SQLite file of its study, in one transaction.

Optuna's own way asks the file some sixty times for a trial of fifteen parameters, which took a third of a search over
a small data set. The tables are Optuna's, as of `SCHEMA`; in a file of any other schema Optuna writes for itself.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from typing import Any

import optuna
from optuna.distributions import distribution_to_json
from optuna.storages import BaseStorage, RDBStorage
from optuna.trial import FrozenTrial
from sqlalchemy import Engine

SCHEMA = "v3.2.0.a"
FINITE = "FINITE"

_TABLES = {
    "trial_values": ("objective", "value", "value_type"),
    "trial_intermediate_values": ("step", "intermediate_value", "intermediate_value_type"),
    "trial_params": ("param_name", "param_value", "distribution_json"),
    "trial_user_attributes": ("key", "value_json"),
    "trial_system_attributes": ("key", "value_json"),
}


def keeper(study: optuna.Study, storage: BaseStorage) -> Callable[[FrozenTrial], None]:
    """What writes a trial of finite values to `study` for good; nobody else may be writing to it."""
    if not isinstance(storage, RDBStorage) or storage.engine.dialect.name != "sqlite":
        return study.add_trial
    if storage.get_current_version() != SCHEMA:
        return study.add_trial
    return partial(_write, storage.engine, storage.get_study_id_from_name(study.study_name))


def _write(engine: Engine, study_id: int, trial: FrozenTrial) -> None:
    started, ended = (_in_utc(time) for time in (trial.datetime_start, trial.datetime_complete))
    with engine.begin() as connection:
        row = connection.exec_driver_sql(
            "INSERT INTO trials (number, study_id, state, datetime_start, datetime_complete) VALUES (?, ?, ?, ?, ?)",
            (trial.number, study_id, trial.state.name, started, ended),
        ).lastrowid
        for table, entries in _entries(trial):
            columns = _TABLES[table]
            places = ", ".join("?" * (len(columns) + 1))
            statement = f"INSERT INTO {table} (trial_id, {', '.join(columns)}) VALUES ({places})"  # noqa: S608
            if entries:
                connection.exec_driver_sql(statement, [(row, *entry) for entry in entries])


def _entries(trial: FrozenTrial) -> Iterator[tuple[str, list[tuple[Any, ...]]]]:
    yield "trial_values", [(place, value, FINITE) for place, value in enumerate(trial.values or [])]
    yield "trial_intermediate_values", [(*report, FINITE) for report in trial.intermediate_values.items()]
    yield (
        "trial_params",
        [
            (name, kind.to_internal_repr(trial.params[name]), distribution_to_json(kind))
            for name, kind in trial.distributions.items()
        ],
    )
    yield "trial_user_attributes", [(key, json.dumps(value)) for key, value in trial.user_attrs.items()]
    yield "trial_system_attributes", [(key, json.dumps(value)) for key, value in trial.system_attrs.items()]


def _in_utc(time: datetime | None) -> str | None:
    return None if time is None else time.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S.%f")
