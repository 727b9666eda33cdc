"""The standard features of a simulated log, beside DuckDB and pandas: time, memory, and whether the values agree.

    python tests/benchmarks/point_in_time.py --events 10000000 --repeats 3 [--folder DIR]

Needs duckdb, pandas and pyarrow, which the project itself does not: install them into a scratch environment.
A shop is simulated, read, and its queries and candidates (about ten shown items a query) are laid down as Parquet once,
as are the fitted features. Every turn is a process of its own per contender, which loads these tables, and then builds
the features named in STANDARD, with two threads: ours by `build_table`; DuckDB by cumulative counts and ASOF joins, ids
turned into integers first (on strings it took a quarter longer, with RANGE frames and with a union of events and
questions two to five times as long); pandas on a log of a tenth, in two ways: as it is mostly written, a cumcount and
a merge_asof per feature on the ids as they are; and as well as we can, ids numbered, all kinds of events in one merge
per entity and window.
The first turn compares all values with ours, counts exactly, and stops where they differ. Ratios are medians over the
turns. Memory: `peak` is the largest resident set of the process while it builds, libraries and inputs included, `grown`
the same less what was resident before.
"""

# ruff: noqa: S608
from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import polars as pl

KINDS = ("impression", "click", "purchase")
RATED = ("click", "purchase")
WINDOWS = (7, 30)
COUNTS = tuple(f"{kind}_count{suffix}" for kind in KINDS for suffix in ("", "_7d", "_30d"))
RATES = tuple(f"{kind}_rate{suffix}" for kind in RATED for suffix in ("", "_7d", "_30d"))
STANDARD = (
    *(f"item.{name}" for name in (*COUNTS, *RATES, "days_since_last")),
    *(f"user.{name}" for name in (*COUNTS, "click_rate", "days_since_last")),
    "cross.user_item_impression_count",
    "cross.user_item_click_count",
    "cross.user_item_days_since_last",
    "cross.user_category_impression_share",
    "cross.user_category_click_share",
    "query.price_rank",
    "query.price_z",
)
TABLES = ("events", "queries", "candidates", "items")
TENTH = 10
DAY = 86_400 * 10**6
TOLERANCE = 1e-6


def prepare(folder: Path, events: int) -> None:
    """Simulate, read and fit; everything that the contenders load."""
    from features.candidates import shown_candidates
    from features.catalogues import read_items, read_queries
    from features.events import read_events
    from features.fitted import fit_features
    from features.log import make_log
    from features.queries import queries_by_id
    from features.table import build_table
    from pipeline.simulate import simulate

    shop = folder / "shop"
    simulate("shop", events, shop, overwrite=True)
    items, table = read_items(shop / "items.parquet"), read_queries(shop / "queries.parquet")
    log = make_log(read_events(shop / "events.parquet").events, items=items, shown="impression")
    queries = queries_by_id(log.events, table)
    candidates = shown_candidates(queries, "impression").frame
    fitted = fit_features(log, queries.frame, candidates, pool="shown", use=STANDARD)
    few = queries.frame.head(100)
    build_table(log, few, candidates, fitted)  # what Numba compiles is on disk from here on
    for name, frame in zip(TABLES, (log.events, queries.frame, candidates, log.items), strict=True):
        frame.write_parquet(folder / f"{name}.parquet", compression="lz4")
    (folder / "fitted.json").write_text(json.dumps(fitted.to_dict()))


def priors(folder: Path) -> tuple[dict[str, float], float]:
    from features.activity import PRIOR_WEIGHT

    return json.loads((folder / "fitted.json").read_text())["rates"], PRIOR_WEIGHT


class Ours:
    def __init__(self, folder: Path) -> None:
        from features.fitted import Fitted
        from features.log import make_log

        events, self.queries, self.candidates, items = (pl.read_parquet(folder / f"{name}.parquet") for name in TABLES)
        self.log = make_log(events, items=items, shown="impression")
        self.fitted = Fitted.from_dict(json.loads((folder / "fitted.json").read_text()))

    def build(self) -> None:
        from features.table import build_table

        self.frame = build_table(self.log, self.queries, self.candidates, self.fitted).frame

    def write(self, path: Path) -> None:
        self.frame.select("query", "item", *STANDARD).sort("query", "item").write_parquet(path, compression="lz4")

    def about(self) -> dict[str, Any]:
        """Polars' own sizes, which count the letters of strings and not their views of 16 bytes."""
        events = self.log.events
        return {
            "rows": self.frame.height,
            "bytes": events.estimated_size() + self.frame.estimated_size(),
            "types": f"events {types(events)}; output {types(self.frame)}",
        }


