"""collective_permute: each target sees its source's operand, or gets a copy of it; other cores get zeros."""

from __future__ import annotations

from haulout.passes.collectives.site import FIRST_MEET, LAST_MEET, READ, Site


def lower_collective_permute(site: Site) -> None:
    """`y of target = x of source` for each pair; zero bytes on all other cores."""
    source_of: dict[int, int] = {}
    sources: set[int] = set()
    pairs = site.attrs.get("pairs")
    for pair in pairs if isinstance(pairs, list) else []:
        match pair:
            case [int(source), int(target)] if source in site.cores and target in site.cores:
                if target in source_of or source in sources:
                    site.fail(f"pairs={pairs}: a core sends or receives twice")
                source_of[target] = source
                sources.add(source)
            case _:
                site.fail(f"pairs={pairs}: expected pairs of cores, found {pair}")
    stages = {}
    views: set[tuple[int, int]] = set()
    for target, source in sorted(source_of.items(), key=lambda pair: pair[1]):
        members = sorted({source, target})
        for number in range(len(site.inputs[source])):
            if site.is_view(target, source, number):
                views.add((target, number))
            else:
                stages[source, number] = site.readable(source, number, members)
    site.meet(FIRST_MEET)
    for core in site.cores:
        for number, array in enumerate(site.outputs[core]):
            if (core, number) in views:
                continue
            if core in source_of:
                site.copy(core, READ, f"out{number}", (stages[source_of[core], number][core], None), array.operand)
            else:
                site.fill(core, READ, f"out{number}", array.operand)
    site.meet(LAST_MEET)
