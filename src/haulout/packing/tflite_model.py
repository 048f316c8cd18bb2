"""The tensors of a TensorFlow Lite model as buffers, as its micro interpreter sees them. Extra: `tflite`.

    time       one moment for the start of a graph, one an operator, in the order of the file; the graphs that an
               operator runs (IF, WHILE, CALL_ONCE) have their moments between those of this operator and the next
    buffers    tensors that have no data in the file and keep none between runs; live from the operator that writes
               them to the last one that reads them, inputs from the start of their graph, outputs to its end
    views      the output of RESHAPE is an alias of its input: the kernel copies nothing if both are in one place
    in place   on request, (input, output) of element-wise operators, if all inputs have as many bytes as the output:
               the format has no mark for it, and the kernels of a port need not allow it
    alignment  16 bytes, as in the interpreter's arena

`hint` is the interpreter's own placement: the largest tensor first, among equal ones the last of the file, each in
the first gap (`micro_greedy`). `with_offline_plan` writes offsets into the metadata `OfflineMemoryAllocation`, one
int32 a tensor of all graphs, -1 for those that are no buffers. The interpreter takes them as they are, and places the
scratch memory of its kernels, which the file does not tell, around them.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from haulout.packing.best_fit import best_fit
from haulout.packing.csvio import TFLITE_IDENTIFIER, Table
from haulout.packing.instance import canonical
from haulout.packing.problem import I64, Problem
from haulout.packing.rules import Rules
from haulout.support.diagnostics import HauloutError, Label, Span, bad_input, error_text
from haulout.support.files import read_bytes

ALIGNMENT = 16
PLAN_NAME = b"OfflineMemoryAllocation"
_PLAN_VERSION = 1
_BYTES = {
    **dict.fromkeys(("UINT8", "BOOL", "INT8", "INT4"), 1),
    **dict.fromkeys(("FLOAT16", "INT16", "UINT16", "BFLOAT16"), 2),
    **dict.fromkeys(("FLOAT32", "INT32", "UINT32", "RESOURCE"), 4),
    **dict.fromkeys(("INT64", "COMPLEX64", "FLOAT64", "UINT64"), 8),
    "COMPLEX128": 16,
}
"""Of one element in the interpreter's arena; INT4 is unpacked there."""
_BODIES = {
    "IF": ("IfOptions", ("ThenSubgraphIndex", "ElseSubgraphIndex")),
    "WHILE": ("WhileOptions", ("CondSubgraphIndex", "BodySubgraphIndex")),
    "CALL_ONCE": ("CallOnceOptions", ("InitSubgraphIndex",)),
}
"""Operators that run graphs: the table of their options, and its fields, in the order of execution."""
_ELEMENTWISE = {
    *("ABS", "ADD", "CEIL", "COS", "DIV", "ELU", "EXP", "FLOOR", "HARD_SWISH", "LEAKY_RELU", "LOG", "LOGISTIC"),
    *("MAXIMUM", "MINIMUM", "MUL", "NEG", "RELU", "RELU6", "ROUND", "RSQRT", "SIN", "SQRT", "SQUARE"),
    *("SQUARED_DIFFERENCE", "SUB", "TANH"),
}
_REFUSED = {"CALL", "STABLEHLO_WHILE", "STABLEHLO_REDUCE", "STABLEHLO_SORT", "STABLEHLO_COMPOSITE"}
"""Operators with graphs that the micro interpreter does not run."""
MAX_MOMENTS = 1_000_000
"""Graphs that run graphs several times may have many more moments than operators."""
_MAX_FIELDS = 8
"""Of a model, in the version of the schema that is known here."""


def read_tflite(path: str | Path, *, in_place: bool = False) -> Table:
    """The buffers of a model, the interpreter's own placement as hint. Raises `HauloutError` (`bad-input`).

    `in_place`: element-wise operators may write over an input that nothing reads later.
    """
    model = _Reader(str(path), _data(path)).read()
    table = model.table(in_place)
    hint, peak = micro_greedy(table.problem)
    return replace(table, hint=hint, own_planner=("the micro interpreter's planner", peak))


