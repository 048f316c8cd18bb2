"""Every judge against the checker, over generated programs: tried, agreed, and every disagreement reduced.

    python benchmarks/judges.py [--programs N] [--first N] [--seed N] [--simulator N] [--spin N] [--threads N]

Programs come from `judged_families.py`, ten of each family in turn; equal seeds give equal programs, so a long
campaign is made in ranges: `--first 0 --programs 5000`, then `--first 5000 --programs 5000`, with the same seed.
Reachability, exploration and schedules judge all of them; the simulator, the thread sanitizer and SPIN so many,
SPIN those that are small enough for it.

Prints one table by family and judge, and one by what programs have: how many each judge has judged. Where that is
less than the programs tried: too large for the judge, or a tool is missing. `alarms`: the checker reports a race or a
hang where a judge sees none; `silent`: the other way round.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.judged_families import FAMILIES, features, programs

from haulout.checker import check_program
from haulout.ir.program import Program
from haulout.ir.text import print_bir
from haulout.support.diagnostics import Diagnostic
from haulout.support.jit import always_compiled
from haulout.testing.reduce import reduce_program
from haulout_judges import JUDGES, Outcome, Verdict, exhaustive, reachability, schedules, simulator, spin, threads
from haulout_judges.checked import differs, verdict_of
from haulout_judges.queues import queue_programs
from haulout_judges.straight import runs
from haulout_judges.verdict import unjudged
from haulout_judges.walks import NotStraightError

SPIN_AT_ONCE = 200
"""Programs that wait for SPIN, which takes many at once."""
_Key = tuple[str, str]
_Tried = tuple[str, str, Program, list[Diagnostic]]
"""Family, name, program, what the checker says."""


class Campaign:
    """Programs, verdicts and seconds, counted."""

    def __init__(self) -> None:
        self.programs: Counter[str] = Counter()
        self.checked: Counter[tuple[str, str]] = Counter()
        self.judged: Counter[_Key] = Counter()
        self.alarms: Counter[str] = Counter()
        self.silent: Counter[str] = Counter()
        self.seconds: Counter[str] = Counter()
        self._clock = time.process_time()

    def spent(self, on: str) -> None:
        """Count the time since the last call."""
        now = time.process_time()
        self.seconds[on] += now - self._clock
        self._clock = now

    def take(self, tried: _Tried) -> list[str]:
        """Count a program; its groups are its family and what it has."""
        family, _, program, findings = tried
        groups = [family, *features(program)]
        self.programs.update(groups)
        self.checked.update((each, verdict_of(findings).outcome.value) for each in groups)
        return groups

    def tell(self, judge: str, verdict: Verdict, tried: _Tried) -> None:
        """Count a verdict; a disagreement is printed, reduced."""
        family, name, program, findings = tried
        if verdict.outcome is Outcome.UNJUDGED:
            return
        self.judged.update((each, judge) for each in (family, *features(program)))
        why = differs(program, verdict, findings)
        if why:
            (self.alarms if verdict.outcome is Outcome.CLEAN else self.silent)[family] += 1
            show(judge, name, program, why)
            self.spent("reducing")

    def print(self) -> None:
        """The two tables, and what each part has cost."""
        shown = list(JUDGES)
        head = "".join(f"{each:>7}" for each in ("clean", "race", "hang")) + "".join(f"{each:>14}" for each in shown)
        for title, groups in (("family", list(FAMILIES)), ("has", sorted({*self.programs} - {*FAMILIES}))):
            print(f"\n{title:<20}{'programs':>9}{head}{'alarms':>8}{'silent':>8}")
            for group in groups:
                print(self._line(group, [group], shown))
            if title == "family":
                print(self._line("all", groups, shown))
        total = sum(self.programs[family] for family in FAMILIES)
        costs = ", ".join(f"{on} {seconds:.1f}" for on, seconds in self.seconds.items())
        print(f"\nCPU seconds of this process: {costs}; {1000 * sum(self.seconds.values()) / total:.1f} ms a program")

    def _line(self, name: str, groups: list[str], shown: list[str]) -> str:
        numbers = [sum(self.programs[each] for each in groups)]
        outcomes = [sum(self.checked[each, said] for each in groups) for said in ("clean", "race", "hang")]
        judged = [sum(self.judged[each, judge] for each in groups) for judge in shown]
        wrong = [sum(count[each] for each in groups) for count in (self.alarms, self.silent)]
        cells = ((9, numbers), (7, outcomes), (14, judged), (8, wrong))
        return f"{name:<20}" + "".join(f"{each:>{width}}" for width, values in cells for each in values)


def verdicts_in_process(program: Program) -> Iterator[tuple[str, Verdict]]:
    """The judges that judge all programs, on runs that are written out once."""
    try:
        written = list(runs(program))
    except NotStraightError as error:
        yield from ((judge, unjudged(str(error))) for judge in ("reachability", "exhaustive", "schedules"))
        return
    yield "writing out", unjudged("")
    yield "reachability", reachability.of_runs(written)
    queues = [queue_programs(steps) for steps in written]
    yield "queues", unjudged("")
    yield "exhaustive", exhaustive.of_queues(queues)
    yield "schedules", schedules.of_queues(queues)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=int, default=2000)
    parser.add_argument("--first", type=int, default=0, help="the number of the first program")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--simulator", type=int, default=0, help="programs for the simulator")
    parser.add_argument("--spin", type=int, default=0, help="programs for SPIN")
    parser.add_argument("--threads", type=int, default=0, help="programs for the thread sanitizer")
    options = parser.parse_args()
    with always_compiled():
        campaign = run(options)
    campaign.print()


def run(options: argparse.Namespace) -> Campaign:
    campaign = Campaign()
    for_spin: list[_Tried] = []
    left = Counter({"simulator": options.simulator, "spin": options.spin, "threads": options.threads})

    def ask_spin() -> None:
        for tried, verdict in zip(for_spin, spin.judge_all([each[2] for each in for_spin]), strict=True):
            campaign.tell("spin", verdict, tried)
        for_spin.clear()
        campaign.spent("spin")

    for family, name, program in programs(options.seed, options.first, options.first + options.programs):
        campaign.spent("making")
        tried = (family, name, program, check_program(program, advise=False))
        campaign.spent("checker")
        campaign.take(tried)
        for judge, verdict in verdicts_in_process(program):
            campaign.spent(judge)
            campaign.tell(judge, verdict, tried)
        for judge, decide in (("simulator", simulator.judge), ("threads", threads.judge)):
            if left[judge] > 0:
                left[judge] -= 1
                campaign.tell(judge, decide(program), tried)
                campaign.spent(judge)
        if left["spin"] > 0 and spin.suits(program):
            left["spin"] -= 1
            for_spin.append(tried)
            if len(for_spin) == SPIN_AT_ONCE:
                ask_spin()
    if for_spin:
        ask_spin()
    return campaign


def show(judge: str, name: str, program: Program, why: str) -> None:
    """A disagreement, with the smallest program that shows it."""

    def still(candidate: Program) -> bool:
        return differs(candidate, JUDGES[judge](candidate), check_program(candidate, advise=False)) == why

    print(f"\n{judge}, {name}: {why}", flush=True)
    print(print_bir(reduce_program(program, still)), flush=True)


if __name__ == "__main__":
    main()
