"""Semaphores and divergent branches: ways are cut at fences and cores choose alike; the judge takes every way."""

from __future__ import annotations

import re
from collections.abc import Sequence
from random import Random

import pytest
from tests.checker.loop_snippets import BUFFER, FENCE, branch, core
from tests.checker.snippets import codes
from tests.checker.test_check_semaphores_agree import damaged

from haulout.checker import check_program
from haulout.ir.program import Program
from haulout.ir.text import parse_bir, print_bir
from haulout.passes.base import PassContext
from haulout.passes.lower_sync import LowerSync
from haulout.passes.manager import PassManager
from haulout.passes.pipeline import standard_pipeline
from haulout_generators.branch_programs import random_branch_program
from haulout_judges import Outcome, reachability
from haulout_judges.checked import differs
from haulout_judges.straight import runs
from haulout_judges.verdict import Verdict, joined

ENGINES = ("act", "pe", "dma0", "vector")

MOST_WORK = 400_000
"""Squares of the steps of all runs that the judge goes through."""


class _Scattered:
    """One core of a program with forks one behind the other, with own semaphores at random."""

    def __init__(self, random: Random, engines: Sequence[str], even: bool) -> None:
        self.random, self.engines, self.even, self.number = random, engines, even, 0

    def some(self, most: int, fence: str = "", signals: bool = True) -> str:
        """Up to so many instructions, and a fence if one is named."""
        lines = [FENCE.format(fence)] if fence else []
        for _ in range(self.random.randint(0, most)):
            self.number += 1
            lines.append(f"%i{self.number} = {self.instruction(signals)}")
        self.random.shuffle(lines)
        return "".join(f"      {line}\n" for line in lines)

    def instruction(self, signals: bool) -> str:
        random, place = self.random, self.random.choice(("%x", "%y", "", "", "", "%s" * (self.random.random() < 0.2)))
        reads, writes = (place, "") if random.random() < 0.6 else ("", place)
        text = f"op @{random.choice(self.engines)} ({reads}) -> ({writes})"
        if signals and random.random() < 0.6:
            text += f" signal=[[{random.choice('sst')},{random.choice((1, 1, 1, 2))}]]"
        if random.random() < 0.4:
            text += f" wait_back=[[{random.choice('sst')},{random.choice((0, 0, 0, 1))}]]"
        if random.random() < 0.1:
            text += f" wait=[[{random.choice('sst')},{random.choice((1, 1, 2, 3))}]]"
        return text

    def fork(self, name: str, behind: str, divergent: bool) -> str:
        """A fork of two arms, which signal alike where `even` says so."""
        then, other = self.some(1, signals=not self.even), self.some(1, signals=not self.even)
        if self.even:
            then, other = (
                f"{arm}      %{which}{name} = op @{self.engines[0]} () -> () signal=[[s,1]]\n"
                for which, arm in (("t", then), ("e", other))
            )
        heads = (
            f"^{name} -> ^t{name}, ^e{name} cond=p{' divergent=true' * divergent}",
            f"^t{name} -> ^j{name}",
            f"^e{name} -> ^j{name}",
            f"^j{name}{behind}",
        )
        bodies = self.some(1), then, other, self.some(1)
        return "".join(f"    block {head}:\n{body}" for head, body in zip(heads, bodies, strict=True))

    def loop(self, name: str, behind: str, trip: str, fork: bool, fence: str) -> str:
        """A loop, with a divergent fork in its body or none."""
        text = f"    block ^{name} -> ^l{name}, ^z{name} cond=p{trip}:\n"
        text += f"    block ^l{name} -> {f'^k{name}' if fork else f'^{name}'}:\n{self.some(2, fence)}"
        text += self.fork(f"k{name}", f" -> ^{name}", True) if fork else ""
        return f"{text}    block ^z{name}{behind}:\n{self.some(1)}"


def scattered(random: Random) -> Program:
    """Forks, most of each core's own choice and some in a loop, with fences between; own semaphores at random."""
    cores, engines, even = random.choice((1, 1, 2)), ENGINES[: random.randint(2, 3)], random.random() < 0.3
    kinds = [random.choice(("divergent", "divergent", "fork", "loop")) for _ in range(random.randint(2, 3))]
    trip, inner = random.choice(("", " trip=1", " trip=2", " trip=3")), random.random() < 0.5
    fences = [f"b{at}" * (random.random() < 0.6) for at in range(2 * len(kinds) + 1)]
    text = f'bir 1\nprogram "p" lnc={cores}\n'
    for number in range(cores):
        one = _Scattered(random, engines, even)
        body = f"    block ^entry -> ^n0:\n{one.some(1)}"
        for at, kind in enumerate(kinds):
            behind = f" -> ^n{at + 1}"
            body += f"    block ^n{at} -> ^f{at}:\n{one.some(1, fences[2 * at])}"
            if kind == "loop":
                body += one.loop(f"f{at}", behind, trip, inner, fences[2 * at + 1])
            else:
                body += one.fork(f"f{at}", behind, kind == "divergent")
        body += f"    block ^n{len(kinds)}:\n{one.some(2, fences[-1])}"
        text += (
            f"module @nc{number} core={number} {{\n  func @main {{\n    mloc %x dram.local size=4 kind=inout\n"
            "    mloc %y dram.local size=4 kind=inout\n    mloc %p dram.local size=1 kind=input\n"
            f"    mloc %s dram.shared size=4 {'remote=[s,0]' if number else 'kind=inout'}\n{body}  }}\n}}\n"
        )
    return parse_bir(text, "p.bir")


