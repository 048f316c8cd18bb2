"""The memory of a run: one array of bytes, and what each operand touches of it."""
