"""The rules of the hardware: one row each, with what the NKI documentation and the architecture guides ask.

`hardware_rules.py` and its siblings report a breach by the name of its row. The row has the targets, the severity and
the text of the finding's note; `tools/make_docs.py` prints the same rows into docs/nki.md. An error is a documented
limit or one that the compiler is known to enforce; a warning is inferred from both; a note is a hint about speed.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType

from haulout.support.diagnostics import Severity

TARGETS = ("gen2", "gen3", "gen4")
"""Generations: Trainium 1 and Inferentia 2, Trainium 2, Trainium 3."""
MAX_PARTITIONS = 128
SBUF_BYTES = MappingProxyType({"gen2": 192 << 10, "gen3": 224 << 10, "gen4": 256 << 10})
"""Bytes of SBUF in each partition, by target."""
SBUF_USABLE = MappingProxyType({"gen2": 192 << 10, "gen3": (224 << 10) - (16 << 10) - 8, "gen4": 256 << 10})
"""The same without what the compiler keeps for itself (scratch of dynamic DMA); published for no other target."""
PSUM_BYTES = 16 << 10
"""Bytes of PSUM in each partition, on every target."""
BANK_BYTES = 2048
"""Bytes of a PSUM bank in each partition."""

HARDWARE = "hardware-rule"


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule."""

    name: str
    section: str
    """Where the documentation lists it."""
    asks: str
    """What an instruction must fulfil."""
    targets: tuple[str, ...] = TARGETS
    """Where a breach is one."""
    severity: Severity = Severity.ERROR
    code: str = HARDWARE
    """The code of the finding, where the limit has one of its own."""

    @property
    def note(self) -> str:
        """The rule as a note of a finding."""
        where = "all targets" if self.targets == TARGETS else ", ".join(self.targets)
        return f"rule {self.name} ({where}): {self.asks}"


_WARNING, _NOTE = Severity.WARNING, Severity.NOTE
_OLD, _NEW = ("gen2", "gen3"), ("gen3", "gen4")

_MEMORY = (
    Rule("hbm-operand", "memory", "compute engines read and write SBUF and PSUM, not HBM"),
    Rule("pool-psum", "memory", "GpSimd reads and writes SBUF, not PSUM"),
    Rule("both-psum", "memory", "at most one of data1 and data2 (`tensor_tensor`), data and operand1 "
         "(`scalar_tensor_tensor`), data0 and data1 (`tensor_tensor_scan`), src and predicate "
         "(`tensor_copy_predicated`), on_true and predicate (`select_reduce`) is in PSUM"),
    Rule("sbuf-only", "memory", "all operands of `quantize_mx` and the seeds of `rand_set_state` are in SBUF"),
    Rule("sbuf-size", "memory", "the tensors that live at one time fit a partition of SBUF: 192, 224 and 256 KiB "
         "on gen2, gen3 and gen4", code="over-capacity"),
    Rule("sbuf-usable", "memory", "the compiler keeps 16 KiB and 8 bytes of each partition of SBUF for dynamic DMA",
         ("gen3",), _WARNING, "over-capacity"),
    Rule("psum-size", "memory", "the tensors that live at one time fit a partition of PSUM: 16 KiB",
         code="over-capacity"),
    Rule("psum-tile", "memory", "a tensor in PSUM fits a bank, 2048 bytes in each partition, or its inner "
         "dimensions are tiles that fill banks evenly", _OLD, _WARNING),
    Rule("psum-address", "memory", "an address in PSUM that a kernel chooses is the start of a bank, a multiple of "
         "2048", severity=_WARNING),
    Rule("dims-2", "memory", "a tensor in SBUF or PSUM has at least 2 dimensions"),
    Rule("no-64-bit", "memory", "elements have at most 32 bits"),
)  # fmt: skip

