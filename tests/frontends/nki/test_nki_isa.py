"""`nki.isa` as documented: its enumerations, barriers' cores, handles of instructions, structured loops."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.frontends.nki.nki_kernels import TWO_CORE, checked, codes, line_of

import haulout.nki as hnki
from haulout.frontends.nki.stand_ins import isa

X = {"x": hnki.tensor("f32", 2, 512)}

MEMBERS = {
    "engine": "tensor vector scalar gpsimd dma sync unknown",
    "reduce_cmd": "idle reset reduce reset_reduce load_reduce",
    "dge_mode": "unknown swdge hwdge none",
    "oob_mode": "error skip",
    "matmul_perf_mode": "none double_row",
    "nc_version": "gen2 gen3 gen4",
    "dma_engine": "dma gpsimd_dma",
}


@pytest.mark.parametrize("name", MEMBERS)
def test_every_documented_member_is_there(name: str) -> None:
    kind = vars(isa.make_module("nki.isa"))[name]
    assert {each.name for each in kind} >= set(MEMBERS[name].split())


def test_engines_have_names_of_their_own() -> None:
    names = vars(isa.make_module("nki.isa"))
    for engine in ("tensor", "vector", "scalar", "gpsimd", "unknown"):
        assert names[f"{engine}_engine"].name == engine


# -- barriers --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cores", "says"),
    [
        ("(0, -1)", "core -1"),
        ("(0, 2)", "core 2"),
        ("(0, 2**70)", f"core {2**70}"),
        ("(0, 1.5)", "1.5"),
        ("(0, None)", "None"),
        ("(0, nl.float32)", "'float32'"),
        ("(0, nisa.register_alloc(1))", "a register that holds 1"),
        ("(0, object())", "something of type object"),
        ("1", "found 1"),
        ("()", "()"),
        ("'01'", "'01'"),
    ],
)
def test_a_barrier_of_invalid_cores(tmp_path: Path, cores: str, says: str) -> None:
    found = checked(tmp_path, TWO_CORE.format(meet=f"nisa.core_barrier(shared, {cores})"), X)
    assert codes(found) == ["bad-input"]
    assert found.diagnostics[0].message.startswith("nisa.core_barrier: ")
    assert says in found.diagnostics[0].message
    span = found.diagnostics[0].labels[0].span
    assert span is not None
    assert span.line == line_of(f"{tmp_path / 'kernels.py'}::kernel", "core_barrier")


def test_a_barrier_on_no_tensor(tmp_path: Path) -> None:
    found = checked(tmp_path, TWO_CORE.format(meet="nisa.core_barrier(3, (0, 1))"), X)
    assert codes(found) == ["bad-input"]
    assert "found 3" in found.diagnostics[0].message


@pytest.mark.parametrize("cores", ["(0, 1)", "[1, 0]", "range(2)", "(np.int64(0), np.int32(1))"])
def test_cores_of_any_integer_kind(tmp_path: Path, cores: str) -> None:
    meet = f"import numpy as np; nisa.core_barrier(shared, {cores})"
    assert codes(checked(tmp_path, TWO_CORE.format(meet=meet), X)) == []


def test_on_one_core_a_barrier_meets_no_other(tmp_path: Path) -> None:
    body = """
        def kernel(x):
            shared = nl.ndarray((2, 512), dtype=nl.float32, buffer=nl.shared_hbm)
            nisa.core_barrier(shared, {cores})
            return x
        """
    found = checked(tmp_path, body.format(cores="(0, 1)"), X, lnc=1)
    assert codes(found) == ["redundant-barrier"]
    assert "the kernel runs on one core" in found.diagnostics[0].message
    assert codes(checked(tmp_path, body.format(cores="(0, 2)"), X, lnc=1)) == ["bad-input"]


def test_a_barrier_of_one_of_two_cores_is_not_widened(tmp_path: Path) -> None:
    found = checked(tmp_path, TWO_CORE.format(meet="nisa.core_barrier(shared, (core,))"), X)
    assert "cross-core-race" in codes(found)


# -- copies ----------------------------------------------------------------------------------------------------------

ONTO_ITSELF = """
def kernel(x):
    core = nl.program_id(0)
    out = nl.ndarray((2, 512), dtype=nl.float32, buffer=nl.shared_hbm)
    tile = nl.ndarray((1, 512), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x[core : core + 1, :])
    nisa.tensor_copy(dst=tile, src=tile)
    nisa.dma_copy(dst=out[core : core + 1, :], src=tile)
    {meet}
    {copy}
    return out
