"""Programs written core by core, so that each collective stands where it was put; one kind a program.

Groups: with four cores or more the mesh is `outer` x `inner`, and a collective along one axis runs in several
groups at once, of neighbours (inner) or of strided cores (outer).
"""

# JAX leaves many of its functions without annotations.
# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from example_program import Arg, Example, Program, cube, line, manual
from jax import lax
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

__all__ = ["EXAMPLES"]

Build = Callable[[int], Program]
ROWS, COLUMNS = P("core"), P(None, "core")


def _grid(cores: int) -> Mesh:
    return cube(outer=2, inner=cores // 2)


def _every(shape: tuple[int, ...], dtype: Any = jnp.float32, low: int = -9, high: int = 10) -> Arg:
    """Split by rows: `shape` is one core's part, once per core when the mesh is a line."""
    return Arg(shape, ROWS, dtype, low=low, high=high)


def _on_line(fn: Callable[..., Any], outs: Any, *shapes: tuple[int, ...], dtype: Any = jnp.float32) -> Build:
    """`fn` on a line of cores; every core gets an array of each of `shapes`."""

    def build(cores: int) -> Program:
        args = tuple(_every((shape[0] * cores, *shape[1:]), dtype) for shape in shapes)
        mesh = line(cores)
        return Program(manual(fn, mesh, tuple(arg.spec for arg in args), outs), args, mesh)

    return build


def _on_grid(fn: Callable[..., Any], outs: Any, shape: tuple[int, ...]) -> Build:
    """`fn` on the two-dimensional mesh; every core gets an array of `shape`."""

    def build(cores: int) -> Program:
        arg = Arg((shape[0] * cores, *shape[1:]), P(("outer", "inner")))
        mesh = _grid(cores)
        return Program(manual(fn, mesh, (arg.spec,), outs), (arg,), mesh)

    return build


def _ring(cores: int, step: int = 1) -> list[tuple[int, int]]:
    return [(core, (core + step) % cores) for core in range(cores)]


# --- all-reduce


def _reduce_integers(x: jax.Array) -> Any:
    small = x.astype(jnp.int8)
    return lax.psum(x, "core"), lax.pmax(small, "core"), lax.pmin(x.astype(jnp.uint32), "core")


def _reduce_groups(x: jax.Array) -> Any:
    return lax.psum(x, "inner"), lax.pmax(x, "outer"), lax.pmin(x, ("outer", "inner"))


def all_reduce_logical(cores: int) -> Program:
    """And, or and product: only the partitioner makes these, from a reduction over a split dimension.

    (XLA's CPU collectives know and/or of booleans only, so there are no bits of integers here.)
    """

    def fn(flags: jax.Array, x: jax.Array) -> Any:
        return flags.all(0), (~flags).any(0), x.prod(0)

    args = (
        Arg((2 * cores, 6), ROWS, jnp.bool_),
        Arg((2 * cores, 3), ROWS, mean=1.0, scale=0.3),
    )
    return Program(fn, args, line(cores), out=P())


# --- all-gather, reduce-scatter, all-to-all


def _gather(x: jax.Array, y: jax.Array) -> Any:
    rows = lax.all_gather(x, "core", axis=0, tiled=True)
    columns = lax.all_gather(y, "core", axis=1, tiled=True)
    return rows, columns, lax.all_gather(y, "core", axis=2)


def _gather_groups(x: jax.Array) -> Any:
    return lax.all_gather(x, "inner", axis=1, tiled=True), lax.all_gather(x, "outer", axis=0, tiled=True)


def _scatter(x: jax.Array) -> Any:
    return lax.psum_scatter(x, "core", tiled=True), lax.psum_scatter(x, "core", scatter_dimension=1, tiled=True)


def _scatter_groups(x: jax.Array) -> Any:
    inner = lax.psum_scatter(x, "inner", scatter_dimension=1, tiled=True)
    return inner, lax.psum_scatter(x, "outer", tiled=True)


def _exchange(x: jax.Array) -> Any:
    return (
        lax.all_to_all(x, "core", split_axis=0, concat_axis=1, tiled=True),
        lax.all_to_all(x, "core", split_axis=1, concat_axis=0, tiled=True),
        lax.all_to_all(x, "core", split_axis=1, concat_axis=1, tiled=True),
    )


def _exchange_groups(x: jax.Array) -> Any:
    inner = lax.all_to_all(x, "inner", split_axis=1, concat_axis=0, tiled=True)
    return inner, lax.all_to_all(x, "outer", split_axis=0, concat_axis=2, tiled=True)


# --- collective-permute


def permute(cores: int) -> Program:
    """A ring both ways; a shift whose first core gets zeros; a swap of the first two cores alone."""

    def fn(x: jax.Array) -> Any:
        forth = lax.ppermute(x, "core", _ring(cores))
        back = lax.ppermute(x, "core", _ring(cores, -1))
        shift = lax.ppermute(x, "core", _ring(cores)[:-1])
        return forth, back, shift, lax.ppermute(x, "core", [(0, 1), (1, 0)])

    return _on_line(fn, ROWS, (3, 4))(cores)


def permute_groups(cores: int) -> Program:
    """Rings inside the groups of each axis."""

    def fn(x: jax.Array) -> Any:
        inner = lax.ppermute(x, "inner", _ring(cores // 2))
        return inner, lax.ppermute(x, "outer", _ring(2))

    both = P(("outer", "inner"))
    return _on_grid(fn, (both, both), (3, 4))(cores)


# --- several in a row


def chain(cores: int) -> Program:
    """Collectives one after another on changing data: staging storage is used again and again."""

    def fn(x: jax.Array, y: jax.Array) -> Any:
        for step in range(3):
            total = lax.psum(x * y, "core")
            everyone = lax.all_gather(x, "core", axis=0, tiled=True)
            y = lax.ppermute(y + total, "core", _ring(cores, step + 1))
            x = lax.psum_scatter(everyone * jnp.tile(y, (cores, 1)), "core", tiled=True) * 0.1
        return x, y

    return _on_line(fn, (ROWS, ROWS), (2, 4), (2, 4))(cores)


def core_number(cores: int) -> Program:
    """What each core does depends on its number: slices at it, selects by it."""

    def fn(x: jax.Array, table: jax.Array) -> Any:
        me = lax.axis_index("core")
        mine = lax.dynamic_index_in_dim(table, me, keepdims=False)
        beyond = lax.dynamic_slice_in_dim(table, 3 * me, 2)  # clamped on the last cores
        placed = lax.dynamic_update_slice(jnp.zeros((cores, 3)), x[:1], (me, 0))
        return jnp.where(me % 2 == 0, x, -x), mine[None], beyond, lax.psum(placed, "core"), me[None]

    args = (_every((2 * cores, 3)), Arg((cores, 3)))
    mesh = line(cores)
    outs = (ROWS, ROWS, ROWS, P(), ROWS)
    return Program(manual(fn, mesh, (ROWS, P()), outs), args, mesh)


def ring_matmul(cores: int) -> Program:
    """A product whose left side travels around the ring while its blocks are used; reduce-scatter at the end."""

    def fn(x: jax.Array, w: jax.Array, v: jax.Array) -> Any:
        rows = x.shape[0]
        hidden = jnp.zeros((rows * cores, w.shape[1]), x.dtype)
        me = lax.axis_index("core")
        for step in range(cores):
            hidden = lax.dynamic_update_slice(hidden, x @ w, (((me + step) % cores) * rows, 0))
            if step + 1 < cores:
                x = lax.ppermute(x, "core", _ring(cores, -1))
        return lax.psum_scatter(jax.nn.relu(hidden) @ v, "core", tiled=True)

    args = (Arg((16, 16), ROWS), Arg((16, 32), COLUMNS, scale=0.3), Arg((32, 16), ROWS, scale=0.2))
    mesh = line(cores)
    return Program(manual(fn, mesh, tuple(arg.spec for arg in args), ROWS), args, mesh)


def moe_shardmap(cores: int) -> Program:
    """Top-1 routing by hand: tokens are scattered into seats, sent to their expert's core, and gathered back."""
    experts, width, hidden, seats = 2 * cores, 8, 16, 3

    def fn(x: jax.Array, router: jax.Array, up: jax.Array, down: jax.Array) -> Any:
        gate = jax.nn.softmax(x @ router)
        expert = gate.argmax(-1)
        chosen = jax.nn.one_hot(expert, experts, dtype=jnp.int32)
        seat = ((jnp.cumsum(chosen, axis=0) - 1) * chosen).sum(-1)
        sent = jnp.zeros((experts, seats, width)).at[expert, seat].add(x, mode="drop")
        here = lax.all_to_all(sent, "core", split_axis=0, concat_axis=1, tiled=True)
        worked = jnp.einsum("ecf,efd->ecd", jax.nn.relu(jnp.einsum("ecd,edf->ecf", here, up)), down)
        back = lax.all_to_all(worked, "core", split_axis=1, concat_axis=0, tiled=True)
        kept = (seat < seats) | (gate.max(-1) > 2.0)
        result = jnp.where(kept[:, None], back[expert, seat], 0.0) * gate.max(-1)[:, None]
        return jnp.concatenate([result, x], axis=1), lax.psum(chosen.astype(jnp.float32).mean(0), "core")

    args = (
        Arg((8 * cores, width), ROWS),
        Arg((width, experts)),
        Arg((experts, width, hidden), ROWS, scale=0.3),
        Arg((experts, hidden, width), ROWS, scale=0.3),
    )
    mesh = line(cores)
    return Program(manual(fn, mesh, tuple(arg.spec for arg in args), (ROWS, P())), args, mesh)


_PAIR = P(("outer", "inner"))
_BF16: dict[str, Any] = {"dtype": jnp.bfloat16}


def _per_core(cores: int, shape: tuple[int, int], fn: Callable[[jax.Array], Any], **how: Any) -> Program:
    """For shapes that grow with the number of cores: `shape` times `cores` columns and rows on each core."""
    arg = Arg((shape[0] * cores * cores, shape[1] * cores), ROWS, **how)
    mesh = line(cores)
    return Program(manual(fn, mesh, (ROWS,), ROWS), (arg,), mesh)


EXAMPLES = (
    Example("all_reduce_sum", (2, 4, 8), _on_line(lambda x: lax.psum(x, "core"), P(), (3, 5))),
    Example("all_reduce_max", (2, 4), _on_line(lambda x: lax.pmax(x, "core"), P(), (3, 5))),
    Example("all_reduce_min", (2, 4), _on_line(lambda x: lax.pmin(x, "core"), P(), (3, 5))),
    Example("all_reduce_bf16", (2, 4), _on_line(lambda x: lax.psum(x, "core"), P(), (3, 5), **_BF16)),
    Example("all_reduce_integers", (2, 4), _on_line(_reduce_integers, P(), (3, 5), dtype=jnp.int32)),
    Example("all_reduce_logical", (2, 4), all_reduce_logical),
    Example("all_reduce_groups", (4, 8), _on_grid(_reduce_groups, (P("outer"), P("inner"), P()), (2, 3))),
    Example("all_gather", (2, 4, 8), _on_line(_gather, P(), (2, 3), (3, 2))),
    Example("all_gather_bf16", (4,), _on_line(_gather, P(), (2, 3), (3, 2), **_BF16)),
    Example("all_gather_groups", (4, 8), _on_grid(_gather_groups, (P("outer"), P("inner")), (2, 3))),
    Example("reduce_scatter", (2, 4), lambda n: _per_core(n, (2, 1), _scatter)),
    Example("reduce_scatter_bf16", (4,), lambda n: _per_core(n, (2, 1), _scatter, dtype=jnp.bfloat16)),
    Example("reduce_scatter_groups", (4, 8), _on_grid(_scatter_groups, (_PAIR, _PAIR), (4, 8))),
    Example("all_to_all", (2, 4), lambda n: _per_core(n, (1, 2), _exchange)),
    Example("all_to_all_bf16", (4,), lambda n: _per_core(n, (1, 2), _exchange, dtype=jnp.bfloat16)),
    Example("all_to_all_groups", (4, 8), _on_grid(_exchange_groups, (_PAIR, _PAIR), (4, 4, 2))),
    Example("permute", (2, 4, 8), permute),
    Example("permute_groups", (4, 8), permute_groups),
    Example("chain", (2, 4, 8), chain),
    Example("core_number", (2, 4), core_number),
    Example("ring_matmul", (2, 4, 8), ring_matmul),
    Example("moe_shardmap", (2, 4), moe_shardmap),
)
