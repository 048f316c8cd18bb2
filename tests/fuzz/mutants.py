"""Broken input, made from valid input: each mutant is a pure function of its source and a number.

Text is broken as bytes (flip, delete, insert, truncate), as lines (drop, swap, duplicate, join) and as numbers (huge,
negative, zero); a store is broken as bytes and, inside a sound archive, as columns (values, types, lengths, names).
"""

from __future__ import annotations

import io
import json
import random
import re
from collections.abc import Callable
from typing import Any

import numpy as np

NUMBERS = tuple(
    word
    for line in (
        "0 1 2 3 4 7 8 63 64 65 255 256 4095 4096 -1 -64 65536 2147483647 2147483648 4294967296 1099511627776",
        "2305843009213693952 4611686018427387904 4611686018427387905 9223372036854775807 9223372036854775808",
        "-9223372036854775808 18446744073709551616 0x0 0xffffffffffffffff 1e308 -0.0 .5 nan inf",
        "99999999999999999999999999",
    )
    for word in line.split()
)
INSERTS = [
    *(bytes([byte]) for byte in b'\x00\t\r\n "#%@^()[]{}=:;,.\\-+_0x?'),
    b"\xff\xfe",
    b"\xef\xbb\xbf",
    "é".encode(),
    "\u2028".encode(),
    b"->",
    b"[0:64]",
    b"[?]",
    b"[0;64x4;8]",
    b" deps=[a]",
    b" seq=3",
    b" remote=[x,1]",
    b" address=64",
    b" kind=const",
    b" dims=[0]",
    b" shapes=[[1],[1]]",
    b" parts=3",
    b" trip=2",
    b" cond=x",
    b" divergent=true",
    b" carried=[a]",
    b" signal=[[a,1]]",
    b" wait=[[a,1]]",
    b" wait_back=[[a,0]]",
    b" remote_signal=[[1,a,1]]",
    b" step=[[0,head,4,0]]",
    b" step=[[0,head,4,2,1]]",
    b" atomic=[0,1]",
    b" join=true",
    b" gather=true",
    b"true",
    b"nan",
    b"while",
    b"f32[]",
    b"{0,1}",
]
_NUMBER = re.compile(rb"(?<![A-Za-z_.])-?\d+(?:\.\d+)?")
_WORD = re.compile(rb"[A-Za-z_][A-Za-z0-9_.-]*")
_BRACKETS = re.compile(rb"\[[^\[\]\n]*\]|\{[^{}\n]*\}|\([^()\n]*\)")

Mutator = Callable[[bytes, random.Random], bytes]


def mutate_text(text: bytes, number: int) -> bytes:
    """Mutant `number` of a text: one change in most, up to four in some."""
    rng = random.Random(number)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        text = rng.choice(TEXT_MUTATORS)(text, rng)
    return text


# -- bytes ----------------------------------------------------------------------------------------------------------


