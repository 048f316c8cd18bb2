"""Pure NumPy numerics of every opcode: HLO's semantics, one file a family, dispatched by `evaluate`."""

from haulout.sim.numerics.evaluate import evaluate
from haulout.sim.numerics.types import TensorType

__all__ = ["TensorType", "evaluate"]
