"""Kernels as they are published: absent modules, files beside them, scripts, launch grids."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tests.frontends.nki.nki_kernels import HEADER, checked, codes, line_of

import haulout.nki as hnki
from haulout.support.diagnostics import HauloutError, Severity

COPY = """
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    {body}
    nisa.dma_copy(dst=out, src=tile)
    return out
"""
X = {"x": hnki.tensor("f32", 4, 8)}
ABSENT = """
import absent_torch
import absent_torch.nn.functional as F
from absent_torch import nn, Tensor
from absent_helpers.testing import parametrize

DEVICE = absent_torch.device("xla") if absent_torch.cuda.is_available() else "cpu"


class Reference(nn.Module):
    scale: Tensor | None = absent_torch.ones(3) * 2.0


@parametrize("size", [1, 2])
def helper(size: "int | Tensor" = 3, *, other=F.pad):
    return size
"""


def test_absent_modules_are_a_note_and_gone_afterwards(tmp_path: Path) -> None:
    before = set(sys.modules)
    found = checked(tmp_path, ABSENT + COPY.format(body="tile = tile[0 : helper(4), :]"), X, lnc=1)
    assert codes(found) == ["missing-module"]
    note = found.diagnostics[0]
    assert note.severity is Severity.NOTE
    assert "absent_torch, absent_helpers" in note.message
    assert [label.span.line for label in note.labels if label.span] == [7, 10]
    assert found.program is not None
    assert not {name for name in set(sys.modules) - before if name.startswith(("absent", "nki"))}


@pytest.mark.parametrize(
    ("body", "how"),
    [
        ("n = absent_torch.zeros(3)", "absent_torch.zeros is called"),
        ("n = 1 + F.size", "absent_torch.nn.functional.size is an operand"),
        ("n = 1 if nn.training else 2", "absent_torch.nn.training is a condition"),
        ("n = [each for each in Tensor]", "absent_torch.Tensor is iterated over"),
        ("nisa.activation(tile, F.relu, tile)", "absent_torch.nn.functional.relu is given as `op`"),
        ("n = Tensor[0]", "absent_torch.Tensor is subscripted"),
        ("n = Reference.scale + 1", "absent_torch.ones is an operand"),
    ],
)
def test_a_use_in_the_kernel_names_module_and_line(body: str, how: str, tmp_path: Path) -> None:
    found = checked(tmp_path, ABSENT + COPY.format(body=body), X, lnc=1)
    first = found.diagnostics[0]
    assert (first.code, first.severity) == ("missing-module", Severity.ERROR)
    assert how in first.message
    spans = [label.span.line for label in first.labels if label.span]
    assert spans[0] == line_of(str(tmp_path / "kernels.py") + "::kernel", body)
    assert spans[1] in (7, 8, 9)
    assert found.program is None


def test_a_failed_import_that_the_file_handles_stays_one(tmp_path: Path) -> None:
    guarded = """
try:
    import absent_torch
    ROWS = 1
except ImportError:
    ROWS = 4
