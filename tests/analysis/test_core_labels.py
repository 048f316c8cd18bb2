"""Labels of equal cores: examples, and random programs against what the simulator computes."""

from __future__ import annotations

import os
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.equal_cores import compare, held_bytes, lowered

from haulout.analysis.core_labels import core_labels
from haulout.api import load
from haulout.ir.lockstep import runs_in_lockstep
from haulout.ir.program import Program
from haulout.ir.text import parse_bir
from haulout.ir.verify import check_sound
from haulout.passes.base import PassContext
from haulout.passes.fold_constants import FoldConstants
from haulout.support.jit import interpreted
from haulout_generators.lockstep_programs import lockstep_inputs, random_lockstep_program

DIRECTORY = os.environ.get("HAULOUT_HLO_DIR")
FILES = sorted(Path(DIRECTORY).glob("*.hlo")) if DIRECTORY else []


def on_cores(body: str, cores: int = 4, **per_core: list[str]) -> Program:
    """The body on all cores; `$name` stands for what each core has in `per_core`."""
    modules = []
    for core in range(cores):
        mine = body
        for name, values in per_core.items():
            mine = mine.replace("$" + name, values[core])
        modules.append(f"module @nc{core} core={core} {{\n func @main {{\n{mine}\n }}\n}}\n")
    return check_sound(parse_bir(f'bir 1\nprogram "p" lnc={cores}\n' + "".join(modules)))


def labels_of(program: Program) -> dict[str, list[int]]:
    assert runs_in_lockstep(program)
    labels = core_labels(program)
    names = [program.strings[int(name)] for name in program.locations.name[: len(labels)].tolist()]
    return dict(zip(names, labels.tolist(), strict=True))


LOCATIONS = """
    mloc %all dram.local size=16 kind=input dtype=s32 shape=[4] same=[[0,1,2,3]]
    mloc %two dram.local size=16 kind=input dtype=s32 shape=[4] same=[[0,1],[2,3]]
    mloc %odd dram.local size=16 kind=input dtype=s32 shape=[4] same=[[0,2],[1,3]]
    mloc %own dram.local size=16 kind=input dtype=s32 shape=[4]
    mloc %a dram.local size=16 dtype=s32 shape=[4]
    mloc %b dram.local size=16 dtype=s32 shape=[4]
"""
EVERYONE, ALONE, TWO, ODD = [0, 0, 0, 0], [0, 1, 2, 3], [0, 0, 2, 2], [0, 1, 0, 1]


def straight(*lines: str, **per_core: list[str]) -> dict[str, list[int]]:
    return labels_of(on_cores(LOCATIONS + "    block ^entry:\n" + "\n".join(lines), **per_core))


