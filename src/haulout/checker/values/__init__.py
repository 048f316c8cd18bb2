"""TODO checker/values."""
