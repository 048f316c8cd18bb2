"""Arrays without elements: constants, whatever makes them; what reads them gets what XLA's definitions say."""

from __future__ import annotations

import numpy as np
import pytest

import haulout
from haulout.frontends.hlo import lower, parse_hlo
from haulout.support.diagnostics import HauloutError

SUM = "sum {\n  p = f32[] parameter(0)\n  q = f32[] parameter(1)\n  ROOT r = f32[] add(p, q)\n}\n"
LOOP = """below { s = (s32[], f32[2,3], f32[0]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(2)
  ROOT lt = pred[] compare(i, n), direction=LT }
step { s = (s32[], f32[2,3], f32[0]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[2,3] get-tuple-element(s), index=1
  e = f32[0] get-tuple-element(s), index=2
  one = s32[] constant(1)
  j = s32[] add(i, one)
  y = f32[2,3] add(x, x)
  f = f32[0] negate(e)
  ROOT t = (s32[], f32[2,3], f32[0]) tuple(j, y, f) }
"""
X = np.arange(6, dtype=np.float32).reshape(2, 3)
NONE = "n = f32[0,3] slice(x), slice={[1:1],[0:3]}\nv = f32[0] reshape(n)\n"
GATHER = (
    "i = s32[0,1] parameter(1)\nl = f32[6] reshape(x)\n"
    "g = f32[0] gather(l, i), offset_dims={}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, "
    "slice_sizes={1}\ns = f32[6] scatter(l, i, g), update_window_dims={}, inserted_window_dims={0}, "
    "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=sum\n"
)
CASES = {
    "a parameter": ("e = f32[0,3] parameter(1)\nROOT r = f32[2,3] concatenate(e, x, e), dimensions={0}", [X]),
    "a result": (NONE + "m = f32[0,3] negate(n)\nROOT r = (f32[0,3], f32[2,3]) tuple(m, x)", [X[:0], X]),
    "a sum": (
        NONE + "z = f32[] constant(5)\nROOT r = f32[3] reduce(n, z), dimensions={0}, to_apply=sum",
        [np.full(3, 5)],
    ),
    "a product": (
        "n = f32[2,0] slice(x), slice={[0:2],[1:1]}\nt = f32[0,2] transpose(n), dimensions={1,0}\n"
        "ROOT r = f32[2,2] dot(n, t), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
        [np.zeros((2, 2))],
    ),
    "padding": (NONE + "z = f32[] constant(5)\nROOT r = f32[3] pad(v, z), padding=1_2", [np.full(3, 5)]),
    "indices": (GATHER + "ROOT r = (f32[0], f32[6]) tuple(g, s)", [np.zeros(0), X.reshape(-1)]),
    "made of nothing": (
        "c = f32[0,7] constant({})\nk = s32[0] iota(), iota_dimension=0\nROOT r = (f32[0,7], s32[0]) tuple(c, k)",
        [np.zeros((0, 7)), np.zeros(0)],
    ),
    "arranged": (
        NONE + "b = f32[2,0] broadcast(v), dimensions={1}\nw = f32[0] reverse(v), dimensions={0}\n"
        "ROOT r = (f32[2,0], f32[0]) tuple(b, w)",
        [np.zeros((2, 0)), np.zeros(0)],
    ),
    "state": (
        NONE + "z = s32[] constant(0)\ni = (s32[], f32[2,3], f32[0]) tuple(z, x, v)\n"
        "w = (s32[], f32[2,3], f32[0]) while(i), condition=below, body=step\n"
        "a = f32[2,3] get-tuple-element(w), index=1\nb = f32[0] get-tuple-element(w), index=2\n"
        "ROOT r = (f32[2,3], f32[0]) tuple(a, b)",
        [4 * X, np.zeros(0)],
    ),
    "gathered": (
        NONE
        + "a = f32[0] all-reduce(v), channel_id=1, use_global_device_ids=true, replica_groups={{0,1}}, to_apply=sum\n"
        "ROOT r = (f32[0], f32[2,3]) tuple(a, x)",
        [np.zeros(0), X],
    ),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("level", [0, 2, 3])
def test_values(name: str, level: int) -> None:
    body, expected = CASES[name]
    text = f"HloModule m, num_partitions=2\n{SUM}{LOOP}ENTRY e {{\nx = f32[2,3] parameter(0)\n{body}\n}}\n"
    result = haulout.compile(lower(parse_hlo(text, "m.hlo")), level=level)
    assert result.proved
    for execute in (haulout.simulate, haulout.run):
        values = {"x": X}
        if " parameter(1)" in body:
            key = body.split(" = ")[0]
            values[key] = np.zeros((0, 3), np.float32) if key == "e" else np.zeros((0, 1), np.int32)  # type: ignore[assignment]
        outputs = execute(result.program, values).outputs
        for core in range(2):
            found = [outputs[f"nc{core}/{key}"] for key in result.program.output_names]
            assert len(found) == len(expected)
            assert all(np.array_equal(mine, wanted) for mine, wanted in zip(found, expected, strict=True))


def test_a_type_that_is_not_held_is_refused_all_the_same() -> None:
    with pytest.raises(HauloutError, match="element type `s4` is not supported"):
        lower(parse_hlo("HloModule m\nENTRY e {\nx = f32[2] parameter(0)\nROOT y = s4[0] convert(x)\n}\n"))
