import pytest

from haulout.frontends.hlo import lower, parse_hlo
from haulout.frontends.hlo.shardings import classes

ALONE = ((0,), (1,), (2,), (3,))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{replicated}", ((0, 1, 2, 3),)),
        ("{devices=[2,1,2]<=[4] last_tile_dim_replicate}", ((0, 1), (2, 3))),
        ("{devices=[1,2,2]<=[2,2]T(1,0) last_tile_dim_replicate}", ((0, 2), (1, 3))),
        ("{devices=[2,2]0,2,3,1 last_tile_dim_replicate}", ((0, 2), (1, 3))),
        ("{devices=[2,2]<=[4] last_tile_dims={replicated}}", ((0, 1), (2, 3))),
        ("{devices=[1,4]<=[4] last_tile_dim_replicate}", ((0, 1, 2, 3),)),
        ('{replicated metadata={op_name="x"}}', ((0, 1, 2, 3),)),
        ("{devices=[4,1]<=[4]}", ALONE),
        ("{devices=[2,2]<=[4]}", ALONE),
        ("{maximal device=1}", ALONE),
        ("{manual}", ALONE),
        ("{{replicated}, {replicated}}", ALONE),
        # Not valid: no promise is made.
        ("{devices=[2,4]<=[8] last_tile_dim_replicate}", ALONE),
        ("{devices=[2,2]0,0,1,1 last_tile_dim_replicate}", ALONE),
        ("{devices=[2,2]<=[3] last_tile_dim_replicate}", ALONE),
    ],
)
def test_cores_that_hold_equal_bytes(text: str, expected: tuple[tuple[int, ...], ...]) -> None:
    assert classes(text, 4) == expected


def test_parameters_carry_it() -> None:
    text = """HloModule m, num_partitions=2

ENTRY main {
  w = f32[4] parameter(0), sharding={replicated}
  x = f32[4] parameter(1), sharding={devices=[2]<=[2]}
  z = f32[4] parameter(2)
  a = f32[4] add(w, x)
  ROOT r = f32[4] add(a, z)
}
"""
    program = lower(parse_hlo(text, "m.hlo"))
    same = {
        program.strings[int(name)]: program.strings.get(int(row))
        for name, row in zip(program.locations.name, program.locations.same, strict=True)
    }
    assert same["w"] == "[[0,1]]"
    assert same["x"] is None and same["z"] is None
