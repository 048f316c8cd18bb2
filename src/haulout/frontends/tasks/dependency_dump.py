"""Dependency dumps of Ascend runtimes (`deps.json`): tasks with slices, and the edges that the runtime made.

    tasks     task_id, args: [{idx, type, tensor_id, dtype, shape, start_offset, strides}]
    tensors   tensor_id, buffer_addr, dtype, buffer_numel
    edges     pred, succ, source, flags, tensor_id

Offsets and strides count elements. The bytes of all tensors are those of one memory, at `buffer_addr`: two tensors
that share bytes conflict. An edge orders its tasks if its flags have `wait`, or if it has none.

A task whose type is OUTPUT gets a new buffer when it is submitted, and the dump does not say which. An edge of the
source `creator` does: the task `pred` made the tensor of the edge. The task then writes all of it. What no edge says
is not known, and is a warning.
"""

from __future__ import annotations

import msgspec
import numpy as np

from haulout.frontends.tasks.common import LIMIT, Number, number, slice_shape, unproved
from haulout.ir.enums import NONE
from haulout.ir.schema import Ids
from haulout.ir.task_graph import AccessRows, TaskGraph
from haulout.support.diagnostics import Label, Span, bad_input

ELEMENT_BYTES = {
    **dict.fromkeys(["INT8", "UINT8", "BOOL", "FP8E4M3FN", "FP8E8M0", "FP4E2M1"], 1),
    **dict.fromkeys(["FLOAT16", "BFLOAT16", "INT16", "UINT16"], 2),
    **dict.fromkeys(["FLOAT32", "INT32", "UINT32"], 4),
    **dict.fromkeys(["INT64", "UINT64"], 8),
}
READS = {"INPUT": True, "INOUT": True, "OUTPUT": False, "OUTPUT_EXISTING": False}
WRITES = {"INPUT": False, "INOUT": True, "OUTPUT": True, "OUTPUT_EXISTING": True}


# Without garbage collection of structs, which are many and hold no cycles.


class Arg(msgspec.Struct, gc=False):
    """An argument of a task."""

    idx: int = -1
    type: str = ""
    tensor_id: Number | None = None
    dtype: str | None = None
    shape: list[int] | None = None
    start_offset: Number = 0
    strides: list[int] | None = None


class Task(msgspec.Struct, gc=False):
    """A task."""

    task_id: Number
    args: list[Arg] = []


class Tensor(msgspec.Struct, gc=False):
    """A tensor: a range of memory."""

    tensor_id: Number
    buffer_addr: Number
    buffer_numel: Number
    dtype: str = ""


class Edge(msgspec.Struct, gc=False):
    """An edge: `succ` waits for `pred`."""

    pred: Number
    succ: Number
    source: str = ""
    flags: list[str] | None = None
    tensor_id: Number | None = None


class Dump(msgspec.Struct, gc=False):
    """The file."""

    tasks: list[Task]
    edges: list[Edge]
    tensors: list[Tensor] = []


def from_dump(dump: Dump, file: str) -> TaskGraph:
    """The task graph of a dump. Raises `bad-input`."""
    names = [str(each.task_id) for each in dump.tasks]
    place = {number(each.task_id, "task_id", file): row for row, each in enumerate(dump.tasks)}
    if len(place) < len(names):
        bad_input("two tasks have one task_id", Label("this file", Span(file)))
    tensor_row = {number(each.tensor_id, "tensor_id", file): row for row, each in enumerate(dump.tensors)}
    if len(tensor_row) < len(dump.tensors):
        bad_input("two tensors have one tensor_id", Label("this file", Span(file)))
    address = [number(each.buffer_addr, "buffer_addr", file) for each in dump.tensors]
    lowest = min(address, default=0)
    address = [each - lowest for each in address]
    if max(address, default=0) >= LIMIT:
        bad_input("addresses of tensors are too far apart", Label("this file", Span(file)))

    graph_findings = []
    source, target, created, unknown_edges = _edges(dump, place, tensor_row, file)
    if unknown_edges:
        message = "edges name tasks that are not in the file; they order nothing"
        graph_findings.append(unproved(message, unknown_edges, file, "write the dump of the whole run"))
    rows = AccessRows()
    strange: list[str] = []
    fresh: list[tuple[int, int]] = []
    for task, each in enumerate(dump.tasks):
        for at, arg in enumerate(each.args):
            index = arg.idx if arg.idx >= 0 else at
            if arg.type == "OUTPUT" and arg.tensor_id is None:
                fresh.append((task, index))
                continue
            tensor = -1 if arg.tensor_id is None else tensor_row.get(number(arg.tensor_id, "tensor_id", file), -1)
            size = ELEMENT_BYTES.get(arg.dtype or "")
            if tensor < 0 or size is None or arg.type not in READS or arg.shape is None:
                strange.append(f"argument {index} of task {names[task]}")
                continue
            if 0 in arg.shape:
                continue  # an empty slice
            shape = slice_shape(arg.shape, _dense(arg.shape) if arg.strides is None else arg.strides, size)
            offset = number(arg.start_offset, "start_offset", file) * size
            if shape is None or not 0 <= offset < LIMIT:
                strange.append(f"argument {index} of task {names[task]}")
                continue
            for write, has in ((False, READS[arg.type]), (True, WRITES[arg.type])):
                if has:
                    rows.add(task, f"argument {index}", tensor, write, 0, address[tensor] + offset, shape)
    if strange:
        message = "arguments of a form that is not known: their bytes are not known, and they are not checked"
        graph_findings.append(unproved(message, strange, file, "give type, tensor_id, dtype, shape and strides"))
    missing = _made(dump, rows, fresh, created, address, names, file)
    if missing:
        message = "tasks write new tensors, and no edge of source `creator` says which"
        graph_findings.append(unproved(message, missing, file, "give these arguments their tensor_id and shape"))
    arcs = _distinct_arcs(source, target, len(names))
    return TaskGraph(
        name=file,
        form="dependency dump",
        tasks=names,
        events=[],
        needed=np.zeros(0, np.int64),
        ends=np.zeros(0, bool),
        remote=np.zeros(0, bool),
        source=arcs[0],
        target=arcs[1],
        accesses=rows.columns(),
        labels=list(rows.labels),
        tensors=[f"tensor {each.tensor_id}" for each in dump.tensors],
        base=np.array(address, np.int64),
        shapes=list(rows.shapes),
        findings=graph_findings,
    )


