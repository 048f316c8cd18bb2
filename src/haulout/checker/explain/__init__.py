"""Findings for readers: each fault once, with its cause, a witness, and fixes that were tried."""
