"""Runs programs: numerics in NumPy, cores and their queues, memory, schedules."""
