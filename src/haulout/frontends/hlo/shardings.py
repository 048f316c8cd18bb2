"""Which cores get equal bytes for a parameter: what its sharding says after partitioning.

    {replicated}                                                all of them
    {devices=[2,1,2]<=[4] last_tile_dim_replicate}              those of one tile: the last dimension counts copies
    {devices=[2,2,2]<=[8] last_tile_dims={manual, replicated}}  the same with a kind for each of the last dimensions
    {mesh['x'=2,'y'=2], [{'y'}, {}], manual={'x'}}              those that differ in axes only that are not named
    {mesh['x'=2,'y'=2], replicated}                             all of them
    {mesh[], replicated}                                        all of them
    {devices=[2,2]<=[4]}                                        none: each core has a tile of its own
    {{replicated}, {devices=[2,2]<=[4]}}                        of a tuple, leaf by leaf
    xla.sdy.sharding="#sdy.sharding<@mesh, [{}, {}]>"           all of them: where there is no `sharding`, and no axis
                                                                is named in the one of Shardy

Every other form, `{maximal device=1}` and `{manual}` among them, promises nothing: each core is alone.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Sequence

import numpy as np

from haulout.frontends.hlo.model import Instruction
from haulout.frontends.hlo.values import Array, Tree, leaves
from haulout.support.diagnostics import bad_input

Classes = tuple[tuple[int, ...], ...]
"""Cores by class, each once, in rising order."""

_END = r"(?:,? shard_(?:as|like) \d+)?(?:,? metadata=\{.*\})?\}"
_REPLICATED = re.compile(r"\{replicated" + _END)
_TILES = re.compile(
    r"\{devices=\[([\d,]+)\](?:<=\[([\d,]+)\](?:T\(([\d,]+)\))?|([\d,]+))"
    r" (?:last_tile_dim_replicate|last_tile_dims=\{([a-z, ]+)\})" + _END
)
_MESH = re.compile(
    r"\{mesh\[([^\]]*)\](?:, device_ids=\(([\d,]+)\))?"
    r"(?:, (?:replicated|\[([^\]]*)\]((?:, (?:replicated|unreduced|manual)=\{[^}]*\})*)))" + _END
)
_AXIS = re.compile(r"'([^']+)'=(\d+)")
_NAMES = re.compile(r"'([^']+)'(:)?")
_NO_AXIS = re.compile(r'xla\.sdy\.sharding="#sdy\.sharding<@\w+, \[(?:\{\}(?:, )?)*\]>"')
_MAX_DIGITS = 9


def parameter_classes(
    parameters: Sequence[Tree], cores: int, replicated: Collection[str], *, by_replica: bool = False
) -> dict[Array, Classes]:
    """Of each array of the parameters the cores that get equal bytes for it; of those whose names are in
    `replicated` all. Shardings say nothing of cores that are replicas.

    Raises `HauloutError` (`bad-input`) for a name that no parameter has, or that is split.
    """
    found: dict[Array, Classes] = {}
    wanted = {name.removeprefix("%") for name in replicated}
    names = [view.array.source.name for parameter in parameters for _, view in leaves(parameter)]
    if unknown := sorted(wanted.difference(names)):
        bad_input(f"no parameter is named {unknown[0]!r}", help=["parameters: " + ", ".join(dict.fromkeys(names))])
    for parameter in parameters:
        for leaf, (path, view) in enumerate(leaves(parameter)):
            sharding = None if by_replica else view.array.source.attributes.get("sharding")
            text = sharding.text if sharding is not None else "" if by_replica else _of_shardy(view.array.source)
            found[view.array] = classes(text, cores, leaf if path else None)
            if view.array.source.name in wanted:
                if sharding is not None and len(found[view.array]) > 1:
                    sharding.fail(f"%{view.array.source.name} is not replicated", "its sharding")
                found[view.array] = (tuple(range(cores)),)
    return found


def _of_shardy(parameter: Instruction) -> str:
    """`{replicated}` if the sharding in the frontend attributes names no axis."""
    given = parameter.attributes.get("frontend_attributes")
    return "{replicated}" if given is not None and _NO_AXIS.search(given.text) else ""


def classes(text: str, cores: int, leaf: int | None = None) -> Classes:
    """Cores that hold equal bytes of an array with this sharding; `leaf` counts the arrays of a tuple."""
    text = text.strip()
    if leaf is not None and text.startswith("{{"):
        parts = _parts(text)
        text = parts[leaf] if leaf < len(parts) else ""
    if _REPLICATED.fullmatch(text):
        return (tuple(range(cores)),)
    found = _of_tiles(text, cores) or _of_mesh(text, cores)
    return found or tuple((core,) for core in range(cores))


def _parts(text: str) -> list[str]:
    """The shardings in `{{...}, {...}}`."""
    found: list[str] = []
    depth = begin = 0
    for at, character in enumerate(text):
        if character == "{":
            depth += 1
            begin = at if depth == 2 else begin
        elif character == "}":
            depth -= 1
            if depth == 1:
                found.append(text[begin : at + 1])
    return found


def _of_tiles(text: str, cores: int) -> Classes | None:
    match = _TILES.fullmatch(text)
    if match is None:
        return None
    tiles, dims, order, listed = (_numbers(group) for group in match.groups()[:4])
    kinds = [each.strip() for each in match[5].split(",")] if match[5] else ["replicated"]
    if None in (tiles, dims, order, listed) or not tiles or len(kinds) > len(tiles):
        return None
    if math.prod(tiles) != cores or (dims and math.prod(dims) != cores):
        return None
    if order and sorted(order) != list(range(len(dims or ()))):
        return None
    ids = listed or np.arange(cores).reshape(dims).transpose(order or range(len(dims or ()))).ravel().tolist()
    first = len(tiles) - len(kinds)
    copies = [first + at for at, kind in enumerate(kinds) if kind == "replicated"]
    return _grouped(ids, tiles, copies, cores)


def _of_mesh(text: str, cores: int) -> Classes | None:
    match = _MESH.fullmatch(text)
    if match is None:
        return None
    axes = {name: int(size[:_MAX_DIGITS]) for name, size in _AXIS.findall(match[1])}
    listed = _numbers(match[2])
    others = re.findall(r"(replicated|unreduced|manual)=\{([^}]*)\}", match[4] or "")
    named = _NAMES.findall(" ".join([match[3] or "", *(names for kind, names in others if kind != "replicated")]))
    if not axes and match[1].strip() == "" and match[2] is None and match[3] is None and not others:
        return (tuple(range(cores)),)
    if listed is None or math.prod(axes.values()) != cores or not axes:
        return None
    # Part of an axis, `'x':(1)2`, is not supported.
    if any(part or name not in axes for name, part in named):
        return None
    used = {name for name, _ in named}
    copies = [at for at, name in enumerate(axes) if name not in used]
    return _grouped(listed or list(range(cores)), list(axes.values()), copies, cores)


def _grouped(ids: Sequence[int], tiles: Sequence[int], copies: Sequence[int], cores: int) -> Classes | None:
    """Cores by tile: their ids in the order of the tiles, of which some dimensions count copies."""
    if sorted(ids) != list(range(cores)):
        return None
    each = np.moveaxis(np.array(ids).reshape(tiles), copies, range(-len(copies), 0))
    rows = each.reshape(-1, math.prod(tiles[at] for at in copies))
    return tuple(sorted(tuple(sorted(row)) for row in rows.tolist()))


def _numbers(text: str | None) -> list[int] | None:
    """The numbers of a list; None if one has more digits than any count of cores."""
    parts = [each for each in (text or "").split(",") if each]
    return [int(each) for each in parts] if all(len(each) <= _MAX_DIGITS for each in parts) else None
