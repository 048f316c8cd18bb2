"""Passes, one a file, under the names of the reference; the manager, the registry and the pipeline syntax."""
