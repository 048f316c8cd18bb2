"""CSV in and out: headers of MiniMalloc, gaps, round trips, and messages for what is malformed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.packing.strategies import problems
from tests.tiers import examples

from haulout.packing import Problem, solve
from haulout.packing.csvio import Table, parse_csv, read_csv, to_csv, write_csv
from haulout.support.diagnostics import HauloutError


def columns(problem: Problem) -> list[list[int]]:
    return [getattr(problem, name).tolist() for name in ("lower", "upper", "owner", "size", "alignment")]


def test_both_headers_say_the_same() -> None:
    half_open = parse_csv("id,lower,upper,size\na,0,4,16\nb,4,9,32\n")
    inclusive = parse_csv("size,end,start,buffer\n16,3,0,a\n\n32,8,4,b\n")
    assert half_open.ids == inclusive.ids == ("a", "b")
    assert columns(half_open.problem) == columns(inclusive.problem)


def test_gaps_are_holes() -> None:
    table = parse_csv("id,lower,upper,size,alignment,gaps\nx,0,100,8,,20-30 50-60@0:4 90-120\ny,20,30,8,4,\n")
    problem = table.problem
    assert columns(problem) == [[0, 30, 50, 60, 20], [20, 50, 60, 90, 30], [0, 0, 0, 0, 1], [8, 8], [1, 4]]
    assert [each.tolist() for each in problem.windows] == [[0, 0, 0, 0, 0], [8, 8, 4, 8, 8]]
    assert solve(problem).peak == 8


def test_windows_are_written_back() -> None:
    text = "id,lower,upper,size,gaps\nx,0,9,8,2-3 4-6@1:5 6-7@0:0\ny,0,9,4,\n"
    table = parse_csv(text)
    assert to_csv(table.problem, ids=table.ids) == text


def test_inclusive_gaps() -> None:
    table = parse_csv("id,start,end,size,gaps\nx,0,99,8,20-29\n")
    assert columns(table.problem)[:2] == [[0, 30], [20, 100]]


def test_a_range_that_is_all_gap() -> None:
    table = parse_csv("id,lower,upper,size,gaps\nx,5,9,8,0-20\n")
    assert columns(table.problem)[:2] == [[9], [9]]
    assert solve(table.problem).peak == 0


def test_offset_and_hint() -> None:
    table = parse_csv("id,lower,upper,size,offset,hint\na,0,1,8,64,\nb,0,1,8,,16\n")
    assert table.offset is not None and table.offset.tolist() == [64, -1]
    assert table.hint is not None and table.hint.tolist() == [-1, 16]


@pytest.mark.parametrize(
    ("text", "line", "column", "message"),
    [
        ("", 1, 0, "no header"),
        ("id,lower,upper\n", 1, 0, "`size` is missing"),
        ("id,lower,start,upper,size\n", 1, 0, "`lower` is given twice"),
        ("id,lower,upper,size,color\n", 1, 0, "unknown column `color`"),
        ("id,lower,upper,size\na,0,4,16\nb,0,4\n", 3, 0, "3 fields, the header has 4"),
        ("id,lower,upper,size\na,0,4,16\nb,0,4x,16\n", 3, 5, "column `upper`: `4x` is not an integer"),
        ("id,lower,upper,size\na,,4,16\n", 2, 3, "column `lower`: `` is not an integer"),
        ("id,lower,upper,size\na,5,4,16\n", 2, 5, "ends at 4, before its start 5"),
        ("id,lower,upper,size\na,0,4,-1\n", 2, 7, "-1 is not between 0"),
        ("id,lower,upper,size\na,0,4,4611686018427387905\n", 2, 7, "is not between 0"),
        ("id,lower,upper,size\na,0,4,٣\n", 2, 7, "is not an integer"),
        ("id,lower,upper,size,alignment\na,0,4,1,0\n", 2, 9, "column `alignment`: 0 is not between 1"),
        ("id,lower,upper,size,gaps\na,0,4,1,1-2 3\n", 2, 9, "`3` is not a gap"),
        ("id,lower,upper,size,gaps\na,0,4,1,2-1\n", 2, 9, "gap ends at 1, before its start 2"),
        ("id,lower,upper,size,gaps\na,0,4,1,1-2@3\n", 2, 9, "`1-2@3` is not a gap"),
        ("id,lower,upper,size,gaps\na,0,4,9,1-2@3:1\n", 2, 9, "the window ends at 1, before its start 3"),
        ("id,lower,upper,size,gaps\na,0,4,9,1-2@3:10\n", 2, 9, "10 is not between 0 and 9"),
        ("id,lower,upper,size,gaps\na,0,4,9,1-3@0:1 2-4@0:1\n", 2, 9, "two gaps with windows overlap at 2"),
    ],
)
def test_malformed(text: str, line: int, column: int, message: str) -> None:
    with pytest.raises(HauloutError) as caught:
        parse_csv(text, "p.csv")
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code == "bad-input"
    assert message in diagnostic.message
    assert diagnostic.span is not None
    assert (diagnostic.span.file, diagnostic.span.line, diagnostic.span.column) == ("p.csv", line, column)


def test_unreadable_file(tmp_path: Path) -> None:
    with pytest.raises(HauloutError, match="cannot read"):
        read_csv(tmp_path / "absent.csv")
    (tmp_path / "latin.csv").write_bytes(b"id,lower,upper,size\n\xff,0,1,2\n")
    with pytest.raises(HauloutError, match=r"latin\.csv:2: .*not UTF-8"):
        read_csv(tmp_path / "latin.csv")


@given(problems(most=12, holes=True))
def test_round_trip(problem: Problem) -> None:
    offset = solve(problem).offset
    table = parse_csv(to_csv(problem, offset))
    assert columns(table.problem) == columns(problem)
    assert table.offset is not None and table.offset.tolist() == offset.tolist()


def test_round_trip_of_names(tmp_path: Path) -> None:
    problem = Problem.of([0, 0], [1, 1], [3, 4])
    write_csv(tmp_path / "p.csv", problem, np.array([0, 3]), ['a,"b"', "c"])
    assert read_csv(tmp_path / "p.csv").ids == ('a,"b"', "c")


FIELD = st.one_of(
    st.sampled_from(
        ["id", "lower", "end", "size", "gaps", "1-2", "1-2@0:3", "", "-1", "7", '"', "\r", "\x00", "9" * 30]
    ),
    st.text(max_size=4),
)


@settings(max_examples=examples(300))
@given(
    st.sampled_from(["", "id,lower,upper,size\n", "id,start,end,size,gaps,offset\n"]),
    st.lists(st.lists(FIELD, max_size=7).map(",".join), max_size=5).map("\n".join),
)
@example("", "\ufeffid,lower,upper,size\na,0,1,2")
def test_fuzz(header: str, body: str) -> None:
    """Any text is read, or refused with a diagnostic."""
    try:
        table = parse_csv(header + body)
    except HauloutError as error:
        assert all(diagnostic.code == "bad-input" for diagnostic in error.diagnostics)
    else:
        assert isinstance(table, Table)
        assert len(table.ids) == len(table.problem)
