"""Random loops on donated parameters, in each other, permuting their state, against a plain evaluation."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests.frontends.hlo.executor import Executor

from haulout.frontends.hlo import lower, parse_hlo
from haulout.ir.enums import NONE
from haulout.ir.verify import verify

COUNT = 4
Values = dict[str, np.ndarray]


@dataclass
class Region:
    """Operations and loops on s32[4] values; what the text says, and what is evaluated."""

    steps: list[Any] = field(default_factory=list)
    results: list[str] = field(default_factory=list)


@dataclass
class Compute:
    name: str
    form: str
    operands: tuple[str, ...]


@dataclass
class While:
    name: str
    trips: int
    inits: list[str]
    counter: int
    """Where the counter stands in the tuple."""
    from_data: bool
    """Whether the limit comes through the state, not from a constant."""
    body: Region


FORMS = ["add({0}, {1})", "negate({0})", "reverse({0}), dimensions={{0}}", "copy({0})", "update"]


@st.composite
def regions(draw: st.DrawFn, names: list[str], prefix: str, depth: int) -> Region:
    """Operations and loops in some order; values that a loop made are used more often than others."""
    region, known = Region(), list(names)
    kinds = draw(st.lists(st.sampled_from(["loop", "operation"] if depth else ["operation"]), max_size=5))
    for step, kind in enumerate(kinds):
        name = f"{prefix}{step}"
        if kind == "operation":
            operands = (draw(st.sampled_from(known)), draw(st.sampled_from(known)))
            region.steps.append(Compute(name, draw(st.sampled_from(FORMS)), operands))
            known.append(name)
            continue
        inits = draw(st.lists(st.sampled_from(known), min_size=1, max_size=4))
        inside = [f"{name}s{at}" for at in range(len(inits))]
        body = draw(regions(inside, f"{name}v", depth - 1))
        body.results = [draw(st.sampled_from([*inside, *defined(body)])) for _ in inits]
        trips, counter = draw(st.sampled_from([2, 3, 1, 0])), draw(st.integers(0, len(inits)))
        region.steps.append(While(name, trips, inits, counter, draw(st.booleans()), body))
        known += [f"{name}r{at}" for at in range(len(inits))]
    return region


def defined(region: Region) -> list[str]:
    found = []
    for step in region.steps:
        found += [step.name] if isinstance(step, Compute) else [f"{step.name}r{at}" for at in range(len(step.inits))]
    return found


def write(region: Region, computations: list[str]) -> list[str]:
    """The lines of a region; the computations of its loops are put before it."""
    lines = []
    array = f"s32[{COUNT}]"
    for step in region.steps:
        if isinstance(step, Compute):
            form = step.form
            if form == "update":
                lines += [
                    f"{step.name}k = s32[] constant(1)",
                    f"{step.name}u = s32[2] slice({step.operands[1]}), slice={{[1:3]}}",
                ]
                form = f"dynamic-update-slice({{0}}, {step.name}u, {step.name}k)"
            lines.append(f"{step.name} = {array} {form.format(*step.operands)}")
            continue
        n, shapes = step.name, [array] * len(step.inits)
        shapes[step.counter : step.counter] = ["s32[]"]
        shape = f"({', '.join([*shapes, 's32[]'])})"
        slots = [at for at in range(len(shapes)) if at != step.counter]
        body = [f"{n}p = {shape} parameter(0)"]
        body += [f"{n}s{at} = {array} get-tuple-element({n}p), index={slot}" for at, slot in enumerate(slots)]
        body += write(step.body, computations)
        body += [
            f"{n}i = s32[] get-tuple-element({n}p), index={step.counter}",
            f"{n}one = s32[] constant(1)",
            f"{n}next = s32[] add({n}i, {n}one)",
            f"{n}max = s32[] get-tuple-element({n}p), index={len(shapes)}",
        ]
        news = list(step.body.results)
        news[step.counter : step.counter] = [f"{n}next"]
        body.append(f"ROOT {n}t = {shape} tuple({', '.join([*news, f'{n}max'])})")
        limit = f"get-tuple-element({n}q), index={len(shapes)}" if step.from_data else f"constant({step.trips})"
        condition = [
            f"{n}q = {shape} parameter(0)",
            f"{n}c = s32[] get-tuple-element({n}q), index={step.counter}",
            f"{n}l = s32[] {limit}",
            f"ROOT {n}go = pred[] compare({n}c, {n}l), direction=LT",
        ]
        for name, inside in ((f"{n}body", body), (f"{n}cond", condition)):
            computations.append(f"{name} {{\n  " + "\n  ".join(inside) + "\n}\n")
        inits = list(step.inits)
        inits[step.counter : step.counter] = [f"{n}zero"]
        lines += [
            f"{n}zero = s32[] constant(0)",
            f"{n}trips = s32[] constant({step.trips})",
            f"{n}in = {shape} tuple({', '.join([*inits, f'{n}trips'])})",
            f"{n} = {shape} while({n}in), condition={n}cond, body={n}body",
        ]
        lines += [f"{n}r{at} = {array} get-tuple-element({n}), index={slot}" for at, slot in enumerate(slots)]
    return lines


def evaluate(region: Region, values: Values) -> None:
    """Every value in storage of its own."""
    for step in region.steps:
        if isinstance(step, While):
            state = [values[name] for name in step.inits]
            for _ in range(step.trips):
                inside = {f"{step.name}s{at}": value for at, value in enumerate(state)}
                evaluate(step.body, inside)
                state = [inside[name] for name in step.body.results]
            values |= {f"{step.name}r{at}": value for at, value in enumerate(state)}
            continue
        first, second = (values[name] for name in step.operands)
        match step.form.partition("(")[0]:
            case "add":
                values[step.name] = first + second
            case "negate":
                values[step.name] = -first
            case "reverse":
                values[step.name] = first[::-1].copy()
            case "copy":
                values[step.name] = first.copy()
            case "update":
                values[step.name] = np.concatenate([first[:1], second[1:3], first[3:]])


@st.composite
def programs(draw: st.DrawFn) -> tuple[str, Region, int]:
    count = draw(st.integers(1, 3))
    names = [f"p{number}" for number in range(count)]
    region = draw(regions(names, "v", 2).filter(lambda found: any(isinstance(step, While) for step in found.steps)))
    region.results = draw(st.lists(st.sampled_from([*defined(region)[::-1], *names]), min_size=1, max_size=4))
    donated = draw(st.permutations(range(count)))
    outputs = draw(st.lists(st.integers(0, len(region.results) - 1), unique=True, max_size=count))
    aliases = ", ".join(f"{{{output}}}: ({donated[at]}, {{}})" for at, output in enumerate(outputs))
    computations: list[str] = []
    lines = [f"{name} = s32[{COUNT}] parameter({number})" for number, name in enumerate(names)]
    lines += write(region, computations)
    shape = f"({', '.join([f's32[{COUNT}]'] * len(region.results))})"
    lines.append(f"ROOT r = {shape} tuple({', '.join(region.results)})")
    header = f"HloModule m, input_output_alias={{ {aliases} }}" if aliases else "HloModule m"
    return header + "\n" + "".join(computations) + "ENTRY e {\n  " + "\n  ".join(lines) + "\n}\n", region, count


@given(programs())
def test_random_loops(made: tuple[str, Region, int]) -> None:
    """Donated parameters, permuted states, loops in loops, loops that do not run."""
    text, region, count = made
    values: Values = {f"p{number}": np.arange(COUNT, dtype=np.int32) + 10 * (number + 1) for number in range(count)}
    program = lower(parse_hlo(text))
    assert verify(program) == []
    found = Executor(program).run([list(values.values())])[0]
    evaluate(region, values)
    assert len(set(program.output_names)) == len(region.results)
    for name, value in zip(region.results, found, strict=True):
        assert np.array_equal(value, values[name]), (name, text)
    seq = program.instructions.seq
    assert np.all(np.diff(seq) >= 0)
    headers = program.blocks.cond != NONE
    assert np.array_equal(headers, program.blocks.trip != NONE)
