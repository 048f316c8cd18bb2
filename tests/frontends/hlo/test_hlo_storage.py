"""Storage in place: random programs with donated parameters give the values that a plain evaluation gives."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests.frontends.hlo.executor import Executor

from haulout.frontends.hlo import lower, parse_hlo
from haulout.ir.verify import verify

COUNT = 4
Values = dict[str, np.ndarray]


@st.composite
def programs(draw: st.DrawFn) -> tuple[str, list[str], int]:
    """HLO text on s32[4], the names of its results, the number of its parameters."""
    parameters = draw(st.integers(1, 4))
    names = [f"p{number}" for number in range(parameters)]
    lines = [f"  {name} = s32[{COUNT}] parameter({number})" for number, name in enumerate(names)]
    lines.append("  k = s32[] constant(1)")
    for step in range(draw(st.integers(0, 8))):
        first, second = draw(st.sampled_from(names)), draw(st.sampled_from(names))
        form = draw(st.sampled_from(["add({0}, {1})", "negate({0})", "reverse({0}), dimensions={{0}}", "update"]))
        if form == "update":
            lines.append(f"  s{step} = s32[2] slice({second}), slice={{[1:3]}}")
            form = f"dynamic-update-slice({{0}}, s{step}, k)"
        lines.append(f"  v{step} = s32[{COUNT}] {form.format(first, second)}")
        names.append(f"v{step}")
    results = draw(st.lists(st.sampled_from(names), min_size=1, max_size=4))
    shape = f"({', '.join([f's32[{COUNT}]'] * len(results))})"
    lines.append(f"  ROOT r = {shape} tuple({', '.join(results)})")
    donated = draw(st.permutations(range(parameters)))
    outputs = draw(st.lists(st.integers(0, len(results) - 1), unique=True, max_size=parameters))
    aliases = ", ".join(f"{{{output}}}: ({donated[at]}, {{}})" for at, output in enumerate(outputs))
    header = f"HloModule m, input_output_alias={{ {aliases} }}" if aliases else "HloModule m"
    return header + "\n\nENTRY e {\n" + "\n".join(lines) + "\n}\n", results, parameters


def evaluate(text: str, parameters: list[np.ndarray]) -> Values:
    """Every value of the program, each in storage of its own; reads the four forms that `programs` writes."""
    values: Values = {f"p{number}": value for number, value in enumerate(parameters)}
    for line in text.splitlines():
        name, _, rest = line.strip().partition(" = ")
        opcode, _, operands = rest.partition(" ")[2].partition("(")
        inputs = [values[operand] for operand in operands.partition(")")[0].split(", ") if operand in values]
        match opcode:
            case "add":
                values[name] = inputs[0] + inputs[1]
            case "negate":
                values[name] = -inputs[0]
            case "reverse":
                values[name] = inputs[0][::-1].copy()
            case "slice":
                values[name] = inputs[0][1:3].copy()
            case "dynamic-update-slice":
                values[name] = np.concatenate([inputs[0][:1], inputs[1], inputs[0][3:]])
    return values


@given(programs())
def test_donation_changes_no_value(made: tuple[str, list[str], int]) -> None:
    text, results, count = made
    parameters = [np.arange(COUNT, dtype=np.int32) + 10 * (number + 1) for number in range(count)]
    program = lower(parse_hlo(text))
    assert verify(program) == []
    expected = evaluate(text, parameters)
    found = Executor(program).run([parameters])[0]
    assert len(set(program.output_names)) == len(results)
    for name, value in zip(results, found, strict=True):
        assert np.array_equal(value, expected[name]), (name, text)
