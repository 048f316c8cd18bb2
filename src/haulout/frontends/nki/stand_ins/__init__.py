"""Our own `nki`, `nki.language`, `nki.isa`, `nki.collectives`: what kernels import, and nothing of AWS."""
