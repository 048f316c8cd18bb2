"""The machine that estimates are for: rates, overheads, the cost of rendezvous. See `model.py`."""

from haulout.target.load import DEFAULT, PRESETS, load_target
from haulout.target.model import EngineRate, Target

__all__ = ["DEFAULT", "PRESETS", "EngineRate", "Target", "load_target"]
