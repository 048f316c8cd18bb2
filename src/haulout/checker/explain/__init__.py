"""TODO checker/explain."""
