"""TODO sim/memory."""
