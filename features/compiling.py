"""How loops that NumPy has no words for are compiled: by Numba, without holding the interpreter."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps
from typing import Any, TypeVar, cast

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function) -> Function:
    """Compiled for each set of types that it meets, on first use, and cached on disk where there is a place to write.

    Numba is imported by then and not before: a scorer that is given its features has no need of it. For the same reason
    one compiled function cannot call another.
    """

    @cache
    def kernel() -> Callable[..., Any]:
        import numba

        try:
            return cast(Function, numba.njit(cache=True, nogil=True)(function))
        except RuntimeError:
            return cast(Function, numba.njit(nogil=True)(function))

    @wraps(function)
    def call(*arguments: Any) -> Any:
        return kernel()(*arguments)

    return cast(Function, call)
