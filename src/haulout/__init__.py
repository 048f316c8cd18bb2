"""haulout: compile, check and run programs that are split over cores sharing one DRAM."""

from haulout.api import CompileResult, check, compile, load, simulate
from haulout.ir.program import Program
from haulout.support.diagnostics import Diagnostic, HauloutError, Severity

__version__ = "0.1.0"

__all__ = [
    "CompileResult",
    "Diagnostic",
    "HauloutError",
    "Program",
    "Severity",
    "check",
    "compile",
    "load",
    "simulate",
]
