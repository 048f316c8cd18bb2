"""The data of a constant: nested braces of numbers into a NumPy array.

    literal := scalar                                  # for a shape without dimensions
             | "{" [literal ("," literal)*] "}"        # one brace level a dimension, extents as in the shape
    scalar  := INT | FLOAT | ["-"] "nan" ["(" HEX ")"] | ["-"] "inf" | "true" | "false"

The nesting is checked while reading, with a counter a level instead of recursion. `{...}` stands for data
that the dump left out: that is an error, as there is nothing to compute with.
"""

from __future__ import annotations

import re

import numpy as np

from haulout.frontends.hlo.model import Literal
from haulout.frontends.hlo.source import Excerpt
from haulout.frontends.hlo.types import AnyShape, Shape
from haulout.ir.dtypes import NUMPY

_TOKEN = re.compile(
    r"""(?:\s|/\*(?:[^*]|\*(?!/))*\*/)*(?:
      (?P<mark>[{},])
    | (?P<elided>\.\.\.)
    | (?P<scalar>true|false|[+-]?(?:nan(?:\(0x[0-9a-fA-F]+\))?|inf|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?))
    | (?P<bad>\S)
    )""",
    re.VERBOSE,
)
_NAN = re.compile(r"([+-]?)nan(?:\(0x([0-9a-fA-F]+)\))?")
_FLOATS = {"f16": (5, 10), "bf16": (8, 7), "f32": (8, 23), "f64": (11, 52)}
"""Bits of exponent and fraction, for the payload of a NaN."""
_DIGITS = 20


def parse_literal(text: Excerpt, shape: AnyShape) -> Literal:
    """The array of a constant's text, with the dtype and the dims of its shape."""
    if not isinstance(shape, Shape) or shape.dtype not in NUMPY:
        text.fail(f"constants of shape {shape} are not supported")
    words, places = _read(text, shape)
    return _convert(words, places, text, shape).reshape(shape.dims)


def _read(text: Excerpt, shape: Shape) -> tuple[list[str], list[int]]:
    """The scalars in order and their offsets; fails unless braces and counts are those of the shape."""
    source, rank = text.source, len(shape.dims)
    words: list[str] = []
    places: list[int] = []
    counts: list[int] = []  # elements so far, a number for each open brace
    after_item = done = False
    for match in _TOKEN.finditer(source.text, text.start, text.end):
        token, at = match[match.lastgroup or 0], match.start(match.lastgroup or 0)
        if match.lastgroup == "elided":
            source.fail(
                at,
                "the data of this constant were left out of the dump",
                "elided",
                match.end(),
                help=["dump the module with large constants: XLA_FLAGS=--xla_dump_large_constants"],
            )
        if match.lastgroup == "bad" or done:
            source.fail(at, f"unexpected `{token}` in a constant", f"in a constant of shape {shape}")
        if token == ",":
            if not counts or not after_item:
                source.fail(at, "unexpected `,` in a constant", f"in a constant of shape {shape}")
            after_item = False
        elif token == "}":
            level = len(counts)
            if not counts or (not after_item and counts[-1]):
                source.fail(at, "unexpected `}` in a constant", f"in a constant of shape {shape}")
            if counts.pop() != shape.dims[level - 1]:
                source.fail(at, f"dimension {level - 1} of this constant is not {shape.dims[level - 1]} long")
            after_item, done = True, not counts
        else:
            if after_item:
                source.fail(at, f"expected `,` or `}}`, found `{token}`", f"in a constant of shape {shape}")
            if counts:
                counts[-1] += 1
            if (token == "{") != (len(counts) < rank):
                expected = f"`{{` for dimension {len(counts)}" if len(counts) < rank else "a number"
                source.fail(at, f"expected {expected}, found `{token}`", f"in a constant of shape {shape}")
            if token == "{":
                counts.append(0)
                after_item = False
            else:
                words.append(token)
                places.append(at)
                after_item, done = True, not counts
    if not done:
        text.fail("this constant ends too early", f"expected a literal of shape {shape}")
    return words, places


def _convert(words: list[str], places: list[int], text: Excerpt, shape: Shape) -> Literal:
    dtype = NUMPY[shape.dtype]
    if shape.dtype[0] in "su" or shape.dtype == "pred":
        values = [_integer(word, shape.dtype) for word in words]
        if None in values:
            at = values.index(None)
            text.source.fail(
                places[at],
                f"`{words[at]}` is not a value of type {shape.dtype}",
                end=places[at] + len(words[at]),
            )
        return np.array(values, dtype)
    floats = [float(word.partition("(")[0]) if word[0] not in "tf" else float(word == "true") for word in words]
    with np.errstate(over="ignore"):
        array = np.array(floats, np.float64).astype(dtype)
    for at, word in enumerate(words):
        if "nan" in word:
            array[at] = _nan(word, shape.dtype)
    return array


def _integer(word: str, dtype: str) -> int | None:
    """The value, or None when it is none of this type."""
    if dtype == "pred":
        return {"true": 1, "false": 0, "1": 1, "0": 0}.get(word)
    if not word.lstrip("+-").isdigit() or len(word) > _DIGITS:
        return None
    value, bits = int(word), 8 * NUMPY[dtype].itemsize
    low, high = (0, 1 << bits) if dtype[0] == "u" else (-1 << (bits - 1), 1 << (bits - 1))
    return value if low <= value < high else None


def _nan(word: str, dtype: str) -> Literal:
    """A NaN with its sign and payload; the type's default one where neither is written."""
    sign, payload = _NAN.fullmatch(word).groups()  # type: ignore[union-attr]
    kind = NUMPY[dtype]
    if dtype not in _FLOATS:
        return np.full((), np.nan, kind)
    exponent, fraction = _FLOATS[dtype]
    bits = int(payload, 16) & ((1 << fraction) - 1) if payload else 1 << (fraction - 1)
    bits |= ((1 << exponent) - 1) << fraction | (sign == "-") << (exponent + fraction)
    return np.array(bits, f"u{kind.itemsize}").view(kind)
