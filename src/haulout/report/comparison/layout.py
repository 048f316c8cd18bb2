"""How the cores hold an array of the program that was split: each the whole, or a tile of it.

The text of a sharding says it, or the user does (`--split NAME=DIM`). Otherwise the shapes say how many tiles there
are along each dimension, and the tiles are in the order of the cores; copies are next to each other or far apart.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from haulout.frontends.hlo.tiles import Tiles, tiles
from haulout.support.diagnostics import bad_input

Array = npt.NDArray[Any]
_ASKED = re.compile(r"%?(.+)=(-?[0-9]{1,3})")


class Layout(NamedTuple):
    """The tiles of the cores, and who says so."""

    tiles: Tiles
    said_by: str

    @property
    def text(self) -> str:
        """`whole`, or `4 tiles of dimension 1, by ...`."""
        cut = [f"{count} tiles of dimension {dim}" for dim, count in enumerate(self.tiles.counts) if count > 1]
        return f"{' and '.join(cut)}, {self.said_by}" if cut else "whole"

    def part(self, whole: Array, shape: tuple[int, ...], core: int) -> Array:
        """The tile of a core, with zeros beyond the end of the array."""
        found = whole[self.slices(shape, core)]
        pad = [(0, want - have) for want, have in zip(shape, found.shape, strict=True)]
        return np.pad(found, pad) if any(after for _, after in pad) else found

    def slices(self, shape: tuple[int, ...], core: int) -> tuple[slice, ...]:
        """Where the tile of a core is; `shape` is that of a tile."""
        numbers = self.tiles.of_core[core]
        return tuple(slice(at * size, (at + 1) * size) for at, size in zip(numbers, shape, strict=True))


def parse_splits(asked: Sequence[str]) -> dict[str, int]:
    """`NAME=DIM`, as the user gives them. Raises `bad-input`."""
    found: dict[str, int] = {}
    for text in asked:
        match = _ASKED.fullmatch(text)
        if match is None:
            bad_input(f"--split {text}: expected NAME=DIM", help=["NAME is an input or a result, DIM a number"])
        found[match[1]] = int(match[2])
    return found


def by_user(name: str, dim: int, whole: tuple[int, ...], part: tuple[int, ...], cores: int) -> Layout:
    """Cores that have tiles of one dimension, in their order."""
    rank = len(whole)
    if not -rank <= dim < rank:
        bad_input(f"--split {name}={dim}: %{name} has {rank} dimensions")
    dim %= rank
    counts = tuple(cores if at == dim else 1 for at in range(rank))
    if not _fits(whole, part, counts):
        bad_input(f"--split {name}={dim}: tiles of {list(part)} do not make up {list(whole)} on {cores} cores")
    return Layout(_in_order(counts, cores, far=False), "by --split")


def by_sharding(text: str, whole: tuple[int, ...], part: tuple[int, ...], cores: int) -> Layout | None:
    """What a sharding says, if it says it for these shapes."""
    found = tiles(text, cores, len(whole))
    return Layout(found, "by its sharding") if found is not None and _fits(whole, part, found.counts) else None


def by_shapes(whole: tuple[int, ...], part: tuple[int, ...], cores: int) -> list[Layout]:
    """What is possible without a word about it; empty where the shapes do not fit."""
    if len(whole) != len(part) or any(not have and want for want, have in zip(whole, part, strict=True)):
        return []
    counts = tuple(-(-want // have) if have else 1 for want, have in zip(whole, part, strict=True))
    if not _fits(whole, part, counts) or cores % math.prod(counts):
        return []
    orders = (False,) if math.prod(counts) in (1, cores) else (False, True)
    return [Layout(_in_order(counts, cores, far=far), "in the order of the cores") for far in orders]


def _fits(whole: tuple[int, ...], part: tuple[int, ...], counts: tuple[int, ...]) -> bool:
    """Whether tiles of one shape make up the whole; the last one may reach beyond the end."""
    if not len(whole) == len(part) == len(counts):
        return False
    return all(-(-want // count) == have for want, have, count in zip(whole, part, counts, strict=True))


def _in_order(counts: tuple[int, ...], cores: int, *, far: bool) -> Tiles:
    """Tile after tile; copies of a tile are on neighbours, or `far` apart."""
    number = math.prod(counts)
    of_core = [core % number if far else core * number // cores for core in range(cores)]
    places = [tuple(int(at) for at in np.unravel_index(each, counts)) if counts else () for each in of_core]
    return Tiles(counts, tuple(places))
