"""Padding that was never written: harmless where it stays apart, an error where it reaches a result."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.frontends.nki.nki_kernels import checked, codes, write_kernel

import haulout.nki as hnki
from haulout.checker import check_program
from haulout.ir.text import parse_bir, print_bir
from haulout.nki.kernel_check import prepare

FEW = {"x": hnki.tensor("bf16", 4, 512)}
NARROW = {"x": hnki.tensor("bf16", 128, 300)}

ROWS = """
def kernel(x):
    n = x.shape[0]
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    t = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=t[0:n], src=x)
    u = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
    {work}
    nisa.dma_copy(dst=out, src=u[{part}])
    return out
"""
SQUARE = "nisa.tensor_tensor(dst=u, data1=t, data2=t, op=nl.multiply)"
NORM = """s = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation_reduce(dst=u, op=nl.square, data=t, reduce_op=nl.add, reduce_res=s)
    nisa.activation(dst=s, op=nl.rsqrt, data=s)
    nisa.tensor_scalar(dst=u, data=t, op0=nl.multiply, operand0=s)"""


@pytest.mark.parametrize("work", [SQUARE, NORM])
def test_rows_that_stay_apart(tmp_path: Path, work: str) -> None:
    assert codes(checked(tmp_path, ROWS.format(work=work, part="0:n"), FEW, lnc=1)) == []
    found = checked(tmp_path, ROWS.format(work=work, part="1 : n + 1"), FEW, lnc=1)
    assert codes(found) == ["uninitialized-read"]
    assert any(note.startswith("it reaches %out, through ") for note in found.diagnostics[0].notes)


COLUMNS = """
def kernel(x):
    n = x.shape[1]
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    t = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=t[:, 0:n], src=x)
    u = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
    nisa.{work}
    nisa.dma_copy(dst=out, src=u[:, {part}])
    return out
"""


@pytest.mark.parametrize(
    ("work", "part", "harm"),
    [
        ("tensor_tensor(dst=u, data1=t, data2=t, op=nl.add)", "0:n", False),
        ("tensor_tensor(dst=u, data1=t, data2=t, op=nl.add)", "1 : n + 1", True),
        # Half of the first 300 columns of what is read come from behind them.
        ("tensor_copy(dst=u, src=t.reshape((128, 2, 256)).permute((0, 2, 1)))", "0:n", True),
        ("tensor_tensor_scan(dst=u, data0=t, data1=t, initial=0.0, op0=nl.multiply, op1=nl.add)", "0:n", True),
    ],
)
def test_columns_that_stay_apart(tmp_path: Path, work: str, part: str, harm: bool) -> None:
    found = codes(checked(tmp_path, COLUMNS.format(work=work, part=part), NARROW, lnc=1))
    assert found == (["uninitialized-read"] if harm else [])


PRODUCT = """
def kernel(x):
    n = x.shape[0]
    out = nl.ndarray((128, 128), dtype=nl.float32, buffer=nl.shared_hbm)
    t = nl.ndarray((128, 128), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=t[{given}], src=x)
    p = nl.ndarray((128, 128), dtype=nl.float32, buffer=nl.psum)
    one = nl.ndarray((128, 128), dtype=x.dtype, buffer=nl.sbuf)
    nisa.memset(one, 1.0)
    nisa.{work}
    o = nl.ndarray((128, 128), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=o, src=p)
    nisa.dma_copy(dst=out[{part}], src=o[{part}])
    nisa.dma_copy(dst=out[{rest}], src=one[{rest}])
    return out
"""
MATMUL = "nc_matmul(dst=p, stationary={}, moving={})"
TOP, LEFT = ("0:8", "8:128"), (":, 0:8", ":, 8:128")


@pytest.mark.parametrize(
    ("given", "work", "parts", "harm"),
    [
        ("0:8", MATMUL.format("t", "one"), TOP, True),  # contracted
        (":, 0:8", MATMUL.format("t", "one"), TOP, False),
        (":, 0:8", MATMUL.format("t", "one"), LEFT, True),
        (":, 0:8", MATMUL.format("one", "t"), LEFT, False),
        (":, 0:8", MATMUL.format("one", "t"), TOP, True),
        (":, 0:8", MATMUL.format("t", "t"), TOP, True),
        ("0:8", "nc_transpose(dst=p, data=t)", LEFT, False),
        ("0:8", "nc_transpose(dst=p, data=t)", TOP, True),
    ],
)
def test_the_sides_of_a_product(tmp_path: Path, given: str, work: str, parts: tuple[str, str], harm: bool) -> None:
    shape = (8, 128) if given == "0:8" else (128, 8)
    body = PRODUCT.format(given=given, work=work, part=parts[0], rest=parts[1])
    found = codes(checked(tmp_path, body, {"x": hnki.tensor("f32", *shape)}, lnc=1))
    assert found == (["uninitialized-read"] if harm else [])


GATHER = """
def kernel(x, table):
    out = nl.ndarray((128, 64), dtype=table.dtype, buffer=nl.shared_hbm)
    idx = nl.ndarray((128, 1), dtype=nl.int32, buffer=nl.sbuf)
    nisa.dma_copy(dst=idx[0:4], src=x)
    rows = nl.ndarray((128, 64), dtype=table.dtype, buffer=nl.sbuf)
    nisa.memset(rows, 0.0)
    nisa.dma_copy(dst=rows[0:{n}], src=table.ap([[64, {n}], [1, 64]], vector_offset=idx[0:{n}]))
    nisa.dma_copy(dst=out[0:4], src=rows[0:4])
    nisa.memset(rows, 0.0)
    nisa.dma_copy(dst=out[4:128], src=rows[4:128])
    return out
