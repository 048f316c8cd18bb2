"""lower_barriers' contract: what it writes, what it keeps, what it refuses, and how much it may use."""

from __future__ import annotations

import numpy as np
import pytest

from haulout import HauloutError, Program
from haulout.ir.edit import compact
from haulout.ir.semaphores import semaphore_use
from haulout.ir.text import parse_bir, print_bir
from haulout.ir.verify import verify
from haulout.passes.base import PassContext
from haulout.passes.lower_barriers import LowerBarriers
from haulout.passes.lower_sync import LowerSync
from haulout.passes.pipeline import parse_pipeline, standard_pipeline


def program(*blocks: str, lnc: int = 2, cores: range | None = None) -> Program:
    """The same blocks on every core of `cores`; `CORE` and `OTHER` stand for its number and that of another one."""
    text = f'bir 1\nprogram "meets" lnc={lnc}\n'
    for core in range(lnc):
        body = "\n".join(blocks) if cores is None or core in cores else "block ^entry:"
        body = body.replace("CORE", str(core)).replace("OTHER", str((core + 1) % lnc))
        text += f"module @nc{core} core={core} {{\nfunc @main {{\nmloc %x dram.local size=64 kind=input\n"
        text += f"mloc %p dram.local size=1 kind=input\nmloc %out dram.local size=64 kind=output\n{body}\n}}\n}}\n"
    return parse_bir(text)


def lowered(source: Program, **options: int) -> Program:
    result = LowerBarriers(**options).run(source, PassContext())
    assert verify(result) == []
    assert print_bir(parse_bir(print_bir(result))) == print_bir(result)
    return result


def lines(source: Program, core: int = 0) -> list[str]:
    """The instructions of one core as text, locations left out."""
    text = print_bir(source).split("module @")[core + 1]
    return [line.strip().replace(" () -> ()", "") for line in text.splitlines() if " = " in line]


def refusal(source: Program, **options: int) -> str:
    with pytest.raises(HauloutError) as caught:
        lowered(source, **options)
    return str(caught.value.diagnostics[0])


def names(source: Program, core: int = 0) -> set[str]:
    """Semaphores of one core."""
    use = semaphore_use(source)
    own = source.instruction_core[use.waits.instruction]
    pairs = [*zip(use.signals.core, use.signals.name, strict=True), *zip(own, use.waits.name, strict=True)]
    return {use.names[name] for each, name in pairs if each == core}


WORK = "copy @pe (%x) -> (%out)"
MEET = '%m = core_barrier @all () -> () name="met here"'
ONE = f"block ^entry:\n%w = {WORK}\n{MEET}\n%z = {WORK}"


def test_nothing_to_do_changes_nothing() -> None:
    source = program("block ^entry:\n%w = copy @pe (%x) -> (%out)")
    assert LowerBarriers().run(source, PassContext()) is source


def test_one_barrier_of_all_engines() -> None:
    assert lines(lowered(program(ONE)))[1:-1] == [
        '%m.here.pe = nop @pe signal=[[barrier.here,1]] barrier="met here"',
        '%m.tell = nop @sync wait=[[barrier.here,1]] barrier="met here" remote_signal=[[1,barrier.met,1]]',
        '%m = nop @sync signal=[[barrier.go,1]] wait=[[barrier.met,1]] barrier="met here"',
        '%m.go.pe = nop @pe wait=[[barrier.go,1]] barrier="met here"',
    ]


def test_the_next_one_counts_on() -> None:
    source = program(ONE + f'\n%n = core_barrier @all () -> () name="again"\n%y = {WORK}', lnc=3)
    again = [line for line in lines(lowered(source)) if "again" in line]
    assert "wait=[[barrier.here,2]]" in again[1]
    assert "remote_signal=[[1,barrier.met,1],[2,barrier.met,1]]" in again[1]
    assert "wait=[[barrier.met,4]]" in again[2]
    assert "wait=[[barrier.go,2]]" in again[3]


def test_an_engine_that_does_nothing_between_two_barriers_passes_the_first_unseen() -> None:
    source = program(
        "block ^entry:\n"
        + "\n".join(
            f'%{name} = copy @{engine} (%x) -> (%out)\n%m{name} = core_barrier @all () -> () name="m{name}"'
            for name, engine in (("a", "pe"), ("b", "act"), ("c", "pe"))
        )
    )
    text = [line.split(" barrier=")[0] for line in lines(lowered(source)) if "@sync" not in line and "nop" in line]
    assert text == [
        "%ma.here.pe = nop @pe signal=[[barrier.here,1]]",
        "%ma.go.act = nop @act wait=[[barrier.go,1]]",
        "%mb.here.act = nop @act signal=[[barrier.here,1]]",
        "%mb.go.pe = nop @pe wait=[[barrier.go,2]]",
        "%mc.here.pe = nop @pe signal=[[barrier.here,1]]",
    ]


