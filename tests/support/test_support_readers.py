"""Files that a library reads: whatever is in them, `bad-input` with the file, never the library's own exception."""

from __future__ import annotations

import io
import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from haulout.support.diagnostics import HauloutError
from haulout.support.readers import parse_toml, read_npy, read_npz

LONG = "9" * 5000


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("a = 1\nb = = 2", 2, "Invalid value"),
        ("a = 1\nb = [", 2, "end of document"),
        (f"a = {LONG}", 0, "more than 64 bits"),
        ("a = 0x" + "f" * 5000, 0, "more than 64 bits"),
        ("a = [[{b = 18446744073709551616}]]", 0, "more than 64 bits"),
        ("a = " + "[" * 100_000, 0, "nested too deeply"),
        ("a = 2020-99-99", 1, "Expected newline"),
    ],
    ids=["syntax", "end", "digits", "hexadecimal", "inside", "depth", "date"],
)
def test_toml(text: str, line: int, message: str) -> None:
    with pytest.raises(HauloutError, match=message) as caught:
        parse_toml(text, "x.toml")
    (found,) = caught.value.diagnostics
    assert found.code == "bad-input"
    assert found.span is not None
    assert (found.span.file, found.span.line) == ("x.toml", line)


def archive() -> bytes:
    data = io.BytesIO()
    np.savez(data, x=np.arange(9), y=np.ones((2, 2), np.float32))
    return data.getvalue()


def array() -> bytes:
    data = io.BytesIO()
    np.save(data, np.arange(9))
    return data.getvalue()


def header(text: str) -> bytes:
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode() + b"\n"


BROKEN: dict[str, Callable[[], bytes]] = {
    "nothing": lambda: b"",
    "text": lambda: b"x = 3\n",
    "a pickle": lambda: b"\x80\x04K\x03.",
    "a header that claims too much": lambda: header(
        "{'descr': '<i8', 'fortran_order': False, 'shape': (288230376151711744,), }"
    ),
    "a header that is no dictionary": lambda: header("[1, 2"),
    "a header of brackets": lambda: header("(" * 5000),
    "a type that there is not": lambda: header("{'descr': '<q9', 'fortran_order': False, 'shape': (1,), }"),
    "objects": lambda: header("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }"),
    "half an archive": lambda: archive()[: len(archive()) // 2],
    "half an array": lambda: array()[:-9],
}


@pytest.mark.parametrize("read", [read_npz, read_npy])
@pytest.mark.parametrize("name", BROKEN)
def test_arrays(read: Callable[[Path], object], name: str, tmp_path: Path) -> None:
    path = tmp_path / "x.np"
    path.write_bytes(BROKEN[name]())
    with pytest.raises(HauloutError, match=r"x\.np is not an ") as caught:
        read(path)
    (found,) = caught.value.diagnostics
    assert found.code == "bad-input"
    assert found.span is not None
    assert found.span.file == str(path)


def test_one_kind_for_the_other(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(archive())
    assert sorted(read_npz(path)) == ["x", "y"]
    with pytest.raises(HauloutError, match="an archive of several arrays"):
        read_npy(path)
    path.write_bytes(array())
    assert read_npy(path).tolist() == list(range(9))
    with pytest.raises(HauloutError, match="one array without a name"):
        read_npz(path)


@pytest.mark.filterwarnings("ignore")
def test_any_bytes(tmp_path: Path) -> None:
    """Arrays or `HauloutError`."""
    path, rng, refused = tmp_path / "x", random.Random(0), 0
    for _ in range(300):
        data = bytearray(archive() if rng.random() < 0.5 else array())
        for _ in range(rng.choice((1, 3))):
            data[rng.randrange(len(data))] = rng.randrange(256)
        path.write_bytes(data)
        for read in (read_npz, read_npy):
            try:
                read(path)
            except HauloutError:
                refused += 1
    assert refused > 100


def test_a_name_with_a_zero_byte() -> None:
    with pytest.raises(HauloutError, match="cannot read"):
        read_npy(Path("a\0b"))
