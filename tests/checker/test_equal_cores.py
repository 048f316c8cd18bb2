"""Claims of `same=`: what the checker derives, and what it doubts, against labels, examples and the simulator."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.equal_cores import compare, held_bytes, lowered

import haulout
from haulout.analysis.core_labels import core_labels
from haulout.checker import check_program
from haulout.checker.values.equal_cores import unproved_claims
from haulout.ir.attributes import format_value
from haulout.ir.core_classes import claims
from haulout.ir.enums import NONE, Kind
from haulout.ir.partitions import to_classes
from haulout.ir.program import Program
from haulout.ir.schema import Ids
from haulout.ir.text import parse_bir, print_bir
from haulout.ir.verify import check_sound
from haulout.passes.base import PassContext
from haulout.passes.mark_uniform import MarkUniform
from haulout_generators.lockstep_programs import lockstep_inputs, random_lockstep_program


def marked(program: Program) -> Program:
    return check_sound(MarkUniform().run(program, PassContext()))


def claimed(program: Program, labels: Ids) -> Program:
    """The program with these classes claimed of every location that is no input."""
    same = np.full(len(labels), NONE, np.int32)
    for row, line in enumerate(labels.tolist()):
        classes = [list(each) for each in to_classes(tuple(line)) if len(each) > 1]
        if classes:
            same[row] = program.strings.intern(format_value([list(each) for each in classes]))
    rows = program.locations
    inputs = np.isin(rows.kind, (Kind.INPUT, Kind.INOUT))
    everywhere = np.where(inputs, rows.same, np.tile(same, program.lnc)).astype(np.int32)
    return program.replace(locations=rows.replace(same=everywhere))


def doubted(program: Program) -> set[str]:
    found = unproved_claims(program)
    assert all(each.code == "equal-bytes-unproved" for each in found)
    return {each.message.split()[0][1:] for each in found}


@given(st.integers(0, 10**9))
def test_what_the_pass_marks_is_derived(seed: int) -> None:
    program = marked(random_lockstep_program(Random(seed)))
    assert len(claims(program))
    assert unproved_claims(program) == []
    assert unproved_claims(parse_bir(print_bir(program))) == []


def _coarser(rng: Random, labels: Ids) -> Ids:
    """Two classes of some locations joined, at random."""
    found = labels.copy()
    for row in range(len(found)):
        one, other = sorted(rng.sample(range(found.shape[1]), 2))
        low, high = sorted((int(found[row, one]), int(found[row, other])))
        found[row, found[row] == high] = low
    return found


def _accepted_and_compared(seed: int) -> tuple[int, int]:
    """Claims beyond the labels that the checker accepts are true: how many there are, and contents compared."""
    rng = Random(seed)
    program = random_lockstep_program(rng)
    labels = core_labels(program)
    wanted = _coarser(rng, labels)
    kinds = program.locations.kind[: len(labels)]
    names = [program.strings[int(each)] for each in program.locations.name[: len(labels)].tolist()]
    doubts: set[str] = set()
    while True:
        # findings are limited, so those seen are taken back, until none is left
        now = doubted(claimed(program, wanted))
        if not now:
            break
        doubts |= now
        for row, name in enumerate(names):
            if name in now:
                wanted[row] = np.arange(program.lnc)
    wanted[np.isin(kinds, (Kind.INPUT, Kind.INOUT))] = np.arange(program.lnc)
    total = 0
    for _ in range(2):
        with np.errstate(all="ignore"):
            found = compare(program, wanted, held_bytes(lowered(program), lockstep_inputs(rng, program)))
        assert found.differ == [], seed
        total += found.contents
    beyond = (wanted != labels).any(axis=1) & (wanted != np.arange(program.lnc)).any(axis=1)
    return int(beyond.sum()), total


@given(st.integers(0, 10**9))
def test_what_it_accepts_is_true(seed: int) -> None:
    _accepted_and_compared(seed)


@pytest.mark.long("60 s")
def test_it_accepts_more_than_labels_say_and_all_of_it_is_true() -> None:
    beyond = total = seed = 0
    while total < 50_000:
        accepted, contents = _accepted_and_compared(seed)
        beyond, total, seed = beyond + accepted, total + contents, seed + 1
    assert beyond > 50


# -- examples -------------------------------------------------------------------------------------------------------

HEAD = """
    mloc %all dram.local size=8 kind=input dtype=s32 shape=[2] same=[[0,1]]
    mloc %own dram.local size=8 kind=input
    mloc %a dram.local size=8 dtype=s32 shape=[2] same=[[0,1]]
    mloc %b dram.local size=8 same=[[0,1]]
