"""Random loops and branches on donated parameters, in each other, permuting values, against a plain evaluation.

Two cores with data of their own: branches by data part them.
"""

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


@dataclass
class Choose:
    name: str
    source: str
    """The value whose first element decides; `u` is the parameter that all cores share."""
    offset: int
    is_index: bool
    operands: list[list[str]]
    """Of each branch: on true and on false, or by number."""
    branches: list[Region]


FORMS = ["add({0}, {1})", "negate({0})", "reverse({0}), dimensions={{0}}", "copy({0})", "update"]


@st.composite
def regions(draw: st.DrawFn, names: list[str], prefix: str, depth: int) -> Region:
    """Operations, loops and branches in some order."""
    region, known = Region(), list(names)
    kinds = draw(st.lists(st.sampled_from(["loop", "branch", "operation"] if depth else ["operation"]), max_size=5))
    for step, kind in enumerate(kinds):
        name = f"{prefix}{step}"
        if kind == "operation":
            operands = (draw(st.sampled_from(known)), draw(st.sampled_from(known)))
            region.steps.append(Compute(name, draw(st.sampled_from(FORMS)), operands))
            known.append(name)
            continue
        if kind == "branch":
            choose = draw(choices(known, name, depth - 1))
            region.steps.append(choose)
            known += [f"{name}r{at}" for at in range(len(choose.branches[0].results))]
            continue
        inits = draw(st.lists(st.sampled_from(known), min_size=1, max_size=4))
        inside = [f"{name}s{at}" for at in range(len(inits))]
        body = draw(regions(inside, f"{name}v", depth - 1))
        body.results = [draw(st.sampled_from([*inside, *defined(body)])) for _ in inits]
        trips, counter = draw(st.sampled_from([2, 3, 1, 0])), draw(st.integers(0, len(inits)))
        region.steps.append(While(name, trips, inits, counter, draw(st.booleans()), body))
        known += [f"{name}r{at}" for at in range(len(inits))]
    return region


@st.composite
def choices(draw: st.DrawFn, known: list[str], name: str, depth: int) -> Choose:
    """A branch of two or more ways, or of one."""
    is_index = draw(st.booleans())
    results = draw(st.integers(1, 3))
    operands, branches = [], []
    for way in range(draw(st.integers(1, 4)) if is_index else 2):
        given = draw(st.lists(st.sampled_from(known), min_size=1, max_size=3))
        inside = [f"{name}b{way}s{at}" for at in range(len(given))]
        branch = draw(regions(inside, f"{name}b{way}v", depth))
        branch.results = [draw(st.sampled_from([*inside, *defined(branch)])) for _ in range(results)]
        operands.append(given)
        branches.append(branch)
    source = draw(st.sampled_from(["u", *known]))
    return Choose(name, source, draw(st.integers(-2, 2)), is_index, operands, branches)


def defined(region: Region) -> list[str]:
    found = []
    for step in region.steps:
        match step:
            case Compute():
                found.append(step.name)
            case While():
                found += [f"{step.name}r{at}" for at in range(len(step.inits))]
            case Choose():
                found += [f"{step.name}r{at}" for at in range(len(step.branches[0].results))]
    return found


def write_choice(step: Choose, computations: list[str]) -> list[str]:
    """The lines of a branch. The number that decides is of a computation's parameter, or of the entry's."""
    n, array = step.name, f"s32[{COUNT}]"
    lines = [
        f"{n}f = s32[1] slice({step.source}), slice={{[0:1]}}",
        f"{n}g = s32[] reshape({n}f)",
        f"{n}five = s32[] constant(5)",
        f"{n}h = s32[] remainder({n}g, {n}five)",
        f"{n}o = s32[] constant({step.offset})",
        f"{n}k = s32[] add({n}h, {n}o)",
    ]
    if not step.is_index:
        lines += [f"{n}zero = s32[] constant(0)", f"{n}p = pred[] compare({n}k, {n}zero), direction=GT"]
    result = f"({', '.join([array] * len(step.branches[0].results))})"
    passed = []
    for way, (names, branch) in enumerate(zip(step.operands, step.branches, strict=True)):
        shape = f"({', '.join([array] * (len(names) + 1))})"
        lines.append(f"{n}in{way} = {shape} tuple({', '.join([*names, 'u'])})")
        inside = [f"{n}b{way}p = {shape} parameter(0)"]
        inside += [f"{n}b{way}s{at} = {array} get-tuple-element({n}b{way}p), index={at}" for at in range(len(names))]
        inside += [f"u = {array} get-tuple-element({n}b{way}p), index={len(names)}"]
        inside += write(branch, computations)
        inside.append(f"ROOT {n}b{way}t = {result} tuple({', '.join(branch.results)})")
        computations.append(f"{n}b{way} {{\n  " + "\n  ".join(inside) + "\n}\n")
        passed.append(f"{n}in{way}")
    ways = [f"{n}b{way}" for way in range(len(passed))]
    called = f"true_computation={ways[0]}, false_computation={ways[-1]}"
    if step.is_index:
        called = f"branch_computations={{{', '.join(ways)}}}"
    selector = f"{n}k" if step.is_index else f"{n}p"
    lines.append(f"{n} = {result} conditional({', '.join([selector, *passed])}), {called}")
    lines += [f"{n}r{at} = {array} get-tuple-element({n}), index={at}" for at in range(len(step.branches[0].results))]
    return lines


