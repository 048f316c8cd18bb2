"""What no core can do is a finding at its line, by the table of rules; what it can do is none.

`hardware_cases.py` and `hardware_more_cases.py` have for every rule an instruction that breaks it and its nearest
neighbour that does not.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.frontends.nki.hardware_cases import MEMORY_TO_TENSOR_ENGINE, lines, tile
from tests.frontends.nki.hardware_more_cases import ELEMENTWISE_TO_TARGETS
from tests.frontends.nki.nki_kernels import checked, codes, line_of

import haulout.nki as hnki
from haulout.frontends.nki.hardware_table import HARDWARE, RULES, TARGETS
from haulout.support.diagnostics import Diagnostic, HauloutError, Severity

HEAD = """
def kernel(x, big):
    a = nl.ndarray((128, 128), dtype=nl.float32, buffer=nl.sbuf)
    b = nl.ndarray((128, 128), dtype=nl.float32, buffer=nl.sbuf)
    p = nl.ndarray((128, 128), dtype=nl.float32, buffer=nl.psum)
    q = nl.ndarray((128, 128), dtype=nl.float32, buffer=nl.psum)
    h = nl.ndarray((128, 128), dtype=nl.bfloat16, buffer=nl.sbuf)
    i = nl.ndarray((128, 128), dtype=nl.int32, buffer=nl.sbuf)
    u = nl.ndarray((128, 16), dtype=nl.uint32, buffer=nl.sbuf)
    s = nl.ndarray((128, 16), dtype=nl.uint16, buffer=nl.sbuf)
    e = nl.ndarray((128, 256), dtype=nl.float8_e4m3, buffer=nl.sbuf)
    f = nl.ndarray((128, 128), dtype=nl.float8_e4m3fn, buffer=nl.sbuf)
    packed = nl.ndarray((128, 64), dtype=nl.float8_e4m3fn_x4, buffer=nl.sbuf)
    scale = nl.ndarray((128, 64), dtype=nl.uint8, buffer=nl.sbuf)
    eight = nl.ndarray((128, 8), dtype=nl.float32, buffer=nl.sbuf)
    wide = nl.ndarray((128, 8, 512), dtype=nl.float32, buffer=nl.sbuf)
    column = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
    for each in (a, b, p, q, h, e, f, eight, wide, column):
        nisa.memset(each, 0.0)
    for each in (i, u, s, packed, scale):
        nisa.memset(each, 0)
    {work}
