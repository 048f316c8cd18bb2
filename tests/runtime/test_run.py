"""Compiled programs, executed: the bits of the simulator, however they wait for each other."""

from __future__ import annotations

import json
import threading
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.runtime.programs import place, placed
from tests.sim.sim_programs import NESTED, count, counting, vector
from tests.sim.test_sim_atomics import ADD, FETCH, cores, inputs

import haulout
from haulout.ir.program import Program
from haulout.ir.text import parse_bir, print_bir
from haulout.ir.values import load_values
from haulout.report.timeline import run_trace
from haulout.support.diagnostics import Diagnostic, HauloutError

ROOT = Path(__file__).parents[2]
SOURCES = {
    path.stem: path for folder in ("examples/jax", "tests/end_to_end/data") for path in (ROOT / folder).glob("*.hlo")
}
WAYS = [(fences, sync) for fences in ("minimal", "bracket") for sync in ("edges", "semaphores", "all")]


def values_of(source: Path) -> dict[str, np.ndarray[Any, Any]]:
    values = load_values(source.with_suffix(".npz"))
    return {name.removeprefix("in/"): value for name, value in values.items() if name.startswith("in/")}


def expect_same(program: Program, given: Any = None, repeat: int = 1) -> None:
    wanted = haulout.simulate(program, given).outputs
    found = haulout.run(program, given, repeat=repeat).outputs
    assert list(found) == list(wanted)
    for name, value in wanted.items():
        assert (found[name].dtype, found[name].shape) == (value.dtype, value.shape)
        assert found[name].tobytes() == value.tobytes(), name


def refusal(program: Program, code: str, given: Any = None, **options: Any) -> Diagnostic:
    with pytest.raises(HauloutError) as caught:
        haulout.run(program, given, **options)
    assert caught.value.diagnostics[0].code == code
    assert threading.active_count() == 1
    return caught.value.diagnostics[0]


@pytest.mark.thin(40, "1 s each")
@pytest.mark.parametrize("name", sorted(SOURCES))
def test_the_bits_are_those_of_the_simulator(name: str) -> None:
    source = SOURCES[name]
    fences, sync = WAYS[sorted(SOURCES).index(name) % len(WAYS)]
    expect_same(haulout.compile(source, fences=fences, sync=sync).program, values_of(source), repeat=2)


@pytest.mark.thin(6, "1 s each")
@pytest.mark.parametrize(("fences", "sync"), WAYS)
@pytest.mark.parametrize("name", ["mlp_tp.n4", "clipped_steps.n4", "cond_by_core.n4", "sorting.n2"])
def test_the_same_with_every_kind_of_synchronisation(name: str, fences: Any, sync: Any) -> None:
    source = SOURCES[name]
    expect_same(haulout.compile(source, fences=fences, sync=sync).program, values_of(source))


def test_every_run_begins_with_the_same_inputs() -> None:
    """An inout location is overwritten; the next run starts from what was given."""
    program = placed(f"{vector('x', attrs='kind=inout')}\n%a = add @vector (%x, %x) -> (%x)")
    result = haulout.run(program, {"x": np.ones(4, np.float32)}, repeat=5)
    assert result.outputs["nc0/x"].tolist() == [2] * 4
    assert len(result.seconds) == len(result.cpu_seconds) == 5
    assert min(result.seconds) > 0


@pytest.mark.parametrize(
    ("text", "given"),
    [(counting(), count(5)), (NESTED, {"n": np.int32(3), "m": np.int32(4), "s": np.int32(0)})],
)
def test_conditions_are_read_from_the_arena(text: str, given: Any) -> None:
    expect_same(placed(text), given)


def test_operands_that_move_with_the_iterations() -> None:
    text = counting(
        locations="mloc %y dram.local size=32 kind=output dtype=s32 shape=[8]",
        body="%put = copy @vector (%i) -> (%y[0:4]) shapes=[[],[]] step=[[1,loop,4,0]]",
    )
    expect_same(placed(text), count(8))


# -- what threads wait for -------------------------------------------------------------------------------------------


def compiled(sync: Any = "edges") -> Program:
    return haulout.compile(SOURCES["mlp_tp.n2"], sync=sync).program


def test_without_a_barrier_of_one_core_all_threads_end() -> None:
    lines = print_bir(compiled()).splitlines(keepends=True)
    last = max(at for at, line in enumerate(lines) if "core_barrier" in line)
    broken = parse_bir("".join(lines[:last] + lines[last + 1 :]))
    found = refusal(broken, "deadlock")
    assert "core 0 waits for barrier" in found.message
    assert "core 1 is at its end" in found.message


def test_barriers_of_different_names_are_a_mismatch() -> None:
    made = placed('%m = core_barrier @all () -> () name="a"', '%m = core_barrier @all () -> () name="b"')
    found = refusal(made, "barrier-mismatch")
    assert "'a' on core 0, 'b' on core 1" in found.message


def test_a_core_that_is_not_in_its_barrier_is_a_mismatch() -> None:
    refusal(placed("%m = core_barrier @all () -> () name=m cores=[1]", ""), "barrier-mismatch")


def test_signals_that_are_missing_are_a_deadlock_of_both_cores() -> None:
    wait = "%w = nop @pool () -> () wait=[[s,1]]"
    made = placed(
        f"{wait}\n%t = nop @pool () -> () remote_signal=[[1,s,1]]",
        f"{wait}\n%t = nop @pool () -> () remote_signal=[[0,s,1]]",
    )
    found = refusal(made, "deadlock")
    assert [label.message for label in found.labels] == ["core 0 waits here", "core 1 waits here"]
    assert "semaphore s of core 1 to be at least 1" in found.message


