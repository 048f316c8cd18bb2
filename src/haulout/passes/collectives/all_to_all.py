"""all_to_all: every member stages its operands, then copies its pieces from the buffers of all members.

Array form (`dim`): operand and result are split along `dim`; piece i goes to member i. Tuple form (no `dim`): operand
i goes to member i, result i comes from member i.
"""

from __future__ import annotations

from haulout.passes.collectives.site import FIRST_MEET, LAST_MEET, READ, Site


def lower_all_to_all(site: Site) -> None:
    """`piece j of y = piece (own index) of x of member j`."""
    groups = site.groups()
    size = len(groups[0])
    axis = site.axis() if "dim" in site.attrs else None
    if axis is None and len(site.inputs[0]) != size:
        site.fail(f"the tuple form needs one operand for each of {size} members, not {len(site.inputs[0])}")
    if axis is not None:
        for source in site.inputs[0]:
            if source.shape[axis] % size:
                site.fail(f"axis {axis} of {list(source.shape)} does not split into {size} pieces")
    stages = site.stage_in(groups)
    site.meet(FIRST_MEET)
    for group in groups:
        for own, core in enumerate(group):
            for number, target in enumerate(site.outputs[core]):
                if axis is None:
                    site.copy(core, READ, f"out{number}", (stages[group[number], own][core], None), target.operand)
                    continue
                whole = site.inputs[core][number]
                for index, peer in enumerate(group):
                    source_piece = (stages[peer, number][core], whole.piece(axis, own, size))
                    target_piece = (target.location, target.piece(axis, index, size))
                    site.copy(core, READ, f"out{number}.{index}", source_piece, target_piece)
    site.meet(LAST_MEET)
