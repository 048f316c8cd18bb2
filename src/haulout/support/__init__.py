"""Helpers that import nothing else of haulout: diagnostics, files, ragged arrays, timing."""
