"""`same=` on locations that are no inputs, compared with what a run writes.

Of each write to such a location a hash of its bytes is kept, by core and by the name of the instruction. Cores of one
class must have written the same, execution by execution; where one has executed an instruction more often, in an arm
that others have not taken, the rest is not compared. At the end the bytes are, unless other locations may be in the
same place by then.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterator

import numpy as np

from haulout.ir.attributes import format_name
from haulout.ir.core_classes import claims, core_classes
from haulout.ir.enums import NONE, Kind
from haulout.ir.labels import instruction_label, location_label
from haulout.ir.paths import named
from haulout.ir.program import Program
from haulout.ir.schema import Bytes, Ids
from haulout.support.diagnostics import Diagnostic, Severity


class Claims:
    """The claims of the functions that run, and hashes of what was written so far."""

    def __init__(self, program: Program, functions: Ids) -> None:
        self.program = program
        rows = claims(program)
        self.rows: list[int] = rows[np.isin(program.locations.function[rows], functions)].tolist()
        self._claimed = frozenset(self.rows)
        self._written: dict[int, dict[str, tuple[int, list[bytes]]]] = defaultdict(dict)
        """Location -> name of an instruction -> its row, and a hash of each write."""

    def wrote(self, instruction: int, location: int, data: Bytes) -> None:
        """An instruction has written some bytes of a location."""
        if location in self._claimed:
            name = self.program.instruction_name(instruction)
            _, hashes = self._written[location].setdefault(name, (instruction, []))
            hashes.append(hashlib.blake2b(data.tobytes(), digest_size=8).digest())

    def findings(self, held: Callable[[int], Bytes | None]) -> Iterator[Diagnostic]:
        """`unequal-bytes`, once for each name of a location; `held` gives the bytes of a location at the end, None
        where some hold no value.
        """
        program = self.program
        by_name: dict[int, dict[int, int]] = defaultdict(dict)
        for row in self.rows:
            by_name[int(program.locations.name[row])][int(program.location_core[row])] = row
        for rows in by_name.values():
            for members in core_classes(program, next(iter(rows.values()))):
                mine = [rows[core] for core in members if core in rows]
                found = next(filter(None, (self._compare(mine[0], other, held) for other in mine[1:])), None)
                if found is not None:
                    yield found
                    break

    def _compare(self, row: int, other: int, held: Callable[[int], Bytes | None]) -> Diagnostic | None:
        for name, (instruction, hashes) in self._written[row].items():
            partner, others = self._written[other].get(name, (NONE, []))
            for time, (one, two) in enumerate(zip(hashes, others, strict=False)):
                if one != two:
                    often = f", in execution {time} of it" if len(hashes) > 1 else ""
                    return self._finding(row, other, f"after %{format_name(name)}{often}", instruction, partner)
        locations = self.program.locations
        alone = locations.address[row] == NONE and locations.address[other] == NONE
        if alone or locations.kind[row] != Kind.INTERNAL:
            one_end, other_end = held(row), held(other)
            if one_end is not None and other_end is not None and not np.array_equal(one_end, other_end):
                return self._finding(row, other, f"at the end, from byte {np.argmax(one_end != other_end)}")
        return None

    def _finding(self, row: int, other: int, when: str, *instructions: int) -> Diagnostic:
        program = self.program
        same = program.strings[int(program.locations.same[row])]
        both = f"cores {program.location_core[row]} and {program.location_core[other]}"
        message = f"{named(program, row)} is claimed to be equal, same={same}, but {both} differ {when}"
        labels = (location_label(program, row), *(instruction_label(program, each) for each in instructions))
        help_text = ("remove `same=`, or correct what one of the cores computes",)
        return Diagnostic("unequal-bytes", Severity.ERROR, message, labels, (), help_text)
