"""Options of passes: the type of a field decides, from Python as from text, in passes of ours and of others."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, NewType, Optional

import numpy as np
import pytest
from tests.cli.command import FIXED, haulout

from haulout import HauloutError, Program, check, compile, load
from haulout.ir.text import parse_bir
from haulout.passes.base import Pass, PassContext
from haulout.passes.coloring_allocator_dram_shared import ColoringAllocatorDramShared
from haulout.passes.extend_shared_lifetimes import ExtendSharedLifetimes
from haulout.passes.lower_sync import LowerSync
from haulout.passes.manager import PassManager
from haulout.passes.options import Between, type_text
from haulout.passes.pipeline import REGISTRY, parse_pipeline, standard_pipeline

if TYPE_CHECKING:
    from decimal import Decimal

SMALL = 'bir 1\nprogram "p" lnc=1\nmodule @nc0 core=0 {\n  func @main {\n    block ^e:\n  }\n}\n'
Rows = NewType("Rows", int)


class Mode(enum.Enum):
    FAST = "fast"
    SLOW = "slow"


@dataclass(frozen=True)
class Outside(Pass):
    """A pass that is not of this package: its annotations are strings, as everywhere in this file."""

    name: ClassVar[str] = "outside"
    unread: ClassVar[Decimal | None] = None  # names what is not imported when it runs, and is no option
    ratio: float = 0.5
    depth: int = 3
    deep: bool = False
    label: str = "x"
    folder: Path | None = None
    mode: Mode = Mode.FAST
    level: Literal[1, 2, "all"] = 1
    share: Annotated[float, Between(0, 1)] | None = None
    either: int | float = 1
    old: Optional[int] = None  # noqa: UP045
    tiles: tuple[int, ...] = ()
    pair: tuple[int, str] = (1, "a")
    names: Sequence[str] = field(default_factory=list)
    rows: Rows = Rows(1)
    table: dict[str, int] = field(default_factory=dict)
    sloppy: int = None  # type: ignore[assignment]

    def run(self, program: Program, context: PassContext) -> Program:
        return program


@dataclass(frozen=True)
class OwnInit(Outside):
    """Its own `__post_init__` forgets that of `Pass`."""

    name: ClassVar[str] = "own_init"
    extra: int = 0

    def __post_init__(self) -> None:
        pass


@dataclass(frozen=True)
class Unreadable(Pass):
    name: ClassVar[str] = "unreadable"
    exact: Decimal | None = None


def message(error: pytest.ExceptionInfo[HauloutError]) -> str:
    (finding,) = error.value.diagnostics
    assert finding.code == "bad-input"
    return finding.message


WRONG: list[tuple[str, Any, str]] = [
    ("ratio", "0.5", "must be a number, found '0.5'"),
    ("ratio", True, "must be a number, found True"),
    ("ratio", None, "must be a number, found None"),
    ("ratio", 10**400, "must be a number, found 1000"),
    ("depth", 3.0, "must be an integer, found 3.0"),
    ("depth", True, "must be an integer, found True"),
    ("depth", "3", "must be an integer, found '3'"),
    ("deep", 1, "must be true or false, found 1"),
    ("deep", "true", "must be true or false, found 'true'"),
    ("label", 5, "must be a string, found 5"),
    ("label", None, "must be a string, found None"),
    ("folder", 5, "must be a path or none, found 5"),
    ("mode", "medium", "must be one of fast, slow, found 'medium'"),
    ("mode", 1, "must be one of fast, slow, found 1"),
    ("level", True, "must be one of 1, 2, all, found True"),
    ("level", "none", "must be one of 1, 2, all, found 'none'"),
    ("level", 3, "must be one of 1, 2, all, found 3"),
    ("share", 1.5, "must be a number from 0 to 1 or none, found 1.5"),
    ("share", float("nan"), "must be a number from 0 to 1 or none, found nan"),
    ("either", "1", "must be an integer or a number, found '1'"),
    ("old", 2.5, "must be an integer or none, found 2.5"),
    ("tiles", 4, "must be a list of an integer, found 4"),
    ("tiles", (1, True), "must be a list of an integer, found (1, True)"),
    ("pair", (1,), "must be a list of an integer, a string, found (1,)"),
    ("pair", (1, 2), "must be a list of an integer, a string, found (1, 2)"),
    ("names", "abc", "must be a list of a string, found 'abc'"),
    ("rows", "1", "found '1'"),
    ("table", {"a": "b"}, "found {'a': 'b'}"),
    ("sloppy", "1", "must be an integer, found '1'"),
]


@pytest.mark.parametrize(("option", "value", "told"), WRONG)
def test_a_wrong_value_is_refused_when_the_pass_is_made(option: str, value: Any, told: str) -> None:
    with pytest.raises(HauloutError) as error:
        Outside(**{option: value})
    assert message(error).startswith(f"outside: option {option} ")
    assert told in message(error)
    with pytest.raises(HauloutError):
        replace(Outside(), **{option: value})


@pytest.mark.parametrize(("option", "value", "told"), WRONG)
def test_a_pass_with_its_own_init_is_refused_before_anything_runs(option: str, value: Any, told: str) -> None:
    ran: list[str] = []
    manager = PassManager([LowerSync(), OwnInit(**{option: value})], on_pass=lambda record: ran.append(record.name))
    with pytest.raises(HauloutError) as error:
        manager.run(parse_bir(SMALL), PassContext())
    assert message(error).startswith(f"own_init: option {option} ")
    assert told in message(error)
    assert ran == []


@pytest.mark.parametrize(
    ("option", "value", "taken"),
    [
        ("ratio", 0.25, 0.25),
        ("ratio", 2, 2.0),
        ("ratio", np.float32(0.5), 0.5),
        ("depth", -7, -7),
        ("depth", np.int64(4), 4),
        ("deep", np.bool_(True), True),
        ("folder", Path("a"), Path("a")),
        ("folder", "a/b", Path("a/b")),
        ("mode", Mode.SLOW, Mode.SLOW),
        ("mode", "slow", Mode.SLOW),
        ("level", "all", "all"),
        ("share", 1, 1.0),
        ("share", None, None),
        ("either", 2, 2),
        ("either", 2.5, 2.5),
        ("old", 4, 4),
        ("tiles", [1, 2], (1, 2)),
        ("pair", (2, "b"), (2, "b")),
        ("names", ["a"], ["a"]),
        ("rows", 5, 5),
        ("table", {"a": 1}, {"a": 1}),
        ("sloppy", None, None),
    ],
)
def test_a_right_value_is_taken_as_the_type_wants_it(option: str, value: Any, taken: Any) -> None:
    found = getattr(Outside(**{option: value}), option)
    assert found == taken
    assert type(found) is type(taken)


def test_text_makes_the_same_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(REGISTRY, "outside", Outside)
    text = 'ratio=0.25 depth=-7 deep=true label="a}b, c" folder=a.b mode=slow level=2 share=1 old=none tiles=[1,2]'
    assert parse_pipeline(f"lower_sync,outside{{{text}}}") == [
        LowerSync(),
        Outside(0.25, -7, True, "a}b, c", Path("a.b"), Mode.SLOW, 2, 1.0, old=None, tiles=(1, 2)),
    ]
    for wrong in ("ratio=high", "depth=1.5", "deep=1", "level=3", "share=nan", "old=some", "tiles=[1,x]", "folder=1"):
        with pytest.raises(HauloutError) as error:
            parse_pipeline(f"outside{{{wrong}}}")
        assert message(error).startswith(f"outside: option {wrong.partition('=')[0]} must be ")


def test_an_annotation_that_names_nothing_is_told() -> None:
    with pytest.raises(HauloutError, match="unreadable: the type of option exact cannot be read: name 'Decimal'"):
        Unreadable()


def test_a_value_that_cannot_be_shown_is_told() -> None:
    class Odd:
        def __repr__(self) -> str:
            raise ZeroDivisionError

    with pytest.raises(HauloutError, match="found a value of type Odd"):
        Outside(depth=Odd())  # type: ignore[arg-type]
    with pytest.raises(HauloutError, match=r"found 'aaa.*\.\.\. \(1000002 characters\)"):
        Outside(depth="a" * 10**6)  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [-1, 2**62 + 1, 10**30, 2.5, float("nan"), True, "64", [64]])
def test_a_capacity_is_a_number_of_bytes(value: Any) -> None:
    told = r"capacity must be an integer from 0 to 4611686018427387904 \(2\*\*62\) or none"
    for make in (
        lambda: ColoringAllocatorDramShared(capacity=value),
        lambda: ExtendSharedLifetimes(capacity=value),
        lambda: standard_pipeline(capacity=value),
        lambda: compile(FIXED, capacity=value),
    ):
        with pytest.raises(HauloutError, match=told) as error:
            make()
        assert error.value.diagnostics[0].code == "bad-input"


@pytest.mark.parametrize("option", ["fences", "partitions", "sync"])
def test_choices_of_compile(option: str) -> None:
    """Refused before the source is read."""
    with pytest.raises(HauloutError, match=f"{option} must be one of .*, found 'best'") as error:
        compile("no/such/file.bir", **{option: "best"})  # type: ignore[arg-type]
    assert error.value.diagnostics[0].code == "bad-input"


@pytest.mark.parametrize(
    ("option", "value", "told"),
    [
        ("level", 4, "level must be an integer from 0 to 3, found 4"),
        ("level", True, "level must be an integer from 0 to 3"),
        ("split", "axis=0", "option split must be a list of a string, found 'axis=0'"),
        ("split", [0], "option split must be a list of a string"),
        ("split", ["axis=x"], "split must be axis=DIM or NAME=DIM, found 'axis=x'"),
    ],
)
def test_levels_and_cuts(option: str, value: Any, told: str) -> None:
    """Refused before the source is read."""
    with pytest.raises(HauloutError, match=told) as error:
        compile("no/such/file.bir", **{option: value})
    assert error.value.diagnostics[0].code == "bad-input"


def test_the_largest_capacity_can_be_read_back(tmp_path: Path) -> None:
    assert haulout("compile", FIXED, "-q", "--capacity", str(2**62), "-o", tmp_path).status == 0
    assert f"capacity={2**62}" in (tmp_path / "program.bir").read_text()
    assert haulout("check", tmp_path / "program.bir").status == 0


@pytest.mark.parametrize("value", [str(2**62 + 1), "9" * 400, "-1", "nan", "1.5"])
def test_a_capacity_on_the_command_line(value: str, tmp_path: Path) -> None:
    for command in ("compile", "plan"):
        result = haulout(command, FIXED, "--capacity", value, "-o", tmp_path / "out")
        assert result.status == 2
        assert "'--capacity'" in result.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("value", [0, 1025, 10**30, True, "2", 2.0])
def test_a_number_of_cores(value: Any, tmp_path: Path) -> None:
    source = tmp_path / "one.bir"
    source.write_text(SMALL)
    for door in (load, compile, check):
        with pytest.raises(HauloutError, match="lnc must be an integer from 1 to 1024 or none, found"):
            door(source, lnc=value)
    if value != "2":  # on the command line everything is a string
        for command in ("check", "compile", "opt"):
            result = haulout(command, source, "--lnc", str(value))
            assert (result.status, result.stdout) == (2, "")
            assert "'--lnc'" in result.stderr


def test_types_as_text() -> None:
    assert type_text(Annotated[int, Between(1, 2**40)]) == "an integer from 1 to 1099511627776 (2**40)"
    assert type_text(Literal["only"]) == "only"
    assert type_text(list[int] | None) == "a list of an integer or none"
