"""The HLO front end: XLA's text, after SPMD partitioning, into a program. It does not depend on JAX or XLA.

program = load_hlo("decoder.n4.hlo")
"""

from haulout.frontends.hlo.api import load_hlo
from haulout.frontends.hlo.fuse_elementwise import Fuse
from haulout.frontends.hlo.lower import lower
from haulout.frontends.hlo.model import HloModule
from haulout.frontends.hlo.parser import parse_hlo, read_hlo

__all__ = ["Fuse", "HloModule", "load_hlo", "lower", "parse_hlo", "read_hlo"]
