"""Branches and loops: `lax.cond` and `lax.switch`, taken alike by all cores or by each core as it likes.

Cores part where the predicate depends on the core's number or its own data; then the arms hold no collectives.  Where
all cores take the same arm, they do.
"""

# JAX leaves many of its functions without annotations.
# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from example_program import ROWS, Arg, Example, Program, line, split
from jax import lax
from jax.sharding import PartitionSpec as P

__all__ = ["EXAMPLES"]


def _flag() -> Arg:
    return Arg((), P(), jnp.bool_)


def _choice() -> Arg:
    return Arg((), P(), jnp.int32, low=3, high=4)


# --- all cores take the same arm


def _cond_uniform(x: jax.Array, y: jax.Array, flag: jax.Array) -> Any:
    """Operands and results are tuples; one result is passed on by both arms, two are exchanged by one."""

    def exchange(a: jax.Array, b: jax.Array, c: jax.Array) -> Any:
        return b, a, c, a + b

    def combine(a: jax.Array, b: jax.Array, c: jax.Array) -> Any:
        return a, b * 2, c, a * b

    first = lax.cond(flag, exchange, combine, x, y, x + y)
    return first, lax.cond(~flag, exchange, combine, *first[:3])


def _switch(x: jax.Array, which: jax.Array) -> Any:
    """Four branches, one of which does nothing, one of which forks; then an index that is too large."""

    def nested(v: jax.Array) -> Any:
        return lax.cond(which > 2, jnp.sin, jnp.cos, v)

    y = lax.switch(which, (lambda v: v, lambda v: v * 3, lambda v: -v @ v.T @ v, nested), x)
    return y, lax.switch(which + 9, (jnp.sin, lambda v: v, jnp.tanh), y)


def cond_collectives(cores: int) -> Program:
    """Sums and permutations in the arms; what all cores have decides."""
    ring = [(core, (core + 1) % cores) for core in range(cores)]

    def fn(x: jax.Array, flag: jax.Array) -> Any:
        total = lax.psum(jnp.sum(x), "core")
        y = lax.cond(total > 0, lambda v: lax.psum(v, "core"), lambda v: lax.ppermute(v, "core", ring), x)
        z = lax.cond(total <= 0, lambda v: lax.psum(v, "core"), lambda v: lax.ppermute(v, "core", ring), y)
        return z, lax.cond(flag, lambda v: lax.all_gather(v, "core", tiled=True)[:2], lambda v: v * total, y)

    return split(fn, Arg((2, 3), ROWS), _flag())(cores)


def cond_in_fori(cores: int) -> Program:
    """Even iterations add up, odd ones send on; the first arm of a third branch holds a loop with a collective."""
    ring = [(core, (core + 1) % cores) for core in range(cores)]

    def inner(_: jax.Array, v: jax.Array) -> Any:
        return lax.ppermute(v, "core", ring) * 0.5

    def step(i: jax.Array, state: tuple[jax.Array, jax.Array]) -> Any:
        x, y = state
        x = lax.cond(
            i % 2 == 0, lambda a, b: a + lax.psum(b, "core"), lambda a, b: lax.ppermute(a, "core", ring) - b, x, y
        )
        y = lax.cond(i == 2, lambda v: lax.fori_loop(0, 3, inner, v), lambda v: v, y)
        return x * 0.5, y + x

    def fn(x: jax.Array, y: jax.Array) -> Any:
        return lax.fori_loop(0, 5, step, (x, y))

    return split(fn, Arg((2, 3), ROWS), Arg((2, 3), ROWS))(cores)


def _cond_grad(w: jax.Array, x: jax.Array, flag: jax.Array) -> Any:
    """The derivative of a branch is a branch on the same predicate, whose arms get what the first one kept."""

    def loss(w: jax.Array, flag: jax.Array) -> Any:
        y = lax.cond(flag, lambda a: jnp.tanh(x @ a), lambda a: jnp.sin(x @ a) ** 2, w)
        return lax.psum(jnp.sum(lax.cond(jnp.sum(y) > 0, lambda v: v * v, lambda v: v * 3, y)), "core")

    return jax.grad(loss)(w, flag)[None]


# --- cores may part


def cond_by_core(cores: int) -> Program:
    """The core's number decides, and decides again in one of the arms; everybody meets behind them."""

    def fn(x: jax.Array, y: jax.Array) -> Any:
        me = lax.axis_index("core")
        z = lax.cond(
            me % 2 == 0,
            lambda v: lax.cond(me == 0, lambda u: u @ u.T, lambda u: u[:, :2] * 2, v),
            lambda v: v[:, 1:],
            x * y,
        )
        return z, lax.psum(z, "core"), x - y

    return split(fn, Arg((2, 3), ROWS), Arg((2, 3), ROWS))(cores)


def _cond_by_data(x: jax.Array, y: jax.Array) -> Any:
    """Each core's own data decide, twice in a row; a sum over all cores in between."""
    a, b = lax.cond(x[0, 0] > y[0, 0], lambda: (x, y), lambda: (y, x - y))
    total = lax.psum(a, "core")
    return a, b, total, lax.cond(jnp.sum(total * x) > 0, lambda v, w: v, lambda v, w: v * w, total, b)


def _switch_by_core(x: jax.Array) -> Any:
    """Each core takes a branch of its own, another one in each iteration."""
    branches = (lambda v: v * 1.5, lambda v: v[::-1] - 1, lambda v: v)
    me = lax.axis_index("core")

    def step(i: jax.Array, v: jax.Array) -> Any:
        return lax.switch((me + i) % 3, branches, v)

    return lax.fori_loop(0, 4, step, x)


