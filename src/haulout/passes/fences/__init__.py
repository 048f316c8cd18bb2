"""Where fences go: `bracket`, the reference's policy, and `minimal`, the fewest that order every conflict."""