def _edges(
    dump: Dump, place: dict[int, int], tensor_row: dict[int, int], file: str
) -> tuple[Ids, Ids, dict[int, dict[int, None]], list[str]]:
    """The edges that order tasks, the tensors that each task created, and the edges with unknown tasks."""
    by_text: dict[Number, int] = {}
    for key, row in place.items():
        by_text[key] = by_text[str(key)] = row
    pred = [by_text.get(edge.pred, NONE) for edge in dump.edges]
    succ = [by_text.get(edge.succ, NONE) for edge in dump.edges]
    unknown: list[str] = []
    for at in np.flatnonzero((np.array(pred, np.int32) < 0) | (np.array(succ, np.int32) < 0)).tolist():
        edge = dump.edges[at]
        # A number may be written in another way, such as with zeros in front.
        pred[at] = place.get(number(edge.pred, "pred", file), NONE)
        succ[at] = place.get(number(edge.succ, "succ", file), NONE)
        if pred[at] < 0 or succ[at] < 0:
            unknown.append(f"{edge.pred} -> {edge.succ}")
    source, target = np.array(pred, np.int32), np.array(succ, np.int32)
    created: dict[int, dict[int, None]] = {}
    for at, edge in enumerate(dump.edges):
        if edge.source == "creator" and edge.tensor_id is not None and pred[at] >= 0:
            tensor = tensor_row.get(number(edge.tensor_id, "tensor_id", file), NONE)
            if tensor >= 0:
                created.setdefault(pred[at], {})[tensor] = None
    orders = np.array([edge.flags is None or "wait" in edge.flags for edge in dump.edges], bool)
    orders &= (source >= 0) & (target >= 0)
    return source[orders], target[orders], created, unknown


def _made(
    dump: Dump,
    rows: AccessRows,
    fresh: list[tuple[int, int]],
    created: dict[int, dict[int, None]],
    address: list[int],
    names: list[str],
    file: str,
) -> list[str]:
    """Add the writes of tensors that tasks create; return the arguments whose tensors remain unknown."""
    left: dict[int, list[int]] = {}
    for task, index in fresh:
        left.setdefault(task, []).append(index)
    missing = []
    for task, made in created.items():
        for tensor in made:
            size = ELEMENT_BYTES.get(dump.tensors[tensor].dtype)
            count = number(dump.tensors[tensor].buffer_numel, "buffer_numel", file)
            shape = None if size is None or count <= 0 else slice_shape([count], [1], size)
            if shape is None:
                missing.append(f"tensor {dump.tensors[tensor].tensor_id} of task {names[task]}")
            else:
                rows.add(task, "a new tensor", tensor, True, 0, address[tensor], shape)
    for task, indices in left.items():
        # Which argument is which tensor is not known, and does not matter when all of them are known.
        known = len(created.get(task, ()))
        if known < len(indices):
            missing += [f"argument {index} of task {names[task]}" for index in indices]
    return missing


def _dense(shape: list[int]) -> list[int]:
    """The strides of a tensor of this shape without gaps."""
    strides = [1] * len(shape)
    for at in range(len(shape) - 2, -1, -1):
        strides[at] = strides[at + 1] * shape[at + 1]
    return strides


def _distinct_arcs(source: Ids, target: Ids, size: int) -> tuple[Ids, Ids]:
    """Arcs without repetitions: one edge may stand once for each argument."""
    keys = np.sort(source.astype(np.int64) * max(size, 1) + target)
    keys = keys[np.append(True, keys[1:] != keys[:-1])[: len(keys)]]
    return (keys // max(size, 1)).astype(np.int32), (keys % max(size, 1)).astype(np.int32)
