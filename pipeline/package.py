"""The folder a model ships in: model.txt, manifest.json, examples.parquet. No pickle, and nothing is trusted.

Sizes and sha256 of all files, and the manifest's own checksum, are checked before anything else is parsed; the
examples are scored again on load, so that a package that no longer ranks as it did cannot be used by accident.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import polars as pl
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PositiveInt, ValidationError

from features.categories import UNKNOWN
from features.columns import ITEM, QUERY, SCORE
from features.errors import DataError, PackageError
from features.spec import FeatureSpec, FeatureType
from pipeline.booster import load_model, predict
from pipeline.dataset import FeatureSchema, RankingDataset
from pipeline.trees import parse_model

MODEL, MANIFEST, EXAMPLES = "model.txt", "manifest.json", "examples.parquet"
EXAMPLE_ROWS = 500
MAX_MANIFEST_BYTES = 256 * 2**20
UNKNOWN_LEVEL = "(unknown)"
"""How a level that training never saw is written in examples."""


class FeatureEntry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)
    name: str
    dtype: FeatureType
    missing: str
    lookback_days: float | None
    categories: tuple[str, ...] | None


class FileEntry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)
    sha256: str
    bytes: int


class ConventionEntry(BaseModel):
    """A `pipeline.metrics.Convention` in plain values, checked without loading the metrics, which no scorer needs."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    gain: Literal["exp2", "linear"] | tuple[float, ...]
    discount: Annotated[str, Field(pattern="^(log2|ln|none|power:.+)$")] | tuple[float, ...]
    ideal: Literal["candidates", "retrieved", "all"]
    ties: Literal["average", "stable", "reverse", "worst", "best"]
    empty: Literal["skip", "zero", "one"]
    negative: Literal["refuse", "zero"]


class TrainEntry(BaseModel):
    rounds: PositiveInt


class ConfigEntry(BaseModel):
    """What is read of the config again; all else in it is only kept."""

    seed: int
    train: TrainEntry


def _fits(model: type[BaseModel]) -> AfterValidator:
    def checked(content: dict[str, Any]) -> dict[str, Any]:
        model.model_validate(content)
        return content

    return AfterValidator(checked)


