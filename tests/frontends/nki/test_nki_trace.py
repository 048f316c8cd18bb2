"""Tracing: what is recorded, where it is said to come from, and what a wrong kernel is told."""

from __future__ import annotations

import sys
import types
from pathlib import Path

import numpy as np
import pytest
from tests.frontends.nki.nki_kernels import checked, codes, line_of, write_kernel

import haulout.nki as hnki
from haulout.frontends.nki import Emitted
from haulout.ir.enums import Engine, Kind, Space
from haulout.support.diagnostics import HauloutError, Severity

COPY = """
def kernel(x):
    tile = nl.ndarray((4, 8), dtype=nl.float32, buffer=nl.sbuf)
    out = nl.ndarray((4, 8), dtype=nl.float32, buffer=nl.shared_hbm)
    {body}
    return out
"""


def x(*shape: int) -> dict[str, hnki.TensorSpec]:
    return {"x": hnki.tensor("f32", *shape)}


def test_a_file_that_changes_twice_in_a_second(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both texts have one size: bytecode of the first would be taken for the second."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    for engine, expected in (("scalar", Engine.ACT), ("vector", Engine.VECTOR)):
        body = (
            f"nisa.dma_copy(dst=tile, src=x)\n    nisa.tensor_copy(dst=tile, src=tile, engine=nisa.{engine}_engine)"
        )
        program = hnki.trace(write_kernel(tmp_path, COPY.format(body=body)), x(4, 8), lnc=1).program
        assert program.instructions.engine.tolist()[1] == expected
    assert not (tmp_path / "__pycache__").exists()


def test_instructions_have_engine_operands_and_line(tmp_path: Path) -> None:
    kernel = write_kernel(
        tmp_path,
        COPY.format(
            body="nisa.dma_copy(dst=tile, src=x)\n    nisa.tensor_copy(dst=tile, src=tile, engine=nisa.scalar_engine)"
        ),
    )
    program = hnki.trace(kernel, x(4, 8), lnc=1).program
    assert program.instructions.engine.tolist() == [Engine.DMA0, Engine.ACT]
    names = [program.strings[name] for name in program.locations.name.tolist()]
    assert names == ["x", "tile", "out"]
    where = program.strings[int(program.instructions.loc[0])]
    assert where.endswith(f":{line_of(kernel, 'dma_copy')}")
    assert program.locations.kind.tolist() == [Kind.INPUT, Kind.INTERNAL, Kind.OUTPUT]
    assert program.locations.space.tolist() == [Space.DRAM_SHARED, Space.SBUF, Space.DRAM_SHARED]


def test_shared_tensors_are_views_of_core_0(tmp_path: Path) -> None:
    kernel = write_kernel(tmp_path, COPY.format(body="pass"))
    program = hnki.trace(kernel, x(4, 8)).program
    rows = program.locations
    names = [program.strings[name] for name in rows.name.tolist()]
    views = [name for name, remote in zip(names, rows.remote_core.tolist(), strict=True) if remote == 0]
    assert views == ["x", "out"]


def test_matrix_multiplications_accumulate_from_the_second_on(tmp_path: Path) -> None:
    kernel = write_kernel(
        tmp_path,
        """
        def kernel(x):
            w = nl.ndarray((4, 8), dtype=nl.float32, buffer=nl.sbuf)
            nisa.dma_copy(dst=w, src=x)
            acc = nl.ndarray((8, 8), dtype=nl.float32, buffer=nl.psum)
            for _ in nl.affine_range(2):
                nisa.nc_matmul(acc, w, w)
        """,
    )
    records = hnki.trace(kernel, x(4, 8), lnc=1).trace.recorders[0].records
    written = [record.writes[0][0] for record in records[1:]]
    assert [
        write in {number for number, _ in record.reads} for write, record in zip(written, records[1:], strict=True)
    ] == [
        False,
        True,
    ]


def test_an_unknown_instruction_touches_all_its_tensors_and_is_said_once(tmp_path: Path) -> None:
    found = checked(
        tmp_path,
        COPY.format(
            body="nisa.memset(tile, 0.0)\n    for _ in range(3):\n        nisa.frobnicate(dst=out, src=tile)"
        ),
        x(4, 8),
        lnc=1,
    )
    unknown = [each for each in found.diagnostics if each.code == "unknown-instruction"]
    assert len(unknown) == 1
    assert "frobnicate" in unknown[0].message
    record = found.trace.recorders[0].records[1]
    assert {number for number, _ in record.reads} == {number for number, _ in record.writes} == {1, 2}


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("nisa.dma_copy(dst=tile, source=x)", "no parameter `source`"),
        ("nisa.memset(tile)", "needs `value`"),
        ("nisa.memset(tile, 0, None, None, 5)", "takes"),
        ("nisa.dma_copy(dst=tile, src=x[0:2, :])", "16 elements"),
        ("nisa.tensor_tensor(tile, tile[0:2, :], tile[0:2, :], nl.add)", "spans 2 partitions"),
        ("nl.ndarray((4, 4), dtype='float99')", "element type 'float99'"),
        ("undefined_name", "NameError"),
        ("tile.reshape((5, 5))", "elements"),
        ("tile[0:5, :]", "elements 0:5"),
    ],
)
def test_wrong_kernels_are_told_at_their_line(tmp_path: Path, body: str, says: str) -> None:
    kernel = write_kernel(tmp_path, COPY.format(body=body))
    found = hnki.check_kernel(kernel, x(4, 8), lnc=1)
    wrong = [each for each in found.diagnostics if says in each.message]
    assert wrong, [str(each) for each in found.diagnostics]
    assert wrong[0].severity is Severity.ERROR
    assert wrong[0].span is not None
    assert wrong[0].span.line == line_of(kernel, body)


