"""Runs programs: numerics in NumPy, cores with their queues, memory, schedules.

`simulate` runs a program under one schedule; `compare_schedules` finds what depends on the schedule.
"""

from haulout.sim.compare import ScheduleReport, compare_schedules
from haulout.sim.run import SimulationResult, Statistics, simulate
from haulout.sim.shadow import Difference

__all__ = ["Difference", "ScheduleReport", "SimulationResult", "Statistics", "compare_schedules", "simulate"]
