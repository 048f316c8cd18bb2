"""Divergent branches on many cores."""

from __future__ import annotations

import pytest
from tests.checker.loop_snippets import BUFFER, FENCE, branch, core
from tests.checker.snippets import codes, findings

CORES = 4
APART = "divergent=true"
SUBSET = '%x{0} = core_barrier @{1} () -> () name="x{0}" cores=[0,1]'


def shared(number: int) -> str:
    return "mloc %s dram.shared size=64 " + ("remote=[s,0]" if number else "kind=inout")


def forks(number: int, count: int, *between: str, then: str, other: str | None) -> str:
    """One core: branches one after the other; `{0}` is the number of the branch."""
    parts = [core(BUFFER, shared(number), "block ^entry -> ^f0:")]
    for at in range(count):
        arms = [None if each is None else each.format(at) for each in (then, other)]
        last = at == count - 1
        parts.append(branch(str(arms[0]), arms[1], f"f{at}", APART, "" if last else f" -> ^m{at}"))
        if not last:
            parts += [f"block ^m{at} -> ^f{at + 1}:", *(each.format(at) for each in between)]
    return "\n".join(parts)


ARMS = {"then": "%t{0} = copy @act (%a) -> ()", "other": "%e{0} = copy @vector (%a) -> ()"}


@pytest.mark.parametrize("count", [1, 3, 6, 60])
def test_what_many_cores_choose_apart(count: int) -> None:
    texts = [forks(number, count, **ARMS) for number in range(CORES)]
    assert codes(*texts) == []


def test_a_fault_inside_one_core_is_found() -> None:
    texts = [forks(number, 3, **ARMS) for number in range(CORES)]
    texts[2] = texts[2].replace("%t0 = copy @act (%a) -> ()", "%t0 = iota @act () -> (%a)")
    found = findings(*texts)
    assert {each.code for each in found} == {"missing-dependence"}
    assert all("on core 2" in each.message for each in found)


@pytest.mark.parametrize("line", ["all", "pool"])
def test_barriers_of_some_cores_between(line: str) -> None:
    texts = [forks(number, 2, *[SUBSET.format("{0}", line)][: number < 2], **ARMS) for number in range(CORES)]
    assert codes(*texts) == []


@pytest.mark.thin(2, "11 s")
@pytest.mark.parametrize("swap", [False, True])
def test_arms_that_exclude_each_other_meet_on_two_cores(swap: bool) -> None:
    """No core that chooses as the others do shows it: one is in the first arm, another in the second."""
    arms = [("", "")] * CORES
    arms[1], arms[3] = ("%w{0} = iota @act () -> (%s)", ""), ("", "%r{0} = copy @act (%s) -> ()")
    texts = [forks(number, 2, then=arm[swap], other=arm[not swap]) for number, arm in enumerate(arms)]
    found = findings(*texts)
    assert {each.code for each in found} == {"cross-core-race"}
    alone = [text.replace("copy @act (%s)", "copy @act (%a)") for text in texts]
    assert codes(*alone) == []


def test_values_depend_on_the_cores_that_touch_them() -> None:
    """What core 0 writes in an arm core 1 reads after a fence, for any choice of core 1."""
    texts = [forks(number, 3, FENCE.format("b{0}"), **ARMS) for number in range(CORES)]
    lines = ["mloc %s dram.shared size=64", "mloc %s dram.shared size=64 remote=[s,0]"]
    texts = [text.replace(shared(number), lines[number > 0]) for number, text in enumerate(texts)]
    texts[0] = texts[0].replace("%t0 = copy @act (%a) -> ()", "%t0 = iota @act () -> (%s)")
    texts[1] = texts[1].replace("%e1 = copy @vector (%a) -> ()", "%e1 = copy @vector (%s) -> ()")
    (wrong,) = findings(*texts)
    assert wrong.code == "uninitialized-read"
    texts[0] = texts[0].replace("%e0 = copy @vector (%a) -> ()", "%e0 = iota @vector () -> (%s)")
    assert codes(*texts) == []


@pytest.mark.parametrize("trip", ["", "trip=3"])
def test_branches_between_fences_in_a_loop(trip: str) -> None:
    """3 forks in each of 2 iterations on 4 cores are 2**24 paths."""
    inner = [
        branch("%t{0} = copy @act (%a) -> ()", "", "f{0}", APART, behind) for behind in (" -> ^m{0}", " -> ^loop")
    ]
    inner = [inner[0].format(0), inner[0].format(1), inner[1].format(2)]
    texts = []
    for number in range(CORES):
        parts = [core(BUFFER, shared(number), "block ^entry -> ^loop:")]
        parts += [f"block ^loop -> ^f0, ^done {trip} cond=go:", FENCE.format("h"), inner[0]]
        parts += ["block ^m0 -> ^f1:", FENCE.format("one"), inner[1]]
        parts += ["block ^m1 -> ^f2:", FENCE.format("two"), inner[2], "block ^done:"]
        texts.append("\n".join(parts))
    assert codes(*texts) == []
    bad = [text.replace("%t1 = copy @act (%a)", "%t1 = iota @act () -> (%s)\n%u1 = copy @act (%a)") for text in texts]
    assert set(codes(*bad)) == {"cross-core-race"}


def test_a_barrier_in_a_divergent_arm_is_looked_at_every_way() -> None:
    """Each core meets one barrier of two when it takes just one of the arms."""
    texts = [forks(number, 2, then=FENCE.format("b{0}"), other=None) for number in range(2)]
    assert "barrier-mismatch" in codes(*texts)
    both = [forks(number, 2, then=FENCE.format("b{0}"), other=FENCE.format("c{0}")) for number in range(2)]
    assert codes(*both) == []


@pytest.mark.parametrize("trip", ["trip=9", "trip=2", ""])
def test_signals_of_a_loop_that_the_waiting_core_does_not_run(trip: str) -> None:
    """`wait_back` counts what its own core issues; what core 0 signals in each of its iterations comes on top."""
    texts = []
    for number in range(2):
        sends = " remote_signal=[[1,S,1]]" if number == 0 else ""
        parts = [core(BUFFER, "block ^entry -> ^f:", f"block ^f -> ^then, ^else cond=go {APART}:")]
        parts += ["block ^then -> ^loop:", f"block ^loop -> ^body, ^end {trip} cond=go:"]
        parts += ["block ^body -> ^loop:", f"%n = nop @sync () -> (){sends}", "block ^end -> ^join:"]
        parts += ["block ^else -> ^join:", "block ^join:", "%w = iota @act () -> (%a) signal=[[S,5]]"]
        parts += [f"%r = copy @vector (%a) -> () {'wait_back=[[S,0]]' if number else 'deps=[w]'}"]
        texts.append("\n".join(parts))
    assert codes(*texts) == ([] if trip == "trip=2" else ["missing-dependence"])
    assert codes(*[text.replace("remote_signal=[[1,S,1]]", "") for text in texts]) == []
