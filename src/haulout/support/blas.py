"""One BLAS thread: a product of matrices runs on the thread that asks for it, which in the runtime is a core.

NumPy's wheels come with OpenBLAS, which has a function for the number of its threads; it is called in the libraries
that the process has loaded. `threadpoolctl` does the same for more libraries. It is not used, as it would be a
dependency of the base for one call; environment variables have no effect once NumPy is loaded.
"""

from __future__ import annotations

import ctypes
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

_NAMES = tuple(f"{prefix}openblas_{{}}_num_threads{suffix}" for prefix in ("scipy_", "") for suffix in ("64_", ""))
"""The functions `get` and `set`, as builds of OpenBLAS name them."""


@contextmanager
def one_thread() -> Iterator[None]:
    """Let BLAS use one thread a call; the number of before comes back in the end."""
    found = _controls()
    before = [get() for get, _ in found]
    for _, put in found:
        put(1)
    try:
        yield
    finally:
        for (_, put), count in zip(found, before, strict=True):
            put(count)


@cache
def _controls() -> tuple[tuple[Any, Any], ...]:
    """The functions that read and set the number of threads, of each OpenBLAS that NumPy brings or has loaded."""
    found = []
    for path in _libraries():
        try:
            library = ctypes.CDLL(str(path))
        except OSError:
            continue
        for name in _NAMES:
            get, put = (getattr(library, name.format(word), None) for word in ("get", "set"))
            if get is not None and put is not None:
                found.append((get, put))
                break
    if not found:
        logging.getLogger("haulout").warning("the number of BLAS threads is not known; OMP_NUM_THREADS=1 sets it")
    return tuple(found)


def _libraries() -> list[Path]:
    """Libraries of OpenBLAS: what the process has loaded, where the system tells it, and what is in NumPy's wheel."""
    home = Path(np.__file__).parent
    paths = [*(home.parent / "numpy.libs").glob("*openblas*"), *(home / ".dylibs").glob("*openblas*")]
    try:
        lines = Path("/proc/self/maps").read_text(errors="replace").splitlines()
    except OSError:
        lines = []
    paths += [Path(line.split(maxsplit=5)[-1]) for line in lines if "openblas" in line]
    return [path for path in dict.fromkeys(paths) if ".so" in path.name or path.suffix in (".dylib", ".dll")]
