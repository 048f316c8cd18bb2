"""The checks of `ProgramBuilder` at each call; every message names the entity and the value found.

`Checks` checks one row against the rows before it; the verifier checks the whole program. Below it is one function
for each kind of value.
"""

from __future__ import annotations

import base64
import binascii
import enum
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from haulout.ir import dtypes
from haulout.ir.attributes import NAME, AttrValue, format_attrs
from haulout.ir.core_classes import classes_error
from haulout.ir.enums import NONE, DependenceKind, Engine, Kind, Space
from haulout.ir.patterns import Pattern
from haulout.ir.schema import INT32_MAX, INT64_MAX, MAX_CORES, SIZE_MAX, TABLES
from haulout.ir.strings import StringTable
from haulout.support.diagnostics import bad_input

Rows = Mapping[str, Mapping[str, list[Any]]]
"""Table -> column -> the cells appended so far."""

_RENDEZVOUS = {"core_barrier": "barrier", "sendrecv": "sendrecv"}
"""Opcodes that have a table of their own -> the method of the builder."""
_COLUMNS = frozenset(
    ("seq", "deps", "carried", "atomic", "maybe", "step", "join", "gather", "loc")  # of operands, order and place
) | {"signal", "remote_signal", "wait", "wait_back"}
"""Attributes of the text for which tables have a column."""
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


