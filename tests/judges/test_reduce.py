"""Reduction: what remains still shows the finding, is sound, small, and the same on every run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from tests.checker.generate import random_program
from tests.checker.snippets import program as snippet
from tests.cli.command import FIXED, RACE, haulout

from haulout.checker import check_program
from haulout.ir.program import Program
from haulout.ir.text import parse_bir, print_bir
from haulout.ir.verify import verify
from haulout.testing.reduce import keep, reduce_program, reduce_until, without_core
from haulout_generators.loop_programs import random_judged_loops


def shows(code: str) -> Callable[[Program], bool]:
    return lambda program: any(finding.code == code for finding in check_program(program, advise=False))


def first_code(program: Program) -> str | None:
    return next((finding.code for finding in check_program(program, advise=False)), None)


@pytest.mark.thin(4, "20 s")
@pytest.mark.parametrize("seed", range(12))
def test_small_sound_and_the_same_again(seed: int) -> None:
    rng = Random(seed)
    program = random_judged_loops(rng, cores=(2, 4), order=0.7) if seed % 2 else random_program(rng)
    code = first_code(program)
    if code is None or verify(program):
        pytest.skip("nothing to reduce")
    smallest = reduce_program(program, shows(code))
    assert shows(code)(smallest)
    assert verify(smallest) == []
    assert len(smallest.instructions) <= len(program.instructions)
    assert len(smallest.instructions) <= 8
    assert print_bir(parse_bir(print_bir(smallest))) == print_bir(smallest)
    assert print_bir(reduce_program(program, shows(code))) == print_bir(smallest)


def test_nothing_more_can_be_left_out() -> None:
    program = parse_bir(RACE.read_text(), RACE.name)
    smallest = reduce_program(program, shows("cross-core-race"))
    assert len(smallest.instructions) == 2
    assert smallest.lnc == 2
    for row in range(2):
        fewer = keep(smallest, instructions=[each != row for each in range(2)])  # type: ignore[arg-type]
        assert not shows("cross-core-race")(fewer)


def test_what_is_needed_stays() -> None:
    """A race that a loop's back edge makes: barrier, loop and both accesses are needed."""
    loop = """
        block ^entry -> ^head:
        block ^head -> ^body, ^behind cond=c:
        %d = iota @pool () -> (%c)
        block ^body -> ^head:
        {}
        block ^behind:
        %x = iota @pool () -> ()
    """
    meet = '%m = core_barrier @all () -> () name="m"'
    program = snippet(
        "mloc %c dram.local size=4\nmloc %t dram.shared size=64 kind=inout\n"
        + loop.format("%w = iota @act () -> (%t)\n" + meet),
        "mloc %c dram.local size=4\nmloc %t dram.shared size=64 remote=[t,0]\n"
        + loop.format(meet + "\n%r = copy @act (%t) -> ()"),
    )

    def wanted(candidate: Program) -> bool:
        findings = check_program(candidate, advise=False)
        return any("next iteration" in str(finding) for finding in findings) and len(candidate.barriers) > 0

    assert wanted(program)
    smallest = reduce_program(program, wanted)
    names = {smallest.instruction_name(row) for row in range(len(smallest.instructions))}
    assert names == {"w", "m", "r"} | ({"d"} & names)
    assert len(smallest.edges) == len(program.edges)


def test_a_program_that_does_not_show_it_is_left_alone() -> None:
    program = parse_bir(FIXED.read_text(), FIXED.name)
    assert reduce_program(program, shows("deadlock")) is program


def test_no_time_means_no_change_but_still_the_finding() -> None:
    program = parse_bir(RACE.read_text(), RACE.name)
    assert shows("cross-core-race")(reduce_program(program, shows("cross-core-race"), time_limit=0.0))


@pytest.mark.parametrize("calls", [2, 5, 12])
def test_interrupt_keeps_the_smallest_so_far(calls: int) -> None:
    program = parse_bir(RACE.read_text(), RACE.name)
    accepted: list[Program] = []
    left = calls

    def wanted(candidate: Program) -> bool:
        nonlocal left
        left -= 1
        if left < 0:
            raise KeyboardInterrupt
        if shows("cross-core-race")(candidate):
            accepted.append(candidate)
            return True
        return False

    reduced = reduce_until(program, wanted)
    assert reduced.interrupted
    assert print_bir(reduced.program) == print_bir(accepted[-1])
    assert shows("cross-core-race")(reduced.program)


def test_interrupt_before_there_is_a_result() -> None:
    def interrupt(_: Program) -> bool:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        reduce_until(parse_bir(RACE.read_text(), RACE.name), interrupt)


