"""Comments that accept findings, races of one pair of lines, and arguments that are not read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.command import haulout
from tests.frontends.nki.nki_kernels import TWO_CORE, checked, codes, write_kernel

import haulout.nki as hnki
from haulout.nki.grouping import by_lines
from haulout.support.diagnostics import Diagnostic, Entity, Label, Severity, Span, Subject

X = {"x": hnki.tensor("f32", 2, 512)}
RACE = TWO_CORE.format(meet="")
READ = "nisa.dma_copy(dst=both, src=shared)"
WRITE = "nisa.dma_copy(dst=shared[core : core + 1, :], src=mine)"


def suppressed(folder: Path, line: str, comment: str) -> str:
    """A kernel with a race and a comment on one line."""
    assert line in RACE
    return write_kernel(folder, RACE.replace(line, f"{line}  # {comment}"))


@pytest.mark.parametrize("line", [READ, WRITE])
def test_a_comment_on_either_line_accepts_a_race(line: str, tmp_path: Path) -> None:
    kernel = suppressed(tmp_path, line, "haulout: ignore[cross-core-race] one core runs first")
    found = hnki.check_kernel(kernel, X)
    assert codes(found) == []
    assert [(each.code, each.suppressed) for each in found.suppressed] == [("cross-core-race", "one core runs first")]


def test_a_comment_at_the_end_of_a_statement_of_several_lines(tmp_path: Path) -> None:
    text = RACE.replace(
        READ, "nisa.dma_copy(\n        dst=both, src=shared\n    )  # haulout: ignore[cross-core-race] yes"
    )
    assert codes(checked(tmp_path, text, X)) == []


@pytest.mark.parametrize(
    ("line", "comment", "left"),
    [
        (READ, "haulout: ignore[cross-core-race]", ["cross-core-race", "invalid-suppression"]),
        (READ, "haulout: ignore[no-such-code] why", ["cross-core-race", "invalid-suppression"]),
        (READ, "haulout: ignore because", ["cross-core-race", "invalid-suppression"]),
        (READ, "haulout: ignore[possible-race] why", ["cross-core-race", "unused-suppression"]),
        ("return out", "haulout: ignore[cross-core-race] why", ["cross-core-race", "unused-suppression"]),
        (READ, "haulout: ignore[cross-core-race, possible-race] why", ["unused-suppression"]),
    ],
)
def test_a_comment_without_effect_is_a_finding(line: str, comment: str, left: list[str], tmp_path: Path) -> None:
    found = hnki.check_kernel(suppressed(tmp_path, line, comment), X)
    assert codes(found) == left
    assert all(each.severity is Severity.WARNING for each in found.diagnostics if "suppression" in each.code)


def test_comments_of_other_functions_and_texts_do_not_count(tmp_path: Path) -> None:
    other = """

def other(x):
    text = "# haulout: ignore[cross-core-race] not a comment"
    return x  # haulout: ignore[cross-core-race] another kernel
"""
    assert codes(checked(tmp_path, TWO_CORE.format(meet="nisa.core_barrier(shared, (0, 1))") + other, X)) == []


def test_a_kernel_that_stops_has_nothing_suppressed(tmp_path: Path) -> None:
    text = "def kernel(x):\n    undefined()  # haulout: ignore[kernel-error] no\n"
    assert codes(checked(tmp_path, text, X)) == ["kernel-error"]


def test_the_command_counts_and_writes_them(tmp_path: Path) -> None:
    kernel = suppressed(tmp_path, READ, "haulout: ignore[cross-core-race] one core runs first")
    command = ("check", kernel, "--arg", "x=f32[2,512]")
    said = haulout(*command)
    assert said.status == 0
    assert said.stdout.endswith("instructions: 0 findings, 1 suppressed\n")
    assert "cross-core-race" not in said.stdout
    document = json.loads(haulout(*command, "--format", "json").stdout)
    assert document["diagnostics"] == []
    assert [each["suppressed"] for each in document["suppressed"]] == ["one core runs first"]
    results = json.loads(haulout(*command, "--format", "sarif").stdout)["runs"][0]["results"]
    assert [each["suppressions"] for each in results] == [
        [{"kind": "inSource", "justification": "one core runs first"}]
    ]


def test_a_compiled_kernel_is_not_proved_by_a_comment(tmp_path: Path) -> None:
    """The compiler orders what races in the kernel; what it cannot is an error whatever the comment says."""
    kernel = suppressed(tmp_path, READ, "haulout: ignore[cross-core-race] one core runs first")
    plain = write_kernel(tmp_path, RACE)
    told = [haulout("compile", each, "--arg", "x=f32[2,512]", "-q", "-o", tmp_path) for each in (kernel, plain)]
    assert told[0].status == told[1].status
    assert "suppressed" not in told[0].stdout


LOOPS = """
def kernel(x):
    core = nl.program_id(0)
    for row in range(4):
        shared = nl.ndarray((2, 64), dtype=nl.float32, buffer=nl.shared_hbm)
        tile = nl.ndarray((2, 64), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=shared[core : core + 1, :], src=x[row : row + 1, :])
        nisa.dma_copy(dst=tile, src=shared)
