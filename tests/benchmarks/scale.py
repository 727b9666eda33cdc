"""Feature tables of logs larger than memory: the curve of time and peak memory over the number of events.

python tests/benchmarks/scale.py [MILLIONS ...] [--limit 6GiB]      (default 1 3 10 30 100; 100 takes 25 GB of disk)

Each log is simulated (a query shows about ten items), then made into tables by `rankloom features` in a process of its
own. Peak memory is the largest resident set that the kernel saw, mapped files included; nothing else of it is counted.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

USE = ["item.*_count", "item.*_rate", "item.days_since_last", "item.days_since_first", "item.category", "item.price"]
USE += ["user.*_count", "user.days_since_last", "cross.user_item_*_count", "cross.user_item_days_since_last"]
USE += ["query.hour", "query.weekday", "query.candidates", "query.price_rank", "shown.*"]
CONFIG = """
[data]
events = "{log}/events.parquet"
items = "{log}/items.parquet"
users = "{log}/users.parquet"
queries = "{log}/queries.parquet"
shown = "impression"
[relevance]
tiers = {{ purchase = 3, cart = 2, click = 1 }}
window = "2d"
[features]
use = {use}
drop = ["item.user_count", "user.item_count"]
[memory]
limit = "{limit}"
"""


def run(*arguments: str) -> tuple[float, float, float, str]:
    """Seconds on the clock, seconds of processor, peak MiB, and what a `rankloom` process said."""
    start = time.perf_counter()
    with tempfile.TemporaryFile("w+") as said:
        code = [sys.executable, "-m", "pipeline", *arguments]
        process = subprocess.Popen(code, stdout=said, stderr=subprocess.STDOUT)
        _, status, used = os.wait4(process.pid, 0)
        said.seek(0)
        text = said.read()
    if status:
        raise SystemExit(text)
    return time.perf_counter() - start, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, text


def measure(millions: float, limit: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        run("simulate", "shop", "--events", str(int(millions * 10**6)), "--out", str(log))
        config = Path(folder) / "shop.toml"
        config.write_text(CONFIG.format(log=log, use=USE, limit=limit))
        seconds, processor, peak, text = run("features", str(config), "--out", str(Path(folder) / "tables"))
        parts = [line for line in text.splitlines() if " rows, " in line]
        how = "in blocks" if "worked in blocks" in text else "in memory"
        print(f"{millions:g} M events {how}: {seconds:.0f} s ({processor:.0f} s of processor), peak {peak:.0f} MiB")
        print("   " + "; ".join(parts), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("millions", nargs="*", type=float, default=[1, 3, 10, 30, 100])
    parser.add_argument("--limit", default="6GiB")
    chosen = parser.parse_args()
    for number in chosen.millions:
        measure(number, chosen.limit)
