"""The only door to LightGBM.

Everything that could make it abort, or train on something else than meant, has been refused by `RankingDataset`
before it comes here. LightGBM 4.7 reads the Polars frame itself through Arrow, without a float64 copy.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import numpy.typing as npt
import polars as pl

from features.columns import POSITION
from features.errors import PackageError, TrainingError
from pipeline.dataset import RankingDataset
from pipeline.large_dataset import FiledFeatures, LargeDataset
from pipeline.names import encode_name
from pipeline.params import POSITION_BIAS

Booster = lightgbm.Booster
Floats = npt.NDArray[np.float64]

VALID = "valid"
_SOURCE = re.compile(r" at /\S+, line \d+ *\.?")
"""Where in its own source LightGBM stood when it refused: of no use to a reader."""

BINNING = (
    "max_bin",
    "min_data_in_bin",
    "bin_construct_sample_cnt",
    "enable_bundle",
    "use_missing",
    "zero_as_missing",
    "linear_tree",
    "seed",
)
"""Parameters that are fixed once a LightGBM dataset is made (LGBM_DatasetUpdateParamChecking)."""

ALWAYS = {"verbosity": -1, "feature_pre_filter": False}
"""With feature_pre_filter, a dataset is made for one min_data_in_leaf, and features are sampled from fewer columns."""


@dataclass(frozen=True)
class Trained:
    """What a training leaves: the text of exactly `best_iteration` trees, and LightGBM's metric after each round."""

    model_text: str
    best_iteration: int
    history: dict[int, list[float]]
    """cut-off k -> LightGBM's own ndcg@k on the watched dataset after rounds 1, 2, ..."""


@dataclass(frozen=True)
class Binned:
    """A training set and the one watched beside it, binned: trainings of equal `binning_of` parameters may share it."""

    train_set: lightgbm.Dataset
    watched_set: lightgbm.Dataset


def binning_of(params: Mapping[str, Any]) -> tuple[Any, ...]:
    """What decides how values are binned: one binned dataset serves all trainings for which this is equal."""
    return (*(params.get(name) for name in BINNING), POSITION_BIAS in params)


def bin_datasets(train: RankingDataset, watched: RankingDataset, params: Mapping[str, Any]) -> Binned:
    """Bins both, so that several trainings need not."""
    settings = {**params, **ALWAYS}
    with _refusals():
        train_set = _lightgbm_dataset(train, settings)
        if POSITION_BIAS in params:
            train_set.set_position(positions_of(train))
        watched_set = train_set if watched is train else _lightgbm_dataset(watched, settings, reference=train_set)
        return Binned(train_set.construct(), watched_set.construct())


def positions_of(dataset: RankingDataset) -> npt.NDArray[np.int32]:
    """(N,) where each row was shown. Raises TrainingError where a row has no position."""
    known = dataset.keys[POSITION].cast(pl.Int32) if POSITION in dataset.keys.columns else None
    if known is None or known.null_count():
        lacking = dataset.rows if known is None else known.null_count()
        raise TrainingError(
            f"{lacking} of {dataset.rows} training rows have no position for {POSITION_BIAS}",
            expected="the position each row was shown at",
            fix="name the position column in [data] columns and rank what was shown, or leave the parameter out",
        )
    return known.to_numpy()


