"""haulout: compile, check and run programs that are split over cores sharing one DRAM."""

__version__ = "0.1.0"