_PARTITIONS = (
    Rule("partitions", "partitions", "a tensor in SBUF or PSUM spans at most 128 partitions",
         code="partition-limit"),
    Rule("part-128", "partitions", "an operand in SBUF or PSUM spans at most 128 partitions"),
    Rule("start-part", "partitions", "an operand of a compute engine starts at partition 0, 32, 64 or 96; at 0 or "
         "64 if it spans more than 32; at 0 if it spans more than 64. `nc_stream_shuffle` counts the larger of its "
         "operands, rounded up to 32. DMA starts anywhere"),
    Rule("ap-partition", "partitions", "an operand in SBUF or PSUM takes neighbouring partitions in their order: "
         "the first stride of an access pattern is the number of elements in each partition of its tensor"),
    Rule("rank-3", "partitions", "most instructions of compute engines take at most 3 free dimensions, not "
         "counting those of size 1 and those that are contiguous", severity=_WARNING),
    Rule("rank-4", "partitions", "a compute engine addresses at most 4 free dimensions"),
    Rule("stride-16", "partitions", "an instruction has 16 bits for a free stride (at most 32767 elements) and for "
         "the elements in each partition (at most 65535)", severity=_WARNING),
)  # fmt: skip

_TENSOR = (
    Rule("mm-dst-psum", "tensor engine", "`nc_matmul` and `nc_matmul_mx` write PSUM"),
    Rule("mm-src-sbuf", "tensor engine", "`nc_matmul` and `nc_matmul_mx` read SBUF"),
    Rule("mm-moving", "tensor engine", "moving has at most 512 elements in each partition; on gen4 4096, or 8192 "
         "if dst is bfloat16"),
    Rule("mm-stationary", "tensor engine", "stationary has at most 128 elements in each partition and at most 128 "
         "partitions, or the column and row size of its tile"),
    Rule("mm-shape", "tensor engine", "stationary [K, M] and moving [K, N] give dst [M, N]", code="kernel-error"),
    Rule("mm-bank", "tensor engine", "what a matrix multiplication writes in a partition lies in one bank of 2048 "
         "bytes", _OLD),
    Rule("mm-dtype", "tensor engine", "`nc_matmul` takes float8_e4m3, float8_e5m2, bfloat16, float16, tfloat32 and "
         "float32, on gen4 float8_e4m3fn, not together with float8_e4m3; 32-bit types only with 32-bit types. dst "
         "is float32, on gen4 or bfloat16, and with `is_transpose` of 16 or 32 bits"),
    Rule("mm-tr-dtype", "tensor engine", "`nc_matmul` with `is_transpose` keeps the type; float8 becomes 16 bits",
         _NEW, _WARNING),
    Rule("mm-double-row", "tensor engine", "perf_mode double_row, from gen3 on: both operands are float8 with a "
         "first free dimension of 2; no column tiles, no `is_transpose`"),
    Rule("mm-tile", "tensor engine", "tile_position and tile_size are given together; sizes are 128, 64 or, from "
         "gen3 on, 32; a position is a multiple of the size, inside the 128 by 128 array"),
    Rule("mm-tile-dst", "tensor engine", "the result of a column tile starts at the partition of its column",
         severity=_WARNING),
    Rule("mm-acc", "tensor engine", "`accumulate=True` adds to what a matrix multiplication wrote; adding to "
         "anything else, such as a `memset`, is undefined", _OLD),
    Rule("mx-shape", "tensor engine", "`nc_matmul_mx`: 32, 64, 96 or 128 partitions; stationary an even number of "
         "at most 128 elements, moving at most 4096, or 8192 if dst is bfloat16; scales as many partitions as the "
         "data, or an eighth of 32; no column tiles. `quantize_mx`: a multiple of 32 partitions and of 4 elements, "
         "dst a quarter of them"),
    Rule("mx-dtype", "tensor engine", "`nc_matmul_mx`: data of 4-packed types, scales float8_e8m0fnu or uint8, dst "
         "float32 or bfloat16. `quantize_mx`: float16 or bfloat16 to a 4-packed float8"),
    Rule("tr-dtype", "tensor engine", "`nc_transpose` keeps the type"),
    Rule("tr-size", "tensor engine", "`nc_transpose` takes 128 by 128 elements on the tensor engine, 32 by 32 on "
         "the vector engine; dst has the partitions of data as elements, and its elements as partitions"),
    Rule("tr-mem", "tensor engine", "`nc_transpose` on the tensor engine reads SBUF and writes PSUM"),
)  # fmt: skip

