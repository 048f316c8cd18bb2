"""What `lower_barriers` emits, as lines of the model in `barrier_model.py`: every interleaving of small programs.

The lines are read off the emitted instructions alone: their waits, what they add, and the attribute `barrier`. What
tells other cores or the keeper comes to the barrier; what waits for those has left it.
"""

from __future__ import annotations

from collections import defaultdict
from random import Random

import pytest
from tests.passes.sync_runs import Run, in_run, joint_run

from haulout import Program
from haulout.ir.enums import Engine
from haulout.ir.text import parse_bir
from haulout.passes.base import PassContext
from haulout.passes.lower_barriers import LowerBarriers
from haulout.passes.sync.barrier_model import Exploration, Line, Step, explore


def emitted_lines(program: Program, seed: int = 0) -> list[Line]:
    """A line for each engine of each core, on a way through that `seed` chooses."""
    steps = joint_run(program, Random(seed))
    return [
        line
        for core, each in enumerate(steps)
        for line in run_lines(core, in_run(program, each), [program.instruction_attrs(step.row) for step in each])
    ]


def run_lines(core: int, run: Run, attrs: list[dict[str, object]]) -> list[Line]:
    """The lines of one core."""
    lines: dict[int, list[Step]] = defaultdict(list)
    came: dict[tuple[int, str], int] = defaultdict(int)
    left: dict[tuple[int, str], int] = defaultdict(int)
    for at, engine in enumerate(run.engine):
        line, name = lines[engine], str(attrs[at].get("barrier", ""))
        tells = [Step("send", sent, other, value) for other, sent, value in run.remote[at]]
        tells += [Step("add", added, core, value) for added, value in run.adds[at]]
        waits = [Step("at_least", wanted, core, value) for wanted, value in run.needs[at]]
        worker_comes = bool(name) and engine != Engine.SYNC and not waits
        keeper_alone = bool(name) and engine == Engine.SYNC and came[engine, name] == left[engine, name]
        if name and (run.remote[at] or worker_comes or keeper_alone):
            came[engine, name] += 1
            line.append(Step("arrive", name, value=came[engine, name]))
        line += waits
        if name and not run.remote[at] and not worker_comes:
            left[engine, name] += 1
            line.append(Step("pass", name, value=left[engine, name]))
        line += tells
    return [tuple(line) for _, line in sorted(lines.items())]


def straight(cores: int, engines: list[Engine], barriers: list[tuple[str, tuple[int, ...]]]) -> Program:
    """(engine, participants) of each barrier; `engines` work before and behind each."""
    text = f'bir 1\nprogram "meets" lnc={cores}\n'
    for core in range(cores):
        text += f"module @nc{core} core={core} {{\n  func @main {{\n    block ^entry:\n"
        work = "".join(f"      %w.{engine.text}.NUMBER = op @{engine.text} () -> ()\n" for engine in engines)
        text += work.replace("NUMBER", "first")
        for number, (line, members) in enumerate(barriers):
            if core in members:
                inside = ",".join(map(str, members))
                text += f'      %b{number} = core_barrier @{line} () -> () name="b{number}" cores=[{inside}]\n'
            text += work.replace("NUMBER", str(number))
        text += "  }\n}\n"
    return parse_bir(text)


LOOP = """bir 1
program "in a loop" lnc=2
""" + "".join(
    f"""module @nc{core} core={core} {{
  func @main {{
    mloc %p dram.local size=1 kind=input
    block ^entry -> ^head:
    block ^head -> ^body, ^end trip=2 cond=p:
    block ^body -> ^then, ^else cond=p divergent=true:
      %w = op @pe () -> ()
      %a = core_barrier @all () -> () name="a"
    block ^then -> ^join:
      %b = core_barrier @all () -> () name="b"
    block ^else -> ^join:
      %c = core_barrier @all () -> () name="b"
    block ^join -> ^head:
    block ^end:
      %d = core_barrier @all () -> () name="d"
  }}
}}
"""
    for core in range(2)
)

ALL2, ALL3 = ("all", (0, 1)), ("all", (0, 1, 2))
CASES = {
    "two cores, two in a row": straight(2, [Engine.PE], [ALL2] * 2),
    "two cores, three in a row": straight(2, [Engine.PE], [ALL2] * 3),
    "two engines": straight(2, [Engine.PE, Engine.DMA0], [ALL2] * 2),
    "keepers alone": straight(3, [Engine.SYNC], [ALL3] * 3),
    "keepers alone, two in a row": straight(3, [Engine.SYNC], [ALL3] * 2),
    "three cores": straight(3, [Engine.PE], [ALL3]),
    "some of the cores between": straight(3, [Engine.SYNC], [ALL3, ("all", (0, 1)), ALL3, ("all", (1, 2)), ALL3]),
    "of one engine": straight(2, [Engine.PE], [("pe", (0, 1))] * 3),
    "of one engine and of all": straight(2, [Engine.PE], [("pe", (0, 1)), ALL2, ("pe", (0, 1)), ALL2]),
    "a core alone": straight(2, [Engine.PE], [("all", (0,)), ALL2, ("all", (0,))]),
    "a loop with a divergent branch": parse_bir(LOOP),
}


def lowered(program: Program) -> Program:
    return LowerBarriers().run(program, PassContext())


@pytest.mark.parametrize("case", CASES)
def test_every_interleaving_is_sound(case: str) -> None:
    program = lowered(CASES[case])
    for seed in range(3 if "loop" in case else 1):
        lines = emitted_lines(program, seed)
        assert sum(step.does == "pass" for line in lines for step in line) >= 3
        found = explore(lines)
        assert found.sound, found


SMALL = ("two cores, two in a row", "keepers alone, two in a row", "three cores", "of one engine and of all")


@pytest.mark.parametrize("case", SMALL)
def test_every_signal_and_every_wait_is_needed(case: str) -> None:
    """Without a wait, or with one less to wait for, a core passes early; without a signal, or with one more to wait
    for, it hangs.
    """
    lines = emitted_lines(lowered(CASES[case]))
    for index, line in enumerate(lines):
        for at, step in enumerate(line):
            if step.does in ("arrive", "pass"):
                continue
            without = [*lines[:index], (*line[:at], *line[at + 1 :]), *lines[index + 1 :]]
            found = explore(without)
            if step.does != "at_least":
                assert found.hangs, step
                continue
            assert found.passes_early, step

            def shifted(change: int, index: int = index, at: int = at, step: Step = step) -> Exploration:
                line = lines[index]
                other = step._replace(value=step.value + change)
                return explore([*lines[:index], (*line[:at], other, *line[at + 1 :]), *lines[index + 1 :]])

            assert shifted(-1).passes_early, step
            if not any((each.does, each.counter) == ("at_least", step.counter) for each in line[at + 1 :]):
                # Before the last barrier the other cores may make up for it: they come to the next one.
                assert shifted(1).hangs, step