"""
    found = checked(tmp_path, guarded + COPY.format(body="assert tile[0:ROWS, :].shape == (4, 8)"), X, lnc=1)
    assert codes(found) == []


def test_installed_packages_find_out_that_a_module_is_absent(tmp_path: Path) -> None:
    """An optional module of an installed package is not made up."""
    probe = "import importlib.util\nFOUND = importlib.util.find_spec('absent_torch')\n"
    found = checked(tmp_path, probe + COPY.format(body="assert FOUND is None"), X, lnc=1)
    assert codes(found) == []


def test_relative_imports_resolve_by_the_files_around(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "my-kernels").mkdir()
    (tmp_path / "shared" / "sizes.py").write_text("from . import more\nROWS = more.ROWS\n")
    (tmp_path / "shared" / "more.py").write_text("ROWS = 4\n")
    (tmp_path / "my-kernels" / "tools.py").write_text("from ..shared.sizes import ROWS\n")
    (tmp_path / "my-kernels" / "beside.py").write_text("WIDTH = 8\n")
    text = (
        HEADER
        + "from .tools import ROWS\nfrom beside import WIDTH\n"
        + COPY.format(body="assert tile.shape == (ROWS, WIDTH)")
    )
    (tmp_path / "my-kernels" / "kernels.py").write_text(text)
    before = set(sys.modules)
    assert hnki.check(f"{tmp_path}/my-kernels/kernels.py::kernel", X, lnc=1) == []
    assert not {name for name in set(sys.modules) - before if "kernels" in name or "beside" in name}


def test_modules_beside_a_file_of_a_package_are_found(tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("")
    (tmp_path / "package" / "common_parts.py").write_text("ROWS = 4\n")
    text = HEADER + "from common_parts import ROWS\n" + COPY.format(body="assert tile.shape[0] == ROWS")
    (tmp_path / "package" / "kernels.py").write_text(text)
    assert hnki.check(f"{tmp_path}/package/kernels.py::kernel", X, lnc=1) == []


def test_a_script_that_runs_its_kernel_does_not_run_it_here(tmp_path: Path) -> None:
    text = "\n@nki.jit" + COPY.format(body="") + "\nprint(kernel(3) + 1)\nassert kernel is None, 'no device'\n"
    found = checked(tmp_path, text, X, lnc=1)
    assert codes(found) == ["unfinished-import"]
    assert "AssertionError: no device" in found.diagnostics[0].message
    assert found.diagnostics[0].span is not None
    assert found.diagnostics[0].span.line == line_of(f"{tmp_path}/kernels.py::kernel", "no device")


# -- launch grids ----------------------------------------------------------------------------------------------------

GRID = """
def kernel(x):
    assert nl.program_ndim() == 2
    row, column = nl.program_id(0), nl.program_id(axis=1)
    rows, columns = nl.num_programs(0), nl.num_programs(axes=1)
    assert nl.num_programs(axes=[0, 1]) == 6
    out = nl.ndarray((rows, columns), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((1, 1), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x[row : row + 1, column : column + 1])
    nisa.dma_copy(dst=out[row : row + 1, column : column + 1], src=tile)
    return out
"""


def test_a_launch_grid_in_the_name_of_a_kernel(tmp_path: Path) -> None:
    path = tmp_path / "kernels.py"
    path.write_text(HEADER + GRID)
    found = hnki.check_kernel(f"{path}::kernel[2, 3]", {"x": hnki.tensor("f32", 2, 3)})
    assert codes(found) == []
    assert found.program is not None
    assert found.program.lnc == 6
    wrong = hnki.check(f"{path}::kernel[6]", {"x": hnki.tensor("f32", 2, 3)})
    assert wrong[0].code == "kernel-error"
    path.write_text(HEADER + GRID.replace("assert nl.program_ndim() == 2", ""))
    alone = hnki.check(f"{path}::kernel", {"x": hnki.tensor("f32", 2, 3)})
    assert "axis 1" in alone[0].message
    assert any("FUNCTION[1,2]" in text for text in alone[0].help)


@pytest.mark.parametrize("name", ["kernel[", "kernel[0]", "kernel[x]", "kernel[1,2", "kernel[100000,100000]", "[2]"])
def test_what_is_no_launch_grid(name: str, tmp_path: Path) -> None:
    path = tmp_path / "kernels.py"
    path.write_text(HEADER + GRID)
    with pytest.raises(HauloutError) as raised:
        hnki.check(f"{path}::{name}", X)
    assert raised.value.diagnostics[0].code == "bad-input"


def test_a_launch_of_more_programs_than_cores_inside_a_kernel_is_refused(tmp_path: Path) -> None:
    body = """
@nki.jit
def inner(x):
    return x


def kernel(x):
    return inner[4, 2](x)
"""
    found = checked(tmp_path, body, X)
    assert "launch grid of 8 programs on 2 cores" in found.diagnostics[0].message


# -- names that are wrong or were removed ----------------------------------------------------------------------------


def test_a_misspelt_instruction_is_the_first_finding_and_an_error(tmp_path: Path) -> None:
    body = "nisa.tensor_copyy(dst=tile, src=tile)\n    nisa.memset(tile)"
    found = checked(tmp_path, COPY.format(body=body), X, lnc=1)
    first = found.diagnostics[0]
    assert (first.code, first.severity) == ("unknown-instruction", Severity.ERROR)
    assert first.help == ("did you mean nisa.tensor_copy?",)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("nisa.tensor_copy_dynamic_src(tile)", "removed in NKI 0.4"),
        ("nisa.dma_copy(dst=tile, sorce=x)", "did you mean `src`?"),
        ("nl.sofmax(tile)", "did you mean nl.softmax?"),
        ("nl.all_reduce(tile)", "removed in NKI 0.1"),
    ],
)
def test_wrong_names_say_what_is_meant(body: str, says: str, tmp_path: Path) -> None:
    found = checked(tmp_path, COPY.format(body=body), X, lnc=1)
    first = found.diagnostics[0]
    assert first.severity is Severity.ERROR
    assert says in " ".join([first.message, *first.help])


@pytest.mark.parametrize(
    ("body", "since"),
    [
        ("nisa.tensor_copy(dst=tile, src=tile, dtype=nl.float32)", "0.3"),
        ("nisa.dma_copy(dst=tile, src=x, dst_rmw_op=nl.add)", "0.3"),
        ("nisa.register_move(nisa.register_alloc(), imm=3)", "0.3"),
        ("nisa.tensor_tensor(tile, tile, tile, nl.add, mask=None)", "0.1"),
    ],
)
def test_removed_parameters_are_a_warning(body: str, since: str, tmp_path: Path) -> None:
    found = checked(tmp_path, COPY.format(body=body), X, lnc=1)
    assert codes(found) == ["removed-api"]
    assert found.diagnostics[0].severity is Severity.WARNING
    assert f"since NKI {since}" in found.diagnostics[0].message
