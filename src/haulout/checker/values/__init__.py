"""Undefined values: the bytes that instructions derive from them, and where they become visible."""
