"""Participants of barriers, of any number of cores: text, tables, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.checker.snippets import program as snippet

from haulout.checker import check_program
from haulout.ir.core_sets import core_sets, set_cores, set_text, sets_without
from haulout.ir.enums import NONE
from haulout.ir.program import Program
from haulout.ir.store import load_program, save_program
from haulout.ir.strings import StringTable
from haulout.ir.text import parse_bir, print_bir
from haulout.ir.verify import verify
from haulout.support.diagnostics import HauloutError


def met(cores: int, members: list[int], *, absent: int = NONE) -> Program:
    """A barrier of some of the cores on each of them, but one."""
    line = f'%m = core_barrier @pool () -> () name="m" cores={str(members).replace(" ", "")}'
    return snippet(*(line if core in members and core != absent else "" for core in range(cores)))


def test_sets_are_numbered_in_the_order_of_masks() -> None:
    strings = StringTable()
    texts = [strings.intern(text) for text in ("[0,99]", "[1]", "[0,1]", "[2]")]
    found = core_sets(np.array([*texts, NONE, texts[1]], np.int32), strings, 100)
    assert found.members[:-1] == [(1,), (0, 1), (2,), (0, 99)]
    assert found.members[found.everyone] == tuple(range(100))
    assert found.of.tolist() == [3, 0, 1, 2, 4, 0]
    assert found.full.tolist() == [False] * 4 + [True, False]
    assert found.has(np.array([99, 99, 1, 2, 99, 1])).tolist() == [True, False, True, True, True, True]


def test_a_set_that_names_all_cores_is_all_cores() -> None:
    strings = StringTable(["[0,1,2]"])
    found = core_sets(np.array([0, NONE], np.int32), strings, 3)
    assert found.members == [(0, 1, 2)]
    assert found.full.all()


def test_a_core_less() -> None:
    strings = StringTable(["[0,70]", "[5]", "[6,7]"])
    found = sets_without(np.array([0, 1, 2, NONE], np.int32), strings, 5)
    assert [strings.get(each) for each in found.tolist()] == ["[0,69]", None, "[5,6]", None]


def test_text_and_set() -> None:
    assert set_text([70, 1, 1, 0]) == "[0,1,70]"
    assert set_cores("[0,1,70]") == (0, 1, 70)
    assert set_cores("some") == ()


@pytest.mark.parametrize("cores", [2, 64, 65, 130])
def test_barriers_of_some_cores_round_trip(cores: int, tmp_path: Path) -> None:
    made = met(cores, [0, cores - 1])
    text = print_bir(made)
    assert f"cores=[0,{cores - 1}]" in text
    assert print_bir(parse_bir(text)) == text
    save_program(made, tmp_path / "p.npz")
    assert print_bir(load_program(tmp_path / "p.npz")) == text
    assert check_program(made) == []


@pytest.mark.parametrize("absent", [0, 64, 129])
def test_a_participant_above_64_is_missed(absent: int) -> None:
    """64 would be core 0 in a mask of 64 bits, and 129 core 1."""
    found = check_program(met(130, [0, 64, 129], absent=absent))
    assert {each.code for each in found} == {"barrier-mismatch"}
    assert all(f"core {absent} has none there" in each.message for each in found)


def test_an_outsider_above_64() -> None:
    line = '%m = core_barrier @pool () -> () name="m" cores=[0,1]'
    (finding,) = check_program(snippet(*(line if core in (0, 1, 65) else "" for core in range(66))))
    assert "is on core 65, but its participants are [0, 1]" in finding.message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[0,2]", "a participant is not a core of lnc=2"),
        ("[1,0]", "no list of cores that rise"),
        ("[]", "no list of cores that rise"),
        ("[-1,0]", "a participant is not a core of lnc=2"),
        ("all", "no list of cores that rise"),
    ],
)
def test_sets_that_a_table_cannot_mean(text: str, message: str) -> None:
    program = met(2, [0, 1])
    wrong = np.full(2, program.strings.intern(text), np.int32)
    (finding,) = verify(program.replace(barriers=program.barriers.replace(cores=wrong)))
    assert finding.code == "bad-input"
    assert message in finding.message


def test_no_participants_in_a_text() -> None:
    with pytest.raises(HauloutError, match="expected at least one core"):
        parse_bir(print_bir(met(2, [0, 1])).replace("cores=[0,1]", "cores=[]"))