def test_arguments_that_do_not_fit_are_bad_input(tmp_path: Path) -> None:
    kernel = write_kernel(tmp_path, COPY.format(body="pass"))
    with pytest.raises(HauloutError) as raised:
        hnki.check(kernel, {"y": 1})
    assert raised.value.diagnostics[0].code == "bad-input"
    assert "kernel(x)" in raised.value.diagnostics[0].help[0]


def test_indices_from_a_given_array_are_exact(tmp_path: Path) -> None:
    kernel = write_kernel(
        tmp_path,
        """
        def kernel(x, index):
            at = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.sbuf)
            nisa.dma_copy(dst=at, src=index)
            nisa.tensor_scalar(dst=at, data=at, op0=nl.multiply, operand0=2, op1=nl.add, operand1=1)
            tile = nl.ndarray((1, 8), dtype=nl.float32, buffer=nl.sbuf)
            nisa.dma_copy(dst=tile, src=x.ap([[8, 1], [1, 8]], scalar_offset=at, indirect_dim=0))
        """,
    )

    def row(index: object) -> tuple[str, bool]:
        record = hnki.trace(kernel, {**x(16, 8), "index": index}, lnc=1).trace.recorders[0].records[2]
        return str(record.reads[0][1]), bool(record.maybe)

    assert row(np.array([[3]], np.int32)) == (f"{7 * 32}:{8 * 32}", False)
    assert row(hnki.tensor("i32", 1, 1)) == ("None", True)


COUNTED = """
def kernel(x):
    tile = nl.ndarray((4, 8), dtype=nl.float32, buffer=nl.sbuf)
    count = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.sbuf)
    nisa.dma_copy(dst=count, src=x)
    register = nisa.register_alloc()
    nisa.register_load(register, count)
    for _ in nl.dynamic_range(0, register):
        nisa.memset(tile, 0.0)
    while register:
        nisa.memset(tile, 1.0)
        nisa.register_load(register, count)
"""


def fills(emitted: Emitted) -> int:
    return sum(record.opcode == "nki.memset" for record in emitted.trace.recorders[0].records)


def test_loops_that_the_device_counts_are_loops_of_the_program(tmp_path: Path) -> None:
    emitted = hnki.trace(write_kernel(tmp_path, COUNTED), {"x": hnki.tensor("i32", 1, 1)}, lnc=1)
    assert fills(emitted) == 2
    assert not emitted.findings
    program = emitted.program
    blocks = [program.strings[name] for name in program.blocks.name.tolist()]
    assert blocks == ["entry", "loop_0", "body_0", "behind_0", "loop_1", "body_1", "behind_1"]
    edges = zip(program.edges.source.tolist(), program.edges.target.tolist(), strict=True)
    assert sorted(edges) == [(0, 1), (1, 2), (1, 3), (2, 1), (3, 4), (4, 5), (4, 6), (5, 4)]


def test_or_are_unrolled_when_told_so(tmp_path: Path) -> None:
    kernel = write_kernel(tmp_path, COUNTED)
    emitted = hnki.trace(kernel, {"x": hnki.tensor("i32", 1, 1)}, lnc=1, trips=2)
    assert fills(emitted) == 4
    assert [each.code for each in emitted.findings] == ["assumed-loop-count"] * 2
    assert len(emitted.program.blocks) == 1


