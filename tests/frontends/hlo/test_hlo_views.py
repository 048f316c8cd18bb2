"""Chains of movements, read by everything that may read strides, against NumPy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from haulout.frontends.hlo import lower, parse_hlo
from haulout.frontends.hlo.types import Shape
from haulout.frontends.hlo.values import Array, View
from haulout.frontends.hlo.views import reshaped, seen
from haulout.ir.verify import verify
from haulout.sim import simulate


def text(dims: tuple[int, ...]) -> str:
    return f"f32[{','.join(map(str, dims))}]"


def listed(numbers: list[int]) -> str:
    return "{" + ",".join(map(str, numbers)) + "}"


@dataclass
class Chain:
    """Lines of HLO, and the value after each of them."""

    lines: list[str]
    values: list[np.ndarray]

    def add(self, opcode: str, value: np.ndarray, attributes: str = "") -> None:
        at = len(self.lines)
        source = f"v{at - 1}"
        self.lines.append(f"  v{at} = {text(value.shape)} {opcode}({source}){attributes}")
        self.values.append(value)


@st.composite
def chains(draw: st.DrawFn) -> Chain:
    """A parameter and up to six movements."""
    dims = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    chain = Chain([f"  v0 = {text(tuple(dims))} parameter(0)"], [np.arange(np.prod(dims), dtype="f4").reshape(dims)])
    kinds = ["copy", "transpose", "slice", "reverse", "broadcast", "reshape"]
    for kind in draw(st.lists(st.sampled_from(kinds), max_size=6)):
        value = chain.values[-1]
        rank = value.ndim
        if kind == "copy":
            chain.add("copy", value)
        elif kind == "transpose":
            order = draw(st.permutations(range(rank)))
            chain.add("transpose", value.transpose(order), f", dimensions={listed(order)}")
        elif kind == "reverse":
            dims = draw(st.lists(st.integers(0, rank - 1), unique=True, max_size=rank)) if rank else []
            chain.add("reverse", np.flip(value, dims), f", dimensions={listed(dims)}")
        elif kind == "slice":
            bounds = []
            for extent in value.shape:
                start = draw(st.integers(0, extent - 1))
                bounds.append((start, draw(st.integers(start + 1, extent)), draw(st.integers(1, 2))))
            cut = ",".join(f"[{start}:{limit}:{step}]" for start, limit, step in bounds)
            chain.add("slice", value[tuple(slice(*each) for each in bounds)], ", slice={" + cut + "}")
        elif kind == "broadcast" and value.size <= 64:
            at = draw(st.integers(0, rank))
            places = [dim + (dim >= at) for dim in range(rank)]
            wide = np.broadcast_to(np.expand_dims(value, at), (*value.shape[:at], 3, *value.shape[at:]))
            chain.add("broadcast", wide, f", dimensions={listed(places)}")
        elif kind == "reshape":
            turned = draw(st.sampled_from([(value.size,), (1, *value.shape), value.shape[::-1], (value.size, 1)]))
            chain.add("reshape", value.reshape(turned))
    return chain


READERS = ["negate", "itself", "reduce", "dot"]


@given(st.data(), chains())
def test_chains_are_what_numpy_makes_of_them(data: st.DataObject, chain: Chain) -> None:
    value, last = chain.values[-1], f"v{len(chain.lines) - 1}"
    rank = value.ndim
    lines, outputs = list(chain.lines), {}
    for number, kind in enumerate(
        data.draw(st.lists(st.sampled_from(["negate", "itself", "reduce", "dot"]), min_size=1))
    ):
        name = f"out{number}"
        if kind == "negate":
            lines.append(f"  {name} = {text(value.shape)} negate({last})")
            outputs[name] = -value
        elif kind == "itself":
            lines.append(f"  {name} = {text(value.shape)} copy({last})")
            outputs[name] = value
        elif kind == "reduce":
            dims = data.draw(st.lists(st.integers(0, rank - 1), unique=True, max_size=rank)) if rank else []
            outputs[name] = value.sum(tuple(dims), dtype="f4") if dims else value
            lines.append(f"  {name}.zero = f32[] constant(0)")
            taken = f"dimensions={listed(dims)}, to_apply=add"
            lines.append(f"  {name} = {text(outputs[name].shape)} reduce({last}, {name}.zero), {taken}")
        elif rank:
            taken = data.draw(st.lists(st.integers(0, rank - 1), unique=True, min_size=1))
            outputs[name] = np.tensordot(value, value, (taken, taken)).astype("f4")
            sides = f"lhs_contracting_dims={listed(taken)}, rhs_contracting_dims={listed(taken)}"
            lines.append(f"  {name} = {text(outputs[name].shape)} dot({last}, {last}), {sides}")
    if not outputs:
        return
    shapes = ", ".join(text(each.shape) for each in outputs.values())
    root = f"  ROOT result = ({shapes}) tuple({', '.join(outputs)})"
    add = "add {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT sum = f32[] add(a, b)\n}\n"
    module = "HloModule m, num_partitions=1\n\n" + add + "\nENTRY main {\n" + "\n".join([*lines, root]) + "\n}\n"
    program = lower(parse_hlo(module, "chain.hlo"))
    assert not verify(program)
    result = simulate(program, {"v0": chain.values[0]})
    names = program.attrs["outputs"]
    assert isinstance(names, list)
    for name, expected in zip(names, outputs.values(), strict=True):
        assert np.array_equal(result.outputs[f"nc0/{name}"].reshape(expected.shape), expected)


@given(st.data(), st.lists(st.integers(1, 4), min_size=1, max_size=4))
def test_reshaped_is_a_view_where_numpy_needs_no_copy(data: st.DataObject, dims: list[int]) -> None:
    base = np.arange(np.prod(dims), dtype=np.int32).reshape(dims)
    order = data.draw(st.permutations(range(len(dims))))
    turned = base.transpose(order)
    view = seen(View(Array(None, Shape("s32", tuple(dims))), Shape("s32", tuple(dims))), turned.shape, turned.strides)  # type: ignore[arg-type]
    shape = data.draw(st.sampled_from([(base.size,), tuple(dims), tuple(dims[::-1]), (2, -1), (-1, 2)]))
    try:
        wanted = turned.reshape(shape)
    except ValueError:
        return
    found = reshaped(view, Shape("s32", wanted.shape))
    assert (found is not None) == bool(np.shares_memory(wanted, base))
    if found is not None:
        at = np.arange(base.nbytes) if found.pattern is None else found.pattern.bytes()
        assert np.array_equal(base.ravel().view(np.uint8)[at], np.ascontiguousarray(wanted).ravel().view(np.uint8))


@pytest.mark.parametrize(("readers", "copies"), [(1, 0), (8, 1)])
def test_a_transpose_with_many_strided_readers_is_stored_once(readers: int, copies: int) -> None:
    lines = ["  x = f32[64,64] parameter(0)", "  t = f32[64,64] transpose(x), dimensions={1,0}"]
    lines += [f"  n{at} = f32[64,64] {'negate' if at % 2 else 'abs'}(t)" for at in range(readers)]
    shapes = ", ".join(["f32[64,64]"] * readers)
    root = f"  ROOT r = ({shapes}) tuple({', '.join(f'n{at}' for at in range(readers))})"
    module = "HloModule m, num_partitions=1\n\nENTRY main {\n" + "\n".join([*lines, root]) + "\n}\n"
    program = lower(parse_hlo(module, "t.hlo"))
    opcodes = [program.strings[at] for at in program.instructions.opcode.tolist()]
    assert opcodes.count("dma_copy") == copies


LOOP = """HloModule m, num_partitions=1
body {
  state = (s32[], f32[64,64], f32[64,64]) parameter(0)
  n = s32[] get-tuple-element(state), index=0
  one = s32[] constant(1)
  more = s32[] add(n, one)
  sum = f32[64,64] get-tuple-element(state), index=1
  given = f32[64,64] get-tuple-element(state), index=2
  added = f32[64,64] add(sum, given)
  ROOT next = (s32[], f32[64,64], f32[64,64]) tuple(more, added, given)
}
below {
  state.1 = (s32[], f32[64,64], f32[64,64]) parameter(0)
  n.1 = s32[] get-tuple-element(state.1), index=0
  five = s32[] constant(5)
  ROOT less = pred[] compare(n.1, five), direction=LT
}
ENTRY e {
  x = f32[64,64] parameter(0)
  y = f32[64,64] parameter(1)
  turned = f32[64,64] transpose(x), dimensions={1,0}
  zero = s32[] constant(0)
  init = (s32[], f32[64,64], f32[64,64]) tuple(zero, y, turned)
  loop = (s32[], f32[64,64], f32[64,64]) while(init), condition=below, body=body
  ROOT out = f32[64,64] get-tuple-element(loop), index=1
}
"""


@pytest.mark.parametrize("inside", [False, True])
def test_what_a_loop_reads_from_outside_is_stored_before_it(inside: bool) -> None:
    """A movement inside of the loop is not, with one reader there."""
    text = LOOP
    if inside:
        text = text.replace("transpose(x), dimensions={1,0}", "negate(x)")
        text = text.replace("add(sum, given)", "add(sum, turn)").replace(
            "  added =", "  turn = f32[64,64] transpose(given), dimensions={1,0}\n  added ="
        )
    program = lower(parse_hlo(text))
    assert verify(program) == []
    names = {program.instruction_name(row): row for row in range(len(program.instructions))}
    strided = program.accesses.pattern[program.accesses.instruction == names["added"]] >= 0
    assert strided.any() == inside
    assert ("turned" in names) and ("turn" not in names)
    x, y = (np.random.default_rng(seed).integers(-9, 9, (64, 64)).astype("f4") for seed in range(2))
    (found,) = simulate(program, {"x": x, "y": y}).outputs.values()
    assert np.array_equal(found, y + 5 * (-x.T if inside else x.T))
