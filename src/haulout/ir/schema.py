"""The tables: every column of the program, its dtype, what it holds, and the table that an id points into.

A row number is an id; `NONE` (-1) is null; ranges are half-open. Rows stand in layout order: modules by core,
functions inside modules, blocks inside functions, instructions inside blocks, accesses inside instructions with
the reads first. So a child's parent column never falls, and a range of children is two binary searches.

`verify.py` walks these declarations to find dangling ids; the docs' table reference is generated from them.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field, fields
from functools import cache
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from haulout.ir.enums import NONE
from haulout.ir.limits import INT32_MAX as INT32_MAX
from haulout.ir.limits import INT64_MAX as INT64_MAX
from haulout.ir.limits import MAX_CORES as MAX_CORES
from haulout.ir.limits import SIZE_MAX as SIZE_MAX

Column = npt.NDArray[Any]
Bools = npt.NDArray[np.bool_]
Bytes = npt.NDArray[np.uint8]
Ids = npt.NDArray[np.int32]
Ints = npt.NDArray[np.int64]


def column(
    dtype: type[np.generic],
    doc: str,
    *,
    to: str | None = None,
    null: bool = False,
    default: int | None = None,
) -> Any:
    """Declare a column: `to` names the table that its ids point into, `null` allows NONE in it."""
    if default is None:
        default = NONE if null else 0
    return field(metadata={"dtype": np.dtype(dtype), "doc": doc, "to": to, "null": null, "default": default})


def ids(doc: str, to: str, *, null: bool = False) -> Any:
    """Declare an id column."""
    return column(np.int32, doc, to=to, null=null)


class Table:
    """What every table can do; columns are the dataclass fields of the subclass."""

    parent: ClassVar[str | None] = None
    """The column by which rows are grouped; it never falls."""

    @classmethod
    @functools.cache
    def specs(cls) -> dict[str, dict[str, Any]]:
        """Column name -> dtype, doc, to, null, default. One dict for all callers, as `len` needs it; only read it."""
        return _specs(cls)  # type: ignore[arg-type]

    @classmethod
    def make(cls, rows: int | None = None, **columns: npt.ArrayLike) -> Self:
        """A table from some columns (arrays, lists or one value for all rows); the others take their defaults.

        Without `rows` the length is that of the first column given.
        """
        if rows is None:
            rows = len(np.atleast_1d(np.asarray(next(iter(columns.values())))))
        made = {}
        for name, spec in cls.specs().items():
            value = np.asarray(columns.get(name, spec["default"]), dtype=spec["dtype"])
            made[name] = np.full(rows, value, spec["dtype"]) if value.ndim == 0 else value
            if len(made[name]) != rows:
                raise ValueError(f"{cls.__name__}.{name} has {len(made[name])} rows, not {rows}")
        return cls(**made)

    @classmethod
    def empty(cls) -> Self:
        """No rows."""
        return cls.make(0)

    def __len__(self) -> int:
        return len(getattr(self, next(iter(self.specs()))))

    def columns(self) -> dict[str, Column]:
        """Column name -> array, in schema order."""
        return {name: getattr(self, name) for name in self.specs()}

    def replace(self, **columns: npt.ArrayLike) -> Self:
        """The same table with some columns replaced."""
        return self.make(len(self), **{**self.columns(), **columns})

    def take(self, rows: npt.NDArray[np.integer[Any]] | npt.NDArray[np.bool_] | slice) -> Self:
        """Some rows, by ids, mask or slice, in that order."""
        return type(self)(**{name: values[rows] for name, values in self.columns().items()})

    def append(self, other: Self) -> Self:
        """These rows, then the other's."""
        mine, theirs = self.columns(), other.columns()
        return type(self)(**{name: np.concatenate([mine[name], theirs[name]]) for name in mine})

    def remap(self, maps: dict[str, Ids]) -> Self:
        """The same rows with every id that points into a table of `maps` sent through that map; null stays null."""
        changed = {}
        for name, spec in self.specs().items():
            if spec["to"] in maps:
                old = getattr(self, name)
                # NONE picks the NONE after the map's last entry.
                changed[name] = np.append(maps[spec["to"]], NONE).astype(spec["dtype"])[old]
        return self.replace(**changed) if changed else self

    @property
    def nbytes(self) -> int:
        """Bytes of all columns."""
        return sum(values.nbytes for values in self.columns().values())


@cache
def _specs(table: type[Table]) -> dict[str, dict[str, Any]]:
    return {f.name: dict(f.metadata) for f in fields(table)}  # type: ignore[arg-type]