@pytest.mark.parametrize("wait", ["wait=[[s,3]]", "wait_back=[[s,0]]", "wait_back=[[t,0]]"])
def test_a_wait_counts_signals_of_both_cores(wait: str) -> None:
    text = "\n".join([vector("x", attrs="kind=input"), vector("y", attrs="kind=output")])
    expect_same(
        placed(
            f"{text}\n%a = nop @pool () -> () signal=[[s,1]]\n%b = copy @pool (%x) -> (%y) {wait}",
            f"{text}\n%a = copy @pool (%x) -> (%y) remote_signal=[[0,s,2]]",
        )
    )


def test_exchanges_send_what_stood_there_when_both_arrive() -> None:
    text = "\n".join([vector("x", attrs="kind=inout"), vector("y", attrs="kind=output")])
    expect_same(
        placed(
            f"{text}\n%e = sendrecv @dma0 (%x) -> (%x) to=1 from=1 tag=t\n%c = copy @act (%x) -> (%y) deps=[e]",
            f"{text}\n%d = add @act (%x, %x) -> (%x)\n%e = sendrecv @dma0 (%x) -> (%x) to=0 from=0 tag=t deps=[d]\n"
            "%c = copy @act (%x) -> (%y) deps=[e]",
        )
    )


def test_an_exchange_without_partner_is_a_deadlock() -> None:
    text = vector("x", attrs="kind=inout")
    found = refusal(placed(f"{text}\n%e = sendrecv @dma0 () -> (%x) from=1 tag=t", text), "deadlock")
    assert "core 0 waits for core 1 to send" in found.message


def test_an_error_of_one_thread_ends_the_others() -> None:
    """Core 0 leaves its loop too early, core 1 waits for it."""
    loop = counting(trip="trip=7", behind='%m = core_barrier @all () -> () name="m"')
    found = refusal(placed(loop, loop), "bad-input", {"nc0/n": np.int32(3), "nc1/n": np.int32(7)})
    assert "leaves the loop after 3" in found.message
    assert found.labels


def test_a_defect_in_one_thread_ends_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    meet = '%m = core_barrier @all () -> () name="m"'
    both = placed(meet, f"%a = nop @pool () -> () signal=[[s,1]]\n{meet}")

    def broken(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("haulout.runtime.prepare._Binder._signal", lambda *_: broken)
    with pytest.raises(ZeroDivisionError):
        haulout.run(both)
    assert threading.active_count() == 1


def test_loops_that_do_not_end_are_ended() -> None:
    found = refusal(placed(counting()), "bad-input", count(10**6), max_instructions=1000)
    assert "do not end" in found.message


@pytest.mark.parametrize("line", [ADD, FETCH])
def test_atomic_accesses_lose_no_update(line: str) -> None:
    many = "\n".join(line.replace("%a =", f"%a{k} =").replace("%f =", f"%f{k} =") for k in range(200))
    made = place(cores(many, many, many))
    result = haulout.run(made, inputs(3), repeat=3)
    assert result.outputs["nc0/t"].tolist() == [200 * 1110 + k for k in range(4)]


# -- what cannot be executed -----------------------------------------------------------------------------------------


def test_a_program_without_addresses_is_refused() -> None:
    found = refusal(haulout.load(SOURCES["mlp_tp.n2"]), "bad-input")
    assert "only a compiled program" in found.message


def test_a_location_that_is_not_in_dram_is_refused() -> None:
    found = refusal(placed("mloc %s sbuf size=16 dtype=f32 shape=[4]"), "bad-input")
    assert "it is in sbuf" in found.message


def test_inputs_are_checked_before_the_run() -> None:
    found = refusal(compiled(), "bad-input", {})
    assert "missing input" in found.message


def test_more_memory_than_there_is_is_refused() -> None:
    found = refusal(placed(f"mloc %s dram.local size={2**45} dtype=u8 shape=[{2**45}]"), "bad-input")
    assert "simulated memory" in found.message


def test_an_opcode_that_no_core_can_execute_is_refused() -> None:
    text = vector("x", attrs="kind=input") + "\n" + vector("y", attrs="kind=output")
    found = refusal(placed(f"{text}\n%r = all_reduce @pool (%x) -> (%y) op=add groups=[[0]]"), "bad-input")
    assert "cannot be executed by a core" in found.message


# -- the trace -------------------------------------------------------------------------------------------------------


def test_the_trace_has_every_instruction_of_every_core() -> None:
    program = compiled("all")
    result = haulout.run(program, trace=True)
    events = json.loads(run_trace(program, result.spans))["traceEvents"]
    names = [event["args"]["name"] for event in events if event["name"] == "process_name"]
    assert names == [f"{program.name}: core 0", f"{program.name}: core 1"]
    complete = [event for event in events if event["ph"] == "X"]
    run = {(event["pid"] - 1, event["name"]) for event in complete if event["cat"] == "instruction"}
    nops = [row for row, view in enumerate(program.instructions.opcode) if program.strings[int(view)] == "nop"]
    wanted = {
        (int(program.instruction_core[row]), program.instruction_name(row))
        for row in range(len(program.instructions))
        if row not in nops
    }
    assert run == wanted
    assert {event["cat"] for event in complete} == {"instruction", "wait", "signal"}
    for core in (0, 1):
        own = [event for event in complete if event["pid"] == core + 1]
        assert all(one["ts"] + one["dur"] <= two["ts"] + 1e-3 for one, two in pairwise(own))
