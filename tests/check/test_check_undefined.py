"""Undefined bytes: where they may go, against programs that are carried out (`undefined_programs.py`)."""

from __future__ import annotations

import re
from collections import Counter
from random import Random

import pytest
from tests.check.undefined_programs import Place, Step, harmful, program_of, random_steps, values

from haulout.check import check_program
from haulout.support.diagnostics import Severity


def _told(steps: list[Step]) -> dict[str, int]:
    """Locations that the checker blames, and the first read that does harm."""
    found = {}
    for each in check_program(program_of(steps)):
        if each.code != "uninitialized-read":
            continue
        assert each.severity is Severity.ERROR
        match = re.match(r"%i(\d+) on core 0 reads bytes \d+:\d+ of %(\w+), which nothing has written", each.message)
        assert match is not None, each.message
        found[match[2]] = int(match[1])
    return found


def _first_harmful(steps: list[Step], place: Place) -> int:
    return next(number for number in range(len(steps)) if harmful(steps, place, number + 1))


@pytest.mark.parametrize("way", ["few", "many"])
def test_agrees_with_programs_that_are_carried_out(way: str) -> None:
    seen: Counter[str] = Counter()
    for seed in range(150):
        steps = random_steps(Random(f"{way} {seed}"), 14 if way == "few" else 40)
        if not steps:
            continue
        places = {view.place for step in steps for view in (*step.reads, *step.writes)}
        wanted = {place.name: _first_harmful(steps, place) for place in places if harmful(steps, place)}
        assert _told(steps) == wanted
        # Whatever memory held before, nothing else is seen of a program without such reads.
        if not wanted:
            assert values(steps, 1) == values(steps, 2) == values(steps, 3)
        seen["harmful" if wanted else "harmless"] += 1
        seen["visible"] += values(steps, 1) != values(steps, 2)
    assert min(seen["harmful"], seen["visible"], seen["harmless"]) > 20
