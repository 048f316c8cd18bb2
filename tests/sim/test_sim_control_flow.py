"""Control flow that is refused, at the same blocks as by the checker; and how deep it may be."""

from __future__ import annotations

import numpy as np
import pytest
from tests.sim.sim_programs import INT, program, refusal

from haulout.checker import check_program
from haulout.ir.program import Program
from haulout.sim import simulate

NUMBERS = f"mloc %c dram.local size=4 kind=input {INT}\nmloc %y dram.local size=4 kind=inout {INT}\n"
FORK = NUMBERS + "block ^fork -> ^then, ^join cond=c:\nblock ^then -> ^join:\nblock ^join:\n"
LOOP = (
    NUMBERS
    + "block ^entry -> ^head:\nblock ^head -> ^body, ^end cond=c trip=2:\nblock ^body -> ^head:\nblock ^end:\n"
)


@pytest.mark.parametrize(
    ("blocks", "at"),
    [
        ("block ^entry cond=c:", "^entry"),
        ("block ^entry trip=2:", "^entry"),
        ("block ^entry divergent=true:", "^entry"),
        ("block ^entry:\nblock ^lost:", "^entry"),
        ("block ^entry -> ^end:\nblock ^lost -> ^end:\nblock ^end:", "^entry"),
        ("block ^entry -> ^entry:", "^entry"),
        ("block ^a -> ^b, ^c, ^d cond=c:\nblock ^b:\nblock ^c:\nblock ^d:", "^a"),
    ],
)
def test_what_the_checker_refuses_does_not_run(blocks: str, at: str) -> None:
    text = program(NUMBERS + blocks)
    for finding in (refusal(text), check_program(text)[0]):
        assert (finding.code, finding.labels[0].message) == ("bad-input", f"{at} on core 0")


@pytest.mark.parametrize(
    ("one", "other", "at"),
    [
        (FORK, FORK.replace("cond=c", "cond=c divergent=true"), "^fork"),
        (FORK, FORK.replace("^join:\nblock ^join", "^mid:\nblock ^mid -> ^join:\nblock ^join"), "^fork"),
        (FORK, NUMBERS + "block ^entry:\n", "^entry"),
        (LOOP, LOOP.replace("trip=2", "trip=3"), "^head"),
        (LOOP, LOOP.replace(" trip=2", ""), "^head"),
    ],
)
def test_cores_have_equal_blocks(one: str, other: str, at: str) -> None:
    diagnostic = refusal(program(one, other))
    assert (diagnostic.code, diagnostic.labels[0].message) == ("bad-input", f"{at} on core 1")
    assert check_program(program(one, other))[0].code == "bad-input"


def nested(depth: int, attrs: str = "") -> Program:
    forks = [f"block ^f{k} -> ^f{k + 1}, ^j{k} cond=c {attrs}:" for k in range(depth)]
    joins = [f"block ^j{k} -> ^j{k - 1}:" if k else "block ^j0:" for k in reversed(range(depth))]
    inside = f"block ^f{depth} -> ^j{depth - 1}:\n%w = copy @act (%c) -> (%y)"
    return program("\n".join([NUMBERS, *forks, inside, *joins]))


@pytest.mark.parametrize("attrs", ["", "divergent=true"])
@pytest.mark.parametrize("c", [0, 1])
def test_branches_far_inside_each_other(attrs: str, c: int) -> None:
    result = simulate(nested(150, attrs), {"c": np.int32(c), "y": np.int32(7)})
    assert result.outputs["nc0/y"] == (1 if c else 7)
    assert result.statistics.instructions == c


def test_too_far_inside_each_other_is_said() -> None:
    assert refusal(nested(1001)).code == "bad-input"
