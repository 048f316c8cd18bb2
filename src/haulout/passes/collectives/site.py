"""One collective on all cores at once: its operands, its groups, its staging buffers, and the rows that replace it.

Every lowering has the same phases, each with a `seq` of its own that is the same on all cores:

    copy in   each member copies its operands to a staging buffer that it owns
    fence     the buffers are complete
    read      each member reads the others' buffers through views
    fence     the buffers may be written again; without this fence the next iteration has a race

A staging buffer is `<collective>.stage<k>.nc<owner>`: a shared location on its owner, a view with a RemoteLocalTarget
on the other members of the group. Cores outside the group have neither.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NoReturn

from haulout.ir.arrays import Array
from haulout.ir.attributes import AttrValue, format_attrs, int_list
from haulout.ir.enums import NONE, Engine, Space
from haulout.ir.labels import instruction_label
from haulout.ir.opcodes import REDUCTIONS
from haulout.ir.program import Program
from haulout.ir.rows import Changes, Operand
from haulout.passes.collectives.direct import Direct
from haulout.support.diagnostics import bad_input

PHASES = 4
"""Values of `seq` that a lowered collective takes."""
COPY_IN, FIRST_MEET, READ, LAST_MEET = range(PHASES)
QUEUES = (Engine.DMA0, Engine.DMA1, Engine.DMA2, Engine.DMA3)
MADE_BY = "lower_local_collectives"
Stages = dict[tuple[int, int], dict[int, int]]
"""(owner, operand number) -> member core -> its location for the staging buffer."""


@dataclass(slots=True)
class Site:
    """A collective, matched by name on every core."""

    program: Program
    changes: Changes
    rows: list[int]
    """Its instruction on each core."""
    name: str
    attrs: dict[str, AttrValue]
    seq: int
    """Of its first phase; NONE in a program without `seq`."""
    inputs: list[list[Array]] = field(default_factory=list)
    """[core][operand]"""
    in_place: list[bool] = field(default_factory=list)
    """Of each operand, the same on all cores: whether members read it where it is."""
    unchanged: list[bool] = field(default_factory=list)
    """Of each operand that is read in place: whether nothing writes it later."""
    outputs: list[list[Array]] = field(default_factory=list)
    direct: Direct = field(kw_only=True, repr=False)
    """Of all sites: results that are views of operands."""
    turns: dict[int, int] = field(default_factory=dict)
    """Copies made so far on each core; DMA queues take turns, in one order on all cores."""
    formatted: dict[tuple[str, tuple[int, ...], str, int], str] = field(default_factory=dict)
    """Attributes of reductions as text: those of all cores are alike, and as long as there are cores."""

    def fail(self, message: str) -> NoReturn:
        """Raise `bad-input` at the collective."""
        bad_input(f"%{self.name}: {message}", instruction_label(self.program, self.rows[0]))

    def time(self, phase: int) -> int:
        """`seq` of a phase."""
        return NONE if self.seq == NONE else self.seq + phase

    def queue(self, core: int) -> Engine:
        """The DMA queue whose turn it is on a core."""
        turn = self.turns[core] = self.turns.get(core, -1) + 1
        return QUEUES[turn % len(QUEUES)]

    @property
    def cores(self) -> range:
        """All cores."""
        return range(self.program.lnc)

    def groups(self, *, equal: bool = True) -> list[list[int]]:
        """The `groups` attribute: disjoint lists of cores, `equal` in size; every core is in one."""
        value = self.attrs.get("groups")
        lists = [int_list(group) for group in value] if isinstance(value, list) else []
        found = [group for group in lists if group]
        if len(found) != len(lists) or sorted(core for group in found for core in group) != list(self.cores):
            self.fail(f"groups={value} must contain each of the {self.program.lnc} cores once")
        if equal and len({len(group) for group in found}) > 1:
            self.fail(f"groups={value} differ in size")
        return found

    def axis(self) -> int:
        """The `dim` attribute: an axis of the operands."""
        value = self.attrs.get("dim")
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < len(self.inputs[0][0].shape):
            self.fail(f"dim={value}, expected an axis of its operand")
        return value

    def require_pieces(self, whole: Array, piece: Array, axis: int, pieces: int) -> None:
        """Raise unless `pieces` arrays like `piece` make up `whole` along `axis`."""
        wanted = list(piece.shape)
        wanted[axis] *= pieces
        if tuple(wanted) != whole.shape:
            self.fail(f"{pieces} pieces of {list(piece.shape)} along axis {axis} do not make up {list(whole.shape)}")

    # -- new rows -----------------------------------------------------------------------------------------------

    def stage(self, number: int, owner: int, members: list[int], like: Array) -> dict[int, int]:
        """A staging buffer for an array like `like`: member core -> its location for it."""
        name = f"{self.name}.stage{number}.nc{owner}"
        made = {owner: self._location(owner, name, like, None)}
        return {**made, **self.views(name, (name, owner), members, like)}

    def views(self, name: str, target: tuple[str, int], members: list[int], like: Array) -> dict[int, int]:
        """Views of a shared location, given by name and core, on the members that do not own it."""
        return {core: self._location(core, name, like, target) for core in members if core != target[1]}

    def _location(self, core: int, name: str, like: Array, remote: tuple[str, int] | None) -> int:
        return self.changes.location(
            int(self.program.instruction_function[self.rows[core]]),
            name,
            Space.DRAM_SHARED,
            like.nbytes,
            dtype=like.dtype,
            shape=like.shape,
            remote=remote,
            loc=int(self.program.instructions.loc[self.rows[core]]),
        )

    def stage_in(self, groups: list[list[int]]) -> Stages:
        """Make the operands of every member readable for the whole group."""
        return {
            (core, number): self.readable(core, number, group)
            for group in groups
            for core in group
            for number in range(len(self.inputs[core]))
        }

    def readable(self, owner: int, number: int, members: list[int]) -> dict[int, int]:
        """An operand as `members` can read it: member core -> its location for it.

        If members read it in place, it becomes a shared location itself, with views on the other members. Otherwise
        its owner copies it to a staging buffer.
        """
        source = self.inputs[owner][number]
        if not self.in_place[number]:
            made = self.stage(number, owner, members, source)
            self.copy(owner, COPY_IN, f"in{number}", source.operand, (made[owner], None))
            return made
        root = self.direct.root(source.location)
        core = int(self.program.location_core[root])
        self.changes.share(root)
        target = self.program.strings[int(self.program.locations.name[root])]
        others = [member for member in members if member != owner]
        views = self.views(f"{self.name}.stage{number}.nc{owner}", (target, core), others, source)
        return {**views, core: root, owner: source.location}

    def is_view(self, core: int, owner: int, number: int) -> bool:
        """Make a result on `core` a view of an operand of `owner`, where it can be one; whether it is one now."""
        result, source = self.outputs[core][number], self.inputs[owner][number]
        if not self.unchanged[number] or not self.direct.may_view(self.rows[core], result, source):
            return False
        self.changes.view(result.location, self.direct.view(result.location, source.location))
        return True

    def copy(self, core: int, phase: int, label: str, source: Operand, target: Operand) -> None:
        """A DMA copy of bytes."""
        self.changes.instruction(
            self.rows[core],
            f"{self.name}.{label}",
            "dma_copy",
            self.queue(core),
            [source],
            [target],
            seq=self.time(phase),
        )

    def fill(self, core: int, phase: int, label: str, target: Operand) -> None:
        """A DMA fill with zero bytes."""
        self.changes.instruction(
            self.rows[core],
            f"{self.name}.{label}",
            "memset",
            self.queue(core),
            [],
            [target],
            seq=self.time(phase),
            attrs={"value": 0},
        )

    def combine(self, core: int, label: str, parts: list[Operand], target: Array) -> None:
        """Reduce equal arrays, in the order given, which is the same on all cores."""
        op = self.attrs.get("op")
        if not isinstance(op, str) or op not in REDUCTIONS:
            self.fail(f"op={op}, expected a reduction: {', '.join(REDUCTIONS)}")
        key = op, target.shape, target.dtype, len(parts)
        if key not in self.formatted:
            shape: list[AttrValue] = list(target.shape)
            self.formatted[key] = format_attrs(
                {"op": op, "shapes": [shape] * (len(parts) + 1), "dtypes": [target.dtype] * (len(parts) + 1)}
            )
        self.changes.instruction(
            self.rows[core],
            f"{self.name}.{label}",
            "combine",
            Engine.VECTOR,
            parts,
            [target.operand],
            seq=self.time(READ),
            attrs=self.formatted[key],
        )

    def meet(self, phase: int) -> None:
        """A fence of all cores."""
        suffix = "meet0" if phase == FIRST_MEET else "meet1"
        for core in self.cores:
            name = f"{self.name}.{suffix}"
            self.changes.barrier(self.rows[core], name, name, MADE_BY, seq=self.time(phase))
