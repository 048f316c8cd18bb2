"""Which cores get equal bytes for a parameter: what its sharding says after partitioning.

    {replicated}                                            all of them
    {devices=[2,1,2]<=[4] last_tile_dim_replicate}          those of one tile: the last dimension counts its copies
    {devices=[2,2]<=[4]}                                    none: each core has a tile of its own

Every other form is taken as the last one, which promises nothing.
"""

from __future__ import annotations

import math
import re

import numpy as np

Classes = tuple[tuple[int, ...], ...]
"""Cores by class, each once, in rising order."""

_TILES = re.compile(
    r"\{devices=\[([\d,]+)\](?:<=\[([\d,]+)\](?:T\(([\d,]+)\))?|([\d,]+))"
    r" (?:last_tile_dim_replicate|last_tile_dims=\{replicated\})(?: metadata=\{.*\})?\}"
)


def classes(text: str, cores: int) -> Classes:
    """Cores that hold equal bytes of an array with this sharding."""
    if re.fullmatch(r"\{replicated(?: metadata=\{.*\})?\}", text):
        return (tuple(range(cores)),)
    alone = tuple((core,) for core in range(cores))
    match = _TILES.fullmatch(text)
    if match is None:
        return alone
    tiles, dims, order, listed = (
        [int(each) for each in group.split(",") if each] if group else [] for group in match.groups()
    )
    if math.prod(tiles) != cores or (dims and math.prod(dims) != cores):
        return alone
    ids = np.array(listed) if listed else np.arange(cores).reshape(dims).transpose(order or range(len(dims))).ravel()
    if sorted(ids.tolist()) != list(range(cores)):
        return alone
    return tuple(sorted(tuple(sorted(row)) for row in ids.reshape(-1, tiles[-1]).tolist()))
