"""The table of opcodes: what each one reads, writes, needs and costs, and what follows for its bytes.

A row is all that haulout knows about an opcode without executing it. The simulator adds a function that computes
(`sim/numerics`), the passes a lowering (`passes/collectives`). `tools/make_docs.py` prints the rows into
`docs/opcodes.md`.

    operands      `x, start* -> y`: names of what is read, then of what is written. `x+` stands for n operands, n at
                  least 1, and `x*` for n at least 0; n is the same everywhere. None: any number
    types         on which element types it is defined: p (pred), s (signed), u (unsigned), f (floating point),
                  c (complex)
    typed         its operands need element types; one that is not sees bytes only
    flow          which bytes of a result are made of which bytes of an operand (`Flow`)
    indices       the operands that say which bytes of another are touched
    function      equal operands and equal attributes give equal bytes
    copies        it writes what it reads, perhaps converted
    commutes      its two operands may be exchanged, and applied repeatedly to one place it gives the same in any
                  order (sums and products of floats but for their rounding); so it may accumulate with `atomic=`
    reduces       it may be the `op=` of a reduction
    collective    every core of a group takes part, and reads the operands of the others
    engine        where the front ends put it; DMA0 stands for any DMA queue
    cost          what a target's rates are applied to (`Cost`)
    axes          how its dimensions follow each other when the work is split (`Axes`, `axes.py`)

What is not listed may do anything, which is safe: each byte that it writes may come from each byte that it reads, and
equal operands do not give equal bytes.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace
from functools import lru_cache

from haulout.ir.enums import Engine


class Flow(enum.Enum):
    """Which bytes of a result an opcode makes of which bytes of an operand; the value is its name in the docs."""

    WHOLE = "all"
    """Each byte of a result may come from each byte of an operand."""
    BYTES = "bytes"
    """Byte k of the result is byte k of the operand."""
    ELEMENTS = "elements"
    """Element k of a result is made of element k of each operand, or of an operand's only element."""
    COPIED = "copied elements"
    """Elements, where there are as many on both sides."""
    PARTITIONED = "partitioned elements"
    """Elements, where there are as many on both sides; else partitions."""
    PARTITIONS = "partitions"
    """What is in a partition is made of what is in the same partition of each operand."""
    TRANSPOSED = "transposed"
    """Element k of a partition is made of partition k of the operand."""
    PRODUCT = "product"
    """A matrix product: rows of one operand, columns of the other."""


class Cost(enum.Enum):
    """What an instruction's time is estimated from (`analysis/durations.py`)."""

    BYTES = "bytes"
    """The bytes of all operands."""
    PART = "bytes written, twice"
    """It reads as many bytes as it writes, whatever its operand has."""
    DOT = "bytes, flops"
    """And the multiplications of a `dot`."""
    CONVOLUTION = "bytes, flops of the taps"
    """And those of a `convolution`."""
    NOTHING = "none of its own"
    """It costs what it waits for."""


class Axes(enum.Enum):
    """By which rule the dimensions of operands follow those of the results (`axes.py`); the value explains it."""

    NONE = "none: the opcode is not known"
    ATOMIC = "none: it is atomic"
    OWN = "none: each core has a result of its own"
    KERNEL = "none: the kernel says what each core does"
    NOTHING = "none: it has no result"
    MATRICES = "none: it takes whole lines or matrices"
    PATTERN = "by its patterns"
    SAME = "the same dimension of each operand; all of an operand of one element"
    RESULT = "any dimension of the result"
    COUNTED = "any dimension; along `dim` a part has its own `start`"
    GATHERING = "pieces of the result, one a member"
    PLACED = "dimension i of x follows `dims[i]`"
    PADDED = "the same dimension of x; a part has padding of its own"
    DOT = "batch and free dimensions of x and y follow theirs of z; others are contracted"
    CONVOLUTION = "batch, output features, groups; spatial ones overlap; input features are contracted"
    KEPT = "kept dimensions; `dims` are contracted"
    WINDOW = "all dimensions, which overlap"
    NO_WINDOW = "dimensions along which windows neither overlap nor see padding"
    REINTERPRETED = "dimensions that both have"
    LINES = "all dimensions but the one of the lines"
    TAKEN_WHOLE = "dimensions that are taken whole"
    GATHERED = "dimensions of x that slices have whole, dimensions of the indices, and batching dimensions"
    SCATTERED = "window dimensions that updates have whole, and batching dimensions"

    @property
    def obstacle(self) -> str | None:
        """Why no instruction with this rule is ever cut; None: it may be."""
        _, is_none, reason = self.value.partition("none: ")
        return reason if is_none else None


