"""Structured problems: every constraint holds in the placement, and what cannot be honoured is refused."""

from __future__ import annotations

import copy
import json
from typing import Any

import numpy as np
import pytest

from haulout.packing import Solution, outputs, solve
from haulout.packing.csvio import Table
from haulout.packing.penalties import reuse_cost, with_less_reuse
from haulout.packing.structured import parse_structured
from haulout.support.diagnostics import HauloutError


def _buffer(number: int, size: int, *ranges: tuple[int, int], pools: tuple[int, ...] = (3,)) -> dict[str, Any]:
    return {
        "id": number,
        "name": f"b{number}",
        "size": size,
        "alignment": 64,
        "live_intervals": [{"lower": lower, "upper": upper} for lower, upper in ranges],
        "allowed_pools": list(pools),
    }


def _document() -> dict[str, Any]:
    return {
        "schema_version": 1,
        "profile": "pypto_research_v1",
        "instance": "small",
        "metadata": {},
        "problem": {
            "pools": [{"id": 3, "name": "L1", "capacity": 1024, "reserved_ranges": [{"begin": 0, "end": 128}]}],
            "buffers": [_buffer(7, 128, (0, 4)), _buffer(8, 128, (4, 8), (10, 12)), _buffer(9, 64, (8, 10))],
            "constraints": {
                "colocations": [],
                "separations": [],
                "temporal_exclusions": [],
                "pinned_allocations": [],
            },
            "objective": {"aggregation": "lexicographic", "terms": ["capacity_overflow", "total_peak"]},
        },
    }


def _solved(document: dict[str, Any]) -> tuple[Table, Solution]:
    table = parse_structured(json.dumps(document))
    return table, solve(table.problem)


def _share(table: Table, solution: Solution, one: int, two: int) -> bool:
    low, high = solution.offset, solution.offset + table.problem.size
    same = solution.pool[one] == solution.pool[two]
    return bool(same and low[one] < high[two] and low[two] < high[one])


def test_reserved_ranges_and_holes() -> None:
    table, solution = _solved(_document())
    assert table.ids[: table.own] == ("b7", "b8", "b9")
    assert (solution.offset[:3] >= 128).all()
    assert solution.peak == 256  # b8 follows b7, and b9 is in the hole of b8
    assert _share(table, solution, 0, 1) and _share(table, solution, 1, 2)


def test_separations_hold_at_all_times() -> None:
    document = _document()
    document["problem"]["constraints"]["separations"] = [{"first": 7, "second": 8, "reasons": ["generic"]}]
    table, solution = _solved(document)
    assert not _share(table, solution, 0, 1)


def test_colocations_and_pins() -> None:
    document = _document()
    document["problem"]["pools"].append({"id": 5, "name": "L0", "capacity": None})
    document["problem"]["buffers"] = [
        _buffer(1, 64, (0, 4), pools=(3, 5)),
        _buffer(2, 64, (2, 6), pools=(3, 5)),
        _buffer(3, 64, (0, 2), pools=(3, 5)),
        _buffer(4, 64, (7, 8), pools=(3, 5)),
    ]
    rules = document["problem"]["constraints"]
    rules["colocations"] = [{"first": 1, "second": 2}]
    rules["pinned_allocations"] = [{"buffer": 3, "pool": 5, "offset": 128, "exclusive_for_all_time": True}]
    table, solution = _solved(document)
    assert (solution.offset[0], solution.pool[0]) == (solution.offset[1], solution.pool[1])
    assert (solution.offset[2], solution.pool[2]) == (128, 1)
    assert not _share(table, solution, 2, 3)


def test_reuse_penalties_are_avoided_where_there_is_space() -> None:
    document = _document()
    document["problem"]["cost_model"] = {
        "reuse_penalties": [
            {"first": 7, "second": 8, "cost": 1, "reason": "generic"},
            {"first": 8, "second": 9, "cost": 40, "reason": "generic"},
        ]
    }
    for capacity, cost in ((1024, 0), (256 + 64, 1), (256, 41)):
        document["problem"]["pools"][0]["capacity"] = capacity
        table, solution = _solved(document)
        assert solution.fits
        better = with_less_reuse(table.problem, solution, table.costs)
        assert better.fits
        assert reuse_cost(table.problem, better, table.costs) == cost
        assert int((better.offset + table.problem.size).max()) <= capacity


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("schema_version",), 2, "expected 1"),
        (("extra",), 1, "unknown field `extra`"),
        (("problem", "pools"), [], "at least one pool"),
        (("problem", "buffers", 0, "size"), -1, "expected an integer"),
        (("problem", "buffers", 0, "allowed_pools"), [4], "unknown pool 4"),
        (("problem", "buffers", 1, "id"), 7, "given twice"),
        (("problem", "constraints", "separations"), [{"first": 7, "second": 1}], "two different buffers"),
        (("problem", "objective", "terms"), ["bank_cost"], "bank_cost"),
        (("problem", "pypto_structure"), {"whole_slot_reuse": True}, "not supported"),
    ],
    ids=str,
)
def test_what_is_refused(path: tuple[Any, ...], value: Any, message: str) -> None:
    document = copy.deepcopy(_document())
    at: Any = document
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = value
    with pytest.raises(HauloutError, match=message):
        parse_structured(json.dumps(document))


def test_invalid_json_names_the_place() -> None:
    with pytest.raises(HauloutError, match="invalid JSON"):
        parse_structured('{"schema_version": 1,')


def test_header_has_an_identifier_for_each_name() -> None:
    table, solution = _solved(_document())
    names = ["a.b", "a-b", "9"]
    text = outputs.to_header(table.problem, solution, names)
    defined = [line.split()[1] for line in text.splitlines() if line.startswith("#define")]
    assert len(set(defined)) == len(defined)
    offsets = [int(line.split()[2].removesuffix("ull")) for line in text.splitlines() if "_OFFSET " in line]
    assert offsets == solution.offset[:3].tolist()
    assert json.loads(outputs.to_json(table.problem, solution, names))["buffers"][2]["offset"] == np.int64(offsets[2])
