"""Structured problems as JSON: schema version 1 of `dsa-problem` documents.

    {"schema_version": 1, "profile": ..., "instance": ..., "metadata": {...}, "problem": {
       "pools":       [{"id", "name", "capacity": bytes or null, "reserved_ranges": [{"begin", "end"}]}],
       "buffers":     [{"id", "name", "size", "alignment", "live_intervals": [{"lower", "upper"}], "allowed_pools"}],
       "constraints": {"colocations", "separations", "temporal_exclusions", "pinned_allocations"},
       "cost_model":  {"reuse_penalties": [{"first", "second", "cost", "reason"}]},
       "objective":   {"aggregation": "lexicographic", "terms": [...]}}}

    colocation       aliases: equal pool and offset
    separation       both buffers are live at one more moment, after all others, so they share no byte
    reserved range   a pinned buffer that is always live
    pinned for all   the same for the buffer itself
    exclusion        not used: such buffers conflict here if they are live together, which is safe
    reuse penalty    a cost if two buffers share bytes at different times: the second objective (`penalties.py`)

Unknown fields, versions and what cannot be honoured are refused.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NoReturn

from haulout.packing.csvio import Table
from haulout.packing.problem import LIMIT, Problem
from haulout.packing.rules import Pool, Rules
from haulout.support.diagnostics import Label, Span, bad_input

VERSION = 1
_TERMS = ("capacity_overflow", "total_peak", "max_peak", "reuse_cost")


@dataclass(frozen=True, slots=True)
class _Reader:
    file: str

    def wrong(self, where: str, message: str) -> NoReturn:
        bad_input(f"{where}: {message}", Label("this file", Span(self.file)))

    def table(self, value: Any, where: str, required: Iterable[str], optional: Iterable[str] = ()) -> dict[str, Any]:
        if not isinstance(value, dict):
            self.wrong(where, "expected an object")
        known = {*required, *optional}
        for name in value:
            if name not in known:
                self.wrong(where, f"unknown field `{name}`")
        for name in required:
            if name not in value:
                self.wrong(where, f"field `{name}` is missing")
        return value

    def items(self, value: Any, where: str) -> list[Any]:
        if not isinstance(value, list):
            self.wrong(where, "expected an array")
        return value

    def number(self, value: Any, where: str, least: int = 0) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= LIMIT:
            self.wrong(where, f"expected an integer between {least} and 2**62")
        return value

    def text(self, value: Any, where: str) -> str:
        if not isinstance(value, str):
            self.wrong(where, "expected a string")
        return value


def parse_structured(text: str, file: str = "<json>") -> Table:
    """The problem of a document, and the names of its buffers. Raises `HauloutError` (`bad-input`).

    Reserved ranges are buffers at the end, without a name of the document; `Table.own` counts the document's own.
    """
    read = _Reader(file)
    try:
        root = json.loads(text)
    except (ValueError, RecursionError) as error:
        line, column = getattr(error, "lineno", 0), getattr(error, "colno", 0)
        bad_input(f"invalid JSON: {getattr(error, 'msg', error)}", Label("here", Span(file, line, column)))
    read.table(
        root,
        "document",
        ("schema_version", "problem"),
        ("profile", "instance", "metadata", "relaxed_from", "relaxed_features"),
    )
    if root["schema_version"] != VERSION or isinstance(root["schema_version"], bool):
        read.wrong("schema_version", f"expected {VERSION}")
    body = read.table(
        root["problem"],
        "problem",
        ("pools", "buffers"),
        ("constraints", "cost_model", "pypto_structure", "objective"),
    )
    if isinstance(body.get("pypto_structure"), dict) and body["pypto_structure"].get("whole_slot_reuse"):
        read.wrong("problem.pypto_structure", "whole_slot_reuse is not supported")
    objective = body.get("objective", {"terms": ["total_peak"]})
    read.table(objective, "problem.objective", ("terms",), ("aggregation",))
    for term in read.items(objective["terms"], "problem.objective.terms"):
        if term not in _TERMS:
            read.wrong("problem.objective.terms", f"expected one of {', '.join(_TERMS)}, found {term!r}")
    return _problem(read, body)


def _problem(read: _Reader, body: dict[str, Any]) -> Table:
    pools: list[Pool] = []
    pool_of: dict[int, int] = {}
    reserved: list[tuple[int, int, int]] = []
    for k, value in enumerate(read.items(body["pools"], "problem.pools")):
        where = f"problem.pools[{k}]"
        read.table(value, where, ("id",), ("name", "capacity", "reserved_ranges", "bank_geometry"))
        number = read.number(value["id"], f"{where}.id")
        if number in pool_of:
            read.wrong(where, f"pool {number} is given twice")
        pool_of[number] = k
        limit = value.get("capacity")
        name = read.text(value.get("name", str(number)), f"{where}.name")
        pools.append(Pool(name, None if limit is None else read.number(limit, f"{where}.capacity")))
        for part in read.items(value.get("reserved_ranges", []), f"{where}.reserved_ranges"):
            read.table(part, f"{where}.reserved_ranges", ("begin", "end"))
            begin, end = (read.number(part[side], f"{where}.reserved_ranges") for side in ("begin", "end"))
            if end < begin:
                read.wrong(f"{where}.reserved_ranges", f"the range ends at {end}, before its start {begin}")
            reserved.append((k, begin, end))
    if not pools:
        read.wrong("problem.pools", "expected at least one pool")

    ids: list[str] = []
    row_of: dict[int, int] = {}
    size: list[int] = []
    alignment: list[int] = []
    allowed: list[tuple[int, ...]] = []
    ranges: list[tuple[int, int, int]] = []  # lower, upper, buffer
    for k, value in enumerate(read.items(body["buffers"], "problem.buffers")):
        where = f"problem.buffers[{k}]"
        read.table(value, where, ("id", "size", "live_intervals"), ("name", "alignment", "allowed_pools"))
        number = read.number(value["id"], f"{where}.id")
        if number in row_of:
            read.wrong(where, f"buffer {number} is given twice")
        row_of[number] = k
        ids.append(read.text(value.get("name", str(number)), f"{where}.name") or str(number))
        size.append(read.number(value["size"], f"{where}.size"))
        alignment.append(read.number(value.get("alignment", 1), f"{where}.alignment", 1))
        listed = read.items(value.get("allowed_pools", list(pool_of)), f"{where}.allowed_pools")
        for each in listed:
            if isinstance(each, bool) or each not in pool_of:
                read.wrong(f"{where}.allowed_pools", f"unknown pool {each!r}")
        allowed.append(tuple(dict.fromkeys(pool_of[each] for each in listed)))
        for part in read.items(value["live_intervals"], f"{where}.live_intervals"):
            read.table(part, f"{where}.live_intervals", ("lower", "upper"))
            lower, upper = (read.number(part[s], f"{where}.live_intervals", -LIMIT // 2) for s in ("lower", "upper"))
            ranges.append((lower, upper, k))
        if not value["live_intervals"]:
            ranges.append((0, 0, k))

    def pair(value: Any, where: str, *more: str) -> tuple[int, int]:
        read.table(value, where, ("first", "second"), more)
        found = [row_of.get(value[side]) if isinstance(value[side], int) else None for side in ("first", "second")]
        if found[0] is None or found[1] is None or found[0] == found[1]:
            read.wrong(where, "expected two different buffers of the problem")
        return found[0], found[1]

    rules = read.table(
        body.get("constraints", {}),
        "problem.constraints",
        (),
        ("colocations", "separations", "temporal_exclusions", "pinned_allocations"),
    )

    def listed_in(name: str) -> list[Any]:
        return read.items(rules.get(name, []), f"problem.constraints.{name}")

    colocated = [pair(each, "problem.constraints.colocations") for each in listed_in("colocations")]
    apart = [pair(each, "problem.constraints.separations", "reasons") for each in listed_in("separations")]
    for each in listed_in("temporal_exclusions"):
        pair(each, "problem.constraints.temporal_exclusions")
    first = min((lower for lower, _, _ in ranges), default=0)
    last = max((upper for _, upper, _ in ranges), default=0)
    apart = sorted({(min(each), max(each)) for each in apart})
    end = last + len(apart)
    for number, (one, two) in enumerate(apart):
        ranges += [(last + number, last + number + 1, one), (last + number, last + number + 1, two)]
    pinned = [-1] * len(ids)
    for each in listed_in("pinned_allocations"):
        where = "problem.constraints.pinned_allocations"
        read.table(each, where, ("buffer", "pool", "offset"), ("exclusive_for_all_time",))
        if each["buffer"] not in row_of or each["pool"] not in pool_of:
            read.wrong(where, "expected a buffer and a pool of the problem")
        row = row_of[each["buffer"]]
        if pinned[row] >= 0:
            read.wrong(where, f"buffer {each['buffer']} is pinned twice")
        pinned[row] = read.number(each["offset"], f"{where}.offset")
        allowed[row] = (pool_of[each["pool"]],)
        if each.get("exclusive_for_all_time", False):
            ranges.append((first, end, row))
    own = len(ids)
    for pool, begin, stop in reserved:
        if stop > begin:
            ranges.append((first, max(end, first + 1), len(size)))
            ids.append(f"reserved range {begin} to {stop} of {pools[pool].name}")
            size.append(stop - begin)
            alignment.append(1)
            pinned.append(begin)
            allowed.append((pool,))
    model = read.table(body.get("cost_model", {}), "problem.cost_model", (), ("reuse_penalties",))
    costs: list[tuple[int, int, int]] = []
    for each in read.items(model.get("reuse_penalties", []), "problem.cost_model.reuse_penalties"):
        where = "problem.cost_model.reuse_penalties"
        one, two = pair(each, where, "cost", "reason")
        costs.append((one, two, read.number(each.get("cost"), f"{where}.cost")))
    lower_column, upper_column, owner = zip(*ranges, strict=True) if ranges else ((), (), ())
    plain = len(pools) == 1 and pools[0].capacity is None and not colocated
    problem = Problem.of(
        lower_column,
        upper_column,
        size,
        alignment,
        pinned=pinned,
        owner=owner,
        rules=Rules(pools=tuple(pools))
        if plain
        else Rules(aliases=_groups(colocated, len(size)), pools=tuple(pools), allowed=tuple(allowed)),
    )
    return Table(problem, tuple(ids), problem.pinned, None, own, tuple(costs))


def _groups(pairs: list[tuple[int, int]], count: int) -> tuple[tuple[int, ...], ...]:
    """The classes of buffers that pairs join."""
    leader = list(range(count))

    def find(row: int) -> int:
        while leader[row] != row:
            leader[row] = leader[leader[row]]
            row = leader[row]
        return row

    for one, two in pairs:
        leader[find(two)] = find(one)
    groups: dict[int, list[int]] = {}
    for row in range(count):
        groups.setdefault(find(row), []).append(row)
    return tuple(tuple(group) for group in groups.values() if len(group) > 1)
