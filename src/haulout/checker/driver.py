"""The recipe: everything that is proved about a program, from the program alone.

    soundness    the verifier first (`haulout.ir.verify`): what is not sound is refused, not judged
    model        one function on all cores as columns; what is not understood is said, not skipped; a function with
                 loops and branches is judged run by run, each a straight line; runs that nobody looks at are said
                 too: unproved-paths
    barriers     every two cores attend their common barriers in one sequence: barrier-mismatch
    fused graph  one node a rendezvous; a topological order of it, or the cycle: deadlock
    order        clocks inside a core, bands between cores
    conflicts    every conflicting pair is ordered, and as the source orders it: cross-core-race, possible-race,
                 missing-dependence, unfaithful-order, benign-duplicate-write
    values       undefined bytes reach nothing, what is output is whole: uninitialized-read, output-not-written
    collectives  those that exchange nothing: one-member-collective
    storage      views, partitions, capacity, lifetimes: view-mismatch, over-capacity, overlapping-storage

Order is asked of the fused graph only, bytes of patterns and addresses only. Nothing here is shared with the passes
that made the program. Without agreeing barriers and a schedule there is no order to judge by: then what needs one is
left out, and the finding that says so is an error.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from haulout.checker.explain.advice import Adviser, Budget
from haulout.checker.explain.causes import Lines
from haulout.checker.explain.dedup import Faults, Seen, finding_key, unordered
from haulout.checker.explain.findings import Reporter, bare
from haulout.checker.explain.unproved import unproved_paths
from haulout.checker.model import Function, Model, functions
from haulout.checker.order.barriers import check_barriers, find_barriers
from haulout.checker.order.graph import build_graph, check_acyclic
from haulout.checker.order.happens_before import build_order, events
from haulout.checker.order.sendrecv import check_meetings, find_meetings
from haulout.checker.paths.path_selection import find_runs
from haulout.checker.paths.step_trips import Copies
from haulout.checker.proofs import sweep
from haulout.checker.proofs.benign_writes import excuse_writes
from haulout.checker.proofs.conflicts import Conflicts, find_conflicts
from haulout.checker.proofs.extents import find_regions
from haulout.checker.proofs.source_order import SourceOrder, check_comparable, check_times, source_order
from haulout.checker.proofs.stale_bytes import check_holders
from haulout.checker.proofs.storage import check_lifetimes, check_placements, check_views
from haulout.checker.proofs.storage_map import physical_map
from haulout.checker.proofs.uninitialized import check_written
from haulout.ir.idle_collectives import idle_collectives
from haulout.ir.program import Program
from haulout.ir.schema import Bools
from haulout.ir.verify import check_sound
from haulout.support.diagnostics import Diagnostic, HauloutError
from haulout.support.jit import compiled_if_large, plain_if_small

MOST_FINDINGS = 50
"""Findings that are listed for one program."""


def check_program(program: Program, *, source: Program | None = None, advise: bool = True) -> list[Diagnostic]:
    """Prove a program or say what is wrong with it: no barrier mismatch, no deadlock, no race, no missing dependence,
    no undefined bytes that reach an output, no two tensors on the same bytes at one time, the source's order kept.

    With `source`, the program that it was made from, the order of conflicts is compared with that one's too; a
    program with `seq` carries that order itself. An empty list is the proof. Findings come worst first, at most 50 of
    them; a function that the checker does not understand (loops that are left in the middle, arms that share a tail)
    yields one `bad-input` finding and nothing else. With `advise` findings on order say what would order the
    accesses; such a fix has been tried. Raises `HauloutError` with what `haulout.ir.verify` finds when the program,
    or the source, is not sound.
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
    found += idle_collectives(program)
    found.sort(key=lambda finding: -finding.severity)
    return _shortened(found)


def check_function(function: Function, source: Program | None, adviser: Adviser) -> list[Diagnostic]:
    """All findings for one function."""
    if function.nest is None:
        return adviser.finish(_check(function.straight(), source, Seen(), adviser))
    # All runs are judged before any is told of: advice is worth what it does to them all.
    faults, unproved, copies = _judge_runs(function, source)
    if not faults:
        return unproved + function.notes
    adviser.know(faults)
    seen = Seen(faults.work)
    found: list[Diagnostic] = []
    plan = function.plan(copies)
    for run in find_runs(function.nest, copies, len(function.rows), plan, plan.ways):
        found += seen.fresh(_check(function.model(run, copies), source, seen, adviser))
    return seen.retired(adviser.finish(found)) + unproved + function.notes


def _faults_of(program: Program, work: int, *, name: str, source: Program | None) -> Faults:
    """All that is wrong with one function of a program; `work` has been done for the report before."""
    names = program.functions.name[program.functions.module == 0].tolist()
    try:
        check_sound(program)
        function = functions(program)[names.index(program.strings.find(name))]
        if isinstance(function, list):
            return Faults(others=frozenset(map(finding_key, function)))
        if function.nest is not None:
            faults, unproved, _ = _judge_runs(function, source, work)
            return replace(faults, others=faults.others | {finding_key(each) for each in unproved})
        seen = Seen(work)
        seen.fresh(_check(function.straight(), source, seen, None))
        return seen.faults()
    except HauloutError as error:
        return Faults(others=frozenset(map(finding_key, error.diagnostics)))