def test_engines_that_never_run_and_the_keepers_line_need_nothing() -> None:
    source = program('block ^entry:\n%w = copy @sync (%x) -> (%out)\n%m = core_barrier @all () -> () name="m"')
    assert lines(lowered(source))[1:] == [
        "%m.tell = nop @sync barrier=m remote_signal=[[1,barrier.met,1]]",
        "%m = nop @sync wait=[[barrier.met,1]] barrier=m",
    ]


def test_an_engine_that_runs_only_behind_the_barrier_is_held() -> None:
    source = program(
        'block ^entry -> ^later:\n%m = core_barrier @all () -> () name="m"\n'
        "block ^later:\n%w = copy @dma3 (%x) -> (%out)"
    )
    text = lines(lowered(source))
    assert text.index("%m.go.dma3 = nop @dma3 wait=[[barrier.go,1]] barrier=m") < len(text) - 1


def test_a_barrier_of_one_engine_holds_that_engine_alone() -> None:
    source = program('block ^entry:\n%w = copy @pe (%x) -> (%out)\n%m = core_barrier @act () -> () name="m" deps=[w]')
    assert lines(lowered(source))[1:] == [
        "%m.tell = nop @act deps=[w] barrier=m remote_signal=[[1,barrier.met.act,1]]",
        "%m = nop @act wait=[[barrier.met.act,1]] barrier=m",
    ]


def test_other_participants_have_another_count() -> None:
    text = ONE + "".join(
        f'\n%s{number} = core_barrier @all () -> () name="s{number}" cores=[0,1]' for number in range(2)
    )
    source = program(text, lnc=3)
    # core 2 takes no part in those
    keep = [not (source.instruction_core[row] == 2 and source.instruction_name(row)[0] == "s") for row in range(15)]
    result = lowered(compact(source, np.array(keep))[0])
    assert names(result, 0) == {"barrier.here", "barrier.go", "barrier.met", "barrier.met.0.1"}
    assert names(result, 2) == {"barrier.here", "barrier.go", "barrier.met"}
    assert any("wait=[[barrier.met.0.1,2]]" in line for line in lines(result))


def test_a_core_alone_needs_no_other() -> None:
    source = program(ONE.replace(MEET, MEET + " cores=[CORE]"))
    assert lines(lowered(source))[1:-1] == [
        '%m.here.pe = nop @pe signal=[[barrier.here,1]] barrier="met here"',
        '%m = nop @sync signal=[[barrier.go,1]] wait=[[barrier.here,1]] barrier="met here"',
        '%m.go.pe = nop @pe wait=[[barrier.go,1]] barrier="met here"',
    ]


def test_what_stands_on_a_barrier_stays() -> None:
    """deps on it name what is complete when it is; its own go to what starts first; operands were handles."""
    source = program(
        "block ^entry:\n%w = copy @pe (%x) -> (%out) seq=3\n"
        '%m = core_barrier @act (%x) -> (%out) seq=4 name="m" deps=[w] loc="kernel.py:7" kept=1\n'
        "%u = copy @pool (%x) -> (%out) seq=5 deps=[m]"
    )
    assert lines(lowered(source))[1:] == [
        '%m.tell = nop @act seq=4 deps=[w] loc="kernel.py:7" barrier=m remote_signal=[[1,barrier.met.act,1]]',
        '%m = nop @act seq=4 wait=[[barrier.met.act,1]] loc="kernel.py:7" barrier=m kept=1',
        "%u = copy @pool (%x) -> (%out) seq=5 deps=[m]",
    ]


def test_behind_lower_sync_the_waits_of_a_barrier_come_first_and_its_signals_last() -> None:
    source = program(
        "block ^entry -> ^head:\nblock ^head -> ^body, ^end cond=p:\nblock ^body -> ^head:\n"
        '%w = copy @pe (%x) -> (%out)\n%m = core_barrier @act () -> () name="m" deps=[w]\n'
        "%u = copy @pool (%x) -> (%out) deps=[m]\nblock ^end:"
    )
    result = lowered(LowerSync().run(source, PassContext()))
    assert lines(result) == [
        "%w = copy @pe (%x) -> (%out) signal=[[done.pe,1]]",
        "%m.tell = nop @act barrier=m remote_signal=[[1,barrier.met.act,1]] wait_back=[[done.pe,0]]",
        "%m = nop @act signal=[[done.act,1]] barrier=m wait_back=[[barrier.met.act,0]]",
        "%u = copy @pool (%x) -> (%out) wait_back=[[done.act,0]]",
    ]


REGIONS = {
    "loop": "block ^entry -> ^head:\n%b = BARRIER\nblock ^head -> ^body, ^end trip=3 cond=p:\n"
    "block ^body -> ^head:\n%m = BARRIER\nblock ^end:",
    "arms": "block ^fork -> ^then, ^else cond=p:\n%b = BARRIER\nblock ^then -> ^join:\n%m = BARRIER\n"
    "block ^else -> ^join:\nblock ^join:",
}


