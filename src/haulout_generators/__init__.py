"""Generators of programs, for tests and benchmarks."""
