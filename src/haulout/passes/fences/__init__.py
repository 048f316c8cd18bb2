"""Placement of fences: `bracket`, the reference's policy, and `minimal`, the fewest that order every conflict."""
