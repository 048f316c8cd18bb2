"""Check that both arms of a divergent fork have the same barriers.

Barriers of one engine are matched by index. A core that skips one is matched with the wrong barriers from then on,
and counts that only grow never agree again. So both arms of a `divergent` fork must have, on each engine and in
order, barriers of the same participants. A loop with barriers must have a known trip count, and an inner fork equal
arms.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain

from haulout.ir.enums import NONE
from haulout.ir.labels import block_label, block_name, instruction_label
from haulout.ir.program import Program
from haulout.ir.structure import Fork, Loop
from haulout.support.diagnostics import bad_input


@dataclass(frozen=True, slots=True)
class _Refused:
    """A block whose barriers cores may not match, and the reason."""

    block: int
    why: str


_Barriers = tuple[object, ...]
"""The participants of the barriers of one engine, in order; those of a loop between its trip count and an end mark.
"""


def check_equal_barriers(program: Program) -> None:
    """`bad-input` at the first divergent fork of a core whose arms do not have equal barriers."""
    structure, rows = program.structure, program.barriers.instruction
    forks = [number for number, fork in enumerate(structure.forks) if fork.divergent]
    if not len(rows) or not forks:
        return
    starts = program.starts("instructions", "blocks").tolist()
    lines = program.instructions.engine[rows]
    found = []
    for engine in sorted(set(lines.tolist())):
        mine = lines == engine
        cores = dict(zip(rows[mine].tolist(), program.core_sets.of[mine].tolist(), strict=True))

        def block(at: int, cores: dict[int, int] = cores) -> _Barriers | _Refused:
            return tuple(cores[row] for row in range(starts[at], starts[at + 1]) if row in cores)

        found.append((cores, structure.fold(block, _sequence, _loop, _fork).forks))
    for fork in forks:
        for cores, values in found:
            value = values[fork]
            if isinstance(value, _Refused):
                name = block_name(program, value.block)
                after = [row for row in cores if row >= starts[value.block]]
                bad_input(
                    f"cores may take different arms around block {name}, and {value.why}: their barrier counts would "
                    "differ",
                    block_label(program, value.block),
                    *(instruction_label(program, row) for row in after[:1]),
                )


def _sequence(parts: list[_Barriers | _Refused]) -> _Barriers | _Refused:
    refused = next((part for part in parts if isinstance(part, _Refused)), None)
    return refused or tuple(chain.from_iterable(part for part in parts if not isinstance(part, _Refused)))


def _loop(loop: Loop, header: _Barriers | _Refused, body: _Barriers | _Refused) -> _Barriers | _Refused:
    whole = _sequence([("loop", loop.trip), header, ("body",), body, ("end",)])
    if isinstance(body, _Refused) or not (header or body):
        return body
    if loop.trip == NONE:
        return _Refused(loop.header, "a loop with barriers has no known trip count")
    return whole


def _fork(fork: Fork, arms: list[_Barriers | _Refused]) -> _Barriers | _Refused:
    first, *others = arms
    refused = _sequence(arms)
    if isinstance(refused, _Refused):
        return refused
    if first != (others[0] if others else ()):
        return _Refused(fork.block, "its arms have different core_barriers")
    return first
