"""The order of operations for memory: against all orders of small programs, and what it does to whole programs."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import numpy as np
import pytest

import haulout
from haulout.frontends.hlo import lower, parse_hlo
from haulout.frontends.hlo.flatten import flatten
from haulout.frontends.hlo.live_steps import live_steps
from haulout.frontends.hlo.lower import RULES
from haulout.frontends.hlo.memory_order import order_for_memory
from haulout.frontends.hlo.values import Array, Operation, View, leaves


def random_text(seed: int) -> str:
    """Concatenations of parts of what there is: no result may take over the place of an operand."""
    random = Random(seed)
    sizes, lines = {"p": 4}, ["  p = f32[4] parameter(0)", "  at = s32[] parameter(1)"]
    unread: set[str] = set()
    for number in range(random.randint(4, 7)):
        name, source = f"v{number}", random.choice(list(sizes))
        unread -= {source}
        if sizes[source] > 6:
            size = random.randint(1, 3)
            lines.append(f"  {name} = f32[{size}] dynamic-slice({source}, at), dynamic_slice_sizes={{{size}}}")
        else:
            other = random.choice(["p", *sizes])
            unread -= {other}
            size = sizes[source] + sizes[other]
            lines.append(f"  {name} = f32[{size}] concatenate({source}, {other}), dimensions={{0}}")
        sizes[name] = size
        unread.add(name)
    last = sorted(unread)
    total = sum(sizes[name] for name in last)
    lines.append(f"  ROOT out = f32[{total}] concatenate({', '.join(last)}), dimensions={{0}}")
    return "\n".join(["HloModule m, num_partitions=1", "ENTRY e {", *lines, "}", ""])


def steps_of(text: str) -> tuple[list[Operation], list[Array]]:
    module = parse_hlo(text)
    flat = flatten(module, module.entry, RULES, control=True)
    steps = [step for step in live_steps(flat) if isinstance(step, Operation)]
    return steps, [view.array for _, view in leaves(flat.result)]


def bytes_of(array: Array) -> int:
    return View(array, array.shape).nbytes if array.producer is not None else 0


def peak(order: list[Operation], results: list[Array]) -> int:
    """The most bytes of operands, results, and what is read later."""
    found = 0
    for at in range(len(order)):
        born = {array for step in order[: at + 1] for array in step.results}
        read = {view.array for step in order[at:] for view in step.operands} | set(results) | set(order[at].results)
        found = max(found, sum(bytes_of(array) for array in born & read))
    return found


def orders(steps: list[Operation], done: frozenset[Operation] = frozenset()) -> Iterator[list[Operation]]:
    """All orders with every operand before its readers."""
    if len(done) == len(steps):
        yield []
    for step in steps:
        if step not in done and all(view.array.producer in {None, *done} for view in step.operands):
            for rest in orders(steps, done | {step}):
                yield [step, *rest]


@pytest.mark.parametrize("seed", range(60))
def test_no_order_is_worse_than_the_given_one_and_few_are_better(seed: int) -> None:
    steps, results = steps_of(random_text(seed))
    numbers = [step.seq for step in steps]
    found = [step for step in order_for_memory(steps, {}, results) if isinstance(step, Operation)]
    assert sorted(map(id, found)) == sorted(map(id, steps))
    assert [step.seq for step in found] == numbers
    place = {step: at for at, step in enumerate(found)}
    for step in found:
        assert all(
            place[view.array.producer] < place[step]
            for view in step.operands
            if isinstance(view.array.producer, Operation)
        )
    best = min(peak(order, results) for order in orders(steps))
    assert best <= peak(found, results) <= peak(steps, results)
    assert found == steps or peak(found, results) < peak(steps, results)
    assert peak(found, results) <= 1.25 * best


def test_many_orders_become_better() -> None:
    better = 0
    for seed in range(60):
        steps, results = steps_of(random_text(seed))
        before = peak(steps, results)
        found = [step for step in order_for_memory(steps, {}, results) if isinstance(step, Operation)]
        better += peak(found, results) < before
    assert better > 5


EARLY = """HloModule m, num_partitions=1
add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT sum = f32[] add(a, b)
}
ENTRY e {
  x = f32[64,64] parameter(0)
  zero = f32[] constant(0)
  p = f32[64,64] dot(x, x), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  q = f32[64,64] dot(x, x), lhs_contracting_dims={0}, rhs_contracting_dims={1}
  r = f32[64,64] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  i = f32[64] reduce(p, zero), dimensions={0}, to_apply=add
  j = f32[64] reduce(q, zero), dimensions={0}, to_apply=add
  k = f32[64] reduce(r, zero), dimensions={0}, to_apply=add
  ij = f32[64] add(i, j)
  ROOT ijk = f32[64] add(ij, k)
}
"""


def test_products_are_computed_where_they_are_read() -> None:
    program = lower(parse_hlo(EARLY))
    names = [program.instruction_name(row) for row in range(len(program.instructions))]
    assert names == ["p", "i", "q", "j", "ij", "r", "k", "ijk"] or names == [
        "p",
        "i",
        "q",
        "j",
        "r",
        "k",
        "ij",
        "ijk",
    ]
    assert np.all(np.diff(program.instructions.seq) > 0)
    result = haulout.compile(program)
    assert result.proved
    assert result.report.total_peak_bytes < 2.2 * 64 * 64 * 4
    x = np.random.default_rng(0).random((64, 64), dtype="f4")
    (found,) = haulout.simulate(result.program, {"x": x}).outputs.values()
    assert np.allclose(found, (x.T @ x).sum(0) + (x.T @ x.T).sum(0) + (x @ x.T).sum(0), rtol=1e-5)


DONATED = """HloModule m, num_partitions=1, input_output_alias={ {0}: (0, {}, may-alias) }
ENTRY e {
  w = f32[64,64] parameter(0)
  x = f32[64,64] parameter(1)
  g = f32[64,64] dot(x, x), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  h = f32[64,64] dot(g, x), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  n = f32[64,64] add(w, g)
  ROOT t = (f32[64,64], f32[64,64]) tuple(n, h)
}
"""


def test_bytes_of_a_donated_parameter_are_never_free() -> None:
    """`n` before `h` would free `w`, if its bytes were not those of `n`."""
    program = lower(parse_hlo(DONATED))
    assert [program.instruction_name(row) for row in range(len(program.instructions))] == ["g", "h", "n"]
