"""Functions of the scalar engine, in float32. The hardware's tables approximate them; the simulator does not.

Outside of its range a function's result is not valid on the device. Where the documentation names a range that
values of kernels may leave, the result here is NaN: `sin` beyond pi.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import erf, expit

from haulout.sim.numerics.types import Array
from haulout.support.diagnostics import bad_input

_F = np.float32
_ROOT_HALF, _ROOT_2_PI, _TWO_ROOT_PI = _F(0.5**0.5), _F((2 / np.pi) ** 0.5), _F(2 / np.pi**0.5)
_SIGMOID_SCALE = _F(1.702)
_PI = _F(np.pi)


def _phi(z: Array) -> Array:
    """The normal distribution function."""
    return np.asarray(_F(0.5) * (1 + erf(z * _ROOT_HALF)))


def _density(z: Array) -> Array:
    return np.asarray(np.exp(_F(-0.5) * z * z) * _F((2 * np.pi) ** -0.5))


def _silu_dx(z: Array) -> Array:
    s = expit(z)
    return np.asarray(s * (1 + z * (1 - s)))


def _gelu_tanh(z: Array) -> Array:
    return np.asarray(_F(0.5) * z * (1 + np.tanh(_ROOT_2_PI * (z + _F(0.044715) * z * z * z))))


def _gelu_sigmoid_dx(z: Array) -> Array:
    s = expit(_SIGMOID_SCALE * z)
    return np.asarray(s + _SIGMOID_SCALE * z * s * (1 - s))


def _sin(z: Array) -> Array:
    return np.where(np.abs(z) <= _PI, np.sin(z), _F(np.nan))


ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "copy": lambda z: z,
    "identity": lambda z: z,
    "square": np.square,
    "abs": np.abs,
    "sign": np.sign,
    "relu": lambda z: np.maximum(z, _F(0)),
    "exp": np.exp,
    "log": np.log,
    "sqrt": np.sqrt,
    "rsqrt": lambda z: _F(1) / np.sqrt(z),
    "reciprocal": lambda z: _F(1) / z,
    "sigmoid": expit,
    "tanh": np.tanh,
    "silu": lambda z: z * expit(z),
    "silu_dx": _silu_dx,
    "gelu": lambda z: z * _phi(z),
    "gelu_dx": lambda z: _phi(z) + z * _density(z),
    "gelu_apprx_tanh": _gelu_tanh,
    "gelu_apprx_sigmoid": lambda z: z * expit(_SIGMOID_SCALE * z),
    "gelu_apprx_sigmoid_dx": _gelu_sigmoid_dx,
    "softplus": lambda z: np.logaddexp(z, _F(0)),
    "mish": lambda z: z * np.tanh(np.logaddexp(z, _F(0))),
    "erf": erf,
    "erf_dx": lambda z: _TWO_ROOT_PI * np.exp(-z * z),
    "sin": _sin,
    "arctan": np.arctan,
    "cos": np.cos,
    "tan": np.tan,
    "ceil": np.ceil,
    "floor": np.floor,
    "trunc": np.trunc,
    "negative": np.negative,
}
"""Each function by its name in `nl`."""


def activation(name: str) -> Callable[[Array], Array]:
    """The function of a name; `bad-input` for one that the simulator does not have."""
    if name not in ACTIVATIONS:
        bad_input(f"`{name}` is not a function of the scalar engine that the simulator has")
    return ACTIVATIONS[name]
