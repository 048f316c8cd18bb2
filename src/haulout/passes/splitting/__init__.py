"""Cutting operations into parts, one for each core: keys, axes, the choice, and the columns of the parts."""