@pytest.mark.parametrize("kind", REGIONS)
def test_counts_of_loops_and_arms_are_no_constants(kind: str) -> None:
    """Nor are those before them: then every wait of a counter is of one form."""
    text = REGIONS[kind].replace("BARRIER", 'core_barrier @all () -> () name="m"')
    context = PassContext()
    LowerBarriers().run(program(text), context)
    assert context.counters["lower_barriers"]["relative"] == context.counters["lower_barriers"]["waits"] == 4
    other = text.replace("%m = core_barrier @all", "%m = core_barrier @act")
    context = PassContext()
    LowerBarriers().run(program(other), context)
    # act idles before the first barrier, and waits for its `go`: constants
    assert context.counters["lower_barriers"] | {"instructions": 0} == {
        "barriers": 4,
        "instructions": 0,
        "waits": 6,
        "relative": 2,
        "semaphores": 3,
    }


def test_names_that_are_taken_are_not_used_again() -> None:
    source = program(
        ONE.replace("%w", "%m.here.pe") + "\n%u = copy @pe (%x) -> (%out) signal=[[barrier.go,1]] deps=[m]"
    )
    text = lines(lowered(source))
    assert text[1].startswith("%m.here.pe.2 = nop @pe signal=[[barrier2.here,1]]")


def test_a_second_run_has_nothing_to_do() -> None:
    result = lowered(program(ONE))
    assert LowerBarriers().run(result, PassContext()) is result


def test_counters() -> None:
    context = PassContext()
    LowerBarriers().run(program(ONE), context)
    assert context.counters["lower_barriers"] == {
        "barriers": 2,
        "instructions": 6,
        "waits": 6,
        "relative": 0,
        "semaphores": 3,
    }


def test_options_in_the_pipeline_text() -> None:
    assert parse_pipeline("lower_sync,lower_barriers{semaphores=5}") == [LowerSync(), LowerBarriers(5)]
    assert "lower_barriers" not in [each.name for each in standard_pipeline()]


# -- what is refused -------------------------------------------------------------------------------------------------


def test_too_few_semaphores() -> None:
    message = refusal(program(ONE), semaphores=2)
    assert "too-few-semaphores" in message
    assert "core 0 uses 3 semaphores and has 2: barrier.here, barrier.go, barrier.met" in message
    lowered(program(ONE), semaphores=3)


def test_semaphores_that_were_there_count() -> None:
    source = program(ONE.replace("(%out)", "(%out) signal=[[mine,1]]", 1))
    assert "core 0 uses 4 semaphores" in refusal(source, semaphores=3)


def test_a_barrier_on_a_core_that_is_no_participant() -> None:
    message = refusal(program(ONE.replace(MEET, MEET + " cores=[OTHER]")))
    assert "barrier-mismatch" in message
    assert "core 0" in message


ARMS = (
    "block ^fork -> ^then, ^else cond=p divergent=true:\n"
    "block ^then -> ^join:\nTHEN\nblock ^else -> ^join:\nELSE\nblock ^join:"
)


@pytest.mark.parametrize(
    "then, other, accepted",
    [
        ("all", "all", True),
        ("all", "", False),
        ("act,all", "all,act", True),  # the order between engines does not matter
        ("act", "all", False),
        ("act", "act,act", False),
    ],
)
def test_divergent_arms_must_meet_equally_often(then: str, other: str, accepted: bool) -> None:
    def barriers(arm: str, engines: str) -> str:
        wanted = [engine for engine in engines.split(",") if engine]
        return "\n".join(
            f'%{arm}{at} = core_barrier @{engine} () -> () name="{arm}{at}"' for at, engine in enumerate(wanted)
        )

    text = ARMS.replace("THEN", barriers("t", then)).replace("ELSE", barriers("e", other))
    if accepted:
        assert len(lowered(program(text)).barriers) == 0
        return
    assert "block ^fork" in refusal(program(text))
    uniform = text.replace(" divergent=true", "")
    assert len(lowered(program(uniform)).barriers) == 0


@pytest.mark.parametrize("trip, accepted", [("", False), (" trip=2", True)])
def test_a_loop_in_a_divergent_arm_must_be_known(trip: str, accepted: bool) -> None:
    arm = (
        "block ^{0} -> ^{0}.head:\nblock ^{0}.head -> ^{0}.body, ^{0}.end{1} cond=p:\n"
        'block ^{0}.body -> ^{0}.head:\n%{0} = core_barrier @all () -> () name="m"\nblock ^{0}.end -> ^join:\n'
    )
    text = (
        "block ^fork -> ^then, ^else cond=p divergent=true:\n"
        + arm.format("then", trip)
        + arm.format("else", trip)
        + "block ^join:"
    )
    if accepted:
        assert len(lowered(program(text)).barriers) == 0
    else:
        assert "^then.head" in refusal(program(text))


def test_a_branch_in_a_divergent_arm_must_agree_with_itself() -> None:
    inner = (
        'block ^then -> ^a, ^b cond=p:\nblock ^a -> ^b:\n%m = core_barrier @all () -> () name="m"\n'
        "block ^b -> ^join:\n"
    )
    text = "block ^fork -> ^then, ^join cond=p divergent=true:\n" + inner + "block ^join:"
    assert "block ^then" in refusal(program(text))
