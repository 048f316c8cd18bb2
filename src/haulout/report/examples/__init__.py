"""An example for every code of the catalog; a test runs each and sees its finding."""

from haulout.report.examples.example import Example
from haulout.report.examples.graphs import GRAPHS
from haulout.report.examples.kernels import KERNELS
from haulout.report.examples.plans import PLANS
from haulout.report.examples.programs import PROGRAMS

EXAMPLES: dict[str, Example] = {**PROGRAMS, **PLANS, **KERNELS, **GRAPHS}
"""By code."""

__all__ = ["EXAMPLES", "Example"]
