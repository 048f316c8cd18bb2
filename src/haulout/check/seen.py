"""What other runs of a function have shown already, so that it is told once.

Two runs, or two copies of an instruction in one, show the same fault. A conflict is known by the two operands in the
program as it is written and which of them is the earlier one, any other finding by its code and the places that it
names. The run in which all loops run and all forks take their first arm comes first.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

import numpy as np

from haulout.check.conflicts import Conflicts
from haulout.check.model import AND, HAPPENS, Model
from haulout.ir.enums import NONE
from haulout.ir.schema import Ids, Ints
from haulout.support.diagnostics import Diagnostic


@dataclass(slots=True)
class Seen:
    """Conflicts and findings of the runs so far."""

    _pairs: dict[int, Ints] = field(default_factory=dict)
    """Kind -> packed pairs of operands."""
    _findings: set[object] = field(default_factory=set)
    _supposed: dict[int, list[str]] = field(default_factory=dict)
    """Packed pair of instructions -> what all runs suppose in which it was found."""
    _told: list[tuple[Diagnostic, int, str]] = field(default_factory=list)
    """Findings that say what their run supposes, their pair, and that note."""

    def unknown(self, model: Model, conflicts: list[Conflicts]) -> list[Conflicts]:
        """The conflicts that are new, one for each pair of operands; of a straight line all of them."""
        if model.unrolled is None:
            return conflicts
        for each in conflicts:
            self._compare(model, each)
        return [kept for each in conflicts if (kept := self._unknown(model, each)).total]

    def _unknown(self, model: Model, conflicts: Conflicts) -> Conflicts:
        assert model.unrolled is not None
        sides = conflicts.first, conflicts.second
        one, other = (_operands(model, side) for side in sides)
        # The earlier execution first: from one iteration to the next is another fault than within one.
        early, late = (model.unrolled.execution[model.rows[model.instruction[side]]] for side in sides)
        turned = (early > late) | ((early == late) & (one > other))
        key = np.where(turned, other, one) << 32 | np.where(turned, one, other)
        keys, first = np.unique(key, return_index=True)
        known = self._pairs.get(conflicts.kind, np.zeros(0, np.int64))
        fresh = first[~np.isin(keys, known)]
        self._pairs[conflicts.kind] = np.union1d(known, keys)
        fresh.sort()
        return replace(conflicts, first=conflicts.first[fresh], second=conflicts.second[fresh], total=len(fresh))

    # -- what a finding rests on -------------------------------------------------------------------------------------

    def remember(self, model: Model, findings: list[Diagnostic]) -> None:
        """Note what findings on order say of their run (`Model.proviso`), to take back what others contradict."""
        asked = iter(model.supposed)
        for finding in findings:
            if note := next((each for each in finding.notes if each.startswith(HAPPENS)), None):
                first, second = next((i, j) for i, j, said in asked if said == note)
                pair = int(_pairs(model, np.array([first]), np.array([second]))[0])
                self._supposed.setdefault(pair, note.removeprefix(HAPPENS).split(AND))
                self._told.append((finding, pair, note))

    def _compare(self, model: Model, conflicts: Conflicts) -> None:
        """Take back what this run does not suppose, of pairs that it shows, too."""
        if not self._supposed:
            return
        first, second = (model.instruction[side] for side in (conflicts.first, conflicts.second))
        keys, rows = np.unique(_pairs(model, first, second), return_index=True)
        for at in np.flatnonzero(np.isin(keys, list(self._supposed))).tolist():
            note = model.proviso(int(first[rows[at]]), int(second[rows[at]])) or ""
            now, pair = note.removeprefix(HAPPENS).split(AND), int(keys[at])
            self._supposed[pair] = [each for each in self._supposed[pair] if each in now]

    def settled(self, findings: list[Diagnostic]) -> list[Diagnostic]:
        """The findings, saying of their runs what all runs have in common that show them."""
        kept = {id(finding): (pair, note) for finding, pair, note in self._told}
        found = []
        for finding in findings:
            if id(finding) in kept:
                pair, note = kept[id(finding)]
                common = [HAPPENS + AND.join(self._supposed[pair])] if self._supposed[pair] else []
                at = finding.notes.index(note)
                finding = replace(finding, notes=(*finding.notes[:at], *common, *finding.notes[at + 1 :]))
            found.append(finding)
        return found

    def fresh(self, findings: list[Diagnostic]) -> list[Diagnostic]:
        """The findings that no run before had, and that do not repeat one of this run."""
        kept = []
        for each in findings:
            key = finding_key(each)
            if key not in self._findings:
                self._findings.add(key)
                kept.append(each)
        return kept


def finding_key(finding: Diagnostic) -> object:
    """What makes two findings of different runs the same; of barriers it does not matter which cores miss them."""
    if finding.code == "barrier-mismatch":
        return re.sub(r"\bcore \d+", "core", finding.message)
    return finding.code, finding.labels or finding.message


def _pairs(model: Model, first: Ids, second: Ids) -> Ints:
    """Pairs of instructions as they are written, whichever comes first; the branch of a block behind them all."""
    unrolled = model.unrolled
    assert unrolled is not None
    sides = []
    for instruction in (first, second):
        row = model.rows[instruction]
        origin = unrolled.origin[row].astype(np.int64)
        sides.append(np.where(origin == NONE, len(unrolled.source.instructions) + unrolled.block[row], origin))
    return np.minimum(*sides) << 32 | np.maximum(*sides)


def _operands(model: Model, accesses: Ids) -> Ints:
    """Operands as they are written; behind them all, the branch of each block."""
    unrolled = model.unrolled
    assert unrolled is not None
    origin = unrolled.access_origin[model.access[accesses]].astype(np.int64)
    block = unrolled.block[model.rows[model.instruction[accesses]]]
    return np.where(origin == NONE, len(unrolled.source.accesses) + block, origin)
