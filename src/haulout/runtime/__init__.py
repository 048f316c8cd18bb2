"""Executing a compiled program: a thread a core, one arena, and no synchronisation but the program's own."""

from haulout.runtime.execute import RunResult, run

__all__ = ["RunResult", "run"]
