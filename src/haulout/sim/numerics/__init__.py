"""Pure NumPy numerics of every opcode: HLO's semantics, one file a family, `evaluate` in front of them."""

from haulout.sim.numerics.evaluate import evaluate
from haulout.sim.numerics.types import TensorType

__all__ = ["TensorType", "evaluate"]
