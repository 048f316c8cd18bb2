"""Which runs of a function with loops and branches are looked at, and each as straight code."""
