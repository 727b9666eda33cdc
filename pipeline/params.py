"""Which of LightGBM's parameters a ranking run may set, checked before LightGBM sees them.

LightGBM accepts any key and ignores what does not apply, so a mistyped `num_leafs` trains with the default in silence.
Here a parameter is taken if it changes the model that this run makes; every other one is refused with the reason.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

ALIASES: dict[str, tuple[str, ...]] = {
    "learning_rate": ("eta", "shrinkage_rate"),
    "num_leaves": ("max_leaf", "num_leaf", "max_leaves", "max_leaf_nodes"),
    "max_depth": (),
    "min_data_in_leaf": ("min_data", "min_samples_leaf", "min_child_samples", "min_data_per_leaf"),
    "min_sum_hessian_in_leaf": ("min_hessian", "min_sum_hessian", "min_child_weight", "min_sum_hessian_per_leaf"),
    "min_gain_to_split": ("min_split_gain",),
    "lambda_l1": ("reg_alpha", "l1_regularization"),
    "lambda_l2": ("lambda", "reg_lambda", "l2_regularization"),
    "max_delta_step": ("max_leaf_output", "max_tree_output"),
    "path_smooth": (),
    "extra_trees": ("extra_tree",),
    "boosting": ("boost", "boosting_type"),
    "data_sample_strategy": (),
    "bagging_fraction": ("bagging", "sub_row", "subsample"),
    "bagging_freq": ("subsample_freq",),
    "bagging_by_query": (),
    "top_rate": (),
    "other_rate": (),
    "drop_rate": ("rate_drop",),
    "max_drop": (),
    "skip_drop": (),
    "uniform_drop": (),
    "xgboost_dart_mode": (),
    "feature_fraction": ("sub_feature", "colsample_bytree"),
    "feature_fraction_bynode": ("colsample_bynode", "sub_feature_bynode"),
    "feature_contri": ("fc", "fp", "feature_contrib", "feature_penalty"),
    "max_bin": ("max_bins",),
    "min_data_in_bin": (),
    "bin_construct_sample_cnt": ("subsample_for_bin",),
    "enable_bundle": ("bundle", "is_enable_bundle"),
    "use_missing": (),
    "zero_as_missing": (),
    "max_cat_threshold": (),
    "max_cat_to_onehot": (),
    "cat_l2": (),
    "cat_smooth": (),
    "min_data_per_group": (),
    "use_quantized_grad": (),
    "num_grad_quant_bins": (),
    "quant_train_renew_leaf": (),
    "stochastic_rounding": (),
    "lambdarank_truncation_level": (),
    "lambdarank_norm": (),
    "sigmoid": (),
    "lambdarank_position_bias_regularization": (),
}
"""Parameters that a config may set in `[train] params`, with LightGBM's other names for each."""

ELSEWHERE: dict[str, str] = {
    "objective": "set [train] objective",
    "num_iterations": "set [train] rounds",
    "early_stopping_round": "set [train] early_stopping",
    "num_threads": "set [train] threads",
    "seed": "set seed at the top of the config",
    "bagging_seed": "set seed at the top of the config",
    "feature_fraction_seed": "set seed at the top of the config",
    "drop_seed": "set seed at the top of the config",
    "extra_seed": "set seed at the top of the config",
    "objective_seed": "set seed at the top of the config",
    "data_random_seed": "set seed at the top of the config",
    "label_gain": "set [train] gain",
    "eval_at": "set k",
    "metric": "leave it out: a ranking run always watches ndcg at [train] k",
    "deterministic": "leave it out: every run is deterministic",
    "force_row_wise": "leave it out: every run is deterministic and row-wise",
    "force_col_wise": "leave it out: every run is deterministic and row-wise",
    "categorical_feature": "set [features] categories",
    "group_column": "name the query column in [data] columns",
    "label_column": "name the relevance column in [data] columns",
    "weight_column": "leave it out: queries are not weighted",
    "linear_tree": "leave it out: LightGBM cannot explain linear leaves, and every run's report explains its model",
    "linear_lambda": "leave it out, like linear_tree",
    "verbosity": "leave it out: the run prints its own progress",
}
"""Parameters that a run sets by itself, and where a user says it."""

