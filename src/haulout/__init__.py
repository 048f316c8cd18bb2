"""haulout: compile, check and run programs that are split over cores sharing one DRAM.

What the package offers is imported when it is first asked for: `import haulout` alone loads neither NumPy nor Numba.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from haulout.api import CompileResult, check, compare, compile, load, run, simulate
    from haulout.ir.program import Program
    from haulout.packing import plan
    from haulout.support.diagnostics import Diagnostic, HauloutError, Severity

__version__ = "0.1.0"

__all__ = [
    "CompileResult",
    "Diagnostic",
    "HauloutError",
    "Program",
    "Severity",
    "check",
    "compare",
    "compile",
    "load",
    "plan",
    "run",
    "simulate",
]

_HOME = {
    "CompileResult": "haulout.api",
    "Diagnostic": "haulout.support.diagnostics",
    "HauloutError": "haulout.support.diagnostics",
    "Program": "haulout.ir.program",
    "Severity": "haulout.support.diagnostics",
    "check": "haulout.api",
    "compare": "haulout.api",
    "compile": "haulout.api",
    "load": "haulout.api",
    "plan": "haulout.packing",
    "run": "haulout.api",
    "simulate": "haulout.api",
}
"""Where each name is defined."""


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
