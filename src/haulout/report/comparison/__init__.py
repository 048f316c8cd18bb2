"""Two programs, simulated on the same numbers and compared: the one that was split, and the split one."""

from haulout.report.comparison.outputs import OutputResult
from haulout.report.comparison.run import Comparison, compare
from haulout.report.comparison.source import Source, from_hlo, from_program

__all__ = ["Comparison", "OutputResult", "Source", "compare", "from_hlo", "from_program"]
