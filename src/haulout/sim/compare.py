"""Comparing schedules: what depends on the order in which the queues advance.

The comparison is by shadow memory (`shadow.py`), not by values that happen to differ, and it is exact: the schedules
of `adversarial_schedules` agree if and only if every two conflicting accesses are ordered. On request the outputs are
computed and compared as well. With `excuse_equal`, unordered writes of equal bytes commute (`equal_writes.py`).

What runs must be known. Loops with a `trip` run that often; for other loops and for forks, the program is first
executed in program order. A program that cannot be executed is compared under assumptions, which the report lists:
these loops run twice, and all branches take their first successor, or all the second one, or each in turn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from haulout.ir.enums import NONE
from haulout.ir.opcodes import lookup
from haulout.ir.paths import named
from haulout.ir.program import Program
from haulout.ir.structure import Loop
from haulout.sim.equal_writes import kinds_of_writes, notes_on_equal
from haulout.sim.events.schedules import Schedule, adversarial_schedules, event_order, parse_schedule
from haulout.sim.execution import Progress
from haulout.sim.flow.visits import MAX_INSTRUCTIONS, Iteration, Visits, walk
from haulout.sim.inputs import Values
from haulout.sim.nki.binder import can_compute, has_registers
from haulout.sim.nki.registers import RegisterLog
from haulout.sim.numerics.evaluate import KERNELS
from haulout.sim.plan import Plan, Prepared, plan_visits, prepare
from haulout.sim.run import run, run_reference
from haulout.sim.shadow import GIVEN, UNWRITTEN, Difference, Instance, Shadow
from haulout.support.diagnostics import Diagnostic, Label, Severity

_ASSUMED_TRIP = 2
"""Of loops of unknown trip count: two iterations show what one needs of the one before."""
_Turn = Callable[[int], bool]
_TURNS: tuple[_Turn, ...] = (
    lambda turn: True,
    lambda turn: False,
    lambda turn: turn % 2 == 0,
    lambda turn: turn % 2 == 1,
)
"""Assumptions about forks: the turn grows with iterations and, at a divergent fork, with cores."""


@dataclass(frozen=True, slots=True)
class ScheduleReport:
    """What a comparison of schedules found."""

    reference: str
    schedules: tuple[str, ...]
    differences: tuple[Difference, ...]
    """At most one for each schedule and assumption about forks."""
    unequal_outputs: tuple[tuple[str, str], ...]
    """(schedule, output) whose bytes differ from the reference's, where values were compared."""
    diagnostics: tuple[Diagnostic, ...]
    """`cross-core-race` and `missing-dependence`: one for each access and pair of writers; and, with `excuse_equal`,
    `benign-duplicate-write`, a note."""
    assumed: tuple[str, ...] = ()
    """Headers of loops that are assumed to run twice, and forks whose arms are assumed to be taken."""

    @property
    def agrees(self) -> bool:
        """Whether every schedule computes the same."""
        return not self.differences and not self.unequal_outputs


def compare_schedules(
    program: Program,
    inputs: Values | None = None,
    schedules: Sequence[Schedule | str] | None = None,
    *,
    seed: int = 0,
    values: bool = False,
    excuse_equal: bool = False,
    max_instructions: int = MAX_INSTRUCTIONS,
    progress: Progress | None = None,
) -> ScheduleReport:
    """Compare schedules with the first of them; without any, `list` with every queue as the slowest in turn.

    The comparison is by shadow; with `values`, the outputs' bytes are computed and compared as well. With
    `excuse_equal`, unordered writes that are equal on the inputs are a note. `inputs`, or those drawn from `seed`,
    also decide how often loops run whose `trip` is not known; loops may execute `max_instructions` instructions on
    all cores together. `progress` is called with the schedules begun and their number. Raises what `simulate` raises.
    """
    prepared = prepare(program)
    chosen = [parse_schedule(each) if isinstance(each, str) else each for each in schedules or ()]
    registers = RegisterLog()
    outcomes, assumed = _outcomes(prepared, inputs, seed, values, max_instructions, registers)
    plans = [plan_visits(prepared, visits) for visits in outcomes]
    runs = [chosen or adversarial_schedules(plan.trace) for plan in plans]
    found: list[Difference] = []
    notes: list[Diagnostic] = []
    for begun, (plan, schedules) in enumerate(zip(plans, runs, strict=True)):
        shadow = Shadow(prepared, plan, runs=len(schedules))
        differing = _compare(shadow, schedules, progress, (begun, len(plans)))
        if differing and excuse_equal and not assumed and _can_be_executed(prepared):
            shadow.with_kinds(kinds_of_writes(prepared, plan, shadow, inputs, schedules[0], seed, registers))
            before, differing = differing, _compare(shadow, schedules, progress, (begun, len(plans)))
            left = {each.schedule for each in differing}
            notes += notes_on_equal(prepared, [each for each in before if each.schedule not in left])
        found += differing
    unequal = _unequal_outputs(prepared, plans[0], inputs, runs[0], seed, registers) if values else []
    named = tuple(dict.fromkeys(str(schedule) for schedules in runs for schedule in schedules))
    diagnostics = (*_diagnostics(prepared, named[0], found), *notes)
    return ScheduleReport(named[0], named, tuple(found), tuple(unequal), diagnostics, assumed)