def types(frame: pl.DataFrame) -> str:
    names = [str(dtype).partition("(")[0] for dtype in frame.dtypes]
    return f"{frame.estimated_size() / 1e6:,.0f} MB of " + ", ".join(
        f"{names.count(name)} {name}" for name in dict.fromkeys(names)
    )


class DuckDB:
    def __init__(self, folder: Path) -> None:
        import duckdb

        self.run = duckdb.connect().execute
        self.rates, self.weight = priors(folder)
        for setting in ("threads = 2", "preserve_insertion_order = false", "timezone = 'UTC'"):
            self.run(f"SET {setting}")
        for name in TABLES:
            self.run(f"CREATE TABLE {name} AS SELECT * FROM read_parquet('{folder / name}.parquet')")

    def build(self) -> None:
        self._number_ids()
        self._cumulate("of_item", "item")
        self._cumulate("of_user", "usr")
        self._cumulate("of_pair", "usr, item")
        self._cumulate("of_category", "usr, category")
        self._compare_prices()
        self._ask("at_user", "query", "asked_users", "of_user", ["usr"], WINDOWS)
        self._ask("at_category", "query, category", "asked_categories", "of_category", ["usr", "category"])
        self._ask("at_pair", "query, item", "asked_pairs", "of_pair", ["usr", "item"])
        kept = "query, name, item, usr, timestamp, category, price_rank, price_z"
        self._ask("at_item", kept, "asked", "of_item", ["item"], WINDOWS)
        self._finish()

    def _number_ids(self) -> None:
        """Small integers for the ids, and the category of each item, in events and questions alike."""
        self.run("""CREATE TABLE item_ids AS SELECT name, (row_number() OVER ())::INT AS item, category FROM
            (SELECT DISTINCT item AS name FROM events UNION SELECT DISTINCT item FROM candidates)
            LEFT JOIN (SELECT item AS name, dense_rank() OVER (ORDER BY category)::INT AS category FROM items
                WHERE category IS NOT NULL) USING (name)""")
        self.run("""CREATE TABLE user_ids AS SELECT name, (row_number() OVER ())::INT AS usr FROM
            (SELECT DISTINCT "user" AS name FROM events UNION SELECT DISTINCT "user" FROM queries)
            WHERE name IS NOT NULL""")
        self.run("""CREATE TABLE log AS SELECT i.item, u.usr, i.category, timestamp, event FROM events e
            JOIN item_ids i ON e.item = i.name LEFT JOIN user_ids u ON e."user" = u.name""")
        self.run("""CREATE TABLE asked_users AS SELECT query, usr, timestamp FROM queries q
            LEFT JOIN user_ids u ON q."user" = u.name""")

    def _cumulate(self, table: str, keys: str) -> None:
        """Counts up to and with each event; the default frame of a window takes in all of the same time."""
        counts = ", ".join(f"(count(*) FILTER (event = '{kind}') OVER w)::INT AS {kind}" for kind in KINDS)
        known = " AND ".join(f"{key} IS NOT NULL" for key in keys.split(", "))
        self.run(f"""CREATE TABLE {table} AS SELECT {keys}, timestamp, {counts} FROM log WHERE {known}
            WINDOW w AS (PARTITION BY {keys} ORDER BY timestamp)""")

    def _compare_prices(self) -> None:
        """The average rank of equal prices, from 1, and the distance from the mean in standard deviations."""
        self.run("""CREATE TABLE asked AS WITH
            spread AS (SELECT query, avg(price) AS mean, stddev_pop(price) AS sd FROM candidates GROUP BY query),
            ranked AS (SELECT query, item AS name, price, rank() OVER (PARTITION BY query ORDER BY price) + (count(*)
                OVER (PARTITION BY query ORDER BY price RANGE BETWEEN CURRENT ROW AND CURRENT ROW) - 1) / 2.0 AS rank
                FROM candidates)
            SELECT query, name, i.item, usr, timestamp, i.category, rank::FLOAT AS price_rank,
                CASE WHEN sd > 0 THEN (price - mean) / sd ELSE 0 END::FLOAT AS price_z
            FROM ranked JOIN spread USING (query) JOIN asked_users USING (query) JOIN item_ids i USING (name)""")
        self.run("CREATE VIEW asked_pairs AS SELECT * FROM asked WHERE usr IS NOT NULL")
        self.run("""CREATE VIEW asked_categories AS SELECT DISTINCT query, usr, category, timestamp FROM asked
            WHERE usr IS NOT NULL AND category IS NOT NULL""")

    def _ask(self, table: str, kept: str, asked: str, of: str, keys: list[str], windows: tuple[int, ...] = ()) -> None:
        """The last row of `of` before the time of each question, and before the beginning of each window."""
        columns, joins = [f"a.{name}" for name in kept.split(", ")] + ["e0.timestamp AS last"], []
        for days in (0, *windows):
            columns += [f"coalesce(e{days}.{kind}, 0) AS {kind}_{days}" for kind in KINDS]
            same = " AND ".join(f"a.{key} = e{days}.{key}" for key in keys)
            late = f"a.timestamp - INTERVAL {days} DAY" if days else "a.timestamp"
            joins.append(f"ASOF LEFT JOIN {of} e{days} ON {same} AND {late} > e{days}.timestamp")
        self.run(f"CREATE TABLE {table} AS SELECT {', '.join(columns)} FROM {asked} a {' '.join(joins)}")

    def _finish(self) -> None:
        columns = ", ".join(f'({self._expression(name)})::FLOAT AS "{name}"' for name in STANDARD)
        self.run(f"""CREATE TABLE result AS SELECT i.query, i.name AS item, {columns} FROM at_item i
            JOIN at_user u USING (query) LEFT JOIN at_pair p ON i.query = p.query AND i.item = p.item
            LEFT JOIN at_category c ON i.query = c.query AND i.category = c.category""")

    def _expression(self, name: str) -> str:
        family, _, what = name.partition(".")
        if family == "query":
            return f"i.{what}"
        if family == "cross":
            return self._cross_expression(what)
        table = family[0]
        value = self._activity_expression(table, what)
        return value if table == "i" else f"CASE WHEN i.usr IS NOT NULL THEN {value} END"

    def _activity_expression(self, table: str, what: str) -> str:
        kind, _, rest = what.partition("_")
        if what == "days_since_last":
            return f"(epoch_us(i.timestamp) - epoch_us({table}.last)) / {DAY}.0"
        days = rest.partition("_")[2].removesuffix("d")
        if rest.startswith("count"):
            return count(table, kind, days)
        done = f"{count(table, kind, days)} + {self.weight * self.rates[kind]!r}::DOUBLE"
        return f"({done}) / ({count(table, 'impression', days)} + {self.weight})"

    @staticmethod
    def _cross_expression(what: str) -> str:
        if what == "user_item_days_since_last":
            return f"(epoch_us(i.timestamp) - epoch_us(p.last)) / {DAY}.0"
        kind = what.split("_")[2]
        if what.endswith("count"):
            return f"p.{kind}_0"
        return f"CASE WHEN u.{kind}_0 > 0 THEN c.{kind}_0 / u.{kind}_0 END"

    def write(self, path: Path) -> None:
        self.run(f"COPY (SELECT * FROM result ORDER BY query, item) TO '{path}' (FORMAT parquet)")

    def about(self) -> dict[str, Any]:
        return {"rows": self.run("SELECT count(*) FROM result").fetchone()[0]}


