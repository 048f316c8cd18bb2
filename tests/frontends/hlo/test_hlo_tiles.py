"""Tiles of the cores, by shardings."""

from __future__ import annotations

import pytest

from haulout.frontends.hlo.shardings import classes
from haulout.frontends.hlo.tiles import tiles


@pytest.mark.parametrize(
    ("text", "rank", "counts", "of_core"),
    [
        ("{replicated}", 2, (1, 1), [(0, 0)] * 4),
        ("{devices=[4,1]<=[4]}", 2, (4, 1), [(0, 0), (1, 0), (2, 0), (3, 0)]),
        ("{devices=[2,2]<=[4]}", 2, (2, 2), [(0, 0), (0, 1), (1, 0), (1, 1)]),
        ("{devices=[1,4]<=[2,2]T(1,0)}", 2, (1, 4), [(0, 0), (0, 2), (0, 1), (0, 3)]),
        ("{devices=[2,1,2]<=[4] last_tile_dim_replicate}", 2, (2, 1), [(0, 0), (0, 0), (1, 0), (1, 0)]),
        (
            "{devices=[2,1,2]<=[2,2]T(1,0) last_tile_dims={replicated}}",
            2,
            (2, 1),
            [(0, 0), (1, 0), (0, 0), (1, 0)],
        ),
        ("{devices=[4]3,2,1,0}", 1, (4,), [(3,), (2,), (1,), (0,)]),
        ("{mesh['x'=2,'y'=2], [{'y'}, {}]}", 2, (2, 1), [(0, 0), (1, 0), (0, 0), (1, 0)]),
        ("{mesh['x'=2,'y'=2], [{'y', 'x'}]}", 1, (4,), [(0,), (2,), (1,), (3,)]),
        ("{mesh['x'=2,'y'=2], device_ids=(3,2,1,0), [{'x'}]}", 1, (2,), [(1,), (1,), (0,), (0,)]),
    ],
)
def test_tiles(text: str, rank: int, counts: tuple[int, ...], of_core: list[tuple[int, ...]]) -> None:
    found = tiles(text, 4, rank)
    assert found is not None
    assert found.counts == counts and list(found.of_core) == of_core
    # Cores that hold equal bytes by the other reader of shardings hold the same tile.
    for members in classes(text, 4):
        assert len({found.of_core[core] for core in members}) == 1


@pytest.mark.parametrize(
    "text",
    [
        "{maximal device=1}",
        "{devices=[2,1]<=[2]}",
        "{devices=[2,2,1]<=[4]}",
        "{devices=[4,1]0,1,2,2}",
        "{devices=[4,1]<=[2,2]T(0,0)}",
        "{mesh['x'=2,'y'=2], [{'z'}, {}]}",
        "{mesh['x'=4], [{'x':(1)2}, {}]}",
        "{{replicated}, {replicated}}",
        "",
    ],
)
def test_says_nothing(text: str) -> None:
    assert tiles(text, 4, 2) is None
