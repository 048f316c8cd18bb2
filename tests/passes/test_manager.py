"""The pass manager: verifies after each pass, routes on the number of cores, leaves a reproducer on a crash."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

from haulout import HauloutError, Program
from haulout.ir.builder import ProgramBuilder
from haulout.ir.enums import Engine, Kind, Space
from haulout.ir.text import parse_bir, print_bir
from haulout.passes.base import Pass, PassContext, Status
from haulout.passes.extend_shared_lifetimes import ExtendSharedLifetimes
from haulout.passes.lnc_splitter import LncSplitter
from haulout.passes.localize_shared_memory import LocalizeSharedMemory
from haulout.passes.manager import PassManager
from haulout.passes.pipeline import REGISTRY, parse_pipeline, standard_pipeline
from haulout.passes.sync_shared_allocations import SyncSharedAllocations


@dataclass(frozen=True)
class DanglingId(Pass):
    """Breaks the program: an operand of a location that does not exist."""

    name: ClassVar[str] = "dangling_id"

    def run(self, program: Program, context: PassContext) -> Program:
        return program.replace(accesses=program.accesses.replace(location=np.full(len(program.accesses), 999)))


@dataclass(frozen=True)
class FallingTime(Pass):
    """Breaks the program: time runs backwards."""

    name: ClassVar[str] = "falling_time"

    def run(self, program: Program, context: PassContext) -> Program:
        rows = program.instructions
        return program.replace(instructions=rows.replace(seq=10 - rows.seq))


@dataclass(frozen=True)
class Crashing(Pass):
    """A defect."""

    name: ClassVar[str] = "crashing"
    depth: int = 3

    def run(self, program: Program, context: PassContext) -> Program:
        raise ZeroDivisionError("of no use")


def program(cores: int = 2) -> Program:
    build = ProgramBuilder("small", cores)
    for core in range(cores):
        main = build.function(build.module(f"nc{core}", core), "main")
        x = build.location(main, "x", Space.DRAM_LOCAL, 64, kind=Kind.INPUT)
        shared = build.location(main, "s", Space.DRAM_SHARED, 64, remote=None if core == 0 else ("s", 0))
        y = build.location(main, "y", Space.DRAM_LOCAL, 64, kind=Kind.OUTPUT)
        entry = build.block(main, "entry")
        if core == 0:
            build.instruction(entry, "put", "dma_copy", Engine.DMA0, [x], [shared], seq=0)
        build.instruction(entry, "get", "dma_copy", Engine.DMA1, [shared], [y], seq=1)
    return build.freeze()


@pytest.mark.parametrize(
    ("broken", "message"),
    [(DanglingId(), "is 999, not a row of locations"), (FallingTime(), "seq falls from 10 to 9")],
)
def test_what_a_pass_breaks_is_caught_after_that_pass(broken: Pass, message: str) -> None:
    after = LocalizeSharedMemory()
    manager = PassManager([broken, after])
    with pytest.raises(HauloutError, match=message):
        manager.run(program(), PassContext())
    assert manager.records == []
    # Without verification nobody looks.
    unguarded = PassManager([broken], verify=False)
    unguarded.run(program(), PassContext())
    assert [record.name for record in unguarded.records] == [broken.name]


def test_a_program_that_is_not_sound_does_not_start() -> None:
    bad = FallingTime().run(program(), PassContext())
    manager = PassManager([LocalizeSharedMemory()])
    with pytest.raises(HauloutError, match="seq falls"):
        manager.run(bad, PassContext())
    assert manager.records == []


def test_a_crash_is_a_diagnostic_with_a_reproducer(tmp_path: Path) -> None:
    manager = PassManager([LocalizeSharedMemory(), Crashing()], reproducer=tmp_path / "out")
    with pytest.raises(HauloutError) as caught:
        manager.run(program(), PassContext())
    (finding,) = caught.value.diagnostics
    assert finding.code == "internal-error"
    assert "crashing crashed: ZeroDivisionError: of no use" in finding.message
    (path,) = (tmp_path / "out").iterdir()
    assert str(path) in "".join(finding.help)
    text = path.read_text()
    # The pass with its options, then the program as the pass got it: what is needed to see it again.
    assert text.startswith("# passes: crashing\n")
    before = LocalizeSharedMemory().run(program(), PassContext())
    assert print_bir(parse_bir(text)) == print_bir(before)


def test_a_crash_without_a_folder_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(HauloutError) as caught:
        PassManager([Crashing()]).run(program(), PassContext())
    assert caught.value.diagnostics[0].help == ()
    assert list(tmp_path.iterdir()) == []


def test_findings_of_passes_are_passed_on_as_they_are() -> None:
    """`HauloutError` is no crash."""
    with pytest.raises(HauloutError) as caught:
        PassManager([SyncSharedAllocations()]).run(program(), PassContext())
    assert [each.code for each in caught.value.diagnostics] == ["unresolved-remote"]


def test_one_core_takes_the_skip_path() -> None:
    """81 and 83 are about several cores: with one they say skipped and change nothing, not even what they refuse."""
    alone = program(1)
    text = print_bir(alone)
    manager = PassManager([LocalizeSharedMemory(), ExtendSharedLifetimes(), SyncSharedAllocations()])
    result = manager.run(alone, PassContext())
    assert result is alone
    assert print_bir(result) == text
    assert [record.status for record in manager.records] == [Status.SKIPPED] * 3
    assert [record.order for record in manager.records] == [None, 81, 83]


def test_several_cores_do_not() -> None:
    manager = PassManager(standard_pipeline())
    manager.run(program(), PassContext())
    assert {record.status for record in manager.records} == {Status.DONE}
    assert [record.order for record in manager.records if record.order is not None] == [79, 80, 81, 82, 83, 84]


@pytest.mark.parametrize("kind", REGISTRY.values(), ids=lambda kind: kind.name)
def test_the_single_module_entry_changes_nothing(kind: type[Pass]) -> None:
    before = program()
    text = print_bir(before)
    for module in before.module_views():
        assert kind().run_module(module) is Status.SKIPPED
    assert print_bir(before) == text


@pytest.mark.parametrize("kind", REGISTRY.values(), ids=lambda kind: kind.name)
def test_passes_do_not_write_into_their_input(kind: type[Pass]) -> None:
    """Programs share columns, so a pass that wrote in place would change its caller's program too."""
    before = program()
    if kind is SyncSharedAllocations:
        before = REGISTRY["coloring_allocator_dram_shared"]().run(before, PassContext())
    if kind is LncSplitter:
        before = program(cores=1)
    text = print_bir(before)
    kind().run(before, PassContext())
    assert print_bir(before) == text


