"""Undefined values: which bytes an instruction makes of which, and where they can be seen."""
