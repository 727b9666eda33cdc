"""Ranking metrics: one value per query, every convention explicit. NumPy and Numba only.

Means, strata and intervals are made from these values by `pipeline.reductions`.
"""

from pipeline.metrics.conventions import PRESETS, Convention, discount_values, gain_values
from pipeline.metrics.ndcg import cg_per_query, dcg_per_query, ndcg, ndcg_of_items, ndcg_per_query

__all__ = [
    "PRESETS",
    "Convention",
    "cg_per_query",
    "dcg_per_query",
    "discount_values",
    "gain_values",
    "ndcg",
    "ndcg_of_items",
    "ndcg_per_query",
]
