"""all_gather: every member stages its operand, then copies each member's buffer to its place in the result."""

from __future__ import annotations

from haulout.passes.collectives.site import FIRST_MEET, LAST_MEET, READ, Site


def lower_all_gather(site: Site) -> None:
    """`y = concatenate(x of each member, dim)`."""
    groups, axis = site.groups(), site.axis()
    size = len(groups[0])
    for source, target in zip(site.inputs[0], site.outputs[0], strict=True):
        site.require_pieces(target, source, axis, size)
    stages = site.stage_in(groups)
    site.meet(FIRST_MEET)
    for group in groups:
        for core in group:
            for number, target in enumerate(site.outputs[core]):
                for index, peer in enumerate(group):
                    place = (target.location, target.piece(axis, index, size))
                    site.copy(core, READ, f"out{number}.{index}", (stages[peer, number][core], None), place)
    site.meet(LAST_MEET)