@dataclass(slots=True)
class Modules(Table):
    """One a core, in the order of the core ids."""

    name: Ids = ids("its name, `nc0`", "strings")
    core: Ids = column(np.int32, "the core it runs on")
    subgraph: Ids = column(np.int32, "the subgraph it was cut from; names the barriers of its groups", null=True)
    attrs: Ids = ids("other attributes, as text", "strings", null=True)


@dataclass(slots=True)
class Functions(Table):
    """Equal names on all cores; the first of a module is its entry."""

    parent = "module"
    name: Ids = ids("unique in its module", "strings")
    module: Ids = ids("the module it belongs to", "modules")
    attrs: Ids = ids("other attributes, as text", "strings", null=True)


@dataclass(slots=True)
class Blocks(Table):
    """In layout order; the first of a function is its entry."""

    parent = "function"
    name: Ids = ids("unique in its function", "strings")
    function: Ids = ids("the function it belongs to", "functions")
    trip: Ints = column(np.int64, "on a loop's header: how often the body runs", null=True)
    cond: Ids = ids("its first element, not zero, takes the first successor", "locations", null=True)
    divergent: Bools = column(np.bool_, "cores may take different branches here")
    attrs: Ids = ids("other attributes, as text", "strings", null=True)
    text_line: Ids = column(np.int32, "line of the `.bir` text it was read from", null=True)


@dataclass(slots=True)
class Edges(Table):
    """Control flow: successors in order. Not sorted by target."""

    parent = "source"
    source: Ids = ids("the block that ends", "blocks")
    target: Ids = ids("the block that may follow", "blocks")


@dataclass(slots=True)
class Instructions(Table):
    """In list order, which is also the order of every engine line."""

    parent = "block"
    name: Ids = ids("unique in its function; null: anonymous, printed by its position", "strings", null=True)
    block: Ids = ids("the block it stands in", "blocks")
    opcode: Ids = ids("what it does (`docs/opcodes.md`)", "strings")
    engine: Bytes = column(np.uint8, "the line it runs on (`Engine`)")
    seq: Ints = column(np.int64, "logical time: the position of the source operation", null=True)
    attrs: Ids = ids("what the opcode needs to be executed, as text", "strings", null=True)
    join: Bools = column(
        np.bool_, "first in a loop's header, or where arms end: stands for the loop or the arms in `deps`"
    )
    gather: Bools = column(np.bool_, "last in an arm: stands for the arm, for the join")
    loc: Ids = ids("`FILE:LINE` in the user's source", "strings", null=True)
    text_line: Ids = column(np.int32, "line of the `.bir` text it was read from", null=True)


@dataclass(slots=True)
class Accesses(Table):
    """The operands: one row for each location that an instruction reads or writes, reads first."""

    parent = "instruction"
    instruction: Ids = ids("whose operand it is", "instructions")
    location: Ids = ids("the location touched, as this core names it", "locations")
    pattern: Ids = ids("the bytes touched; null: all of them", "patterns", null=True)
    write: Bools = column(np.bool_, "written, not read")
    atomic: Bools = column(np.bool_, "half of a read-modify-write that happens in one step (`atomics.py`)")
    maybe: Bools = column(np.bool_, "only some bytes of the pattern are touched, not known which")


@dataclass(slots=True)
class Patterns(Table):
    """Byte patterns: `run` bytes from `offset + sum(stride * i)`. Equal patterns may share a row."""

    offset: Ints = column(np.int64, "bytes from the start of the location")
    run: Ints = column(np.int64, "bytes touched at each place; null: `?`, some bytes not known", null=True)
    dim_begin: Ids = column(np.int32, "its dims: from this row of `dims`")
    dim_end: Ids = column(np.int32, "to this one, excluded")


@dataclass(slots=True)
class Dims(Table):
    """Dims of strided patterns, outermost first."""

    stride: Ints = column(np.int64, "bytes between neighbours; may be negative, or smaller than the run")
    count: Ints = column(np.int64, "how many; at least 1")


