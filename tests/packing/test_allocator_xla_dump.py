"""XLA's buffer assignments: what is read from them, and that a plan which starts there is never worse."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tiers import examples

from haulout.packing import solve, violations
from haulout.packing.csvio import Table
from haulout.packing.readers import read_problem
from haulout.packing.xla_dump import parse_xla_dump
from haulout.support.diagnostics import HauloutError

ASSIGNMENT = """\
BufferAssignment:
allocation 0: size 32, parameter 0, shape |f32[8]| at ShapeIndex {}:
 value: <0 p.1 @0> (size=32,offset=0): f32[8]{0}
allocation 1: size 704, preallocated-temp:
 value: <1 copy.8 @0> (size=4,offset=0): s32[]
 value: <2 loop{0} (phi) @0> (size=4,offset=0): s32[]
 value: <3 add.3 @0> (size=4,offset=0): s32[]
 value: <4 fusion, "x" @0> (size=256,offset=64): (f32[64], s32[])
 value: <5 tanh @0> (size=200,offset=64): f32[50]{0}
 value: <6 dot.1 @0> (size=128,offset=320): f32[32]{0}
 value: <7 dot.2 @0> (size=256,offset=448): f32[64]{0}
allocation 2: size 4, constant:
 value: <8 c @0> (size=4,offset=0): s32[]

Total bytes used: 740 (740B)
"""
RANGES = """\
HloLiveRange (max 9):
  InstructionSequence:
    0:p.1
  BufferLiveRange:
    copy.8{}:0-3
    loop{0}:3-3
    add.3{}:7-8
    fusion, "x"{}:1-4
    tanh{}:4-8
    dot.1{}:2-3
    dot.2{}:5-8
    p.1{}:0-9
    c{}:0-9
  Live ranges at 4 (peak):
    tanh{}: 200 bytes (cumulative: 200 bytes)
