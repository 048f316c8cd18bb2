"""Diagnostics, files, rendering and kernels. These modules import no other package of haulout."""
