"""One core's work: every kind of HLO instruction that a network may hold, on both cores with their own data.

The networks use few of the forms that an instruction has.  Here are the others: dilated and grouped convolutions,
padding with holes or cut edges, starts out of bounds, gathers and scatters of every shape, reductions by a
computation that no table names, integer and bit arithmetic, conversions.
"""

# JAX leaves many of its functions without annotations.
# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
from example_program import Arg, Example, Program, line, manual
from jax import lax
from jax.sharding import PartitionSpec as P

__all__ = ["EXAMPLES"]


def _local(fn: Callable[..., Any], *args: Arg) -> Callable[[int], Program]:
    """`fn` on every core; an argument's first dimension is what one core has."""

    def build(cores: int) -> Program:
        mesh = line(cores)
        spread = tuple(replace(arg, shape=(arg.shape[0] * cores, *arg.shape[1:]), spec=P("core")) for arg in args)
        return Program(manual(fn, mesh, P("core"), P("core")), spread, mesh)

    return build


def _floats(x: jax.Array, y: jax.Array) -> Any:
    positive = jnp.abs(x) + 0.1
    return (
        [lax.exp(x), lax.expm1(x), lax.log(positive), lax.log1p(positive), lax.logistic(x), lax.tanh(x)],
        [lax.sqrt(positive), lax.rsqrt(positive), lax.cbrt(x), lax.sin(x), lax.cos(x), lax.tan(x), lax.erf(x)],
        [lax.sign(x), lax.floor(4 * x), lax.ceil(4 * x), jnp.round(4 * x), lax.round(4 * x), lax.neg(x)],
        [lax.atan2(x, y), lax.pow(positive, y), lax.rem(x, y), x / y, lax.max(x, y), lax.min(x, y)],
        [lax.clamp(-0.5, x, jnp.float32(0.5)), lax.is_finite(x / (y - y)), x > y, x == y, x != y, x <= y],
        [lax.erf(x.astype(jnp.bfloat16)), lax.exp(x.astype(jnp.bfloat16)), x.astype(jnp.float16) * 3],
        [lax.nextafter(x, y), lax.integer_pow(x, 3), lax.select(x > y, x, y)],
    )


def _integers(x: jax.Array, y: jax.Array, few: jax.Array) -> Any:
    unsigned = x.astype(jnp.uint32)
    shift = few.astype(jnp.uint32)
    return (
        [x + y, x - y, x * y, lax.div(x, y), lax.rem(x, y), lax.max(x, y), lax.min(x, y), abs(x), -x, lax.sign(x)],
        [x & y, x | y, x ^ y, ~x, lax.population_count(x), lax.clz(x), lax.clamp(-3, x, 3)],
        [lax.shift_left(x, few), lax.shift_right_arithmetic(x, few), lax.shift_right_logical(x, few)],
        [lax.div(unsigned, shift + 1), lax.rem(unsigned, shift + 1), unsigned < shift, unsigned >> shift],
        [(x > y) & (x > 0), (x > y) | (x > 0), (x > y) ^ (x > 0), ~(x > y)],
        [lax.integer_pow(few, 3), x.astype(jnp.int8) * few.astype(jnp.int8), x.astype(jnp.int16)],
    )


def _conversions(x: jax.Array, i: jax.Array) -> Any:
    return (
        [x.astype(t) for t in (jnp.bfloat16, jnp.float16, jnp.int32, jnp.int8, jnp.bool_)],
        [i.astype(t) for t in (jnp.float32, jnp.bfloat16, jnp.uint8, jnp.int16, jnp.bool_)],
        [lax.bitcast_convert_type(x, jnp.int32), lax.bitcast_convert_type(i + 0x3F800000, jnp.float32)],
        [lax.bitcast_convert_type(x, jnp.uint16), lax.bitcast_convert_type(x.astype(jnp.bfloat16), jnp.int16)],
        [(x > 0).astype(jnp.float32), (i > 0).astype(jnp.int32)],
        [x.astype(jnp.float8_e4m3fn).astype(jnp.float32), x.astype(jnp.float8_e5m2).astype(jnp.float32)],
    )