@dataclass(frozen=True, slots=True)
class Operands:
    """How many operands an opcode has: names, some of which stand for n operands."""

    reads: tuple[str, ...]
    writes: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> Operands:
        """`x, start* -> y`"""
        sides = (tuple(filter(None, map(str.strip, side.split(",")))) for side in text.split("->"))
        return cls(*sides)

    @property
    def text(self) -> str:
        """As it was parsed."""
        return f"{', '.join(self.reads)} -> {', '.join(self.writes)}".strip()

    def counts(self, n: int = 1) -> tuple[int, int]:
        """How many operands and results, when a repeated one stands for `n`."""
        reads, writes = (sum(n if name[-1] in "+*" else 1 for name in side) for side in (self.reads, self.writes))
        return reads, writes

    def repeats(self, reads: int) -> int | None:
        """The n with which it reads so many operands; None: there is none."""
        fixed, one_more = self.counts(0)[0], self.counts(1)[0]
        n, left = divmod(reads - fixed, one_more - fixed) if one_more > fixed else (1, reads - fixed)
        least = any(name.endswith("+") for name in self.reads)
        return n if left == 0 and n >= least else None

    def name(self, operand: int, n: int) -> str:
        """The name of an operand that is read, when a repeated one stands for `n`."""
        names = [name for name in self.reads for _ in range(n if name[-1] in "+*" else 1)]
        return names[operand].rstrip("+*")


@dataclass(frozen=True, slots=True)
class Opcode:
    """A row; the module's docstring tells what the columns mean."""

    name: str
    section: str
    """Of `docs/opcodes.md`."""
    operands: Operands | None = None
    attributes: str = ""
    """As the page shows them."""
    does: str = ""
    types: str = ""
    typed: bool = True
    flow: Flow = Flow.WHOLE
    indices: frozenset[str] = frozenset()
    function: bool = False
    copies: bool = False
    commutes: bool = False
    reduces: bool = False
    collective: bool = False
    engine: Engine = Engine.VECTOR
    cost: Cost = Cost.BYTES
    axes: Axes = Axes.NONE

    @property
    def is_nki(self) -> bool:
        """Whether it is an instruction of NKI."""
        return self.name.startswith("nki.")

    def is_index(self, operand: int, reads: int) -> bool:
        """Whether one of the `reads` that an instruction has may be an index, as far as its opcode says."""
        if self.operands is None or not self.indices:
            return bool(self.indices)
        n = self.operands.repeats(reads)
        return n is None or self.operands.name(operand, n) in self.indices


_DMA, _ACT, _POOL, _PE, _VECTOR = Engine.DMA0, Engine.ACT, Engine.POOL, Engine.PE, Engine.VECTOR

ORDERED, REALS, FLOATS, BITS, INTEGERS = "psuf", "suf", "f", "psu", "su"
ALL_TYPES, NUMBERS, CONTINUOUS, COMPLEX = "psufc", "sufc", "fc", "c"


def _op(section: str, name: str, operands: str, does: str, attributes: str = "", **facts: object) -> Opcode:
    """A row of the opcodes that come from HLO, which are functions of their operands."""
    known = {"function": True} | facts
    return Opcode(name, section, Operands.parse(operands), attributes, does, **known)  # type: ignore[arg-type]


def _each(
    names: str, operands: str, types: str, does: str = "", attributes: str = "", **facts: object
) -> tuple[Opcode, ...]:
    """Rows of element-wise opcodes."""
    known = {"types": types, "flow": Flow.ELEMENTS, "axes": Axes.SAME} | facts
    return tuple(_op("element-wise", name, operands, does, attributes, **known) for name in names.split())