def train_booster(
    train: RankingDataset,
    watched: RankingDataset,
    *,
    params: Mapping[str, Any],
    rounds: int,
    ks: Sequence[int],
    stop_k: int | None = None,
    patience: int = 0,
    on_round: Callable[[int, float], None] = lambda _round, _value: None,
    binned: Binned | None = None,
) -> Trained:
    """Grow up to `rounds` trees on `train`, watching ndcg@k of `watched` for every k in `ks`.

    With `stop_k`, training ends once ndcg@stop_k has not risen for `patience` rounds, and the best round is kept;
    without it all rounds are. `on_round(round, value)` is told ndcg of the first k after each round; what it raises
    ends the training. `binned` is what `bin_datasets` made of the same two datasets and equal `binning_of` parameters.
    Raises TrainingError where no tree found a split.
    """
    settings = {**params, "label_gain": list(train.gains), "metric": "ndcg", "eval_at": list(ks), **ALWAYS}
    binned = binned or bin_datasets(train, watched, settings)
    history: dict[int, list[float]] = {k: [] for k in ks}
    watch = _watcher(history, stop_k, patience, on_round)
    with _refusals():
        booster = lightgbm.train(
            settings,
            binned.train_set,
            num_boost_round=rounds,
            valid_sets=[binned.watched_set],
            valid_names=[VALID],
            callbacks=[watch],
        )
    best = _best_round(history, stop_k)
    _check_learned(booster, train)
    return Trained(booster.model_to_string(num_iteration=best), best, history)


def load_model(text: str) -> Booster:
    """The booster of a model text. The text must have been checked by `pipeline.trees` if a stranger wrote it.

    Raises PackageError where LightGBM does not take it all the same (its block of parameters, say).
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return lightgbm.Booster(model_str=text)
        except (lightgbm.basic.LightGBMError, ValueError) as error:
            raise PackageError(
                f"LightGBM cannot read the model text: {error}",
                expected="a model text as LightGBM writes it",
                fix="take the package from its origin again, or train it again",
            ) from error


def predict(booster: Booster, features: pl.DataFrame, *, threads: int = 1, rounds: int | None = None) -> Floats:
    """(N, F) features in model order, Float32 and Int32 codes -> (N,) scores of the first `rounds` trees, float64.

    None: of all trees. A random forest's score is the mean of its trees, all others' their sum.
    """
    if features.height == 0:
        return np.empty(0)
    kept: dict[str, Any] = {} if rounds is None else {"num_iteration": rounds}
    frame = _positional(features)
    return np.asarray(booster.predict(frame, num_threads=threads, validate_features=False, **kept))


def contributions(booster: Booster, features: pl.DataFrame, *, threads: int = 1) -> Floats:
    """(N, F) features -> (N, F + 1) SHAP values (Lundberg et al. 2018): a column per feature, then the mean score.

    The values of a row sum to its score.
    """
    if features.height == 0:
        return np.empty((0, features.width + 1))
    frame = _positional(features)
    values = np.asarray(booster.predict(frame, pred_contrib=True, num_threads=threads, validate_features=False))
    averages = booster.dump_model(num_iteration=1)["average_output"]
    return values / booster.num_trees() if averages else values


def gain_importance(booster: Booster) -> Floats:
    """(F,) what the splits on each feature gained in training."""
    return np.asarray(booster.feature_importance("gain"), np.float64)


def dump_model(booster: Booster) -> dict[str, Any]:
    """LightGBM's own JSON form of the model."""
    dumped: dict[str, Any] = booster.dump_model()
    return dumped


def builtin_ndcg(dataset: RankingDataset, scores: Floats, ks: Sequence[int]) -> dict[int, float]:
    """LightGBM's built-in ndcg@k of given scores: a booster without trees whose scores are its initial ones."""
    settings = {"label_gain": list(dataset.gains), "metric": "ndcg", "eval_at": list(ks), "verbosity": -1}
    settings |= {"objective": "lambdarank", "num_threads": 1, "min_data_in_leaf": 1, "min_data_in_bin": 1}
    data = _lightgbm_dataset(dataset, settings)
    data.set_init_score(scores)
    booster = lightgbm.Booster(settings, data)
    return {int(result[1].rpartition("@")[2]): float(result[2]) for result in booster.eval_train()}


@contextmanager
def _refusals() -> Iterator[None]:
    """What LightGBM refuses (a value out of range, settings that exclude each other) is for the user to mend."""
    try:
        yield
    except (lightgbm.basic.LightGBMError, TypeError) as error:
        raise TrainingError(
            f"LightGBM refuses the settings: {_SOURCE.sub('', str(error).splitlines()[0])}",
            expected="values in LightGBM's ranges that go together",
            fix="correct [train] params",
        ) from error


