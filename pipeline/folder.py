"""A folder is whole or absent: written under a temporary name beside its place, renamed at the end.

A draft is locked by its process, and the lock ends with the process, however that ends: a draft that nobody holds was
left by one that was killed, and the next run into the same place removes it.
"""

from __future__ import annotations

import glob
import os
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from features.errors import OutputError

YOUNG_SECONDS = 60
"""A draft so young may not have been locked yet."""


@contextmanager
def new_folder(out: Path, *, marker: str, overwrite: bool = False) -> Iterator[Path]:
    """Yields a folder to write into; it becomes `out` if the block ends well, and vanishes if it does not.

    An existing `out` that is not empty is refused, unless `overwrite` is set and the folder holds a file `marker`,
    as what we wrote there earlier does: nothing else is ever deleted. Raises OutputError.
    """
    check_free(out, marker=marker, overwrite=overwrite)
    place = out.absolute()
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        _remove_left_drafts(place)
        draft = Path(tempfile.mkdtemp(prefix=_draft_prefix(place), dir=place.parent))
    except OSError as error:
        raise OutputError(
            f"cannot write beside {out}: {error.strerror}", expected="a writable folder", fix="choose another --out"
        ) from error
    try:
        with _locked(draft):
            yield draft
            check_free(out, marker=marker, overwrite=overwrite)
            _put_in_place(draft, place)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


@contextmanager
def scratch_folder(out: Path) -> Iterator[Path]:
    """A hidden folder beside `out` for what does not fit into memory; it vanishes however the block ends."""
    place = out.absolute()
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=f".{place.name}.scratch.", dir=place.parent))
    except OSError as error:
        raise OutputError(
            f"cannot write beside {out}: {error.strerror}", expected="a writable folder", fix="choose another --out"
        ) from error
    try:
        yield scratch
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def check_free(out: Path, *, marker: str, overwrite: bool) -> None:
    """Raises OutputError where `new_folder` would refuse `out`: worth asking before hours of work."""
    if out.absolute() == Path.cwd():
        raise OutputError("--out is the folder you are in", expected="one of its own", fix="name a new folder")
    if not out.exists() or (out.is_dir() and not any(out.iterdir())):
        return
    if not out.is_dir():
        raise OutputError(f"{out} is a file", expected="a folder to write", fix="choose another --out")
    if not overwrite:
        raise OutputError(
            f"{out} is not empty", expected="a new or empty folder", fix="choose another --out, or add --overwrite"
        )
    if not (out / marker).exists():
        raise OutputError(
            f"{out} holds no {marker}",
            expected="a folder that rankloom wrote, as only those are replaced",
            fix="choose another --out, or empty the folder yourself",
        )


def _put_in_place(draft: Path, out: Path) -> None:
    draft.chmod(0o755)
    if not out.exists():
        draft.rename(out)
        return
    old = Path(tempfile.mkdtemp(prefix=f".{out.name}.old.", dir=out.parent))
    out.rename(old / out.name)
    draft.rename(out)
    shutil.rmtree(old, ignore_errors=True)


def _draft_prefix(place: Path) -> str:
    """A lock may be known to one machine only, while others write into the same folder."""
    return f".{place.name}.draft-{socket.gethostname()}-"


def _remove_left_drafts(place: Path) -> None:
    for left in place.parent.glob(f"{glob.escape(_draft_prefix(place))}*"):
        if time.time() - left.stat().st_mtime > YOUNG_SECONDS:
            with _locked(left) as is_ours:
                if is_ours:
                    shutil.rmtree(left, ignore_errors=True)


@contextmanager
def _locked(folder: Path) -> Iterator[bool]:
    """Whether this process got the lock of `folder`; never where the system or the file system has no such locks."""
    if sys.platform == "win32":
        yield False
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        yield _lock(descriptor)
    finally:
        os.close(descriptor)


def _lock(descriptor: int) -> bool:
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