@pytest.mark.parametrize(
    ("line", "a"),
    [
        ("%i = add @act (%all, %all) -> (%a)", EVERYONE),
        ("%i = add @act (%all, %two) -> (%a)", TWO),
        ("%i = add @act (%odd, %two) -> (%a)", ALONE),
        ("%i = iota @act () -> (%a) dim=0", EVERYONE),
        ("%i = memset @act () -> (%a[0:4]) value=1", EVERYONE),
        ("%i = dma_copy @act (%two[0:8]) -> (%a[8:16])", TWO),
        ("%i = mystery @act (%all) -> (%a)", ALONE),
        ("%i = add @act (%a, %all) -> (%a) atomic=[0,2]", ALONE),
        ("%i = fetch_and_op @act (%a, %all) -> (%a, %b) op=add atomic=[0,2]", ALONE),
        ("%i = dma_copy @act (%all[?]) -> (%a)", ALONE),
        ("%i = nki.tensor_copy @act (%all) -> (%a)", ALONE),
        ("%i = nki.tensor_copy @act (%all) -> (%a) args=[[src,[0]],[dst,[1]]]", EVERYONE),
        ("%i = nki.tensor_copy @act (%all) -> (%a) args=[[src,[0]],[dst,[1]]] maybe=[1]", ALONE),
        ("%i = nki.activation @act (%all) -> (%a) args=[[src,[0]],[reduce_cmd,reset]]", ALONE),
        ("%i = nki.all_reduce @act (%all) -> (%a) args=[[src,[0]],[dst,[1]]]", ALONE),
        ("%i = all_reduce @pool (%own) -> (%a) op=add groups=[[0,1,2,3]]", EVERYONE),
        ("%i = all_reduce @pool (%own) -> (%a) op=add groups=[[0,2],[3,1]]", ODD),
        ("%i = all_reduce @pool (%own) -> (%a) op=add groups=[[0,1,2],[3]]", [0, 0, 0, 3]),
        ("%i = all_reduce @pool (%two) -> (%a) op=add groups=[[0,2],[1,3]]", EVERYONE),
        ("%i = all_reduce @pool (%two) -> (%a) op=add groups=[[0,2],[3,1]]", ODD),
        ("%i = all_reduce @pool (%all) -> (%a) op=add groups=[[0,1,2],[3]]", [0, 0, 0, 3]),
        ("%i = all_reduce @pool (%all) -> (%a) op=add groups=[[0,1]]", [0, 0, 2, 3]),
        ("%i = all_reduce @pool (%all) -> (%a) op=add groups=[[0,1],[1,2,3]]", ALONE),
        ("%i = all_reduce @pool (%own, %two) -> (%a, %b) op=add groups=[[0,2],[1,3]]", ODD),
        ("%i = all_gather @pool (%own[0:8]) -> (%a) dim=0 groups=[[0,1],[2,3]]", TWO),
        ("%i = reduce_scatter @pool (%all) -> (%a[0:8]) op=add dim=0 groups=[[0,1],[2,3]]", ODD),
        ("%i = reduce_scatter @pool (%two) -> (%a[0:8]) op=add dim=0 groups=[[0,1],[2,3]]", ALONE),
        ("%i = all_to_all @pool (%two) -> (%a) dim=0 groups=[[0,2],[1,3]]", TWO),
        ("%i = all_to_all @pool (%own) -> (%a) dim=0 groups=[[0,2],[1,3]]", ALONE),
        ("%i = collective_permute @pool (%own) -> (%a) pairs=[[0,1],[1,0]]", [0, 1, 2, 2]),
        ("%i = collective_permute @pool (%two) -> (%a) pairs=[[0,3],[1,2]]", TWO),
        ("%i = collective_permute @pool (%own) -> (%a) pairs=[]", EVERYONE),
        ("%i = collective_permute @pool (%own) -> (%a) pairs=[[0,1],[2,1]]", ALONE),
    ],
)
def test_one_instruction(line: str, a: list[int]) -> None:
    assert straight(line)["a"] == a


def test_each_result_of_a_collective_follows_its_own_operand() -> None:
    found = straight("%i = all_reduce @pool (%own, %two) -> (%a, %b) op=add groups=[[0,2],[1,3]]")
    assert (found["a"], found["b"]) == (ODD, EVERYONE)


def test_an_exchange_of_a_tuple_depends_on_all_operands() -> None:
    found = straight("%i = all_to_all @pool (%own, %all) -> (%a, %b) groups=[[0,1],[2,3]]")
    assert found["a"] == found["b"] == ALONE


@pytest.mark.parametrize(("side", "a"), [("0:8", TWO), ("4:12", [0, 1, 2, 2])])
def test_cores_that_name_other_bytes(side: str, a: list[int]) -> None:
    parts = [side, "0:8", "8:16", "8:16"]
    assert straight("%i = dma_copy @act (%all[$p]) -> (%a[0:8])", p=parts)["a"] == a
    assert straight("%i = dma_copy @act (%all[0:8]) -> (%a[$p])", p=parts)["a"] == a
    assert straight("%i = all_reduce @pool (%all[$p]) -> (%a) op=add groups=[[0,1,2,3]]", p=parts)["a"] == EVERYONE