"""


def test_what_is_read() -> None:
    table = parse_xla_dump(ASSIGNMENT, RANGES)
    assert table.ids == ("copy.8{}", "loop{0}", "add.3{}", 'fusion, "x"{}', "tanh{}", "dot.1{}", "dot.2{}")
    problem = table.problem
    assert problem.lower.tolist() == [0, 3, 7, 1, 4, 2, 5]
    assert problem.upper.tolist() == [4, 4, 9, 5, 9, 4, 9]
    assert problem.size.tolist() == [4, 4, 4, 256, 200, 128, 256]
    assert set(problem.alignment.tolist()) == {64}
    assert problem.rules.aliases == ((0, 1, 2),)
    assert problem.rules.in_place == ((3, 4),)
    assert table.hint is not None
    assert violations(problem, table.hint) == []


def test_plan_is_not_worse_than_xla() -> None:
    table = parse_xla_dump(ASSIGNMENT, RANGES)
    assert solve(table.problem, hint=table.hint).peak == 64 + 256 + 256


def test_one_file_of_older_versions(tmp_path: Path) -> None:
    old, new = tmp_path / "m.txt", tmp_path / "m-buffer-assignment.txt"
    old.write_text(ASSIGNMENT + "\n" + RANGES)
    new.write_text(ASSIGNMENT)
    (tmp_path / "m-live-range.txt").write_text(RANGES)
    assert read_problem(old).ids == read_problem(new).ids == parse_xla_dump(ASSIGNMENT, RANGES).ids


def test_memory_spaces_are_pools() -> None:
    two = (
        ASSIGNMENT
        + "allocation 3: size 64, color 1, preallocated-temp:\n value: <9 c @1> (size=64,offset=0): s32[]\n"
    )
    table = parse_xla_dump(two, RANGES)
    assert [pool.name for pool in table.problem.rules.pools] == ["color 0", "color 1"]
    assert solve(table.problem).pool.tolist() == [0] * 7 + [1]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("size=128,", "size=-,"), "line 10:"),
        (("allocation 1: size 704", "allocation x: size 704"), "line 4:"),
        (("dot.1 @0", "dot.9 @0"), "dot.9{}"),
        (("BufferAssignment:", "Assignment:"), "no line `BufferAssignment:`"),
        (("BufferLiveRange:", "Ranges:"), "has no live ranges"),
        (("copy.8{}:0-3", "copy.8{}:4-3"), "ends at 3, before its start 4"),
        (("offset=320", "offset=9000000000000000000"), "above 2**62"),
    ],
)
def test_malformed(change: tuple[str, str], message: str) -> None:
    with pytest.raises(HauloutError) as caught:
        parse_xla_dump(ASSIGNMENT.replace(*change), RANGES.replace(*change), "a.txt", "r.txt")
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code == "bad-input"
    assert message in diagnostic.message


def test_missing_ranges(tmp_path: Path) -> None:
    path = tmp_path / "m-buffer-assignment.txt"
    path.write_text(ASSIGNMENT)
    with pytest.raises(HauloutError, match=r"m-live-range\.txt"):
        read_problem(path)
    with pytest.raises(HauloutError, match="cannot read"):
        read_problem(tmp_path / "absent")


def dump(rows: list[tuple[int, int, int, int, bool]]) -> tuple[str, str]:
    """Texts from (first, last, offset, size, phi)."""
    lines = ["BufferAssignment:", "allocation 0: size 99999999, preallocated-temp:"]
    lives = ["  BufferLiveRange:"]
    for k, (first, last, offset, size, phi) in enumerate(rows):
        lines.append(f" value: <{k} v{k}{' (phi)' * phi} @0> (size={size},offset={offset}): f32[1]")
        lives.append(f"    v{k}{{}}:{first}-{last}")
    return "\n".join(lines), "\n".join(lives)


def tied(rows: list[tuple[int, int, int, int, bool]]) -> tuple[set[frozenset[int]], set[tuple[int, int]]]:
    """Alias groups and in-place pairs, by looking at all pairs of values."""
    group = [{k} for k in range(len(rows))]
    handed = []
    for a, (first, last, offset, size, _) in enumerate(rows):
        for b, (first2, last2, offset2, size2, _) in enumerate(rows):
            if a == b or offset != offset2:
                continue
            shared = min(last, last2) - max(first, first2)
            looping = size == size2 and any(r[4] and r[2] == offset and r[3] == size for r in rows)
            moment = shared == 0 and first < first2 and last == first2
            if looping or first == first2 or (shared >= 0 and not moment and not (first > first2 and last2 == first)):
                union = group[a] | group[b]
                for k in union:
                    group[k] = union
            elif moment:
                handed.append((a, b))
    pairs: dict[tuple[int, int], tuple[int, int]] = {}
    for a, b in sorted(handed):
        if group[a] is not group[b]:
            pairs.setdefault((min(group[a]), min(group[b])), (a, b))
    return {frozenset(each) for each in group if len(each) > 1}, set(pairs.values())


@settings(max_examples=examples(300))
@given(
    st.lists(
        st.tuples(
            st.integers(0, 5),
            st.sampled_from([0, 0, 1, 1, 2, 4]),
            st.sampled_from([0, 0, 64]),
            st.sampled_from([64, 128]),
            st.sampled_from([False] * 7 + [True]),
        ).map(lambda row: (row[0], row[0] + row[1], *row[2:])),
        max_size=9,
    )
)
def test_ties_are_those_of_all_pairs(rows: list[tuple[int, int, int, int, bool]]) -> None:
    rules = parse_xla_dump(*dump(rows)).problem.rules
    aliases, pairs = tied(rows)
    assert {frozenset(each) for each in rules.aliases} == aliases
    assert set(rules.in_place) == pairs


MANY = 100_000


@pytest.mark.thin(5, "20 s")
@pytest.mark.parametrize(
    ("rows", "aliases", "pairs", "peak"),
    [
        ([(0, 5, 0, 64, False)] * MANY, 1, 0, 64),
        ([(0, 5, 0, 64, False)] * (MANY // 2) + [(5, 9, 0, 64, False)] * (MANY // 2), 2, 1, 64),
        ([(k, k + 1, 0, 64, False) for k in range(MANY)], 0, MANY - 1, 64),
        ([(k, 2 * MANY - k, 0, k % 64 + 1, k % 7 == 0) for k in range(MANY)], 1, 0, 64),
        ([(0, 5, 64 * k, 64, False) for k in range(MANY)], 0, 0, 64 * MANY),
    ],
    ids=["one life", "two lives", "handed on", "nested", "side by side"],
)
def test_a_hundred_thousand_tied_values(
    rows: list[tuple[int, int, int, int, bool]], aliases: int, pairs: int, peak: int
) -> None:
    table = parse_xla_dump(*dump(rows))
    assert (len(table.problem.rules.aliases), len(table.problem.rules.in_place)) == (aliases, pairs)
    assert solve(table.problem, hint=table.hint).peak == peak


@settings(max_examples=examples(200))
@given(st.data())
def test_fuzz(data: st.DataObject) -> None:
    """Any damaged dump is read, or refused with a diagnostic."""
    texts = []
    for text in (ASSIGNMENT, RANGES):
        lines = text.splitlines()
        for _ in range(data.draw(st.integers(0, 3))):
            at = data.draw(st.integers(0, len(lines) - 1))
            lines[at] = data.draw(
                st.one_of(
                    st.text(max_size=12), st.sampled_from(lines), st.just(lines[at].replace("4", "99999999999"))
                )
            )
        texts.append("\n".join(lines))
    try:
        table = parse_xla_dump(*texts)
    except HauloutError as error:
        assert all(each.code == "bad-input" for each in error.diagnostics)
    else:
        assert isinstance(table, Table)
        solve(table.problem, hint=table.hint, effort=0)


PROGRAM = """
import jax, jax.numpy as jnp
def body(c, _):
    c = jnp.tanh(c @ c.T) @ c
    return c, c.sum()
jax.jit(lambda x: jax.lax.scan(body, x, None, length=4)).lower(jnp.ones((32, 64))).compile()
"""


@pytest.mark.jax
def test_dump_of_the_installed_xla(tmp_path: Path) -> None:
    pytest.importorskip("jax")
    environment = {
        "XLA_FLAGS": f"--xla_dump_to={tmp_path}",
        "JAX_PLATFORMS": "cpu",
        "PATH": "",
        "HOME": str(tmp_path),
    }
    subprocess.run([sys.executable, "-c", PROGRAM], env=environment, check=True, timeout=300)
    paths = sorted(tmp_path.glob("*-buffer-assignment.txt"))
    assert paths
    for path in paths:
        table = read_problem(path)
        assert table.hint is not None
        assert violations(table.problem, table.hint) == []
        xla = int((table.hint + table.problem.reserved).max(initial=0))
        assert solve(table.problem, hint=table.hint).peak <= xla
