"""TODO sim/events."""
