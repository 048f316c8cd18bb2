"""Which tile of an array each core has, by the sharding of the array.

    {devices=[2,1,2]<=[4] last_tile_dim_replicate}   2 x 1 tiles, each on two cores
    {devices=[1,4]<=[2,2]T(1,0)}                     1 x 4 tiles, on the cores 0, 2, 1, 3
    {mesh['x'=2,'y'=2], [{'y'}, {}]}                 2 x 1 tiles, by the second axis
    {replicated}                                     one tile, on every core

Tiles are numbered along each dimension, and all but the last have the same size.
"""

from __future__ import annotations

import math
import re
from typing import NamedTuple

import numpy as np

_TILES = re.compile(r"devices=\[([\d,]{1,200})\](?:<=\[([\d,]{1,200})\](?:T\(([\d,]{1,200})\))?|([\d,]+))")
_KINDS = re.compile(r"last_tile_dims=\{([a-z, ]+)\}")
_MESH = re.compile(r"\{mesh\[([^\]]*)\](?:, device_ids=\(([\d,]+)\))?, \[((?:\{[^{}\[\]]*\},? ?)*)\]")
_SIZES = re.compile(r"'([^']+)'=(\d{1,9})(?!\d)")
_AXES = re.compile(r"\{([^{}]*)\}")
_NAME = re.compile(r"'([^']+)'(:)?")


class Tiles(NamedTuple):
    """The tiles of one array."""

    counts: tuple[int, ...]
    """Tiles along each dimension."""
    of_core: tuple[tuple[int, ...], ...]
    """The number of each core's tile along each dimension."""


def tiles(text: str, cores: int, rank: int) -> Tiles | None:
    """The tiles of an array of some rank; None if the text does not say them, or says them for other cores."""
    if text.strip().startswith("{replicated"):
        return Tiles((1,) * rank, ((0,) * rank,) * cores)
    if text.strip().startswith("{{"):
        return None
    return _listed(text, cores, rank) or _by_axes(text, cores, rank)


def _listed(text: str, cores: int, rank: int) -> Tiles | None:
    match = _TILES.search(text)
    if match is None:
        return None
    counts, dims, order, listed = (_numbers(group) for group in match.groups())
    kinds = _KINDS.search(text)
    copies = len(kinds[1].split(",")) if kinds else int("last_tile_dim_replicate" in text)
    if len(counts) != rank + copies or math.prod(counts) != cores or (dims and math.prod(dims) != cores):
        return None
    if order and sorted(order) != list(range(len(dims))):
        return None
    ids = listed or np.arange(cores).reshape(dims).transpose(order or range(len(dims))).ravel().tolist()
    return _placed(ids, counts, [(dim,) for dim in range(rank)], cores)


def _by_axes(text: str, cores: int, rank: int) -> Tiles | None:
    match = _MESH.search(text)
    if match is None:
        return None
    sizes = {name: int(size) for name, size in _SIZES.findall(match[1])}
    named = [_NAME.findall(axes) for axes in _AXES.findall(match[3])]
    if math.prod(sizes.values()) != cores or len(named) != rank:
        return None
    # Part of an axis, `'x':(1)2`, is not supported.
    if any(part or name not in sizes for axes in named for name, part in axes):
        return None
    axes = list(sizes)
    of_dims = [tuple(axes.index(name) for name, _ in each) for each in named]
    return _placed(_numbers(match[2]) or list(range(cores)), list(sizes.values()), of_dims, cores)


def _placed(ids: list[int], mesh: list[int], of_dims: list[tuple[int, ...]], cores: int) -> Tiles | None:
    """Tiles of cores that are in a mesh in the order `ids`; `of_dims`: its axes along each dimension."""
    if sorted(ids) != list(range(cores)):
        return None
    found: list[tuple[int, ...]] = [()] * cores
    for position, core in enumerate(ids):
        at = np.unravel_index(position, mesh)
        coordinates = []
        for axes in of_dims:
            number = 0
            for axis in axes:
                number = number * mesh[axis] + int(at[axis])
            coordinates.append(number)
        found[core] = tuple(coordinates)
    return Tiles(tuple(math.prod(mesh[axis] for axis in axes) for axes in of_dims), tuple(found))


def _numbers(text: str | None) -> list[int]:
    return [int(each[:9]) for each in (text or "").split(",") if each]
