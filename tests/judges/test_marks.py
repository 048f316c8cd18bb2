"""Marks in a text prove nothing: judged programs keep their verdicts when attributes claim things of them."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from tests.judges.test_judges import drawn

from haulout.checker import check_program
from haulout.ir.attributes import AttrValue, format_attrs
from haulout.ir.program import Program
from haulout.ir.text import parse_bir, print_bir
from haulout.support.diagnostics import Severity
from haulout_judges import reachability
from haulout_judges.checked import differs

CLAIMS = ("duplicate", "join", "gather", "benign", "partial", "proved")


def marked(program: Program, rng: Random, keys: tuple[str, ...]) -> Program:
    """The program with some of the attributes on many instructions."""
    attrs = program.instructions.attrs.copy()
    marks = {key: np.zeros(len(attrs), bool) for key in ("join", "gather")}
    maybe = np.zeros(len(program.accesses), bool)
    count = np.diff(program.access_starts).tolist()
    for row in range(len(attrs)):
        if rng.random() < 0.5 and count[row]:
            key = rng.choice(keys)
            operand = rng.randrange(count[row])
            if key in marks:
                marks[key][row] = True
            elif key == "maybe":
                maybe[program.access_starts[row] + operand] = True
            else:
                value: AttrValue = [operand] if key == "duplicate" else True
                attrs[row] = program.strings.intern(format_attrs(program.instruction_attrs(row) | {key: value}))
    made = program.replace(
        instructions=program.instructions.replace(attrs=attrs, **marks),
        accesses=program.accesses.replace(maybe=maybe),
    )
    return parse_bir(print_bir(made), "marked.bir")


@pytest.mark.parametrize("number", range(30))
def test_claims_change_nothing(number: int) -> None:
    program = parse_bir(print_bir(drawn(number)), "marked.bir")
    claimed = marked(program, Random(number), CLAIMS)
    before, after = check_program(program), check_program(claimed)
    assert [(each.code, each.severity, each.subject) for each in after] == [
        (each.code, each.severity, each.subject) for each in before
    ]


def test_what_is_not_known_is_never_less_than_a_warning() -> None:
    weaker = 0
    for number in range(30):
        program = drawn(number)
        unsure = marked(program, Random(number), ("maybe",))
        findings = check_program(unsure, advise=False)
        assert differs(unsure, reachability.judge(unsure), findings) == "", number
        clean = not any(each.severity > Severity.NOTE for each in check_program(program))
        assert clean or any(each.severity > Severity.NOTE for each in findings)
        weaker += any(each.code == "possible-race" for each in findings)
    assert weaker > 5
