"""Values by data flow against all runs: what reads and outputs find, and the path that shows each fault."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random

import pytest
from tests.checker.held_judge import faults_of_runs
from tests.checker.loop_generate import random_loops
from tests.checker.loop_judge import judge_loops
from tests.checker.loop_snippets import START, branch, core, loop
from tests.checker.snippets import program
from tests.checker.test_check_loops_agree import SHAPES
from tests.tiers import examples

from haulout.checker.driver import check_model
from haulout.checker.explain.dedup import Dedup
from haulout.checker.flow import held, walks
from haulout.checker.flow.held import UNSET, WrongRead, find_wrong
from haulout.checker.flow.pairs import Touches, find_touches
from haulout.checker.flow.prove import _disorder
from haulout.checker.flow.refusal import Refusal
from haulout.checker.flow.text import Text, find_text
from haulout.checker.model import Function, Runs, functions
from haulout.checker.paths.runs import walk
from haulout.checker.proofs.storage import check_placements, check_views
from haulout.ir.enums import NONE, Kind
from haulout.ir.program import Program
from haulout.support.jit import interpreted

_KINDS = (Kind.INTERNAL,) * 4 + (Kind.OUTPUT, Kind.INOUT)
_ALONE = replace(
    SHAPES["one core"], chained=0.0, barrier=0.0, engines=1, depth=2, kinds=_KINDS, trips=(0, 1, 2, 3, 4, 7)
)
ONE_ENGINE = {
    "loops": replace(_ALONE, depth=3, forks=(0, 2)),
    "shared bytes": replace(_ALONE, depth=3, forks=(0, 2), addresses=1.0),
    "forks": replace(_ALONE, forks=(1, 4), addresses=0.6, loops=(0, 1), depth=3),
    "moving": replace(_ALONE, stepped=0.6, unknown_loops=1, loops=(1, 2)),
    "shared tiles": replace(_ALONE, stepped=0.7, unknown_loops=1, loops=(1, 2), forks=(0, 1), addresses=1.0),
}
_MOVING = replace(SHAPES["moving patterns"], slip=0.0)
SEVERAL = SHAPES | {
    "shared tiles": replace(_MOVING, addresses=1.0, unknown=0.0),
    "values that move": replace(_MOVING, kinds=_KINDS, cores=(1, 1), work=(1, 3)),
    "tiles in branches": replace(SHAPES["branches"], stepped=0.6, loops=(1, 2), addresses=0.7, unknown=0.0, slip=0.0),
    "unknown bytes": replace(SHAPES["chained"], unknown=0.3, slip=0.0, kinds=_KINDS),
}


def text_of(some: Program) -> tuple[Runs, Text, Touches] | None:
    """The text of a program's function; None where there is none to walk."""
    (function,) = functions(some)
    assert isinstance(function, Function) and function.runs is not None
    text = find_text(function.runs)
    if isinstance(text, Refusal) or check_views(text.model) or check_placements(text.model):
        return None
    return function.runs, text, find_touches(text)


def wrong_in(some: Program) -> list[WrongRead] | None:
    """What is wrong in a program."""
    found = text_of(some)
    assert found is not None
    return find_wrong(*found[1:])


def is_ordered(text: Text, touches: Touches) -> bool:
    """Whether all conflicts are ordered."""
    return _disorder(text, touches, None) == []


def code_of(wrong: WrongRead) -> str:
    """The finding that a run must have."""
    if wrong.finds != UNSET:
        return "overlapping-storage"
    return "output-not-written" if wrong.access == NONE else "uninitialized-read"


def codes_on(runs: Runs, wrong: WrongRead) -> set[str]:
    """The findings in the run of its path."""
    cores = len(runs.flow.functions)
    run = walk(runs.flow.structure, wrong.copies, cores, runs.narrowed.follow(wrong.path))
    models = runs.models([(run, wrong.copies)])
    return {each.code for model in models for each in check_model(model, None, Dedup(), None)}


def assert_shown(some: Program) -> list[WrongRead]:
    """Each fault of a program shows on its path."""
    found = text_of(some)
    assert found is not None
    wrong = find_wrong(*found[1:])
    assert wrong is not None
    for each in wrong:
        assert code_of(each) in codes_on(found[0], each), each
    return wrong


# -- random programs -------------------------------------------------------------------------------------------------


def compare_bytes(name: str, seed: int, seen: Counter[str]) -> None:
    """Exactly what some run shows is wrong."""
    found = text_of(random_loops(Random(f"{name}, held {seed}"), ONE_ENGINE[name]))
    wanted = None if found is None else faults_of_runs(found[0], 100)
    if found is None or wanted is None:
        seen["skipped"] += 1
        return
    wrong = find_wrong(*found[1:], limit=10_000)
    assert wrong is not None
    assert {(each.access, each.location, each.finds == UNSET) for each in wrong} == wanted
    seen.update(programs=1, faults=len(wanted), held=not wrong)