def _shapes(x: jax.Array, i: jax.Array) -> Any:
    start = i[0]
    return (
        [x.transpose(2, 0, 1), x.reshape(3, 8), lax.rev(x, (0, 2)), jnp.concatenate([x, x[:, ::-1]], axis=1)],
        [
            x[:, 1:, ::2],
            lax.slice(x, (0, 0, 1), (2, 3, 4), (1, 2, 2)),
            lax.broadcast_in_dim(x, (2, 5, 3, 4), (0, 2, 3)),
        ],
        [
            lax.pad(x, 7.0, ((1, 0, 0), (-1, 2, 1), (0, -1, 2))),
            lax.pad(x, -1.0, ((0, 0, 1), (-2, 0, 0), (-1, -1, 0))),
        ],
        [lax.dynamic_slice(x, (0, start, 2 * start), (2, 2, 3)), lax.dynamic_slice(x, (start - 9, 0, 1), (1, 3, 2))],
        [lax.dynamic_update_slice(x, x[:1, :2] * 2, (start, start, start)), lax.iota(jnp.int32, 6)],
        [lax.broadcasted_iota(jnp.float32, (2, 3, 4), 1), jnp.tile(x, (1, 2, 1)), jnp.tril(x[0] @ x[0].T)],
    )


def _products(x: jax.Array, y: jax.Array, h: jax.Array, i: jax.Array) -> Any:
    return (
        [jnp.einsum("bij,bkj->bik", x, y), jnp.einsum("bij,bij->b", x, y), jnp.einsum("bij,kij->kb", x, y)],
        [jnp.einsum("bij,bik->bjk", x, y), jnp.einsum("bij,c->bijc", x[:1, :2], y[0, 0]), x[0] @ y[0].T],
        [jnp.einsum("bij,bkj->bki", h, h), jnp.einsum("ij,kj->ik", h[0], h[1], preferred_element_type=jnp.float32)],
        [i @ i.T, jnp.einsum("ij,kj->ki", i.astype(jnp.int8), i.astype(jnp.int8), preferred_element_type=jnp.int32)],
    )


def _convolutions(x: jax.Array, w: jax.Array, k: jax.Array, h: jax.Array) -> Any:
    nhwc, nchw = ("NHWC", "HWIO", "NHWC"), ("NCHW", "OIHW", "NCHW")
    conv = lax.conv_general_dilated
    return (
        [conv(x, w, (1, 1), "VALID", dimension_numbers=nhwc), conv(x, w, (2, 1), "SAME", dimension_numbers=nhwc)],
        [conv(x, w, (1, 2), [(2, -1), (0, 3)], (2, 1), dimension_numbers=nhwc)],
        [conv(x, w, (1, 1), [(1, 1), (2, 2)], rhs_dilation=(2, 2), dimension_numbers=nhwc)],
        [conv(x, k, (1, 1), "SAME", dimension_numbers=nhwc, feature_group_count=2)],
        [conv(jnp.concatenate([x, x * 2]), w, (1, 1), "SAME", dimension_numbers=nhwc, batch_group_count=2)],
        [conv(x.transpose(0, 3, 1, 2), w.transpose(3, 2, 0, 1), (1, 1), "SAME", dimension_numbers=nchw)],
        [jax.grad(lambda k: (conv(x, k, (2, 2), "SAME", dimension_numbers=nhwc) ** 2).sum())(w)],
        [jax.grad(lambda a: (conv(a, w, (2, 2), "SAME", dimension_numbers=nhwc) ** 2).sum())(x)],
        [conv(h, h[:2], (1,), "SAME", dimension_numbers=("NWC", "WIO", "NWC"))],
    )


def _reductions(x: jax.Array, b: jax.Array, i: jax.Array) -> Any:
    def largest(a: Any, b: Any) -> Any:
        swap = b[0] > a[0]
        return lax.select(swap, b[0], a[0]), lax.select(swap, b[1], a[1])

    place = lax.broadcasted_iota(jnp.int32, x.shape, 1)
    return (
        [x.sum(1), x.max((0, 2)), x.min(-1), x.prod(0), x.sum()[None], i.max()[None], i.sum(1), b.sum(1), b.max(0)],
        [x.argmax(1), x.argmin(2), i.argmax(0), *lax.reduce((x, place), (-jnp.inf, 0), largest, (1,))],
        [(x > 0).all(1), (x > 0).any(2), lax.reduce(i, jnp.int32(0), lax.bitwise_xor, (0,))],
        [lax.cumsum(x, 1), lax.cumprod(x, 2), lax.cummax(x, 1), lax.cummin(x, 2, reverse=True), lax.cumsum(i, 1)],
    )


