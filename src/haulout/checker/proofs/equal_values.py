"""Value numbering over one schedule: which writes put the same bytes into the same place, on whatever core.

Every access gets the number of the byte sequence that it moves. Equal numbers mean equal bytes; the opposite does not
hold. A number identifies a term:

    given     the initial bytes of a location
    data      of a const: its bytes, so that equal consts are equal on all cores
    fill      one byte value everywhere: `memset`, and copies of nothing else
    result    opcode, attributes and the numbers of all reads, for an opcode that is a function of just these
    received  a `sendrecv` delivers what its partner has read
    part      other bytes than one instruction wrote
    patches   bytes that several instructions wrote, by the pattern of each
    mixed     the same, run by run, where some of it was overwritten
    own       everything else: equal only to itself

`result` needs opcodes that are deterministic and whose attributes describe them fully: the functions of the opcode
table (`ir/opcodes.py`), those of NKI where `args` gives all arguments. What runs in a loop or in an arm is `own`,
`memset` excepted, and so is what reads a location that a loop or an arm writes: a run leaves iterations and arms out,
and with them what they write. An atomic result is `own` because it depends on the order.

The numbering follows one schedule. `benign_writes.py` shows when that is enough for all of them.

Source: value numbering as in Alpern, Wegman, Zadeck, "Detecting Equality of Variables in Programs" (1988), on bytes.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

import numpy as np

from haulout.checker import bytesets
from haulout.checker.model import Model
from haulout.checker.order.sendrecv import SendRecvs
from haulout.checker.proofs.extents import Extents
from haulout.ir.attributes import AttrValue, format_attrs, format_value
from haulout.ir.enums import NONE, Kind
from haulout.ir.opcodes import NKI_COMMUTING, Opcode, lookup
from haulout.ir.schema import Ids, Ints

MAX_PARTS = 4096
"""A read with more differently written parts is `own`."""


_OWN = -1


@dataclass(slots=True)
class Values:
    """By access: the number of what a write leaves in its bytes, place included; -1: equal to nothing else."""

    left: Ints

    def equal(self, first: int, second: int) -> bool:
        """True if two writes of one location leave the same bytes wherever both write."""
        return bool(self.left[first] != _OWN and self.left[first] == self.left[second])


def number_values(model: Model, extents: Extents, sendrecvs: SendRecvs, schedule: Ids) -> Values:
    """Follow the accesses of a model in the order `schedule` of one schedule; all in storage keys of `extents`."""
    return _Numbering(model, extents, sendrecvs).run(schedule)


@dataclass(slots=True)
class _Numbering:
    model: Model
    extents: Extents
    sendrecvs: SendRecvs
    terms: dict[Hashable, int] = field(default_factory=dict)
    wrote: dict[int, tuple[int, Hashable]] = field(default_factory=dict)
    """Content -> the sequence that was written, and the pattern through which it was written."""
    writer: Ids = field(init=False)
    """By atom: the access that wrote it last; NONE: it has its initial bytes."""
    inside: frozenset[int] = field(init=False)
    """Groups of locations that some block of a loop or an arm writes."""
    fills: dict[int, AttrValue] = field(default_factory=dict)
    """The byte value of each fill, which is a sequence and a content."""

    def run(self, schedule: Ids) -> Values:
        model, extents = self.model, self.extents
        self.inside = frozenset(group for writes in _writes_in_regions(model) for group in writes)
        content = self._at_start()
        self.writer = np.full(len(content), NONE, np.int32)
        of_access = extents.of_access.tolist()
        writes: list[bool] = model.write.tolist()
        instruction: list[int] = model.instruction.tolist()
        unsure: list[bool] = model.maybe.tolist()
        moved = [_OWN] * len(of_access)  # by read: the number of the sequence
        left = np.full(len(of_access), _OWN, np.int64)
        results: dict[int, int] = {}  # by instruction: the number of what it computes
        partner, _ = self.sendrecvs.partners()
        for access in schedule.tolist():
            extent, i = of_access[access], instruction[access]
            if not writes[access]:
                moved[access] = self._read(extent, content)
                continue
            if i not in results:
                results[i] = self._result(i, moved, partner)
            number = _OWN
            if results[i] != _OWN and not unsure[access] and not extents.atomless[extent]:
                number = self._leave(results[i], i, access, extent)
            left[access] = number
            # A value that equals no other still differs from the one before it.
            kept = number if number != _OWN else self.term("own", access)
            # An extent without atoms may write any byte of those that it overlaps.
            for written in extents.overlapping(extent) if extents.atomless[extent] else (extent,):
                for k in range(int(extents.starts[written]), int(extents.starts[written + 1])):
                    content[extents.low[k] : extents.high[k]] = kept
                    self.writer[extents.low[k] : extents.high[k]] = access
        return Values(left)

    def term(self, *parts: Hashable) -> int:
        """The number of a term."""
        return self.terms.setdefault(parts, len(self.terms))

    def content(self, sequence: int, place: Hashable) -> int:
        """The number of the content of a place after a sequence of bytes was written to it."""
        if sequence in self.fills:
            return sequence
        number = self.term("content", sequence, place)
        self.wrote[number] = sequence, place
        return number

    # -- contents --------------------------------------------------------------------------------------------------

    def _at_start(self) -> Ints:
        """The content of every atom before anything runs."""
        model, extents = self.model, self.extents
        rows = model.program.locations
        content = np.full(max(len(extents.first_key), 1), self.term("nothing"), np.int64)
        owners = model.owners()
        for at, row in enumerate(model.locations.tolist()):
            if owners[row] != row:
                continue
            is_data = rows.kind[row] == Kind.CONST and rows.data[row] != NONE
            # Unwritten bytes differ between locations.
            given = self.term("data", int(rows.data[row])) if is_data else self.term("given", row)
            number = self.content(given, self._place(at))
            for k in range(int(extents.starts[at]), int(extents.starts[at + 1])):
                content[extents.low[k] : extents.high[k]] = number
        return content

    def _place(self, extent: int) -> Hashable:
        """The place of an extent in its location: its pattern as written, which also gives an order of bytes."""
        extents, program = self.extents, self.model.program
        location = int(extents.location[extent])
        storage = extents.storage
        grid = (int(storage.row[location]), int(storage.pitch[location])) if storage.is_grid[location] else None
        pattern = program.pattern(int(extents.pattern[extent]))
        return (int(program.locations.size[location]) if pattern is None else pattern, grid)

    def _read(self, extent: int, content: Ints) -> int:
        """The number of the bytes of an extent."""
        extents = self.extents
        if extents.atomless[extent]:
            return _OWN
        begin, end = int(extents.starts[extent]), int(extents.starts[extent + 1])
        ranges = [(int(extents.low[k]), int(extents.high[k])) for k in range(begin, end)]
        first = int(content[ranges[0][0]]) if ranges else _OWN
        place = self._place(extent)
        if ranges and all(bool(np.all(content[low:high] == first)) for low, high in ranges):
            if first in self.fills:
                return first
            sequence, where = self.wrote.get(first, (_OWN, None))
            return sequence if where == place and self._is_plain(extent) else self.term("part", first, place)
        return self._mixed(extent, ranges, place, content)

    def _is_plain(self, extent: int) -> bool:
        """True if a pattern touches no byte twice: then it reads what was written through it."""
        pattern = self.model.program.pattern(int(self.extents.pattern[extent]))
        if pattern is None or not pattern.dims:
            return True
        low, high = bytesets.runs(bytesets.byte_set(pattern))
        return pattern.nbytes == int((high - low).sum())

    def _mixed(self, extent: int, ranges: list[tuple[int, int]], place: Hashable, content: Ints) -> int:
        """Bytes of several writers: by the pattern of each writer where none is partly overwritten, else by runs."""
        if (patches := self._patches(ranges, content)) is not None:
            return self.term("patches", patches, place)
        extents, location = self.extents, int(self.extents.location[extent])
        base = int(extents.storage.base[location])
        parts: list[tuple[int, int, int]] = []
        length = 0
        for low, high in ranges:
            keys, ends = extents.first_key[low:high] - base, extents.end_key[low:high] - base
            length += int((ends - keys).sum())
            for key, stop, number in zip(keys.tolist(), ends.tolist(), content[low:high].tolist(), strict=True):
                if parts and parts[-1][1] == key and parts[-1][2] == number:
                    parts[-1] = parts[-1][0], stop, number
                else:
                    parts.append((key, stop, number))
        whole = sum(int(high - low) for low, high in zip(*extents.runs(extent), strict=True))
        if length != whole or len(parts) > MAX_PARTS:
            return _OWN  # an atom of several runs: its first one does not say where the others are
        return self.term("mixed", tuple(parts), place)

    def _patches(self, ranges: list[tuple[int, int]], content: Ints) -> Hashable | None:
        """What was written, and through which patterns; None where some of it is overwritten in these atoms."""
        extents = self.extents
        atoms = np.concatenate([np.arange(low, high) for low, high in ranges])
        writers, first, count = np.unique(self.writer[atoms], return_index=True, return_counts=True)
        if writers[0] == NONE or len(writers) > MAX_PARTS:
            return None
        found = set()
        for writer, at, held in zip(writers.tolist(), first.tolist(), count.tolist(), strict=True):
            extent = int(extents.of_access[writer])
            begin, end = int(extents.starts[extent]), int(extents.starts[extent + 1])
            low, high = extents.low[begin:end], extents.high[begin:end]
            inside = np.searchsorted(atoms, high) - np.searchsorted(atoms, low)
            if extents.atomless[extent] or int(inside.sum()) != held:
                return None
            found.add((int(content[atoms[at]]), self._place(extent)))
        return tuple(sorted(found, key=repr))

    def _leave(self, result: int, instruction: int, access: int, extent: int) -> int:
        """The number of what a write leaves."""
        writes = [each for each in self._operands(instruction) if self.model.write[each]]
        alike = access == writes[0] or result in self.fills
        sequence = result if alike else self.term("out", result, writes.index(access))
        return self.content(sequence, self._place(extent))

    # -- results -----------------------------------------------------------------------------------------------------

    def _result(self, i: int, moved: list[int], partner: dict[int, int]) -> int:
        """The number of what an instruction computes; all its reads are numbered."""
        model = self.model
        if i in partner:
            return self._received(i, partner[i], moved)
        row = int(model.rows[i])
        program = model.program
        if program.instructions.opcode[row] == NONE:
            return _OWN
        opcode = lookup(program.strings[int(program.instructions.opcode[row])])
        attrs = program.instruction_attrs(row)
        reads = [access for access in self._operands(i) if not model.write[access]]
        numbers = [moved[access] for access in reads]
        if opcode.name == "memset" and not reads:
            number = self.term("fill", format_value(attrs.get("value", 0)))
            self.fills[number] = attrs.get("value", 0)
            return number
        if self._varies(i) or _OWN in numbers or not _is_function(opcode, attrs):
            return _OWN
        if opcode.copies and len(reads) == 1 and (fill := self.fills.get(numbers[0])) is not None:
            # NKI's copies convert, and zeros stay zeros; the others move as many bytes as they read.
            sizes = {self._bytes(access) for access in self._operands(i)}
            if fill == 0 if opcode.is_nki else len(sizes) == 1:
                return numbers[0]
        arrays: list[Hashable] = [
            (number, self._array(access)) for number, access in zip(numbers, reads, strict=True)
        ]
        outputs = tuple(self._array(access) for access in self._operands(i) if model.write[access])
        if opcode.commutes and "shapes" not in attrs and "dtypes" not in attrs:
            arrays.sort(key=repr)
        elif opcode.name == "nki.tensor_tensor":
            attrs, arrays = _exchanged(attrs, arrays)
        return self.term("result", opcode.name, format_attrs(attrs), tuple(arrays), outputs)

    def _received(self, i: int, sender: int, moved: list[int]) -> int:
        """The value that a `sendrecv` delivers: one operand, with the bytes and the layout that were sent."""
        model = self.model
        sent = [access for access in self._operands(sender) if not model.write[access]]
        taken = [access for access in self._operands(i) if model.write[access]]
        attrs = [model.program.instruction_attrs(int(model.rows[each])) for each in (i, sender)]
        if len(sent) != 1 or len(taken) != 1 or any("args" in each for each in attrs) or self._varies(i):
            return _OWN
        sizes = [self._bytes(access) for access in (sent[0], taken[0])]
        return moved[sent[0]] if sizes[0] == sizes[1] else _OWN

    def _operands(self, instruction: int) -> range:
        return range(*(int(self.model.access_starts[instruction + at]) for at in (0, 1)))

    def _bytes(self, access: int) -> int:
        pattern = self.model.program.pattern(int(self.model.pattern[access]))
        size = int(self.model.program.locations.size[self.model.location[access]])
        return size if pattern is None else pattern.nbytes

    def _array(self, access: int) -> Hashable:
        """Bytes of an operand, whether all are touched, and its location's type and shape when it is all of it."""
        program, location = self.model.program, int(self.model.location[access])
        whole = int(self.model.pattern[access]) == NONE
        dtype = int(program.locations.dtype[location])
        maybe = bool(self.model.maybe[access])
        return self._bytes(access), maybe, dtype, program.shape(location) if whole else None

    def _varies(self, instruction: int) -> bool:
        """True if it may compute another value in a run, or a schedule, that is not examined."""
        model, unrolled = self.model, self.model.unrolled
        if (model.atomic[self._operands(instruction)] > 0).any():
            return True
        if unrolled is None:
            return False
        block, _ = unrolled.run.executions[int(unrolled.execution[model.rows[instruction]])]
        group = unrolled.footprints.group
        return unrolled.structure.region_of[block] != NONE or any(
            int(group[model.location[access]]) in self.inside
            for access in self._operands(instruction)
            if not model.write[access]
        )


