"""A `dot` that is only read transposed stores the transpose at once."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from haulout.frontends.hlo import lower, parse_hlo
from haulout.ir.program import Program
from haulout.sim import simulate

MODULE = """HloModule m, num_partitions=1
ENTRY e {{
  x = f32[{x}] parameter(0)
  y = f32[{y}] parameter(1)
{rest}
}}
"""


def lowered(x: str, y: str, *rest: str) -> Program:
    return lower(parse_hlo(MODULE.format(x=x, y=y, rest="\n".join(f"  {line}" for line in rest))))


def opcodes(program: Program) -> list[str]:
    return [program.strings[int(name)] for name in program.instructions.opcode]


def sizes(program: Program) -> list[int]:
    return sorted(program.locations.size.tolist())


BATCHED = "dot(x, y), lhs_batch_dims={0}, lhs_contracting_dims={1}, rhs_batch_dims={0}, rhs_contracting_dims={1}"


def test_the_operands_change_places() -> None:
    program = lowered(
        "3,5,2", "3,5,7", f"z = f32[3,2,7] {BATCHED}", "ROOT t = f32[3,7,2] transpose(z), dimensions={0,2,1}"
    )
    assert opcodes(program) == ["dot"]
    assert sizes(program) == [120, 168, 420]  # x, the result, y; no product besides
    x = np.arange(30, dtype="f4").reshape(3, 5, 2)
    y = np.arange(105, dtype="f4").reshape(3, 5, 7)
    (result,) = simulate(program, {"x": x, "y": y}).outputs.values()
    assert np.array_equal(result, np.einsum("bkm,bkn->bnm", x, y))


@pytest.mark.parametrize(
    "rest",
    [
        ("t = f32[3,7,2] transpose(z), dimensions={0,2,1}", "ROOT r = (f32[3,7,2], f32[3,2,7]) tuple(t, z)"),
        ("ROOT t = f32[7,3,2] transpose(z), dimensions={2,0,1}",),
        ("ROOT t = f32[2,3,7] transpose(z), dimensions={1,0,2}",),
        ("r = f32[3,2,7] reverse(z), dimensions={0}", "ROOT t = f32[3,7,2] transpose(r), dimensions={0,2,1}"),
    ],
    ids=["read twice", "batch behind", "batch inside", "reversed"],
)
def test_other_orders_are_stored_by_a_copy(rest: tuple[str, ...]) -> None:
    program = lowered("3,5,2", "3,5,7", f"z = f32[3,2,7] {BATCHED}", *rest)
    assert opcodes(program) == ["dot", "dma_copy"]


@st.composite
def products(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, str, list[int]]:
    """Operands, the attributes of their `dot`, and an order of the dimensions of its result."""
    kinds = {kind: draw(st.integers(0, 2)) for kind in ("batch", "contracting")}
    shared = [f"{kind}{number}" for kind, count in kinds.items() for number in range(count)]
    extents = {name: draw(st.integers(1, 3)) for name in shared}
    sides, attributes, rank = [], [], kinds["batch"]
    for side in ("lhs", "rhs"):
        free = [f"{side}{number}" for number in range(draw(st.integers(0, 2)))]
        extents.update({name: draw(st.integers(1, 3)) for name in free})
        dims = draw(st.permutations([*shared, *free]))
        rank += len(free)
        sides.append(np.array(draw(st.permutations(range(int(np.prod([extents[name] for name in dims]))))), "f4"))
        sides[-1] = sides[-1].reshape([extents[name] for name in dims])
        for kind, count in kinds.items():
            places = ",".join(str(dims.index(f"{kind}{number}")) for number in range(count))
            attributes.append(f"{side}_{kind}_dims={{{places}}}" if count else "")
    return *sides, ", ".join(filter(None, attributes)), draw(st.permutations(range(rank)))


@given(products())
def test_any_order_of_a_product_is_what_numpy_makes_of_it(
    given_: tuple[np.ndarray, np.ndarray, str, list[int]],
) -> None:
    x, y, attributes, order = given_

    def text(dims: tuple[int, ...]) -> str:
        return ",".join(map(str, dims))

    def run(*rest: str) -> np.ndarray:
        (result,) = simulate(lowered(text(x.shape), text(y.shape), *rest), {"x": x, "y": y}).outputs.values()
        return result

    def dims(key: str) -> list[int]:
        found = [part.partition("={")[2] for part in attributes.split(", ") if part.startswith(key)]
        return [int(each) for each in found[0].rstrip("}").split(",")] if found else []

    taken = {side: dims(f"{side}_batch") + dims(f"{side}_contracting") for side in ("lhs", "rhs")}
    batch = tuple(x.shape[dim] for dim in dims("lhs_batch"))
    free = [
        extent
        for side, value in (("lhs", x), ("rhs", y))
        for dim, extent in enumerate(value.shape)
        if dim not in taken[side]
    ]
    shape = (*batch, *free)
    separator = ", " if attributes else ""
    product = f"f32[{text(shape)}] dot(x, y){separator}{attributes}"
    plain = run(f"ROOT z = {product}")
    moved = f"f32[{text(tuple(shape[dim] for dim in order))}] transpose(z), dimensions={{{text(tuple(order))}}}"
    assert np.array_equal(run(f"z = {product}", f"ROOT t = {moved}"), plain.transpose(order))