def count(table: str, kind: str, days: str) -> str:
    return f"{table}.{kind}_0 - {table}.{kind}_{days}" if days else f"{table}.{kind}_0"


class Pandas:
    def __init__(self, folder: Path) -> None:
        import pandas

        self.pandas = pandas
        self.rates, self.weight = priors(folder)
        self.events, self.queries, self.candidates, self.items = (
            pandas.read_parquet(folder / f"{name}.parquet") for name in TABLES
        )

    def build(self) -> None:
        self._number_ids()
        asked, queries = self.asked, self.asked_queries
        category = asked[["query", "usr", "category", "timestamp"]].drop_duplicates(["query", "category"])
        of_item = self._ask(asked, ["item"], WINDOWS)
        of_user = self._ask(queries, ["usr"], WINDOWS).take(asked["query_row"].to_numpy()).reset_index(drop=True)
        of_pair = self._ask(asked, ["usr", "item"])
        of_category = self._ask(category, ["usr", "category"])
        keys = category[["query", "category"]].reset_index(drop=True)
        same = asked[["query", "category"]].merge(keys.join(of_category), on=["query", "category"], how="left")
        prices = asked.groupby("query", sort=False)["price"]
        spread = prices.transform("std", ddof=0)
        z = (asked["price"] - prices.transform("mean")) / spread.where(spread > 0)
        known = asked["usr"] >= 0
        columns = {f"item.{name}": values for name, values in self._activity(of_item, asked).items()}
        columns |= {f"user.{name}": values.where(known) for name, values in self._activity(of_user, asked).items()}
        columns["cross.user_item_days_since_last"] = ((asked["timestamp"] - of_pair["last"]) / DAY).where(known)
        for kind in ("impression", "click"):
            every = of_user[f"{kind}_0"]
            columns[f"cross.user_item_{kind}_count"] = of_pair[f"{kind}_0"].where(known)
            columns[f"cross.user_category_{kind}_share"] = (same[f"{kind}_0"] / every.where(every > 0)).where(known)
        columns |= {"query.price_rank": prices.rank("average"), "query.price_z": z.fillna(0.0)}
        result = {name: columns[name].astype("float32") for name in STANDARD}
        self.result = self.pandas.DataFrame({"query": asked["query"], "item": asked["name"], **result})

    def _number_ids(self) -> None:
        """Small integers for the ids, -1 for none, and times as integers, in events and questions alike."""
        pandas, events, queries = self.pandas, self.events, self.queries
        asked = self.candidates[["query", "item", "price"]].rename(columns={"item": "name"})
        items, names = pandas.factorize(pandas.concat([events["item"], asked["name"]], ignore_index=True))
        users, _ = pandas.factorize(pandas.concat([events["user"], queries["user"]], ignore_index=True))
        levels, _ = pandas.factorize(self.items.set_index("item")["category"].reindex(names))
        log = pandas.DataFrame({"item": items[: len(events)], "usr": users[: len(events)]})
        log["category"], log["timestamp"] = levels[log["item"]], microseconds(events["timestamp"])
        self.log = log.assign(**{kind: (events["event"] == kind).to_numpy(np.int32) for kind in KINDS})
        self.asked_queries = pandas.DataFrame(
            {"query": queries["query"], "usr": users[len(events) :], "timestamp": microseconds(queries["timestamp"])}
        )
        row = pandas.Index(queries["query"]).get_indexer(asked["query"])
        asked["item"], asked["query_row"] = items[len(events) :], row
        asked["usr"], asked["category"] = users[len(events) :][row], levels[asked["item"]]
        asked["timestamp"] = self.asked_queries["timestamp"].to_numpy()[row]
        self.asked = asked.sort_values("timestamp", kind="stable", ignore_index=True)

    def _ask(self, asked: Any, keys: list[str], windows: tuple[int, ...] = ()) -> Any:
        """Cumulative counts per entity, and the last of them before each question and each window."""
        key, wanted = self._entities(asked, keys)
        counts = self.log[list(KINDS)].groupby(key, sort=False).cumsum()
        table = counts.assign(key=key, timestamp=self.log["timestamp"], last=self.log["timestamp"])
        parts = []
        for days in (0, *windows):
            left = self.pandas.DataFrame({"key": wanted, "timestamp": asked["timestamp"].to_numpy() - days * DAY})
            right = table if days == 0 else table.drop(columns="last")
            found = self.pandas.merge_asof(left, right, on="timestamp", by="key", allow_exact_matches=False)
            part = found.drop(columns=["key", "timestamp"])
            parts.append(part.rename(columns={kind: f"{kind}_{days}" for kind in KINDS}))
        result = self.pandas.concat(parts, axis=1)
        counted = [name for name in result.columns if name != "last"]
        result[counted] = result[counted].fillna(0)
        return result

    def _entities(self, asked: Any, keys: list[str]) -> tuple[np.ndarray, np.ndarray]:
        """One number per entity, of the events and of the questions."""
        key, wanted = self.log[keys[0]].to_numpy(np.int64), asked[keys[0]].to_numpy(np.int64)
        for other in keys[1:]:
            width = int(self.log[other].max()) + 2
            key = key * width + self.log[other].to_numpy()
            wanted = wanted * width + asked[other].to_numpy()
        return key, wanted

    def _activity(self, of: Any, asked: Any) -> dict[str, Any]:
        counts = {f"{kind}_count": of[f"{kind}_0"] for kind in KINDS}
        for days in WINDOWS:
            counts |= {f"{kind}_count_{days}d": of[f"{kind}_0"] - of[f"{kind}_{days}"] for kind in KINDS}
        rates = {}
        for name in RATES:
            kind = name.partition("_")[0]
            done, shown = (
                counts[name.replace("rate", "count")],
                counts[name.replace(f"{kind}_rate", "impression_count")],
            )
            rates[name] = (done + self.weight * self.rates[kind]) / (shown + self.weight)
        return counts | rates | {"days_since_last": (asked["timestamp"] - of["last"]) / DAY}

    def write(self, path: Path) -> None:
        pl.from_pandas(self.result, nan_to_null=True).sort("query", "item").write_parquet(path)

    def about(self) -> dict[str, Any]:
        return {"rows": len(self.result)}