"""
MEET = "nisa.core_barrier(out, (0, 1))"


@pytest.mark.parametrize(
    "copy", ["nisa.dma_copy(dst=out, src=out)", "out[...] = out", "nisa.dma_copy(dst=out[0:1, :], src=out[0, :])"]
)
def test_a_tensor_copied_onto_itself_changes_nothing(tmp_path: Path, copy: str) -> None:
    found = checked(tmp_path, ONTO_ITSELF.format(meet=MEET, copy=copy), X)
    assert "cross-core-race" not in codes(found)
    # It reads all the same: what the other core still writes may be lost.
    assert "cross-core-race" in codes(checked(tmp_path, ONTO_ITSELF.format(meet="pass", copy=copy), X))


def test_a_tile_copied_onto_itself_is_not_even_read(tmp_path: Path) -> None:
    body = """
        def kernel(x):
            tile = nl.ndarray((2, 512), dtype=nl.float32, buffer=nl.sbuf)
            {copy}
            nisa.dma_copy(dst=tile, src=x)
        """
    assert codes(checked(tmp_path, body.format(copy="nisa.tensor_copy(dst=tile, src=tile)"), X, lnc=1)) == []
    shifted = checked(tmp_path, body.format(copy="nisa.tensor_copy(dst=tile[:, 0:8], src=tile[:, 8:16])"), X, lnc=1)
    assert shifted.trace.recorders[0].records[0].reads


@pytest.mark.parametrize(
    ("copy", "expected"),
    [
        ("nisa.dma_copy(dst=out[0:1, :], src=out[1:2, :])", "benign-duplicate-write"),  # both copy the same row
        ("nisa.dma_copy(dst=out, src=out.ap([[-512, 2], [1, 512]], offset=512))", "cross-core-race"),
    ],
)
def test_a_copy_to_another_part_is_one(tmp_path: Path, copy: str, expected: str) -> None:
    assert expected in codes(checked(tmp_path, ONTO_ITSELF.format(meet=MEET, copy=copy), X))


# -- handles and loops -----------------------------------------------------------------------------------------------


def test_an_instruction_waits_for_those_that_it_is_told_to(tmp_path: Path) -> None:
    body = """
        def kernel(x):
            tile = nl.ndarray((2, 512), dtype=nl.float32, buffer=nl.sbuf)
            other = nl.ndarray((2, 512), dtype=nl.float32, buffer=nl.sbuf)
            first = nisa.dma_copy(dst=tile, src=x)
            second = nisa.memset(dst=other, value=0.0)
            {wait}
        """
    kernel = checked(tmp_path, body.format(wait="second.depends_on(first)"), X, lnc=1)
    assert kernel.program is not None
    edges = kernel.program.dependences
    assert list(zip(edges.instruction.tolist(), edges.producer.tolist(), strict=True)) == [(1, 0)]
    wrong = checked(tmp_path, body.format(wait="first.depends_on(second)"), X, lnc=1)
    assert codes(wrong) == ["kernel-error"]


LOOPED = """
def kernel(x, count):
    shared = nl.ndarray((2, 512), dtype=nl.float32, buffer=nl.shared_hbm)
    counted = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.sbuf)
    nisa.dma_copy(dst=counted, src=count)
    tile = nl.ndarray((2, 512), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)

    def body(index):
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0)
        again = nisa.register_alloc()
        nisa.register_load(again, counted)
        return again

    {loop}
"""


@pytest.mark.parametrize(
    "loop",
    ["nl.fori_loop(0, nisa.register_alloc(counted), body)", "nl.while_loop(nisa.register_alloc(counted), body)"],
)
def test_structured_loops_are_loops_of_the_program(tmp_path: Path, loop: str) -> None:
    arguments = {**X, "count": hnki.tensor("i32", 1, 1)}
    found = checked(tmp_path, LOOPED.format(loop=loop), arguments, lnc=1)
    assert codes(found) == []
    assert len(found.trace.recorders[0].loops) == 1
    unrolled = checked(tmp_path, LOOPED.format(loop=loop), arguments, lnc=1, trips=3)
    assert sum(record.opcode == "nki.tensor_scalar" for record in unrolled.trace.recorders[0].records) == 3


def test_structured_loops_whose_count_is_known_are_unrolled(tmp_path: Path) -> None:
    arguments = {**X, "count": hnki.tensor("i32", 1, 1)}
    found = checked(tmp_path, LOOPED.format(loop="nl.fori_loop(2, 8, body, 2)"), arguments, lnc=1)
    assert sum(record.opcode == "nki.tensor_scalar" for record in found.trace.recorders[0].records) == 3
    none = checked(tmp_path, LOOPED.format(loop="nl.while_loop(nisa.register_alloc(0), body)"), arguments, lnc=1)
    assert sum(record.opcode == "nki.tensor_scalar" for record in none.trace.recorders[0].records) == 0
