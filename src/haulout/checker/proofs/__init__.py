"""TODO checker/proofs."""