class PandasByFeature(Pandas):
    """As it is mostly written: per count the events of its kind, numbered per entity, and merged as of the question."""

    def _ask(self, asked: Any, keys: list[str], windows: tuple[int, ...] = ()) -> Any:
        log, by = (frame[[*keys, "timestamp"]] for frame in (self.log, asked))
        found = {}
        for kind in KINDS:
            of_kind = log[self.log[kind] == 1]
            table = of_kind.assign(count=of_kind.groupby(keys, sort=False).cumcount() + 1)
            for days in (0, *windows):
                merged = self._merge(table, by, keys, days)
                found[f"{kind}_{days}"] = merged["count"].fillna(0)
        last = self._merge(log.assign(last=log["timestamp"]), by, keys, 0)["last"]
        return self.pandas.DataFrame({**found, "last": last})

    def _merge(self, table: Any, asked: Any, keys: list[str], days: int) -> Any:
        shifted = asked.assign(timestamp=asked["timestamp"] - days * DAY)
        return self.pandas.merge_asof(shifted, table, on="timestamp", by=keys, allow_exact_matches=False)


def microseconds(times: Any) -> np.ndarray:
    return times.dt.as_unit("us").astype("int64").to_numpy()


CONTENDERS: dict[str, Callable[[Path], Ours | DuckDB | Pandas]] = {
    "ours": Ours,
    "DuckDB": DuckDB,
    "pandas": PandasByFeature,
    "pandas, tuned": Pandas,
}
ON_A_TENTH = ("pandas", "pandas, tuned")


