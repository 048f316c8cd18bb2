"""Which instructions run: control flow, and what each core executes."""
