"""haulout: compile, check and run programs that are split over cores sharing one DRAM."""

# The package `haulout.check` must be loaded before the function of that name is bound: a first import later on
# would put the package in the function's place.
import haulout.check  # noqa: F401
from haulout.api import CompileResult, check, compile, load, simulate
from haulout.ir.program import Program
from haulout.passes.allocator import plan
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
    "plan",
    "simulate",
]