def test_loops_whose_count_is_given_are_unrolled(tmp_path: Path) -> None:
    emitted = hnki.trace(write_kernel(tmp_path, COUNTED), {"x": np.array([[0]], np.int32)}, lnc=1)
    assert fills(emitted) == 0
    assert len(emitted.program.blocks) == 1


def test_what_changes_in_a_loop_is_not_known_in_it(tmp_path: Path) -> None:
    kernel = write_kernel(
        tmp_path,
        """
        def kernel(x, count):
            at = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.sbuf)
            counted = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.sbuf)
            tile = nl.ndarray((1, 8), dtype=nl.float32, buffer=nl.sbuf)
            nisa.memset(at, 0)
            nisa.dma_copy(dst=counted, src=count)
            for i in nl.dynamic_range(0, nisa.register_alloc(counted)):
                nisa.dma_copy(dst=tile, src=x.ap([[8, 1], [1, 8]], scalar_offset=at, indirect_dim=0))
                nisa.dma_copy(dst=tile, src=x[nl.ds(2 * i + 1, 1), :])
                nisa.tensor_scalar(dst=at, data=at, op0=nl.add, operand0=1)
        """,
    )
    trace = hnki.trace(kernel, {**x(16, 8), "count": hnki.tensor("i32", 1, 1)}, lnc=1).trace
    copies = [record for record in trace.recorders[0].records if record.opcode == "nki.dma_copy"][1:]
    assert [(record.reads[0][1], record.maybe) for record in copies] == [(None, (0,))] * 2


def test_the_stand_ins_are_gone_afterwards(tmp_path: Path) -> None:
    before = {name for name in sys.modules if name.split(".")[0] in ("nki", "neuronxcc")}
    hnki.trace(write_kernel(tmp_path, COPY.format(body="pass")), x(4, 8))
    assert {name for name in sys.modules if name.split(".")[0] in ("nki", "neuronxcc")} == before
    assert "kernels" not in sys.modules


def test_modules_that_hold_another_nki_keep_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = types.ModuleType("nki")
    language = types.ModuleType("nki.language")
    real.language = language  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "nki", real)
    monkeypatch.setitem(sys.modules, "nki.language", language)
    (tmp_path / "held.py").write_text("import nki.language as nl\n\ndef kernel():\n    return nl.program_id(0)\n")
    monkeypatch.syspath_prepend(tmp_path)
    import held  # type: ignore[import-not-found]

    assert held.nl is language
    assert hnki.check(held.kernel) == []
    assert sys.modules["nki"] is real
    assert sys.modules["held"] is held
    assert held.nl is language


def test_a_kernels_file_may_be_called_like_a_module(tmp_path: Path) -> None:
    import json

    (tmp_path / "json.py").write_text("import nki.language as nl\n\ndef kernel():\n    return nl.program_id(0)\n")
    assert hnki.check(f"{tmp_path / 'json.py'}::kernel") == []
    assert sys.modules["json"] is json


def test_reading_and_writing_bytes_that_only_partly_meet(tmp_path: Path) -> None:
    found = checked(
        tmp_path,
        COPY.format(
            body="nisa.dma_copy(dst=tile, src=x)\n    nisa.tensor_copy(dst=tile[:, 1:8], src=tile[:, 0:7])\n"
            "    nisa.dma_copy(dst=out, src=tile)"
        ),
        x(4, 8),
        lnc=1,
    )
    assert codes(found) == []
    assert found.program is not None
    assert len(found.program.instructions) == 4


def test_a_function_is_found_again_in_its_file() -> None:
    from tests.frontends.nki.nki_functions import scaled

    assert hnki.check(scaled, [hnki.tensor("f32", 4, 8)]) == []


def test_modes_are_looked_up_in_the_kernels_module(tmp_path: Path) -> None:
    kernel = write_kernel(
        tmp_path,
        """
        import enum

        class Mode(enum.Enum):
            FAST = 1

        def kernel(mode, text, items):
            assert mode is Mode.FAST
            assert text == "plain"
            assert items[1].shape == (4, 8)
            return items[1]
        """,
    )
    arguments = hnki.parse_arguments(["mode=Mode.FAST", "text=plain"]) | {"items": [1, hnki.tensor("f32", 4, 8)]}
    assert hnki.check(kernel, arguments) == []
