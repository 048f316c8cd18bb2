"""The recipe: everything that is proved about a program, from the program alone.

    soundness    the verifier first (`haulout.ir.verify`): what is not sound is refused, not judged
    model        one function on all cores as columns; what is not supported is refused, not skipped; a function with
                 loops and forks is proved by data flow, and runs, each straight code, show what that leaves open;
                 where it does not decide and runs remain unchecked: unproved-paths
    barriers     every two cores attend their common barriers in one sequence: barrier-mismatch
    fused graph  one node a rendezvous; a topological order of it, or the cycle: deadlock
    order        clocks inside a core, bands between cores
    conflicts    every conflicting pair is ordered, and as the source orders it: cross-core-race, possible-race,
                 missing-dependence, unfaithful-order, benign-duplicate-write
    values       undefined bytes reach nothing, outputs are written in whole: uninitialized-read, output-not-written
    collectives  those that exchange nothing: one-member-collective
    claims       `same=` on what is no input, derived again: equal-bytes-unproved
    storage      views, partitions, capacity, lifetimes: view-mismatch, over-capacity, overlapping-storage

Order comes from the fused graph only, bytes from patterns and addresses only. The passes that made the program share
nothing with this. Without agreeing barriers and a schedule there is no order: then the checks that need one are left
out, and the finding that says so is an error.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice

import numpy as np

from haulout.checker.explain.advice import Adviser, Budget
from haulout.checker.explain.causes import Chains
from haulout.checker.explain.dedup import Dedup, Faults, finding_key, unordered
from haulout.checker.explain.findings import Reporter, bare
from haulout.checker.explain.unproved import unproved_paths
from haulout.checker.flow.prove import Examined, examine
from haulout.checker.flow.refusal import Refusal
from haulout.checker.model import Function, Model, Runs, functions
from haulout.checker.order.barriers import check_barriers, find_barriers
from haulout.checker.order.graph import build_graph, check_acyclic
from haulout.checker.order.happens_before import build_order, schedule_accesses
from haulout.checker.order.sendrecv import check_sendrecvs, find_sendrecvs
from haulout.checker.paths.runs import MAX_INSTRUCTIONS, Run, every_run, longest, walk
from haulout.checker.paths.step_trips import Copies
from haulout.checker.proofs import sweep
from haulout.checker.proofs.benign_writes import excuse_writes
from haulout.checker.proofs.conflicts import Conflicts, find_conflicts
from haulout.checker.proofs.extents import find_extents
from haulout.checker.proofs.source_order import SourceOrder, check_comparable, check_times, source_order
from haulout.checker.proofs.stale_bytes import check_stale_bytes
from haulout.checker.proofs.storage import check_lifetimes, check_placements, check_views
from haulout.checker.proofs.storage_map import physical_map
from haulout.checker.proofs.uninitialized import check_written
from haulout.checker.values.equal_cores import unproved_claims
from haulout.ir.idle_collectives import idle_collectives
from haulout.ir.program import Program
from haulout.ir.schema import Bools
from haulout.ir.verify import check_sound
from haulout.support.diagnostics import Diagnostic, HauloutError
from haulout.support.jit import compiled_if_large, plain_if_small

_MAX_RUNS = 64
"""Runs of a function that are checked where data flow does not decide ..."""
_MAX_WORK = 1 << 22
"""... and their instructions together; 8 runs are checked however long they are."""
_MAX_SOME = 32
"""Runs of a function that has more, and runs that show what data flow leaves open."""
_STUCK = frozenset({"barrier-mismatch", "deadlock"})
"""Findings on runs that do not end."""
MAX_FINDINGS = 50
"""Findings that are listed for one program."""


def check_program(program: Program, *, source: Program | None = None, advise: bool = True) -> list[Diagnostic]:
    """Prove a program or report what is wrong with it: no barrier mismatch, no deadlock, no race, no missing
    dependence, no undefined bytes that reach an output, no two tensors on the same bytes at one time, the source's
    order kept.

    With `source`, the program that it was made from, the order of conflicts is compared with that one's too; a
    program with `seq` carries that order itself. An empty list is the proof. Findings come worst first, at most 50 of
    them; a function that is not supported (loops that are left in the middle, arms that share a tail) yields one
    `bad-input` finding and nothing else. With `advise` findings on order name a fix, which has been tried. Raises
    `HauloutError` with what `haulout.ir.verify` finds when the program, or the source, is not sound.
    """
    check_sound(program)
    if source is not None:
        check_sound(source)
    found: list[Diagnostic] = []
    budget = Budget() if advise else None
    for function in functions(program):
        if isinstance(function, list):
            found += function
            continue
        judge = partial(_faults_of, name=function.name, source=source)
        try:
            found += check_function(function, source, Adviser(program, judge, budget))
            found += check_comparable(function, source) if source is not None else []
        except HauloutError as error:
            found += error.diagnostics
    found += idle_collectives(program) + unproved_claims(program)
    found.sort(key=lambda finding: -finding.severity)
    return _shortened(found)


def check_function(function: Function, source: Program | None, adviser: Adviser) -> list[Diagnostic]:
    """All findings for one function."""
    runs = function.runs
    if runs is None:
        return adviser.finish(_check(function.straight(), source, Dedup(), adviser))
    examined = examine(runs, source)
    if examined.is_proved:
        return list(runs.notes)
    # All runs are checked before any is reported: the value of a fix is what it does to them all.
    checked = _check_runs(runs, source, examined)
    if not checked.faults:
        return checked.unproved + runs.notes
    adviser.know(checked.faults)
    dedup = Dedup(checked.faults.work)
    found: list[Diagnostic] = []
    for model in checked.models(runs):
        found += dedup.new_findings(_check(model, source, dedup, adviser))
    return dedup.with_common_provisos(adviser.finish(found)) + checked.unproved + runs.notes


def _faults_of(program: Program, work: int, *, name: str, source: Program | None) -> Faults:
    """All that is wrong with one function of a program; `work` has been done for the report before."""
    names = program.functions.name[program.functions.module == 0].tolist()
    try:
        check_sound(program)
        function = functions(program)[names.index(program.strings.find(name))]
        if isinstance(function, list):
            return Faults(others=frozenset(map(finding_key, function)))
        if function.runs is not None:
            examined = examine(function.runs, source)
            if examined.is_proved:
                return Faults(work=work + function.runs.size)
            checked = _check_runs(function.runs, source, examined, work)
            return replace(
                checked.faults, others=checked.faults.others | {finding_key(each) for each in checked.unproved}
            )
        dedup = Dedup(work)
        dedup.new_findings(_check(function.straight(), source, dedup, None))
        return dedup.faults()
    except HauloutError as error:
        return Faults(others=frozenset(map(finding_key, error.diagnostics)))


_Run = tuple[Run, dict[int, Copies]]
"""A run, with so many iterations of loops."""


@dataclass(frozen=True, slots=True)
class _Checked:
    """What some runs of a function show."""

    faults: Faults
    unproved: list[Diagnostic]
    """That they may not show everything, if so."""
    runs: list[_Run]

    def models(self, runs: Runs) -> Iterator[Model]:
        """The models of the runs, equal ones once."""
        return runs.models(self.runs)


def _check_runs(runs: Runs, source: Program | None, examined: Examined, work: int = 0) -> _Checked:
    """What is wrong with a function that is not proved as a whole, in runs that show what data flow leaves open."""
    copies, structure, dedup = runs.copies(deep=True), runs.flow.structure, Dedup(work)
    cores = len(runs.flow.functions)
    looked: list[_Run] = []
    for stuck in examined.stuck[:_MAX_SOME]:
        looked.append((walk(structure, copies, cores, stuck.narrowed.follow(stuck.path)), copies))
        if not any(each.code in _STUCK for each in _look(runs, looked[-1:], source, dedup)):
            return _check_some(runs, source, stuck, looked, dedup)
    narrowed = examined.narrowed
    if narrowed is not None and runs.beyond.keys() - narrowed.unused:
        raise HauloutError(*runs.beyond.values())
    if examined.refusal is not None:
        return _check_some(runs, source, examined.refusal, looked, dedup)
    if narrowed is None or len(looked) < len(examined.stuck):
        return _Checked(dedup.faults(), [], looked)
    if longest(structure, copies, runs.flow.sizes) <= MAX_INSTRUCTIONS:
        # Everything first, then little: what both show does not depend on what else runs.
        first = [(run, copies) for run in islice(every_run(structure, copies, cores, 1, narrowed.left), 2)]
        _look(runs, first, source, dedup)
        looked += first
    left = [each for each in examined.pairs if not dedup.has(*each.operands)]
    while left and len(looked) < _MAX_SOME:
        looked.append((walk(structure, copies, cores, narrowed.follow(left[0].path)), copies))
        _look(runs, looked[-1:], source, dedup)
        left = [each for each in left[1:] if not dedup.has(*each.operands)]
    for each in examined.wrong:
        if len(looked) < _MAX_SOME:
            more = {**copies, **each.copies}
            looked.append((walk(structure, more, cores, narrowed.follow(each.path)), more))
            _look(runs, looked[-1:], source, dedup)
    unshown = (each for each in examined.pairs if not (dedup.has(*each.operands) or each.is_certain()))
    why = next((each.why() for each in unshown), None)
    if why is None and dedup.faults():
        return _Checked(dedup.faults(), [], looked)
    return _check_some(runs, source, why, looked, dedup)


def _check_some(
    runs: Runs, source: Program | None, why: Refusal | None, looked: list[_Run], dedup: Dedup
) -> _Checked:
    """What is wrong where data flow does not decide: in every run of a function that has few, else in some, besides
    what those that have been looked at show.
    """
    if runs.beyond:
        raise HauloutError(*runs.beyond.values())
    structure, cores, sizes = runs.flow.structure, len(runs.flow.functions), runs.flow.sizes
    few, deep = runs.copies(deep=False), runs.copies(deep=True)
    work = dedup.work
    for copies in (few,) if few == deep else (few, deep):
        most = min(_MAX_RUNS, max(8, _MAX_WORK // max(longest(structure, copies, sizes), 1)))
        every = list(islice(every_run(structure, copies, cores, most), most + 1))
        if len(every) > most or any(each.distant for each in copies.values()):
            if longest(structure, deep, sizes) <= MAX_INSTRUCTIONS:
                some = [(run, deep) for run in islice(every_run(structure, deep, cores, _MAX_SOME), _MAX_SOME)]
                _look(runs, some, source, dedup)
                looked = [*some, *looked]
            return _Checked(dedup.faults(), unproved_paths(runs, why, len(looked)), looked)
        # Those that have been looked at may have more iterations, and then show faults for certain.
        known, judged = Dedup(work), [*looked, *((run, copies) for run in every)]
        _look(runs, judged, source, known)
        found, work = _Checked(known.faults(), [], judged), known.work
        if not found.faults:
            break  # what few iterations find clean is clean; more may order what is left unordered so far
    return found


def _look(runs: Runs, some: list[_Run], source: Program | None, dedup: Dedup) -> list[Diagnostic]:
    """Check some runs, for `dedup` to know."""
    found = [each for model in runs.models(some) for each in _check(model, source, dedup, None)]
    dedup.new_findings(found)
    return found


def _check(model: Model, source: Program | None, dedup: Dedup, adviser: Adviser | None) -> list[Diagnostic]:
    dedup.work += len(model.rows) + len(model.access)
    dedup.runs += 1
    # A fix is tried inside the check that it is for: together they may be worth compiling, where the latter was not.
    with plain_if_small(sweep.scan_conflicts, dedup.work), compiled_if_large(dedup.work):
        return check_model(model, source, dedup, adviser)


def check_model(model: Model, source: Program | None, dedup: Dedup, adviser: Adviser | None) -> list[Diagnostic]:
    """All findings for straight code; conflicts that `dedup` knows from other runs are left out. Without an
    adviser those on conflicts are bare, one of each kind.
    """
    placed = check_views(model) + check_placements(model)
    barriers, sendrecvs = find_barriers(model), find_sendrecvs(model)
    stuck = check_barriers(model, barriers) + check_sendrecvs(model, sendrecvs)
    if stuck:
        return stuck + placed
    graph = build_graph(model, barriers, sendrecvs)
    stuck = check_acyclic(model, graph, barriers, sendrecvs)
    if stuck:
        return stuck + placed

    wanted = source_order(model, source)
    order = build_order(model, graph, barriers, sendrecvs, wanted.time)
    schedule = schedule_accesses(model, graph)
    extents = find_extents(model, physical_map(model))
    conflicts = _confirmed(model, wanted, find_conflicts(model, order, extents, schedule))
    conflicts = excuse_writes(model, order, extents, sendrecvs, schedule, conflicts)
    unknown = dedup.new_conflicts(model, conflicts)
    times = check_times(model, source)
    if model.unrolled is None:
        storage = check_lifetimes(model, order, extents, schedule)
    else:
        storage = check_stale_bytes(model, extents, schedule)
    values = check_written(model, schedule, sendrecvs, _excused(model, conflicts))
    others = times + values + placed + storage
    if adviser is None or not unknown:
        return [bare(model, each) for each in unknown] + others
    if model.unrolled is None:
        dedup.new_findings(others)
        adviser.know(dedup.faults(), partial(unordered, model, order))
    reporter = Reporter(model, graph, order, extents, Chains(model, barriers, order), adviser)
    ordered = [finding for each in unknown for finding in reporter.report(each)]
    dedup.note_provisos(ordered)
    return ordered + others


def _confirmed(model: Model, wanted: SourceOrder, conflicts: list[Conflicts]) -> list[Conflicts]:
    """The conflicts, without pairs that only a schedule of the source, not the source itself, has the other way."""
    kept = []
    for each in conflicts:
        if each.kind == sweep.UNFAITHFUL and wanted.order is not None:
            wrong = wanted.contradicts(model, each.first, each.second)
            each = Conflicts(each.kind, each.first[wrong], each.second[wrong], int(wrong.sum()))
        if each.total:
            kept.append(each)
    return kept


def _excused(model: Model, conflicts: list[Conflicts]) -> Bools:
    """Locations whose accesses are not ordered; their values are not checked until they are."""
    excused = np.zeros(len(model.program.locations), bool)
    owner = model.owners()
    for each in conflicts:
        if each.kind in sweep.HARMLESS:
            continue  # what was fetched was written; the bytes are the same, whichever write is last
        excused[owner[model.location[each.first]]] = True
        excused[owner[model.location[each.second]]] = True
    return excused


def _shortened(found: list[Diagnostic]) -> list[Diagnostic]:
    if len(found) <= MAX_FINDINGS:
        return found
    last = found[MAX_FINDINGS - 1]
    notes = (*last.notes, f"{len(found) - MAX_FINDINGS} more findings are not listed")
    return [*found[: MAX_FINDINGS - 1], replace(last, notes=notes)]
