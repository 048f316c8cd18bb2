"""Instructions as functions without arguments, bound to the places of their operands."""
