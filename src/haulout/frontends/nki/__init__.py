"""NKI kernels: their Python run once a core against our own `nki`, recorded, and turned into a program."""

from haulout.frontends.nki.api import Kernel, install, split_name, tensor, trace, trace_of
from haulout.frontends.nki.arguments import TensorSpec, load_arguments, parse_arguments
from haulout.frontends.nki.emit import Emitted, emit
from haulout.frontends.nki.source import kernel_in_file, load_kernel, trace_file
from haulout.frontends.nki.trace import BarrierScope, Trace, trace_kernel

__all__ = [
    "BarrierScope",
    "Emitted",
    "Kernel",
    "TensorSpec",
    "Trace",
    "emit",
    "install",
    "kernel_in_file",
    "load_arguments",
    "load_kernel",
    "parse_arguments",
    "split_name",
    "tensor",
    "trace",
    "trace_file",
    "trace_kernel",
    "trace_of",
]
