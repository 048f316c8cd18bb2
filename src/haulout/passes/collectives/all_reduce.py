"""all_reduce: every member stages its operand, then reduces all members' buffers in the order of the group.

One order on all cores, so that all members get the same bytes, floating point included.
"""

from __future__ import annotations

from haulout.passes.collectives.site import COPY_IN, FIRST_MEET, LAST_MEET, READ, Site


def lower_all_reduce(site: Site) -> None:
    """`y = op(x of each member)`; several operands are reduced between the same two meetings."""
    groups = site.groups()
    if len(groups[0]) == 1:
        for core in site.cores:
            for number, (source, target) in enumerate(zip(site.inputs[core], site.outputs[core], strict=True)):
                site.copy(core, READ, f"out{number}", source.operand, target.operand)
        return
    stages = {}
    for group in groups:
        for core in group:
            for number, source in enumerate(site.inputs[core]):
                stages[core, number] = site.stage(number, core, group, source)
                site.copy(core, COPY_IN, f"in{number}", source.operand, (stages[core, number][core], None))
    site.meet(FIRST_MEET)
    for group in groups:
        for core in group:
            for number, target in enumerate(site.outputs[core]):
                site.combine(core, f"out{number}", [(stages[peer, number][core], None) for peer in group], target)
    site.meet(LAST_MEET)
