import pytest

import haulout
from haulout.frontends.hlo import lower, parse_hlo
from haulout.frontends.hlo.shardings import classes
from haulout.support.diagnostics import HauloutError

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
        ("{devices=[1,2,2]<=[4] last_tile_dims={manual, replicated}}", ((0, 1), (2, 3))),
        ("{devices=[1,2,2]<=[4] last_tile_dims={replicated, manual}}", ((0, 2), (1, 3))),
        ("{devices=[1,2,2]<=[2,2]T(1,0) last_tile_dims={replicated, manual}}", ((0, 1), (2, 3))),
        ("{devices=[2,2]<=[4] last_tile_dims={manual}}", ALONE),
        ("{devices=[2,2]<=[4] last_tile_dims={unreduced}}", ALONE),
        ("{devices=[2,1,2]<=[4] last_tile_dim_replicate shard_as 1}", ((0, 1), (2, 3))),
        ("{mesh['x'=2,'y'=2], replicated}", ((0, 1, 2, 3),)),
        ("{mesh[], replicated}", ((0, 1, 2, 3),)),
        ("{mesh[], [{}, {}]}", ALONE),
        ("{mesh['x'=4], [{}, {}]}", ((0, 1, 2, 3),)),
        ("{mesh['x'=2,'y'=2], [{'y'}, {}]}", ((0, 2), (1, 3))),
        ("{mesh['x'=2,'y'=2], [{'x'}, {?}]}", ((0, 1), (2, 3))),
        ("{mesh['x'=2,'y'=2], [{'x', 'y'}, {}]}", ALONE),
        ("{mesh['x'=2,'y'=2], [{}, {}], replicated={'x'}, unreduced={'y'}}", ((0, 2), (1, 3))),
        ("{mesh['x'=2,'y'=2], [{'y'}, {}], manual={'x'}}", ALONE),
        ("{mesh['x'=2,'y'=2], device_ids=(0,2,1,3), [{'x'}]}", ((0, 2), (1, 3))),
        ("{mesh['x'=4], [{'x':(1)2}]}", ALONE),
        ("{mesh['x'=2,'y'=2], [{'z'}]}", ALONE),
        ("{mesh['x'=2], [{'x'}]}", ALONE),
        ("{mesh['x'=2,'y'=2], manual}", ALONE),
        # Not valid: no promise is made.
        ("{devices=[2]<=[4] last_tile_dims={manual, replicated}}", ALONE),
        ("{devices=[2,2]<=[2,2]T(1,1) last_tile_dim_replicate}", ALONE),
        ("{devices=[99999999999999999999,2]<=[4] last_tile_dim_replicate}", ALONE),
        ("{devices=[2,4]<=[8] last_tile_dim_replicate}", ALONE),
        ("{devices=[2,2]0,0,1,1 last_tile_dim_replicate}", ALONE),
        ("{devices=[2,2]<=[3] last_tile_dim_replicate}", ALONE),
    ],
)
def test_cores_that_hold_equal_bytes(text: str, expected: tuple[tuple[int, ...], ...]) -> None:
    assert classes(text, 4) == expected


def test_tuples_leaf_by_leaf() -> None:
    text = "{{replicated}, {devices=[2,2]<=[4] last_tile_dims={replicated}}, {devices=[4]<=[4]}}"
    found = [classes(text, 4, leaf) for leaf in range(4)]
    assert found == [((0, 1, 2, 3),), ((0, 1), (2, 3)), ALONE, ALONE]
    assert classes("{replicated}", 4, 1) == ((0, 1, 2, 3),)


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


TEXT = """HloModule m, num_partitions=2

ENTRY main {
  w = f32[4] parameter(0)
  x = f32[4] parameter(1), sharding={devices=[2]<=[2]}
  ROOT a = f32[4] add(w, x)
}
"""


def test_parameters_that_the_caller_calls_replicated() -> None:
    program = lower(parse_hlo(TEXT, "m.hlo"), replicated=["%w"])
    assert [program.strings.get(int(row)) for row in program.locations.same[:2]] == ["[[0,1]]", None]


@pytest.mark.parametrize(("name", "message"), [("v", "no parameter is named 'v'"), ("x", "%x is not replicated")])
def test_names_that_are_refused(name: str, message: str) -> None:
    with pytest.raises(HauloutError, match=message):
        lower(parse_hlo(TEXT, "m.hlo"), replicated=[name])


def test_only_hlo_has_names_to_replicate() -> None:
    program = lower(parse_hlo(TEXT, "m.hlo"))
    with pytest.raises(HauloutError, match="names parameters of HLO text"):
        haulout.compile(program, replicated=["w"])
