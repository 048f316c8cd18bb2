"""The tensors of an ONNX model as buffers; needs the package `onnx` (extra `onnx`).

    time       one moment a node, in the order of the graph, which is topological
    buffers    what nodes produce, from that node to the last one that reads it; inputs from the start, outputs to the
               end; weights (initializers) are no buffers
    views      outputs of Reshape, Flatten, Squeeze, Unsqueeze and Identity are aliases of their input
    in place   (input, output) of element-wise nodes, if both have as many bytes
    subgraphs  all that a node's subgraphs read is read by the node; the tensors inside are buffers of its moment

Sizes come from the model's shapes, completed by the shape inference of `onnx`. A dimension without a number is
refused, with the tensor's name.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from haulout.packing.csvio import Table
from haulout.packing.greedy import greedy_by_size
from haulout.packing.problem import Problem
from haulout.packing.rules import Rules
from haulout.support.diagnostics import Label, Span, bad_input, error_text
from haulout.support.files import read_bytes

ALIGNMENT = 64
_VIEWS = {"Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity"}
_ELEMENTWISE = {
    *("Abs", "Add", "Ceil", "Clip", "Cos", "Div", "Elu", "Erf", "Exp", "Floor", "Gelu", "HardSigmoid", "HardSwish"),
    *("LeakyRelu", "Log", "Mul", "Neg", "PRelu", "Pow", "Reciprocal", "Relu", "Round", "Sigmoid", "Sin", "Softplus"),
    *("Sqrt", "Sub", "Tanh"),
}


def read_onnx(path: str | Path) -> Table:
    """The buffers of a model. Raises `HauloutError` (`bad-input`)."""
    try:
        import onnx
    except ImportError:
        bad_input("reading ONNX models needs the package onnx: pip install 'haulout[onnx]'")
    label = Label("this file", Span(str(path)))
    data = read_bytes(Path(path))
    try:
        model: Any = onnx.load_model_from_string(data)
        model = onnx.shape_inference.infer_shapes(model)
    except Exception as error:  # of protobuf, the file system, or the checker of onnx
        bad_input(f"{path} is not an ONNX model: {error_text(error)}", label)
    graph = model.graph
    constant = {each.name for each in graph.initializer} | {each.values.name for each in graph.sparse_initializer}
    size: dict[str, int] = {}
    unknown: set[str] = set()
    _sizes(onnx, graph, size, unknown)
    end = len(graph.node)
    birth: dict[str, int] = {each.name: 0 for each in graph.input if each.name not in constant}
    death: dict[str, int] = {}
    alias: dict[str, str] = {}
    pairs: list[tuple[str, str]] = []
    inner: list[tuple[str, int]] = []
    for moment, node in enumerate(graph.node):
        reads = [name for name in node.input if name]
        for each in node.attribute:
            for body in [each.g, *each.graphs]:
                if body.node:
                    _subgraph(onnx, body, moment, reads, inner, size, unknown)
        for name in reads:
            if name in birth:
                death[name] = moment + 1
        made = [name for name in node.output if name]
        if node.op_type == "Constant" or (
            reads and all(name in constant for name in reads) and node.op_type in _VIEWS
        ):
            constant |= {*made}
            continue
        for name in made:
            birth.setdefault(name, moment)
            death[name] = max(death.get(name, 0), moment + 1)
        standard = node.domain in ("", "ai.onnx") and made and reads and reads[0] in birth
        if standard and node.op_type in _VIEWS:
            alias[made[0]] = reads[0]
        elif standard and node.op_type in _ELEMENTWISE:
            pairs += [(name, made[0]) for name in dict.fromkeys(reads) if name in birth]
    for each in graph.output:
        if each.name in birth:
            death[each.name] = end + 1
    for name in birth:
        if name in unknown or name not in size:
            bad_input(f"the shape of tensor `{name}` is not known: give all dimensions a number", label)
    names = [*birth, *(name for name, _ in inner)]
    row = {name: k for k, name in enumerate(birth)}
    groups: dict[int, list[int]] = {}
    for name, k in row.items():
        root = name
        while root in alias:
            root = alias[root]
        groups.setdefault(row[root], []).append(k)
    problem = Problem.of(
        [*birth.values(), *(moment for _, moment in inner)],
        [*(max(death.get(name, 0), at + 1) for name, at in birth.items()), *(moment + 1 for _, moment in inner)],
        [size[name] for name in names],
        ALIGNMENT,
        rules=Rules(
            aliases=tuple(tuple(group) for group in groups.values() if len(group) > 1),
            in_place=tuple((row[one], row[two]) for one, two in pairs if size[one] == size[two]),
        ),
    )
    return Table(problem, tuple(names), own_planner=("greedy by size, first fit", greedy_by_size(problem)))


def _sizes(onnx: Any, graph: Any, size: dict[str, int], unknown: set[str]) -> None:
    """Bytes of the tensors of a graph; those without a full shape are unknown."""
    for each in [*graph.input, *graph.output, *graph.value_info]:
        kind = each.type.tensor_type
        if not kind.HasField("shape") or not all(dim.HasField("dim_value") for dim in kind.shape.dim):
            unknown.add(each.name)
            continue
        count = 1
        for dim in kind.shape.dim:
            count *= dim.dim_value
        try:
            width = onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type).itemsize
        except (KeyError, ValueError, TypeError):
            unknown.add(each.name)
            continue
        size[each.name] = count * width


def _subgraph(
    onnx: Any,
    body: Any,
    moment: int,
    reads: list[str],
    inner: list[tuple[str, int]],
    size: dict[str, int],
    unknown: set[str],
) -> None:
    """What a subgraph reads, and its own tensors, which live at the moment of its node."""
    own: dict[str, int] = {}
    missing: set[str] = set()
    _sizes(onnx, body, own, missing)
    fixed = {each.name for each in body.initializer}

    def keep(name: str) -> None:
        if name not in own:
            bad_input(f"the shape of tensor `{name}` in a subgraph is not known")
        inner.append((f"{name} in node {moment}", moment))
        size[f"{name} in node {moment}"] = own[name]

    for each in body.input:  # the state of a loop
        keep(each.name)
    for node in body.node:
        reads += [name for name in node.input if name]
        for name in node.output:
            if name and node.op_type != "Constant":
                keep(name)
        for each in node.attribute:
            for part in [each.g, *each.graphs]:
                if part.node:
                    _subgraph(onnx, part, moment, reads, inner, size, unknown)
    reads += [each.name for each in body.output if each.name not in own and each.name not in fixed]
