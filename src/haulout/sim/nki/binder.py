"""An instruction of NKI as a step: its arguments are read and its tensors found once.

An instruction that reads and writes overlapping bytes is in two parts, `NAME.in` and `NAME`. The first keeps what the
tensors hold (`freezes=NAME`), the second, which has the arguments (`of=NAME.in`), computes from that and writes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

import numpy as np

from haulout.ir.attributes import AttrValue
from haulout.ir.enums import NONE, Space
from haulout.ir.program import Program
from haulout.ir.schema import Bytes
from haulout.sim.flow.code import Code
from haulout.sim.memory.layout import Layout as MemoryLayout
from haulout.sim.nki.activations import ACTIVATIONS
from haulout.sim.nki.call import Call, Layout, read_call
from haulout.sim.nki.operators import ARITHMETIC, BITS, UNARY
from haulout.sim.nki.places import Moved, Place, Room
from haulout.sim.nki.registers import CoreState, RegisterLog, Remarks
from haulout.sim.nki.remarks import WATCHED, watched
from haulout.sim.nki.table import KERNELS, LANGUAGE
from haulout.sim.nki.types import element_type
from haulout.support.diagnostics import bad_input

PREFIX = "nki."


class NkiBinder:
    """Makes the steps of a program's NKI instructions in one arena."""

    def __init__(self, code: Code, layout: MemoryLayout, arena: Bytes, log: RegisterLog | None = None) -> None:
        self.code, self.program, self.layout, self.arena = code, code.program, layout, arena
        self.log = RegisterLog() if log is None else log
        self._counts = has_registers(code.program)
        """Whether executions are counted, for the values of registers."""
        self.remarks = Remarks()
        self._rooms: dict[int, Room] = {}
        self._states: dict[int, CoreState] = {}
        self._halves: dict[int, Call] = {}
        """Second parts that the first has begun."""
        self._names: dict[tuple[int, str], int] | None = None

    def step(self, row: int) -> Callable[[], None]:
        """The step of an instruction. Raises `bad-input` for one that cannot be computed."""
        program = self.program
        name = program.strings[int(program.instructions.opcode[row])].removeprefix(PREFIX)
        attrs = program.instruction_attrs(row)
        second = attrs.get("freezes")
        if isinstance(second, str):
            return self._counted(self._row(row, second), partial(self._freeze, self._row(row, second)))
        kernel = _kernel(name)
        if kernel is None:
            bad_input(f"`nki.{name}` cannot be computed: the simulator does not have it")
        first = attrs.get("of")
        if isinstance(first, str):
            return partial(self._thaw, row, kernel)
        begin, end = int(self.code.begin[row]), int(self.code.end[row])
        middle = int(self.code.middle[row])
        if middle == end and name != "register_load":
            return _nothing
        call = self._call(row, name, attrs.get("call", attrs.get("args")), attrs.get("at"), range(begin, end))
        return self._counted(row, partial(_compute, name, kernel, call))

    def _counted(self, row: int, step: Callable[[], None]) -> Callable[[], None]:
        """A step that counts its executions, where that matters."""
        if not self._counts:
            return step

        def counted() -> None:
            self.log.begin(row)
            step()

        return counted

    def exchange(self, row: int) -> Call | None:
        """The tensors `src` and `dst` of a `sendrecv` that takes elements in another order than their bytes."""
        attrs = self.program.instruction_attrs(row)
        if "call" not in attrs:
            return None
        operands = range(int(self.code.begin[row]), int(self.code.end[row]))
        return self._call(row, "sendrecv", attrs["call"], attrs.get("at"), operands)

    def _freeze(self, row: int) -> None:
        program = self.program
        attrs = program.instruction_attrs(row)
        name = program.strings[int(program.instructions.opcode[row])].removeprefix(PREFIX)
        first = self._row(row, str(attrs.get("of")))
        operands = [
            *range(int(self.code.begin[first]), int(self.code.end[first])),
            *range(int(self.code.begin[row]), int(self.code.end[row])),
        ]
        call = self._call(row, name, attrs.get("call"), attrs.get("at"), operands)
        with _explained(name):
            for place in call.every_place():
                place.frozen = place.get().copy()
        self._halves[row] = call

    def _thaw(self, row: int, kernel: Callable[[Call], None]) -> None:
        call = self._halves.pop(row, None)
        if call is None:
            bad_input("its first part has not run")
        _compute(call.name, kernel, call)

    def _row(self, row: int, name: str) -> int:
        """An instruction of the same core by its name."""
        if self._names is None:
            cores = self.program.instruction_core.tolist()
            self._names = {(core, self.program.instruction_name(at)): at for at, core in enumerate(cores)}
        found = self._names.get((int(self.code.core[row]), name))
        if found is None:
            bad_input(f"its other part %{name} is missing")
        return found

    def _call(
        self, row: int, name: str, args: AttrValue | None, at: AttrValue | None, operands: Sequence[int]
    ) -> Call:
        if args is None:
            bad_input(f"`nki.{name}` cannot be computed: it has no attribute `args`, so not all it does is known")
        state = self._states.setdefault(int(self.code.core[row]), CoreState(self.log, self.remarks))
        with _explained(name):
            return read_call(name, args, at, partial(self._place, operands), state, row)

    def _place(
        self, operands: Sequence[int], number: int, layout: Layout, offset: int | None, moved: Moved | None
    ) -> Place | None:
        if not 0 <= number < len(operands):
            return None
        access, item = operands[number], element_type(layout.name).itemsize
        accesses = self.program.accesses
        room = self._room(int(accesses.location[access]))
        if offset is None:
            if moved is not None:
                bad_input(f"attribute `at` is missing: an index moves its tensor in %{room.name}")
            offset = self._lowest(int(accesses.pattern[access]))
            offset -= sum(min(0, step * (n - 1)) for step, n in zip(layout.strides, layout.shape, strict=True)) * item
            if offset % item:
                bad_input(f"its elements of {item} bytes begin at byte {offset} of %{room.name}")
            offset //= item
        return Place(self.arena, room, layout.name, layout.shape, layout.strides, offset, moved)

    def _lowest(self, pattern: int) -> int:
        found = None if pattern == NONE else self.program.pattern(pattern)
        return 0 if found is None else found.hull[0]

    def _room(self, location: int) -> Room:
        found = self._rooms.get(location)
        if found is None:
            program, layout = self.program, self.layout
            rows = program.locations
            size, parts = int(rows.size[location]), int(rows.parts[location])
            loop = program.location_attrs(location).get("loop")
            on_chip = rows.space[location] > Space.DRAM_SHARED
            found = self._rooms[location] = Room(
                program.strings[int(rows.name[location])],
                int(layout.base[location]),
                int(layout.width[location]),
                int(layout.pitch[location]),
                size,
                location,
                rows.space[location] == Space.PSUM,
                size // max(parts, 1) if on_chip else 0,
                loop if isinstance(loop, int) else None,
            )
        return found