@pytest.mark.parametrize("name", ONE_ENGINE)
def test_exactly_the_faults_of_all_runs_are_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held, "harmful", lambda text, touches, order, reads: range(len(reads)))
    seen: Counter[str] = Counter()
    for seed in range(examples(60)):
        compare_bytes(name, seed, seen)
    assert seen["programs"] > seen["skipped"]
    assert seen["faults"] > 0


@pytest.mark.long("10 min")
@pytest.mark.parametrize("name", ONE_ENGINE)
def test_exactly_the_faults_of_all_runs_of_many_programs(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held, "harmful", lambda text, touches, order, reads: range(len(reads)))
    seen: Counter[str] = Counter()
    for seed in range(1000, 2000):
        compare_bytes(name, seed, seen)
    assert seen["held"] > 50


def compare_verdicts(name: str, seed: int, seen: Counter[str]) -> None:
    """Where all is ordered, the verdict is that of the runs, and each fault shows on its path."""
    some = random_loops(Random(f"{name}, values {seed}"), SEVERAL[name])
    found = text_of(some)
    if found is None or not is_ordered(*found[1:]) or (verdict := judge_loops(some)) is None:
        seen["skipped"] += 1
        return
    runs, text, touches = found
    wrong = find_wrong(text, touches)
    assert wrong is not None
    codes = {code_of(each) for each in wrong}
    assert ("overlapping-storage" in codes) == verdict.storage
    assert codes - {"overlapping-storage"} <= verdict.may
    assert verdict.aliased or verdict.must <= codes
    for each in wrong:
        assert code_of(each) in codes_on(runs, each)
    seen.update(programs=1, held=not wrong)


@pytest.mark.thin(8, "70 s")
@pytest.mark.parametrize("name", SEVERAL)
def test_the_verdict_is_that_of_all_runs(name: str) -> None:
    seen: Counter[str] = Counter()
    for seed in range(examples(20)):
        compare_verdicts(name, seed, seen)
    assert examples(20) < 20 or seen["programs"] > 0


def test_what_is_not_written_out_is_proved_only_if_it_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: Counter[str] = Counter()
    for name in ("shared tiles", "moving"):
        for seed in range(examples(60)):
            found = text_of(random_loops(Random(f"{name}, tiles {seed}"), ONE_ENGINE[name]))
            if found is None:
                continue
            exact = find_wrong(*found[1:])
            with monkeypatch.context() as patch:
                patch.setattr(walks, "MAX_OPERATIONS", 0)
                rough = find_wrong(*found[1:])
            assert exact == [] or rough != []
            assert exact != [] or not rough
            seen.update(exact=exact == [], rough=rough == [])
    assert seen["rough"] > 0.8 * seen["exact"]


def test_plain_and_compiled_walks_are_equal() -> None:
    for seed in range(examples(20)):
        found = text_of(random_loops(Random(f"plain {seed}"), ONE_ENGINE["shared tiles"]))
        if found is not None:
            compiled = find_wrong(*found[1:])
            with interpreted():
                assert find_wrong(*found[1:]) == compiled


# -- loops -----------------------------------------------------------------------------------------------------------

TWO = """
    mloc %a dram.local size=64 address=0
    mloc %b dram.local size=64 address=0
"""


@pytest.mark.parametrize(("trip", "codes"), [(None, 1), (3, 1), (2, 0), (1, 0), (0, 0)])
def test_a_third_iteration_finds_what_the_second_has_lost(trip: int | None, codes: int) -> None:
    """One iteration leaves %a whole, another one takes its bytes, the next one reads them."""
    body = (
        "block ^loop -> ^f, ^done cond=go{}:\nblock ^f -> ^take, ^g cond=go:\n%r = copy @act (%a) -> ()\n"
        "block ^take -> ^g:\n%t = iota @act () -> (%b)\nblock ^g -> ^fill, ^j cond=go:\n"
        "block ^fill -> ^j:\n%w = iota @act () -> (%a)\nblock ^j -> ^loop:\nblock ^done:"
    ).format("" if trip is None else f" trip={trip}")
    first = "block ^entry -> ^loop:\n%i = iota @act () -> (%b)"
    wrong = [each for each in assert_shown(program(core(TWO, first, body))) if each.finds != UNSET]
    assert len(wrong) == codes
    if trip is None:
        assert max(wrong[0].path.values()) == 3


