"""Ranking metrics: one value per query, every convention explicit. NumPy and Numba only.

Means, strata and intervals are made from these values by `pipeline.reductions`.
"""

from pipeline.metrics.bounds import Bounds, ndcg_bounds
from pipeline.metrics.conventions import PRESETS, Convention, discount_values, gain_values
from pipeline.metrics.diversity import (
    alpha_ndcg_per_query,
    category_diversity_per_query,
    coverage,
    ndcg_by_popularity,
    ndcg_by_stratum,
    novelty_per_query,
    personalisation,
    popularity_bias_per_query,
    vector_diversity_per_query,
)
from pipeline.metrics.measures import (
    auc_per_query,
    average_precision_per_query,
    err_per_query,
    hit_rate_per_query,
    judged_per_query,
    nerr_per_query,
    pooled_auc,
    precision_per_query,
    rbp_per_query,
    recall_per_query,
    reciprocal_rank_per_query,
    value_per_query,
)
from pipeline.metrics.ndcg import cg_per_query, dcg_per_query, ndcg, ndcg_of_items, ndcg_per_query

__all__ = [
    "PRESETS",
    "Bounds",
    "Convention",
    "alpha_ndcg_per_query",
    "auc_per_query",
    "average_precision_per_query",
    "category_diversity_per_query",
    "cg_per_query",
    "coverage",
    "dcg_per_query",
    "discount_values",
    "err_per_query",
    "gain_values",
    "hit_rate_per_query",
    "judged_per_query",
    "ndcg",
    "ndcg_bounds",
    "ndcg_by_popularity",
    "ndcg_by_stratum",
    "ndcg_of_items",
    "ndcg_per_query",
    "nerr_per_query",
    "novelty_per_query",
    "personalisation",
    "pooled_auc",
    "popularity_bias_per_query",
    "precision_per_query",
    "rbp_per_query",
    "recall_per_query",
    "reciprocal_rank_per_query",
    "value_per_query",
    "vector_diversity_per_query",
]
