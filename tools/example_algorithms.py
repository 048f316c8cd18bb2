"""Algorithms with control flow of their own: decoding, pipelines, searches, schedules, sorting, on many cores.

What is written for one core decides by what all cores have, or, where that is said, by its own data.
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

# --- inference


def _early_exit(embedding: jax.Array, head: jax.Array, hidden: jax.Array) -> Any:
    """Greedy decoding, the vocabulary split: it stops at a token, or when the state has grown too large."""
    first = lax.axis_index("core") * head.shape[1]

    def pick(hidden: jax.Array) -> Any:
        logits = hidden @ head
        best = lax.pmax(jnp.max(logits), "core")
        mine = jnp.where(jnp.max(logits) == best, first + jnp.argmax(logits), 1 << 20)
        return lax.pmin(mine, "core")

    def goes_on(state: Any) -> Any:
        step, _, _, done = state
        return (step < 6) & ~done

    def decode(state: Any) -> Any:
        step, hidden, tokens, _ = state
        token = pick(hidden)
        tokens = lax.dynamic_update_index_in_dim(tokens, token, step, 0)
        hidden = jnp.tanh(hidden + embedding[token % embedding.shape[0]])
        return step + 1, hidden, tokens, (token % 5 == 0) | (jnp.sum(hidden) > 5)

    return lax.while_loop(goes_on, decode, (0, hidden, jnp.zeros(6, jnp.int32), False))[:3]


def _ring_attention(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
    """Causal attention, keys and values travelling around: a core skips what comes after its queries."""
    cores, me, rows = lax.axis_size("core"), lax.axis_index("core"), q.shape[0]
    ring = [(core, (core + 1) % cores) for core in range(cores)]

    def step(state: Any, turn: jax.Array) -> Any:
        total, highest, weight, k, v = state
        source = (me - turn) % cores

        def attend(total: jax.Array, highest: jax.Array, weight: jax.Array) -> Any:
            scores = q @ k.T / 2
            mine, theirs = jnp.arange(rows) + rows * me, jnp.arange(rows) + rows * source
            scores = jnp.where(mine[:, None] >= theirs, scores, -1e30)
            higher = jnp.maximum(highest, scores.max(1))
            part, shrink = jnp.exp(scores - higher[:, None]), jnp.exp(highest - higher)
            return total * shrink[:, None] + part @ v, higher, weight * shrink + part.sum(1)

        found = lax.cond(source <= me, attend, lambda *same: same, total, highest, weight)
        return (*found, lax.ppermute(k, "core", ring), lax.ppermute(v, "core", ring)), None

    start = jnp.zeros_like(q), jnp.full(rows, -1e30), jnp.zeros(rows), k, v
    (total, _, weight, _, _), _ = lax.scan(step, start, jnp.arange(cores))
    return total / weight[:, None]


def _top_p(logits: jax.Array, key: jax.Array) -> jax.Array:
    """Sampling from the likeliest tokens: sorted, summed up, cut off, drawn with a key of the core's own."""
    probabilities = jax.nn.softmax(logits)
    order = jnp.argsort(-probabilities, axis=-1)
    falling = jnp.take_along_axis(probabilities, order, -1)
    kept = jnp.cumsum(falling, -1) - falling < 0.7
    own = jax.random.fold_in(jax.random.wrap_key_data(key), lax.axis_index("core"))
    drawn = jax.random.categorical(own, jnp.where(kept, jnp.log(falling), -jnp.inf))
    return jnp.take_along_axis(order, drawn[:, None], 1)


def _experts(x: jax.Array, w: jax.Array) -> Any:
    """Tokens go to all cores and come back; each core is an expert of another kind."""
    cores, me = lax.axis_size("core"), lax.axis_index("core")
    kinds = (
        lambda v: jnp.tanh(v @ w),
        lambda v: jax.nn.relu(v @ w.T),
        jax.nn.gelu,
        lambda v: v * jax.nn.sigmoid(v @ w),
    )

    def exchange(v: jax.Array) -> Any:
        return lax.all_to_all(v.reshape(cores, -1), "core", 0, 0, tiled=True).reshape(v.shape)

    return exchange(lax.switch(me % 4, kinds, exchange(x)))


# --- training


