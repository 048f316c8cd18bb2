"""Lowerings of collectives to copies through shared DRAM, one a file."""
