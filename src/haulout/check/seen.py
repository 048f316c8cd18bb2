"""What other runs of a function have shown already, so that it is told once.

Two runs, or two copies of an instruction in one, show the same fault. A conflict is known by the two operands in the
program as it is written and which of them is the earlier one, any other finding by its code and the places that it
names. The run in which all loops run and all forks take their first arm comes first.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from haulout.check.conflicts import Conflicts
from haulout.check.model import Model
from haulout.ir.enums import NONE
from haulout.ir.schema import Ids, Ints
from haulout.support.diagnostics import Diagnostic


@dataclass(slots=True)
class Seen:
    """Conflicts and findings of the runs so far."""

    _pairs: dict[int, Ints] = field(default_factory=dict)
    """Kind -> packed pairs of operands."""
    _findings: set[object] = field(default_factory=set)

    def unknown(self, model: Model, conflicts: list[Conflicts]) -> list[Conflicts]:
        """The conflicts that are new, one for each pair of operands; of a straight line all of them."""
        if model.unrolled is None:
            return conflicts
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
    """What makes two findings of different runs the same."""
    return finding.code, finding.labels or finding.message


def _operands(model: Model, accesses: Ids) -> Ints:
    """Operands as they are written; behind them all, the branch of each block."""
    unrolled = model.unrolled
    assert unrolled is not None
    origin = unrolled.access_origin[model.access[accesses]].astype(np.int64)
    block = unrolled.block[model.rows[model.instruction[accesses]]]
    return np.where(origin == NONE, len(unrolled.source.accesses) + block, origin)