def _pipeline(w: jax.Array, batches: jax.Array) -> jax.Array:
    """A stage a core: the first takes batches in, the last keeps results, all idle when nothing has come."""
    stages, me, count = lax.axis_size("core"), lax.axis_index("core"), batches.shape[0]

    def tick(state: Any, time: jax.Array) -> Any:
        arrived, results = state
        given = lax.cond(me == 0, lambda: batches[jnp.minimum(time, count - 1)], lambda: arrived)
        busy = (time >= me) & (time - me < count)
        made = lax.cond(busy, lambda v: jnp.tanh(v @ w), jnp.zeros_like, given)
        results = lax.cond(
            (me == stages - 1) & busy,
            lambda kept: lax.dynamic_update_index_in_dim(kept, made, time - me, 0),
            lambda kept: kept,
            results,
        )
        return (lax.ppermute(made, "core", [(stage, stage + 1) for stage in range(stages - 1)]), results), None

    start = jnp.zeros_like(batches[0]), jnp.zeros_like(batches)
    return lax.scan(tick, start, jnp.arange(count + stages - 1))[0][1]


def _loss_scaling(w: jax.Array, x: jax.Array, y: jax.Array) -> Any:
    """Steps whose gradient is not finite are skipped and halve the scale; two good ones double it."""

    def step(state: Any, number: jax.Array) -> Any:
        w, scale, good = state

        def loss(w: jax.Array) -> Any:
            return jnp.mean((x @ w.astype(jnp.float16).astype(jnp.float32) - y) ** 2) * scale

        value, slope = jax.value_and_grad(loss)(w)
        slope = jnp.where(number == 1, jnp.inf, lax.pmean(slope, "core")) / scale
        finite = jnp.all(jnp.isfinite(slope))

        def take(w: jax.Array, scale: jax.Array, good: jax.Array) -> Any:
            w = w - 0.05 * slope
            return lax.cond(good >= 1, lambda: (w, scale * 2, 0), lambda: (w, scale, good + 1))

        state = lax.cond(finite, take, lambda w, scale, _: (w, scale * 0.5, 0), w, scale, good)
        return state, (lax.pmean(value, "core"), finite)

    return lax.scan(step, (w, jnp.float32(4), 0), jnp.arange(5))


def _accumulation(w: jax.Array, x: jax.Array, y: jax.Array) -> Any:
    """Gradients of three slices of the batch are added up, then applied."""

    def loss(w: jax.Array, x: jax.Array, y: jax.Array) -> jax.Array:
        return jnp.mean((jnp.tanh(x @ w) - y) ** 2)

    def step(state: Any, number: jax.Array) -> Any:
        w, total = state
        rows = lax.dynamic_slice_in_dim(x, number, 1), lax.dynamic_slice_in_dim(y, number, 1)
        value, slope = jax.value_and_grad(loss)(w, *rows)

        def apply(w: jax.Array, total: jax.Array) -> Any:
            return w - 0.1 * lax.pmean(total, "core") / 3, jnp.zeros_like(total)

        state = lax.cond(number % 3 == 2, apply, lambda *same: same, w, total + slope)
        return state, lax.pmean(value, "core")

    (w, _), values = lax.scan(step, (w, jnp.zeros_like(w)), jnp.arange(6))
    return w, values


# --- numerical methods


def _line_search(w: jax.Array, x: jax.Array, y: jax.Array) -> Any:
    """Backtracking along the gradient, unless that is short: a loop with a sum over cores in an arm."""

    def value(w: jax.Array) -> Any:
        return lax.psum(jnp.sum((jnp.tanh(x @ w) - y) ** 2), "core")

    slope = lax.psum(jax.grad(lambda w: jnp.sum((jnp.tanh(x @ w) - y) ** 2))(w), "core")
    first, steep = value(w), slope @ slope

    def search() -> Any:
        def too_long(state: Any) -> Any:
            length, found, tries = state
            return (found > first - 0.3 * length * steep) & (tries < 8)

        def halve(state: Any) -> Any:
            length = state[0] * 0.5
            return length, value(w - length * slope), state[2] + 1

        length, found, tries = lax.while_loop(too_long, halve, (2.0, value(w - 2.0 * slope), 0))
        return w - length * slope, found, tries

    return lax.cond(steep > 1e-4, search, lambda: (w, first, 0))