def lowered(random: Random) -> Program:
    """A compiled program with divergent branches, dependences made semaphores."""
    cores, depth = random.choice((2, 2, 3)), random.choice((1, 2))
    source = random_branch_program(random, cores=cores, steps=1, depth=depth, divergent=0.5, loops=0.3, fences=0.2)
    passes = [*standard_pipeline(), LowerSync(semaphores=random.choice((1, 2, 32)))]
    return PassManager(passes).run(source, PassContext())


def changed(program: Program, random: Random) -> Program | None:
    """Without a signal or a wait, or with another number there, or a constant for a `wait_back`."""
    text = print_bir(program)
    found = list(re.finditer(r"(?m)^(?!.* wait=)(.*) wait_back=\[\[([^,\]]+),\d+\]\]", text))
    if found and random.random() < 0.3:
        at = random.choice(found)
        constant = f"{at[1]} wait=[[{at[2]},{random.randint(1, 4)}]]"
        return parse_bir(text[: at.start()] + constant + text[at.end() :], "p.bir")
    return damaged(program, random)


def every_way(program: Program, most: int) -> Verdict | None:
    """The judge's verdict on all ways; None where it saw just some of them and nothing wrong, or they are long."""
    taken = list(runs(program, most))
    if sum(len(steps) ** 2 for steps in taken) > MOST_WORK:
        return None
    verdict = joined([reachability.judge_run(steps) for steps in taken])
    return None if verdict.outcome is Outcome.CLEAN and len(taken) >= most else verdict


def agree(program: Program, most: int = 300) -> str:
    findings = check_program(program, advise=False)
    codes = {finding.code for finding in findings}
    verdict = every_way(program, most)
    outrun = any(each.subject is not None and each.subject.kind == "semaphore outrun" for each in findings)
    if verdict is None or outrun:
        return "open"  # the judge tries only a few paths and trip counts
    if "unproved-paths" in codes and verdict.outcome is not Outcome.CLEAN:
        return "unproved"
    assert differs(program, verdict, findings) == "", print_bir(program)
    return "unproved" if "unproved-paths" in codes else verdict.outcome.value


@pytest.mark.parametrize("seed", range(6))
def test_own_semaphores_at_random(seed: int) -> None:
    random = Random(seed)
    seen = [agree(scattered(random)) for _ in range(8)]
    assert len(set(seen)) > 1


@pytest.mark.parametrize("seed", range(8))
def test_lowered_programs_with_divergent_branches(seed: int) -> None:
    random = Random(seed)
    program = lowered(random)
    assert [finding.code for finding in check_program(program)] == []
    agree(program, 64)
    for _ in range(2):
        if (other := changed(program, random)) is not None:
            agree(other, 64)


def two_forks(then: str, other: str, wait: str) -> list[str]:
    """What both arms of a fork signal, on two cores alike; behind a fence a signal, and in the second arm of another
    fork what waits for it.
    """
    arms = [f"%{name} = op @act () -> (){attrs}" for name, attrs in zip("tu", (then, other), strict=True)]
    text = core(BUFFER, "block ^entry -> ^f0:\n") + branch(arms[0], arms[1], "f0", "divergent=true", " -> ^m")
    text += f"\nblock ^m -> ^f1:\n{FENCE.format('b')}\n%w = iota @act () -> (%a) signal=[[S,1]]\n"
    text += branch("", f"%r = copy @vector (%a) -> () {wait}", "f1", "divergent=true", "")
    return [text] * 2


ONE = " signal=[[S,1]]"


@pytest.mark.parametrize(
    ("then", "other", "wait", "expected"),
    [
        (ONE, "", "wait_back=[[S,0]]", []),
        (ONE, "", "wait_back=[[S,1]]", ["missing-dependence"]),
        (ONE, ONE, "wait=[[S,2]]", []),
        (ONE, ONE, "wait=[[S,1]]", ["missing-dependence"]),
        (ONE, "", "wait=[[S,1]]", ["missing-dependence"]),
        ("", ONE, "wait=[[S,1]]", ["missing-dependence"]),
        ("", "", "wait=[[S,1]]", []),
        (" remote_signal=[[0,T,1]]", "", "wait_back=[[S,0]]", []),
    ],
)
def test_what_was_chosen_before_a_fence_matters_to_constants(
    then: str, other: str, wait: str, expected: list[str]
) -> None:
    """A count that carries over asks for one arm before the fence with the other after it."""
    texts = two_forks(then, other, wait)
    if "remote" in then:
        texts[0] = texts[0].replace("[[0,T", "[[1,T")
    assert sorted(set(codes(*texts))) == expected