class Manifest(BaseModel):
    """All that is needed to use a model rightly, and to know where it came from."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    format_version: Literal[1] = 1
    features: Annotated[tuple[FeatureEntry, ...], Field(min_length=1)]
    """In model order, with type, what missing means, and the levels of categories in code order."""
    definitions: dict[str, Any] | None
    """How the features are built from a log, with everything fitted; None for a ready-made table."""
    reference: dict[str, Any]
    """Where each feature and the score lay when the model was made: what `pipeline.drift` fits."""
    fingerprint: str
    relevance: dict[str, Any]
    """The relevance rule, `width` of a level (null: whole grades) and the gain of each label."""
    convention: Annotated[dict[str, Any], _fits(ConventionEntry)]
    k: Annotated[tuple[PositiveInt, ...], Field(min_length=1)]
    data_window: dict[str, Any]
    metrics: dict[str, Any]
    config: Annotated[dict[str, Any], _fits(ConfigEntry)]
    best_iteration: PositiveInt
    """The round that was kept. LightGBM grows fewer trees where it finds nothing more to split."""
    versions: dict[str, str]
    files: dict[str, FileEntry]


@dataclass(frozen=True)
class Package:
    """A package that has been checked: its text, its manifest, its schema and its examples (levels, not codes)."""

    folder: Path
    model_text: str
    manifest: Manifest
    schema: FeatureSchema
    examples: pl.DataFrame

    @property
    def expected_scores(self) -> pl.Series:
        """The score of each example: the last column, called `score` unless a feature is."""
        return self.examples[self.examples.columns[-1]]


def write_package(folder: Path, model_text: str, examples: RankingDataset, manifest: Mapping[str, Any]) -> None:
    """Writes a package into an empty folder; `manifest` has what `Manifest` has beside features, files and versions."""
    folder.mkdir(parents=True)
    (folder / MODEL).write_text(model_text, "utf-8", newline="\n")
    example_frame(examples, model_text).write_parquet(folder / EXAMPLES)
    files = {name: _file_entry((folder / name).read_bytes()) for name in (MODEL, EXAMPLES)}
    versions = {name: version(name) for name in ("rankloom", "lightgbm", "polars", "numpy")}
    content = Manifest.model_validate(
        {
            **manifest,
            "features": [asdict(feature) for feature in examples.schema.features],
            "fingerprint": examples.schema.fingerprint,
            "files": files,
            "versions": versions,
        }
    )
    (folder / MANIFEST).write_bytes(_sealed(content.model_dump(mode="json")))


def load_package(folder: Path) -> Package:
    """Checks and reads a package. Raises PackageError for anything that is not as it was written."""
    manifest = _read_manifest(folder)
    contents = {name: _read_checked(folder, name, manifest) for name in (MODEL, EXAMPLES)}
    schema = FeatureSchema(tuple(FeatureSpec(**entry.model_dump()) for entry in manifest.features))
    if len(set(schema.names)) < len(schema.names):
        raise _damaged(folder, "two features share a name")
    if schema.fingerprint != manifest.fingerprint:
        raise _damaged(folder, "the fingerprint is not that of the features")
    examples = _read_examples(folder, contents[EXAMPLES], schema)
    package = Package(folder, _read_text(folder, contents[MODEL]), manifest, schema, examples)
    _check_model(package)
    _check_examples(package)
    return package


def example_frame(dataset: RankingDataset, model_text: str) -> pl.DataFrame:
    """Whole queries up to about `EXAMPLE_ROWS` rows: ids, features (categories as levels) and the score of each row."""
    count = max(1, int(np.searchsorted(np.cumsum(dataset.sizes), EXAMPLE_ROWS, side="right")))
    rows = int(dataset.sizes[:count].sum())
    features = dataset.features.head(rows)
    scores = predict(load_model(model_text), features)
    keys = dataset.keys.head(rows).select(QUERY, ITEM)
    levels = with_levels(features, dataset.schema.features)
    return pl.concat([keys, levels, pl.DataFrame({_score_name(levels.columns): scores})], how="horizontal")


def _score_name(features: Sequence[str]) -> str:
    name = SCORE
    while name in features:
        name += "_"
    return name


def with_levels(frame: pl.DataFrame, features: Sequence[FeatureSpec]) -> pl.DataFrame:
    """`frame` with categories as a person writes them, levels instead of codes: undoes `FeatureSchema.encode`."""
    return frame.with_columns(_as_levels(frame[spec.name], spec) for spec in features if spec.dtype == "category")


def _as_levels(column: pl.Series, spec: FeatureSpec) -> pl.Series:
    unknown = UNKNOWN_LEVEL
    while unknown in (spec.categories or ()):
        unknown = f"({unknown})"
    names = pl.Series([unknown, *(spec.categories or ())])
    return names.gather(column.fill_null(UNKNOWN)).set(column.is_null(), None).alias(spec.name)


def _check_model(package: Package) -> None:
    """Before LightGBM sees the text: it trusts every index in it."""
    forest, manifest = parse_model(package.model_text), package.manifest
    if len(forest.names) != len(manifest.features):
        raise _damaged(
            package.folder, f"the model has {len(forest.names)} features, the manifest {len(manifest.features)}"
        )
    rounds = ConfigEntry.model_validate(manifest.config).train.rounds
    if not len(forest.trees) <= manifest.best_iteration <= rounds:
        raise _damaged(
            package.folder,
            f"{len(forest.trees)} trees cannot be those of round {manifest.best_iteration} of {rounds}",
        )


def _check_examples(package: Package) -> None:
    try:
        features = package.schema.select(package.schema.encode(package.examples))
    except DataError as error:
        raise _damaged(package.folder, f"{EXAMPLES} holds what no feature can be") from error
    again = predict(load_model(package.model_text), features)
    differ = int((again != package.expected_scores.to_numpy()).sum())
    if differ:
        raise PackageError(
            f"{differ} of {len(again)} examples in {package.folder} score otherwise than when the package was written",
            expected="the same scores bit for bit",
            fix=f"use the LightGBM of the manifest ({package.manifest.versions.get('lightgbm')}), or train anew",
        )


def _read_manifest(folder: Path) -> Manifest:
    path = folder / MANIFEST
    if not path.is_file():
        raise PackageError(f"{folder} holds no {MANIFEST}", expected="the folder of a package", fix="check the path")
    if path.stat().st_size > MAX_MANIFEST_BYTES:
        raise _damaged(folder, f"{MANIFEST} is too large")
    try:
        raw = path.read_bytes()
        content = json.loads(raw)
        if not isinstance(content, dict) or _sealed({k: v for k, v in content.items() if k != "checksum"}) != raw:
            raise _damaged(folder, f"{MANIFEST} was changed")
        del content["checksum"]
        return Manifest.model_validate(content)
    except (ValueError, RecursionError, ValidationError) as error:
        raise _damaged(folder, f"{MANIFEST} cannot be read") from error


def _read_checked(folder: Path, name: str, manifest: Manifest) -> bytes:
    expected, path = manifest.files.get(name), folder / name
    if expected is None or not path.is_file():
        raise _damaged(folder, f"{name} is missing")
    if path.stat().st_size != expected.bytes:
        raise _damaged(folder, f"{name} has {path.stat().st_size} bytes instead of {expected.bytes}")
    content = path.read_bytes()
    if _file_entry(content) != expected.model_dump():
        raise _damaged(folder, f"{name} was changed")
    return content


def _read_text(folder: Path, content: bytes) -> str:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _damaged(folder, f"{MODEL} is not UTF-8") from error


def _read_examples(folder: Path, content: bytes, schema: FeatureSchema) -> pl.DataFrame:
    """The columns that `example_frame` writes, and at least one row: nothing is proven by none."""
    try:
        examples = pl.read_parquet(io.BytesIO(content))
    except (pl.exceptions.PolarsError, OSError) as error:
        raise _damaged(folder, f"{EXAMPLES} cannot be read") from error
    score = _score_name(schema.names)
    if examples.columns != [QUERY, ITEM, *schema.names, score] or examples[score].dtype != pl.Float64:
        raise _damaged(folder, f"{EXAMPLES} does not hold query, item, the features and a number for the score")
    if not examples.height:
        raise _damaged(folder, f"{EXAMPLES} has no rows")
    return examples


def _file_entry(content: bytes) -> dict[str, Any]:
    return {"sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}


def _sealed(content: Mapping[str, Any]) -> bytes:
    """One way of writing, with a checksum of itself, so that no byte can change unseen."""
    body = json.dumps(content, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False)
    checksum = hashlib.sha256(body.encode()).hexdigest()
    sealed = json.dumps({**content, "checksum": checksum}, indent=1, sort_keys=True, ensure_ascii=False)
    return (sealed + "\n").encode()


def _damaged(folder: Path, what: str) -> PackageError:
    return PackageError(
        f"package {folder}: {what}", expected="a package as it was written", fix="copy it again, or train anew"
    )
