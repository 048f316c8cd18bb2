"""The reference's policy: a pair of fences around every group of shared lifetimes.

On every core `cb_sg<id>_start` is at the start of the first block of a group's span (`spans.py`) and `cb_sg<id>_end`
at the end of its last; `<id>` is the subgraph's, further groups count on: `cb_sg<id>_<k>_start`. Two fences around a
block do not order what is inside; the rendezvous of the program or of a lowered collective do.
"""

from __future__ import annotations

import numpy as np

from haulout.ir.program import Program
from haulout.passes.fences.slots import Slots
from haulout.passes.fences.spans import shared_spans


def bracket_slots(program: Program) -> Slots:
    """The brackets of all groups, in the order in which they open."""
    blocks = len(program.blocks) // program.lnc
    subgraph = max(int(program.modules.subgraph[0]), 0)
    starts = program.starts("instructions", "blocks")
    before, joined, names = [], [], []
    for number, span in enumerate(shared_spans(program)):
        stem = f"cb_sg{subgraph}" + (f"_{number}" if number else "")
        for suffix, block, edge in (("start", span[0], 0), ("end", span[1], 1)):
            for core in range(program.lnc):
                row = core * blocks + block
                before.append(int(starts[row + edge]))
                joined.append(row)
                names.append(f"{stem}_{suffix}")
    return Slots(np.array(before, np.int32), np.array(joined, np.int32), names)