def micro_greedy(problem: Problem) -> tuple[I64, int]:
    """Offsets and peak of the micro interpreter's planner, which knows no aliases."""
    instance = canonical(replace(problem, rules=Rules()))
    offset, peak = best_fit(instance, np.lexsort((-instance.buffer, -instance.size)), tight=False)
    return instance.offsets(offset, len(problem)), peak * instance.unit


def with_offline_plan(path: str | Path, offset: I64) -> bytes:
    """The model with the offsets of its buffers, the rows of `read_tflite`, as its offline plan.

    The bytes of the model are kept as they are; a new root with the plan precedes them. An older plan is dropped.
    Raises `bad-input` if an offset exceeds an int32, or the file keeps data outside its tables.
    """
    data = _data(path)
    model = _Reader(str(path), data).read()
    if int(offset.max(initial=0)) >= 2**31:
        bad_input(f"the offset {int(offset.max())} is no int32, as the plan of a model needs")
    plan = np.full(len(model.tensors), -1, np.int64)
    plan[model.rows()] = offset
    words = [_PLAN_VERSION, model.graphs, len(plan), *plan.tolist()]
    return _Writer(str(path), data).written(struct.pack(f"<{len(words)}i", *words))


def _data(path: str | Path) -> bytes:
    data = read_bytes(Path(path))
    if data[4:8] != TFLITE_IDENTIFIER:
        bad_input(f"{path} is not a TensorFlow Lite model", Label("this file", Span(str(path))))
    return data


def _package() -> Any:
    try:
        import tflite
    except ImportError:
        bad_input("reading TensorFlow Lite models needs the package tflite: pip install 'haulout[tflite]'")
    return tflite


@dataclass(slots=True)
class _Tensor:
    """`needed`: whether the interpreter gives it a place in the arena; `first`, `last`: moments, -1 if never used."""

    name: str
    size: int
    needed: bool
    first: int = -1
    last: int = -1


@dataclass(slots=True)
class _Model:
    """`tensors` of all graphs in the order of the file, pairs that are one storage, pairs that may be."""

    graphs: int = 0
    tensors: list[_Tensor] = field(default_factory=list)
    views: list[tuple[int, int]] = field(default_factory=list)
    elementwise: list[tuple[int, int]] = field(default_factory=list)

    def rows(self) -> I64:
        """The tensors that are buffers."""
        return np.array([k for k, each in enumerate(self.tensors) if each.needed], np.int64)

    def table(self, in_place: bool) -> Table:
        rows = self.rows().tolist()
        row_of = {tensor: row for row, tensor in enumerate(rows)}
        chosen = [self.tensors[tensor] for tensor in rows]
        leader = list(range(len(rows)))
        for one, two in self.views:  # in the order of the file: the input has its leader already
            if one in row_of and two in row_of and chosen[row_of[one]].size == chosen[row_of[two]].size:
                leader[row_of[two]] = leader[row_of[one]]
        groups: dict[int, list[int]] = {}
        for row, least in enumerate(leader):
            groups.setdefault(least, []).append(row)
        pairs = [pair for pair in self.elementwise if in_place and row_of.keys() >= {*pair}]
        problem = Problem.of(
            [each.first for each in chosen],
            [each.last + 1 for each in chosen],
            [each.size for each in chosen],
            ALIGNMENT,
            rules=Rules(
                aliases=tuple(tuple(group) for group in groups.values() if len(group) > 1),
                in_place=tuple((row_of[one], row_of[two]) for one, two in pairs),
            ),
        )
        return Table(problem, tuple(_distinct([each.name for each in chosen])))


def _distinct(names: list[str]) -> Iterator[str]:
    """The names; one that came before gets a number."""
    seen: set[str] = set()
    for number, name in enumerate(names):
        name = name if name and name not in seen else f"{name or 'tensor'}#{number}"
        seen.add(name)
        yield name


