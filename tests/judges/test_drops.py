"""Compiled programs without one fence, edge or wait: the thread sanitizer and the checker say the same."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import haulout
from haulout.checker import check_program
from haulout_generators.mutate import drops
from haulout_judges import Outcome, threads
from haulout_judges.checked import differs

ROOT = Path(__file__).parents[2]
WAYS = {
    "edges": ("tests/end_to_end/data/chain.n2.hlo", {"sync": "edges"}, {"drop-barrier", "drop-dependence"}),
    "semaphores": ("tests/end_to_end/data/chain.n2.hlo", {"sync": "semaphores"}, {"drop-barrier", "drop-wait"}),
    "no barriers": ("examples/jax/mlp_tp.n2.hlo", {"sync": "all"}, {"drop-wait"}),
    "brackets": ("tests/end_to_end/data/chain.n2.hlo", {"fences": "bracket"}, {"drop-barrier", "drop-dependence"}),
}


@pytest.mark.parametrize("way", WAYS)
def test_what_is_dropped_is_found_where_it_is_necessary(way: str) -> None:
    if threads.interpreter() is None:
        pytest.skip("needs gcc with -fsanitize=thread")
    source, options, kinds = WAYS[way]
    chosen: dict[str, Any] = dict(options)
    program = haulout.compile(ROOT / source, **chosen).program
    assert threads.judge(program).outcome is Outcome.CLEAN
    seen: Counter[tuple[str, Outcome]] = Counter()
    for mutant in drops(program):
        verdict = threads.judge(mutant.program)
        assert differs(mutant.program, verdict, check_program(mutant.program, advise=False)) == "", (
            f"{mutant.where}: {verdict}"
        )
        seen[mutant.kind, verdict.outcome] += 1
    assert {kind for kind, _ in seen} == kinds
    for kind in kinds:
        assert seen[kind, Outcome.RACE] > 0
        # A fence of the least number is necessary.
        assert kind != "drop-barrier" or "fences" in options or not seen[kind, Outcome.CLEAN]
