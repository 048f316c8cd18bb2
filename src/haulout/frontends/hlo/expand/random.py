"""Random bits: `rng-bit-generator` with XLA's own bits, and `rng`, whose numbers nothing specifies.

    Threefry 2x32, 20 rounds   Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011. The state is
                               u64[2]: key and counter. Each count gives two words, for neighbours along a dimension:
                               the first even one, else the first of the largest ones. Numbers of 64 bits take both.
    Philox 4x32, 10 rounds     The same paper. The state is u64[3], the key and a counter of 128 bits, or u64[2]: the
                               second word is the low half of the counter, the first one key and high half. Each count
                               gives four words, in order.

Numbers of 8 and 16 bits are the low bits of 32-bit ones. `rng_default` is Philox, as on the CPU.

`rng` draws from a generator of the device. Here it takes Threefry with a key of its own for each instruction; so a
program gives the same numbers in each run and in each iteration of a loop.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from math import prod

import numpy as np

from haulout.frontends.hlo.expand.writer import Value, Writer
from haulout.frontends.hlo.types import Shape, TupleShape

_TURNS = ((13, 15, 26, 6), (17, 29, 16, 24))
"""Bits by which the words of Threefry are turned."""
_PARITY = 0x1BD11BDA
_FACTORS = (0xD2511F53, 0xCD9E8D57)
_STEPS = (0x9E3779B9, 0xBB67AE85)
"""Of the key of Philox, in each round."""
_WORD = (1 << 32) - 1


def _bits(writer: Writer) -> Value | None:
    instruction = writer.instruction
    shape, state = instruction.shape, writer.parameters[0] if len(writer.parameters) == 1 else None
    algorithm = instruction.attributes.get("algorithm")
    name = algorithm.text.strip() if algorithm is not None else "rng_default"
    if state is None or state.shape not in (Shape("u64", (2,)), Shape("u64", (3,))):
        return None
    if not isinstance(shape, TupleShape) or len(shape.elements) != 2 or shape.elements[0] != state.shape:
        return None
    wanted = shape.elements[1]
    if not isinstance(wanted, Shape) or wanted.dtype[0] not in "su" or not wanted.count:
        return None
    match name:
        case "rng_three_fry" if state.dims == (2,):
            new, bits = threefry(writer, state, wanted)
        case "rng_philox" | "rng_default":
            new, bits = _philox(writer, state, wanted)
        case _:
            return None
    return writer.tuple(new, _as_type(writer, bits, wanted))


def _width(shape: Shape) -> int:
    return int(shape.dtype[1:])


def _as_type(writer: Writer, bits: Value, shape: Shape) -> Value:
    """Unsigned numbers of 32 or 64 bits as the type that is wanted."""
    unsigned = writer.convert(bits, f"u{_width(shape)}")
    return unsigned if shape.dtype[0] == "u" else writer.write(shape, "bitcast-convert", unsigned)


def _part(writer: Writer, state: Value, at: int) -> Value:
    """A word of the state."""
    return writer.reshape(writer.slice(state, (at, at + 1)), ())


def _halves(writer: Writer, value: Value) -> tuple[Value, Value]:
    """The low and the high word of numbers of 64 bits."""
    high = writer.same("shift-right-logical", value, writer.full(value, 32))
    return writer.convert(value, "u32"), writer.convert(high, "u32")


def _joined(writer: Writer, low: Value, high: Value) -> Value:
    wide = writer.convert(high, "u64")
    shifted = writer.same("shift-left", wide, writer.full(wide, 32))
    return writer.same("or", writer.convert(low, "u64"), shifted)


# -- Threefry ------------------------------------------------------------------------------------------------------


def threefry(writer: Writer, state: Value, wanted: Shape) -> tuple[Value, Value]:
    """The new state, and bits in the shape that is wanted, as u64 if it is that wide, else as u32."""
    dims = wanted.dims or (1,)
    if _width(wanted) == 64:
        counts, split = dims, None
    else:
        even = [dim for dim, extent in enumerate(dims) if extent % 2 == 0]
        split = even[0] if even else dims.index(max(dims))
        counts = (*dims[:split], -(-dims[split] // 2), *dims[split + 1 :])
    key, start = _part(writer, state, 0), _part(writer, state, 1)
    numbers = writer.write(Shape("u64", (prod(counts),)), "iota", iota_dimension="0")
    counter = writer.same("add", writer.spread(start, numbers.dims, ()), numbers)
    words = _threefry_rounds(writer, key, _halves(writer, counter))
    new = writer.same("add", start, writer.constant("u64", np.uint64(prod(counts))))
    after = writer.concatenate([writer.reshape(key, (1,)), writer.reshape(new, (1,))], 0)
    if split is None:
        return after, writer.reshape(_joined(writer, *words), wanted.dims)
    # The two words of a count are put together along a dimension of their own.
    halves = (*counts[: split + 1], 1, *counts[split + 1 :])
    both = writer.concatenate([writer.reshape(each, halves) for each in words], split + 1)
    whole = writer.reshape(both, (*counts[:split], 2 * counts[split], *counts[split + 1 :]))
    return after, writer.reshape(writer.slice(whole, *((0, extent) for extent in dims)), wanted.dims)


def _threefry_rounds(writer: Writer, key: Value, words: tuple[Value, Value]) -> tuple[Value, Value]:
    one, two = words
    first, second = _halves(writer, key)
    third = writer.same("xor", writer.same("xor", first, second), writer.constant("u32", np.uint32(_PARITY)))
    keys = [writer.spread(each, one.dims, ()) for each in (first, second, third)]
    one, two = writer.same("add", one, keys[0]), writer.same("add", two, keys[1])
    for turn in range(5):
        for bits in _TURNS[turn % 2]:
            one = writer.same("add", one, two)
            two = writer.same("xor", one, _turned(writer, two, bits))
        one = writer.same("add", one, keys[(turn + 1) % 3])
        two = writer.same("add", two, keys[(turn + 2) % 3])
        two = writer.same("add", two, writer.full(two, turn + 1))
    return one, two


def _turned(writer: Writer, value: Value, bits: int) -> Value:
    left = writer.same("shift-left", value, writer.full(value, bits))
    return writer.same("or", left, writer.same("shift-right-logical", value, writer.full(value, 32 - bits)))


# -- Philox --------------------------------------------------------------------------------------------------------


def _philox(writer: Writer, state: Value, wanted: Shape) -> tuple[Value, Value]:
    key = _part(writer, state, 0)
    short = state.dims == (2,)
    low, high = (_part(writer, state, at) for at in ((1, 0) if short else (1, 2)))
    per_count = 2 if _width(wanted) == 64 else 4
    total = prod(wanted.dims)
    counts = -(-total // per_count)
    numbers = writer.write(Shape("u64", (counts,)), "iota", iota_dimension="0")
    lows, highs = _counted(writer, low, high, numbers)
    words = _philox_rounds(writer, key, [*_halves(writer, lows), *_halves(writer, highs)])
    if per_count == 2:
        words = [_joined(writer, words[0], words[1]), _joined(writer, words[2], words[3])]
    flat = writer.reshape(
        writer.concatenate([writer.reshape(each, (counts, 1)) for each in words], 1), (counts * per_count,)
    )
    bits = writer.reshape(writer.slice(flat, (0, total)), wanted.dims)
    step = writer.constant("u64", np.full((1,), counts, np.uint64))
    after_low, after_high = _counted(writer, low, high, step)
    parts = [writer.reshape(key, (1,)), after_low, *([] if short else [after_high])]
    return writer.concatenate(parts, 0), bits


def _counted(writer: Writer, low: Value, high: Value, steps: Value) -> tuple[Value, Value]:
    """A counter of 128 bits, so many steps later."""
    before, above = writer.spread(low, steps.dims, ()), writer.spread(high, steps.dims, ())
    after = writer.same("add", before, steps)
    carry = writer.compare(after, before, "LT")
    return after, writer.write(above.shape, "add", above, writer.convert(carry, "u64"))


def _philox_rounds(writer: Writer, key: Value, counter: Sequence[Value]) -> list[Value]:
    words = list(counter)
    dims = words[0].dims
    keys = list(_halves(writer, key))
    for turn in range(10):
        if turn:
            keys = [
                writer.same("add", each, writer.constant("u32", np.uint32(step)))
                for each, step in zip(keys, _STEPS, strict=True)
            ]
        (low0, high0), (low1, high1) = (
            _product(writer, word, factor) for word, factor in zip((words[0], words[2]), _FACTORS, strict=True)
        )
        spread = [writer.spread(each, dims, ()) for each in keys]
        words = [
            writer.same("xor", writer.same("xor", high1, words[1]), spread[0]),
            low1,
            writer.same("xor", writer.same("xor", high0, words[3]), spread[1]),
            low0,
        ]
    return words


def _product(writer: Writer, word: Value, factor: int) -> tuple[Value, Value]:
    """The low and the high word of a product."""
    wide = writer.convert(word, "u64")
    return _halves(writer, writer.same("multiply", wide, writer.full(wide, factor)))


# -- rng -----------------------------------------------------------------------------------------------------------


def _rng(writer: Writer) -> Value | None:
    """Uniform in [low, high), or normal of (mean, deviation)."""
    instruction = writer.instruction
    shape, distribution = instruction.shape, instruction.attributes.get("distribution")
    kind = distribution.text.strip() if distribution is not None else ""
    scalars = len(writer.parameters) == 2 and all(
        isinstance(each.shape, Shape) and each.shape == Shape(getattr(shape, "dtype", ""), ())
        for each in writer.parameters
    )
    if not isinstance(shape, Shape) or not scalars or not shape.count:
        return None
    seed = zlib.crc32(instruction.name.encode())
    one, two = writer.parameters
    if shape.dtype in ("f16", "bf16", "f32", "f64"):
        unit = _unit(writer, seed, shape)
        if kind == "rng_uniform":
            low, high = (writer.spread(writer.convert(each, "f32"), shape.dims, ()) for each in (one, two))
            drawn = writer.same("add", low, writer.same("multiply", unit, writer.same("subtract", high, low)))
        elif kind == "rng_normal":
            mean, deviation = (writer.spread(writer.convert(each, "f32"), shape.dims, ()) for each in (one, two))
            drawn = writer.same("add", mean, writer.same("multiply", _normal(writer, unit, seed, shape), deviation))
        else:
            return None
        return writer.convert(drawn, shape.dtype)
    if kind != "rng_uniform" or shape.dtype[0] not in "sup":
        return None
    if shape.dtype == "pred":
        return writer.compare(
            _word(writer, seed, shape), writer.constant("u32", np.uint32(1 << 31), shape.dims), "LT"
        )
    low, high = (writer.spread(writer.convert(each, "s64"), shape.dims, ()) for each in (one, two))
    drawn = writer.convert(_word(writer, seed, shape), "s64")
    width = writer.same("maximum", writer.same("subtract", high, low), writer.full(low, 1))
    return writer.convert(writer.same("add", low, writer.same("remainder", drawn, width)), shape.dtype)


def _word(writer: Writer, seed: int, shape: Shape) -> Value:
    state = writer.constant("u64", np.array([seed, 0], np.uint64))
    return threefry(writer, state, Shape("u32", shape.dims))[1]


def _unit(writer: Writer, seed: int, shape: Shape) -> Value:
    """f32 in [0, 1): 24 random bits."""
    word = _word(writer, seed, shape)
    bits = writer.same("shift-right-logical", word, writer.full(word, 8))
    numbers = writer.convert(bits, "f32")
    return writer.same("multiply", numbers, writer.full(numbers, 2.0**-24))


def _normal(writer: Writer, unit: Value, seed: int, shape: Shape) -> Value:
    """Box and Muller's transform of two uniform numbers."""
    rest = writer.same("subtract", writer.full(unit, 1.0), unit)  # in (0, 1]
    length = writer.same("sqrt", writer.same("multiply", writer.same("log", rest), writer.full(unit, -2.0)))
    angle = _unit(writer, seed ^ _WORD, shape)
    wave = writer.same("cosine", writer.same("multiply", angle, writer.full(angle, 2 * np.pi)))
    return writer.same("multiply", length, wave)


EXPANSIONS = {"rng-bit-generator": _bits, "rng": _rng}