_REDUCING = "`op=`, or `body= results=`"
_WINDOW = "`size= stride= pad_low= pad_high= base_dilate= window_dilate=`"

# fmt: off
_MOVING = (
    _op("moving", "dma_copy", "x -> y", "copies the bytes that x's pattern names, in its order, to those that y's "
        "pattern names, in its order; equal counts", typed=False, flow=Flow.BYTES, copies=True, engine=_DMA,
        axes=Axes.PATTERN),
    _op("moving", "memset", "-> y", "every byte of y becomes `value`, 0 to 255", "`value=0`", typed=False,
        engine=_DMA, axes=Axes.RESULT),
)

_ELEMENT_WISE = (
    *_each("add multiply", "x, y -> z", ALL_TYPES, commutes=True, reduces=True),
    *_each("maximum minimum", "x, y -> z", ORDERED, commutes=True, reduces=True),
    *_each("subtract divide", "x, y -> z", NUMBERS),
    *_each("remainder", "x, y -> z", REALS),
    *_each("power", "x, y -> z", NUMBERS, engine=_ACT),
    *_each("atan2", "x, y -> z", FLOATS, engine=_ACT),
    *_each("and or", "x, y -> z", BITS, commutes=True, reduces=True),
    *_each("xor", "x, y -> z", BITS, commutes=True),
    *_each("not", "x -> y", BITS),
    *_each("shift_left shift_right_logical shift_right_arithmetic", "x, y -> z", INTEGERS),
    *_each("negate", "x -> y", NUMBERS),
    *_each("abs", "x -> y", NUMBERS, "of complex numbers the real magnitude"),
    *_each("sign", "x -> y", REALS),
    *_each("complex", "real, imag -> y", FLOATS, "`f32` to `c64`, `f64` to `c128`"),
    *_each("real imag", "x -> y", COMPLEX, "a part, as a real number"),
    *_each("popcnt count_leading_zeros", "x -> y", INTEGERS),
    *_each("floor ceil round_nearest_even round_nearest_afz is_finite", "x -> y", FLOATS),
    *_each("exponential exponential_minus_one log log_plus_one tanh sqrt rsqrt sine cosine tan", "x -> y", CONTINUOUS,
           engine=_ACT),
    *_each("logistic cbrt erf", "x -> y", FLOATS, engine=_ACT),
    *_each("copy", "x -> y", ALL_TYPES, copies=True),
    *_each("compare", "x, y -> z", ALL_TYPES, "complex numbers only by `EQ` and `NE`. NaN compares false but for "
           "`NE`. With `_TOTAL` behind the direction the same in the total order: -NaN < -inf < ... < -0 < +0 < ... "
           "< inf < NaN",
           "`direction=EQ|NE|LT|LE|GT|GE`"),
    *_each("select", "predicate, on_true, on_false -> y", ALL_TYPES),
    *_each("clamp", "low, x, high -> y", ORDERED, "min(max(x, low), high)"),
    *_each("convert", "x -> y", ALL_TYPES, "any type to any type; not complex to real"),
    *_each("reduce_precision", "x -> y", FLOATS, "rounded, to nearest even, to a float with so many bits, and kept "
           "in its own type (`f16 bf16 f32 f64`); too large becomes infinite, too small, subnormals among it, zero",
           "`exponent_bits=INT mantissa_bits=INT`"),
    *_each("bitcast_convert", "x -> y", ALL_TYPES, "the same bytes as another type; a narrower type adds a last "
           "dimension, a wider one takes it away", flow=Flow.BYTES, axes=Axes.REINTERPRETED),
    *_each("fetch_and_op", "place, x -> place, old", ALL_TYPES, "what `op` makes of both is written to the place, "
           "and what the place held before to `old`; `atomic=[0,2]` says that it happens in one step",
           "`op=add|multiply|maximum|minimum|and|or|xor`", flow=Flow.WHOLE, function=False, axes=Axes.ATOMIC),
)

