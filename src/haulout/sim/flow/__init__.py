"""TODO sim/flow."""
