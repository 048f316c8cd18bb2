"""Semaphores in loops, branches and lowered programs: the checker against a judge that tries every interleaving."""

from __future__ import annotations

import re
from random import Random

import pytest

from haulout.checker import check_program
from haulout.ir.program import Program
from haulout.ir.text import parse_bir, print_bir
from haulout.ir.verify import verify
from haulout.passes.base import PassContext
from haulout.passes.manager import PassManager
from haulout.passes.pipeline import parse_pipeline, standard_pipeline
from haulout_generators.programs import random_loop_program, random_program
from haulout_judges import exhaustive
from haulout_judges.checked import differs

ENGINES = ("act", "pe", "dma0", "vector")


def scattered(random: Random, branch: bool) -> Program:
    """A loop, or a branch, with a handful of instructions and semaphores at random."""
    cores = random.choice((1, 1, 2))
    engines = ENGINES[: random.randint(2, 4)]
    trip = random.choice(("", "", "", " trip=1", " trip=2", " trip=3", " trip=4"))
    sizes = [random.randint(0, 2) for _ in range(4)]
    sizes[1] += not branch
    sizes[0] += branch
    text = f'bir 1\nprogram "p" lnc={cores}\n'
    for core in range(cores):
        blocks = []
        number = 0
        for size in sizes:
            lines = []
            for _ in range(size):
                number += 1
                lines.append(f"      %i{number} = {_instruction(random, engines, core, cores)}")
            blocks.append("\n".join(lines))
        heads = (
            ("^a -> ^t, ^e cond=p", "^t -> ^j", "^e -> ^j", "^j")
            if branch
            else ("^a -> ^h", f"^h -> ^b, ^z cond=p{trip}", "^b -> ^h", "^z")
        )
        if not branch:
            blocks[1], blocks[2] = "", blocks[1] + "\n" + blocks[2]
        body = "\n".join(f"    block {head}:\n{block}" for head, block in zip(heads, blocks, strict=True))
        text += (
            f"module @nc{core} core={core} {{\n  func @main {{\n    mloc %x dram.local size=4 kind=inout\n"
            "    mloc %y dram.local size=4 kind=inout\n    mloc %p dram.local size=1 kind=input\n"
            f"{body}\n  }}\n}}\n"
        )
    return parse_bir(text, "p.bir")


def _instruction(random: Random, engines: tuple[str, ...], core: int, cores: int) -> str:
    place, writes = random.choice(("%x", "%y")), random.random() < 0.5
    text = f"op @{random.choice(engines)} ({'' if writes else place}) -> ({place if writes else ''})"
    if random.random() < 0.5:
        text += f" signal=[[{random.choice('st')},1]]"
    if cores > 1 and random.random() < 0.3:
        text += f" remote_signal=[[{1 - core},{random.choice('st')},1]]"
    if random.random() < 0.35:
        text += f" wait_back=[[{random.choice('st')},{random.choice((0, 0, 0, 1))}]]"
    if random.random() < 0.12:
        text += f" wait=[[{random.choice('st')},{random.choice((1, 1, 2, 3))}]]"
    return text


def damaged(program: Program, random: Random) -> Program | None:
    """Without one signal or wait, or with another number in it."""
    lines = print_bir(program).splitlines()
    rows = [at for at, line in enumerate(lines) if re.search(r"signal=|wait=|wait_back=", line)]
    if not rows:
        return None
    at = random.choice(rows)
    line, changed = lines[at], []
    for found in re.finditer(r" (signal|remote_signal|wait|wait_back)=(\[\[.*?\]\])", line):
        changed.append(line[: found.start()] + line[found.end() :])
        number = re.search(r",(\d+)\]", found[2])
        assert number is not None
        begin, end = found.start(2) + number.start(1), found.start(2) + number.end(1)
        for value in (int(number[1]) - 1, int(number[1]) + 1):
            if value >= ("signal" in found[1]):
                changed.append(f"{line[:begin]}{value}{line[end:]}")
    lines[at] = random.choice(changed)
    return parse_bir("\n".join(lines) + "\n", "p.bir")


def agree(program: Program) -> str:
    assert verify(program) == []
    findings = check_program(program, advise=False)
    verdict = exhaustive.judge(program)
    if not any(
        "has run often enough" in finding.message for finding in findings
    ):  # the judge tries a few trip counts
        assert differs(program, verdict, findings) == "", print_bir(program)
    return verdict.outcome.value


@pytest.mark.parametrize("branch", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_semaphores_at_random(seed: int, branch: bool) -> None:
    random = Random(seed * 2 + branch)
    seen = [agree(scattered(random, branch)) for _ in range(25)]
    assert len(set(seen)) > 1


@pytest.mark.parametrize("loops", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_lowered_programs_stay_clean_and_damage_is_found(seed: int, loops: bool) -> None:
    random = Random(seed)
    if loops:
        source = random_loop_program(random, cores=random.choice((1, 2)), steps=2, depth=random.choice((1, 2)))
    else:
        source = random_program(random, cores=random.choice((1, 2, 3)), steps=4, fences=0.2)
    made = PassManager(standard_pipeline()).run(source, PassContext())
    pipeline = random.choice(
        (
            "lower_sync{semaphores=1}",
            "lower_sync{semaphores=32}",
            "lower_sync{semaphores=32},lower_barriers{semaphores=64}",
        )
    )
    lowered = PassManager(parse_pipeline(pipeline)).run(made, PassContext())
    before = [finding.code for finding in check_program(made, advise=False)]
    assert [finding.code for finding in check_program(lowered, advise=False)] == before
    for _ in range(3):
        if (other := damaged(lowered, random)) is not None:
            agree(other)