_MAPS = (
    _op("maps", "map", "x+ -> y", "a computation on scalars for each element; its statements are element-wise, and "
        "each rounds to its own type; an operand of one element stands for all", "`body= results=`",
        flow=Flow.ELEMENTS, axes=Axes.SAME),
    _op("maps", "map_reduce", "x+, init -> y", "`reduce` of what `map` makes of the x, which it does not store",
        "`dims=[..] op=`, `body= results=`", axes=Axes.KEPT),
)

_ARRANGING = (
    _op("arranging", "broadcast", "x -> y", "dimension i of x becomes dimension `dims[i]` of y", "`dims=[..]`",
        engine=_DMA, axes=Axes.PLACED),
    _op("arranging", "iota", "-> y", "every element is `start` (0 when absent) and its index along `dim`",
        "`dim=INT start=INT`", engine=_POOL, axes=Axes.COUNTED),
    _op("arranging", "pad", "x, value -> y", "padding around and between; `low` and `high` may be negative, which "
        "cuts", "`low=[..] high=[..] interior=[..]`", engine=_DMA, axes=Axes.PADDED),
    _op("arranging", "dynamic_slice", "x, start* -> y", "a box of x; there is a start for each dimension, clamped so "
        "that the box is inside", "`sizes=[..]`", indices=frozenset({"start"}), engine=_DMA, cost=Cost.PART,
        axes=Axes.TAKEN_WHOLE),
    _op("arranging", "dynamic_update_slice", "x, update, start* -> y", "x with a box replaced; starts are clamped",
        indices=frozenset({"start"}), engine=_DMA, axes=Axes.TAKEN_WHOLE),
)

_TRANSFORMS = (
    _op("transforms", "fft", "x -> y", "along the last dimensions, as many as `length` has; `RFFT` takes real "
        "numbers and gives half of the spectrum, `IRFFT` the other way round; inverse ones divide by the number of "
        "elements",
        "`type=FFT|IFFT|RFFT|IRFFT length=[..]`", types=CONTINUOUS, engine=_POOL, axes=Axes.MATRICES),
)

_CONTRACTIONS = (
    _op("contractions", "dot", "x, y -> z", "the dimensions of z are the batch ones, the free ones of x, the free "
        "ones of y", "`lhs_batch=[..] lhs_contracting=[..] rhs_batch=[..] rhs_contracting=[..]`", engine=_PE,
        cost=Cost.DOT, axes=Axes.DOT),
    _op("contractions", "convolution", "x, kernel -> y", "a window of the kernel's size slides over x", "in the "
        "table below", engine=_PE, cost=Cost.CONVOLUTION, axes=Axes.CONVOLUTION),
)

_REDUCTIONS = (
    _op("reductions", "reduce", "x+, init+ -> y+", "reduces `dims` away; a sum of `f32` is carried in `f64`",
        f"`dims=[..]`, {_REDUCING}", axes=Axes.KEPT),
    _op("reductions", "combine", "part+ -> y", "element by element, from left to right", "`op=`",
        flow=Flow.ELEMENTS, axes=Axes.SAME),
    _op("reductions", "reduce_window", "x+, init+ -> y+", "a reduction at every stop of a window",
        f"{_WINDOW}, {_REDUCING}", engine=_POOL, axes=Axes.WINDOW),
    _op("reductions", "select_and_scatter", "x, source, init -> y", "in each window the element of x that `select` "
        "keeps receives the window's source element, by `op`",
        "`select=GE|GT|LE|LT op= size= stride= pad_low= pad_high=`", engine=_POOL, axes=Axes.NO_WINDOW),
    _op("reductions", "topk", "x -> values, indices", "the k largest or smallest along the last dimension, in order; "
        "equal ones by place; floats in total order; the indices are `s32`", "`k=INT largest=BOOL`", engine=_POOL,
        axes=Axes.LINES),
    _op("reductions", "sort", "x+ -> y+", "each line along `dim` in the order of the comparison, equal ones by "
        "place; the arrays move together", "`dim=INT`, `body= results=`", engine=_POOL, axes=Axes.LINES),
)