class _Reader:
    """Reads one model. `moment` counts as the interpreter does."""

    def __init__(self, path: str, data: bytes) -> None:
        self.path = path
        self.label = Label("this file", Span(path))
        self.schema = _package()
        self.root = self.schema.Model.GetRootAs(data, 0)
        self.size_of = {getattr(self.schema.TensorType, name): size for name, size in _BYTES.items()}
        self.name_of = {
            number: name for name, number in vars(self.schema.BuiltinOperator).items() if isinstance(number, int)
        }
        self.model = _Model()
        self.start: list[int] = []
        self.moment = 0
        self.running: list[int] = []

    def read(self) -> _Model:
        try:
            self.model.graphs = self.root.SubgraphsLength()
            for number in range(self.model.graphs):
                self.start.append(len(self.model.tensors))
                self._tensors(number)
            if not self.model.graphs:
                bad_input(f"{self.path} has no graph", self.label)
            self._graph(0)
        except HauloutError:
            raise
        except Exception as error:  # of flatbuffers and struct: offsets that lead nowhere
            bad_input(f"{self.path} is not a whole TensorFlow Lite model: {error_text(error)}", self.label)
        return self.model

    def _tensors(self, number: int) -> None:
        graph = self.root.Subgraphs(number)
        for at in range(graph.TensorsLength()):
            tensor = graph.Tensors(at)
            name = (tensor.Name() or b"").decode("utf-8", "replace")
            count = 1
            for dim in range(tensor.ShapeLength()):
                if tensor.Shape(dim) < 0:
                    bad_input(
                        f"tensor `{name}` has a dimension without a size: give the model fixed shapes", self.label
                    )
                count *= tensor.Shape(dim)
            buffer = self.root.Buffers(tensor.Buffer())
            constant = buffer.DataLength() > 0 or buffer.Size() > 0
            needed = not constant and not tensor.IsVariable() and count > 0
            if needed and tensor.Type() not in self.size_of:
                bad_input(f"tensor `{name}` has elements of no fixed size (type {tensor.Type()})", self.label)
            size = count * self.size_of.get(tensor.Type(), 0)
            if needed and size >= 2**31:
                bad_input(f"tensor `{name}` has {size} bytes: an arena ends at 2 GiB", self.label)
            self.model.tensors.append(_Tensor(name if not number else f"{number}.{name}", size, needed))

    def _graph(self, number: int) -> None:
        """Lifetimes of the tensors of a graph, and of the graphs that its operators run."""
        if not 0 <= number < self.model.graphs or number in self.running:
            bad_input(f"an operator runs graph {number}, which does not exist or is being run", self.label)
        self.running.append(number)
        graph = self.root.Subgraphs(number)
        for at in range(graph.InputsLength()):
            self._use(number, graph.Inputs(at))
        for at in range(graph.OperatorsLength()):
            self.moment += 1
            if self.moment > MAX_MOMENTS:
                bad_input(f"the graphs run more than {MAX_MOMENTS} operators in all", self.label)
            operator = graph.Operators(at)
            inputs = [operator.Inputs(k) for k in range(operator.InputsLength()) if operator.Inputs(k) >= 0]
            outputs = [operator.Outputs(k) for k in range(operator.OutputsLength()) if operator.Outputs(k) >= 0]
            for tensor in outputs:
                self._use(number, tensor)
            kind = self._kind(operator)
            for body in self._bodies(operator, kind):
                self.moment += 1
                self._graph(body)
            for tensor in [*inputs, *outputs]:
                self._use(number, tensor, born=tensor in outputs)
            if kind == "RESHAPE" and inputs and outputs:
                self.model.views.append((self.start[number] + inputs[0], self.start[number] + outputs[0]))
            if kind in _ELEMENTWISE and outputs:
                places = [self.start[number] + each for each in (*inputs, outputs[0])]
                if len({self.model.tensors[each].size for each in places}) == 1:
                    self.model.elementwise += [(each, places[-1]) for each in dict.fromkeys(places[:-1])]
        for at in range(graph.OutputsLength()):
            self._use(number, graph.Outputs(at))
        self.running.pop()

    def _use(self, graph: int, tensor: int, *, born: bool = True) -> None:
        end = self.start[graph + 1] if graph + 1 < len(self.start) else len(self.model.tensors)
        if not self.start[graph] <= self.start[graph] + tensor < end:
            bad_input(f"graph {graph} has no tensor {tensor}", self.label)
        found = self.model.tensors[self.start[graph] + tensor]
        if found.first < 0:
            if not born and found.needed:
                bad_input(f"tensor `{found.name}` is read before it is written", self.label)
            found.first = self.moment
        found.last = self.moment

    def _kind(self, operator: Any) -> str:
        code = self.root.OperatorCodes(operator.OpcodeIndex())
        return str(self.name_of.get(max(code.BuiltinCode(), code.DeprecatedBuiltinCode()), ""))

    def _bodies(self, operator: Any, kind: str) -> list[int]:
        if kind in _REFUSED:
            bad_input(f"operator {kind} runs a graph, which the micro interpreter does not", self.label)
        if kind not in _BODIES:
            return []
        name, fields = _BODIES[kind]
        options, found = getattr(self.schema, name)(), operator.BuiltinOptions()
        options.Init(found.Bytes, found.Pos)
        return [getattr(options, each)() for each in fields]


