"""Fences: as many as the longest chain of cross-core conflicts, and placed so that all conflicts are ordered."""

from __future__ import annotations

from random import Random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.analysis.test_dependences import ordered
from tests.brute import conflicts, happens_before, longest_chain, unordered
from tests.tiers import examples

from haulout.analysis.straightline import fence_rows
from haulout.passes.base import PassContext
from haulout.passes.extend_shared_lifetimes import ExtendSharedLifetimes
from haulout_generators.programs import random_program


@settings(max_examples=examples(200))
@given(st.randoms(use_true_random=False))
def test_minimal_is_the_longest_chain_and_orders_everything(rng: Random) -> None:
    program = ordered(random_program(rng))
    context = PassContext()
    result = ExtendSharedLifetimes(fences="minimal").run(program, context)
    fences = np.bincount(result.instruction_core[fence_rows(result)], minlength=result.lnc)
    assert set(fences.tolist()) == {longest_chain(program)}
    assert unordered(result) == []


@settings(max_examples=examples(100))
@given(st.randoms(use_true_random=False), st.sampled_from(["minimal", "bracket"]))
def test_order_follows_source_time_around_fences_of_the_user(rng: Random, policy: str) -> None:
    program = ordered(random_program(rng, fences=0.2))
    user = len(program.barriers)
    result = ExtendSharedLifetimes(fences=policy).run(program, PassContext())  # type: ignore[arg-type]
    assert unordered(result) == []
    assert sum(result.barriers.made_by == -1) == user
    before, core, seq = happens_before(result), result.instruction_core, result.instructions.seq
    for a, b, _ in conflicts(result):
        if core[a] != core[b]:
            first, second = (a, b) if seq[a] < seq[b] else (b, a)
            assert before[second] >> first & 1


@settings(max_examples=examples(50))
@given(st.randoms(use_true_random=False))
def test_a_second_run_changes_nothing_and_indices_are_dense(rng: Random) -> None:
    program = ordered(random_program(rng))
    for policy in ("minimal", "bracket"):
        once = ExtendSharedLifetimes(fences=policy).run(program, PassContext())  # type: ignore[arg-type]
        twice = ExtendSharedLifetimes(fences=policy).run(once, PassContext())  # type: ignore[arg-type]
        assert len(twice.barriers) == len(once.barriers)
        for core in range(program.lnc):
            index = once.barriers.index[once.instruction_core[once.barriers.instruction] == core]
            assert index.tolist() == list(range(len(index)))
