"""Every error that a user can mend.

RankingError                 base of all; the command line prints it as one sentence and exits with 2
├── ConfigError              a config file, a --set, an option
├── DataError                a log, a catalogue, a ready-made table
│   └── DatasetError         queries, labels or sizes that no ranker could be trained on
├── TrainingError            the training came to nothing
│   └── ParityError          LightGBM's metric and ours disagree
├── PackageError             a package is damaged, or does not fit the data
├── ExportError              a target cannot express the model, or the export ranks otherwise
├── OutputError              the place to write to
└── MissingExtraError        an optional library is not installed

Each message has three parts: what was found, what was expected, and what to do.
The metric core (`pipeline.metrics`) stands alone and raises ValueError instead.
"""

from __future__ import annotations


class RankingError(Exception):
    """One sentence in three parts: `found`; expected `expected`; `fix`."""

    def __init__(self, found: str, *, expected: str, fix: str) -> None:
        super().__init__(f"{found}; expected {expected}; {fix}")
        self.found = found
        self.expected = expected
        self.fix = fix


class ConfigError(RankingError):
    """A config file, a --set or an option says something that cannot be done."""


class DataError(RankingError):
    """A log, a catalogue or a ready-made table cannot be used as it is."""


class DatasetError(DataError):
    """Queries, labels or sizes that no ranker could be trained on."""


class TrainingError(RankingError):
    """The training came to nothing."""


class ParityError(TrainingError):
    """LightGBM's built-in metric and our own disagree."""


class PackageError(RankingError):
    """A package is damaged, or does not fit the data it is asked to rank."""


class ExportError(RankingError):
    """A target cannot express the model, or the exported model ranks otherwise."""


class OutputError(RankingError):
    """The place to write to is taken or cannot be written."""


class MissingExtraError(RankingError):
    """An optional library is not installed."""

    def __init__(self, library: str, extra: str) -> None:
        super().__init__(
            f"{library} is not installed",
            expected=f"the extra {extra!r}",
            fix=f"run: pip install 'rankloom[{extra}]'",
        )
