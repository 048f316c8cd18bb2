"""Which runs of a function with loops and forks are checked, and each run as straight code."""