_ELEMENTWISE = (
    Rule("free-size", "element-wise", "full operands have as many elements in each partition as dst; none is "
         "broadcast"),
    Rule("vector-shape", "element-wise", "operand0 and operand1 of `tensor_scalar`, scale, bias, bounds, initial, "
         "max_value, prob and reduce_res are numbers or have one element in each partition of dst"),
    Rule("ts-f32", "element-wise", "vectors of `tensor_scalar` with arithmetic operators, scales of `activation`, "
         "and bounds of `range_select` are float32, as are imm0 and imm1 of `tensor_scalar_cumulative` and "
         "max_value of `exponential`"),
    Rule("op-class", "element-wise", "bitwise operators take and give integers, run on the vector engine, and do "
         "not combine with arithmetic ones; `scalar_tensor_tensor`, `tensor_scalar_reduce` and scans have "
         "arithmetic ones only"),
    Rule("op-missing", "element-wise", "`divide`, `mod` and `fmod` are not operators of the hardware"),
    Rule("op-reduce", "element-wise", "reductions: `activation` adds; `tensor_scalar_reduce` and scans of "
         "`tensor_scalar_cumulative` add, multiply, or take the maximum or minimum; `range_select` and "
         "`select_reduce` take the maximum; `tensor_reduce` has no comparisons, shifts, `power` or unary "
         "operators; `tensor_partition_reduce` has add, average, max, bitwise_or and bitwise_and"),
    Rule("op-pair", "element-wise", "`activate2` has (multiply, add), (multiply, subtract), (multiply, bypass), "
         "(add, bypass), (subtract, bypass) and (bypass, bypass)"),
    Rule("reduce-axis", "element-wise", "`tensor_reduce` reduces the last free dimensions; dst has the elements of "
         "the others"),
    Rule("scalar-ops", "element-wise", "`tensor_scalar` on the scalar engine: multiply, add, or multiply then add",
         ("gen3",)),
    Rule("pool-ops", "element-wise", "`tensor_scalar` on GpSimd: rsqrt", severity=_WARNING),
    Rule("eng-choice", "element-wise", "the engine is one that has the instruction: `tensor_copy` and "
         "`tensor_scalar` vector, scalar, gpsimd; `tensor_tensor`, `memset`, `rng`, `rand_set_state`, "
         "`rand_get_state` vector, gpsimd; `nc_transpose` tensor, vector; `activation` scalar, gpsimd"),
    Rule("eng-copy", "element-wise", "the scalar engine has no `tensor_copy`", ("gen2",)),
    Rule("act-bias", "element-wise", "the bias of an `activation` is a tensor, and reciprocal has none", ("gen2",)),
    Rule("act-range", "element-wise", "`activation` is valid for log in [2^-64, 2^64], sqrt in [2^-116, 2^118], "
         "rsqrt in [2^-87, 2^97], reciprocal in ±[2^-42, 2^42], sin in [-pi, pi], arctan in [-pi/2, pi/2]",
         severity=_WARNING),
    Rule("select-dtype", "element-wise", "`tensor_copy_predicated`: predicate uint8, uint16 or uint32, src and dst "
         "of one type. `select_reduce`: predicate of 8 or 16 bits, on_true not tfloat32, int32 or uint32. "
         "`range_select`: on_true_tile a float, on_false_value the least float32. `tensor_scalar_cumulative`: no "
         "int32, no uint32. `dropout`: dst of the type of data"),
    Rule("memset-kind", "element-wise", "`memset` of integers takes an integer, of 4-packed types 0"),
    Rule("memset-float", "element-wise", "`memset` of integers takes an integer, no whole number as a float",
         severity=_WARNING),
)  # fmt: skip

_SIZES = (
    Rule("bn-512", "sizes", "`bn_stats` takes at most 512 elements in each partition and gives 6; `bn_aggr` takes "
         "triples"),
    Rule("find-16384", "sizes", "`max8` and `nc_find_index8` take 8 to 16384 elements in each partition, "
         "`nc_match_replace8` at most 16384; vals and results have 8, indices are uint16 or uint32"),
    Rule("gather-16", "sizes", "`local_gather`: a multiple of 16 partitions, as many in index; uint16 indices, at "
         "most 4096 for 16 partitions; num_elem_per_idx 1, 2, 4, 8, 16 or 32; no conversion. `nc_n_gather`: uint32 "
         "indices, as many as dst has elements; no conversion"),
    Rule("shuffle-mask", "sizes", "`nc_stream_shuffle`: 32 entries, 0 to 31 or 255; src and dst of one type and "
         "number of elements"),
    Rule("pattern-size", "sizes", "the pattern of `iota` and `affine_select` has at most 4 dimensions, and as many "
         "elements as a partition of dst"),
    Rule("count-shape", "sizes", "`nonzero_with_count`: float32 or int32 to int32, dst one element longer than "
         "src. `topk`: bfloat16, indices uint32, a multiple of 16 partitions, 8 <= n < 65536. `sequence_bounds`: "
         "float32 or int32, one partition. `set_rng_seed`: one element of 32 bits"),
)  # fmt: skip

