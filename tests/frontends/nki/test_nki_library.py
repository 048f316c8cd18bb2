"""The twelve kernels of nki-library with known results, unmodified, from a checkout; skipped without one.

What is expected was found by hand in the published code; see `docs/nki.md`. Taking a barrier away must show, or the
tool must say that the barrier orders nothing.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from tools.nki_cases import TWELVE, VARIABLE, Case, library_folder, t
from tools.nki_coverage import without

from haulout.frontends.nki import Trace
from haulout.nki.kernel_check import check_trace
from haulout.support.diagnostics import Severity

pytestmark = pytest.mark.skipif(library_folder() is None, reason=f"{VARIABLE} names no checkout of nki-library")

BY_NAME = {case.name: case for case in TWELVE}

SHAPE = {
    "mask_expert_affinities": (4, 1, 0),
    "indexed_flatten": (17, 0, 1),
    "cross_entropy_forward": (256, 0, 0),
    "rmsnorm_tkg": (28, 0, 1),
    "qkv_cte": (11, 1, 0),
    "router_topk": (20, 1, 0),
    "qkv_tkg": (22, 0, 1),
    "mlp_tkg": (100, 1, 2),
    "bwmm_shard_on_block": (169, 1, 0),
    "bwmm_shard_on_H": (350, 4, 16),
    "bwmm_shard_on_I": (306, 4, 4),
    "bwmm_shard_on_I_hybrid": (198, 4, 3),
    "blockwise_mm_bwd": (850, 12, 0),
}
"""Instructions, barriers and sendrecvs of core 0."""

SERIOUS = {
    # Core 1 reads its source at an element offset where a row offset is meant.
    "mask_expert_affinities": {"overlapping-split"},
    # Both cores fill the output with zeros; the first block's read-modify-write does not wait for the other's fill.
    "bwmm_shard_on_I": {"possible-race"},
    "bwmm_shard_on_I_hybrid": {"possible-race", "barrier-not-shared"},
    # The same between the zeros of the affinities' gradient and the first block's scatter.
    "blockwise_mm_bwd": {"possible-race"},
}
"""Errors and warnings in the published kernels; none in the others."""


def serious(trace: Trace, scope: str = "data") -> set[str]:
    found = check_trace(trace, scope)  # type: ignore[arg-type]
    return {each.code for each in found.diagnostics if each.severity > Severity.NOTE}


@pytest.mark.parametrize("case", TWELVE, ids=lambda case: case.name)
def test_kernels_trace_and_hold_what_is_known(case: Case) -> None:
    trace = case.trace()
    counts = Counter(record.opcode for record in trace.recorders[0].records)
    assert not trace.failed, [str(each) for each in trace.findings.items]
    assert (trace.recorders[0].instructions, counts["core_barrier"], counts["sendrecv"]) == SHAPE[case.name]
    assert serious(trace) == SERIOUS.get(case.name, set())


def test_core_1_reads_from_byte_128_where_2048_is_meant() -> None:
    found = check_trace(BY_NAME["mask_expert_affinities"].trace()).diagnostics
    split = next(each for each in found if each.code == "overlapping-split")
    assert "from byte 128 on core 1" in split.labels[0].message
    assert "2048 bytes" in split.help[0]


def test_with_odd_tokens_the_last_row_is_never_written() -> None:
    case = BY_NAME["mask_expert_affinities"]
    odd = {**case.arguments, "T": 65, "expert_affinities": t("float32", 65, 16), "expert_index": t("int32", 65, 4)}
    found = check_trace(replace(case, arguments=odd).trace()).diagnostics
    missed = next(each for each in found if each.code == "output-not-written")
    assert "byte 1024 of 1040" in missed.message


def test_a_router_that_is_not_split_writes_the_same_values_twice() -> None:
    case = BY_NAME["router_topk"]
    found = check_trace(replace(case, arguments={**case.arguments, "shard_on_tokens": False}).trace()).diagnostics
    codes = [each.code for each in found]
    assert codes.count("benign-duplicate-write") == 3
    assert all(each.severity is Severity.NOTE for each in found)


@pytest.mark.parametrize(
    ("name", "barrier"),
    [("mlp_tkg", 0), ("bwmm_shard_on_block", 0), *(("blockwise_mm_bwd", 3 * at) for at in range(4))],
)
@pytest.mark.parametrize("scope", ["data", "global"])
def test_without_its_barrier_it_races(name: str, barrier: int, scope: str) -> None:
    trace = BY_NAME[name].trace()
    before = check_trace(trace, scope).diagnostics  # type: ignore[arg-type]
    after = check_trace(without(trace, "core_barrier", barrier), scope).diagnostics  # type: ignore[arg-type]
    races = {"cross-core-race", "possible-race"}
    assert {each.message for each in after if each.code in races} > {
        each.message for each in before if each.code in races
    }


def test_the_barrier_of_qkv_cte_orders_nothing_inside() -> None:
    trace = BY_NAME["qkv_cte"].trace()
    assert [each.code for each in check_trace(trace).diagnostics] == ["redundant-barrier"]
    assert check_trace(without(trace, "core_barrier", 0)).diagnostics == []