def tiles(tensors: int, trip: int, *, last: str = "", unroll: str = "") -> Program:
    """Tensors on one range of storage, each filled and read tile by tile in a loop of its own."""
    lines = [f"mloc %t{k} dram.local size={64 * trip} address=0" for k in range(tensors)]
    lines.append("block ^entry -> ^loop0:")
    for k in range(tensors):
        step = f"step=[[0,loop{k},64,0]]"
        work = [f"%w{k} = iota @act () -> (%t{k}[0:64]) {step}", f"%r{k} = copy @act (%t{k}[0:64]) -> () {step}"]
        behind = f" -> ^loop{k + 1}" if k + 1 < tensors else ""
        lines.append(loop(*work, unroll.format(k), name=f"loop{k}", trip=trip, behind=behind))
        lines.append(f"%whole{k} = copy @act (%t{k}) -> ()")
    return program(core(*lines, last))


@pytest.mark.parametrize("trip", [1, 7, 64])
def test_tensors_may_move_through_the_same_storage(trip: int, monkeypatch: pytest.MonkeyPatch) -> None:
    assert wrong_in(tiles(4, trip)) == []
    assert assert_shown(tiles(4, trip, last="%late = copy @act (%t0[0:64]) -> ()")) != []
    monkeypatch.setattr(walks, "MAX_OPERATIONS", 0)
    assert wrong_in(tiles(4, trip)) == []
    assert wrong_in(tiles(4, trip, last="%late = copy @act (%t0[0:64]) -> ()")) is None
    assert wrong_in(tiles(4, trip, unroll="%x{} = iota @act () -> (%t0[0:1])")) != []


def test_a_tile_of_another_iteration_is_unwritten() -> None:
    body = [
        "%w = iota @act () -> (%a[0:4]) step=[[0,loop,4,2]]",
        "%r = copy @act (%a[0:4]) -> () step=[[0,loop,4,2,1]]",
    ]
    text = core("mloc %a dram.local size=8", START, loop(*body, trip=None), "%z = iota @act () -> ()")
    (wrong,) = assert_shown(program(text))
    assert max(wrong.path.values()) == 1
    ready = text.replace(START, f"{START}\n%i = iota @act () -> (%a[4:8])")
    assert wrong_in(program(ready)) == []


def test_many_branches_take_one_path() -> None:
    parts = ["mloc %a dram.local size=64", "mloc %o dram.local size=64 kind=output", "block ^entry -> ^f0:"]
    parts.append("%i = iota @act () -> (%o)")
    for at in range(200):
        behind = "" if at == 199 else f" -> ^f{at + 1}"
        parts.append(branch("" if at != 150 else "%w = iota @act () -> (%a)", None, name=f"f{at}", behind=behind))
        if at == 170:
            parts.append("%r = copy @act (%a) -> (%o)")
    (wrong,) = assert_shown(program(core(*parts)))
    assert list(wrong.path.values()) == [1]


# -- undefined bytes -------------------------------------------------------------------------------------------------

PADDED = """
    mloc %x dram.local size=4 kind=input
    mloc %t dram.local size=16 dtype=u8 shape=[16]
    mloc %u dram.local size=16 dtype=u8 shape=[16]
    mloc %o dram.local size=4 kind=output
"""


def test_undefined_bytes_that_reach_nothing_are_proved() -> None:
    body = ["%c = dma_copy @act (%x) -> (%t[0:4])", "%m = negate @act (%t) -> (%u)"]
    text = core(PADDED, START, loop(*body, trip=3), "%y = dma_copy @act (%u[{}]) -> (%o)")
    assert wrong_in(program(text.format("0:4"))) == []
    (wrong,) = assert_shown(program(text.format("2:6")))
    assert code_of(wrong) == "uninitialized-read"


def test_undefined_bytes_that_are_overwritten_on_every_path_are_proved() -> None:
    begin = "block ^entry -> ^fork:\n%c = dma_copy @act (%x) -> (%t[0:4])\n%m = negate @act (%t) -> (%u)"
    fill = "%f{} = memset @act () -> (%u) value=0"
    use = "%y = dma_copy @act (%u[4:8]) -> (%o)"
    assert wrong_in(program(core(PADDED, begin, branch(fill.format(0), fill.format(1)), use))) == []
    (wrong,) = assert_shown(program(core(PADDED, begin, branch(fill.format(0), ""), use)))
    assert code_of(wrong) == "uninitialized-read"


def test_undefined_bytes_of_an_iteration_reach_the_next_one() -> None:
    body = ["{}", "%m = negate @act (%t) -> (%u)", "%c = dma_copy @act (%x) -> (%t[0:4])"]
    text = "\n".join(
        [PADDED, START, "%i = memset @act () -> (%u) value=0", loop("%y = dma_copy @act (%u[4:8]) -> (%o)", *body)]
    )
    (wrong,) = assert_shown(program(core(text.format(""))))
    assert code_of(wrong) == "uninitialized-read"
    again = text.format("").replace("block ^loop_done:", "block ^loop_done:\n%z = memset @act () -> (%o) value=0")
    assert wrong_in(program(core(again))) == []