def _compare(
    shadow: Shadow, schedules: Sequence[Schedule], progress: Progress | None, plans: tuple[int, int]
) -> list[Difference]:
    """Compare the schedules of one plan; `plans`: its number, and how many there are."""
    trace, graph = shadow.plan.trace, shadow.plan.graph
    found: list[Difference] = []
    reference = event_order(trace, graph, schedules[0])
    expected = shadow.hashes(reference)
    for number, schedule in enumerate(schedules[1:], 1):
        if progress is not None:
            progress(number + plans[0] * len(schedules), plans[1] * len(schedules))
        order = event_order(trace, graph, schedule)
        step = shadow.first_difference(order, expected)
        if step is not None:
            found.append(shadow.difference(str(schedule), reference, order, step))
    return found


def _outcomes(
    prepared: Prepared, inputs: Values | None, seed: int, values: bool, limit: int, registers: RegisterLog
) -> tuple[list[Visits], tuple[str, ...]]:
    """The visits of what runs, one or several possibilities, and the headers and forks that are assumed.

    `registers` takes the values of scalar registers where the program is executed.
    """
    code = prepared.code
    choices = code.sections.choices
    is_known = {section: isinstance(each, Loop) and each.trip != NONE for section, each in choices.items()}
    unknown = [code.choice_name(section) for section in choices if not is_known[section]]
    executable = values or _can_be_executed(prepared)
    if executable and (unknown or has_registers(prepared.program)):
        return [run_reference(prepared, inputs, seed=seed, limit=limit, registers=registers)[0]], ()

    def outcome(turn: _Turn) -> Visits:
        def decide(section: int, iteration: Iteration, core: int) -> bool:
            choice = choices[section]
            if isinstance(choice, Loop):
                return iteration[-1] < (_ASSUMED_TRIP if choice.trip == NONE else choice.trip)
            return turn(sum(iteration) + (core if choice.divergent else 0))

        return walk(code, decide, limit)

    outcomes = [outcome(turn) for turn in (_TURNS if code.sections.structure.forks else _TURNS[:1])]
    distinct = {(each.section.tobytes(), each.cores.tobytes()): each for each in reversed(outcomes)}
    return list(distinct.values())[::-1], tuple(unknown)


def _can_be_executed(prepared: Prepared) -> bool:
    """Whether every instruction that may run is known and every operand has an element type."""
    program = prepared.program
    for row in prepared.code.run.tolist():
        opcode = program.strings[int(program.instructions.opcode[row])]
        if not lookup(opcode).typed:
            continue
        if lookup(opcode).is_nki:
            if not can_compute(program, row):
                return False
            continue
        begin, end = program.access_starts[row : row + 2].tolist()
        typed = program.locations.dtype[program.accesses.location[begin:end]] != NONE
        if opcode not in KERNELS or not (typed.all() or "dtypes" in program.instruction_attrs(row)):
            return False
    return True


def _unequal_outputs(
    prepared: Prepared,
    plan: Plan,
    inputs: Values | None,
    schedules: Sequence[Schedule],
    seed: int,
    registers: RegisterLog,
) -> list[tuple[str, str]]:
    reference = run(prepared, plan, inputs, seed=seed, schedule=schedules[0], registers=registers)
    unequal = []
    for schedule in schedules[1:]:
        outputs = run(prepared, plan, inputs, seed=seed, schedule=schedule, registers=registers).outputs
        differing = (name for name in outputs if outputs[name].tobytes() != reference.outputs[name].tobytes())
        unequal += [(str(schedule), name) for name in differing]
    return unequal


def _diagnostics(prepared: Prepared, reference: str, found: Sequence[Difference]) -> tuple[Diagnostic, ...]:
    """One finding for each access and pair of writers, for all iterations."""
    distinct: dict[tuple[int, int, bool, int, int], Difference] = {}
    for each in found:
        key = each.access.row, each.location, each.write, each.expected.row, each.found.row
        distinct.setdefault(key, each)
    return tuple(_diagnostic(prepared, reference, each) for each in distinct.values())


def _diagnostic(prepared: Prepared, reference: str, difference: Difference) -> Diagnostic:
    code, program = prepared.code, prepared.program
    access = difference.access
    location = named(program, difference.location)
    cores = {int(code.core[access.row])}
    labels = [code.label(access.row)]
    for writer, schedule in ((difference.expected, reference), (difference.found, difference.schedule)):
        if writer.row == UNWRITTEN:
            labels.append(Label(f"under `{schedule}` nothing has written it before"))
        elif writer.row == GIVEN:
            labels.append(Label(f"under `{schedule}` it still holds what it held at the start"))
        else:
            cores.add(int(code.core[writer.row]))
            text = f"under `{schedule}` {_named(prepared, writer)} has written it before"
            labels.append(code.label(writer.row, text))
    return Diagnostic(
        "cross-core-race" if len(cores) > 1 else "missing-dependence",
        Severity.ERROR,
        f"what {_named(prepared, access)} {'overwrites' if difference.write else 'reads'} of {location} depends on "
        f"the schedule, from byte {difference.byte} on",
        tuple(labels),
    )


def _named(prepared: Prepared, instance: Instance) -> str:
    return prepared.code.named(instance.row) + prepared.code.iteration(*instance)