"""


def test_an_index_is_never_undefined(tmp_path: Path) -> None:
    arguments = {"x": hnki.tensor("i32", 4, 1), "table": hnki.tensor("f32", 256, 64)}
    assert "uninitialized-read" not in codes(checked(tmp_path, GATHER.format(n=4), arguments, lnc=1))
    found = checked(tmp_path, GATHER.format(n=128), arguments, lnc=1)
    wrong = next(each for each in found.diagnostics if each.code == "uninitialized-read")
    assert any("may be an index" in note for note in wrong.notes)


INPLACE = """
def kernel(x):
    n = x.shape[0]
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    t = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=t[0:n, 8:512], src=x[:, 8:512])
    nisa.tensor_scalar(dst=t, data=t, op0=nl.multiply, operand0=2.0)
    nisa.tensor_tensor(dst=t[0:n], data1=t[0:n], data2=t[0:n], op=nl.add)
    nisa.dma_copy(dst=out[:, {begin}:512], src=t[0:n, {begin}:512])
    nisa.dma_copy(dst=out[:, 0:{begin}], src=x[:, 0:{begin}])
    return out
"""


@pytest.mark.parametrize(("begin", "harm"), [(8, False), (7, True)])
def test_in_place(tmp_path: Path, begin: int, harm: bool) -> None:
    found = codes(checked(tmp_path, INPLACE.format(begin=begin), FEW, lnc=1))
    assert found == (["uninitialized-read"] if harm else [])


# -- what `args` says ------------------------------------------------------------------------------------------------


def _blamed(text: str) -> set[tuple[str, str]]:
    """Codes, and the locations that they are about."""
    return {
        (each.code, location.name)
        for each in check_program(parse_bir(text, "kernel.bir"))
        if each.subject is not None
        for location in each.subject.locations
    }


PADDED: dict[str, tuple[str, Mapping[str, Any]]] = {
    f"{name}, {part}": (body.format(work=work, part=part), arguments)
    for name, body, work, parts, arguments in [
        ("square", ROWS, SQUARE, ["0:n", "1 : n + 1"], FEW),
        ("norm", ROWS, NORM, ["0:n", "1 : n + 1"], FEW),
        ("columns", COLUMNS, "tensor_tensor(dst=u, data1=t, data2=t, op=nl.add)", ["0:n", "1 : n + 1"], NARROW),
    ]
    for part in parts
}
for _number, (_given, _work, _parts) in enumerate(
    [
        (":, 0:8", MATMUL.format("t", "one"), TOP),
        (":, 0:8", MATMUL.format("one", "t"), LEFT),
        ("0:8", "nc_transpose(dst=p, data=t)", LEFT),
    ]
):
    _body = PRODUCT.format(given=_given, work=_work, part=_parts[0], rest=_parts[1])
    PADDED[f"product {_number}"] = _body, {"x": hnki.tensor("f32", *((8, 128) if _given == "0:8" else (128, 8)))}
PADDED["gather"] = GATHER.format(n=128), {"x": hnki.tensor("i32", 4, 1), "table": hnki.tensor("f32", 256, 64)}
for _begin in (8, 7):
    PADDED[f"in place {_begin}"] = INPLACE.format(begin=_begin), FEW

_ARGS = re.compile(r" args=\S+")


@pytest.mark.parametrize("name", PADDED)
def test_without_args_no_finding_goes(tmp_path: Path, name: str) -> None:
    body, arguments = PADDED[name]
    program = prepare(hnki.trace(write_kernel(tmp_path, body), arguments, lnc=1).program)
    lines = print_bir(program).splitlines(keepends=True)
    with_args = _blamed("".join(lines))
    carry = [at for at, line in enumerate(lines) if _ARGS.search(line)]
    assert carry
    for at in carry:
        stripped = [*lines[:at], _ARGS.sub("", lines[at]), *lines[at + 1 :]]
        assert _blamed("".join(stripped)) >= with_args
    nothing = _blamed(_ARGS.sub("", "".join(lines)))
    assert nothing >= with_args
    assert any(code == "uninitialized-read" for code, _ in nothing)