class Checks:
    """Checks the arguments of the builder before they become a row."""

    def __init__(self, rows: Rows, strings: StringTable, lnc: int) -> None:
        self._rows, self._strings, self._lnc = rows, strings, lnc
        self._taken: set[tuple[str, int, str]] = set()
        """Names, with the kind of what has them and the row of its parent."""
        self._times: dict[int, int] = {}
        """Block -> `seq` of its last instruction."""
        self._timed: dict[int, bool] = {}
        """Function -> whether its instructions have a `seq`."""

    # -- what is known of rows ------------------------------------------------------------------------------------

    def _count(self, table: str) -> int:
        return len(next(iter(self._rows[table].values())))

    def _cell(self, table: str, column: str, row: int) -> int:
        return int(self._rows[table][column][row])

    def _core(self, function: int) -> int:
        return self._cell("modules", "core", self._cell("functions", "module", function))

    def _require(self, what: str, table: str, row: Any) -> None:
        """An id must be a row that was appended."""
        count = self._count(table)
        if isinstance(row, bool) or not isinstance(row, int | np.integer) or not 0 <= row < count:
            bad_input(f"{what}: {row!r} is not a row of {table}, which has {count}")

    def _in(self, function: int, what: str) -> str:
        """An entity of a function, for a message."""
        name = self._strings[self._cell("functions", "name", function)]
        return f"{what} of @{name} on core {self._core(function)}"

    def _instruction(self, row: int) -> str:
        """An instruction that was appended, for a message."""
        name = self._strings.get(self._cell("instructions", "name", row))
        return self._in(self._function(row), f"instruction {row}" if name is None else f"instruction %{name}")

    def _function(self, row: int) -> int:
        return self._cell("blocks", "function", self._cell("instructions", "block", row))

    def _new(self, what: str, table: str, parent: int, name: Any) -> None:
        """A name that no other row of the table has in the same parent; the parent not before that of the last."""
        require_name(what, name)
        if (table, parent, name) in self._taken:
            bad_input(f"{what}: the name is already used")
        column = TABLES[table].parent
        if table != "instructions" and column and self._rows[table][column]:
            last = self._rows[table][column][-1]
            if last > parent:
                bad_input(f"{what}: the {table} of a later {column} were made before; make them core by core")
        self._taken.add((table, parent, name))

    # -- rows -----------------------------------------------------------------------------------------------------

    def module(self, name: Any, core: Any, subgraph: Any, attrs: Any) -> None:
        """One a core, in the order of the cores."""
        what = f"module @{name}"
        require_integer(what, "core", core, 0, self._lnc - 1)
        if core != self._count("modules"):
            bad_input(f"{what}: core={core}, expected {self._count('modules')}: one module a core, in their order")
        require_optional(what, "subgraph", subgraph)
        require_attrs(what, attrs)
        self._new(what, "modules", NONE, name)

    def function(self, module: Any, name: Any, attrs: Any) -> None:
        """Functions are equal on all cores."""
        what = f"function @{name}"
        self._require(what, "modules", module)
        what += f" on core {self._cell('modules', 'core', module)}"
        require_attrs(what, attrs)
        owners = self._rows["functions"]["module"]
        number = owners.count(module)
        names = self._rows["functions"]["name"]
        first = [self._strings[each] for each, owner in zip(names, owners, strict=True) if owner == 0]
        if module and first[number : number + 1] != [name]:
            bad_input(f"{what}: functions must be equal on all cores; core 0 has {', '.join(first) or 'none'}")
        self._new(what, "functions", module, name)

    def location(
        self,
        function: Any,
        name: Any,
        space: Any,
        size: Any,
        *,
        kind: Any,
        align: Any,
        dtype: Any,
        shape: Sequence[Any] | None,
        data: Any,
        remote: Any,
        address: Any,
        bank: Any,
        partition: Any,
        parts: Any,
        same: Any,
        attrs: Any,
    ) -> None:
        """Its numbers, its bytes as dtype and shape and data say, its place, and the core that it is a view of."""
        self._require(f"location %{name}", "functions", function)
        what = self._in(function, f"location %{name}")
        require_member(what, "space", space, Space)
        require_member(what, "kind", kind, Kind)
        require_integer(what, "size", size, 0, SIZE_MAX)
        require_integer(what, "align", align, 1, SIZE_MAX)
        require_array(what, size, dtype, shape)
        if data is not None:
            require_data(what, size, data)
            if kind != Kind.CONST:
                bad_input(f"{what}: only kind=const may have data, not {Kind(kind).text}")
        if remote is not None:
            self._remote(what, self._core(function), space, remote)
        require_optional(what, "address", address, 0, SIZE_MAX)
        if address is not None and address % align:
            bad_input(f"{what}: address={address} is not a multiple of {align}")
        require_optional(what, "bank", bank)
        require_optional(what, "partition", partition)
        require_optional(what, "parts", parts, 1)
        if same is not None and (wrong := classes_error(same, self._lnc)):
            bad_input(f"{what}: {wrong}")
        require_attrs(what, attrs)
        self._new(what, "locations", function, name)

    def _remote(self, what: str, core: int, space: Any, remote: Any) -> None:
        if not (isinstance(remote, tuple) and len(remote) == 2):
            bad_input(f"{what}: remote={remote!r}, expected (name, core)")
        require_name(what, remote[0])
        require_integer(what, "the core of remote", remote[1], 0, self._lnc - 1)
        if space != Space.DRAM_SHARED:
            bad_input(f"{what}: only dram.shared may have remote, not {Space(space).text}")
        if remote[1] == core:
            bad_input(f"{what}: remote={remote} is on its own core")

    def block(self, function: Any, name: Any, trip: Any, cond: Any, attrs: Any) -> None:
        """What it branches on is a location of the same function."""
        self._require(f"block ^{name}", "functions", function)
        what = self._in(function, f"block ^{name}")
        require_optional(what, "trip", trip, 0, INT64_MAX)
        if cond is not None:
            self._require(f"{what}: cond", "locations", cond)
            self._own_location(what, function, cond)
            if not self._cell("locations", "size", cond):
                bad_input(f"{what}: it branches on %{self._location(cond)}, which has no bytes")
        require_attrs(what, attrs)
        self._new(what, "blocks", function, name)

    def _location(self, row: int) -> str:
        return self._strings[self._cell("locations", "name", row)]

    def _own_location(self, what: str, function: int, location: int) -> None:
        owner = self._cell("locations", "function", location)
        if owner != function:
            bad_input(f"{what}: %{self._location(location)} belongs to another function, on core {self._core(owner)}")

    def edge(self, source: Any, target: Any) -> None:
        """Between blocks of one function."""
        self._require("an edge", "blocks", source)
        what = f"the edge from ^{self._strings[self._cell('blocks', 'name', source)]}"
        self._require(what, "blocks", target)
        if self._cell("blocks", "function", source) != self._cell("blocks", "function", target):
            bad_input(f"{what} leads to ^{self._strings[self._cell('blocks', 'name', target)]} of another function")

    def instruction(
        self, block: Any, name: Any, opcode: Any, engine: Any, seq: Any, attrs: Any, rendezvous: bool
    ) -> None:
        """Times are on all instructions of a function or on none, and do not fall along a block."""
        self._require("an instruction" if name is None else f"instruction %{name}", "blocks", block)
        function = self._cell("blocks", "function", block)
        what = self._in(
            function, f"instruction {self._count('instructions')}" if name is None else f"instruction %{name}"
        )
        if not isinstance(opcode, str) or NAME.match(opcode) is None:
            bad_input(f"{what}: {opcode!r} is not an opcode")
        if opcode in _RENDEZVOUS and not rendezvous:
            bad_input(f"{what}: use ProgramBuilder.{_RENDEZVOUS[opcode]} for {opcode}")
        require_member(what, "engine", engine, Engine)
        if engine == Engine.ALL and opcode != "core_barrier":
            bad_input(f"{what}: only core_barrier may run on engine all, not {opcode}")
        require_optional(what, "seq", seq, 0, INT64_MAX)
        if self._timed.setdefault(function, seq is not None) != (seq is not None):
            bad_input(f"{what}: seq={seq}, but seq must be on all instructions of a function or on none")
        if seq is not None:
            if self._times.get(block, 0) > seq:
                bad_input(f"{what}: seq falls from {self._times[block]} to {seq} along its block")
            self._times[block] = seq
        require_attrs(what, attrs)
        for key in _COLUMNS & set(attrs or ()):
            bad_input(f"{what}: {key} is a column, not an attribute")
        if name is not None:
            self._new(what, "instructions", function, name)

    def access(self, instruction: Any, location: Any, pattern: Any, write: bool) -> None:
        """Reads before writes, inside a location of the same function."""
        self._require("an operand", "instructions", instruction)
        owners = self._rows["accesses"]["instruction"]
        if owners and owners[-1] > instruction:
            bad_input(f"{self._instruction(instruction)}: operands of a later instruction were added before")
        if owners and owners[-1] == instruction and self._rows["accesses"]["write"][-1] and not write:
            bad_input(f"{self._instruction(instruction)}: reads must come before writes")
        count = self._count("locations")
        if type(location) is not int or not 0 <= location < count:
            self._require(self._instruction(instruction), "locations", location)
        if self._rows["locations"]["function"][location] != self._function(instruction):
            self._own_location(self._instruction(instruction), self._function(instruction), location)
        if pattern is not None:
            size = self._rows["locations"]["size"][location]
            if not _fits(pattern, size):
                what = f"{self._instruction(instruction)}: %{self._location(location)}"
                require_pattern(what, pattern, size)

    def dependence(self, instruction: Any, producer: Any, carried: bool, kind: Any) -> None:
        """Inside a function; inside a block it looks back, unless carried."""
        self._require("a dependence", "instructions", instruction)
        if type(producer) is not int or not 0 <= producer < self._count("instructions"):
            self._require(self._instruction(instruction), "instructions", producer)
        blocks = self._rows["instructions"]["block"]
        if blocks[instruction] == blocks[producer]:
            if producer >= instruction and not carried:
                other = self._instruction(producer)
                bad_input(f"{self._instruction(instruction)}: it depends on {other}, which is not before it")
        elif self._function(producer) != self._function(instruction):
            bad_input(f"{self._instruction(instruction)}: it depends on {self._instruction(producer)}")
        require_member("a dependence", "kind", kind, DependenceKind)

    def barrier(self, name: Any, rendezvous: Any, cores: Iterable[Any] | None, index: Any, made_by: Any) -> None:
        """Participants are cores of the program, at least one."""
        what = f"core_barrier %{name}"
        require_name(f"{what}: its rendezvous", rendezvous)
        if cores is not None:
            listed = list(cores)
            for core in listed:
                require_integer(what, "a participant", core, 0, self._lnc - 1)
            if not listed:
                bad_input(f"{what}: cores={listed}, expected at least one; None means all")
        require_optional(what, "index", index, 0, INT64_MAX)
        if made_by is not None:
            require_text(what, "made_by", made_by)

    def sendrecv(self, name: Any, to: Any, source: Any, tag: Any) -> None:
        """Peers are cores of the program."""
        what = f"sendrecv %{name}"
        require_optional(what, "to", to, 0, self._lnc - 1)
        require_optional(what, "source", source, 0, self._lnc - 1)
        if tag is not None:
            require_text(what, "tag", tag)


