"""How loops are compiled: by Numba on first use, without holding the interpreter, cached on disk.

The cache notices a change of the file that holds the called function, not of others: a compiled function
therefore calls only compiled functions of its own file.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function) -> Function:
    """Compile on first use; cached in NUMBA_CACHE_DIR, beside the source, or where the user's caches lie."""
    return _compiled(function, forceinline=False)


def inlined(function: Function) -> Function:
    """As `compiled`, and made part of each caller: for what every query goes through."""
    return _compiled(function, forceinline=True)


def _compiled(function: Function, *, forceinline: bool) -> Function:
    try:
        return cast(
            Function, numba.njit(cache=True, nogil=True, error_model="numpy", forceinline=forceinline)(function)
        )
    except RuntimeError:  # none of the places can be written to
        return cast(Function, numba.njit(nogil=True, error_model="numpy", forceinline=forceinline)(function))