def resident(field: str) -> int:
    """Bytes: VmRSS now, VmHWM at most since it was reset."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))


def build_one(name: str, folder: Path, values: Path | None) -> dict[str, Any]:
    contender = CONTENDERS[name](folder)
    Path("/proc/self/clear_refs").write_text("5")
    before, start, used = resident("VmRSS"), time.perf_counter(), time.process_time()
    contender.build()
    found = {"seconds": time.perf_counter() - start, "processor": time.process_time() - used}
    found |= {"peak": resident("VmHWM"), "grown": resident("VmHWM") - before}
    if values is not None:
        contender.write(values)
    return found | contender.about()


def in_process(*arguments: str) -> str:
    environment = {**os.environ, "POLARS_MAX_THREADS": "2"}
    code = [sys.executable, "-m", "tests.benchmarks.point_in_time", *arguments]
    return subprocess.run(code, check=True, stdout=subprocess.PIPE, text=True, env=environment).stdout


def measure(name: str, folder: Path, compare: bool) -> dict[str, Any]:
    values = [str(folder / f"{name}.values")] if compare else []
    return json.loads(in_process("--one", name, str(folder), *values))  # type: ignore[no-any-return]


def compare_values(folder: Path, other: str) -> None:
    """Stop where a value is not ours: counts must be equal, everything else up to a relative error of TOLERANCE."""
    paths = [folder / f"{name}.values" for name in ("ours", other)]
    keys = [pl.read_parquet(path, columns=["query", "item"]) for path in paths]
    if not keys[0].equals(keys[1]):
        sys.exit(f"{other} has other rows than ours")
    for name in STANDARD:
        mine, theirs = (pl.read_parquet(path, columns=[name])[name] for path in paths)
        a, b = (column.cast(pl.Float64).to_numpy() for column in (mine, theirs))
        exact = name.endswith(("count", "_7d", "_30d", "_rank")) and "rate" not in name
        slack = 0.0 if exact else TOLERANCE
        wrong = ~np.isclose(a, b, rtol=slack, atol=slack if name.endswith("_z") else 0.0, equal_nan=True)
        if wrong.any():
            place = int(wrong.argmax())
            sys.exit(f"{other}: {wrong.sum()} values of {name} differ, first {a[place]!r} (ours) and {b[place]!r}")
    print(f"{other}: {len(STANDARD)} x {keys[0].height:,} values agree with ours")


def run_turns(full: Path, tenth: Path, repeats: int) -> dict[str, list[dict[str, Any]]]:
    runs: dict[str, list[dict[str, Any]]] = {name: [] for name in CONTENDERS}
    for turn in range(repeats):
        for name in CONTENDERS:
            runs[name].append(measure(name, tenth if name in ON_A_TENTH else full, compare=turn == 0))
            shown = {key: round(value, 1) for key, value in runs[name][-1].items() if key in ("seconds", "processor")}
            print(f"turn {turn + 1}, {name}: {shown}", flush=True)
        if turn == 0:
            measure("ours", tenth, compare=True)
            compare_values(full, "DuckDB")
            for name in ON_A_TENTH:
                compare_values(tenth, name)
    return runs


def print_table(runs: dict[str, list[dict[str, Any]]]) -> None:
    size = runs["ours"][0]["bytes"]
    print(f"\n{len(STANDARD)} features; {runs['ours'][0]['types']}")
    print(f"{'':14}{'rows':>12}{'seconds':>9}{'M values/s':>12}{'processor':>11}{'peak GB':>9}{'grown GB':>10}")
    for name, turns in runs.items():
        rows = turns[0]["rows"]
        seconds, processor, peak, grown = (
            median(turn[key] for turn in turns) for key in ("seconds", "processor", "peak", "grown")
        )
        speed = rows * len(STANDARD) / seconds / 1e6
        print(f"{name:14}{rows:12,}{seconds:9.1f}{speed:12.2f}{processor:11.1f}{peak / 1e9:9.2f}{grown / 1e9:10.2f}")
    for name in ("DuckDB", *ON_A_TENTH):
        for key in ("seconds", "processor"):
            ratio = median(
                theirs[key] / theirs["rows"] / (mine[key] / mine["rows"])
                for mine, theirs in zip(runs["ours"], runs[name], strict=True)
            )
            print(f"times {name}, {key} per row: {ratio:.1f}")
    peak, grown = (median(turn[key] for turn in runs["ours"]) / size for key in ("peak", "grown"))
    print(f"our memory over (events + output): peak {peak:.2f}, grown {grown:.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=10_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="where the tables are made, or found; default: a temporary place")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        parts = {folder / "full": options.events, folder / "tenth": options.events // TENTH}
        for part, events in parts.items():
            if not (part / "fitted.json").exists():
                part.mkdir(parents=True, exist_ok=True)
                in_process("--prepare", str(part), str(events))
        print_table(run_turns(*parts, options.repeats))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--prepare"]:
        prepare(Path(sys.argv[2]), int(sys.argv[3]))
    elif sys.argv[1:2] == ["--one"]:
        print(json.dumps(build_one(sys.argv[2], Path(sys.argv[3]), Path(sys.argv[4]) if sys.argv[4:] else None)))
    else:
        main()