def check_program(name: Any, lnc: Any, attrs: Any) -> None:
    """What a builder itself is made from."""
    require_text("program", "name", name)
    require_integer(f"program {name!r}", "lnc", lnc, 1, MAX_CORES)
    require_attrs(f"program {name!r}", attrs)


# -- values ---------------------------------------------------------------------------------------------------------


def _fits(pattern: Any, size: int) -> bool:
    """Quickly: a run of bytes inside the location, as most are."""
    return (
        type(pattern) is Pattern
        and pattern.dims == ()
        and type(pattern.offset) is type(pattern.run) is int
        and 0 <= pattern.offset < pattern.offset + pattern.run <= size
    )


def require_integer(what: str, key: str, value: Any, low: int = 0, high: int = INT32_MAX) -> None:
    """An integer within bounds, both included."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        bad_input(f"{what}: {key}={value!r}, expected an integer")
    if not low <= value <= high:
        bad_input(f"{what}: {key}={value}, expected an integer from {low} to {high}")


def require_optional(what: str, key: str, value: Any, low: int = 0, high: int = INT32_MAX) -> None:
    """The same, or None."""
    if value is not None:
        require_integer(what, key, value, low, high)


def require_text(what: str, key: str, value: Any) -> None:
    """Text that the format can write on one line."""
    if not isinstance(value, str):
        bad_input(f"{what}: {key}={value!r}, expected text")
    if _CONTROL.search(value):
        bad_input(f"{what}: {key}={value!r} has control characters")


def require_name(what: str, value: Any) -> None:
    """A name: text that is not empty."""
    require_text(what, "name", value)
    if not value:
        bad_input(f"{what}: the name is empty")


def require_member(what: str, key: str, value: Any, kind: type[enum.IntEnum]) -> None:
    """A member of an enum, or its value."""
    known = type(value) is kind or (isinstance(value, int | np.integer) and int(value) in set(kind))
    if not known:
        bad_input(f"{what}: {key}={value!r}, expected one of {', '.join(each.name for each in kind)}")


def require_attrs(what: str, attrs: Mapping[str, AttrValue] | None) -> None:
    """Attributes that the format can write."""
    if not attrs:
        return
    for key in attrs:
        if not isinstance(key, str) or NAME.match(key) is None:
            bad_input(f"{what}: {key!r} is not a name of an attribute")
    try:
        text = format_attrs(attrs)
    except TypeError as error:
        bad_input(f"{what}: {error}")
    if _CONTROL.search(text):
        bad_input(f"{what}: an attribute has control characters: {text!r}")


def require_array(what: str, size: int, dtype: Any, shape: Iterable[Any] | None) -> None:
    """A dtype that exists, extents that are sizes, and both together as many bytes as there are."""
    extents = list(shape or ())
    for extent in extents:
        require_integer(what, "an extent", extent, 0, SIZE_MAX)
    if dtype is None:
        return
    if dtype not in dtypes.NUMPY:
        bad_input(f"{what}: dtype={dtype!r}, expected one of {', '.join(dtypes.NUMPY)}")
    wanted = dtypes.itemsize(dtype)
    for extent in extents:
        wanted *= int(extent)
    if wanted != size:
        bad_input(f"{what}: size={size}, but {dtype}{extents} is {wanted} bytes")


def require_data(what: str, size: int, data: Any) -> None:
    """Base64 of as many bytes as the location has."""
    require_text(what, "data", data)
    try:
        length = len(base64.b64decode(data, validate=True))
    except (binascii.Error, ValueError):
        bad_input(f"{what}: data is not base64")
    if length != size:
        bad_input(f"{what}: data is {length} bytes, size={size}")


def require_pattern(what: str, pattern: Any, size: int) -> None:
    """A pattern, inside a location of `size` bytes."""
    if not isinstance(pattern, Pattern):
        bad_input(f"{what}: expected a Pattern, found {pattern!r}")
    require_integer(what, "the offset of a pattern", pattern.offset, 0, SIZE_MAX)
    if pattern.run == NONE:
        return
    require_integer(what, "the run of a pattern", pattern.run, 1, SIZE_MAX)
    for dim in pattern.dims:
        stride, count = dim if isinstance(dim, tuple) and len(dim) == 2 else (None, None)
        require_integer(what, "the stride of a pattern", stride, -SIZE_MAX, SIZE_MAX)
        require_integer(what, "a count of a pattern", count, 1, INT64_MAX)
    low, high = pattern.hull
    if low < 0 or high > size:
        bad_input(f"{what}: [{pattern}] touches bytes {low}:{high} of a location of {size} bytes")