_INDEXING = (
    _op("indexing", "gather", "x, indices -> y", "a slice of x for each index; a start is clamped so that its slice "
        "is inside", "`offset_dims collapsed_slice_dims start_index_map operand_batching_dims start_indices_batching_"
        "dims index_vector_dim slice_sizes`", indices=frozenset({"indices"}), engine=_POOL, cost=Cost.PART,
        axes=Axes.GATHERED),
    _op("indexing", "scatter", "x+, indices, update+ -> y+", "x with an update for each index; one whose window is "
        "not inside is dropped; `op=assign` writes the update; updates of one element are applied in their row-major "
        "order", "`update_window_dims inserted_window_dims scatter_dims_to_operand_dims input_batching_dims "
        f"scatter_indices_batching_dims index_vector_dim`, and {_REDUCING}", indices=frozenset({"indices"}),
        engine=_POOL, axes=Axes.SCATTERED),
)

_LINEAR_ALGEBRA = tuple(
    _op("linear-algebra", name, operands, does, attributes, types=FLOATS, engine=_POOL, axes=Axes.MATRICES)
    for name, operands, attributes, does in (
        ("cholesky", "x -> y", "`lower=BOOL`", "the triangular factor, zeros in the other triangle; NaN where x is "
         "not positive definite"),
        ("triangular_solve", "a, b -> x", "`left=BOOL lower=BOOL unit=BOOL transpose=BOOL`", "x with op(a) x = b, or "
         "x op(a) = b; one triangle of a is read, without its diagonal if that is `unit`"),
        ("lu", "x -> packed, pivots, info", "", "both factors in one matrix; the row that each row was exchanged "
         "with, from 0"),
        ("qr", "x -> packed, factors", "", "R, and below its diagonal Householder's vectors; their factors"),
        ("householder_product", "vectors, factors -> q", "", "the first columns of the product of these reflections"),
        ("eigh", "x -> vectors, values, info", "`lower=BOOL`", "of symmetric matrices, values rising; one triangle "
         "is read"),
        ("svd", "x -> values, left, right, info", "`full=BOOL`", "singular values, falling; right is transposed"),
    )
)

_COLLECTIVES = tuple(
    _op("collectives", name, "x+ -> y+", does, attributes, function=False, collective=True, engine=_POOL,
        axes=Axes.GATHERING if name in ("all_reduce", "all_gather") else Axes.OWN)
    for name, attributes, does in (
        ("all_reduce", "`op= groups=[[core,..],..]`", "`op` over the members' operands, in the order of the group"),
        ("all_gather", "`dim= groups=`", "the members' operands, concatenated along `dim`"),
        ("reduce_scatter", "`op= dim= groups=`", "its own piece, along `dim`, of what `all_reduce` gives"),
        ("all_to_all", "`groups=`, perhaps `dim=`", "with `dim`, piece j along it is the member's own piece of "
         "member j's operand; without, operand i goes to member i and result i comes from member i"),
        ("collective_permute", "`pairs=[[source,target],..]`", "the source's operand; zeros on a core that is no "
         "target"),
    )
)

_RENDEZVOUS = (
    Opcode("core_barrier", "rendezvous", None,
           '`name="..."` (required), `cores=[..]` (all when absent), `index=INT`, `made_by=NAME`',
           "touches nothing; waits until every participant is there", engine=Engine.ALL,
           typed=False, cost=Cost.NOTHING, axes=Axes.NOTHING),
    Opcode("sendrecv", "rendezvous", None, '`to=INT from=INT tag="..."`', "two events: it *arrives*, reading what it "
           "sends; it *completes* when the arrivals of its `to` and its `from` are over too, writing what `from` has "
           "read", flow=Flow.BYTES, engine=Engine.SYNC, typed=False, cost=Cost.NOTHING, axes=Axes.OWN),
    Opcode("nop", "rendezvous", None, "", "nothing; dependences and semaphores may be tied to it",
           engine=Engine.SYNC, typed=False, cost=Cost.NOTHING, axes=Axes.NOTHING),
)