_DMA = (
    Rule("dma-psum", "DMA", "DMA does not read PSUM; `dma_transpose` and `dma_compute` do not write it"),
    Rule("dma-to-psum", "DMA", "`dma_copy` writes HBM and SBUF", severity=_WARNING),
    Rule("hwdge-dtype", "DMA", "dge_mode hwdge does not convert types"),
    Rule("hwdge-gather", "DMA", "dge_mode hwdge takes one index for all partitions; an index for each is swdge's"),
    Rule("hwdge-engine", "DMA", "`engine` of a DMA is sync or scalar, with dge_mode hwdge only"),
    Rule("tr-axes", "DMA", "`dma_transpose` has axes (1, 0), (2, 1, 0) and (3, 1, 2, 0), into SBUF, without "
         "conversion; dst has the transposed shape"),
    Rule("tr-hwdge", "DMA", "`dma_transpose` with dge_mode hwdge: elements of 2 bytes, a last dimension of at most "
         "128; the first dimension is 16, with 3 or 4 dimensions 1, 2, 4, 8 or 16, and its product with the last "
         "but one a multiple of 16"),
    Rule("tr-gather", "DMA", "`dma_transpose` with an index for each row: src in HBM, elements of 2 bytes, rows a "
         "multiple of 16, a last dimension of at most 128; uint32 indices in SBUF on 16 to 128 partitions, a "
         "multiple of 16, and on 128 if they have more columns; no hwdge"),
    Rule("dma-compute", "DMA", "`dma_compute` adds at most 16 tensors of the size of dst, with scales of 1; with "
         "an index for each row it has two, one of which is dst"),
    Rule("index-place", "DMA", "an index for each partition is a tensor in SBUF that selects rows of a tensor in "
         "HBM"),
    Rule("oob-known", "DMA", "with oob_mode error, known indices are inside of their tensor", code="out-of-bounds"),
    Rule("oob-skip", "DMA", "oob_mode skip needs an operand with an index"),
    Rule("sendrecv-bytes", "DMA", "`sendrecv` through gpsimd_dma takes 1024, 512 or 256 bytes of each partition, "
         "for elements of 4, 2 or 1 bytes", _NEW),
    Rule("dma-small", "speed", "a DMA is efficient from 512 contiguous bytes on, best with 4096; below, the fixed "
         "cost of each piece dominates", severity=_NOTE),
    Rule("dma-tr-sbuf", "speed", "a DMA transposes inside of SBUF at half its speed; `nc_transpose` is faster if "
         "the vector and scalar engines have time to move its result out of PSUM", _NEW, _NOTE),
    Rule("dma-tr-tiles", "speed", "a DMA transposes best into a multiple of 128 partitions and of 16 elements",
         _NEW, _NOTE),
)  # fmt: skip

_GENERATIONS = (
    Rule("gen", "targets", "the target has the instruction: `core_barrier`, `sendrecv`, `range_select`, "
         "`nonzero_with_count`, `rand_set_state`, `rand_get_state`, `rng` on GpSimd, dge_mode hwdge and transposes "
         "by index are from gen3 on; `nc_matmul_mx`, `quantize_mx`, `exponential`, `activate2`, `rand2`, "
         "`rand_set_state` and `rand_get_state` of the vector engine, `activation` on GpSimd, `priority` of a DMA, "
         "abs_max, abs_min, and square or relu in `tensor_scalar` from gen4 on", _OLD),
    Rule("gen-idx", "targets", "no published kernel gives `nc_match_replace8` a dst_idx on gen2",
         ("gen2",), _WARNING),
)  # fmt: skip

RULES = MappingProxyType(
    {
        rule.name: rule
        for rules in (_MEMORY, _PARTITIONS, _TENSOR, _ELEMENTWISE, _SIZES, _DMA, _GENERATIONS)
        for rule in rules
    }
)
"""Every rule by its name."""
