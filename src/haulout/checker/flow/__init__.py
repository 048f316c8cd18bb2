"""Proofs for functions with loops and forks by data flow: no path is enumerated, no loop unrolled."""