def _nki(names: str, flow: Flow = Flow.WHOLE, **facts: object) -> tuple[Opcode, ...]:
    """Rows of opcodes of NKI: functions, where `args` gives all arguments."""
    known = {"function": True, "axes": Axes.KERNEL} | facts
    return tuple(Opcode(f"nki.{name}", "nki", flow=flow, **known) for name in names.split())  # type: ignore[arg-type]


_OF_NKI = (
    *_nki("dma_copy", Flow.COPIED, copies=True),
    *_nki("assign load store", Flow.COPIED),
    *_nki("tensor_copy", Flow.PARTITIONED, copies=True),
    *_nki("tensor_copy_predicated activation activation_reduce tensor_tensor tensor_scalar scalar_tensor_tensor "
          "tensor_scalar_reduce reciprocal exponential range_select select_reduce affine_select", Flow.PARTITIONED),
    *_nki("activate2 tensor_reduce tensor_scalar_cumulative tensor_tensor_scan bn_stats bn_aggr max8 nc_find_index8 "
          "nc_match_replace8", Flow.PARTITIONS),
    *_nki("nc_transpose transpose", Flow.TRANSPOSED),
    *_nki("nc_matmul matmul", Flow.PRODUCT),
    # Functions of `nki.language`, of one tile or element by element.
    *_nki("abs add copy divide equal erf exp floor gelu greater greater_equal less less_equal log logical_and "
          "logical_not logical_or maximum minimum mod multiply negative not_equal power relu rsqrt sigmoid sign silu "
          "sin cos softplus sqrt square subtract tanh where", Flow.PARTITIONED),
    *_nki("max min sum mean var prod all any softmax", Flow.PARTITIONS),
    *_nki("rand random_seed", function=False),
    *_nki("local_gather nc_n_gather", indices=frozenset({"*"})),
    # What they give depends on the state of a random number generator.
    *_nki("dropout", Flow.PARTITIONED, function=False),
    *_nki("rng rand2 rand_get_state", function=False),
)

_NKI_FAMILIES = (
    # Results that differ between the members of a group are no functions of the operands.
    *_nki("all_gather_v reduce_scatter all_to_all collective_permute", collective=True, function=False),
    *_nki("all_gather all_reduce", collective=True),
    Opcode("nki.", "nki", function=True, axes=Axes.KERNEL),
)
"""How the names of other opcodes of NKI begin; the first row that fits holds."""
# fmt: on

_ROWS = (
    *(*_MOVING, *_ELEMENT_WISE, *_MAPS, *_ARRANGING, *_CONTRACTIONS, *_REDUCTIONS, *_INDEXING),
    *(*_LINEAR_ALGEBRA, *_TRANSFORMS),
    *(*_COLLECTIVES, *_RENDEZVOUS, *_OF_NKI),
)
OPCODES: dict[str, Opcode] = {row.name: row for row in _ROWS}
"""Every row by its name."""

UNKNOWN = Opcode("", "")
"""What is known of an opcode that is not in the table: nothing."""

OPAQUE = "hlo."
"""How the names of instructions begin that a front end does not understand: what they may do is not known."""
FETCH = "fetch_and_op"
COLLECTIVES = tuple(row.name for row in _COLLECTIVES)
NKI_COMMUTING = frozenset(
    ["add", "multiply", "maximum", "minimum", "logical_and", "logical_or", "bitwise_and", "bitwise_or"]
)
"""Operators of `nki.tensor_tensor` whose two operands may be exchanged."""
COMMUTING = frozenset(row.name for row in _ROWS if row.commutes)
REDUCTIONS = tuple(row.name for row in _ROWS if row.reduces)


@lru_cache(maxsize=1024)
def lookup(name: str) -> Opcode:
    """The row of an opcode, or one that says no more than is known of its family."""
    if name in OPCODES:
        return OPCODES[name]
    found = next((row for row in _NKI_FAMILIES if name.startswith(row.name)), UNKNOWN)
    return replace(found, name=name)