"""
X = {"x": hnki.tensor("f32", 128, 128), "big": hnki.tensor("bf16", 1024, 1024)}


def rules(folder: Path, work: str, **options: object) -> list[tuple[str, Diagnostic]]:
    """The hardware rules that the last line breaks."""
    found = checked(folder, HEAD.format(work=work), X, lnc=1, **options).diagnostics
    broken = [each for each in found if each.code == HARDWARE]
    line = line_of(f"{folder / 'kernels.py'}::kernel", work.splitlines()[-1].strip())
    assert all(each.labels[0].span is not None and each.labels[0].span.line == line for each in broken)
    return [(each.notes[0].split()[1], each) for each in broken]


CASES = {**MEMORY_TO_TENSOR_ENGINE, **ELEMENTWISE_TO_TARGETS}
ELSEWHERE = {"sendrecv-bytes": "needs two cores: below"}
ALL = [(rule, *case) for rule, cases in CASES.items() for case in cases]
LATER = {"gen2": "gen3", "gen3": "gen4"}


def test_every_rule_has_a_case() -> None:
    own = {name for name, rule in RULES.items() if rule.code == HARDWARE}
    assert own == set(CASES) | set(ELSEWHERE)


@pytest.mark.parametrize(("rule", "target", "work", "right"), ALL)
def test_a_rule_and_its_nearest_neighbour(tmp_path: Path, rule: str, target: str, work: str, right: str) -> None:
    found = rules(tmp_path, work, target=target)
    assert {name for name, _ in found} == {rule}
    for _, each in found:
        assert each.severity is RULES[rule].severity
        assert RULES[rule].asks in each.notes[0]
        assert RULES[rule].targets != TARGETS or "all targets" in each.notes[0]
    assert rules(tmp_path, right, target=target) == []


@pytest.mark.parametrize(
    ("rule", "target", "work"),
    [(rule, target, work) for rule, target, work, _ in ALL if "gen4" not in RULES[rule].targets and target != "gen4"],
)
def test_a_later_target_may_have_it(tmp_path: Path, rule: str, target: str, work: str) -> None:
    later = "gen4" if "gen3" in RULES[rule].targets else LATER[target]
    assert rule not in {name for name, _ in rules(tmp_path, work, target=later)}


@pytest.mark.parametrize(("target", "columns", "wrong"), [("gen3", 512, 0), ("gen3", 513, 1), ("gen4", 513, 0)])
def test_columns_of_a_matrix_multiplication(tmp_path: Path, target: str, columns: int, wrong: int) -> None:
    work = f"nisa.nc_matmul(p.ap([[128, 128], [0, {columns}]]), a, wide.ap([[4096, 128], [1, {columns}]]))"
    found = [each.message for _, each in rules(tmp_path, work, target=target)]
    assert len(found) == wrong
    assert all("moving has 513 elements in each partition; gen3 takes at most 512" in message for message in found)


def test_a_note_says_what_is_asked_where_and_what_was_seen(tmp_path: Path) -> None:
    ((_, found),) = rules(tmp_path, "nisa.tensor_tensor(a, a, b[:, 0:64], nl.add)")
    assert found.message == "nisa.tensor_tensor: data2 has 64 elements in each partition, dst 128"
    assert found.notes[0].startswith("rule free-size (all targets): full operands have as many elements")
    ((_, found),) = rules(tmp_path, "nisa.activation(a, nl.exp, b, bias=1.0)", target="gen2")
    assert found.notes[0].startswith("rule act-bias (gen2): ")


def test_what_the_list_leaves_out_is_not_checked(tmp_path: Path) -> None:
    work = lines(
        "nisa.dma_copy(dst=a[3:9, :], src=x[0:6, :])",
        "nisa.activation(a, nl.exp, b, bias=i[:, 0:1])",
        "nisa.max8(eight, i)",
        "nisa.scalar_tensor_tensor(a, a, nl.add, h[:, 0:1], nl.add, b)",
    )
    assert rules(tmp_path, work) == []


@pytest.mark.parametrize(
    ("target", "columns", "severity"),
    [
        ("gen3", 53246, None),
        ("gen3", 53247, Severity.WARNING),
        ("gen3", 57344, Severity.WARNING),
        ("gen3", 57345, Severity.ERROR),
        ("gen2", 49152, None),
        ("gen2", 49153, Severity.ERROR),
        ("gen4", 65536, None),
        ("gen4", 65537, Severity.ERROR),
    ],
)
def test_sizes_of_sbuf(tmp_path: Path, target: str, columns: int, severity: Severity | None) -> None:
    body = f"""
        def kernel(x):
            tile = nl.ndarray((128, {columns}), dtype=nl.float32, buffer=nl.sbuf)
            nisa.memset(tile[:, 0:8], 0.0)
        """
    found = checked(tmp_path, body, {"x": X["x"]}, lnc=1, target=target).diagnostics
    assert [each.severity for each in found if each.code == "over-capacity"] == [severity] * (severity is not None)


def test_tensors_that_live_together_and_leave_the_compiler_nothing(tmp_path: Path) -> None:
    body = """
        def kernel(x):
            first = nl.ndarray((128, 27000), dtype=nl.float32, buffer=nl.sbuf)
            second = nl.ndarray((128, {columns}), dtype=nl.float32, buffer=nl.sbuf)
            nisa.memset(first, 0.0)
            nisa.memset(second, 0.0)
            nisa.tensor_copy(dst=second[:, 0:8], src=first[:, 0:8])
        """
    tight, fitting = (
        checked(tmp_path, body.format(columns=columns), {"x": X["x"]}, lnc=1).diagnostics
        for columns in (27000, 26000)
    )
    (found,) = (each for each in tight if each.code == "over-capacity")
    assert found.severity is Severity.WARNING
    assert "of which 212984 are usable" in found.message
    assert [each for each in fitting if each.code == "over-capacity"] == []


@pytest.mark.parametrize(("columns", "wrong"), [(256, 0), (257, 1)])
def test_an_exchange_through_gpsimd_has_a_size(tmp_path: Path, columns: int, wrong: int) -> None:
    body = f"""
        def kernel(x):
            core = nl.program_id(0)
            mine = nl.ndarray((64, {columns}), dtype=nl.float32, buffer=nl.sbuf)
            theirs = nl.ndarray((64, {columns}), dtype=nl.float32, buffer=nl.sbuf)
            nisa.memset(mine, 1.0)
            nisa.sendrecv(src=mine, dst=theirs, send_to_rank=1 - core, recv_from_rank=1 - core, pipe_id=0,
                          dma_engine=nisa.dma_engine.gpsimd_dma)
        """
    found = checked(tmp_path, body, {"x": X["x"]})
    assert codes(found) == ["hardware-rule"] * wrong
    broken = [each for each in found.diagnostics if each.code == HARDWARE]
    assert all(each.notes[0].startswith("rule sendrecv-bytes (gen3, gen4)") for each in broken)
    assert found.trace.recorders[0].records[-1].engine.name == "POOL"
    old = checked(tmp_path, body, {"x": X["x"]}, target="gen2")
    missing = [each.message for each in old.diagnostics if each.code == HARDWARE]
    assert missing == ["nisa.sendrecv: it needs gen3; the target is gen2"]


@pytest.mark.parametrize(
    ("work", "engine"),
    [
        ("nisa.tensor_tensor(i, i, i, nl.add)", "POOL"),
        ("nisa.tensor_tensor(i, i, i, nl.add, engine=nisa.vector_engine)", "VECTOR"),
        ("nisa.tensor_tensor(a, i, i, nl.add)", "VECTOR"),
        ("nisa.tensor_tensor(p.view(nl.int32), i, i, nl.add)", "VECTOR"),
        ("nisa.tensor_tensor(a, a, b, nl.power)", "POOL"),
        ("nisa.tensor_tensor(a, a, b, nl.add)", "VECTOR"),
        ("nisa.tensor_scalar(a, a, nl.rsqrt, 0.0)", "POOL"),
        ("nisa.tensor_scalar(a, a, nl.add, 0.0)", "VECTOR"),
        ("nisa.nc_transpose(p, a)", "PE"),
        ("nisa.nc_transpose(b[0:32, 0:32], a[0:32, 0:32])", "VECTOR"),
        ("nisa.rand2(a, 0.0, 1.0)", "VECTOR"),
        ("nisa.set_rng_seed(u[0:1, 0:1])", "VECTOR"),
        ("nisa.rand_get_state(u[:, 0:6])", "POOL"),
        ("nisa.rand_set_state(u, engine=nisa.vector_engine)", "VECTOR"),
        ("nisa.activation(a, nl.exp, b)", "ACT"),
        ("nisa.activation(a, nl.exp, b, engine=nisa.gpsimd_engine)", "POOL"),
        (
            "nisa.scalar_tensor_tensor(a, a, nl.add, 1.0, nl.add, b, reduce_cmd=nisa.reduce_cmd.reset_reduce, "
            "reduce_op=nl.add, reduce_res=column)",
            "VECTOR",
        ),
    ],
)
def test_the_engine_that_an_instruction_runs_on(tmp_path: Path, work: str, engine: str) -> None:
    found = checked(tmp_path, HEAD.format(work=work), X, lnc=1, target="gen4")
    assert codes(found) == []
    assert found.trace.recorders[0].records[-1].engine.name == engine


def test_the_result_of_a_reduction_is_written(tmp_path: Path) -> None:
    work = lines(
        tile("sums", "(128, 1)"),
        "nisa.scalar_tensor_tensor(a, a, nl.add, 1.0, nl.add, b, reduce_op=nl.add, reduce_res=sums)",
    )
    found = checked(tmp_path, HEAD.format(work=work), X, lnc=1).trace.recorders[0]
    assert [found.storages[number].name for number, _ in found.records[-1].writes] == ["a", "sums"]


def test_an_unknown_target_is_bad_input(tmp_path: Path) -> None:
    with pytest.raises(HauloutError, match="invalid target 'gen5'"):
        checked(tmp_path, HEAD.format(work="pass"), X, lnc=1, target="gen5")