def _windows(x: jax.Array) -> Any:
    def pool(x: jax.Array) -> Any:
        return lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 2, 1), (1, 2, 2, 1), "SAME")

    window = lax.reduce_window
    return (
        [pool(x), window(x, jnp.inf, lax.min, (2, 2, 1, 1), (1, 1, 1, 1), "VALID")],
        [window(x, 0.0, lax.add, (1, 2, 3, 1), (1, 1, 2, 1), ((0, 0), (1, 0), (2, 1), (0, 0)))],
        [window(x, 0.0, lax.add, (1, 2, 2, 1), (1, 1, 1, 1), "VALID", (1, 2, 1, 1), (1, 1, 2, 1))],
        [window(x, 1.0, lax.mul, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")],
        [jax.grad(lambda x: (pool(x) ** 2).sum())(x)],
        [window(x.astype(jnp.bfloat16), jnp.bfloat16(0), lax.add, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")],
    )


def _gathers(x: jax.Array, i: jax.Array, wild: jax.Array) -> Any:
    pick = jax.vmap(lambda row, k: lax.dynamic_slice(row, (k, 0), (2, 2)))
    return (
        [x[:, i], x[i % 2, i], x[:, wild], x.at[wild].get(mode="clip"), jnp.take(x, wild, axis=2, mode="wrap")],
        [jnp.take_along_axis(x, i[None, :, None], axis=1), pick(x, i[:2]), pick(x, wild[:2])],
        [x.at[:, wild].get(mode="fill", fill_value=9.0), x[i[:2, None] % 2, :, i[None, :3] % 4]],
    )


def _scatters(x: jax.Array, i: jax.Array, wild: jax.Array) -> Any:
    slots = jnp.array([0, 2, 1])
    return (
        [x.at[:, i].add(1.5), x.at[:, slots].set(x[:, ::-1] * 2), x.at[:, wild].add(2.0, mode="drop")],
        [x.at[:, i].multiply(0.5), x.at[:, i].max(0.25), x.at[:, i].min(-0.25), x.at[:, slots, slots].set(7.0)],
        [
            x.at[jnp.arange(2)[:, None], i[None, :3] % 3].add(x[:, :3]),
            i.at[slots].add(5),
            x.at[wild, 0].set(3.0, mode="drop"),
        ],
        [jax.vmap(lambda row, k: row.at[k].add(1.0))(x, i[:2]), jnp.zeros(8).at[i].add(jnp.arange(6.0))],
        [jax.grad(lambda x: (x[:, i] ** 2).sum())(x)],
    )


def _selections(x: jax.Array, h: jax.Array) -> Any:
    return [*lax.top_k(x, 3)], [*lax.top_k(h, 1)], [*lax.top_k(jnp.round(x), 4)]


_F = Arg((2, 3, 4))
_I = Arg((6,), dtype=jnp.int32, low=0, high=3)
_WILD = Arg((4,), dtype=jnp.int32, low=-3, high=7)
_WIDE = Arg((3, 8), dtype=jnp.int32, low=-(1 << 31), high=1 << 31)
_DIVISOR = Arg((3, 8), dtype=jnp.int32, low=1, high=1000)
_FEW = Arg((3, 8), dtype=jnp.int32, low=0, high=12)
_SMALL = Arg((4, 6), dtype=jnp.int32, low=-9, high=10)
_HALF = Arg((2, 4, 6), dtype=jnp.bfloat16)
_IMAGE = Arg((2, 6, 5, 4))

EXAMPLES = (
    Example("floats", (2,), _local(_floats, Arg((3, 7)), Arg((3, 7)))),
    Example("integers", (2,), _local(_integers, _WIDE, _DIVISOR, _FEW)),
    Example(
        "conversions",
        (2,),
        _local(_conversions, Arg((3, 7), scale=20.0), Arg((3, 7), dtype=jnp.int32, low=-99, high=99)),
    ),
    Example("shapes", (2,), _local(_shapes, _F, _I)),
    Example("products", (2,), _local(_products, _F, _F, _HALF, _SMALL)),
    Example(
        "convolutions",
        (2,),
        _local(
            _convolutions,
            _IMAGE,
            Arg((3, 2, 4, 6), scale=0.3),
            Arg((3, 2, 2, 6), scale=0.3),
            Arg((4, 6, 6), dtype=jnp.bfloat16),
        ),
    ),
    Example("reductions", (2,), _local(_reductions, _F, _HALF, _SMALL)),
    Example("windows", (2,), _local(_windows, _IMAGE)),
    Example("gathers", (2,), _local(_gathers, _F, _I, _WILD)),
    Example("scatters", (2,), _local(_scatters, _F, _I, _WILD)),
    Example("selections", (2,), _local(_selections, Arg((3, 2, 6)), Arg((3, 6), dtype=jnp.bfloat16))),
)
