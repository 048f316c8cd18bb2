"""Kernels of a few instructions, traced and simulated on arrays: `run(body, *arrays)` gives what they return."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from haulout.frontends.nki import Trace, trace_kernel
from haulout.frontends.nki.stand_ins.install import make_modules
from haulout.nki.kernel_simulation import SimulatedKernel, simulate_trace

_MODULES = make_modules()
nl, nisa, ncc = (_MODULES[f"nki.{name}"] for name in ("language", "isa", "collectives"))

BF16 = np.dtype(ml_dtypes.bfloat16)
F16 = np.dtype(np.float16)
F32 = np.dtype(np.float32)
E4M3 = np.dtype(ml_dtypes.float8_e4m3)
E4M3FN = np.dtype(ml_dtypes.float8_e4m3fn)
E5M2 = np.dtype(ml_dtypes.float8_e5m2)


def traced(body: Callable[..., Any], *arrays: Any, lnc: int = 1, target: str = "gen3") -> Trace:
    """The trace of a kernel that came to its end."""
    trace = trace_kernel(body, arrays, cores=lnc, target=target)
    assert not trace.failed, [each.message for each in trace.findings.items]
    return trace


def simulated(
    body: Callable[..., Any], *arrays: Any, lnc: int = 1, target: str = "gen3", **options: Any
) -> SimulatedKernel:
    """All of a simulation, with its findings."""
    return simulate_trace(traced(body, *arrays, lnc=lnc, target=target), **options)


def run(body: Callable[..., Any], *arrays: Any, **options: Any) -> Any:
    """The array that a kernel returns, or a tuple of arrays."""
    found = simulated(body, *arrays, **options)
    others = [each.message for each in found.diagnostics if each.code != "undefined-result"]
    assert not others, others
    return found.returned[0] if len(found.returned) == 1 else found.returned


def tile(shape: tuple[int, ...], dtype: Any, buffer: Any = None) -> Any:
    """A new tensor on the chip."""
    return nl.ndarray(shape, dtype=dtype, buffer=nl.sbuf if buffer is None else buffer)


def loaded(source: Any) -> Any:
    """A tensor of HBM in SBUF."""
    found = tile(source.shape, source.dtype)
    nisa.dma_copy(dst=found, src=source)
    return found


def stored(source: Any, dtype: Any = None) -> Any:
    """A tensor on the chip as one in HBM, to return."""
    if source.buffer is nl.psum:
        staged = tile(source.shape, source.dtype)
        nisa.tensor_copy(dst=staged, src=source)
        source = staged
    found = nl.ndarray(source.shape, dtype=source.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=found, src=source)
    return found


def numbers(*shape: int, dtype: Any = F32, seed: int = 0, scale: float = 1.0) -> np.ndarray[Any, Any]:
    """Normal numbers in a type."""
    return (np.random.default_rng(seed).standard_normal(shape) * scale).astype(dtype)


def f64(array: Any) -> np.ndarray[Any, Any]:
    """As float64."""
    return np.asarray(array).astype(np.float64)


def close(got: Any, want: Any, tolerance: float = 1e-6) -> None:
    """The largest difference is within a share of the largest expected magnitude; NaN and inf are alike."""
    got, want = f64(got), f64(want)
    assert got.shape == want.shape
    assert np.array_equal(np.isnan(got), np.isnan(want))
    finite = np.isfinite(want)
    assert np.array_equal(got[~finite], want[~finite], equal_nan=True)
    if finite.any():
        assert np.abs(got[finite] - want[finite]).max() <= tolerance * np.abs(want[finite]).max()


def equal(got: Any, want: Any) -> None:
    """The same bits."""
    assert got.dtype == want.dtype and got.shape == want.shape
    assert got.tobytes() == np.ascontiguousarray(want).tobytes()