"""


def test_the_advice_names_the_variable_of_several_tensors(tmp_path: Path) -> None:
    found = checked(tmp_path, LOOPS, {"x": hnki.tensor("f32", 4, 64)})
    races = [each for each in found.diagnostics if each.code == "cross-core-race"]
    assert len(races) == 1
    assert races[0].subject is not None
    assert races[0].subject.pairs == 8
    assert any("nki: nisa.core_barrier(shared, (0, 1)) on every core" in text.lower() for text in races[0].help)


def race(
    lines: tuple[int, int], names: tuple[str, str], *, code: str = "cross-core-race", pairs: int = 1
) -> Diagnostic:
    sides = tuple(Entity(core, name) for core, name in enumerate(names))
    labels = tuple(Label(name, Span("k.py", line)) for name, line in zip(names, lines, strict=True))
    return Diagnostic(code, Severity.ERROR, "race", labels, subject=Subject("race", instructions=sides, pairs=pairs))


def test_races_of_one_pair_of_lines_are_one_finding() -> None:
    found = by_lines(
        [
            race((3, 5), ("a", "b"), pairs=2),
            race((3, 6), ("a", "c")),
            race((5, 3), ("d", "e"), pairs=3),
            race((3, 5), ("f", "g"), code="possible-race"),
            race((3, 5), ("h", "i"), code="uninitialized-read"),
            race((3, 5), ("h", "i"), code="uninitialized-read"),
        ]
    )
    assert [each.code for each in found] == [
        *("cross-core-race", "cross-core-race", "possible-race", "uninitialized-read", "uninitialized-read")
    ]
    assert [each.subject.pairs for each in found if each.subject] == [5, 1, 1, 1, 1]
    assert found[0].notes == ("the same lines race in another pair of instructions: core 0's %d and core 1's %e",)
    assert not any(each.notes for each in found[1:])
    many = by_lines([race((3, 5), (f"a{at}", f"b{at}")) for at in range(8)])
    assert len(many) == 1
    assert (
        many[0].notes[0].startswith("the same lines race in 7 other pairs of instructions: core 0's %a1 and core 1's")
    )
    assert many[0].notes[0].endswith("and 4 more")


def test_an_argument_that_no_instruction_reads_is_a_note(tmp_path: Path) -> None:
    text = TWO_CORE.format(meet="nisa.core_barrier(shared, (0, 1))").replace(
        "kernel(x)", "kernel(x, bias, out_given)"
    )
    text = text.replace(
        "    return out", "    nisa.dma_copy(dst=out_given[core : core + 1, :], src=mine)\n    return out"
    )
    given = {**X, "bias": hnki.tensor("f32", 4), "out_given": hnki.tensor("f32", 2, 512)}
    found = checked(tmp_path, text, given)
    notes = [each for each in found.diagnostics if each.code == "input-not-read"]
    assert [each.message for each in notes] == ["no instruction reads the argument bias: float32[4] in shared_hbm"]
    assert notes[0].severity is Severity.NOTE
