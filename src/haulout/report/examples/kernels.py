"""Examples as NKI kernels."""

from __future__ import annotations

from textwrap import dedent

from haulout.report.examples.example import Example

HEADER = "import nki.isa as nisa\nimport nki.language as nl\n\n\n"
TWO_CORES = """
def kernel(x):
    core = nl.program_id(0)
    shared = nl.ndarray((2, 512), dtype=nl.float32, buffer=nl.shared_hbm)
    out = nl.ndarray((2, 512), dtype=nl.float32, buffer=nl.shared_hbm)
    mine = nl.ndarray((1, 512), dtype=nl.float32, buffer=nl.sbuf)
    both = nl.ndarray((2, 512), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=mine, src=x[core : core + 1, :])
    nisa.dma_copy(dst=shared[core : core + 1, :], src=mine)
{meet}
    nisa.dma_copy(dst=both, src=shared)
    nisa.dma_copy(dst=out[core : core + 1, :], src=both[core : core + 1, :])
{end}
    return out
"""
MEET = "    nisa.core_barrier(shared, (0, 1))"


def kernel(finding: str, body: str, arguments: str = "--arg x=f32[64,16]", lnc: int = 1) -> Example:
    """What `haulout check` says about a kernel."""
    text = HEADER + dedent(body).lstrip("\n").replace("\n\n    ", "\n    ")
    return Example({"example.py": text}, f"haulout check example.py::kernel --lnc {lnc} {arguments}", finding)


def two_cores(finding: str, meet: str = MEET, end: str = "") -> Example:
    """Each core writes a row of `shared` and reads both."""
    body = "\n".join(line for line in TWO_CORES.format(meet=meet, end=end).splitlines() if line)
    return kernel(finding, body + "\n", "--arg x=f32[2,512]", 2)


def traced(finding: str, body: str) -> Example:
    """What is said of a kernel whose loops are unrolled on request."""
    files = {
        "example.py": HEADER + dedent(body).lstrip("\n"),
        "trace.py": (
            "import haulout.nki\n\n"
            'arguments = {"count": haulout.nki.tensor("i32", 1, 1)}\n'
            'found = haulout.nki.trace("example.py::kernel", arguments, lnc=1, trips=2)\n'
            "for finding in found.findings:\n"
            "    print(finding)\n"
        ),
    }
    return Example(files, "python trace.py", finding)


def first_nki(finding: str, body: str) -> Example:
    """What is said of a kernel for the first NKI."""
    header = HEADER.replace("import nki.", "import neuronxcc.nki.")
    return Example(
        {"example.py": header + dedent(body).lstrip("\n")},
        "haulout check example.py::kernel --lnc 1 --arg x=f32[64,16]",
        finding,
    )


