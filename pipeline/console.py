"""What a run says: lines for a person and for log.txt, and progress while it works."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

LOG = logging.getLogger("rankloom")
PIPE_WIDTH = 160
"""Columns of a table in a pipe, where nothing says how wide the reader's window is."""

console = Console(highlight=False, width=None if sys.stdout.isatty() else PIPE_WIDTH, soft_wrap=True)

PLAIN_EVERY = 100
"""In a pipe, progress is a line every so many steps, unless a verb says otherwise."""


class _ConsoleHandler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        mark = "warning: " if record.levelno >= logging.WARNING else ""
        console.print(f"{mark}{record.getMessage()}", style="yellow" if mark else None, markup=False)


@contextmanager
def logging_to(path: Path | None) -> Iterator[None]:
    """While it lasts, what goes to `LOG` is printed, and written to `path` too."""
    handlers: list[logging.Handler] = [_ConsoleHandler()]
    if path is not None:
        file = logging.FileHandler(path, encoding="utf-8")
        file.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
        handlers.append(file)
    LOG.setLevel(logging.INFO)
    LOG.propagate = False
    for handler in handlers:
        LOG.addHandler(handler)
    try:
        yield
    finally:
        for handler in handlers:
            LOG.removeHandler(handler)
            handler.close()


@contextmanager
def progress(what: str, total: int, *, every: int = PLAIN_EVERY) -> Iterator[Callable[[int, str], None]]:
    """Yields `advance(done, note)`: a bar on a terminal, in a pipe a plain line every so many steps."""
    if not console.is_terminal:
        yield lambda done, note: _plain(what, done, total, note) if done % every == 0 else None
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed}/{task.total} {task.fields[note]}"),
    )
    with Progress(*columns, TimeRemainingColumn(), console=console, transient=True) as bar:
        task = bar.add_task(what, total=total, note="")
        yield lambda done, note: bar.update(task, completed=done, note=note)


def _plain(what: str, done: int, total: int, note: str) -> None:
    console.print(f"{what} {done}/{total} {note}", markup=False)
