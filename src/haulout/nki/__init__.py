"""NKI kernels without AWS: trace, check and compile them from a test or a notebook.

    import haulout.nki as hnki

    findings = hnki.check("kernels.py::fused_mlp", {"x": hnki.tensor("bf16", 4, 1, 1024), "k": 4})
    program = hnki.trace("kernels.py::fused_mlp", {"x": numpy_array, "k": 4}).program

A kernel is `FILE::FUNCTION` or a function. The file of a function is imported again with haulout's own `nki`. In a
notebook, where a function has no file, call `install()` before you define the kernel. `docs/nki.md` describes the
checks and the assumptions.
"""

from haulout.frontends.nki import (
    BarrierScope,
    Kernel,
    TensorSpec,
    install,
    load_arguments,
    parse_arguments,
    tensor,
    trace,
)
from haulout.nki.kernel_check import CheckedKernel, check, check_kernel, prepare
from haulout.nki.kernel_simulation import SimulatedKernel, simulate, simulate_kernel

__all__ = [
    "BarrierScope",
    "CheckedKernel",
    "Kernel",
    "SimulatedKernel",
    "TensorSpec",
    "check",
    "check_kernel",
    "install",
    "load_arguments",
    "parse_arguments",
    "prepare",
    "simulate",
    "simulate_kernel",
    "tensor",
    "trace",
]
