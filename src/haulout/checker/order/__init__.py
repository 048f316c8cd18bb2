"""TODO checker/order."""