def test_a_pattern_that_is_not_known_on_one_core_only() -> None:
    assert straight("%i = dma_copy @act (%all[$p]) -> (%a[0:8])", p=["?", "0:8", "0:8", "0:8"])["a"] == ALONE


def test_what_was_written_before_counts() -> None:
    assert straight("%i = add @act (%own, %own) -> (%a)", "%j = iota @act () -> (%a) dim=0")["a"] == ALONE


def test_a_chain_against_the_order_of_the_list() -> None:
    body = """
    mloc %go dram.local size=4 kind=input dtype=s32 shape=[1] same=[[0,1,2,3]]
    mloc %c dram.local size=16 dtype=s32 shape=[4]
    block ^entry -> ^head:
    block ^head -> ^body, ^end cond=go:
    block ^body -> ^head:
      %i = copy @act (%b) -> (%c)
      %j = copy @act (%a) -> (%b)
      %k = copy @act (%two) -> (%a)
    block ^end:
    """
    found = labels_of(on_cores(LOCATIONS + body))
    assert found["a"] == found["b"] == found["c"] == TWO


@pytest.mark.parametrize(("cond", "a"), [("all", EVERYONE), ("two", TWO), ("own", ALONE)])
@pytest.mark.parametrize("shape", ["loop", "header", "fork", "nested"])
def test_what_runs_on_some_cores_only(shape: str, cond: str, a: list[int]) -> None:
    write = "%i = iota @act () -> (%a) dim=0"
    body = {
        "loop": f"block ^0 -> ^h:\nblock ^h -> ^b, ^e cond={cond}:\nblock ^b -> ^h:\n{write}\nblock ^e:",
        "header": f"block ^0 -> ^h:\nblock ^h -> ^b, ^e cond={cond}:\n{write}\nblock ^b -> ^h:\nblock ^e:",
        "fork": f"block ^0 -> ^t, ^e cond={cond} divergent=true:\nblock ^t -> ^e:\n{write}\nblock ^e:",
        "nested": f"block ^0 -> ^t, ^e cond={cond} divergent=true:\nblock ^t -> ^x, ^u cond=all:\n"
        f"block ^x -> ^u:\n{write}\nblock ^u -> ^e:\nblock ^e:",
    }[shape].replace("^0", "^entry")
    found = labels_of(on_cores(LOCATIONS + body))
    assert found["a"] == a
    assert found["b"] == EVERYONE


def test_constants_and_claims() -> None:
    body = """
    mloc %k dram.local size=4 kind=const data="$d"
    mloc %none dram.local size=4 kind=const
    mloc %claimed dram.local size=4 kind=internal
    block ^entry:
    """
    found = labels_of(on_cores(body, d=["AAAAAA==", "AQAAAA==", "AAAAAA==", "AQAAAA=="]))
    assert found == {"k": ODD, "none": ALONE, "claimed": EVERYONE}


def test_shared_locations_are_those_of_their_owners() -> None:
    body = """
    mloc %own dram.shared size=4 kind=input
    mloc %all dram.shared size=4 kind=input same=[[0,1,2,3]]
    mloc %v dram.shared size=4 $own
    mloc %w dram.shared size=4 $all
    mloc %mixed dram.shared size=4 $mixed
    mloc %x dram.shared size=4
    mloc %y dram.shared size=4 $written
    block ^entry:
      %i = iota @act () -> (%x) dim=0
    """
    found = labels_of(
        on_cores(
            body,
            own=["remote=[own,1]", "remote=[own,0]", "remote=[own,1]", "remote=[own,2]"],
            all=["remote=[all,1]", "remote=[all,0]", "remote=[all,1]", "remote=[all,2]"],
            mixed=["remote=[own,1]", "remote=[all,0]", "remote=[own,1]", "remote=[all,2]"],
            written=["remote=[x,1]", "remote=[x,0]", "remote=[x,0]", "remote=[x,0]"],
        )
    )
    assert found["v"] == [0, 1, 0, 3]
    assert found["w"] == EVERYONE
    assert found["mixed"] == ODD
    assert found["x"] == found["y"] == ALONE