def _cond_in_scan(x: jax.Array, steps: jax.Array) -> Any:
    """Rejected and accepted steps, each core by its own data; the state is a tuple, every iteration gives a row."""

    def step(state: Any, change: jax.Array) -> Any:
        best, tries, value = state
        tried = value + change
        better = jnp.sum(tried**2) < best

        def accept(s: Any) -> Any:
            return jnp.sum(s[2] ** 2), s[1], s[2]

        def reject(s: Any) -> Any:
            return s[0], s[1] + 1, s[2] * 0.9

        state = lax.cond(better, accept, reject, (best, tries, jnp.where(better, tried, value)))
        return state, state[0]

    (best, tries, value), history = lax.scan(step, (jnp.sum(x**2), jnp.int32(0), x), steps)
    return best[None], tries[None], value, history[None], lax.psum(history, "core")[None]


def _loop_in_cond(x: jax.Array, flag: jax.Array) -> Any:
    """A loop of unknown length in an arm of all cores, one of known length in an arm that core 0 takes alone."""

    def halve(v: jax.Array) -> Any:
        return lax.while_loop(lambda u: jnp.max(jnp.abs(u)) > 0.5, lambda u: u * 0.5, v)

    def known(v: jax.Array) -> Any:
        return lax.fori_loop(0, 3, lambda i, u: lax.cond(i == 1, lambda t: -t, lambda t: t + 1, u), v)

    common = lax.pmax(jnp.max(jnp.abs(x)), "core")
    y = lax.cond(flag, lambda v: v, lambda v: halve(v * 0 + common), x)
    return y, lax.cond(lax.axis_index("core") == 0, known, lambda v: v * 2, y)


def _cond_bf16(x: jax.Array, flag: jax.Array) -> Any:
    """A branch of all cores, and one on the core's number with results of different sizes."""
    me = lax.axis_index("core")
    y = lax.cond(flag, lambda v: v * 3 + 1, lambda v: v - v * v, x)
    z = lax.cond(me == 0, lambda v: (v, v[:1] * 2), lambda v: (jnp.tanh(v), v[1:]), y)
    return y, z, lax.psum(z[0], "core")


# --- a training loop


def clipped_steps(cores: int) -> Program:
    """Some steps of training, the batch split: gradients are clipped if too long, the rate follows a schedule.

    The length of the gradient is known to all cores, so is the step: all of them take the same arms.
    """
    width, steps = 8, 6

    def loss(w: Any, x: jax.Array, y: jax.Array) -> Any:
        return jnp.mean((jnp.tanh(x @ w["in"]) @ w["out"] - y) ** 2)

    def rate(step: jax.Array) -> Any:
        phase = jnp.minimum(step // 2, 2)  # warm up, hold, decay
        return lax.switch(
            phase, (lambda s: 0.05 * (s + 1), lambda s: s * 0 + 0.1, lambda s: 0.4 / s), step.astype(jnp.float32)
        )

    def update(state: Any, step: jax.Array) -> Any:
        w, x, y = state
        value, slope = jax.value_and_grad(loss)(w, x, y)
        length = jnp.sqrt(sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(slope)))
        slope = lax.cond(length > 2, lambda g: jax.tree.map(lambda leaf: leaf * 2 / length, g), lambda g: g, slope)
        w = jax.tree.map(lambda leaf, g: leaf - rate(step) * g, w, slope)
        return (w, x, y), (value, length)

    def fn(w: Any, x: jax.Array, y: jax.Array) -> Any:
        (w, _, _), (values, lengths) = lax.scan(update, (w, x, y), jnp.arange(steps))
        return w, values, lengths

    weights = {"in": Arg((width, 2 * width)), "out": Arg((2 * width, 2), scale=0.7)}
    batch = (Arg((4 * cores, width), ROWS), Arg((4 * cores, 2), ROWS))
    return Program(fn, (weights, *batch), line(cores), (P(), P(), P()), donate=(0,))


EXAMPLES = (
    Example("cond_uniform", (2, 4), split(_cond_uniform, Arg((2, 3), ROWS), Arg((2, 3), ROWS), _flag())),
    Example("switch", (2, 4), split(_switch, Arg((2, 3), ROWS), _choice())),
    Example("cond_collectives", (2, 4), cond_collectives),
    Example("cond_in_fori", (2, 4), cond_in_fori),
    Example("cond_grad", (2, 4), split(_cond_grad, Arg((4, 3)), Arg((2, 4), ROWS), _flag())),
    Example("cond_by_core", (2, 4), cond_by_core),
    Example("cond_by_data", (2, 4), split(_cond_by_data, Arg((2, 3), ROWS), Arg((2, 3), ROWS))),
    Example("switch_by_core", (2, 4), split(_switch_by_core, Arg((2, 3), ROWS))),
    Example("cond_in_scan", (2, 4), split(_cond_in_scan, Arg((2, 3), ROWS), Arg((4, 2, 3), scale=0.5))),
    Example("loop_in_cond", (2, 4), split(_loop_in_cond, Arg((2, 3), ROWS), _flag())),
    Example("cond_bf16", (2, 4), split(_cond_bf16, Arg((2, 3), ROWS, jnp.bfloat16), _flag())),
    Example("clipped_steps", (4,), clipped_steps),
)
