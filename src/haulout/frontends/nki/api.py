"""The API of the NKI front end: selection of a kernel, its trace, and its program.

A kernel is `FILE::FUNCTION` or a function. A function of a module with a file is imported again from that file with
the stand-ins. A function that was defined after `install()`, in a notebook, runs as it is.
"""

from __future__ import annotations

import inspect
import math
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from haulout.frontends.nki.arguments import TensorSpec
from haulout.frontends.nki.dtypes import nki_name
from haulout.frontends.nki.emit import Emitted, emit
from haulout.frontends.nki.source import trace_file
from haulout.frontends.nki.stand_ins.install import make_modules
from haulout.frontends.nki.storage import Buffer
from haulout.frontends.nki.trace import BarrierScope, Trace, trace_kernel
from haulout.ir.schema import MAX_CORES
from haulout.support.diagnostics import HauloutError, bad_input

Kernel = str | Callable[..., Any]
"""`FILE::FUNCTION`, or the function."""
_MARK = "__haulout__"
_NAME = re.compile(r"([^\[\]]+)(?:\[\s*(\d{1,9}(?:\s*,\s*\d{1,9})*)\s*\])?")


def tensor(dtype: Any, *shape: int, buffer: str = "shared_hbm", within: tuple[int, int] | None = None) -> TensorSpec:
    """A tensor argument: element type by NKI's name, the program's or NumPy's; `buffer` as in `nl`.

    `within`: half-open range of its integers, for indices with unknown values.
    """
    name = nki_name(dtype)
    if name is None:
        bad_input(f"unknown element type {dtype!r}")
    return TensorSpec(name, shape, Buffer[buffer], within=within)


def install() -> None:
    """Put our `nki` in `sys.modules` for the rest of the session, for kernels that are written after it."""
    modules = make_modules()
    for module in modules.values():
        setattr(module, _MARK, True)
    sys.modules.update(modules)


class KernelName(NamedTuple):
    """`FILE::FUNCTION`, or `FILE::FUNCTION[2,1]` with a launch grid."""

    path: Path
    function: str
    grid: tuple[int, ...] = ()
    """Programs along each axis; empty: one for each core, along one axis."""


def split_name(text: str) -> KernelName:
    """The parts of a kernel's name."""
    path, mark, name = text.rpartition("::")
    found = _NAME.fullmatch(name)
    if not mark or not path or found is None:
        bad_input(f"expected FILE.py::FUNCTION or FILE.py::FUNCTION[2,1], found {text!r}")
    grid = tuple(int(count) for count in (found.group(2) or "").split(",") if count.strip())
    if grid and not 0 < math.prod(grid) <= MAX_CORES:
        bad_input(f"{text}: a launch grid has 1 to {MAX_CORES} programs, found {math.prod(grid)}")
    return KernelName(Path(path), found.group(1), grid)


def trace_of(
    kernel: Kernel,
    arguments: Mapping[str, Any] | Sequence[Any],
    *,
    lnc: int = 2,
    trips: int | None = None,
    target: str = "gen3",
) -> Trace:
    """Run the kernel's Python once a core. A launch grid in the kernel's name takes the place of `lnc`."""
    if isinstance(kernel, str):
        path, name, grid = split_name(kernel)
        cores = math.prod(grid) if grid else lnc
        return trace_file(path, name, arguments, cores=cores, grid=grid, trips=trips, target=target)
    inner = inspect.unwrap(getattr(kernel, "function", kernel))
    ours = [value for value in getattr(inner, "__globals__", {}).values() if getattr(value, _MARK, False)]
    file = inspect.getsourcefile(inner) if not ours else None
    if ours or file is None:
        return trace_kernel(kernel, arguments, cores=lnc, trips=trips, target=target)
    return trace_file(file, inner.__qualname__, arguments, cores=lnc, trips=trips, target=target)


def trace(
    kernel: Kernel,
    arguments: Mapping[str, Any] | Sequence[Any] = (),
    *,
    lnc: int = 2,
    barrier_scope: BarrierScope = "data",
    trips: int | None = None,
    target: str = "gen3",
) -> Emitted:
    """The program of a kernel on `lnc` cores, as recorded.

    `kernel` is `FILE::FUNCTION` or a function; `arguments`, by name or in order, are arrays, specs (`tensor`), or
    plain values. `barrier_scope`: `data`, as NKI documents `core_barrier`, or `global`. `trips`: the assumed trip
    count of loops whose count is known on the device only. Raises `HauloutError` if the kernel stops with an error.
    """
    found = trace_of(kernel, arguments, lnc=lnc, trips=trips, target=target)
    if found.failed:
        raise HauloutError(*found.findings.items)
    return emit(found, barrier_scope=barrier_scope)
