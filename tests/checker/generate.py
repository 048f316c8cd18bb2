"""Random small straight-line programs, valid by construction, with everything that the checker has to understand.

A schedule of rendezvous (barriers of all or some cores on `all` or one engine, point-to-point meetings) is drawn
first and scattered over the lists of its participants in that order; between them stand instructions with random
operands and dependences on earlier ones. So most programs have no mismatch and no deadlock, and whether they race
is left to chance; a few have one rendezvous dropped, renamed or exchanged on one core. `verify` finds nothing wrong
with any.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from haulout.ir.attributes import AttrValue
from haulout.ir.builder import ProgramBuilder
from haulout.ir.enums import Engine, Kind, Space
from haulout.ir.patterns import Pattern
from haulout.ir.program import Program

ENGINES = (Engine.VECTOR, Engine.POOL, Engine.DMA0, Engine.PE)


@dataclass(frozen=True, slots=True)
class Shape:
    """How large, and how likely what is."""

    cores: tuple[int, int] = (2, 4)
    instructions: tuple[int, int] = (2, 6)
    """A core."""
    rendezvous: tuple[int, int] = (0, 4)
    engines: int = 3
    shared: tuple[int, int] = (1, 3)
    private: tuple[int, int] = (0, 2)
    sizes: Sequence[int] = (4, 8, 12, 24)
    everyone: float = 0.5
    """A barrier of all cores on `all`; else of some cores, or on one engine."""
    meeting: float = 0.2
    """A rendezvous is a `sendrecv`."""
    dependence: float = 0.35
    """An earlier instruction of the core is waited for."""
    unknown: float = 0.05
    partial: float = 0.6
    allocated: float = 0.4
    """The program has addresses; half of those leave some locations without."""
    broken: float = 0.08
    """A rendezvous is changed on one core."""
    timed: float = 0.5
    """There is a `seq`."""
    orderly: float = 0.0
    """The program is made to be clean: phases with one writer a location, a barrier between them, all dependences."""
    slip: float = 0.0
    """In an orderly program, something is forgotten: a barrier, a dependence, a phase's writer."""
    atomic: float = 0.0
    """An instruction changes one of its operands in one step."""


@dataclass(slots=True)
class _Location:
    name: str
    owner: int
    size: int
    shared: bool
    space: Space
    kind: Kind
    address: int | None = None
    partition: int | None = None
    parts: int | None = None
    phase: int | None = None
    """Scratch storage of an orderly program: touched in this phase only, by its owner."""


@dataclass(slots=True)
class _Step:
    """One line of one core's list."""

    kind: str
    name: str = ""
    engine: Engine = Engine.ALL
    cores: tuple[int, ...] | None = None
    to: int | None = None
    source: int | None = None
    tag: str | None = None
    phase: int = 0


def random_program(random: Random, shape: Shape | None = None) -> Program:
    """One program; equal `random` states give equal programs."""
    return _Generator(random, shape or Shape()).program()


