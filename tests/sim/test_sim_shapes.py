"""Control flow that is refused: the same forms as the checker refuses, with the place; and how deep it may be."""

from __future__ import annotations

import re

import numpy as np
import pytest
from tests.sim.sim_programs import INT, program

from haulout.checker import check_program
from haulout.ir.program import Program
from haulout.sim import simulate
from haulout.support.diagnostics import HauloutError

NUMBERS = f"mloc %c dram.local size=4 kind=input {INT}\nmloc %y dram.local size=4 kind=inout {INT}\n"
FORK = NUMBERS + "block ^fork -> ^then, ^join cond=c:\nblock ^then -> ^join:\nblock ^join:\n"
LOOP = (
    NUMBERS
    + "block ^entry -> ^head:\nblock ^head -> ^body, ^end cond=c trip=2:\nblock ^body -> ^head:\nblock ^end:\n"
)


@pytest.mark.parametrize(
    ("blocks", "says"),
    [
        ("block ^entry cond=c:", "block ^entry: cond and trip belong to"),
        ("block ^entry trip=2:", "block ^entry: cond and trip belong to"),
        ("block ^entry divergent=true:", "block ^entry: divergent belongs to"),
        ("block ^entry:\nblock ^lost:", "block ^entry: the function returns before its last block"),
        ("block ^entry -> ^end:\nblock ^lost -> ^end:\nblock ^end:", "block ^entry: it does not lead to ^lost"),
        ("block ^entry -> ^entry:", "block ^entry: the last block of a function leads to another one"),
        ("block ^a -> ^b, ^c, ^d cond=c:\nblock ^b:\nblock ^c:\nblock ^d:", "block ^a: "),
    ],
)
def test_what_the_checker_refuses_does_not_run(blocks: str, says: str) -> None:
    text = program(NUMBERS + blocks)
    with pytest.raises(HauloutError, match=re.escape(says)):
        simulate(text)
    assert says in str(check_program(text)[0])


@pytest.mark.parametrize(
    ("one", "other", "says"),
    [
        (
            FORK,
            FORK.replace("cond=c", "cond=c divergent=true"),
            "block ^fork: its branch is divergent on one core only",
        ),
        (
            FORK,
            FORK.replace("^join:\nblock ^join", "^mid:\nblock ^mid -> ^join:\nblock ^join"),
            "block ^fork: its loop or",
        ),
        (FORK, NUMBERS + "block ^entry:\n", "block ^entry: its function has other blocks on core 0"),
        (LOOP, LOOP.replace("trip=2", "trip=3"), "block ^head: its loop does not run as often as that of core 0"),
        (LOOP, LOOP.replace(" trip=2", ""), "block ^head: its loop does not run as often as that of core 0"),
    ],
)
def test_cores_have_equal_blocks(one: str, other: str, says: str) -> None:
    with pytest.raises(HauloutError, match=re.escape(says)):
        simulate(program(one, other))
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
    with pytest.raises(
        HauloutError, match=re.escape("block ^f1000: more than 1000 loops and branches around each other")
    ):
        simulate(nested(1001))
