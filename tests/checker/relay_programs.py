"""Random programs whose order passes from engine to engine: in each arm another way, in each iteration one further.

All that an engine does is a `nop` that waits for one of another engine, or an access; few stand between. So what is
ordered is often so in every run for another reason.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from haulout.ir.program import Program
from haulout.ir.text import parse_bir

_ENGINES = ("pe", "act", "pool", "vector")


@dataclass
class _Block:
    head: str
    lines: list[list[str]]
    """Of each core."""


@dataclass
class _Relays:
    random: Random
    cores: int
    semaphores: bool
    blocks: list[_Block] = field(default_factory=list)
    count: int = 0
    left: int = 0

    def name(self, what: str) -> str:
        self.count += 1
        return f"{what}{self.count}"

    def open(self, head: str) -> None:
        self.blocks.append(_Block(head, [[] for _ in range(self.cores)]))

    def work(self, core: int, known: list[list[str]], most: int) -> list[str]:
        """Some instructions of a core at the end of the last block; their names."""
        made = []
        for _ in range(self.random.randint(0, most)):
            touches = self.left > 0 and self.random.random() < 0.3
            self.left -= touches
            name = self.name("i")
            earlier = [*known[core], *made]
            deps = self.random.sample(earlier, min(len(earlier), self.random.choice((0, 1, 1, 1, 2))))
            waits = f" deps=[{','.join(deps)}]" if deps else ""
            opcode = "copy" if touches else "nop"
            operands = "(%x) -> ()" if touches else "() -> ()"
            engine = self.random.choice(_ENGINES)
            marks = ""
            if self.semaphores and self.random.random() < 0.5:
                marks += f" signal=[[{self.random.choice('st')},1]]"
            if self.semaphores and self.random.random() < 0.4:
                marks += f" wait_back=[[{self.random.choice('st')},{self.random.choice((0, 0, 0, 1))}]]"
            self.blocks[-1].lines[core].append(f"%{name} = {opcode} @{engine} {operands}{waits}{marks}")
            made.append(name)
        return made

    def everyone(self, known: list[list[str]], most: int) -> list[list[str]]:
        """The work of all cores; what is known behind it."""
        if self.cores > 1 and self.random.random() < 0.25:
            name, engine = self.name("m"), self.random.choice(("all", *_ENGINES))
            for core in range(self.cores):
                self.blocks[-1].lines[core].append(f'%{name}_{core} = core_barrier @{engine} () -> () name="{name}"')
        return [[*known[core], *self.work(core, known, most)] for core in range(self.cores)]

    def sequence(self, known: list[list[str]], depth: int) -> list[list[str]]:
        """Go on from the last block; the last block is then where it ends."""
        for _ in range(self.random.randint(1, 3)):
            kind = self.random.random()
            if depth and kind < 0.4:
                known = self.fork(known, depth)
            elif depth and kind < 0.7:
                known = self.loop(known, depth)
            else:
                known = self.everyone(known, 3)
        return known

    def fork(self, known: list[list[str]], depth: int) -> list[list[str]]:
        fork = self.blocks[-1]
        then, other, join = self.name("t"), self.name("e"), self.name("j")
        divergent = self.cores > 1 and self.random.random() < 0.2
        fork.head += f" -> ^{then}, ^{other} cond=p{' divergent=true' if divergent else ''}"
        for name in (then, other):
            self.open(f"^{name}")
            if divergent:
                for core in range(self.cores):
                    self.work(core, known, 3)
            else:
                self.sequence(known, depth - 1)
            self.blocks[-1].head += f" -> ^{join}"
        self.open(f"^{join}")
        return self.everyone(known, 3)

    def loop(self, known: list[list[str]], depth: int) -> list[list[str]]:
        header, body, behind = self.name("h"), self.name("b"), self.name("z")
        trip = self.random.choice(("", " trip=1", " trip=2", " trip=3", " trip=4", " trip=7"))
        self.blocks[-1].head += f" -> ^{header}"
        begin = len(self.blocks)
        self.open(f"^{header} -> ^{body}, ^{behind} cond=p{trip}")
        inside = self.everyone(known, 1)
        self.open(f"^{body}")
        self.sequence(inside, depth - 1)
        self.blocks[-1].head += f" -> ^{header}"
        for core in range(self.cores):
            rows = [(block, at) for block in self.blocks[begin:] for at in range(len(block.lines[core]))]
            for _ in range(self.random.choice((0, 1, 1, 2))):
                if not rows:
                    break
                (block, at), (of, which) = self.random.choice(rows), self.random.choice(rows)
                producer = of.lines[core][which].split(" ", 1)[0][1:]
                if "core_barrier" in block.lines[core][at] + of.lines[core][which]:
                    continue
                if "carried=" not in block.lines[core][at]:
                    block.lines[core][at] += f" carried=[{producer}]"
        self.open(f"^{behind}")
        return inside


def random_relays(random: Random, *, semaphores: bool = False) -> Program:
    """One program; equal `random` states give equal programs."""
    relays = _Relays(random, random.choice((1, 1, 2)), semaphores, left=random.randint(3, 6))
    relays.open("^a")
    known = relays.sequence([[] for _ in range(relays.cores)], 2)
    relays.left = 2
    relays.everyone(known, 4)
    parts = []
    for core in range(relays.cores):
        rows = "\n".join(f"    block {each.head}:\n" + "\n".join(each.lines[core]) for each in relays.blocks)
        places = "mloc %x dram.local size=4 kind=inout\nmloc %p dram.local size=1 kind=input"
        parts.append(f"module @nc{core} core={core} {{\nfunc @main {{\n{places}\n{rows}\n}}\n}}\n")
    return parse_bir(f'bir 1\nprogram "relays" lnc={relays.cores}\n' + "".join(parts), "relays.bir")