NEEDS: dict[str, tuple[str, Any, str]] = {
    "bagging_fraction": ("bagging_freq", 0, "set bagging_freq = 1 beside it"),
    "bagging_by_query": ("bagging_freq", 0, "set bagging_freq = 1 and bagging_fraction beside it"),
    "top_rate": ("data_sample_strategy", "bagging", 'set data_sample_strategy = "goss" beside it'),
    "other_rate": ("data_sample_strategy", "bagging", 'set data_sample_strategy = "goss" beside it'),
    "drop_rate": ("boosting", "gbdt", 'set boosting = "dart" beside it'),
    "max_drop": ("boosting", "gbdt", 'set boosting = "dart" beside it'),
    "skip_drop": ("boosting", "gbdt", 'set boosting = "dart" beside it'),
    "uniform_drop": ("boosting", "gbdt", 'set boosting = "dart" beside it'),
    "xgboost_dart_mode": ("boosting", "gbdt", 'set boosting = "dart" beside it'),
    "num_grad_quant_bins": ("use_quantized_grad", False, "set use_quantized_grad = true beside it"),
    "quant_train_renew_leaf": ("use_quantized_grad", False, "set use_quantized_grad = true beside it"),
    "stochastic_rounding": ("use_quantized_grad", False, "set use_quantized_grad = true beside it"),
}
"""Parameters that LightGBM ignores unless another one is set: name -> (other, its idle value, what to do)."""

MAX_QUERY_BAG = 0.5
"""Measured on 4.7.0: with bagging_by_query above this, LightGBM's ndcg of its training set is not that of its own model
(off by up to 0.07 after 20 trees), and two threads give another model in every run; up to it all agree."""

TEXTS = ("boosting", "data_sample_strategy")
LISTS = ("feature_contri",)

POSITION_BIAS = "lambdarank_position_bias_regularization"
"""Set, LightGBM learns what of a label is owed to the position a row was shown at; left out, it sees no position."""

LAMBDARANK_ONLY = ("lambdarank_truncation_level", "lambdarank_norm", "sigmoid", POSITION_BIAS)


def param_problems(params: Mapping[str, Any], objective: str) -> list[str]:
    """One sentence for each parameter that LightGBM would refuse or ignore, or that is set elsewhere."""
    problems = [_problem(name, params, objective) for name in params]
    return [problem for problem in problems if problem]


def _problem(name: str, params: Mapping[str, Any], objective: str) -> str | None:
    if name in ELSEWHERE:
        return f"{name} is not set here: {ELSEWHERE[name]}"
    if name not in ALIASES:
        return _unknown(name)
    if (kind := _wrong_kind(name, params[name])) is not None:
        return kind
    if objective != "lambdarank" and name in LAMBDARANK_ONLY:
        return f"{name} is ignored by objective {objective}: leave it out"
    bag = params[name] if name == "bagging_fraction" else None
    if isinstance(bag, int | float) and bags_by_query(params) and bag > MAX_QUERY_BAG:
        return (
            f"bagging_fraction = {params[name]}: above {MAX_QUERY_BAG}, LightGBM 4.7 loses the scores of queries "
            "outside the bag when it bags whole queries; use a smaller fraction, or feature_fraction"
        )
    other, idle, fix = NEEDS.get(name, ("", None, ""))
    if other and params.get(other, idle) == idle:
        return f"{name} is ignored as it stands: {fix}"
    return None


def _wrong_kind(name: str, value: Any) -> str | None:
    wanted = "a text" if name in TEXTS else "a list of numbers" if name in LISTS else "a finite number, true or false"
    if name in TEXTS:
        fits = isinstance(value, str)
    elif name in LISTS:
        fits = isinstance(value, list | tuple)
    else:
        fits = isinstance(value, int) or (isinstance(value, float) and math.isfinite(value))
    return None if fits else f"{name} = {value!r} is not {wanted}"


def bags_by_query(params: Mapping[str, Any]) -> bool:
    """Whether trees are grown on a sample of whole queries: always, where bagging is on and rows were not asked for."""
    return bool(params.get("bagging_freq", 0)) and bool(params.get("bagging_by_query", True))


def _unknown(name: str) -> str:
    for canonical, aliases in ALIASES.items():
        if name in aliases:
            return f"{name} goes by LightGBM's first name here: write {canonical}"
    near = get_close_matches(name, ALIASES, n=1)
    guess = f"did you mean {near[0]}?" if near else "leave it out"
    return f"{name} is no parameter that changes a ranking model: {guess}"
