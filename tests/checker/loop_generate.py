"""Random small programs with loops and branches, valid by construction; some sorts are clean but for one slip.

All cores have the same blocks and the same barriers. Most headers and forks write their `cond`. In a *chained*
program each instruction waits for the one before it on its core, in the first block of a loop's body for the header's
last, in the header for the last of the body by `carried`, behind a branch for its arms by nops on one engine; and a
shared location is touched by one core between two barriers. What is then left out now and then makes the faults.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from haulout.ir.attributes import AttrValue
from haulout.ir.builder import ProgramBuilder
from haulout.ir.edit import add_dependences
from haulout.ir.enums import Engine, Kind, Space
from haulout.ir.patterns import Pattern
from haulout.ir.program import Program
from haulout.ir.schema import Dependences

ENGINES = (Engine.VECTOR, Engine.POOL, Engine.DMA0)


_LONG = 1000
"""Times that a block takes."""


@dataclass(frozen=True, slots=True)
class LoopShape:
    """How likely what is."""

    cores: tuple[int, int] = (1, 2)
    depth: int = 2
    unknown_loops: int = 2
    """Loops of unknown trip count, at most."""
    loops: tuple[int, int] = (1, 3)
    work: tuple[int, int] = (0, 2)
    """Instructions of a core in a block."""
    chained: float = 0.5
    slip: float = 0.1
    """In a chained program: a wait or a barrier is left out."""
    fenced: float = 1.0
    """In a chained program: a block begins with a barrier."""
    broken: float = 0.1
    """In a chained program: a header does not wait for the last iteration."""
    wait: float = 0.3
    barrier: float = 0.3
    engines: int = 3
    kinds: tuple[Kind, ...] = (Kind.INOUT,) * 10 + (Kind.INTERNAL, Kind.OUTPUT)
    partial: float = 0.4
    unknown: float = 0.05
    timed: float = 0.5
    addresses: float = 0.0
    """Locations have addresses, and many share bytes; most are internal, and written before they are read."""
    stepped: float = 0.0
    cond: float = 0.9
    """A header or a fork writes what it branches on; else that is an input."""
    forks: tuple[int, int] = (0, 0)
    divergent: float = 0.3
    """A fork diverges."""
    one_arm: float = 0.4
    met: float = 0.3
    """Both arms of a divergent fork begin with a barrier."""
    odd: float = 0.02
    """Just one of them does."""
    trips: tuple[int, ...] = (0, 1, 2, 3, 4)
    subset: float = 0.0
    """A barrier is one of some cores; in a chained program shared locations change hands among these alone."""
    lines: tuple[Engine, ...] = (Engine.ALL,)
    """Where barriers of some cores stand."""
    atomic: float = 0.0
    """An instruction changes a shared location in one step, also where other cores touch it."""
    stray: float = 0.0
    """In a chained program, in arms of divergent forks: an instruction may touch any shared location."""
    meeting: float = 0.0
    """In a block where all cores come: some of them exchange data (`sendrecv`)."""


@dataclass(slots=True)
class _Block:
    name: str
    loops: tuple[str, ...]
    """Headers around, its own too."""
    arms: tuple[tuple[str, int], ...] = ()
    """Forks around, and in which of their arms."""
    header: bool = False
    fork: bool = False
    divergent: bool = False
    ends_arm: bool = False
    join: str = ""
    """The fork whose arms meet here."""
    trip: int | None = None
    targets: tuple[str, ...] = ()
    barrier: tuple[bool, bool] = (False, False)
    """Before the work, behind it."""
    met: tuple[int, ...] = ()
    """The cores that meet at the barrier before the work; none: all."""
    line: Engine = Engine.ALL
    exchange: tuple[int, ...] = ()
    """The cores of a `sendrecv`, each of which sends to the next; just the first two when `one_way`."""
    one_way: bool = False
    alone: int = 0
    """In a chained program: the core that may touch shared locations."""


def random_loops(random: Random, shape: LoopShape) -> Program:
    """One program; equal `random` states give equal programs."""
    return _Generator(random, shape).program()


class _Generator:
    def __init__(self, random: Random, shape: LoopShape) -> None:
        self.random, self.shape = random, shape
        self.cores = random.randint(*shape.cores)
        self.engines = ENGINES[: random.randint(1, shape.engines)]
        self.chained = self.chance(shape.chained)
        self.blocks: list[_Block] = []
        self.loops_left = random.randint(*shape.loops)
        self.forks_left = random.randint(*shape.forks)
        self.unknown_left = shape.unknown_loops
        self.fill = 0.0

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    # -- blocks ---------------------------------------------------------------------------------------------------

    def block(self, loops: tuple[str, ...], arms: tuple[tuple[str, int], ...]) -> _Block:
        made = _Block(f"b{len(self.blocks)}", loops, arms, alone=self.random.randrange(self.cores))
        apart = [each for each in self.blocks if each.divergent and each.name in [fork for fork, _ in arms]]
        if apart:  # no barrier where only some cores come
            made.alone = apart[0].alone
        elif self.chained:
            made.barrier = (self.chance(self.shape.fenced) and not self.chance(self.shape.slip), False)
        else:
            made.barrier = (self.chance(self.shape.barrier), self.chance(self.shape.barrier))
        if self.shape.subset and made.barrier[0] and not apart and self.cores > 2 and self.chance(self.shape.subset):
            made.met = tuple(sorted(self.random.sample(range(self.cores), self.random.randint(2, self.cores - 1))))
            made.line = self.random.choice(self.shape.lines)
            if self.blocks and (self.blocks[-1].alone not in made.met or made.alone not in made.met):
                made.alone = self.blocks[-1].alone
        if self.shape.meeting and not apart and self.cores > 1 and self.chance(self.shape.meeting):
            made.exchange = tuple(self.random.sample(range(self.cores), self.random.randint(2, self.cores)))
            made.one_way = self.chance(0.4)
        self.blocks.append(made)
        return made

    def region(self, loops: tuple[str, ...], arms: tuple[tuple[str, int], ...]) -> None:
        """A block, then loops, branches and blocks in turn."""
        self.block(loops, arms)
        while len(loops) + len(arms) < self.shape.depth and self.chance(0.8 if not loops + arms else 0.5):
            if self.forks_left and (not self.loops_left or self.chance(0.5)):
                self.branch(self.blocks[-1], loops, arms)
            elif self.loops_left:
                self.loop(loops, arms)
                self.block(loops, arms)
            else:
                break

    def loop(self, loops: tuple[str, ...], arms: tuple[tuple[str, int], ...]) -> None:
        if self.blocks[-1].join:
            self.block(loops, arms)  # a join is no header
        self.loops_left -= 1
        header = self.block(loops, arms)
        header.header, header.loops = True, (*loops, header.name)
        if self.unknown_left and self.chance(0.5):
            self.unknown_left -= 1
        else:
            header.trip = self.random.choice(self.shape.trips)
        self.region(header.loops, arms)
        self.blocks[-1].targets = (header.name,)
        header.targets = (self.blocks[self.blocks.index(header) + 1].name, f"b{len(self.blocks)}")

    def branch(self, fork: _Block, loops: tuple[str, ...], arms: tuple[tuple[str, int], ...]) -> None:
        self.forks_left -= 1
        fork.fork, fork.divergent = True, self.chance(self.shape.divergent)
        begins, ends = [], []
        for arm in range(1 if self.chance(self.shape.one_arm) else 2):
            begins.append(len(self.blocks))
            self.region(loops, (*arms, (fork.name, arm)))
            ends.append(self.blocks[-1])
        join = self.block(loops, arms)
        join.join = fork.name
        for end in ends:
            end.targets, end.ends_arm = (join.name,), True
        fork.targets = (self.blocks[begins[0]].name, self.blocks[begins[1]].name if begins[1:] else join.name)
        if fork.divergent and len(begins) == 2 and self.chance(self.shape.met):
            for begin in begins[: 1 if self.chance(self.shape.odd) else 2]:
                self.blocks[begin].barrier = (True, False)

    def program(self) -> Program:
        while True:
            self.region((), ())
            if any(block.header or block.fork for block in self.blocks):
                break
            self.blocks.clear()
        for block, following in zip(self.blocks, self.blocks[1:], strict=False):
            block.targets = block.targets or (following.name,)
        shared = [f"s{number}" for number in range(self.random.randint(1, 2))]
        owners = {name: self.random.randrange(self.cores) for name in shared}
        build = ProgramBuilder("loops", self.cores, file="loops.bir")
        timed = self.chance(self.shape.timed)
        self.coarse = self.chance(0.1)
        addresses = self.chance(self.shape.addresses)
        kinds = {name: self.random.choice(self.shape.kinds) for name in [*shared, "p0", "p1", "p2"]}
        if addresses:
            often = (Kind.INTERNAL,) * 5 + (Kind.OUTPUT,)
            kinds = {name: self.random.choice(often) for name in kinds}
            self.fill = 0.9
        place = {name: self.random.choice([0, 0, 4, 8]) for name in kinds}
        for core in range(self.cores):
            function = build.function(build.module(f"nc{core}", core), "main")
            ids = []
            for name in shared:
                mine = owners[name] == core
                at = 256 * owners[name] + 64 + place[name] if addresses else None
                kind = kinds[name] if mine else Kind.INTERNAL
                remote = None if mine else (name, owners[name])
                ids.append(
                    build.location(
                        function, name, Space.DRAM_SHARED, 12, kind=kind, align=1, remote=remote, address=at
                    )
                )
            for name in ("p0", "p1", "p2")[: self.random.randint(1, 3)]:
                at = 256 * core + 128 + place[name] if addresses else None
                ids.append(
                    build.location(function, name, Space.DRAM_LOCAL, 12, kind=kinds[name], align=1, address=at)
                )
            self.core(build, function, core, ids, len(shared), timed)
        return add_dependences(build.freeze(), Dependences.empty())

    # -- one core -------------------------------------------------------------------------------------------------

    def core(self, build: ProgramBuilder, function: int, core: int, ids: list[int], shared: int, timed: bool) -> None:
        rows, made = {}, []
        for block in self.blocks:
            cond = given = None
            if (block.header or block.fork) and self.chance(self.shape.cond):
                cond = build.location(function, f"c_{block.name}", Space.DRAM_LOCAL, 4)
            elif block.header or block.fork:
                given = build.location(function, f"c_{block.name}", Space.DRAM_LOCAL, 4, kind=Kind.INPUT)
            read = given if cond is None else cond
            rows[block.name] = build.block(
                function, block.name, trip=block.trip, cond=read, divergent=block.divergent
            )
            made.append((block, cond))
        for block, _ in made:
            for target in block.targets:
                build.edge(rows[block.name], rows[target])
        done: list[tuple[int, _Block]] = []
        firsts: dict[str, int] = {}
        tails: dict[str, int | None] = {}
        behind = {block.targets[1]: block.name for block in self.blocks if block.header}
        self.count = 0
        for number, (block, cond) in enumerate(made):
            tail = tails.get(behind[block.name]) if block.name in behind else None
            if block.name not in behind and number:
                tail = tails.get(block.join or self.blocks[number - 1].name)
                if not block.join and block.arms:  # an arm begins behind its fork
                    fork = next(each for each in self.blocks if each.name == block.arms[-1][0])
                    tail = tails.get(fork.name) if block.name in fork.targets else tail
            steps: list[tuple[str, int | None]] = [("work", None)] * self.random.randint(*self.shape.work)
            if self.chance(self.fill):
                allowed = ids if not self.chained or block.alone == core else ids[shared:]
                some = self.random.choice(allowed)
                steps = [("fill", some), ("use", some)]
            if cond is not None:
                steps.insert(self.random.randint(0, len(steps)), ("cond", cond))
            if block.header and not steps:
                steps = [("nop", None)]
            if core in block.exchange[: 2 if block.one_way else None]:
                steps.insert(self.random.randint(0, len(steps)), ("exchange", None))
            if block.join and self.chained and not self.chance(self.shape.slip / 2):
                steps.insert(0, ("nop", None))
            if block.barrier[0] and (not block.met or core in block.met):
                steps.insert(0, ("barrier", 0))
            if block.ends_arm and self.chained and not self.chance(self.shape.slip / 2):
                steps.append(("nop", None))
            if block.barrier[1]:
                steps.append(("barrier", 1))
            for at, (kind, value) in enumerate(steps):
                seq = self.time(number, core, at, kind, value) if timed else None
                row = self.step(build, rows[block.name], core, block, kind, value, ids, shared, seq)
                if kind == "barrier" and self.chained:
                    tail = row
                elif self.chained:
                    if tail is not None and not self.chance(self.shape.slip / 2):
                        build.dependence(row, tail)
                    tail = row
                elif self.chance(self.shape.wait):
                    known = [other for other, where in done if self.dominates(where, block)]
                    if known:
                        build.dependence(row, self.random.choice(known[-4:]))
                firsts.setdefault(block.name, row)
                done.append((row, block))
            tails[block.name] = tail
        for block in self.blocks:
            if not block.header:
                continue
            latch = next(
                each
                for each in self.blocks
                if block.name in each.targets and each.loops[: len(block.loops)] == block.loops and each is not block
            )
            last = tails[latch.name]
            if self.chained and last is not None and not self.chance(self.shape.broken):
                build.dependence(firsts[block.name], last, carried=True)
            inside = [row for row, where in done if block.name in where.loops]
            for _ in range(self.random.randint(0, 2)):
                if self.chance(self.shape.wait) and inside:
                    waiting = self.random.choice(inside)
                    build.dependence(waiting, self.random.choice(inside), carried=True)

    def time(self, number: int, core: int, at: int, kind: str, value: int | None) -> int:
        """A `seq` of its own for each step; in coarse programs one for all steps of a block, which is no order."""
        if kind == "barrier":
            return _LONG * number + (_LONG - 1 if value else 0)
        return _LONG * number + (1 if self.coarse else 1 + at * self.cores + core)

    def apart(self, block: _Block) -> bool:
        """True if it stands in an arm of a divergent fork."""
        return any(each.divergent for each in self.blocks if each.name in [fork for fork, _ in block.arms])

    def dominates(self, first: _Block, second: _Block) -> bool:
        around = first.loops[:-1] if first.header else first.loops
        return second.loops[: len(around)] == around and second.arms[: len(first.arms)] == first.arms

    def step(
        self,
        build: ProgramBuilder,
        row: int,
        core: int,
        block: _Block,
        kind: str,
        value: int | None,
        ids: list[int],
        shared: int,
        seq: int | None,
    ) -> int:
        name, engine = f"i{self.count}", self.random.choice(self.engines)
        self.count += 1
        if kind == "barrier":
            line, cores = (block.line, block.met or None) if value == 0 else (Engine.ALL, None)
            return build.barrier(row, name, f"{block.name}_{value}", engine=line, cores=cores, seq=seq)
        if kind == "cond":
            assert value is not None
            return build.instruction(row, name, "make", engine, (), [value], seq=seq)
        if kind == "nop":
            return build.instruction(row, name, "nop", Engine.SYNC, seq=seq)
        if kind == "exchange":
            return self.exchange(build, row, name, engine, core, block, ids, seq)
        if kind in ("fill", "use"):
            operands = [(int(value or 0), None if kind == "fill" else self.pattern())]
            sides = ((), operands) if kind == "fill" else (operands, ())
            return build.instruction(row, name, "work", engine, *sides, seq=seq)
        if self.shape.atomic and self.chance(self.shape.atomic):
            return self.accumulate(build, row, name, engine, block, self.random.choice(ids[:shared]), seq)
        allowed = ids if not self.chained or block.alone == core else ids[shared:]
        if self.shape.stray and self.apart(block) and self.chance(self.shape.stray):
            allowed = ids
        chosen = self.random.sample(allowed, min(len(allowed), self.random.randint(1, 2)))
        cut = self.random.randint(0, len(chosen))
        operands = [(location, self.pattern()) for location in chosen]
        made = build.instruction(row, name, "work", engine, operands[:cut], operands[cut:], seq=seq)
        first = build.count("accesses") - len(operands)
        for at, (_, pattern) in enumerate(operands):
            if block.loops and pattern is not None and not pattern.is_unknown and self.chance(self.shape.stepped):
                self.move(build, first + at, block, pattern)
        return made

    def exchange(
        self,
        build: ProgramBuilder,
        row: int,
        name: str,
        engine: Engine,
        core: int,
        block: _Block,
        ids: list[int],
        seq: int | None,
    ) -> int:
        ring = block.exchange[:2] if block.one_way else block.exchange
        at = ring.index(core)
        sends, receives = not block.one_way or at == 0, not block.one_way or at == 1
        reads, writes = ([(self.random.choice(ids), self.pattern())] if side else [] for side in (sends, receives))
        to, source = ring[(at + 1) % len(ring)] if sends else None, ring[at - 1] if receives else None
        return build.sendrecv(row, name, engine, to=to, source=source, seq=seq, reads=reads, writes=writes)

    def accumulate(
        self,
        build: ProgramBuilder,
        row: int,
        name: str,
        engine: Engine,
        block: _Block,
        location: int,
        seq: int | None,
    ) -> int:
        opcode = self.random.choice(["add", "add", "add", "maximum"])
        pattern = self.pattern()
        sides, dtypes = [(location, pattern)], ["u8", "u8"]
        attrs: dict[str, AttrValue] = {"dtypes": [*dtypes]}
        made = build.instruction(row, name, opcode, engine, sides, sides, seq=seq, atomic=[0, 1], attrs=attrs)
        if block.loops and pattern is not None and not pattern.is_unknown and self.chance(self.shape.stepped):
            steps = build.count("steps")
            self.move(build, build.count("accesses") - 2, block, pattern)
            if build.count("steps") > steps:
                moved = {name: cells[-1] for name, cells in build._rows["steps"].items()}
                build.row("steps", **{**moved, "access": build.count("accesses") - 1})
        return made

    def pattern(self) -> Pattern | None:
        if self.chance(self.shape.unknown):
            return Pattern(0, -1)
        if self.chance(self.shape.stepped):
            return Pattern(self.random.choice([0, 4]), 4)
        if not self.chance(self.shape.partial):
            return None
        if self.chance(0.3):
            return self.random.choice([Pattern(0, 2, ((4, 3),)), Pattern(2, 2, ((4, 3),)), Pattern(0, 1, ((2, 6),))])
        low = self.random.choice([0, 4, 8])
        return Pattern(low, self.random.choice([4, 12 - low]))

    def move(self, build: ProgramBuilder, access: int, block: _Block, pattern: Pattern) -> None:
        """A step that keeps the pattern in its location of 12 bytes."""
        header = self.random.choice(block.loops)
        number = next(at for at, each in enumerate(self.blocks) if each.name == header)
        trip = self.blocks[number].trip
        room = (12 - pattern.hull[1]) // 4
        modulus = self.random.choice([0, 2, 3])
        reach = (modulus or 5) - 1 if trip is None or modulus else trip - (not block.header)
        if (modulus == 0 and trip is None) or reach > room:
            modulus = min(room + 1, 2)
        if modulus != 1:
            first = build.count("blocks") - len(self.blocks)
            phase = self.random.randrange(modulus) if modulus else 0
            build.row("steps", access=access, header=first + number, stride=4, modulus=modulus, phase=phase)