class _Writer:
    """Writes a new root before the bytes of a model: references in this format lead forward only.

    [ identifier, root, its vectors, the plan ][ the old file, its old root unused ]
    """

    def __init__(self, path: str, data: bytes) -> None:
        import flatbuffers

        self.path = path
        self.schema = _package()
        self.root = self.schema.Model.GetRootAs(data, 0)
        self.builder = flatbuffers.Builder(len(data) + 4096)
        self.data = data + bytes(-len(data) % ALIGNMENT)

    def written(self, plan: bytes) -> bytes:
        """The file with a plan."""
        root, builder, schema = self.root, self.builder, self.schema
        buffers = [root.Buffers(k) for k in range(root.BuffersLength())]
        if any(each.Offset() > 1 or each.Size() for each in buffers):
            bad_input(f"{self.path} keeps data outside its tables, which moves with a plan", Label("this file"))
        fields = self._fields()
        builder.Prep(ALIGNMENT, 0)
        builder.CreateByteVector(self.data)  # all old positions count from the end of the file
        plan_data = self._bytes(plan)
        schema.BufferStart(builder)
        schema.BufferAddData(builder, plan_data)
        own = schema.BufferEnd(builder)
        name = builder.CreateString(PLAN_NAME)
        schema.MetadataStart(builder)
        schema.MetadataAddName(builder, name)
        schema.MetadataAddBuffer(builder, len(buffers))
        entry = schema.MetadataEnd(builder)
        metadata = [root.Metadata(k) for k in range(root.MetadataLength())]
        kept = [self._place(each._tab.Pos) for each in metadata if each.Name() != PLAN_NAME]
        all_buffers = self._vector([*(self._place(each._tab.Pos) for each in buffers), own])
        all_metadata = self._vector([*kept, entry])
        schema.ModelStart(builder)
        schema.ModelAddVersion(builder, root.Version())
        for add, position in fields:
            add(builder, self._place(position))
        schema.ModelAddBuffers(builder, all_buffers)
        schema.ModelAddMetadata(builder, all_metadata)
        builder.Finish(schema.ModelEnd(builder), file_identifier=TFLITE_IDENTIFIER)
        return bytes(builder.Output())

    def _fields(self) -> list[tuple[Any, int]]:
        """The fields of the old root that the new one shares: the function that adds each, and its position."""
        table, schema = self.root._tab, self.schema
        if table.Offset(4 + 2 * _MAX_FIELDS):
            bad_input(f"{self.path} is of a newer version of the format", Label("this file"))
        shared = {
            6: schema.ModelAddOperatorCodes,
            8: schema.ModelAddSubgraphs,
            10: schema.ModelAddDescription,
            14: schema.ModelAddMetadataBuffer,
            18: schema.ModelAddSignatureDefs,
        }
        found = [(add, table.Offset(slot)) for slot, add in shared.items()]
        return [(add, table.Indirect(table.Pos + offset)) for add, offset in found if offset]

    def _place(self, position: int) -> int:
        """The builder's name of a position in the old file: bytes before the end."""
        return len(self.data) - position

    def _bytes(self, content: bytes) -> int:
        self.builder.StartVector(1, len(content), ALIGNMENT)
        for each in reversed(content):
            self.builder.PrependByte(each)
        return int(self.builder.EndVector())

    def _vector(self, places: list[int]) -> int:
        self.builder.StartVector(4, len(places), 4)
        for each in reversed(places):
            self.builder.PrependUOffsetTRelative(each)
        return int(self.builder.EndVector())
