"""What the advice of findings is worth: fixes offered for random racy programs, each applied and judged anew.

    python benchmarks/advice.py [--programs N] [--seed N]

The programs are straight lists, loops, and loops with branches, each with something missing: a barrier or a
dependence of a compiled program, or what a generator left out. Programs without a finding on order are passed over.
`verified`: the checker tried the fix; `unverified`: its budget was spent; `none`: no fix held. `wrong`: those whose
verified fix, applied, printed and read again, leaves the finding or brings a new one, by the checker or by
reachability.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Callable, Iterator
from random import Random

import haulout
from haulout.checker import check_program
from haulout.ir.program import Program
from haulout.ir.text import parse_bir, print_bir
from haulout.passes.base import PassContext
from haulout.passes.manager import PassManager
from haulout.passes.pipeline import standard_pipeline
from haulout_generators.branch_programs import random_branch_program
from haulout_generators.loop_programs import damaged, random_judged_loops
from haulout_generators.programs import random_loop_program, random_program
from haulout_judges.advised import contradiction

ORDER = frozenset({"cross-core-race", "possible-race", "missing-dependence"})


def straight(rng: Random) -> Program:
    source = random_program(rng, cores=rng.randint(2, 4), steps=rng.randint(3, 12), fences=0.1)
    return next(damaged(haulout.compile(source, fences=rng.choice(("minimal", "bracket"))).program, rng))


def bare(rng: Random) -> Program:
    """As it is written: nothing is ordered but by the fences of the user."""
    return random_program(rng, cores=2, steps=rng.randint(2, 6), fences=0.3)


def compiled_loops(rng: Random) -> Program:
    source = random_loop_program(rng, steps=3, depth=rng.randint(1, 2))
    return next(damaged(PassManager(standard_pipeline()).run(source, PassContext()), rng))


def compiled_branches(rng: Random) -> Program:
    source = random_branch_program(rng, cores=rng.randint(2, 3), divergent=rng.choice((0.0, 0.3)))
    return next(damaged(PassManager(standard_pipeline()).run(source, PassContext()), rng))


def loops(rng: Random) -> Program:
    return random_judged_loops(rng, depth=1, order=rng.choice((0.8, 0.9)))


def branches(rng: Random) -> Program:
    return random_judged_loops(rng, depth=1, order=rng.choice((0.8, 0.9)), branches=0.7)


FAMILIES: dict[str, Callable[[Random], Program]] = {
    "straight": straight,
    "bare": bare,
    "loops": loops,
    "branches": branches,
    "compiled loops": compiled_loops,
    "compiled branches": compiled_branches,
}


def racy(seed: int) -> Iterator[tuple[str, Program]]:
    """Named programs with a finding on order, family after family."""
    number = 0
    while True:
        for family, make in FAMILIES.items():
            program = parse_bir(print_bir(make(Random(f"{seed} {family} {number}"))), f"{family} {number}.bir")
            codes = {each.code for each in check_program(program, advise=False)}
            if codes & ORDER and not codes & {"barrier-mismatch", "deadlock"}:
                yield family, program
        number += 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    total: dict[str, Counter[str]] = {family: Counter() for family in FAMILIES}
    wrong: list[str] = []
    programs = racy(options.seed)
    for _ in range(options.programs):
        family, program = next(programs)
        count = total[family]
        began = time.perf_counter()
        findings = check_program(program)
        count["milliseconds"] += int(1000 * (time.perf_counter() - began))
        count["programs"] += 1
        for finding in findings:
            if finding.code not in ORDER:
                continue
            count["findings"] += 1
            if finding.advice is None:
                count["none"] += 1
            elif not finding.advice.verified:
                count["unverified"] += 1
            else:
                count["verified"] += 1
                if why := contradiction(program, finding):
                    count["wrong"] += 1
                    wrong.append(f"{program.file}: {finding}\n    {finding.help[0]}\n    {why}")
    columns = ("programs", "findings", "verified", "unverified", "none", "wrong", "milliseconds")
    print(f"{'family':<20}" + "".join(f"{each:>14}" for each in columns))
    total["all"] = sum(total.values(), Counter())
    for family, count in total.items():
        print(f"{family:<20}" + "".join(f"{count[each]:>14}" for each in columns))
    print("\n".join(wrong))


if __name__ == "__main__":
    main()
