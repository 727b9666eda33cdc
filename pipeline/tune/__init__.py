"""Searching for better settings: honest folds, cheap trials, a study that can be stopped, and a number to believe."""

from pipeline.tune.finals import Choice, Final, expected_optimism, fit_finals, overlay, trial_table
from pipeline.tune.influence import columns_of, influences
from pipeline.tune.search import Interrupted, best_of, run_search
from pipeline.tune.study import STUDY, Tried, copy_database
from pipeline.tune.task import Task, make_task

__all__ = [
    "STUDY",
    "Choice",
    "Final",
    "Interrupted",
    "Task",
    "Tried",
    "best_of",
    "columns_of",
    "copy_database",
    "expected_optimism",
    "fit_finals",
    "influences",
    "make_task",
    "overlay",
    "run_search",
    "trial_table",
]
