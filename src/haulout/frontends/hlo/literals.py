"""The data of a constant: nested braces of numbers as a NumPy array.

    literal := scalar                                  # for a shape without dimensions
             | "{" [literal ("," literal)*] "}"        # one brace level a dimension, extents as in the shape
    complex := "(" scalar "," scalar ")"
    scalar  := INT | FLOAT | ["-"] "nan" ["(" HEX ")"] | ["-"] "inf" | "true" | "false"

The parser checks the nesting with a counter for each level instead of recursion. It converts a few thousand numbers
at a time, so that a constant takes a few bytes for each character. `{...}` stands for data that the dump omits. A
constant of which all is omitted becomes an input of the program (`is_left_out`); any other one is an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import islice
from typing import NoReturn

import numpy as np

from haulout.frontends.hlo.cursor import COMMENT
from haulout.frontends.hlo.model import Literal
from haulout.frontends.hlo.source import Excerpt, Source
from haulout.frontends.hlo.types import AnyShape, Shape
from haulout.ir.dtypes import NUMPY
from haulout.support.diagnostics import HauloutError

_TOKEN = re.compile(
    rf"""(?:\s++|{COMMENT})*+(?:
      (?P<mark>[{{}},])
    | (?P<elided>\.\.\.)
    | (?P<scalar>true|false|[+-]?(?:nan(?:\(0x[0-9a-fA-F]+\))?|inf|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?))
    | (?P<bad>\S)
    )""",
    re.VERBOSE,
)
_LEFT_OUT = re.compile(r"\s*\{\s*\.\.\.\s*\}\s*")
PARTS = {"c64": "f32", "c128": "f64"}
"""The type of the parts of complex numbers."""
_BATCH = 4096
_NUMBERS = re.compile(
    rf"(?>(?:\s*+[+-]?+(?:[0-9]++(?:\.[0-9]*+)?+|\.[0-9]++)(?:[eE][+-]?+[0-9]++)?+\s*+,){{1,{_BATCH}}})"
)
"""Plain numbers, each followed by a comma: most of a large constant. An atomic group: in Python 3.11.2 a
possessive repeat of a group keeps what its last, failed attempt has read."""
_NAN = re.compile(r"([+-]?)nan(?:\(0x([0-9a-fA-F]+)\))?")
_FLOATS = {"f16": (5, 10), "bf16": (8, 7), "f32": (8, 23), "f64": (11, 52)}
"""Bits of exponent and fraction, for the payload of a NaN."""
MAX_DIGITS = 20


def is_left_out(text: Excerpt, shape: AnyShape) -> bool:
    """Whether the dump has no data of the constant: `{...}` and no more."""
    known = isinstance(shape, Shape) and shape.dtype in NUMPY
    return known and _LEFT_OUT.fullmatch(text.text) is not None


def parse_literal(text: Excerpt, shape: AnyShape) -> Literal:
    """The array of a constant's text, with the dtype and the dims of its shape."""
    if not isinstance(shape, Shape) or shape.dtype not in NUMPY:
        text.fail(f"constants of shape {shape} are not supported")
    if shape.dtype in PARTS:
        return _complex(text, shape)
    parts = [_convert(words, at, text, shape) for words, at in _read(text, shape)]
    return np.concatenate([np.zeros(0, NUMPY[shape.dtype]), *parts]).reshape(shape.dims)


@lru_cache(maxsize=4096)
def plain_scalar(text: str, shape: Shape) -> Literal | None:
    """The value of a constant of one number, not to be written to; None if it is not valid, as for `plain_array`."""
    try:
        value = parse_literal(Excerpt(Source("", text), 0, len(text)), shape)
    except HauloutError:
        return None
    value.flags.writeable = False
    return value


def _complex(text: Excerpt, shape: Shape) -> Literal:
    """`(1, 2)` for each number: read as two real ones along another dimension."""
    rewritten = text.text.replace("(", "{").replace(")", "}")
    source = Source(text.source.file, rewritten)
    pairs = parse_literal(Excerpt(source, 0, len(rewritten)), Shape(PARTS[shape.dtype], (*shape.dims, 2)))
    return np.ascontiguousarray(pairs).view(NUMPY[shape.dtype]).reshape(shape.dims)


def _read(text: Excerpt, shape: Shape) -> Iterator[tuple[list[str], int]]:
    """The scalars in order, some thousands at a time, perhaps with blanks around them, and the offset at which to
    look for the first; fails unless braces and counts are those of the shape."""
    source, rank = text.source, len(shape.dims)
    words: list[str] = []
    counts: list[int] = []  # elements so far, a number for each open brace
    after_item = done = False
    position = first = text.start
    while match := _TOKEN.match(source.text, position, text.end):
        token, at = match[match.lastgroup or 0], match.start(match.lastgroup or 0)
        position = match.end()
        if match.lastgroup == "elided":
            source.fail(
                at,
                "the dump does not contain the data of this constant",
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
                after_item, done = True, not counts
        in_row = counts and len(counts) == rank and not after_item
        if in_row and (numbers := _NUMBERS.match(source.text, position, text.end)):
            some = numbers[0].split(",")[:-1]
            counts[-1] += len(some)
            words += some
            position = numbers.end()
        if len(words) >= _BATCH:
            yield words, first
            words, first = [], position
    if not done:
        text.fail("this constant ends too early", f"expected a literal of shape {shape}")
    yield words, first


def _convert(words: list[str], at: int, text: Excerpt, shape: Shape) -> Literal:
    dtype = NUMPY[shape.dtype]
    if shape.dtype[0] in "su" or shape.dtype == "pred":
        values = [_integer(word.strip(), shape.dtype) for word in words]
        if None in values:
            _fail(values.index(None), at, text, shape)
        return np.array(values, dtype)
    floats = [float(word.partition("(")[0]) if word[0] not in "tf" else float(word == "true") for word in words]
    with np.errstate(over="ignore"):
        array = np.array(floats, np.float64).astype(dtype)
    for place, word in enumerate(words):
        if "nan" in word:
            array[place] = _nan(word, shape.dtype)
    return array


def _fail(number: int, at: int, text: Excerpt, shape: Shape) -> NoReturn:
    """Raise: scalar `number`, counted from those at an offset, is none of the type."""
    tokens = _TOKEN.finditer(text.source.text, at, text.end)
    match = next(islice((each for each in tokens if each.lastgroup == "scalar"), number, None))
    message = f"`{match['scalar']}` is not a value of type {shape.dtype}"
    text.source.fail(match.start("scalar"), message, end=match.end("scalar"))


def _integer(word: str, dtype: str) -> int | None:
    """The value, or None when it is none of this type."""
    if dtype == "pred":
        return {"true": 1, "false": 0, "1": 1, "0": 0}.get(word)
    if not word.lstrip("+-").isdigit() or len(word) > MAX_DIGITS:
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
