"""Comparing schedules: what depends on the order in which the queues happen to move.

The judgement is by shadow memory (shadow.py), not by numbers that happen to differ, and it is exact: the
schedules of `adversarial_schedules` agree if and only if every two accesses that conflict are ordered. On
request the outputs are computed and compared as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from haulout.ir.attributes import format_name
from haulout.ir.program import Program
from haulout.ir.verify import instruction_label
from haulout.sim.inputs import Values
from haulout.sim.run import Prepared, Progress, prepare, run
from haulout.sim.schedules import Schedule, adversarial_schedules, event_order, parse_schedule
from haulout.sim.shadow import GIVEN, NOBODY, Difference, Shadow
from haulout.support.diagnostics import Diagnostic, Label, Severity


@dataclass(frozen=True, slots=True)
class ScheduleReport:
    """What a comparison of schedules found."""

    reference: str
    schedules: tuple[str, ...]
    differences: tuple[Difference, ...]
    """At most one a schedule."""
    unequal_outputs: tuple[tuple[str, str], ...]
    """(schedule, output) whose bytes differ from the reference's, where values were compared."""
    diagnostics: tuple[Diagnostic, ...]
    """`cross-core-race` and `missing-dependence`: one for each access and pair of writers."""

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
    progress: Progress | None = None,
) -> ScheduleReport:
    """Compare schedules with the first of them; without any, `list` with every queue as the slowest in turn.

    The comparison is by shadow; with `values`, the outputs' bytes are computed and compared as well, from
    `inputs` or from `seed`. `progress` is called with the schedules begun and their number. Raises what
    `simulate` raises.
    """
    prepared = prepare(program)
    chosen = [parse_schedule(each) if isinstance(each, str) else each for each in schedules or ()]
    chosen = chosen or adversarial_schedules(program, prepared.trace)
    shadow = Shadow(prepared)
    reference = event_order(program, prepared.trace, prepared.graph, chosen[0])
    expected = shadow.hashes(reference)
    found = []
    for number, schedule in enumerate(chosen[1:], 1):
        if progress is not None:
            progress(number, len(chosen))
        order = event_order(program, prepared.trace, prepared.graph, schedule)
        step = shadow.first_difference(order, expected)
        if step is not None:
            found.append(shadow.difference(str(schedule), reference, order, step))
    unequal = _unequal_outputs(prepared, inputs, chosen, seed) if values else []
    named = tuple(str(schedule) for schedule in chosen)
    return ScheduleReport(named[0], named, tuple(found), tuple(unequal), _diagnostics(program, named[0], found))


def _unequal_outputs(
    prepared: Prepared, inputs: Values | None, schedules: Sequence[Schedule], seed: int
) -> list[tuple[str, str]]:
    reference = run(prepared, inputs, seed=seed, schedule=schedules[0])
    unequal = []
    for schedule in schedules[1:]:
        outputs = run(prepared, inputs, seed=seed, schedule=schedule).outputs
        differing = (name for name in outputs if outputs[name].tobytes() != reference.outputs[name].tobytes())
        unequal += [(str(schedule), name) for name in differing]
    return unequal


def _diagnostics(program: Program, reference: str, found: Sequence[Difference]) -> tuple[Diagnostic, ...]:
    """One finding for each access and pair of writers."""
    distinct: dict[tuple[int, int, int], Difference] = {}
    for each in found:
        distinct.setdefault((each.access, each.expected, each.found), each)
    return tuple(_diagnostic(program, reference, each) for each in distinct.values())


def _diagnostic(program: Program, reference: str, difference: Difference) -> Diagnostic:
    accesses = program.accesses
    instruction = int(accesses.instruction[difference.access])
    location = program.strings[int(program.locations.name[accesses.location[difference.access]])]
    cores = {int(program.instruction_core[instruction])}
    labels = [instruction_label(program, instruction)]
    for writer, schedule in ((difference.expected, reference), (difference.found, difference.schedule)):
        if writer == NOBODY:
            labels.append(Label(f"under `{schedule}` nothing has written it before"))
        elif writer == GIVEN:
            labels.append(Label(f"under `{schedule}` it still holds what it held at the start"))
        else:
            cores.add(int(program.instruction_core[writer]))
            text = f"under `{schedule}` {_named(program, writer)} has written it before"
            labels.append(instruction_label(program, writer, text))
    verb = "overwrites" if accesses.write[difference.access] else "reads"
    return Diagnostic(
        "cross-core-race" if len(cores) > 1 else "missing-dependence",
        Severity.ERROR,
        f"what {_named(program, instruction)} {verb} of %{location} depends on the schedule, "
        f"from byte {difference.byte} on",
        tuple(labels),
    )


def _named(program: Program, row: int) -> str:
    return f"%{format_name(program.instruction_name(row))} on core {program.instruction_core[row]}"
