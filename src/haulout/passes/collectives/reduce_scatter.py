"""reduce_scatter: every member stages its operand, then reduces its own piece of all members' buffers."""

from __future__ import annotations

from haulout.passes.collectives.site import FIRST_MEET, LAST_MEET, Site


def lower_reduce_scatter(site: Site) -> None:
    """`y = piece i of op(x of each member)` along `dim`, for the i-th member of a group."""
    groups, axis = site.groups(), site.axis()
    size = len(groups[0])
    for source, target in zip(site.inputs[0], site.outputs[0], strict=True):
        site.require_pieces(source, target, axis, size)
    stages = site.stage_in(groups)
    site.meet(FIRST_MEET)
    for group in groups:
        for index, core in enumerate(group):
            for number, target in enumerate(site.outputs[core]):
                piece = site.inputs[core][number].piece(axis, index, size)
                parts = [(stages[peer, number][core], piece) for peer in group]
                site.combine(core, f"out{number}", parts, target)
    site.meet(LAST_MEET)
