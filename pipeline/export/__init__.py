"""Exports that rank as what was trained, each proven before it is written.

A format that stands in `FORMATS` is exported by `--format NAME` and `--format all`, proven by `pipeline.export.parity`,
and tested on every kind of model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from features.errors import ConfigError, ExportError, MissingExtraError
from features.names import nearest
from pipeline.export import c, elasticsearch, json, lightgbm, onnx, opensearch, python, solr, vespa
from pipeline.export.model import ExportModel, Format, write_json
from pipeline.export.parity import PARITY, Truth, prove
from pipeline.folder import check_free, new_folder
from pipeline.package import Package, load_package

__all__ = ["ALL", "FORMATS", "ExportModel", "Format", "export_model", "export_package"]

FORMATS: Mapping[str, Format] = MappingProxyType(
    {
        module.FORMAT.name: module.FORMAT
        for module in (lightgbm, json, vespa, onnx, solr, elasticsearch, opensearch, c, python)
    }
)
ALL = "all"
SUMMARY = "exports.json"


def export_package(
    package: Package | Path | str,
    format: str | Sequence[str],
    out: Path | str,
    target_version: str | None = None,
    *,
    overwrite: bool = False,
) -> dict[str, Any]:
    """Write `package` into the new folder `out` in one format, or of several (or "all") each that can express it into a
    folder of its own there.

    Returns what parity.json holds; for several, per format either that or {"refused": why}. Raises ExportError where
    the target cannot express the model or ranks otherwise (then nothing is written), ConfigError for an unknown format
    or version, OutputError where `out` is taken, PackageError for a damaged package.
    """
    loaded = package if isinstance(package, Package) else load_package(Path(package))
    return export_model(ExportModel.of(loaded), format, out, target_version, overwrite=overwrite)


def export_model(
    model: ExportModel,
    format: str | Sequence[str],
    out: Path | str,
    target_version: str | None = None,
    *,
    overwrite: bool = False,
) -> dict[str, Any]:
    """As `export_package`, from a model text with its features and examples."""
    out = Path(out)
    if format == ALL or not isinstance(format, str):
        names = list(FORMATS) if format == ALL else list(format)
        return _export_each(model, names, out, target_version, overwrite=overwrite)
    target = _target(format, target_version)
    check_free(out, marker=PARITY, overwrite=overwrite)
    return _export(model, target, out, target_version, Truth.of(model), overwrite=overwrite)


def _target(name: str, version: str | None) -> Format:
    target = FORMATS.get(name)
    if target is None:
        guess = nearest(name, [*FORMATS, ALL])
        raise ConfigError(
            f"unknown export format {name!r}",
            expected=f"one of {', '.join([*FORMATS, ALL])}",
            fix=f"did you mean {guess!r}?" if guess else "choose one of them",
        )
    if version is not None and not target.versions:
        raise ConfigError(f"a target version for format {name!r}", expected="none", fix="leave --target-version out")
    return target


def _export(
    model: ExportModel, target: Format, out: Path, version: str | None, truth: Truth, *, overwrite: bool
) -> dict[str, Any]:
    with new_folder(out, marker=PARITY, overwrite=overwrite) as folder:
        target.write(model, folder, version)
        report = prove(model, target, folder, version, truth)
        write_json(folder / PARITY, report, indent=1)
    return report


def _export_each(
    model: ExportModel, names: Sequence[str], out: Path, version: str | None, *, overwrite: bool
) -> dict[str, Any]:
    if version is not None:
        raise ConfigError(
            "a target version for several formats",
            expected="none",
            fix="export one format at a time to name its version",
        )
    targets = {name: _target(name, None) for name in names}
    truth = Truth.of(model)
    reports: dict[str, Any] = {}
    with new_folder(out, marker=SUMMARY, overwrite=overwrite) as folder:
        for name, target in targets.items():
            try:
                reports[name] = _export(model, target, folder / name, None, truth, overwrite=False)
            except (ExportError, MissingExtraError) as error:
                reports[name] = {"refused": str(error)}
        write_json(folder / SUMMARY, reports, indent=1)
    return reports
