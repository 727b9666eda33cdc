"""Searching for better settings: honest folds, cheap trials, a study that can be stopped, and a number to believe."""

from pipeline.tune.finals import Final, fit_finals
from pipeline.tune.search import Interrupted, run_search
from pipeline.tune.task import Task, make_task

__all__ = ["Final", "Interrupted", "Task", "fit_finals", "make_task", "run_search"]
