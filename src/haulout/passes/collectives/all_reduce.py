"""all_reduce: every member stages its operand, then reduces all members' buffers in the order of the group.

One order on all cores, so that all members get the same bytes, floating point included.
"""

from __future__ import annotations

from haulout.passes.collectives.site import FIRST_MEET, LAST_MEET, READ, Site


def lower_all_reduce(site: Site) -> None:
    """`y = op(x of each member)`; several operands are reduced between the same two meetings."""
    groups = site.groups(equal=False)
    together = [group for group in groups if len(group) > 1]
    stages = site.stage_in(together)
    if together:
        site.meet(FIRST_MEET)
    for group in groups:
        for core in group:
            for number, (source, target) in enumerate(zip(site.inputs[core], site.outputs[core], strict=True)):
                if len(group) == 1:
                    site.copy(core, READ, f"out{number}", source.operand, target.operand)
                else:
                    site.combine(core, f"out{number}", [(stages[peer, number][core], None) for peer in group], target)
    if together:
        site.meet(LAST_MEET)