def _flip(text: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(max(len(text), 1))
    return text[:at] + bytes([byte ^ 1 << rng.randrange(8) for byte in text[at : at + 1]]) + text[at + 1 :]


def _delete(text: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(text) + 1)
    return text[:at] + text[at + rng.randrange(1, 12) :]


def _insert(text: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(text) + 1)
    return text[:at] + rng.choice(INSERTS) + text[at:]


def _truncate(text: bytes, rng: random.Random) -> bytes:
    return text[: rng.randrange(len(text) + 1)]


# -- lines ----------------------------------------------------------------------------------------------------------


def _lines(change: Callable[[list[bytes], int, random.Random], None]) -> Mutator:
    def run(text: bytes, rng: random.Random) -> bytes:
        lines = text.split(b"\n")
        change(lines, rng.randrange(len(lines)), rng)
        return b"\n".join(lines)

    return run


def _drop(lines: list[bytes], at: int, rng: random.Random) -> None:
    del lines[at]


def _swap(lines: list[bytes], at: int, rng: random.Random) -> None:
    other = min(at + rng.choice((1, 1, 2, 5)), len(lines) - 1)
    lines[at], lines[other] = lines[other], lines[at]


def _duplicate(lines: list[bytes], at: int, rng: random.Random) -> None:
    lines.insert(rng.choice((at, rng.randrange(len(lines)))), lines[at])


def _join(lines: list[bytes], at: int, rng: random.Random) -> None:
    lines[at : at + 2] = [b" ".join(lines[at : at + 2])]


# -- words ----------------------------------------------------------------------------------------------------------


def _number(text: bytes, rng: random.Random) -> bytes:
    return _replace(text, _NUMBER, lambda _: rng.choice(NUMBERS).encode(), rng)


def _nearby_number(text: bytes, rng: random.Random) -> bytes:
    def change(old: bytes) -> bytes:
        try:
            return str(int(old) + rng.choice((-2, -1, 1, 2, int(old)))).encode()
        except ValueError:
            return b"0"

    return _replace(text, _NUMBER, change, rng)


def _word(text: bytes, rng: random.Random) -> bytes:
    """One word replaced by another of the same text."""
    words = _WORD.findall(text) or [b"x"]
    return _replace(text, _WORD, lambda _: rng.choice(words), rng)


def _of_another_line(text: bytes, rng: random.Random) -> bytes:
    """One attribute of a line given to another line, in place of the one of that name."""
    lines = text.split(b"\n")
    at, other = rng.randrange(len(lines)), rng.randrange(len(lines))
    words = [place.start() for place in re.finditer(rb" [a-z_]+=", lines[other])]
    if words:
        taken = lines[other][rng.choice(words) :].split(b" ")[1]
        key = taken.partition(b"=")[0] + b"="
        kept = [word for word in lines[at].split(b" ") if not word.startswith(key)]
        colon = kept and kept[-1].endswith(b":")
        lines[at] = b" ".join(kept).rstrip(b":") + b" " + taken.rstrip(b":") + (b":" if colon else b"")
    return b"\n".join(lines)


def _bracket(text: bytes, rng: random.Random) -> bytes:
    """One bracketed list replaced by another of the same text, or emptied."""
    found = _BRACKETS.findall(text) or [b"[]"]
    return _replace(text, _BRACKETS, lambda old: rng.choice((rng.choice(found), old[:1] + old[-1:])), rng)


def _replace(text: bytes, what: re.Pattern[bytes], change: Callable[[bytes], bytes], rng: random.Random) -> bytes:
    places = list(what.finditer(text))
    if not places:
        return text
    place = rng.choice(places)
    return text[: place.start()] + change(place.group()) + text[place.end() :]


TEXT_MUTATORS: tuple[Mutator, ...] = (
    _flip,
    _delete,
    _insert,
    _truncate,
    _lines(_drop),
    _lines(_swap),
    _lines(_duplicate),
    _lines(_join),
    _number,
    _number,
    _nearby_number,
    _nearby_number,
    _word,
    _word,
    _bracket,
    _of_another_line,
)


# -- stores ---------------------------------------------------------------------------------------------------------


def mutate_store(data: bytes, number: int) -> bytes:
    """Mutant `number` of a stored program: a third as bytes of the archive, the others as columns."""
    rng = random.Random(number)
    if rng.random() < 0.33:
        for _ in range(rng.choice((1, 3))):
            data = rng.choice((_flip, _delete, _insert, _truncate))(data, rng)
        return data
    with np.load(io.BytesIO(data)) as arrays:
        columns: dict[str, Any] = {name: arrays[name] for name in arrays.files}
    for _ in range(rng.choice((1, 1, 2))):
        name = rng.choice(list(columns))
        change = rng.choice((_cell, _cell, _cell, _nearby_cell, _nearby_cell, _retype, _resize, _reorder, _remove))
        if name == "meta" and rng.random() < 0.7:
            change = _meta
        change(columns, name, rng)
    buffer = io.BytesIO()
    np.savez(buffer, **columns)
    return buffer.getvalue()


def _cell(columns: dict[str, Any], name: str, rng: random.Random) -> None:
    values = np.array(columns[name])
    if values.size and values.dtype.kind in "iub":
        huge = int(rng.choice([text for text in NUMBERS if text.lstrip("-").isdecimal()]))
        values.reshape(-1)[rng.randrange(values.size)] = np.array(huge % (1 << 64), np.uint64).astype(values.dtype)
    columns[name] = values


def _nearby_cell(columns: dict[str, Any], name: str, rng: random.Random) -> None:
    values = np.array(columns[name])
    if values.size and values.dtype.kind in "iu":
        values.reshape(-1)[rng.randrange(values.size)] += values.dtype.type(rng.choice((1, 2, 3)))
    columns[name] = values


def _retype(columns: dict[str, Any], name: str, rng: random.Random) -> None:
    columns[name] = np.array(columns[name]).astype(rng.choice(("f4", "u1", "i8", "c8", "?", "S4", "U3")))


def _resize(columns: dict[str, Any], name: str, rng: random.Random) -> None:
    values = np.array(columns[name]).reshape(-1)
    options = (values[:-1], np.concatenate([values, values[:1]]), values[:0], values.reshape(-1, 1), values.sum())
    columns[name] = rng.choice(options)


def _reorder(columns: dict[str, Any], name: str, rng: random.Random) -> None:
    columns[name] = np.array(columns[name]).reshape(-1)[::-1]


def _remove(columns: dict[str, Any], name: str, rng: random.Random) -> None:
    del columns[name]
    columns["odd"] = np.arange(3)


def _meta(columns: dict[str, Any], name: str, rng: random.Random) -> None:
    meta = json.loads(columns[name].tobytes())
    meta[rng.choice(list(meta))] = rng.choice(
        [None, 0, 1, 2, -1, 1 << 40, 1 << 70, "x", [], {}, [[1]], {"outputs": [{"a": 1}]}, {"capacity": "x"}, 1.5]
    )
    columns[name] = np.frombuffer(json.dumps(meta).encode(), np.uint8)


def mutate_bytes(data: bytes, number: int) -> bytes:
    """Mutant `number` of any file."""
    rng = random.Random(number)
    for _ in range(rng.choice((1, 1, 3))):
        data = rng.choice((_flip, _delete, _insert, _truncate))(data, rng)
    return data


# -- kernels --------------------------------------------------------------------------------------------------------

STATEMENTS = (
    b"x = None",
    b"x = x[0]",
    b"x = nl",
    b"core = 7",
    b"core = -1",
    b"return",
    b"return x",
    b"return [x, x]",
    b"return {'a': x, 1: object()}",
    b"raise ValueError('\\udcff\\x1b[31m\\n[/red]')",
    b"raise SystemExit(0)",
    b"raise MemoryError",
    b"raise type('E', (Exception,), {'__str__': lambda self: 1 / 0})",
    b"raise type('B', (BaseException,), {})",
    b"assert not x",
    b"print('\\udcff', x)",
    b"import missing",
    b"import sys; sys.stdout.close()",
    b"import warnings; warnings.warn('\\udcff')",
    b"f = lambda: f(); f()",
    b"1 / 0",
    b"del x",
    b"nisa.core_barrier(x, (0, 1))",
    b"nisa.dma_copy(dst=x, src=x)",
    b"x = nl.ndarray((1 << 40, 1 << 40), dtype=nl.float32, buffer=nl.shared_hbm)",
    b"x = nl.ndarray((128, 2), dtype=nl.bfloat16, buffer=nl.psum, name='a[/x]\\udcff\\n\"b')",
    b"x.shape = (3,)",
    b"if core == 0: x = None",
    b"for x in x: pass",
    b"while nl.program_id(0) < 1: break",
)
EXPRESSIONS = (
    b"None -1 0 2 1.5 1e400 2**70 True '' 'text' () (0,1) [] {} x core nl nisa nl.sbuf nl.psum nl.float32 nl.int32 "
    b"x.shape x[0] -x x==x nl.par_dim slice(None) object() float('nan') int print lambda:0 nl.program_id(0) ..."
).split()
_ARGUMENT = re.compile(rb"(?<=[=(\[,] )[A-Za-z_0-9.]+(?=[,)\]])|(?<=[=(\[])[A-Za-z_0-9.]+(?=[,)\]])")
_OPERATOR = re.compile(rb" (?:[-+*/%<>]|//|==|<=|>=|and|or) ")
_OPERATORS = b"+ - / // % < > == <= >= and or @ & | >> , is".split()


def mutate_python(text: bytes, number: int) -> bytes:
    """Mutant `number` of a kernel's source; most are Python still."""
    rng = random.Random(number)
    if rng.random() < 0.1:
        return mutate_text(text, number)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        text = rng.choice(PYTHON_MUTATORS)(text, rng)
    return text


def _statement(text: bytes, rng: random.Random) -> bytes:
    """A line of its own, as deep as the line that it stands before."""
    lines = text.split(b"\n")
    at = rng.randrange(len(lines))
    depth = len(lines[at]) - len(lines[at].lstrip())
    lines.insert(at, b" " * depth + rng.choice(STATEMENTS))
    return b"\n".join(lines)


def _expression(text: bytes, rng: random.Random) -> bytes:
    return _replace(text, _ARGUMENT, lambda _: rng.choice(EXPRESSIONS), rng)


def _operator(text: bytes, rng: random.Random) -> bytes:
    return _replace(text, _OPERATOR, lambda _: b" " + rng.choice(_OPERATORS) + b" ", rng)


def _swap_alike(text: bytes, rng: random.Random) -> bytes:
    """Two lines of one depth change places."""
    lines = text.split(b"\n")
    at = rng.randrange(len(lines))
    depth = len(lines[at]) - len(lines[at].lstrip())
    others = [k for k, line in enumerate(lines) if line.strip() and len(line) - len(line.lstrip()) == depth]
    other = rng.choice(others or [at])
    lines[at], lines[other] = lines[other], lines[at]
    return b"\n".join(lines)


PYTHON_MUTATORS: tuple[Mutator, ...] = (
    _statement,
    _statement,
    _expression,
    _expression,
    _expression,
    _operator,
    _swap_alike,
    _lines(_drop),
    _lines(_duplicate),
    _nearby_number,
    _number,
    _word,
    _word,
    _bracket,
)
