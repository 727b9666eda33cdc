"""How long scoring takes: the exported forms beside LightGBM, and the scorer over its engine. Run by hand:

    python tests/benchmarks/export.py [--trees 300] [--leaves 63] [--rows 200] [--turns 300] [--many 1000000]

One thread each. All contenders take turns in one process, so that a busy machine slows all of them; p50 and p99 are
over the turns, ratios are of processor time, which other work beside does not count into. treelite (through tl2cgen)
takes part where it is installed. Results go into LOG.md by hand.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import lightgbm
import numpy as np
import polars as pl

from features.spec import FeatureSpec
from pipeline.booster import load_model, predict
from pipeline.compiled import SOURCE, CompiledModel, compile_library, write_sources
from pipeline.dataset import FeatureSchema
from pipeline.export import ExportModel, onnx
from pipeline.package import Package
from pipeline.scorer import Scorer, compiled_engine, lightgbm_engine
from pipeline.trees import parse_model

FEATURES = 40
NODES = 100_000
Contender = Callable[[], object]


def make_text(trees: int, leaves: int, rows: int, *, category: bool) -> tuple[str, np.ndarray]:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows, FEATURES)).astype(np.float32)
    x[:, 1], x[:, 2] = rng.poisson(2, rows), rng.integers(1, 61, rows)
    signal = x[:, 0] + 0.3 * x[:, 1] + np.sin(x[:, 2]) + x[:, 5] * x[:, 6] + rng.normal(size=rows)
    labels = np.digitize(signal, np.quantile(signal, [0.5, 0.75, 0.9, 0.97]))
    x[:, 3:][rng.random((rows, FEATURES - 3)) < 0.05] = np.nan
    settings = {"objective": "lambdarank", "num_leaves": leaves, "learning_rate": 0.05, "verbosity": -1}
    data = lightgbm.Dataset(x, labels, group=[100] * (rows // 100), categorical_feature=[2] if category else [])
    return lightgbm.train(settings, data, trees).model_to_string(), x


def frame_of(x: np.ndarray, *, category: bool) -> pl.DataFrame:
    frame = pl.DataFrame(x, schema=[f"f{index:02}" for index in range(FEATURES)]).fill_nan(None)
    return frame.with_columns(pl.col("f02").cast(pl.Int32)) if category else frame


def specs(*, category: bool) -> tuple[FeatureSpec, ...]:
    levels = tuple(f"level {code:02}" for code in range(1, 61))
    plain = [FeatureSpec(f"f{index:02}") for index in range(FEATURES)]
    return tuple(replace(s, dtype="category", categories=levels) if category and s.name == "f02" else s for s in plain)


def contenders(text: str, x: np.ndarray, folder: Path, *, category: bool) -> dict[str, Contender]:
    features = specs(category=category)
    frame = frame_of(x, category=category)
    rows = np.ascontiguousarray(x, np.float64)
    booster, compiled = load_model(text), CompiledModel.build(parse_model(text))
    model = ExportModel(text, features, frame, np.zeros(len(x), np.int64), "")
    onnx.FORMAT.write(model, folder, None)
    session = onnx.session(folder / onnx.MODEL, threads=1)
    package = Package(folder, text, None, FeatureSchema(features), frame)  # type: ignore[arg-type]
    levels = frame.with_columns(query=pl.lit(1), item=pl.int_range(len(x)))
    if category:
        names = pl.Series([None, *(features[2].categories or ())])
        levels = levels.with_columns(f02=names.gather(frame["f02"]))
    by_lightgbm = Scorer(package, lightgbm_engine(package.schema, booster, threads=1))
    by_c = Scorer(package, compiled_engine(package.schema, compiled))
    found: dict[str, Contender] = {
        "Booster.predict, NumPy": lambda: booster.predict(rows, num_threads=1),
        "booster.predict, Polars": lambda: predict(booster, frame),
        "C": lambda: compiled.score(rows),
        "C, from Polars": lambda: compiled.score_frame(frame),
        "onnxruntime": lambda: session.run([onnx.OUTPUT], {onnx.INPUT: rows}),
        "Scorer.rank on LightGBM": lambda: by_lightgbm.rank(levels, top=10),
        "Scorer.rank on C": lambda: by_c.rank(levels, top=10),
    }
    return found | treelite_contender(text, rows, folder)


def treelite_contender(text: str, rows: np.ndarray, folder: Path) -> dict[str, Contender]:
    if not (find_spec("treelite") and find_spec("tl2cgen")):
        return {}
    import tl2cgen
    import treelite

    (folder / "model.txt").write_text(text)
    model = treelite.frontend.load_lightgbm_model(folder / "model.txt")
    library = folder / "treelite.so"
    tl2cgen.export_lib(model, toolchain="gcc", libpath=library, params={"parallel_comp": 8})
    predictor, batch = tl2cgen.Predictor(library, nthread=1), tl2cgen.DMatrix(rows)
    return {"treelite (tl2cgen)": lambda: predictor.predict(batch)}


@dataclass
class Times:
    """Milliseconds of each turn: by the clock, and of processor time of the whole process."""

    clock: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)


def time_in_turns(all_of_them: dict[str, Contender], turns: int) -> dict[str, Times]:
    times = {name: Times() for name in all_of_them}
    for turn in range(turns + 5):
        for name, run in all_of_them.items():
            start, start_processor = time.perf_counter(), time.process_time()
            run()
            spent, spent_processor = time.perf_counter() - start, time.process_time() - start_processor
            if turn >= 5:
                times[name].clock.append(1e3 * spent)
                times[name].processor.append(1e3 * spent_processor)
    return times


def show_latency(times: dict[str, Times]) -> None:
    middle = {name: np.median(each.processor) for name, each in times.items()}
    print("| | p50 ms | p99 ms | processor ms | times faster than Booster.predict |\n|---|---|---|---|---|")
    for name, each in times.items():
        p50, p99 = np.quantile(each.clock, [0.5, 0.99])
        ratio = middle["Booster.predict, NumPy"] / middle[name]
        print(f"| {name} | {p50:.3f} | {p99:.3f} | {middle[name]:.3f} | {ratio:.1f} |")


def show_overhead(all_of_them: dict[str, Contender], turns: int) -> None:
    """What `Scorer.rank` adds, in turns with nothing but its engine, as in a server that does nothing else."""
    for name, engine in (("LightGBM", "booster.predict, Polars"), ("C", "C, from Polars")):
        pair = time_in_turns({key: all_of_them[key] for key in (engine, f"Scorer.rank on {name}")}, turns)
        alone, ranked = (np.median(each.processor) for each in pair.values())
        print(f"Scorer.rank on {name}: {ranked - alone:.3f} ms of processor time over its engine ({alone:.3f} ms)")


def show_throughput(text: str, x: np.ndarray, many: int, *, category: bool) -> None:
    rows = np.resize(x, (many, FEATURES)).astype(np.float64)
    compiled, booster = CompiledModel.build(parse_model(text)), load_model(text)
    for name, run in (("C", compiled.score), ("Booster.predict", partial(booster.predict, num_threads=1))):
        start = time.process_time()
        scores = run(rows)
        seconds = time.process_time() - start
        print(f"{name}: {many:,} rows in {seconds:.2f} s of processor time, {many / seconds:,.0f} rows/s")
        print(f"    sum of scores {scores.sum()!r}")


def show_compilation(text: str) -> None:
    forest = parse_model(text)
    copies = -(-NODES // forest.nodes)
    large = replace(forest, trees=forest.trees * copies)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        start = time.perf_counter()
        write_sources(folder, large, large.names, "")
        written = time.perf_counter()
        compile_library(folder / SOURCE, folder / "model.so")
        done = time.perf_counter()
        size = (folder / SOURCE).stat().st_size
    print(
        f"{large.nodes:,} nodes: written in {written - start:.1f} s, {size:,} bytes; compiled in {done - written:.1f} s"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for option, value in {
        "trees": 300,
        "leaves": 63,
        "rows": 200,
        "turns": 300,
        "many": 1_000_000,
        "train": 20_000,
    }.items():
        parser.add_argument(f"--{option}", type=int, default=value)
    given = parser.parse_args()
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, LightGBM {lightgbm.__version__}")
    for category in (False, True):
        text, x = make_text(given.trees, given.leaves, given.train, category=category)
        nodes = parse_model(text).nodes
        print(f"\n{given.trees} trees, {nodes} splits, {given.rows} rows, {'a' if category else 'no'} category feature")
        with tempfile.TemporaryDirectory() as folder:
            racing = contenders(text, x[: given.rows], Path(folder), category=category)
            show_latency(time_in_turns(racing, given.turns))
            show_overhead(racing, given.turns)
        show_throughput(text, x, given.many, category=category)
    show_compilation(text)


if __name__ == "__main__":
    main()