def _kernel(name: str) -> Callable[[Call], None] | None:
    if name in KERNELS:
        return watched(name, KERNELS[name]) if name in WATCHED else KERNELS[name]
    return LANGUAGE if any(name in each for each in (ARITHMETIC, UNARY, BITS, ACTIVATIONS)) else None


def _compute(name: str, kernel: Callable[[Call], None], call: Call) -> None:
    with _explained(name):
        kernel(call)


@contextmanager
def _explained(name: str) -> Iterator[None]:
    """What NumPy raises on operands that do not fit becomes `bad-input`."""
    try:
        yield
    except KeyError as error:
        bad_input(f"`nki.{name}` cannot be computed: the simulator does not have {error}")
    except (ValueError, TypeError, IndexError, OverflowError, MemoryError, ZeroDivisionError) as error:
        bad_input(f"`nki.{name}` cannot be computed: {error}")


def can_compute(program: Program, row: int) -> bool:
    """Whether the simulator has an instruction of NKI, and knows all of its arguments."""
    name = program.strings[int(program.instructions.opcode[row])].removeprefix(PREFIX)
    if name in ("uses", "gate", "nothing"):
        return True
    return _kernel(name) is not None and not {"args", "call", "freezes"}.isdisjoint(program.instruction_attrs(row))


def has_nki(program: Program) -> bool:
    """Whether some instruction is one of NKI."""
    used = np.unique(program.instructions.opcode)
    return any(program.strings[int(number)].startswith(PREFIX) for number in used)


def has_registers(program: Program) -> bool:
    """Whether it loads scalar registers, or has loops that they decide."""
    used = {program.strings[int(number)] for number in np.unique(program.instructions.opcode)}
    return not used.isdisjoint({f"{PREFIX}register_load", f"{PREFIX}loop"})


def _nothing() -> None:
    """A copy of a tensor onto itself."""