KERNELS: dict[str, Example] = {
    "kernel-error": kernel(
        "error[kernel-error]: nisa.dma_copy has no parameter `source`",
        """
        def kernel(x):
            tile = nl.ndarray((64, 16), dtype=nl.float32, buffer=nl.sbuf)
            nisa.dma_copy(dst=tile, source=x)
        """,
    ),
    "unknown-instruction": kernel(
        "warning[unknown-instruction]: unknown instruction nisa.frobnicate: the trace assumes that it reads and "
        "writes all its tensors",
        """
        def kernel(x):
            tile = nl.ndarray((64, 16), dtype=nl.float32, buffer=nl.sbuf)
            nisa.frobnicate(dst=tile, src=x)
        """,
    ),
    "old-style": first_nki(
        "note[old-style]: this kernel is written for NKI before 0.1 (nisa.activation returns a tile): it is checked "
        "as the instructions of today that compute the same; places in SBUF and PSUM are left to the compiler",
        """
        def kernel(x):
            out = nl.ndarray((64, 16), dtype=nl.float32, buffer=nl.shared_hbm)
            i_p, i_f = nl.arange(64)[:, None], nl.arange(16)[None, :]
            tile = nl.load(x[i_p, i_f])
            nl.store(out[i_p, i_f], nisa.activation(nl.exp, tile, mask=(i_f < 16)))
            return out
        """,
    ),
    "removed-api": kernel(
        "warning[removed-api]: nisa.tensor_copy has no parameter `dtype` since NKI 0.3",
        """
        def kernel(x):
            tile = nl.ndarray((64, 16), dtype=nl.float32, buffer=nl.sbuf)
            other = nl.ndarray((64, 16), dtype=nl.float32, buffer=nl.sbuf)
            nisa.dma_copy(dst=tile, src=x)
            nisa.tensor_copy(dst=other, src=tile, dtype=nl.float32)
        """,
    ),
    "missing-module": kernel(
        "error[missing-module]: no_such_module.scale is called, and the module no_such_module is not installed",
        """
        import no_such_module


        def kernel(x):
            tile = nl.ndarray((64, 16), dtype=nl.float32, buffer=nl.sbuf)
            nisa.dma_copy(dst=tile, src=x)
            nisa.tensor_scalar(tile, tile, nl.multiply, no_such_module.scale(16))
        """,
    ),
    "unfinished-import": kernel(
        "note[unfinished-import]: example.py fails after kernel is defined: AssertionError: no device",
        """
        def kernel(x):
            tile = nl.ndarray((64, 16), dtype=nl.float32, buffer=nl.sbuf)
            nisa.dma_copy(dst=tile, src=x)


        assert kernel is None, "no device"
        """,
    ),
    "input-not-read": kernel(
        "note[input-not-read]: no instruction reads the argument bias: float32[64, 16] in shared_hbm",
        """
        def kernel(x, bias):
            tile = nl.ndarray((64, 16), dtype=nl.float32, buffer=nl.sbuf)
            nisa.dma_copy(dst=tile, src=x)
            nisa.tensor_tensor(tile, tile, tile, nl.add)
        """,
        "--arg x=f32[64,16] --arg bias=f32[64,16]",
    ),
    "invalid-suppression": kernel(
        "warning[invalid-suppression]: this comment gives no reason, so it has no effect",
        """
        def kernel(x):
            tile = nl.ndarray((64, 16), dtype=nl.float32, buffer=nl.sbuf)
            nisa.dma_copy(dst=tile, src=x)  # haulout: ignore[cross-core-race]
        """,
    ),
    "unused-suppression": kernel(
        "warning[unused-suppression]: there is no cross-core-race on this line",
        """
        def kernel(x):
            tile = nl.ndarray((64, 16), dtype=nl.float32, buffer=nl.sbuf)
            nisa.dma_copy(dst=tile, src=x)  # haulout: ignore[cross-core-race] the cores read only
        """,
    ),
    "shared-allocation-mismatch": kernel(
        "error[shared-allocation-mismatch]: shared allocation 0 has a different shape or type on core 1: "
        "shared tensors are matched across cores by name, unnamed ones by order",
        """
        def kernel(x):
            if nl.program_id(0) == 1:
                extra = nl.ndarray((4, 4), dtype=nl.float32, buffer=nl.shared_hbm)
            shared = nl.ndarray((2, 512), dtype=nl.float32, buffer=nl.shared_hbm)
        """,
        lnc=2,
    ),
    "return-mismatch": kernel(
        "error[return-mismatch]: the cores return the same tensors in another order: result 0 is low on core 0 and "
        "high on core 1",
        """
        def kernel(x):
            core = nl.program_id(0)
            low = nl.ndarray((2, 16), dtype=nl.float32, buffer=nl.shared_hbm, name="low")
            high = nl.ndarray((2, 16), dtype=nl.float32, buffer=nl.shared_hbm, name="high")
            tile = nl.ndarray((1, 16), dtype=nl.float32, buffer=nl.sbuf)
            nisa.dma_copy(dst=tile, src=x[core : core + 1, :])
            nisa.dma_copy(dst=low[core : core + 1, :], src=tile)
            nisa.dma_copy(dst=high[core : core + 1, :], src=tile)
            return (low, high) if core == 0 else (high, low)
        """,
        lnc=2,
    ),
    "hardware-rule": kernel(
        "error[hardware-rule]: nisa.nc_matmul: dst is product: float32[64, 16] in sbuf; the tensor engine writes "
        "PSUM only",
        """
        def kernel(x):
            left = nl.ndarray((64, 64), dtype=nl.float32, buffer=nl.sbuf)
            tile = nl.ndarray((64, 16), dtype=nl.float32, buffer=nl.sbuf)
            product = nl.ndarray((64, 16), dtype=nl.float32, buffer=nl.sbuf)
            nisa.memset(left, 1.0)
            nisa.dma_copy(dst=tile, src=x)
            nisa.nc_matmul(dst=product, stationary=left, moving=tile)
        """,
    ),
    "partition-limit": kernel(
        "error[partition-limit]: tile: float32[129, 4] in sbuf spans partitions 0:129; the memory has 128",
        """
        def kernel(x):
            tile = nl.ndarray((129, 4), dtype=nl.float32, buffer=nl.sbuf)
            nisa.memset(tile, 0.0)
        """,
    ),
    "overlapping-split": kernel(
        "warning[overlapping-split]: the cores read overlapping parts of input x and leave its end "
        "unread: core 0 bytes 0:2048, core 1 bytes 128:2176 of 4096; neither reads 2176:4096",
        """
        def kernel(x):
            core = nl.program_id(0)
            tile = nl.ndarray((32, 16), dtype=nl.float32, buffer=nl.sbuf)
            nisa.dma_copy(dst=tile, src=x.ap([[16, 32], [1, 16]], offset=32 * core))
        """,
        lnc=2,
    ),
    "barrier-not-shared": two_cores(
        "warning[barrier-not-shared]: the barrier's tensor mine: float32[1, 512] in sbuf is not in shared HBM: the "
        "other core does not see it, so the barrier orders no access of that core",
        "    nisa.core_barrier(mine, (0, 1))",
    ),
    "adjacent-barriers": two_cores(
        "note[adjacent-barriers]: this barrier repeats another: no core accesses what they order between them",
        f"{MEET}\n{MEET}",
    ),
    "redundant-barrier": two_cores(
        "note[redundant-barrier]: this barrier orders no accesses inside the kernel: no byte of out is accessed by "
        "one core before it and by another after it, with a write among them",
        end="    nisa.core_barrier(out, (0, 1))",
    ),
    "assumed-loop-count": traced(
        "note[assumed-loop-count]: the trip count of this loop is known on the device only: the trace assumes 2 "
        "iterations",
        """
        def kernel(count):
            counted = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.sbuf)
            nisa.dma_copy(dst=counted, src=count)
            tile = nl.ndarray((4, 16), dtype=nl.float32, buffer=nl.sbuf)
            for _ in nl.dynamic_range(0, nisa.register_alloc(counted)):
                nisa.memset(tile, 0.0)
        """,
    ),
    "undefined-result": kernel(
        "note[undefined-result]: `data` of `tensor_scalar` has integers above 2^24, which float32 rounds",
        """
        def kernel(x):
            out = nl.ndarray((64, 16), dtype=nl.int32, buffer=nl.shared_hbm)
            tile = nl.ndarray((64, 16), dtype=nl.int32, buffer=nl.sbuf)
            nisa.memset(tile, 16777217)
            nisa.tensor_scalar(dst=tile, data=tile, op0=nl.maximum, operand0=0.0)
            nisa.dma_copy(dst=out, src=tile)
            return out
        """,
    )._replace(command="haulout simulate example.py::kernel --lnc 1 --arg x=f32[64,16]"),
    "assumed-register": kernel(
        "warning[assumed-register]: the value of this register is known on the device only: the trace assumes 0",
        """
        def kernel(count):
            counted = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.sbuf)
            nisa.dma_copy(dst=counted, src=count)
            rows = nisa.register_alloc(counted)
            tile = nl.ndarray((4, 16), dtype=nl.float32, buffer=nl.sbuf)
            nisa.memset(tile[0 : int(rows) + 1, :], 0.0)
        """,
        "--arg count=i32[1,1]",
    ),
}
