"""How loops that NumPy has no words for are compiled: by Numba on first use, without holding the interpreter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function) -> Function:
    """Compiled for each set of types that it meets, and cached on disk where there is a place to write."""
    try:
        return cast(Function, numba.njit(cache=True, nogil=True)(function))
    except RuntimeError:
        return cast(Function, numba.njit(nogil=True)(function))
