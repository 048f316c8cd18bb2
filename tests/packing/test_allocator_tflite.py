"""TensorFlow Lite models as problems, and the offline plan of the micro interpreter; needs the package `tflite`."""

from __future__ import annotations

import json
import random
import struct
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.cli.command import haulout

from haulout.packing import Problem, solve, violations
from haulout.packing.readers import read_problem
from haulout.support.diagnostics import HauloutError

tflite = pytest.importorskip("tflite")
from benchmarks.tflite_models import MODELS, Net, branch, loop, model  # noqa: E402

from haulout.packing.tflite_model import micro_greedy, read_tflite, with_offline_plan  # noqa: E402


def _saved(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def _ranges(path: Path) -> dict[str, tuple[int, int]]:
    table = read_problem(path)
    lives = zip(table.problem.lower.tolist(), table.problem.upper.tolist(), strict=True)
    return dict(zip(table.ids, lives, strict=True))


def test_lifetimes_sizes_and_views(tmp_path: Path) -> None:
    net = Net()
    x = net.input(1, 8)
    net.tensor("state", [100], keeps=True)  # has a value between runs
    net.tensor("unused", [3])
    y = net.dense(x, 6)
    z = net.reshape(y, 2, 3)
    net.outputs = [net.relu(z)]
    path = _saved(tmp_path / "m.tflite", net.file())
    assert _ranges(path) == {
        "input0": (0, 2),
        "unused": (-1, 0),
        "fully_connected0": (1, 3),
        "reshape1": (2, 4),
        "relu2": (3, 4),
    }
    table = read_problem(path)
    assert dict(zip(table.ids, table.problem.size.tolist(), strict=True)) == {
        "input0": 32,
        "unused": 12,
        "fully_connected0": 24,
        "reshape1": 24,
        "relu2": 24,
    }
    assert table.problem.rules.aliases == ((2, 3),) and set(table.problem.alignment.tolist()) == {16}
    solution = solve(table.problem)
    assert solution.offset[2] == solution.offset[3] and solution.peak == 64
    assert table.own_planner is not None and table.own_planner[1] == 64


def test_a_view_is_one_storage_where_that_is_smaller(tmp_path: Path) -> None:
    net = Net()
    x = net.dense(net.input(1, 4), 64)
    net.outputs = [net.dense(net.reshape(net.reshape(x, 8, 8), 1, 64), 4)]
    table = read_problem(_saved(tmp_path / "m.tflite", net.file()))
    assert len(table.problem.rules.aliases[0]) == 3
    assert table.own_planner is not None and table.own_planner[1] == 512
    assert solve(table.problem).peak == 256 + 16


def _control(kind: str) -> bytes:
    """x -> dense -> IF or WHILE with two graphs -> relu; each graph has one operator."""
    main, one, two = Net(), Net(), Net()
    x = main.input(1, 4)
    flag = main.input(1, kind="BOOL")
    y = main.dense(x, 4)
    options = branch(1, 2) if kind == "IF" else loop(1, 2)
    z = main.apply(kind, [flag, y] if kind == "IF" else [y], (1, 4), options)
    main.outputs = [main.relu(z)]
    for body in (one, two):
        body.outputs = [body.relu(body.input(1, 4))]
    return model(main, one, two)


@pytest.mark.parametrize("kind", ["IF", "WHILE"])
def test_graphs_live_between_their_operator_and_the_next(tmp_path: Path, kind: str) -> None:
    path = _saved(tmp_path / "m.tflite", _control(kind))
    inputs = {"input0": (0, 2), "input1": (0, 7 if kind == "IF" else 1)}
    assert _ranges(path) == inputs | {
        "fully_connected0": (1, 7),  # read when both graphs have run
        f"{kind.lower()}1": (2, 8),
        "1.input0": (3, 5),
        "1.relu0": (4, 5),
        "2.input0": (5, 7),
        "2.relu0": (6, 7),
        "relu2": (7, 8),
    }


def _first_fit(problem: Problem) -> tuple[list[int], int]:
    """The micro interpreter's planner, from its description, without any data structure."""
    sizes = [-(-size // 16) * 16 for size in problem.size.tolist()]
    lives = list(zip(problem.lower.tolist(), problem.upper.tolist(), strict=True))
    offsets = [-1] * len(sizes)
    for b in sorted(range(len(sizes)), key=lambda b: (-sizes[b], -b)):
        near = [
            (offsets[c], offsets[c] + sizes[c])
            for c in range(len(sizes))
            if offsets[c] >= 0 and lives[c][0] < lives[b][1] and lives[b][0] < lives[c][1]
        ]
        starts = sorted({0, *(end for _, end in near)})
        offsets[b] = next(s for s in starts if all(s + sizes[b] <= low or s >= high for low, high in near))
    return offsets, max((offset + size for offset, size in zip(offsets, sizes, strict=True)), default=0)


@pytest.mark.parametrize("name", sorted(MODELS))
def test_plans_of_networks(tmp_path: Path, name: str) -> None:
    path = _saved(tmp_path / "m.tflite", MODELS[name]().file())
    table = read_tflite(path)
    offset, peak = micro_greedy(table.problem)
    assert (offset.tolist(), peak) == _first_fit(table.problem)
    assert table.own_planner == ("the micro interpreter's planner", peak)
    solution = solve(table.problem, hint=table.hint)
    assert solution.lower_bound <= solution.peak <= peak
    planned = _saved(tmp_path / "planned.tflite", with_offline_plan(path, solution.offset))
    words = _plan(planned.read_bytes())
    again = read_tflite(planned)
    assert again.ids == table.ids and again.problem.size.tolist() == table.problem.size.tolist()
    assert words[:2] == [1, 1] and words[2] == len(words) - 3
    assert [each for each in words[3:] if each >= 0] == solution.offset.tolist()
    assert violations(table.problem, solution.offset) == []


def _plan(data: bytes) -> list[int]:
    """The words of the offline plan."""
    root = tflite.Model.GetRootAs(data, 0)
    (entry,) = [
        root.Metadata(k)
        for k in range(root.MetadataLength())
        if root.Metadata(k).Name() == b"OfflineMemoryAllocation"
    ]
    content = root.Buffers(entry.Buffer()).DataAsNumpy().tobytes()
    return list(struct.unpack(f"<{len(content) // 4}i", content))


def _said(data: bytes) -> Any:
    """Everything a model says but its plan."""
    root = tflite.Model.GetRootAs(data, 0)
    buffers = [np.asarray(root.Buffers(k).DataAsNumpy()).tobytes() for k in range(root.BuffersLength())]
    graphs = []
    for g in range(root.SubgraphsLength()):
        graph = root.Subgraphs(g)
        tensors = [graph.Tensors(k) for k in range(graph.TensorsLength())]
        graphs.append(
            (
                [(t.Name(), t.Type(), np.asarray(t.ShapeAsNumpy()).tolist(), buffers[t.Buffer()]) for t in tensors],
                [
                    (op.OpcodeIndex(), op.InputsAsNumpy().tolist(), op.OutputsAsNumpy().tolist())
                    for op in (graph.Operators(k) for k in range(graph.OperatorsLength()))
                ],
                graph.InputsAsNumpy().tolist(),
                graph.OutputsAsNumpy().tolist(),
            )
        )
    codes = [root.OperatorCodes(k).BuiltinCode() for k in range(root.OperatorCodesLength())]
    metadata = [
        (root.Metadata(k).Name(), buffers[root.Metadata(k).Buffer()])
        for k in range(root.MetadataLength())
        if root.Metadata(k).Name() != b"OfflineMemoryAllocation"
    ]
    return root.Version(), root.Description(), codes, graphs, metadata


def test_the_rest_of_a_model_stays_and_an_older_plan_goes(tmp_path: Path) -> None:
    net = MODELS["layers-3"]()
    old = struct.pack("<4i", 1, 1, 1, 7)
    metadata = [("min_runtime_version", b"1.5.0\0"), ("OfflineMemoryAllocation", old), ("other", b"xyz")]
    path = _saved(tmp_path / "m.tflite", model(net, metadata=metadata))
    table = read_tflite(path)
    data = with_offline_plan(path, solve(table.problem).offset)
    assert _said(data) == _said(path.read_bytes())
    assert len(_said(data)[4]) == 2 and len(_plan(data)) == 3 + len(net.tensors)
    twice = with_offline_plan(_saved(tmp_path / "n.tflite", data), solve(table.problem).offset)
    assert _said(twice) == _said(data) and _plan(twice) == _plan(data)
    # Data of tensors is as aligned as before.
    root = tflite.Model.GetRootAs(data, 0)
    for number in range(root.BuffersLength()):
        table_ = root.Buffers(number)._tab
        if table_.Offset(4):
            assert table_.Vector(table_.Offset(4)) % 16 == 0


def test_the_interpreter_computes_the_same(tmp_path: Path) -> None:
    interpreter = pytest.importorskip("ai_edge_litert.interpreter")
    path = _saved(tmp_path / "m.tflite", MODELS["wired-1"]().file())
    table = read_tflite(path)
    planned = _saved(tmp_path / "p.tflite", with_offline_plan(path, solve(table.problem).offset))
    results = []
    for each in (path, planned):
        run = interpreter.Interpreter(model_path=str(each))
        run.allocate_tensors()
        (given,) = run.get_input_details()
        run.set_tensor(given["index"], np.random.default_rng(1).standard_normal(given["shape"]).astype(np.float32))
        run.invoke()
        results.append(run.get_tensor(run.get_output_details()[0]["index"]).copy())
    assert results[0].any() and np.array_equal(*results)


# -- the command -----------------------------------------------------------------------------------------------------


def test_the_command_writes_a_plan_where_it_helps(tmp_path: Path) -> None:
    path, out = _saved(tmp_path / "m.tflite", MODELS["wired-1"]().file()), tmp_path / "out.tflite"
    outcome = haulout("plan", "-q", path, "-o", out)
    assert outcome.status == 0
    assert "the micro interpreter's planner: peak 56448 bytes, 12544 more" in outcome.stdout
    assert "written with an offline plan" in outcome.stdout
    words = _plan(out.read_bytes())[3:]
    table = read_tflite(path)
    sizes = [size for size, word in zip(_sizes(path), words, strict=True) if word >= 0]
    ends = [word + size for word, size in zip([w for w in words if w >= 0], sizes, strict=True)]
    assert max(ends) <= 56448 - 12544 and len(ends) == len(table.ids)


def _sizes(path: Path) -> list[int]:
    """Bytes of every tensor, buffer or not."""
    graph = tflite.Model.GetRootAs(path.read_bytes(), 0).Subgraphs(0)
    return [int(np.prod(graph.Tensors(k).ShapeAsNumpy())) * 4 for k in range(graph.TensorsLength())]


def test_the_command_says_when_nothing_can_be_gained(tmp_path: Path) -> None:
    path, out = _saved(tmp_path / "m.tflite", MODELS["keyword"]().file()), tmp_path / "out.tflite"
    outcome = haulout("plan", "-q", path, "-o", out)
    assert outcome.status == 0 and "already the smallest" in outcome.stdout
    assert "a plan would not make its arena smaller" in outcome.stdout
    assert out.read_bytes() == path.read_bytes()


def test_in_place_on_request(tmp_path: Path) -> None:
    net = Net()
    x = net.dense(net.input(1, 4), 64)
    y = net.relu(net.add(x, net.dense(x, 64)))
    wide = net.apply("MUL", [y, net.input(1, 1)], (1, 64))  # the other input is broadcast
    net.outputs = [net.dense(net.dense(wide, 64), 4)]
    path, out = _saved(tmp_path / "m.tflite", net.file()), tmp_path / "out.tflite"
    assert read_tflite(path).problem.rules.in_place == ()
    table = read_tflite(path, in_place=True)
    names = [(table.ids[one], table.ids[two]) for one, two in table.problem.rules.in_place]
    assert names == [("fully_connected0", "add2"), ("fully_connected1", "add2"), ("add2", "relu3")]
    plain, shared = (haulout("plan", "-q", path, "-o", out, *more) for more in ((), ("--in-place",)))
    assert "already the smallest" in plain.stdout and "peak 784 bytes" in plain.stdout
    assert "peak 528 bytes" in shared.stdout and "2 outputs took over the storage of an input" in shared.stdout
    words = _plan(out.read_bytes())[3:]
    of = {net.tensors[k][0]: word for k, word in enumerate(words)}
    assert of["add2"] == of["relu3"] and of["add2"] in (of["fully_connected0"], of["fully_connected1"])
    (tmp_path / "p.csv").write_text("id,lower,upper,size\na,0,1,16\n")
    refused = haulout("plan", "-q", tmp_path / "p.csv", "--in-place")
    assert refused.status == 2 and "for TensorFlow Lite models" in refused.stdout


def test_the_other_forms_of_output(tmp_path: Path) -> None:
    path = _saved(tmp_path / "m.tflite", MODELS["unet"]().file())
    header = haulout("plan", "-q", path, "-o", "-", "--output-format", "header")
    assert header.status == 0 and "#define INPUT0_OFFSET" in header.stdout
    pools = haulout("plan", "-q", path, "--pool", "SRAM=16K", "--pool", "DRAM", "-o", "-", "--output-format", "json")
    assert pools.status == 0
    placed = {each["id"]: each for each in json.loads(pools.stdout)["buffers"]}
    assert {each["pool"] for each in placed.values()} == {"SRAM", "DRAM"}
    for view, source in (("reshape8", "conv_2d7"), ("reshape12", "conv_2d11"), ("reshape16", "conv_2d15")):
        assert placed[view]["pool"] == placed[source]["pool"] and placed[view]["offset"] == placed[source]["offset"]
    (tmp_path / "p.csv").write_text("id,lower,upper,size\na,0,1,16\n")
    wrong = haulout("plan", "-q", tmp_path / "p.csv", "-o", tmp_path / "out.tflite")
    assert wrong.status == 2 and "TensorFlow Lite" in wrong.stderr and not (tmp_path / "out.tflite").exists()


# -- what is refused -------------------------------------------------------------------------------------------------


def test_what_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    with pytest.raises(HauloutError, match="not a TensorFlow Lite model"):
        read_problem(_saved(path, b"id,lower,upper,size\n"))
    net = Net()
    net.outputs = [net.relu(net.input(-1, 4))]
    with pytest.raises(HauloutError, match="dimension without a size"):
        read_problem(_saved(path, net.file()))
    net = Net()
    net.outputs = [net.relu(net.input(4, kind="STRING"))]
    with pytest.raises(HauloutError, match="no fixed size"):
        read_problem(_saved(path, net.file()))
    net = Net()
    net.outputs = [net.relu(net.tensor("lost", [4]))]
    with pytest.raises(HauloutError, match="`lost` is read before it is written"):
        read_problem(_saved(path, net.file()))
    main, body = Net(), Net()
    main.outputs = [main.apply("IF", [main.input(1, kind="BOOL"), main.input(4)], (4,), branch(1, 0))]
    body.outputs = [body.relu(body.input(4))]
    with pytest.raises(HauloutError, match="runs graph 0"):
        read_problem(_saved(path, model(main, body)))


def test_an_offset_beyond_int32_is_refused(tmp_path: Path) -> None:
    path = _saved(tmp_path / "m.tflite", MODELS["keyword"]().file())
    rows = len(read_tflite(path).ids)
    with pytest.raises(HauloutError, match="no int32"):
        with_offline_plan(path, np.full(rows, 2**31, np.int64))


def test_without_the_package_the_message_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = _saved(tmp_path / "m.tflite", MODELS["keyword"]().file())
    monkeypatch.setitem(sys.modules, "tflite", None)
    with pytest.raises(HauloutError, match=r"haulout\[tflite\]"):
        read_problem(path)


@pytest.mark.parametrize("seed", range(60))
def test_damaged_files_are_refused_or_read(tmp_path: Path, seed: int) -> None:
    drawn = random.Random(seed)
    data = bytearray(_control("IF") if seed % 2 else MODELS["layers-3"]().file()[:6000])
    for _ in range(drawn.randrange(1, 6)):
        data[drawn.choice([0, 1, *range(8, len(data))] if seed % 5 else [0, 1, 2, 3])] = drawn.randrange(256)
    if seed % 3 == 0:
        del data[drawn.randrange(len(data)) :]
    path = _saved(tmp_path / "m.tflite", bytes(data))
    try:
        table = read_problem(path)
        solution = solve(table.problem, hint=table.hint, effort=0)
        _plan(with_offline_plan(path, solution.offset))
    except HauloutError as error:
        assert {each.code for each in error.diagnostics} <= {"bad-input", "over-capacity"}
