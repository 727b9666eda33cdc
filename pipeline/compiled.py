"""The C form of a model, compiled here and now and called through ctypes: the same scores, several times faster."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from features.errors import ExportError
from pipeline.csource import c_header, c_source
from pipeline.forest import Floats, Forest

SOURCE, HEADER = "model.c", "model.h"
FLAGS = ("-std=c99", "-O3", "-ffp-contract=off")
LIMIT_SECONDS = 600


@dataclass(frozen=True)
class CompiledModel:
    """`score` takes (N, F) float64 rows, in order of the features, and gives (N,) scores."""

    score_rows: Callable[[int, int, int], None]
    features: int

    @classmethod
    def build(cls, forest: Forest) -> CompiledModel:
        """Writes, compiles and loads the C form of `forest`. Raises ExportError where no compiler can be found."""
        with tempfile.TemporaryDirectory(prefix="rankloom-") as name:
            folder = Path(name)
            write_sources(folder, forest, forest.names, "")
            return cls.load(compile_library(folder / SOURCE, folder / "model.so"), len(forest.names))

    @classmethod
    def load(cls, library: Path, features: int) -> CompiledModel:
        """Loads a library that `compile_library` made; the file may be deleted afterwards."""
        score_rows = ctypes.CDLL(str(library)).score_rows
        score_rows.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)
        score_rows.restype = None
        return cls(score_rows, features)

    def score(self, rows: Floats) -> Floats:
        rows = np.ascontiguousarray(rows, np.float64)
        if rows.ndim != 2 or rows.shape[1] != self.features:
            raise ValueError(f"rows of shape {rows.shape}, not (N, {self.features})")
        scores = np.empty(len(rows))
        self.score_rows(rows.ctypes.data, len(rows), scores.ctypes.data)
        return scores

    def score_frame(self, features: pl.DataFrame) -> Floats:
        """(N, F) features in model order, Float32 and Int32 codes -> (N,) scores."""
        return self.score(features.to_numpy(order="c"))


def write_sources(folder: Path, forest: Forest, names: tuple[str, ...], fingerprint: str) -> None:
    """Writes model.c and model.h into `folder`."""
    (folder / SOURCE).write_text(c_source(forest, names, header=HEADER), "utf-8")
    (folder / HEADER).write_text(c_header(names, fingerprint), "utf-8")


def compile_library(source: Path, library: Path) -> Path:
    """Compiles `source` into a shared library. Raises ExportError without a compiler, or with one that fails."""
    compiler = find_compiler()
    command = [compiler, *FLAGS, "-shared", "-fPIC", "-o", str(library), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_SECONDS, check=False)
    if done.returncode:
        raise ExportError(
            f"{compiler} failed on the C form of the model: {done.stderr.strip()[:300]}",
            expected="a C99 compiler for this machine",
            fix="set CC to a working gcc or clang",
        )
    return library


def find_compiler() -> str:
    """The compiler named by CC, or cc, gcc or clang. Raises ExportError where there is none."""
    named = os.environ.get("CC")
    for name in [named] if named else ["cc", "gcc", "clang"]:
        if path := shutil.which(name):
            return path
    raise ExportError(
        f"the compiler {named!r} of CC was not found" if named else "no C compiler was found",
        expected="gcc or clang on the PATH, or named by CC",
        fix="install one (Debian: apt-get install gcc), or use LightGBM itself",
    )