"""


def two_cores(body: str, other: str | None = None, head: str = HEAD) -> Program:
    cores = (body, body if other is None else other)
    modules = [
        f"module @nc{core} core={core} {{\n func @main {{\n{head}\n{text}\n }}\n}}\n"
        for core, text in enumerate(cores)
    ]
    return check_sound(parse_bir('bir 1\nprogram "p" lnc=2\n' + "".join(modules)))


def loop(body: str, cond: str = "all") -> str:
    return f"block ^e -> ^h:\nblock ^h -> ^b, ^x cond={cond}:\nblock ^b -> ^h:\n{body}\nblock ^x:"


def fork(then: str, other: str, cond: str = "own") -> str:
    head = f"block ^e -> ^t, ^f cond={cond} divergent=true:\n"
    return f"{head}block ^t -> ^j:\n{then}\nblock ^f -> ^j:\n{other}\nblock ^j:"


@pytest.mark.parametrize(
    ("body", "other", "names"),
    [
        ("block ^e:\n%i = copy @act (%all) -> (%a)", None, set()),
        ("block ^e:\n%i = copy @act (%own) -> (%a)", None, {"a"}),
        # what is overwritten does not matter to what comes after, but the claim holds at every write
        ("block ^e:\n%i = copy @act (%own) -> (%a)\n%j = copy @act (%all) -> (%a)", None, {"a"}),
        # cores may reach equal values in ways that labels do not see
        ("block ^e:\n%i = copy @act (%all[0:4]) -> (%a)", "block ^e:\n%i = copy @pool (%all[0:4]) -> (%a)", set()),
        ("block ^e:\n%i = copy @act (%all[0:4]) -> (%a)", "block ^e:\n%i = copy @act (%all[4:8]) -> (%a)", {"a"}),
        ("block ^e:\n%i = copy @act (%all) -> (%a)", "block ^e:\n%i = negate @act (%all) -> (%a)", {"a"}),
        ("block ^e:\n%i = iota @act () -> (%a) dim=0", "block ^e:\n%i = iota @act () -> (%a) dim=1", {"a"}),
        (loop("%i = copy @act (%b) -> (%a)\n%j = copy @act (%all) -> (%b)"), None, set()),
        (loop("%i = copy @act (%b) -> (%a)\n%j = copy @act (%own) -> (%b)"), None, {"a", "b"}),
        (loop("%i = copy @act (%all) -> (%a)", cond="own"), None, {"a"}),
        (fork("%i = copy @act (%all) -> (%a)", "", cond="all"), None, set()),
        (fork("%i = copy @act (%all) -> (%a)", ""), None, {"a"}),
        (fork("%i = copy @act (%all) -> (%a)", "%j = copy @act (%all) -> (%a)"), None, set()),
        (fork("%i = copy @act (%all) -> (%a)", "%j = negate @act (%all) -> (%a)"), None, {"a"}),
        ("block ^e:\n%i = add @act (%a, %all) -> (%a) atomic=[0,2]", None, {"a"}),
        ("block ^e:\n%i = dma_copy @act (%all[?]) -> (%a)", None, {"a"}),
        ("block ^e:\n%i = nki.copy @act (%all) -> (%a)", None, {"a"}),
        ("block ^e:\n%i = nki.copy @act (%all) -> (%a) args=[[x,[0]]]", None, set()),
        ("block ^e:\n%i = nki.copy @act (%all) -> (%a) args=[[x,[0]],[reduce_cmd,reduce]]", None, {"a"}),
        ("block ^e:\n%i = nki.all_reduce @act (%all) -> (%a) args=[[x,[0]]]", None, {"a"}),
        ("block ^e:\n%i = all_reduce @pool (%own) -> (%a) op=add groups=[[0,1]]", None, set()),
        ("block ^e:\n%i = all_reduce @pool (%own) -> (%a) op=add groups=[[0,1],[1]]", None, {"a"}),
        ("block ^e:\n%i = all_reduce @pool (%all) -> (%a) op=add groups=[[1]]", None, {"a"}),
        ("block ^e:\n%i = collective_permute @pool (%own) -> (%a) pairs=[]", None, set()),
        ("block ^e:\n%i = collective_permute @pool (%own) -> (%a) pairs=[[0,1]]", None, {"a"}),
    ],
)
def test_examples(body: str, other: str | None, names: set[str]) -> None:
    assert doubted(two_cores(body, other)) == names


def test_a_location_of_one_core_only_and_shapes() -> None:
    one = two_cores("mloc %c dram.local size=8 same=[[0,1]]\nblock ^e:", "block ^e:")
    assert doubted(one) == {"c"}
    shapes = ["mloc %c dram.local size=8 dtype=u8 shape=[2,4]", "mloc %c dram.local size=8 dtype=u8 shape=[4,2]"]
    body = "\nblock ^e:\n%i = iota @act () -> (%c) dim=0\n%j = copy @act (%c) -> (%a)"
    assert doubted(two_cores(shapes[0] + body, shapes[1] + body)) == {"a"}
    assert doubted(two_cores(shapes[0] + body)) == set()


def test_shared_locations() -> None:
    own, view = "mloc %s dram.shared size=8", "mloc %s dram.shared size=8 remote=[s,0]"
    body = "\nblock ^e:\n%j = copy @act (%s) -> (%a)"
    assert doubted(two_cores(own + body, view + body)) == set()
    written = "\nblock ^e:\n%i = copy @act (%all) -> (%s)\n%j = copy @act (%s) -> (%a)"
    assert doubted(two_cores(own + written, view + written)) == {"a"}


def test_a_nest_as_deep_as_allowed() -> None:
    depth = 60
    lines = ["block ^e -> ^h0:"]
    for at in range(depth):
        after = f"x{at}"
        lines.append(f"block ^h{at} -> ^{f'p{at}'}, ^{after} cond=all:")
        lines.append(f"block ^p{at} -> ^{'h' + str(at + 1) if at + 1 < depth else 'h' + str(at)}:")
        if at + 1 == depth:
            lines.append("%i = copy @act (%b) -> (%a)\n%j = copy @act (%all) -> (%b)")
    lines += [f"block ^x{at}" + (f" -> ^h{at - 1}:" if at else ":") for at in range(depth - 1, -1, -1)]
    assert doubted(two_cores("\n".join(lines))) == set()


def test_the_checker_reports_it() -> None:
    program = two_cores("block ^e:\n%i = copy @act (%own) -> (%a)")
    found = [each for each in check_program(program) if each.code == "equal-bytes-unproved"]
    assert len(found) == 1
    assert found[0].subject is not None
    assert [each.name for each in found[0].subject.locations] == ["a"]


def test_compile_removes_claims_that_its_passes_break() -> None:
    body = "block ^e:\n%i = copy @act (%all) -> (%a)\n%j = all_reduce @pool (%own) -> (%b) op=add groups=[[0,1]]"
    outputs = HEAD.replace("%a dram.local size=8", "%a dram.local size=8 kind=output")
    typed = "dtype=s32 shape=[2]"
    outputs = outputs.replace("%b dram.local size=8", f"%b dram.local size=8 kind=output {typed}")
    outputs = outputs.replace("%own dram.local size=8 kind=input", f"%own dram.local size=8 kind=input {typed}")
    program = two_cores(body, head=outputs)
    assert len(claims(program)) == 4
    assert unproved_claims(program) == []
    result = haulout.compile(program)
    assert result.proved
    assert len(claims(result.program)) == 0
