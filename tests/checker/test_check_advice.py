"""Advice: a fix that is shown makes its finding go and brings no other; one fault is one finding."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from tests.checker.snippets import bir, codes, findings, program, told

import haulout
from haulout.checker import check_program
from haulout.checker import driver as checker
from haulout.checker.explain.advice import Adviser, Budget
from haulout.checker.explain.dedup import Faults
from haulout.checker.explain.fixes import AddBarrier, AddDependence, AddExchange, AddRelay, Fix, Place
from haulout.checker.proofs import sweep
from haulout.ir.enums import NONE
from haulout.ir.program import Program
from haulout.ir.text import parse_bir, print_bir
from haulout.ir.verify import verify
from haulout.support.diagnostics import Advice, Diagnostic
from haulout_generators.loop_programs import damaged, random_judged_loops
from haulout_generators.programs import random_program
from haulout_judges.advised import contradiction

ORDER = ("cross-core-race", "possible-race", "missing-dependence")


def fixed(source: Program, finding: Diagnostic) -> list[Diagnostic]:
    """What is found once the advice of a finding is followed."""
    assert finding.advice is not None and finding.advice.verified
    made = parse_bir(print_bir(finding.advice.fix.apply(source)), "fixed.bir")
    assert [str(each) for each in verify(made)] == []
    return check_program(made)


# -- what is advised -------------------------------------------------------------------------------------------------


def test_a_barrier_would_deadlock_a_dependence_joins_the_meeting() -> None:
    cores = (
        """
        mloc %x dram.shared size=64 kind=inout
        %meet = sendrecv @act () -> () to=1 from=1 tag="t"
        %put = copy @dma1 () -> (%x)
        """,
        """
        mloc %x dram.shared size=64 remote=[x,0]
        %p = nop @sync () -> ()
        %q = nop @sync () -> ()
        %meet = sendrecv @sync (%x) -> () to=0 from=0 tag="t"
        """,
    )
    (race,) = findings(*cores)
    assert race.help == ("add deps=[meet] to %put on core 0",)
    # Nothing says which comes first; the fix does.
    assert race.message.startswith("%put on core 0 writes %x and %meet on core 1 reads it, in either order")
    assert fixed(program(*cores), race) == []


def test_a_wait_on_another_engine_is_joined() -> None:
    cores = (
        """
        mloc %x dram.shared size=64 kind=inout
        %put = copy @act () -> (%x) remote_signal=[[1,s,1]]
        """,
        """
        mloc %x dram.shared size=64 remote=[x,0]
        %seen = nop @pool () -> () wait=[[s,1]]
        %get = copy @vector (%x) -> ()
        """,
    )
    (race,) = findings(*cores)
    assert race.help == ("add deps=[seen] to %get on core 1",)
    assert fixed(program(*cores), race) == []


def test_an_arm_that_some_cores_take_gets_no_barrier() -> None:
    def core(number: int) -> str:
        head = "kind=inout" if number == 0 else "remote=[x,0]"
        read = (0, 32, 16, 48)[number]
        return f"""
        mloc %x dram.shared size=64 {head}
        mloc %c dram.local size=1 kind=input
        block ^fork -> ^then, ^else cond=c divergent=true:
          %n = nop @pool () -> ()
        block ^then -> ^join:
        block ^else -> ^join:
          %w = copy @act () -> (%x[{16 * number}:{16 * number + 16}])
          %r = copy @act (%x[{read}:{read + 16}]) -> ()
        block ^join:
        """

    (race,) = findings(*map(core, range(4)))
    assert race.advice is None
    assert race.help == ("no single dependence, barrier or sendrecv orders these two without another fault",)
    assert "stands for 2 pairs" in told(race)


def test_two_dependences_pass_through_a_barrier_that_is_there() -> None:
    cores = (
        """
        mloc %x dram.shared size=64 kind=inout
        %put = dma_copy @dma0 () -> (%x)
        %meet = core_barrier @sync () -> () name="m"
        """,
        """
        mloc %x dram.shared size=64 remote=[x,0]
        %meet = core_barrier @sync () -> () name="m"
        %get = copy @vector (%x) -> ()
        """,
    )
    (race,) = findings(*cores)
    assert race.help == ("add deps=[put] to %meet on core 0, and deps=[meet] to %get on core 1",)
    assert fixed(program(*cores), race) == []


def test_a_fix_that_would_show_another_fault_is_not_advised() -> None:
    # The source has the read first; the only order that the wait leaves is the other one.
    cores = (
        """
        mloc %x dram.shared size=64 kind=inout
        %put = copy @act () -> (%x) seq=5 remote_signal=[[1,s,1]]
        """,
        """
        mloc %x dram.shared size=64 remote=[x,0]
        %seen = nop @pool () -> () seq=1 wait=[[s,1]]
        %get = copy @vector (%x) -> () seq=2
        """,
    )
    (race,) = findings(*cores)
    assert "add deps=[seen]" not in told(race)
    if race.advice is not None:
        assert fixed(program(*cores), race) == []


def test_inside_an_arm_of_all_cores_a_barrier_stands_in_the_arm() -> None:
    def core(number: int) -> str:
        head = "kind=inout" if number == 0 else "remote=[x,0]"
        does = "() -> (%x)" if number == 0 else "(%x) -> ()"
        return f"""
        mloc %x dram.shared size=64 {head}
        mloc %c dram.local size=1 kind=input
        block ^fork -> ^then, ^join cond=c:
        block ^then -> ^join:
          %i{number} = copy @act {does}
        block ^join:
        """

    source = core(0), core(1)
    (race,) = findings(*source)
    assert race.help == ("put a core_barrier @all on every core: after %i0 on core 0, before %i1 on core 1",)
    assert fixed(program(*source), race) == []


# -- one fault, one finding ------------------------------------------------------------------------------------------


def all_reduce(cores: int, barrier: bool = False) -> list[str]:
    """Two rounds: each core puts its part, meets the others and adds all parts."""
    made = []
    for core in range(cores):
        lines = [
            f"mloc %p{k} dram.shared size=64 {'kind=inout' if k == core else f'remote=[p{k},{k}]'}"
            for k in range(cores)
        ]
        lines += [f"mloc %{name} dram.local size=64 kind=inout" for name in "xy"]
        parts = ", ".join(f"%p{k}" for k in range(cores))
        for turn in range(2):
            lines += [
                f"%put{turn} = dma_copy @dma0 (%x) -> (%p{core})",
                f'%meet{turn} = core_barrier @all () -> () name="m{turn}"',
                f"%sum{turn} = add @vector ({parts}) -> (%y)",
            ]
            if barrier and turn == 0:
                lines.append('%more = core_barrier @all () -> () name="more"')
        made.append("\n".join(lines))
    return made


def test_one_missing_barrier_is_one_finding() -> None:
    cores = all_reduce(4)
    (race,) = findings(*cores)
    assert race.help == ("put a core_barrier @all on every core: before %put1; it orders 16 pairs",)
    assert "a read and a write; stands for 16 pairs of accesses" in race.notes
    assert race.subject is not None and race.subject.pairs == 16
    assert sorted(each.name for each in race.subject.locations) == ["p0", "p1", "p2", "p3"]
    assert fixed(program(*cores), race) == []
    assert codes(*all_reduce(4, barrier=True)) == []


def test_without_advice_the_pairs_of_a_core_are_told_apart() -> None:
    found = check_program(program(*all_reduce(4)), advise=False)
    assert {each.code for each in found} == {"cross-core-race", "missing-dependence"}
    assert all(each.advice is None and each.help == () for each in found)


def test_one_missing_dependence_is_one_finding() -> None:
    core = """
    mloc %a dram.local size=8 kind=inout
    mloc %b dram.local size=8 kind=inout
    %w = iota @pool () -> (%a)
    %v = iota @pool () -> (%b)
    %r = add @act (%a, %b) -> ()
    """
    (wrong,) = findings(core)
    assert wrong.help == ("add deps=[v] to %r on core 0; it orders 2 pairs",)


def test_certain_and_possible_pairs_stay_apart() -> None:
    cores = (
        """
        mloc %x dram.shared size=64 kind=inout
        mloc %y dram.shared size=64 kind=inout
        %p = iota @act () -> (%x)
        %q = iota @act () -> (%y[?])
        """,
        """
        mloc %x dram.shared size=64 remote=[x,0]
        mloc %y dram.shared size=64 remote=[y,0]
        %r = copy @vector (%x, %y[0:8]) -> ()
        """,
    )
    found = findings(*cores)
    assert [each.code for each in found] == ["cross-core-race", "possible-race"]


def unrolled(turns: int, lines: bool = True) -> tuple[str, str]:
    """A body that a front end has written out: each core writes its half, then both read all."""
    made = []
    for core in range(2):
        text = [f"mloc %x dram.shared size=64 {'kind=inout' if core == 0 else 'remote=[x,0]'}"]
        for turn in range(turns):
            place = (' loc="k.py:7"', ' loc="k.py:9"') if lines else ("", "")
            wait = f" deps=[r{turn - 1}]" if turn else ""
            half = f"{32 * core}:{32 * core + 32}"
            text.append(f"%w{turn} = iota @act () -> (%x[{half}]) seq={2 * turn}{wait}{place[0]}")
            text.append(f"%r{turn} = copy @pool (%x) -> () seq={2 * turn + 1} deps=[w{turn}]{place[1]}")
        made.append("\n".join(text))
    return made[0], made[1]


def test_pairs_of_the_same_two_lines_are_one_finding_whose_fix_orders_them_all() -> None:
    source = unrolled(3)
    found = findings(*source)
    assert [(each.labels[1].span, each.labels[0].span) for each in found] == [
        (found[0].labels[1].span, found[0].labels[0].span),
        (found[0].labels[0].span, found[0].labels[1].span),
    ]
    assert found[0].help == (
        "put 3 core_barriers @all on every core: before %r0 (its seq=1); before %r1 (its seq=3); before %r2 "
        "(its seq=5); it orders 6 pairs",
    )
    for each in found:
        left = fixed(program(*source), each)
        assert len(left) == 1 and left[0].labels[0].span != each.labels[0].span
    assert len(findings(*unrolled(3, lines=False))) > 2


def test_more_edits_than_are_tried_together_are_not_called_verified() -> None:
    found = findings(*unrolled(24))
    assert len(found) == 2
    for each in found:
        assert each.advice is not None and not each.advice.verified
        assert "(not verified)" in each.help[0]
    assert found[0].subject is not None and found[0].subject.pairs == 48


def test_a_read_is_shown_rather_than_two_writes() -> None:
    cores = (
        """
        mloc %x dram.shared size=64 kind=inout
        %p = iota @act () -> (%x)
        """,
        """
        mloc %x dram.shared size=64 remote=[x,0]
        %q = memset @act () -> (%x) value=1
        %r = copy @act (%x) -> ()
        """,
    )
    (race,) = findings(*cores)
    assert "stands for 2 pairs" in told(race)
    assert race.subject is not None and race.subject.kind != "write after write"


def test_notes_do_not_refuse_a_fix() -> None:
    cores = (
        """
        mloc %x dram.shared size=64 kind=inout
        mloc %y dram.shared size=64 kind=inout
        %p = memset @act () -> (%x) value=1
        %w = memset @pool () -> (%y) value=2
        """,
        """
        mloc %x dram.shared size=64 remote=[x,0]
        mloc %y dram.shared size=64 remote=[y,0]
        %q = memset @act () -> (%x) value=1
        %r = copy @act (%x) -> ()
        %v = copy @vector (%y) -> ()
        """,
    )
    race, note = findings(*cores)
    assert (race.code, note.code) == ("cross-core-race", "benign-duplicate-write")
    assert race.help[0].endswith("it orders 2 pairs")
    assert (note.help, note.advice) == ((), None)
    assert [each.code for each in fixed(program(*cores), race)] == ["benign-duplicate-write"]


@pytest.mark.parametrize(
    ("left", "holds"),
    [
        ({}, True),
        ({sweep.RACE: [8]}, True),
        ({sweep.RACE: [9]}, False),
        ({sweep.DUPLICATE: [6], sweep.FETCHED: [8]}, True),
        ({sweep.DUPLICATE: [7]}, False),
        ({sweep.RACE: [6]}, False),
        ({sweep.UNFAITHFUL: [6]}, False),
        ({sweep.UNFAITHFUL: [8]}, False),
    ],
)
def test_what_a_fix_may_leave(left: dict[int, list[int]], holds: bool) -> None:
    """7 and 8 race, 6 is benign; the fix is for 7."""
    keys = {sweep.RACE: np.array([7, 8]), sweep.DUPLICATE: np.array([6])}
    made = Faults({kind: np.array(each) for kind, each in left.items()})
    adviser = Adviser(program("%n = nop @act () -> ()"), lambda _, work: made, Budget())
    adviser.know(Faults(keys), lambda keys: keys < 9)
    fix = Fix((AddDependence(0, 0),))
    assert adviser.choose(sweep.RACE, 7, [fix]) == ((fix, True) if holds else (None, False))


# -- the budget ------------------------------------------------------------------------------------------------------


def test_beyond_the_budget_advice_says_that_it_is_not_verified(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checker, "Budget", lambda: Budget(0))
    (race,) = findings(*all_reduce(4))
    assert race.advice is not None and not race.advice.verified
    assert race.help == (
        "put a core_barrier @all on every core: before %put1 (not verified: the program is too large to check the "
        "fix)",
    )
    assert "stands for 16 pairs of accesses" in told(race)


def test_the_budget_is_counted_in_work(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Budget] = []

    def budget() -> Budget:
        made.append(Budget())
        return made[-1]

    monkeypatch.setattr(checker, "Budget", budget)
    for _ in range(2):
        findings(*all_reduce(3))
    assert made[0].spent == made[1].spent > 0


# -- fixes as data ---------------------------------------------------------------------------------------------------


def test_edits_and_their_words() -> None:
    core = """
    mloc %a dram.local size=8 kind=inout
    mloc %c dram.local size=1 kind=input
    block ^e:
      %w = iota @pool () -> (%a)
      %n = nop @act () -> ()
      %r = copy @vector (%a) -> ()
    """
    source = program(core.replace("mloc %c dram.local size=1 kind=input\n", ""), core)
    names = np.where(source.instructions.name == source.strings.find("n"), NONE, source.instructions.name)
    source = source.replace(instructions=source.instructions.replace(name=names))
    start = source.starts("instructions", "blocks")
    both = Fix((AddBarrier((Place(0, int(start[0]) + 2), Place(1, int(start[2])))), AddDependence(2, 1)))
    assert both.text(source) == (
        "put a core_barrier @all on every core: before %r on core 0, after %r on core 1, and add deps=[_1] to %r on "
        "core 0"
    )
    made = both.apply(source)
    assert [str(each) for each in verify(made)] == []
    assert [made.instruction_name(row) for row in range(4)] == ["w", "_1", "fix", "r"]
    assert made.barriers.instruction.tolist() == [2, 7]
    assert (made.dependences.instruction.tolist(), made.dependences.producer.tolist()) == ([3], [1])
    assert np.array_equal(source.accesses.location, made.accesses.location)
    assert (source.instructions.name == NONE).sum() == 2
    meet = Fix((AddExchange(0, 5, Place(0, 1), Place(1, 5)),))
    assert meet.text(source) == (
        "put a sendrecv @sync from core 0 to core 1: with deps=[w] before %_1 on core 0, before %r on core 1, and "
        "its name there into the deps of %r"
    )
    made = meet.apply(source)
    assert [str(each) for each in verify(made)] == []
    assert (made.meetings.to.tolist(), made.meetings.source.tolist()) == ([1, NONE], [NONE, 0])
    relay = Fix((AddRelay(0, 2, (Place(0, 1),), True),))
    assert relay.text(source).startswith("put a nop @sync with carried=[w] at the start of ^e")
    assert relay.apply(source).dependences.carried.tolist() == [True, False]


# -- random programs -------------------------------------------------------------------------------------------------


def straight(rng: Random) -> Program:
    compiled = haulout.compile(random_program(rng, steps=rng.randint(3, 8), fences=0.1)).program
    return next(damaged(compiled, rng))


def bare(rng: Random) -> Program:
    return random_program(rng, cores=2, steps=rng.randint(2, 5), fences=0.3)


def nested(rng: Random) -> Program:
    return random_judged_loops(rng, depth=1, order=0.85, branches=rng.choice((0.0, 0.7)))


@pytest.mark.thin(3, "13 s")
@pytest.mark.parametrize("make", [straight, bare, nested])
def test_fixes_that_are_shown_hold(make: Callable[[Random], Program]) -> None:
    verified = 0
    for seed in range(12):
        source = parse_bir(print_bir(make(Random(f"advice {seed}"))), "random.bir")
        for finding in check_program(source):
            if finding.code in ORDER and finding.advice is not None and finding.advice.verified:
                verified += 1
                assert contradiction(source, finding) == "", (seed, str(finding), finding.help)
    assert verified > 5


def test_the_judge_of_advice_can_say_no() -> None:
    """A fix that does nothing, one that hangs, one that is not sound."""
    text = bir(*all_reduce(2))
    source = parse_bir(text, "case.bir")
    (race,) = check_program(source)
    start = source.starts("instructions", "blocks").tolist()
    useless = AddBarrier(tuple(Place(core, start[core]) for core in range(2)))
    alone = AddBarrier((Place(0, start[0]), Place(1, start[2])))
    itself = AddDependence(0, 5)
    for edit, why in ((useless, "still there"), (alone, "barrier-mismatch"), (itself, "not sound")):
        advice = Advice(Fix((edit,)), True)
        assert why in contradiction(source, replace(race, advice=advice))


def test_advice_for_a_function_beside_one_that_is_not_understood() -> None:
    text = bir(*all_reduce(2))
    refused = "func @other {\nblock ^e -> ^l:\nblock ^l -> ^b, ^z trip=3:\nblock ^b -> ^l:\nblock ^z:\n}\n"
    text = text.replace("func @main", refused + "func @main")
    found = {each.code: each for each in check_program(parse_bir(text, "case.bir"))}
    assert set(found) == {"bad-input", "cross-core-race"}
    advice = found["cross-core-race"].advice
    assert advice is not None and advice.verified
