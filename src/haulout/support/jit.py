"""Compile scalar loops with Numba, and pay for it only when one of them is called.

Importing Numba costs about half a second and compiling a kernel costs seconds the first time, so neither may
happen when `haulout` is imported. `@njit` therefore wraps the function in a `Kernel`: its first call imports
Numba and makes the dispatcher (compiled code is cached on disk, so the seconds are paid once per machine). A
kernel may call other kernels as ordinary functions: Numba finds their dispatchers through `_numba_type_`.

Inside `interpreted()` kernels run as plain Python. A kernel that keeps to int64 without wrapping around, and to
IEEE doubles, gives identical results either way; small inputs are done sooner without it.

Numba's disk cache looks at the time stamp of the file that defines the called kernel, not at those of kernels
that it calls: keep kernels that call each other in one file.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Any, Generic, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

_interpret: ContextVar[bool] = ContextVar("haulout_interpret_kernels", default=False)


class Kernel(Generic[P, R]):
    """A function that Numba compiles on its first call outside `interpreted()`."""

    def __init__(self, function: Callable[P, R]) -> None:
        self.py_func = function
        functools.update_wrapper(self, function)

    @functools.cached_property
    def dispatcher(self) -> Callable[P, R]:
        """Numba's dispatcher of this function; made on first use."""
        import numba

        compile_it: Any = numba.njit
        compiled: Callable[P, R]
        try:
            compiled = compile_it(cache=True)(self.py_func)
        except RuntimeError:  # no directory to cache in, as for code in a zip file or a read-only home
            compiled = compile_it(self.py_func)
        return compiled

    @property
    def is_ready(self) -> bool:
        """Whether a call would find the dispatcher made."""
        return "dispatcher" in self.__dict__

    @property
    def _numba_type_(self) -> Any:
        return self.dispatcher._numba_type_  # type: ignore[attr-defined]

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run the kernel, compiled unless inside `interpreted()`."""
        if _interpret.get():
            return self.py_func(*args, **kwargs)
        return self.dispatcher(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<kernel {self.py_func.__module__}.{self.py_func.__qualname__}>"


def njit(function: Callable[P, R]) -> Kernel[P, R]:
    """Mark `function` for compilation in nopython mode, cached on disk, on its first call."""
    return Kernel(function)


def interpreted() -> AbstractContextManager[None]:
    """Run kernels as plain Python within the block (in this thread and context only)."""
    return _interpreting(True)


@contextmanager
def _interpreting(value: bool) -> Iterator[None]:
    token = _interpret.set(value)
    try:
        yield
    finally:
        _interpret.reset(token)


def plain_if_small(kernel: Kernel[..., Any], work: int, limit: int = 20_000) -> AbstractContextManager[None]:
    """`interpreted()` when `work` is small and `kernel` not loaded yet: plain Python is done before it would be.
    Otherwise kernels are compiled within the block, whatever is around it.
    """
    return _interpreting(work <= limit and not kernel.is_ready)
