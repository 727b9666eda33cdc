"""Where long arrays live: in memory, or in files of a scratch folder, read part by part or mapped while they are asked.

The same code serves both: it makes an array in parts, of which there is one where memory has no limit, and keeps what
`Room.keep` gives. A mapped file counts as memory of the process as far as it was touched, so maps are opened for one
question and let go after it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

import numpy as np
import numpy.typing as npt

T = TypeVar("T", bound=np.generic)
Ints = npt.NDArray[np.int64]

_SAMPLED: Final = 4_096
"""Keys of which the borders between the files of a sort are taken, per file."""


@dataclass(frozen=True, slots=True)
class Kept(Generic[T]):
    """An array of `length` entries: held in memory, or in the file that `held` names."""

    held: npt.NDArray[T] | Path
    dtype: np.dtype[T]
    length: int

    def __len__(self) -> int:
        return self.length

    def whole(self) -> npt.NDArray[T]:
        """(length,) all of it, mapped where it is a file: hold it no longer than one question takes."""
        if not isinstance(self.held, Path):
            return self.held
        if not self.length:
            return np.empty(0, self.dtype)
        return np.memmap(self.held, self.dtype, "r", shape=(self.length,)).view(np.ndarray)

    def part(self, where: slice) -> npt.NDArray[T]:
        """(n,) a part of it, in memory."""
        if not isinstance(self.held, Path):
            return self.held[where]
        size = where.stop - where.start
        return np.fromfile(self.held, self.dtype, size, offset=where.start * self.dtype.itemsize)


@dataclass(frozen=True)
class Room:
    """`folder`: where files go (None: all is held in memory). `rows`: of how many a part has at most."""

    folder: Path | None = None
    rows: int = 2**62
    _numbers: Iterator[int] = field(default_factory=count, repr=False)

    def parts(self, length: int) -> Iterator[slice]:
        """Slices that cover 0 .. length, in order; at least one."""
        for start in range(0, max(length, 1), self.rows):
            yield slice(start, min(start + self.rows, length))

    def new_path(self, what: str) -> Path:
        """A path in the folder that is not yet taken."""
        if self.folder is None:
            raise RuntimeError("a room without a folder holds no files")
        return self.folder / f"{next(self._numbers):06d}-{what}"

    def keep(self, parts: Iterable[npt.NDArray[T]]) -> Kept[T]:
        """The parts, of which there is at least one, as one array."""
        if self.folder is None:
            pieces = list(parts)
            array = pieces[0] if len(pieces) == 1 else np.concatenate(pieces)
            return Kept(array, array.dtype, len(array))
        path, length = self.new_path("array"), 0
        with path.open("wb") as file:
            for part in parts:
                part.tofile(file)
                length, dtype = length + len(part), part.dtype
        return Kept(path, dtype, length)

    def distinct(self, parts: Iterable[Ints]) -> Kept[np.int64]:
        """The values of the parts in ascending order, each once."""
        if self.folder is None:
            return self.keep([np.unique(np.concatenate(list(parts)))])
        unsorted = self.keep(parts)
        files = self._deal(unsorted)
        _remove(unsorted)
        return self.keep(_distinct_in_turn(files))

    def _deal(self, unsorted: Kept[np.int64]) -> list[Path]:
        """Files of about `rows` values, those of each below those of the next."""
        files = [self.new_path("sort") for _ in range(-(-max(len(unsorted), 1) // self.rows))]
        borders = self._borders(unsorted, len(files))
        opened: list[Any] = [path.open("wb") for path in files]
        try:
            for where in self.parts(len(unsorted)):
                values = unsorted.part(where)
                number = np.searchsorted(borders, values, side="right")
                for at, file in enumerate(opened):
                    values[number == at].tofile(file)
        finally:
            for file in opened:
                file.close()
        return files

    def _borders(self, values: Kept[np.int64], files: int) -> Ints:
        some: Ints = np.sort(values.whole()[:: max(1, len(values) // (files * _SAMPLED))])
        return some[len(some) * np.arange(1, files) // files]


MEMORY: Final = Room()
"""Everything in memory, in one part."""


def _distinct_in_turn(files: list[Path]) -> Iterator[Ints]:
    for path in files:
        values = np.fromfile(path, np.int64)
        path.unlink()
        yield np.unique(values)


def _remove(kept: Kept[Any]) -> None:
    if isinstance(kept.held, Path):
        kept.held.unlink()