class _Generator:
    def __init__(self, random: Random, shape: Shape) -> None:
        self.random, self.shape = random, shape
        self.cores = random.randint(*shape.cores)
        self.engines = ENGINES[: random.randint(1, shape.engines)]
        self.orderly = self.chance(shape.orderly)
        self.writers: list[dict[str, int]] = []
        self.sizes: dict[int, int] = {}
        self.names: dict[int, str] = {}
        self.scratch: dict[int, int | None] = {}
        self.touched: dict[int, tuple[set[int], set[int]]] = {}

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def program(self) -> Program:
        locations = self.locations()
        lists = self.phases(locations) if self.orderly else self.lists()
        timed = self.chance(self.shape.timed)
        build = ProgramBuilder("generated", self.cores, file="generated.bir")
        if self.chance(0.1):
            build.attrs["capacity"] = self.random.choice([32, 64, 128, 4096])
        for core in range(self.cores):
            function = build.function(build.module(f"nc{core}", core), "main")
            ids = self.declare(build, function, core, locations)
            blocks = [build.block(function, "entry")]
            if self.chance(0.2):
                blocks.append(build.block(function, "next"))
                build.edge(blocks[0], blocks[1])
            half = len(lists[core]) // 2
            seq = 0
            done: list[int] = []
            for at, step in enumerate(lists[core]):
                seq = (
                    2 * step.phase + (step.kind == "barrier")
                    if self.orderly
                    else seq + self.random.choice([0, 1, 1, 2])
                )
                block = blocks[min(at // max(half, 1), len(blocks) - 1)]
                done.append(self.step(build, block, at, step, done, ids, seq if timed else None))
        return build.freeze()

    # -- storage --------------------------------------------------------------------------------------------------

    def locations(self) -> list[_Location]:
        random, shape = self.random, self.shape
        found = []
        for number in range(random.randint(*shape.shared)):
            owner = random.randrange(self.cores)
            kind = random.choice([Kind.INTERNAL, Kind.INTERNAL, Kind.INPUT, Kind.OUTPUT])
            kind = Kind.INOUT if self.orderly else kind
            size = random.choice(shape.sizes)
            found.append(_Location(f"s{number}", owner, size, True, Space.DRAM_SHARED, kind))
        for core in range(self.cores):
            for number in range(random.randint(*shape.private)):
                space = random.choice([Space.DRAM_LOCAL, Space.DRAM_LOCAL, Space.SBUF, Space.PSUM])
                kind = random.choice([Kind.INTERNAL, Kind.INPUT]) if space is Space.DRAM_LOCAL else Kind.INTERNAL
                kind = Kind.INOUT if self.orderly else kind
                size = random.choice(shape.sizes)
                found.append(_Location(f"p{number}", core, size, False, space, kind))
        for number in range(random.randint(0, 3) if self.orderly else 0):
            owner, phase = random.randrange(self.cores), random.randrange(3)
            space = Space.DRAM_LOCAL
            found.append(_Location(f"t{number}", owner, 8, False, space, Kind.INTERNAL, phase=phase))
        if self.chance(shape.allocated):
            some = self.chance(0.5)
            for each in found:
                if some and self.chance(0.3):
                    continue
                if self.orderly:
                    place = 0 if each.phase is not None else 1 + found.index(each)
                    each.address = 64 * len(found) * each.owner + 32 * place
                elif each.space.is_dram:
                    core = each.owner if self.chance(0.97) else random.randrange(self.cores)
                    each.address = 64 * core + 4 * random.randrange(10)
                else:
                    each.parts = random.choice([None, 1, 2, 4])
                    each.partition = random.choice([None, 0, 1])
                    each.address = 2 * random.randrange(4)
        return found

    def declare(self, build: ProgramBuilder, function: int, core: int, locations: list[_Location]) -> list[int]:
        """The locations of one core; returns their ids."""
        ids = []
        for each in locations:
            if each.owner != core and not each.shared:
                continue
            view = each.owner != core
            address = each.address
            if view and self.chance(0.03):
                address = None if self.chance(0.5) else (address or 0) + 4
            ids.append(
                build.location(
                    function,
                    each.name if not view else f"v_{each.name}",
                    each.space,
                    each.size,
                    kind=Kind.INTERNAL if view else each.kind,
                    align=1 if self.chance(0.98) or (address or 0) % 8 else 8,
                    remote=(each.name, each.owner) if view else None,
                    address=address,
                    partition=each.partition,
                    parts=each.parts,
                )
            )
            self.sizes[ids[-1]] = each.size
            self.names[ids[-1]] = each.name if each.shared else f"{each.name}@{core}"
            self.scratch[ids[-1]] = each.phase
        return ids

    # -- lists ------------------------------------------------------------------------------------------------------

    def lists(self) -> list[list[_Step]]:
        random, shape = self.random, self.shape
        lists: list[list[_Step]] = [[] for _ in range(self.cores)]
        for number in range(random.randint(*shape.rendezvous)):
            for core, step in self.rendezvous(number).items():
                lists[core].append(step)
        if self.chance(shape.broken):
            self.break_one(lists)
        for core in range(self.cores):
            for _ in range(random.randint(*shape.instructions)):
                at = random.randint(0, len(lists[core]))
                lists[core].insert(at, _Step("work", engine=random.choice(self.engines)))
        return lists

    def phases(self, locations: list[_Location]) -> list[list[_Step]]:
        """Lists in phases: in each, every location has one core that may write it, or all may read it."""
        random, shape = self.random, self.shape
        lists: list[list[_Step]] = [[] for _ in range(self.cores)]
        for phase in range(random.randint(1, 4)):
            self.writers.append({})
            for each in locations:
                if self.chance(0.6):
                    owner = each.owner if not each.shared else random.randrange(self.cores)
                    self.writers[phase][each.name if each.shared else f"{each.name}@{owner}"] = owner
            for core in range(self.cores):
                for _ in range(random.randint(0, 3)):
                    lists[core].append(_Step("work", engine=random.choice(self.engines), phase=phase))
                if phase and not self.chance(shape.slip):
                    at = next((k for k, step in enumerate(lists[core]) if step.phase == phase), len(lists[core]))
                    lists[core].insert(at, _Step("barrier", f"b{phase}", phase=phase - 1))
            if phase and len({sum(step.kind == "barrier" for step in steps) for steps in lists}) > 1:
                for steps in lists:  # a barrier is forgotten on all cores or on none
                    steps[:] = [step for step in steps if step.name != f"b{phase}"]
        return lists

    def allowed(self, row: int, core: int, phase: int, write: bool) -> bool:
        if not self.orderly or self.chance(self.shape.slip):
            return True
        if self.scratch[row] is not None:
            return self.scratch[row] == phase
        writer = self.writers[phase].get(self.names[row])
        return writer == core if write else writer in (None, core)

    def needed(self, row: int, done: list[int]) -> list[int]:
        """The earlier instructions of the core that this one must wait for."""
        reads, writes = self.touched[row]
        return [
            other
            for other in done
            if (self.touched[other][1] & (reads | writes) or self.touched[other][0] & writes)
            and not self.chance(self.shape.slip)
        ]

    def rendezvous(self, number: int) -> dict[int, _Step]:
        random = self.random
        everyone = tuple(range(self.cores))
        if self.cores > 1 and self.chance(self.shape.meeting):
            ring = random.sample(everyone, random.randint(2, self.cores))
            engine, tag = random.choice(self.engines), random.choice(["a", "b", None])
            if self.chance(0.4):  # one way
                sender, receiver = ring[:2]
                return {
                    sender: _Step("sendrecv", engine=engine, to=receiver, tag=tag),
                    receiver: _Step("sendrecv", engine=engine, source=sender, tag=tag),
                }
            return {
                core: _Step("sendrecv", engine=engine, to=ring[(at + 1) % len(ring)], source=ring[at - 1], tag=tag)
                for at, core in enumerate(ring)
            }
        name = random.choice([f"b{number}", "b"])
        if self.chance(self.shape.everyone):
            return {core: _Step("barrier", name) for core in everyone}
        some = tuple(sorted(random.sample(everyone, random.randint(1, self.cores))))
        engine = random.choice([Engine.ALL, *self.engines])
        return {core: _Step("barrier", name, engine, some) for core in some}

    def break_one(self, lists: list[list[_Step]]) -> None:
        core = self.random.randrange(self.cores)
        if not lists[core]:
            return
        at = self.random.randrange(len(lists[core]))
        match self.random.choice(["drop", "rename", "exchange"]):
            case "drop":
                del lists[core][at]
            case "rename" if lists[core][at].kind == "barrier":
                step = lists[core][at]
                lists[core][at] = _Step("barrier", "other", step.engine, step.cores)
            case _:
                step = lists[core].pop(at)
                lists[core].insert(self.random.randint(0, len(lists[core])), step)

    # -- one instruction ---------------------------------------------------------------------------------------------

    def step(
        self,
        build: ProgramBuilder,
        block: int,
        at: int,
        step: _Step,
        done: list[int],
        ids: list[int],
        seq: int | None,
    ) -> int:
        deps = [row for row in done if self.chance(self.shape.dependence / max(len(done), 1) * 1.5)]
        core = build._rows["modules"]["core"][-1]
        row = build.count("instructions")
        name = f"i{at}"
        if step.kind == "barrier":
            handles = self.random.sample(ids, 1) if ids and self.chance(0.2) else []
            return build.barrier(
                block, name, step.name, engine=step.engine, cores=step.cores, seq=seq, deps=deps, reads=handles
            )
        reads, writes = self.operands(ids)
        reads = [each for each in reads if self.allowed(each[0], core, step.phase, False)]
        writes = [each for each in writes if self.allowed(each[0], core, step.phase, True)]
        self.touched[row] = ({each for each, _ in reads}, {each for each, _ in writes})
        if self.orderly:
            deps = self.needed(row, [each for each in done if each in self.touched])
        if step.kind == "sendrecv":
            return build.sendrecv(
                block,
                name,
                step.engine,
                to=step.to,
                source=step.source,
                tag=step.tag,
                seq=seq,
                deps=deps,
                reads=reads if step.to is not None else [],
                writes=writes if step.source is not None else [],
            )
        if writes and self.shape.atomic and self.chance(self.shape.atomic):
            return self.accumulate(build, block, name, step.engine, reads, writes, seq, deps)
        if writes and self.chance(0.15):
            attrs = {"value": self.random.choice([0, 0, 1])}
            return build.instruction(block, name, "memset", step.engine, [], writes, seq=seq, deps=deps, attrs=attrs)
        return build.instruction(block, name, "work", step.engine, reads, writes, seq=seq, deps=deps)

    def accumulate(
        self,
        build: ProgramBuilder,
        block: int,
        name: str,
        engine: Engine,
        reads: list[tuple[int, Pattern | None]],
        writes: list[tuple[int, Pattern | None]],
        seq: int | None,
        deps: list[int],
    ) -> int:
        """An instruction that reads and writes its first result in one step."""
        opcode = self.random.choice(["add", "add", "add", "maximum", "fetch_and_op"])
        attrs: dict[str, AttrValue] = {"op": "add"} if opcode == "fetch_and_op" else {}
        count = 1 + len(reads) + len(writes)
        attrs["dtypes"] = [self.random.choice(["u8", "u8", "u8", "s8"])] * count
        return build.instruction(
            block,
            name,
            opcode,
            engine,
            [writes[0], *reads],
            writes,
            seq=seq,
            deps=deps,
            atomic=[0, 1 + len(reads)],
            attrs=attrs,
        )

    def operands(self, ids: list[int]) -> tuple[list[tuple[int, Pattern | None]], list[tuple[int, Pattern | None]]]:
        random = self.random
        chosen = random.sample(ids, min(len(ids), random.randint(0, 3)))
        operands = [(row, self.pattern(self.sizes[row])) for row in chosen]
        cut = random.randint(0, min(len(operands), 2))
        return operands[:cut], operands[cut:]

    def pattern(self, size: int) -> Pattern | None:
        random = self.random
        if self.chance(self.shape.unknown):
            return Pattern(0, -1)
        if not self.chance(self.shape.partial):
            return None
        if self.chance(0.5):
            low = random.randrange(size)
            return Pattern(low, random.randint(1, size - low))
        # A strided one: dims added while they fit.
        run = random.randint(1, max(size // 4, 1))
        low, high, dims = 0, run, []
        for _ in range(random.randint(1, 3)):
            stride, count = random.choice([1, 2, 3, 4, 6, 8, -2, -4]), random.randint(2, 3)
            reach = stride * (count - 1)
            if high - low + abs(reach) <= size:
                low, high = min(low, low + reach), max(high, high + reach)
                dims.append((stride, count))
        return Pattern(random.randint(0, size - (high - low)) - low, run, tuple(dims))
