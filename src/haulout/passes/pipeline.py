"""The pipeline, in the reference's order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, get_args

from haulout.passes.alternate_buffers import AlternateBuffers
from haulout.passes.anti_dependency_analyzer import AntiDependencyAnalyzerPostSharedDram
from haulout.passes.assign_queues import AssignQueues
from haulout.passes.base import Pass
from haulout.passes.build_fdeps import BuildFdeps
from haulout.passes.check import Check
from haulout.passes.coloring_allocator_dram_shared import EFFORT, ColoringAllocatorDramShared, Partitions
from haulout.passes.estimate import Estimate
from haulout.passes.extend_shared_lifetimes import ExtendSharedLifetimes
from haulout.passes.fold_constants import FoldConstants
from haulout.passes.lnc_splitter import LncSplitter
from haulout.passes.localize_shared_memory import LocalizeSharedMemory
from haulout.passes.lower_barriers import LowerBarriers
from haulout.passes.lower_local_collectives import LowerLocalCollectives
from haulout.passes.lower_sync import LowerSync
from haulout.passes.mark_uniform import MarkUniform
from haulout.passes.options import Between, check_option
from haulout.passes.order_by_phases import OrderByPhases
from haulout.passes.pipeline_text import parse_passes
from haulout.passes.share_replicated import ShareReplicated
from haulout.passes.split_uniform import SplitUniform
from haulout.passes.sync_shared_allocations import SyncSharedAllocations
from haulout.support.diagnostics import bad_input
from haulout.target import DEFAULT

Fences = Literal["bracket", "minimal"]
Share = Literal["none", "inputs", "uniform", "all"]
"""What cores share: nothing but staging buffers; also equal inputs and constants; also other equal values, whose work
they divide; also operands of collectives."""
Sync = Literal["edges", "semaphores", "all"]
"""How order is written: dependences and barriers; semaphores and barriers; semaphores alone."""


@dataclass(frozen=True, slots=True)
class Level:
    """What a level decides where no option says otherwise."""

    share: Share
    fuse: Literal["none", "all"]
    """Of HLO text, by the front end."""
    partitions: Partitions
    order: bool
    """Whether instructions move, in the lists (`order_by_phases`) and to other DMA queues (`assign_queues`)."""
    effort: float
    """Of the search for places in DRAM."""


LEVELS = (
    Level(share="none", fuse="none", partitions="proportional", order=False, effort=0.0),
    Level(share="inputs", fuse="all", partitions="proportional", order=False, effort=EFFORT),
    Level(share="all", fuse="all", partitions="smallest", order=True, effort=EFFORT),
    Level(share="all", fuse="all", partitions="smallest", order=True, effort=1.0),
)
"""`-O0` to `-O3`: the fastest compile; work that always pays; the default; the least memory."""
DEFAULT_LEVEL = 2

REGISTRY: dict[str, type[Pass]] = {
    each.name: each
    for each in (
        LncSplitter,
        FoldConstants,
        AlternateBuffers,
        MarkUniform,
        SplitUniform,
        ShareReplicated,
        LocalizeSharedMemory,
        BuildFdeps,
        AntiDependencyAnalyzerPostSharedDram,
        LowerLocalCollectives,
        OrderByPhases,
        ExtendSharedLifetimes,
        AssignQueues,
        ColoringAllocatorDramShared,
        SyncSharedAllocations,
        LowerSync,
        LowerBarriers,
        Estimate,
        Check,
    )
}
"""Every pass by its name."""


def compile_pipeline(
    *,
    level: int = DEFAULT_LEVEL,
    fences: Fences = "minimal",
    capacity: int | None = None,
    partitions: Partitions | None = None,
    share: Share | None = None,
    split: Sequence[str] = (),
    target: str = DEFAULT,
    sync: Sync = "edges",
) -> list[Pass]:
    """All that `haulout compile` runs; None is what the level says (`LEVELS`).

    A program is checked before its order becomes semaphores, since mismatched barriers are hard to see in counts, and
    after, as it will run.
    """
    check_option("sync", sync, Sync)
    made = standard_pipeline(
        level=level, fences=fences, capacity=capacity, partitions=partitions, share=share, split=split, target=target
    )
    if split and not any(isinstance(each, SplitUniform) for each in made):
        bad_input("split asks for cuts, and nothing is divided", help=["share=uniform or share=all divides work"])
    lowering: list[Pass] = [LowerSync(), LowerBarriers()][: get_args(Sync).index(sync)]
    return [
        *made,
        Estimate(target=target),
        Check(),
        *([*lowering, Check()] if lowering else []),
    ]


def standard_pipeline(
    *,
    level: int = DEFAULT_LEVEL,
    fences: Fences = "minimal",
    capacity: int | None = None,
    partitions: Partitions | None = None,
    share: Share | None = None,
    split: Sequence[str] = (),
    target: str = DEFAULT,
) -> list[Pass]:
    """The passes that transform a program: order, fences, addresses. None is what the level says (`LEVELS`)."""
    default = level_of(level)
    share = default.share if share is None else check_option("share", share, Share)
    partitions = default.partitions if partitions is None else partitions
    return [
        *(dividing_passes(target=target, split=split) if share in ("uniform", "all") else [FoldConstants()]),
        *([] if share == "none" else [ShareReplicated()]),
        LocalizeSharedMemory(),
        BuildFdeps(),
        AntiDependencyAnalyzerPostSharedDram(),
        LowerLocalCollectives(in_place=share == "all"),
        *([OrderByPhases(capacity=capacity, target=target)] if default.order and fences == "minimal" else []),
        ExtendSharedLifetimes(
            fences=fences, capacity=capacity, joint=partitions in ("smallest", "joint"), target=target
        ),
        *([AssignQueues(target=target)] if default.order else []),
        ColoringAllocatorDramShared(capacity=capacity, partitions=partitions, effort=default.effort, target=target),
        SyncSharedAllocations(),
        AntiDependencyAnalyzerPostSharedDram(fences_are_final=True),
    ]


def dividing_passes(*, target: str = DEFAULT, split: Sequence[str] = ()) -> list[Pass]:
    """The passes that divide work which several cores would do alike.

    Cuts that are asked for are those of the program as it is, so its loops stay as they are.
    """
    buffers = [] if split else [AlternateBuffers(target=target)]
    return [FoldConstants(), *buffers, SplitUniform(target=target, split=split)]


def level_of(level: int) -> Level:
    """A row of `LEVELS`; `bad-input` for a level that does not exist."""
    return LEVELS[check_option("level", level, Annotated[int, Between(0, len(LEVELS) - 1)])]


def parse_pipeline(text: str, more: Mapping[str, type[Pass]] | None = None) -> list[Pass]:
    """Passes of `REGISTRY`, or of `more`, from text (`pipeline_text.py`)."""
    return parse_passes(text, {**REGISTRY, **(more or {})})
