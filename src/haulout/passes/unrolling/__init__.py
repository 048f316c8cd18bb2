"""Loops whose body does the work of two iterations (`alternate_buffers`)."""