def _judge_runs(
    function: Function, source: Program | None, work: int = 0
) -> tuple[Faults, list[Diagnostic], list[Copies]]:
    """What is wrong with any run of a function; that not every run was looked at, if so; and how many iterations of
    each loop were.
    """
    copies = function.copies(deep=False)
    faults, unproved = _judge_ways(function, copies, source, Seen(work))
    if faults and (deep := function.copies(deep=True)) != copies:
        # More iterations may order what is left unordered so far.
        shallow, copies = faults, deep
        faults, missed = _judge_ways(function, copies, source, Seen(faults.work, faults.runs))
        if not shallow <= faults:
            unproved = unproved or missed
    return faults, unproved, copies


def _judge_ways(
    function: Function, copies: list[Copies], source: Program | None, seen: Seen
) -> tuple[Faults, list[Diagnostic]]:
    """What is wrong with the runs that are looked at; and that these are not all, if so."""
    assert function.nest is not None
    looked = 0
    plan = function.plan(copies)
    for run in find_runs(function.nest, copies, len(function.rows), plan, plan.ways):
        seen.fresh(_check(function.model(run, copies), source, seen, None))
        looked += 1
    faults = seen.faults()
    missing = set(plan.missing)
    # Runs that nobody makes: less is ordered in them than in any that somebody does.
    for ways, forgets, unsure in ((plan.doubtful, False, plan.unsure), (plan.ways, True, plan.distant)):
        if unsure <= missing:
            continue
        for run in find_runs(function.nest, copies, len(function.rows), plan, ways, forgets):
            findings = _check(function.model(run, copies), source, seen, None)
            if seen.fresh([each for each in findings if each.code in _ORDER]):
                missing |= unsure
                break
    return faults, unproved_paths(function, missing, looked, plan.total)


_ORDER = frozenset(
    (
        "barrier-mismatch",
        "deadlock",
        "cross-core-race",
        "possible-race",
        "missing-dependence",
        "benign-duplicate-write",
        "unfaithful-order",
        "order-dependent-result",
    )
)
"""What rests on order alone: a run without some arms has less of it than any real one, and other values."""


def _check(model: Model, source: Program | None, seen: Seen, adviser: Adviser | None) -> list[Diagnostic]:
    seen.work += len(model.rows) + len(model.access)
    seen.runs += 1
    # A fix is judged inside the check that it is for: together they may be worth compiling, where the latter was not.
    with plain_if_small(sweep.scan_conflicts, seen.work), compiled_if_large(seen.work):
        return check_model(model, source, seen, adviser)


def check_model(model: Model, source: Program | None, seen: Seen, adviser: Adviser | None) -> list[Diagnostic]:
    """All findings for one straight line; conflicts that `seen` knows from other runs are left out. Without an
    adviser those on conflicts are bare, one of each kind.
    """
    placed = check_views(model) + check_placements(model)
    barriers, meetings = find_barriers(model), find_meetings(model)
    stuck = check_barriers(model, barriers) + check_meetings(model, meetings)
    if stuck:
        return stuck + placed
    graph = build_graph(model, barriers, meetings)
    stuck = check_acyclic(model, graph, barriers, meetings)
    if stuck:
        return stuck + placed

    wanted = source_order(model, source)
    order = build_order(model, graph, barriers, meetings, wanted.time)
    schedule = events(model, graph)
    regions = find_regions(model, physical_map(model))
    conflicts = _confirmed(model, wanted, find_conflicts(model, order, regions, schedule))
    conflicts = excuse_writes(model, order, regions, meetings, schedule, conflicts)
    unknown = seen.unknown(model, conflicts)
    times = check_times(model, source)
    if model.unrolled is None:
        storage = check_lifetimes(model, order, regions, schedule)
    else:
        storage = check_holders(model, regions, schedule)
    values = check_written(model, schedule, meetings, _excused(model, conflicts))
    others = times + values + placed + storage
    if adviser is None or not unknown:
        return [bare(model, each) for each in unknown] + others
    if model.unrolled is None:
        seen.fresh(others)
        adviser.know(seen.faults(), partial(unordered, model, order))
    reporter = Reporter(model, graph, order, regions, Lines(model, barriers, order), adviser)
    ordered = [finding for each in unknown for finding in reporter.tell(each)]
    seen.remember(ordered)
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
    """Locations whose accesses are not ordered; what they hold is not judged until they are."""
    excused = np.zeros(len(model.program.locations), bool)
    owner = model.owners()
    for each in conflicts:
        if each.kind in sweep.HARMLESS:
            continue  # whatever was fetched, it was written; whichever write is last, the bytes are the same
        excused[owner[model.location[each.first]]] = True
        excused[owner[model.location[each.second]]] = True
    return excused


def _shortened(found: list[Diagnostic]) -> list[Diagnostic]:
    if len(found) <= MOST_FINDINGS:
        return found
    last = found[MOST_FINDINGS - 1]
    notes = (*last.notes, f"{len(found) - MOST_FINDINGS} more findings are not listed")
    return [*found[: MOST_FINDINGS - 1], replace(last, notes=notes)]