def _conjugate_gradients(a: jax.Array, b: jax.Array) -> Any:
    """Rows of a symmetric matrix on each core; every third step starts again from the true residual."""
    whole = lax.all_gather(a, "core", tiled=True)
    first = lax.axis_index("core") * a.shape[0]
    rows = lax.dynamic_slice_in_dim(whole @ whole.T / a.shape[1] + jnp.eye(whole.shape[0]), first, a.shape[0])

    def times(v: jax.Array) -> Any:
        return rows @ lax.all_gather(v, "core", tiled=True)

    def inner(u: jax.Array, v: jax.Array) -> Any:
        return lax.psum(u @ v, "core")

    def step(state: Any) -> Any:
        number, x, residual, way, length = state
        image = times(way)
        x = x + (amount := length / inner(way, image)) * way
        again = number % 3 == 2
        residual = lax.cond(again, lambda: b - times(x), lambda: residual - amount * image)
        new = inner(residual, residual)
        way = lax.cond(again, lambda: residual, lambda: residual + new / length * way)
        return number + 1, x, residual, way, new

    start = 0, jnp.zeros_like(b), b, b, inner(b, b)
    found: Any = lax.while_loop(lambda state: (state[4] > 1e-3) & (state[0] < 8), step, start)
    return found[1], found[0][None]


def _ragged_loops(x: jax.Array) -> Any:
    """Loops that cores run differently often: by their number, and by their data in a loop that all of them run."""
    me = lax.axis_index("core")
    x = lax.fori_loop(0, me + 1, lambda i, v: v * 0.5 + i, x)

    def shrink(state: Any) -> Any:
        v, times = state
        return v[::-1] * 0.7, times + 1

    def step(_: jax.Array, state: Any) -> Any:
        v, times = lax.while_loop(lambda state: state[0] @ state[0] > 2, shrink, state)
        return lax.psum(v, "core") + me, times

    y, times = lax.fori_loop(0, 3, step, (x, 0))
    return x, y, times[None], lax.psum(times, "core")[None]


# --- partitioned by XLA


def _sorting(cores: int) -> Program:
    """By values and by places, one key and two, each core its own and across cores; rounded in between."""

    def fn(x: jax.Array, y: jax.Array) -> Any:
        rounded = lax.reduce_precision(x, 5, 1)
        return (
            jnp.sort(x, axis=1),
            jnp.argsort(y, descending=True),
            jnp.lexsort((y, jnp.round(y))),
            rounded,
            jnp.argsort(rounded, axis=1),
            jnp.searchsorted(jnp.sort(y), x[0]),
        )

    return Program(fn, (Arg((8, 6), ROWS), Arg((8,), ROWS)), line(cores))


def _chosen_by_data(cores: int) -> Program:
    """The largest sum of columns chooses what happens to all of them; one choice asks again, one sorts."""

    def fn(x: jax.Array, w: jax.Array) -> Any:
        choice = jnp.argmax(x.sum(0))

        def centred(v: jax.Array) -> Any:
            return lax.cond(v.sum() > 0, lambda u: u - u.mean(0), lambda u: u * u, v)

        branches = (lambda v: v @ w, centred, lambda v: jnp.flip(v, 0), lambda v: jnp.sort(v, 0))
        return lax.switch(choice, branches, x), lax.switch((choice + 3) % 4, branches, x), choice

    return Program(fn, (Arg((8, 4), ROWS), Arg((4, 4))), line(cores))


def _key() -> Arg:
    return Arg((2,), dtype=jnp.uint32)


EXAMPLES = (
    Example("early_exit", (4,), split(_early_exit, Arg((8, 8)), Arg((8, 4), P(None, "core")), Arg((8,)), outs=P())),
    Example("ring_attention", (4,), split(_ring_attention, *(Arg((2, 4), ROWS) for _ in range(3)))),
    Example("top_p", (2,), split(_top_p, Arg((2, 8), ROWS), _key())),
    Example("experts", (4,), split(_experts, Arg((4, 4), ROWS), Arg((4, 4)))),
    Example("pipeline", (2,), split(_pipeline, Arg((4, 4), scale=0.5), Arg((3, 2, 4)))),
    Example("loss_scaling", (2,), split(_loss_scaling, Arg((4, 2)), Arg((4, 4), ROWS), Arg((4, 2), ROWS), outs=P())),
    Example("accumulation", (2,), split(_accumulation, Arg((4, 2)), Arg((6, 4), ROWS), Arg((6, 2), ROWS), outs=P())),
    Example("line_search", (2,), split(_line_search, Arg((4,)), Arg((3, 4), ROWS), Arg((3,), ROWS), outs=P())),
    Example("conjugate_gradients", (2,), split(_conjugate_gradients, Arg((2, 8), ROWS), Arg((2,), ROWS))),
    Example("ragged_loops", (2,), split(_ragged_loops, Arg((4,), ROWS))),
    Example("sorting", (2,), _sorting),
    Example("chosen_by_data", (4,), _chosen_by_data),
)