def _writes_in_regions(model: Model) -> list[set[int]]:
    """What each block of a loop or an arm writes, by group (`footprints.py`)."""
    unrolled = model.unrolled
    if unrolled is None:
        return []
    regions = zip(unrolled.structure.region_of, unrolled.footprints.writes, strict=True)
    return [writes for region, writes in regions if region != NONE]


def _is_function(opcode: Opcode, attrs: dict[str, AttrValue]) -> bool:
    """True if equal reads and equal attributes give equal results. An NKI opcode needs `args` for that."""
    return opcode.function and ("args" in attrs or not opcode.is_nki)


def _exchanged(attrs: dict[str, AttrValue], arrays: list[Hashable]) -> tuple[dict[str, AttrValue], list[Hashable]]:
    """A canonical order of the operands of a commutative operator, where their layouts are equal."""
    args = attrs.get("args")
    if not isinstance(args, list) or len(arrays) != 2:
        return attrs, arrays
    named = {each[0]: each[1:] for each in args if isinstance(each, list) and each and isinstance(each[0], str)}
    one, other = named.get("data1", []), named.get("data2", [])
    if named.get("op", [None])[0] not in NKI_COMMUTING or one[:1] == other[:1] or one[1:] != other[1:]:
        return attrs, arrays
    rest: list[AttrValue] = [each for each in args if not (isinstance(each, list) and each[0] in ("data1", "data2"))]
    both: list[AttrValue] = ["both", *one[1:]]
    return attrs | {"args": [*rest, both]}, sorted(arrays, key=repr)
