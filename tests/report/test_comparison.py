"""The parts of a comparison: numbers, layouts, loops, and values that the cores hold in parts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.cli.command import ROOT
from tests.sim.sim_programs import count, program
from tests.sim.test_sim_loops import TRIANGLE

import haulout
from haulout.report.comparison.first import Holds
from haulout.report.comparison.layout import by_shapes, by_user
from haulout.report.comparison.numbers import Tolerance

EXAMPLES = ROOT / "examples" / "compare"


@pytest.mark.parametrize(
    ("want", "got", "options", "count"),
    [
        ([1.0, 2.0], [1.0, 2.0], {}, 0),
        ([1.0, 2.0], [1.0, 2.1], {}, 1),
        ([1.0, 2.0], [1.0, 2.1], {"rtol": 0.06}, 0),
        ([1.0, 2.0], [1.0, 2.1], {"atol": 0.11}, 0),
        ([np.nan, np.inf], [np.nan, np.inf], {}, 0),
        ([np.nan, 1.0], [1.0, np.nan], {"rtol": 9.0}, 2),
        ([np.inf, 1.0], [-np.inf, 1.0], {"rtol": 9.0}, 1),
        ([1, 2], [1, 3], {"rtol": 9.0, "atol": 9.0}, 1),
        ([True, False], [True, True], {}, 1),
    ],
)
def test_numbers(want: list[float], got: list[float], options: dict[str, float], count: int) -> None:
    arrays = [np.array(each) for each in (want, got)]
    arrays = [each.astype(np.float32) if each.dtype == np.float64 else each for each in arrays]
    assert Tolerance(**options).compare(*arrays).count == count


def test_mask_hides_nothing() -> None:
    """Relative to -1e9, all small numbers are equal; of operations each number counts."""
    want, got = np.array([-1e9, 0.1, 0.2, 0.3], np.float32), np.array([-1e9, 0.1, 0.5, 0.3], np.float32)
    assert Tolerance().compare(want, got).count == 0
    assert Tolerance().times(10, want.dtype).compare(want, got).count == 1


def test_worst_element() -> None:
    want, got = np.zeros((2, 3), np.float32), np.zeros((2, 3), np.float32)
    got[1, 2], got[0, 1] = 4, -3
    found = Tolerance().compare(want, got)
    assert (found.count, found.largest, found.index) == (2, 4.0, (1, 2))


def test_tiles_make_up_the_array() -> None:
    """Every layout cuts the array into tiles that cover it, each on equally many cores."""
    whole = np.arange(24).reshape(4, 6)
    for shape, cores in (((4, 6), 4), ((2, 6), 4), ((2, 3), 4), ((4, 2), 3), ((1, 6), 8)):
        layouts = by_shapes(whole.shape, shape, cores)
        assert len(layouts) == (1 if np.prod(shape) * cores == 24 or shape == (4, 6) else 2)
        for layout in layouts:
            parts = [layout.part(whole, shape, core) for core in range(cores)]
            assert all(part.shape == shape for part in parts)
            held = np.concatenate([part.ravel() for part in parts])
            assert np.bincount(held, minlength=24).tolist() == [cores * np.prod(shape) // 24] * 24


def test_last_tile_reaches_beyond_the_end() -> None:
    layout = by_user("x", 0, (5,), (2,), 3)
    assert [layout.part(np.arange(1, 6), (2,), core).tolist() for core in range(3)] == [[1, 2], [3, 4], [5, 0]]
    assert not by_shapes((5,), (4,), 3) and not by_shapes((4,), (2, 2), 2) and not by_shapes((4, 4), (2, 2), 3)


def test_difference_of_a_later_iteration() -> None:
    """1 * 1, 1 * 2, 2 * 3, and the larger of both each time: the third iteration is the first that differs."""
    one, two = (program(TRIANGLE.replace("%acc = add", f"%acc = {each}")) for each in ("multiply", "maximum"))
    inputs = count(3) | {"s": np.array(1, np.int32)}
    found = haulout.compare(one, two, {name: np.asarray(value, np.int32) for name, value in inputs.items()})
    assert not found.equal and {each.b for each in found.outputs if not each.equal} == {"s", "y"}
    assert {each.b for each in found.first.values()} == {"acc"}
    assert haulout.compare(one, two, {**count(2), "s": np.array(1, np.int32)}).equal


def test_parts_of_a_sum() -> None:
    found = haulout.compare(EXAMPLES / "mlp.hlo", EXAMPLES / "mlp_no_all_reduce.n2.hlo")
    first = found.first["add"]
    assert dict(first.right) == {"dot.1": Holds.SUM, "param": Holds.ALL}
    assert [core for core, _ in first.cores] == [0, 1]


def test_result_that_nothing_adds(tmp_path: Path) -> None:
    """The parts are the result itself: the operation that makes them is named."""
    one, two = tmp_path / "one.hlo", tmp_path / "two.hlo"
    dot = "dot(%x, %w), lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    for path, cores, inner in ((one, 1, 8), (two, 2, 4)):
        path.write_text(
            f"HloModule f, num_partitions={cores}\nENTRY %m (x: f32[3,{inner}], w: f32[{inner},5]) -> f32[3,5] {{\n"
            f"  %x = f32[3,{inner}] parameter(0)\n  %w = f32[{inner},5] parameter(1)\n"
            f"  ROOT %y = f32[3,5] {dot}\n}}\n"
        )
    found = haulout.compare(one, two)
    assert not found.equal and found.first["y"].holds is Holds.SUM
    assert "after %y the cores hold parts of a sum" in found.diagnostics[0].labels[0].message
