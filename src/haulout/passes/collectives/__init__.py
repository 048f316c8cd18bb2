"""How collectives become copies through shared DRAM; one lowering a file."""