def test_progress_and_prints() -> None:
    told: list[str] = []
    shown: list[str] = []
    manager = PassManager(
        [LocalizeSharedMemory(), ExtendSharedLifetimes()],
        on_pass=lambda record: told.append(record.name),
        print_before=["localize_shared_memory"],
        print_after=["extend_shared_lifetimes"],
        show=shown.append,
    )
    result = manager.run(program(), PassContext())
    assert told == ["localize_shared_memory", "extend_shared_lifetimes"]
    assert shown[0] == f"# before localize_shared_memory\n{print_bir(program())}"
    assert shown[1] == f"# after extend_shared_lifetimes\n{print_bir(result)}"


def test_pipeline_text() -> None:
    text = "build_fdeps, extend_shared_lifetimes{fences=bracket},coloring_allocator_dram_shared{capacity=64}"
    passes = parse_pipeline(text)
    assert passes == [
        REGISTRY["build_fdeps"](),
        ExtendSharedLifetimes(fences="bracket"),
        REGISTRY["coloring_allocator_dram_shared"](capacity=64),  # type: ignore[call-arg]
    ]
    assert parse_pipeline("") == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("build_deps", "no pass is named 'build_deps'"),
        ("build_fdeps{depth=3}", "build_fdeps has no option 'depth'"),
        ("extend_shared_lifetimes{fences=best}", "option fences must be one of bracket, minimal, found 'best'"),
        (
            "coloring_allocator_dram_shared{capacity=much}",
            "option capacity must be an integer from 0 to .* or none, found 'much'",
        ),
        (
            "coloring_allocator_dram_shared{capacity=true}",
            "option capacity must be an integer from 0 to .* or none, found True",
        ),
        (
            "coloring_allocator_dram_shared{capacity=-1}",
            r"capacity must be an integer from 0 to 4611686018427387904 \(2\*\*62\) or none, found -1",
        ),
        (f"coloring_allocator_dram_shared{{capacity={2**62 + 1}}}", f"found {2**62 + 1}"),
        (
            f"coloring_allocator_dram_shared{{capacity={'9' * 5000}}}",
            "capacity must be an integer from 0 to 4611686018427387904",
        ),
        (
            f"coloring_allocator_dram_shared{{capacity=0x{'f' * 5000}}}",
            "capacity must be an integer from 0 to 4611686018427387904",
        ),
        ("coloring_allocator_dram_shared{capacity=$64}", "malformed attribute text"),
        ("coloring_allocator_dram_shared{capacity=64 capacity=65}", "capacity is given twice"),
        ("anti_dependency_analyzer_post_shared_dram{fences-are-final=true fences_are_final=true}", "is given twice"),
        (
            "anti_dependency_analyzer_post_shared_dram{fences_are_final=1}",
            "fences_are_final must be true or false, found 1",
        ),
        ("build_fdeps{", "expected NAME"),
        ("build_fdeps build_fdeps", "expected NAME"),
        ("build_fdeps{=}", "malformed attribute text"),
        ("!", "expected NAME"),
    ],
)
def test_wrong_pipeline_text(text: str, message: str) -> None:
    with pytest.raises(HauloutError, match=message) as caught:
        parse_pipeline(text)
    assert caught.value.diagnostics[0].code == "bad-input"