@pytest.mark.parametrize(
    "change",
    [
        ("%i = iota @act", ["%i = iota @act"] * 3 + ["%i = iota @pool"]),
        ("dim=0", ["dim=0"] * 3 + ["dim=1"]),
        ("shape=[2,3]", ["shape=[2,3]"] * 3 + ["shape=[3,2]"]),
        ("shape=[2,3]", ["shape=[2,3]"] * 3 + ["shape=[6]"]),
        ("(%s)", ["(%s)"] * 3 + ["(%t)"]),
        ("kind=input", ["kind=input"] * 3 + ["kind=inout"]),
    ],
)
def test_what_is_not_in_lockstep(change: tuple[str, list[str]]) -> None:
    body = """
    mloc %s dram.local size=24 dtype=f32 shape=[2,3]
    mloc %t dram.local size=24 dtype=f32 shape=[2,3]
    mloc %in dram.local size=24 kind=input
    block ^entry:
      %i = iota @act () -> (%s) dim=0
    """
    assert runs_in_lockstep(on_cores(body))
    old, new = change
    assert not runs_in_lockstep(on_cores(body.replace(old, "$new"), new=new))


def test_no_lockstep_with_an_order_between_cores() -> None:
    barrier = 'block ^entry:\n%i = core_barrier @all () -> () name="b"'
    assert not runs_in_lockstep(on_cores(barrier))
    assert not runs_in_lockstep(on_cores("block ^entry:", cores=1))


# -- against the simulator ------------------------------------------------------------------------------------------


def _compared(seed: int, runs: int = 2) -> int:
    rng = Random(seed)
    program = check_sound(random_lockstep_program(rng))
    assert runs_in_lockstep(program)
    labels = core_labels(program)
    simulated, total = lowered(program), 0
    for _ in range(runs):
        with np.errstate(all="ignore"):
            found = compare(program, labels, held_bytes(simulated, lockstep_inputs(rng, program)))
        assert found.differ == [], seed
        total += found.contents
    return total


@given(st.integers(0, 10**9))
def test_nothing_is_called_equal_that_differs(seed: int) -> None:
    _compared(seed)


@pytest.mark.long("60 s")
def test_no_false_equality_in_100000_contents() -> None:
    total = seed = 0
    while total < 100_000:
        total += _compared(seed)
        seed += 1
    assert seed < 2_000


@given(st.integers(0, 10**9))
def test_compiled_and_interpreted_kernels_agree(seed: int) -> None:
    program = random_lockstep_program(Random(seed))
    with interpreted():
        wanted = core_labels(program)
    assert np.array_equal(core_labels(program), wanted)


@given(st.integers(0, 10**9))
def test_labels_are_smallest_cores(seed: int) -> None:
    labels = core_labels(random_lockstep_program(Random(seed)))
    rows = np.arange(len(labels))[:, None]
    assert (labels <= np.arange(labels.shape[1])).all()
    assert (labels[rows, labels] == labels).all()


@pytest.mark.skipif(not FILES, reason="HAULOUT_HLO_DIR names no folder of HLO files")
@pytest.mark.thin(20, "120 s")
@pytest.mark.parametrize(
    "path",
    [each for each in FILES if not each.name.startswith("gpt2s")],
    ids=lambda each: each.name,
)
def test_hlo_files(path: Path) -> None:
    program = FoldConstants().run(load(path), PassContext())
    labels = core_labels(program)
    inputs = lockstep_inputs(Random(0), program, special=False)
    found = compare(program, labels, held_bytes(lowered(program), inputs))
    assert found.differ == []
    assert found.contents
