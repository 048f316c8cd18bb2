"""TODO checker/paths."""
