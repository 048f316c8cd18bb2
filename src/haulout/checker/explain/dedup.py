"""Deduplication: a fault that several runs of a function show is reported once.

Two runs, or two copies of an instruction in one run, show the same fault. A conflict is identified by its two
operands in the program as written and by which of them is earlier; any other finding by its code and its subject. The
run in which all loops run and all forks take their first arm comes first.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from haulout.checker.model import Model
from haulout.checker.order.happens_before import Order
from haulout.checker.proofs.conflicts import HAZARDS, Conflicts
from haulout.ir.enums import NONE
from haulout.ir.schema import Bools, Ids, Ints
from haulout.support.diagnostics import Diagnostic, Entity, Proviso


@dataclass(slots=True)
class Faults:
    """All that is wrong with a function, as keys."""

    pairs: dict[int, Ints] = field(default_factory=dict)
    """Kind -> packed pairs of operands, sorted."""
    others: frozenset[object] = frozenset()
    """The keys of findings that are not about pairs."""
    work: int = 0
    """The work that it took: instructions and operands judged."""
    runs: int = 0
    """The number of models judged."""

    def __bool__(self) -> bool:
        return bool(self.pairs or self.others)

    def of(self, kind: int) -> Ints:
        """The pairs of one kind."""
        return self.pairs.get(kind, np.zeros(0, np.int64))

    def has(self, kind: int, key: int) -> bool:
        """True if a pair is among them."""
        return bool(np.isin(key, self.of(kind)))

    def __le__(self, other: Faults) -> bool:
        same = all(np.isin(keys, other.of(kind)).all() for kind, keys in self.pairs.items())
        return same and self.others <= other.others


@dataclass(slots=True)
class Dedup:
    """Conflicts and findings of the runs so far."""

    work: int = 0
    """Instructions and operands judged so far, including earlier work for the same report."""
    runs: int = 0
    _pairs: dict[int, Ints] = field(default_factory=dict)
    """Kind -> packed pairs of operands."""
    _findings: dict[object, Diagnostic] = field(default_factory=dict)
    """Key -> the finding: of the runs that show it, that which assumes least."""
    _provisos: dict[int, tuple[Proviso, ...]] = field(default_factory=dict)
    """Packed pair of instructions -> the provisos of all runs in which it was found."""

    def new_conflicts(self, model: Model, conflicts: list[Conflicts]) -> list[Conflicts]:
        """The conflicts that are new, one for each pair of operands; in a straight line all of them."""
        if model.unrolled is None:
            self._pairs = {each.kind: np.unique(pair_keys(model, each.first, each.second)) for each in conflicts}
            return conflicts
        for each in conflicts:
            self._intersect_provisos(model, each)
        return [kept for each in conflicts if (kept := self._new_conflicts(model, each)).total]

    def _new_conflicts(self, model: Model, conflicts: Conflicts) -> Conflicts:
        key = pair_keys(model, conflicts.first, conflicts.second)
        keys, first = np.unique(key, return_index=True)
        known = self._pairs.get(conflicts.kind, np.zeros(0, np.int64))
        fresh = first[~np.isin(keys, known)]
        self._pairs[conflicts.kind] = np.union1d(known, keys)
        fresh.sort()
        return replace(conflicts, first=conflicts.first[fresh], second=conflicts.second[fresh], total=len(fresh))

    def has(self, one: int, other: int) -> bool:
        """True if two operands, the earlier first, were found unordered, or ordered against the source."""
        return any(one << 32 | other in known for known in self._pairs.values())

    def faults(self) -> Faults:
        """All that is wrong in the runs so far."""
        # A finding on a pair represents others, and which one is shown may vary: pairs count, not findings.
        others = frozenset(key for key, each in self._findings.items() if not _is_hazard(each))
        return Faults({kind: keys for kind, keys in self._pairs.items() if len(keys)}, others, self.work, self.runs)

    # -- what a finding depends on ----------------------------------------------------------------------------------

    def note_provisos(self, findings: list[Diagnostic]) -> None:
        """Record the provisos of findings on order, to remove those that other runs contradict."""
        for finding in findings:
            if (subject := finding.subject) is not None and subject.provisos:
                self._provisos.setdefault(_pair(subject.instructions), subject.provisos)

    def _intersect_provisos(self, model: Model, conflicts: Conflicts) -> None:
        """Remove the provisos that this run does not have, for pairs that it shows too."""
        if not self._provisos:
            return
        first, second = (model.instruction[side] for side in (conflicts.first, conflicts.second))
        keys, rows = np.unique(_pairs(model, first, second), return_index=True)
        for at in np.flatnonzero(np.isin(keys, list(self._provisos))).tolist():
            now, pair = model.provisos(int(first[rows[at]]), int(second[rows[at]])), int(keys[at])
            self._provisos[pair] = tuple(each for each in self._provisos[pair] if each in now)

    def with_common_provisos(self, findings: list[Diagnostic]) -> list[Diagnostic]:
        """The findings as the run shows them that assumes least, those on order with the provisos that all runs which
        show them have in common; and the notes on these.
        """
        found = []
        for finding in findings:
            if not _is_hazard(finding):
                finding = self._findings.get(finding_key(finding), finding)
            subject = finding.subject
            if subject is not None and subject.provisos:
                provisos = subject.provisos
                if _is_hazard(finding):
                    provisos = self._provisos.get(_pair(subject.instructions), provisos)
                notes = (*finding.notes, *_happens(provisos))
                finding = replace(finding, notes=notes, subject=replace(subject, provisos=provisos))
            found.append(finding)
        return found

    def new_findings(self, findings: list[Diagnostic]) -> list[Diagnostic]:
        """The findings that no earlier run had, each once."""
        kept = []
        for each in findings:
            key = finding_key(each)
            known = self._findings.get(key)
            if known is None:
                kept.append(each)
            if known is None or _assumed(each) < _assumed(known):
                self._findings[key] = each
        return kept


def pair_keys(model: Model, first: Ids, second: Ids) -> Ints:
    """Pairs of operands as one number each."""
    one, other = (_operands(model, side) for side in (first, second))
    turned = one > other
    if model.unrolled is not None:
        # The earlier execution first: a fault between two iterations differs from one within an iteration.
        early, late = (model.unrolled.execution[model.rows[model.instruction[side]]] for side in (first, second))
        turned = (early > late) | ((early == late) & turned)
    keys: Ints = np.where(turned, other, one) << 32 | np.where(turned, one, other)
    return keys


def unordered(model: Model, order: Order, keys: Ints) -> Bools:
    """Which pairs of operands of a straight line, as keys, are unordered."""
    found = np.zeros(len(keys), bool)
    rows = np.searchsorted(model.access, np.stack([keys >> 32, keys & 0xFFFFFFFF]))
    for at, (one, other) in enumerate(rows.T.tolist()):
        found[at] = not order.before(one, other) and not order.before(other, one)
    return found


def finding_key(finding: Diagnostic) -> object:
    """The identity of a finding across runs; for barriers it does not depend on which cores miss them."""
    subject = finding.subject
    if subject is None:
        return finding.code, finding.labels
    if finding.code == "barrier-mismatch":
        names = tuple(sorted({each.name for each in subject.instructions}))
        return finding.code, subject.kind, subject.function, subject.position, names
    return finding.code, subject.identity


def _is_hazard(finding: Diagnostic) -> bool:
    """True if it is about a pair of accesses."""
    return finding.subject is not None and finding.subject.kind in HAZARDS


def _assumed(finding: Diagnostic) -> tuple[int, int]:
    """How much a finding assumes: less if it is certain, less with fewer provisos."""
    return -finding.severity, 0 if finding.subject is None else len(finding.subject.provisos)


def _happens(provisos: tuple[Proviso, ...]) -> tuple[str, ...]:
    return (f"this happens when {' and '.join(each.text for each in provisos)}",) if provisos else ()


def _pair(instructions: tuple[Entity, ...]) -> int:
    one, other = sorted(each.row for each in instructions)
    return one << 32 | other


def _pairs(model: Model, first: Ids, second: Ids) -> Ints:
    """Pairs of instructions as written, in either order; branches of blocks are numbered after all instructions."""
    unrolled = model.unrolled
    assert unrolled is not None
    sides = []
    for instruction in (first, second):
        row = model.rows[instruction]
        origin = unrolled.origin[row].astype(np.int64)
        sides.append(np.where(origin == NONE, len(unrolled.source.instructions) + unrolled.block[row], origin))
    return np.minimum(*sides) << 32 | np.maximum(*sides)


def _operands(model: Model, accesses: Ids) -> Ints:
    """Operands as written; branches of blocks are numbered after all operands."""
    unrolled = model.unrolled
    if unrolled is None:
        return model.access[accesses].astype(np.int64)
    origin = unrolled.access_origin[model.access[accesses]].astype(np.int64)
    block = unrolled.block[model.rows[model.instruction[accesses]]]
    return np.where(origin == NONE, len(unrolled.source.accesses) + block, origin)