def test_a_core_less() -> None:
    meet = '%m = core_barrier @pool () -> () name="m" cores=[0,2]'
    program = snippet(
        "mloc %t dram.shared size=64 kind=inout\n" + meet,
        "mloc %v dram.shared size=64 remote=[t,0]\n%r = copy @act (%v) -> ()",
        "mloc %v dram.shared size=64 remote=[t,0]\n" + meet + "\n%s = sendrecv @act () -> () to=0 from=1",
    )
    fewer = without_core(program, 1)
    assert verify(fewer) == []
    assert fewer.lnc == 2
    assert [fewer.strings[each] for each in fewer.barriers.cores.tolist()] == ["[0,1]", "[0,1]"]
    assert (fewer.meetings.to.tolist(), fewer.meetings.source.tolist()) == ([0], [-1])
    without_owner = without_core(program, 0)
    assert verify(without_owner) == []
    assert len(without_owner.locations) == 0


# -- the command -----------------------------------------------------------------------------------------------------


def test_the_command_prints_the_smallest_program() -> None:
    said = haulout("reduce", RACE, "--code", "cross-core-race")
    assert said.status == 0
    assert len(parse_bir(said.stdout).instructions) == 2
    assert "2 cores, 4 instructions, 8 locations -> 2 cores, 2 instructions, 2 locations" in said.stderr
    assert haulout("reduce", RACE, "--code", "cross-core-race").stdout == said.stdout


def test_the_command_writes_a_file(tmp_path: Path) -> None:
    said = haulout("reduce", RACE, "--code", "cross-core-race", "-o", tmp_path / "small.bir")
    assert (said.status, said.stdout) == (0, "")
    checked = haulout("check", tmp_path / "small.bir")
    assert checked.status == 1
    assert "error[cross-core-race]" in checked.stdout


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("deadlock", "the checker does not report deadlock"),
        ("cross-core-rase", "'cross-core-rase'"),
    ],
)
def test_a_finding_that_is_not_there(code: str, says: str) -> None:
    said = haulout("reduce", RACE, "--code", code)
    assert said.status == 2
    assert says in said.stderr
    assert "cross-core-race" in said.stderr  # what it reports, what was meant


# -- branches and semaphores -----------------------------------------------------------------------------------------

BRANCH = """
    mloc %c dram.local size=4 kind=input
    {}
    block ^entry -> ^fork:
    block ^fork -> ^then, ^else cond=c divergent=true:
    %f = iota @pool () -> ()
    block ^then -> ^join:
    {}
    block ^else -> ^inner:
    {}
    block ^inner -> ^more, ^end cond=c:
    block ^more -> ^end:
    %o = iota @pool () -> ()
    block ^end -> ^join:
    block ^join:
    {}
"""
OWN = "mloc %t dram.shared size=64 kind=inout"
VIEW = "mloc %t dram.shared size=64 remote=[t,0]"
WRITE, READ = "%w = iota @act () -> (%t)", "%r = copy @act (%t) -> ()"


@pytest.mark.parametrize("where", [0, 1, 2])
def test_a_race_leaves_no_branch(where: int) -> None:
    """Behind the branch, and in either arm."""
    signals = "%s = nop @pe () -> () signal=[[s,1]] remote_signal=[[{},u,1]]"
    noise = signals + "\n%q = nop @act () -> () wait=[[s,1]] wait_back=[[u,0]]"
    bodies = [["", "", ""], ["", "", ""]]
    for core, access in enumerate((WRITE, READ)):
        bodies[core][where] = access
        bodies[core][where - 1] = noise.format(1 - core)
    program = snippet(BRANCH.format(OWN, *bodies[0]), BRANCH.format(VIEW, *bodies[1]))
    assert verify(program) == [] and shows("cross-core-race")(program)
    smallest = reduce_program(program, shows("cross-core-race"))
    names = [smallest.instruction_name(row) for row in range(len(smallest.instructions))]
    assert names == ["w", "r"]
    assert len(smallest.edges) == 0
    assert len(smallest.semaphores) == 0


def test_a_mismatch_keeps_the_divergent_branch_alone() -> None:
    meet = '%m = core_barrier @all () -> () name="m"'
    text = BRANCH.format("", meet, "%a = iota @act () -> ()", "%b = iota @act () -> ()")
    program = snippet(text, text)
    smallest = reduce_program(program, shows("barrier-mismatch"))
    assert len(smallest.instructions) <= 2
    assert len(smallest.blocks) <= 2 * 3


def test_a_hang_of_semaphores_keeps_what_waits() -> None:
    wait = "%w = nop @act () -> () wait=[[s,1]] remote_signal=[[{},s,1]]\n%n = nop @pool () -> () signal=[[u,1]]"
    program = snippet(*(BRANCH.format("", "", "", wait.format(1 - core)) for core in range(2)))
    smallest = reduce_program(program, shows("deadlock"))
    assert len(smallest.instructions) == 1
    assert len(smallest.edges) == 0


def test_a_core_less_where_cores_signal_each_other() -> None:
    tell = "%t = nop @act () -> () remote_signal=[[{},s,1],[{},u,2]]"
    program = snippet(*(tell.format(*(each for each in range(3) if each != core)) for core in range(3)))
    fewer = without_core(program, 1)
    assert verify(fewer) == []
    told = print_bir(fewer).splitlines()
    assert [line.split(" ")[-1] for line in told if "%t" in line] == [
        "remote_signal=[[1,u,2]]",
        "remote_signal=[[0,s,1]]",
    ]
