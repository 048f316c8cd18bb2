"""Timelines: what Perfetto shows agrees with the estimate and with what runs."""

from __future__ import annotations

import json
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import haulout
from haulout.cli.main import main
from haulout.ir.program import Program
from haulout.ir.text import parse_bir
from haulout.ir.values import load_values
from haulout.report.simulated_timeline import simulated_trace
from haulout.report.timeline import Flow, Slice, estimated_trace, trace_text
from haulout.target import load_target

EXAMPLES = Path(__file__).parents[2] / "examples" / "jax"
STRAIGHT = ["decoder_train.n4", "mlp_tp.n2", "ring_matmul.n4"]
GENERIC = load_target("generic")


def events_of(text: str, phase: str = "X") -> list[dict[str, Any]]:
    return [event for event in json.loads(text)["traceEvents"] if event["ph"] == phase]


def end(slices: list[dict[str, Any]]) -> float:
    return max(float(each["ts"] + each["dur"]) for each in slices)


def live_of(text: str) -> list[tuple[float, int]]:
    return [(each["ts"], each["args"]["bytes"]) for each in events_of(text, "C")]


def check_threads(text: str) -> None:
    """Slices of a thread follow each other; flows begin and end inside slices."""
    threads = defaultdict(list)
    for event in events_of(text):
        threads[event["pid"], event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
    for slices in threads.values():
        assert all(before[1] <= after[0] + 1e-6 for before, after in pairwise(sorted(slices)))
    for phase in "sf":
        for flow in events_of(text, phase):
            assert any(b - 1e-6 <= flow["ts"] <= e + 1e-6 for b, e in threads[flow["pid"], flow["tid"]])
    assert sorted(each["id"] for each in events_of(text, "s")) == sorted(each["id"] for each in events_of(text, "f"))


@pytest.mark.parametrize("name", STRAIGHT)
def test_the_end_is_the_makespan(name: str) -> None:
    result = haulout.compile(EXAMPLES / f"{name}.hlo")
    text = estimated_trace(result.program, GENERIC)
    check_threads(text)
    assert end(events_of(text)) == pytest.approx(result.report.estimated_makespan_us, abs=1e-3)
    assert events_of(text, "s")
    # Without loops and branches the estimate assumes nothing, so what runs takes as long.
    values = load_values(EXAMPLES / f"{name}.npz")
    inputs = {key[3:]: value for key, value in values.items() if key.startswith("in/")}
    ran = simulated_trace(result.program, GENERIC, inputs)
    check_threads(ran)
    assert end(events_of(ran)) == pytest.approx(end(events_of(text)))
    assert live_of(ran) == live_of(text)


LOOP = """\
bir 1
program "loop" lnc=1
module @nc0 core=0 {
  func @f {
    mloc %a dram.local size=4096 dtype=f32 shape=[1024] kind=inout
    mloc %b dram.local size=1024 dtype=f32 shape=[256]
    mloc %go dram.local size=4 dtype=s32 shape=[] kind=inout
    mloc %one dram.local size=4 dtype=s32 shape=[] kind=const data="AQAAAA=="
    block ^entry -> ^loop:
      %w = memset @act () -> (%a) value=0
    block ^loop -> ^body, ^done trip=5 cond=go:
      %h = nop @act () -> ()
    block ^body -> ^loop:
      %r = dma_copy @act (%a[0:1024]) -> (%b)
      %n = subtract @act (%go, %one) -> (%go)
      %s = dma_copy @act (%b) -> (%a[0:1024])
    block ^done:
      %e = dma_copy @act (%a[0:64]) -> (%a[64:128])
  }
}
"""


GIVEN = {"nc0/a": np.zeros(1024, np.float32), "nc0/go": np.array(5, np.int32)}


def loop_program() -> Program:
    return parse_bir(LOOP)


def test_a_loop_is_shown_once_and_lasts_for_all_iterations() -> None:
    text = estimated_trace(loop_program(), GENERIC)
    slices = events_of(text)
    (loop,) = [each for each in slices if each["cat"] == "loop"]
    assert loop["name"] == "^loop"
    assert loop["args"] == {"iterations": 5}
    body = [each for each in slices if each["name"] in ("r", "n", "s")]
    assert [each["name"] for each in body] == ["r", "n", "s"]
    assert loop["dur"] >= 5 * (body[-1]["ts"] + body[-1]["dur"] - body[0]["ts"]) - 1e-6
    (last,) = [each for each in slices if each["name"] == "e"]
    assert last["ts"] >= round(loop["ts"] + loop["dur"], 3)
    live = live_of(text)
    assert live[0] == (0.0, 4104)
    assert max(size for _, size in live) == 5128
    assert dict(live)[loop["ts"]] == 5128  # from its first use to the end of the loop
    assert dict(live)[round(loop["ts"] + loop["dur"], 3)] == 4104
    assert live[-1][1] == 0


def test_what_runs_has_every_iteration() -> None:
    text = simulated_trace(loop_program(), GENERIC, GIVEN)
    slices, live = events_of(text), live_of(text)
    assert [each["name"] for each in slices if each["cat"] == "instruction"].count("r") == 5
    assert [each["name"] for each in slices if each["cat"] == "branch"] == ["^loop"] * 6
    # `b` lives from the first iteration to the last; `one`, `a` and `go` are there before and after.
    body = [each for each in slices if each["name"] in ("r", "s")]
    last = round(body[-1]["ts"] + body[-1]["dur"], 3)
    assert live == [(0.0, 4104), (body[0]["ts"], 5128), (last, 4104), (round(end(slices), 3), 0)]


CONDITION = """\
bir 1
program "condition" lnc=1
module @nc0 core=0 {
  func @f {
    mloc %a dram.local size=4 dtype=s32 shape=[] kind=input
    mloc %c dram.local size=4 dtype=s32 shape=[]
    mloc %o dram.local size=4 dtype=s32 shape=[] kind=output
    block ^entry -> ^arm, ^join cond=c:
      %w = dma_copy @act (%a) -> (%c)
      %x = dma_copy @act (%a) -> (%o)
    block ^arm -> ^join:
      %y = dma_copy @act (%a) -> (%o)
    block ^join:
      %z = dma_copy @act (%a) -> (%o)
  }
}
"""


def test_a_condition_lives_until_it_is_read() -> None:
    program = parse_bir(CONDITION)
    ran = simulated_trace(program, GENERIC, {"nc0/a": np.array(1, np.int32)})
    for text in (ran, estimated_trace(program, GENERIC)):
        (branches,) = [each for each in events_of(text) if each["name"] == "x"]
        assert (
            dict(live_of(text))[round(branches["ts"] + branches["dur"], 3)] == 8
        )  # `c` is dead: `a` and `o` are left
        assert [size for _, size in live_of(text)] == [8, 12, 8, 0]


def test_an_arm_that_does_not_run_is_not_live() -> None:
    program = parse_bir(
        CONDITION.replace("mloc %o", "mloc %t dram.local size=4 dtype=s32 shape=[]\n    mloc %o").replace(
            "%y = dma_copy @act (%a) -> (%o)", "%y = dma_copy @act (%a) -> (%t)"
        )
    )
    for go, most in ((0, 12), (1, 12)):
        text = simulated_trace(program, GENERIC, {"nc0/a": np.array(go, np.int32)})
        sizes = [size for _, size in live_of(text)]
        assert (max(sizes), sizes.count(12)) == (most, 1 + go)


def test_times_that_are_rounded_do_not_overlap() -> None:
    """Begin and length of these, each rounded to nanoseconds on its own, overlap by one."""
    ends = np.cumsum(np.full(200, 0.0016)).tolist()
    slices = [Slice(0, 0, "x", "instruction", end - 0.0016, end, {}) for end in ends]
    found = [(round(each["ts"] * 1000), round(each["dur"] * 1000)) for each in events_of(trace_text("p", 1, slices))]
    assert all(begin + length == after for (begin, length), (after, _) in pairwise(found))
    assert any(round(begin * 1000) + 2 > round(after * 1000) for begin, after in pairwise([0.0, *ends]))


def test_arms_at_one_time_have_threads_of_their_own() -> None:
    slices = [
        Slice(0, 0, "a", "instruction", 0, 3, {}),
        Slice(0, 0, "b", "instruction", 1, 4, {}),
        Slice(0, 0, "meet", "wait", 4, 5, {}),
        Slice(1, 0, "meet", "wait", 2, 5, {}),
        Slice(1, 0, "c", "instruction", 1, 4, {}),
    ]
    text = trace_text("p", 2, slices, [Flow("barrier", (0, 0, 4), (1, 0, 5))])
    check_threads(text)
    threads = {each["tid"]: each["args"]["name"] for each in events_of(text, "M") if each["name"] == "thread_name"}
    assert [threads[each["tid"]] for each in events_of(text)] == [
        "pe",
        "pe, other arm 1",
        "pe",
        "pe, other arm 1",
        "pe",
    ]
    (end,) = events_of(text, "f")
    assert threads[end["tid"]] == "pe, other arm 1"
    assert 0 not in {each["tid"] for each in events_of(text)} | {each["pid"] for each in events_of(text)}


def test_the_commands_write_it(tmp_path: Path) -> None:
    source, runner = str(EXAMPLES / "mlp_tp.n2.hlo"), CliRunner()
    files = [tmp_path / name for name in ("compile.json", "trace.json", "simulate.json")]
    made = runner.invoke(main, ["compile", source, "-q", "-o", str(tmp_path), "--trace", str(files[0])])
    assert made.exit_code == 0, made.output
    program = str(tmp_path / "program.bir")
    assert runner.invoke(main, ["trace", program, "-o", str(files[1])]).exit_code == 0
    given = str(EXAMPLES / "mlp_tp.n2.npz")
    assert (
        runner.invoke(main, ["simulate", program, "-q", "--inputs", given, "--trace", str(files[2])]).exit_code == 0
    )
    assert files[0].read_text() == files[1].read_text()
    assert end(events_of(files[2].read_text())) == pytest.approx(end(events_of(files[0].read_text())))