def write(region: Region, computations: list[str]) -> list[str]:
    """The lines of a region; the computations of its loops and branches are put before it."""
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
        if isinstance(step, Choose):
            lines += write_choice(step, computations)
            continue
        n, shapes = step.name, [array] * len(step.inits)
        shapes[step.counter : step.counter] = ["s32[]"]
        shape = f"({', '.join([*shapes, 's32[]', array])})"
        slots = [at for at in range(len(shapes)) if at != step.counter]
        body = [f"{n}p = {shape} parameter(0)"]
        body += [f"{n}s{at} = {array} get-tuple-element({n}p), index={slot}" for at, slot in enumerate(slots)]
        body.append(f"u = {array} get-tuple-element({n}p), index={len(shapes) + 1}")
        body += write(step.body, computations)
        body += [
            f"{n}i = s32[] get-tuple-element({n}p), index={step.counter}",
            f"{n}one = s32[] constant(1)",
            f"{n}next = s32[] add({n}i, {n}one)",
            f"{n}max = s32[] get-tuple-element({n}p), index={len(shapes)}",
        ]
        news = list(step.body.results)
        news[step.counter : step.counter] = [f"{n}next"]
        body.append(f"ROOT {n}t = {shape} tuple({', '.join([*news, f'{n}max', 'u'])})")
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
            f"{n}in = {shape} tuple({', '.join([*inits, f'{n}trips', 'u'])})",
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
                inside = {f"{step.name}s{at}": value for at, value in enumerate(state)} | {"u": values["u"]}
                evaluate(step.body, inside)
                state = [inside[name] for name in step.body.results]
            values |= {f"{step.name}r{at}": value for at, value in enumerate(state)}
            continue
        if isinstance(step, Choose):
            number = int(np.fmod(values[step.source][0], 5)) + step.offset
            last = len(step.branches) - 1
            way = (number if 0 <= number <= last else last) if step.is_index else int(number <= 0)
            inside = {f"{step.name}b{way}s{at}": values[name] for at, name in enumerate(step.operands[way])}
            inside["u"] = values["u"]
            evaluate(step.branches[way], inside)
            values |= {f"{step.name}r{at}": inside[name] for at, name in enumerate(step.branches[way].results)}
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
    region = draw(
        regions(names, "v", 2).filter(lambda found: any(isinstance(step, While | Choose) for step in found.steps))
    )
    region.results = draw(st.lists(st.sampled_from([*defined(region)[::-1], *names]), min_size=1, max_size=4))
    donated = draw(st.permutations(range(count)))
    outputs = draw(st.lists(st.integers(0, len(region.results) - 1), unique=True, max_size=count))
    aliases = ", ".join(f"{{{output}}}: ({donated[at]}, {{}})" for at, output in enumerate(outputs))
    computations: list[str] = []
    lines = [f"{name} = s32[{COUNT}] parameter({number})" for number, name in enumerate(names)]
    lines.append(f"u = s32[{COUNT}] parameter({count}), sharding={{replicated}}")
    lines += write(region, computations)
    shape = f"({', '.join([f's32[{COUNT}]'] * len(region.results))})"
    lines.append(f"ROOT r = {shape} tuple({', '.join(region.results)})")
    header = "HloModule m, num_partitions=2"
    header += f", input_output_alias={{ {aliases} }}" if aliases else ""
    return header + "\n" + "".join(computations) + "ENTRY e {\n  " + "\n  ".join(lines) + "\n}\n", region, count


@given(programs(), st.integers(-4, 4))
def test_random_loops_and_branches(made: tuple[str, Region, int], shared: int) -> None:
    """Donated parameters, permuted states, loops in arms, branches in loops, loops that do not run."""
    text, region, count = made
    program = lower(parse_hlo(text))
    assert verify(program) == []
    inputs: list[Values] = [
        {f"p{number}": np.arange(COUNT, dtype=np.int32) + 7 * number + 3 * core - 5 for number in range(count)}
        | {"u": np.full(COUNT, shared, np.int32)}
        for core in range(2)
    ]
    found = Executor(program).run([list(values.values()) for values in inputs])
    assert len(set(program.output_names)) == len(region.results)
    for values, outputs in zip(inputs, found, strict=True):
        evaluate(region, values)
        for name, value in zip(region.results, outputs, strict=True):
            assert np.array_equal(value, values[name]), (name, text)
    seq = program.instructions.seq[: len(program.instructions) // 2]
    assert np.all(np.diff(seq) >= 0)
    assert np.array_equal(list(program.structure.loop_at), np.flatnonzero(program.blocks.trip != NONE))
