"""ONNX models as problems: liveness, views, in-place pairs; needs the package `onnx`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.cli.command import haulout

from haulout.packing import solve
from haulout.packing.readers import read_problem
from haulout.support.diagnostics import HauloutError

onnx = pytest.importorskip("onnx")


def _model(path: Path, rows: int | str) -> Path:
    """x -> MatMul -> Relu -> Reshape -> Concat with itself -> out; the weight is no buffer."""
    make, kind = onnx.helper, onnx.TensorProto.FLOAT
    graph = make.make_graph(
        [
            make.make_node("MatMul", ["x", "w"], ["a"]),
            make.make_node("Relu", ["a"], ["b"]),
            make.make_node("Reshape", ["b", "s"], ["c"]),
            make.make_node("Concat", ["c", "c"], ["out"], axis=0),
        ],
        "small",
        [make.make_tensor_value_info("x", kind, [rows, 16])],
        [make.make_tensor_value_info("out", kind, None)],
        [
            make.make_tensor("w", kind, [16, 16], np.ones(256).tolist()),
            make.make_tensor("s", onnx.TensorProto.INT64, [1], [-1]),
        ],
    )
    onnx.save(make.make_model(graph), path)
    return path


def test_liveness_views_and_pairs(tmp_path: Path) -> None:
    table = read_problem(_model(tmp_path / "model.onnx", 4))
    problem = table.problem
    rows = dict(zip(table.ids, range(len(problem)), strict=True))
    assert sorted(rows) == ["a", "b", "c", "out", "x"]
    ranges = {name: (int(problem.lower[k]), int(problem.upper[k])) for name, k in rows.items()}
    assert ranges == {"x": (0, 1), "a": (0, 2), "b": (1, 3), "c": (2, 4), "out": (3, 5)}
    assert {name: int(problem.size[k]) for name, k in rows.items()} == {
        "x": 256,
        "a": 256,
        "b": 256,
        "c": 256,
        "out": 512,
    }
    solution = solve(problem)
    offset = {name: int(solution.offset[k]) for name, k in rows.items()}
    assert offset["b"] == offset["c"]
    assert solution.in_place == ((rows["a"], rows["b"]),) and offset["a"] == offset["b"]
    assert solution.peak == 256 + 512  # the concatenation and its input


def test_an_open_dimension_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HauloutError, match="shape of tensor `x` is not known"):
        read_problem(_model(tmp_path / "model.onnx", "n"))


def test_what_is_no_model(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(b"\xff\xff nothing")
    with pytest.raises(HauloutError, match="not an ONNX model"):
        read_problem(tmp_path / "model.onnx")


def test_a_branch_reads_at_its_node_and_its_tensors_live_then(tmp_path: Path) -> None:
    make, kind = onnx.helper, onnx.TensorProto.FLOAT

    def body(op: str) -> object:
        return make.make_graph(
            [make.make_node(op, ["x"], [f"{op}_0"]), make.make_node("Neg", [f"{op}_0"], [f"{op}_1"])],
            op,
            [],
            [make.make_tensor_value_info(f"{op}_1", kind, [8])],
        )

    graph = make.make_graph(
        [
            make.make_node("Relu", ["x"], ["y"]),
            make.make_node("If", ["c"], ["z"], then_branch=body("Exp"), else_branch=body("Abs")),
            make.make_node("Mul", ["y", "z"], ["out"]),
        ],
        "branch",
        [
            make.make_tensor_value_info("x", kind, [8]),
            make.make_tensor_value_info("c", onnx.TensorProto.BOOL, []),
        ],
        [make.make_tensor_value_info("out", kind, [8])],
    )
    onnx.save(make.make_model(graph), tmp_path / "branch.onnx")
    table = read_problem(tmp_path / "branch.onnx")
    live = dict(
        zip(table.ids, zip(table.problem.lower.tolist(), table.problem.upper.tolist(), strict=True), strict=True)
    )
    assert live["x"] == (0, 2)  # read in both arms
    assert all(live[f"{name} in node 1"] == (1, 2) for name in ("Exp_0", "Exp_1", "Abs_0", "Abs_1"))


def test_the_command_compares_with_greedy(tmp_path: Path) -> None:
    outcome = haulout("plan", "-q", _model(tmp_path / "model.onnx", 4))
    assert outcome.status == 0
    assert "5 buffers: peak 768 bytes" in outcome.stdout
    greedy = int(outcome.stdout.split("greedy by size, first fit: peak ")[1].split()[0])
    assert greedy >= 768