@dataclass(slots=True)
class Locations(Table):
    """Memory locations. A shared one is an allocation on its owner, a view with a remote target elsewhere."""

    parent = "function"
    name: Ids = ids("unique in its function", "strings")
    function: Ids = ids("the function it belongs to", "functions")
    space: Bytes = column(np.uint8, "the memory that it is in (`Space`)")
    kind: Bytes = column(np.uint8, "who fills it, who reads it (`Kind`)")
    size: Ints = column(np.int64, "bytes")
    align: Ints = column(np.int64, "its address is a multiple of this", default=64)
    dtype: Ids = ids("element type (`dtypes.py`)", "strings", null=True)
    shape_begin: Ids = column(np.int32, "its extents: from this row of `shapes`")
    shape_end: Ids = column(np.int32, "to this one, excluded")
    data: Ids = ids("contents of a const: little-endian bytes, base64", "strings", null=True)
    remote_name: Ids = ids("RemoteLocalTarget: the owner's name for it; null: not a view", "strings", null=True)
    remote_core: Ids = column(np.int32, "RemoteLocalTarget: the core that owns it", null=True)
    address: Ints = column(np.int64, "bytes from the start of its space; null: not allocated", null=True)
    bank: Ids = column(np.int32, "bank of the address", null=True)
    partition: Ids = column(np.int32, "SBUF, PSUM: first partition; DRAM: base partition", null=True)
    parts: Ids = column(np.int32, "SBUF, PSUM: how many partitions it spans", null=True)
    same: Ids = ids("classes of cores that hold equal bytes, `[[0,1],[2,3]]`", "strings", null=True)
    attrs: Ids = ids("other attributes, as text", "strings", null=True)
    loc: Ids = ids("`FILE:LINE` in the user's source", "strings", null=True)
    text_line: Ids = column(np.int32, "line of the `.bir` text it was read from", null=True)


@dataclass(slots=True)
class Shapes(Table):
    """Extents of locations, outermost first."""

    extent: Ints = column(np.int64, "elements along the dimension")


@dataclass(slots=True)
class Dependences(Table):
    """Order inside a core: `instruction` starts after `producer` is complete."""

    parent = "instruction"
    instruction: Ids = ids("the one that waits", "instructions")
    producer: Ids = ids("the one waited for", "instructions")
    carried: Bools = column(np.bool_, "of the previous iteration of the innermost common loop")
    kind: Bytes = column(np.uint8, "why (`DependenceKind`)")


@dataclass(slots=True)
class Barriers(Table):
    """What `core_barrier` instructions say."""

    parent = "instruction"
    instruction: Ids = ids("the `core_barrier`", "instructions")
    name: Ids = ids("rendezvous name, equal on all participants", "strings")
    cores: Ids = ids("participants, `[0,1,2]` in rising order; null: all (`core_sets.py`)", "strings", null=True)
    index: Ints = column(np.int64, "dense index on its engine line, after renumbering", null=True)
    made_by: Ids = ids("the pass that made it; null: the user's", "strings", null=True)


@dataclass(slots=True)
class Meetings(Table):
    """What `sendrecv` instructions say."""

    parent = "instruction"
    instruction: Ids = ids("the `sendrecv`", "instructions")
    to: Ids = column(np.int32, "core that it sends to", null=True)
    source: Ids = column(np.int32, "core that it receives from (`from`)", null=True)
    tag: Ids = ids("which exchange of the two", "strings", null=True)


@dataclass(slots=True)
class Steps(Table):
    """How an operand's pattern moves with the iterations of a loop."""

    parent = "access"
    access: Ids = ids("the operand", "accesses")
    header: Ids = ids("the loop, by its header", "blocks")
    stride: Ints = column(np.int64, "bytes an iteration")
    modulus: Ints = column(np.int64, "iterations after which it starts again; 0: never")
    phase: Ints = column(np.int64, "in iteration k it stands where k + phase would be; 0 without modulus")


@dataclass(slots=True)
class Semaphores(Table):
    """Signals on completion, and waits before the start (`semaphores.py`)."""

    parent = "instruction"
    instruction: Ids = ids("who signals or waits", "instructions")
    name: Ids = ids("the semaphore", "strings")
    core: Ids = column(np.int32, "of a signal: the core whose semaphore it is; null: its own", null=True)
    value: Ints = column(np.int64, "added on completion, or waited for")
    wait: Bools = column(np.bool_, "a wait, not a signal")
    back: Bools = column(np.bool_, "of a wait: for all that its core has issued before, but the last `value`")


TABLES: dict[str, type[Table]] = {
    "modules": Modules,
    "functions": Functions,
    "blocks": Blocks,
    "edges": Edges,
    "instructions": Instructions,
    "accesses": Accesses,
    "patterns": Patterns,
    "dims": Dims,
    "locations": Locations,
    "shapes": Shapes,
    "dependences": Dependences,
    "barriers": Barriers,
    "meetings": Meetings,
    "steps": Steps,
    "semaphores": Semaphores,
}
"""Every table by its name in `Program`, parents before children."""
