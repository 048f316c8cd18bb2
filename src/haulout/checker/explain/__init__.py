"""Findings for readers: what is reported once, its cause, a witness, and fixes that were tried."""