def _positional(features: pl.DataFrame) -> pl.DataFrame:
    """Columns named by their place: LightGBM reads some characters of names as its own."""
    names = [f"Column_{i}" for i in range(features.width)]
    return features.rename(dict(zip(features.columns, names, strict=True)))


def _lightgbm_dataset(
    dataset: RankingDataset, params: Mapping[str, Any], *, reference: lightgbm.Dataset | None = None
) -> lightgbm.Dataset:
    names = {name: encode_name(name) for name in dataset.features.columns}
    filed = isinstance(dataset, LargeDataset)
    return lightgbm.Dataset(
        _file_readers(dataset.features) if isinstance(dataset, LargeDataset) else dataset.features.rename(names),
        label=dataset.labels,
        group=dataset.sizes,
        reference=reference,
        feature_name=list(names.values()) if filed else "auto",
        categorical_feature=[encode_name(name) for name in dataset.schema.categorical],
        params=dict(params),
    )


def _file_readers(features: FiledFeatures) -> list[lightgbm.Sequence]:
    held: dict[Path, Floats] = {}
    return [_FileReader(file, height, held) for file, height in zip(features.files, features.heights, strict=True)]


class _FileReader(lightgbm.Sequence):
    """The rows of one file, as LightGBM asks for them: some by number, in ascending order, then all, range by range.

    `held` is what all files of a table share: the rows of the one that was asked last.
    """

    batch_size = 20_000

    def __init__(self, file: Path, height: int, held: dict[Path, Floats]) -> None:
        self._file, self._height, self._held = file, height, held

    def __len__(self) -> int:
        return self._height

    def __getitem__(self, where: int | slice | list[int]) -> Floats:
        if self._file not in self._held:
            self._held.clear()
            self._held[self._file] = pl.read_ipc(self._file).to_numpy(order="c")
        return self._held[self._file][where].astype(np.float64)


def _watcher(
    history: dict[int, list[float]], stop_k: int | None, patience: int, on_round: Callable[[int, float], None]
) -> Callable[[Any], None]:
    """Follows `stop_k`; LightGBM's own early stopping follows the smallest k, whatever the order of eval_at.

    A tree that finds no split is taken back by LightGBM, which goes on: such a round is none in the history, as the
    next one may sample other features and find one.
    """
    first = next(iter(history))
    best = raised_at = 0

    def watch(env: Any) -> None:
        nonlocal best, raised_at
        if env.model.current_iteration() > len(history[first]):
            for _, metric, value, _ in env.evaluation_result_list:
                history[int(metric.rpartition("@")[2])].append(float(value))
        on_round(env.iteration + 1, history[first if stop_k is None else stop_k][-1])
        if best != _best_round(history, stop_k):
            best, raised_at = _best_round(history, stop_k), env.iteration + 1
        if stop_k is not None and env.iteration + 1 - raised_at >= patience:
            raise lightgbm.callback.EarlyStopException(env.iteration, env.evaluation_result_list)

    return watch


def _best_round(history: Mapping[int, Sequence[float]], stop_k: int | None) -> int:
    """The first round with the highest ndcg@stop_k, counted from 1; without `stop_k` the last one."""
    if stop_k is None:
        return len(next(iter(history.values())))
    return int(np.argmax(history[stop_k])) + 1


def _check_learned(booster: Booster, train: RankingDataset) -> None:
    if booster.feature_importance("split").any():
        return
    raise TrainingError(
        f"no tree found a split in {train.rows} rows of {len(train.sizes)} queries",
        expected="features that differ within queries, and at least 2 x min_data_in_leaf rows",
        fix="lower min_data_in_leaf in [train] params, or add features that tell items apart",
    )
