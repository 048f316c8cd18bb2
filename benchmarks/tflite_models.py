"""Small models of TensorFlow Lite, written as flatbuffers: for `tflite_table.py` and for tests.

A `Net` collects tensors and operators of one graph; `model` makes a file of several graphs. Weights are random.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import flatbuffers
import numpy as np
import tflite
from numpy.typing import NDArray

Options = tuple[int, Callable[[Any], int]]
"""The kind of an operator's options, and a function that writes them."""


@dataclass(slots=True)
class Net:
    """A graph. Tensors are numbers, in the order in which they were made."""

    seed: int = 0
    tensors: list[tuple[str, tuple[int, ...], int, NDArray[Any] | None, bool]] = field(default_factory=list)
    operators: list[tuple[int, list[int], list[int], Options | None]] = field(default_factory=list)
    inputs: list[int] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)

    def tensor(
        self,
        name: str,
        shape: Sequence[int],
        data: NDArray[Any] | None = None,
        *,
        kind: str = "FLOAT32",
        keeps: bool = False,
    ) -> int:
        """A new tensor; `keeps`: it has a value between runs."""
        self.tensors.append((name, tuple(shape), getattr(tflite.TensorType, kind), data, keeps))
        return len(self.tensors) - 1

    def shape(self, tensor: int) -> tuple[int, ...]:
        return self.tensors[tensor][1]

    def input(self, *shape: int, kind: str = "FLOAT32") -> int:
        self.inputs.append(self.tensor(f"input{len(self.inputs)}", shape, kind=kind))
        return self.inputs[-1]

    def apply(self, kind: str, inputs: Sequence[int], shape: Sequence[int], options: Options | None = None) -> int:
        """An operator with one result."""
        out = self.tensor(f"{kind.lower()}{len(self.operators)}", shape)
        self.operators.append((getattr(tflite.BuiltinOperator, kind), list(inputs), [out], options))
        return out

    def weights(self, *shape: int) -> int:
        rng = np.random.default_rng(self.seed + len(self.tensors))
        scale = 1 / np.sqrt(max(1, int(np.prod(shape[1:]))))
        data = (rng.standard_normal(shape) * scale).astype(np.float32)
        return self.tensor(f"weights{len(self.tensors)}", shape, data)

    def conv(self, x: int, channels: int, kernel: int = 3, stride: int = 1) -> int:
        """A convolution with equal padding, and ReLU."""
        _, tall, wide, before = self.shape(x)
        inputs = [x, self.weights(channels, kernel, kernel, before), self.weights(channels)]
        return self.apply(
            "CONV_2D", inputs, (1, -(-tall // stride), -(-wide // stride), channels), _conv_options(stride)
        )

    def pool(self, x: int, stride: int = 2) -> int:
        _, tall, wide, channels = self.shape(x)
        return self.apply(
            "MAX_POOL_2D", [x], (1, -(-tall // stride), -(-wide // stride), channels), _pool_options(stride)
        )

    def dense(self, x: int, width: int) -> int:
        inputs = [x, self.weights(width, self.shape(x)[-1]), self.weights(width)]
        return self.apply("FULLY_CONNECTED", inputs, (self.shape(x)[0], width), _dense_options())

    def relu(self, x: int) -> int:
        return self.apply("RELU", [x], self.shape(x))

    def add(self, x: int, y: int) -> int:
        return self.apply("ADD", [x, y], self.shape(x), _plain("Add"))

    def concat(self, *parts: int) -> int:
        shape = (*self.shape(parts[0])[:-1], sum(self.shape(part)[-1] for part in parts))
        return self.apply("CONCATENATION", parts, shape, _concat_options(len(shape) - 1))

    def reshape(self, x: int, *shape: int) -> int:
        to = self.tensor(f"shape{len(self.tensors)}", [len(shape)], np.array(shape, np.int32), kind="INT32")
        return self.apply("RESHAPE", [x, to], shape, _plain("Reshape"))

    def file(self) -> bytes:
        """The model of this graph alone."""
        return model(self)


def _options(name: str, **fields: int) -> Options:
    def write(builder: Any) -> int:
        getattr(tflite, f"{name}Start")(builder)
        for each, value in fields.items():
            getattr(tflite, f"{name}Add{each}")(builder, value)
        return int(getattr(tflite, f"{name}End")(builder))

    return getattr(tflite.BuiltinOptions, name), write


def _plain(kind: str) -> Options:
    return _options(f"{kind}Options")


def _conv_options(stride: int) -> Options:
    relu = tflite.ActivationFunctionType.RELU
    sides = {"StrideW": stride, "StrideH": stride, "DilationWFactor": 1, "DilationHFactor": 1}
    return _options("Conv2DOptions", Padding=tflite.Padding.SAME, FusedActivationFunction=relu, **sides)


def _pool_options(stride: int) -> Options:
    sides = {"StrideW": stride, "StrideH": stride, "FilterWidth": 3, "FilterHeight": 3}
    return _options("Pool2DOptions", Padding=tflite.Padding.SAME, **sides)


def _dense_options() -> Options:
    return _options("FullyConnectedOptions", FusedActivationFunction=tflite.ActivationFunctionType.RELU)


def _concat_options(axis: int) -> Options:
    return _options("ConcatenationOptions", Axis=axis)


def branch(then: int, other: int) -> Options:
    """The options of IF."""
    return _options("IfOptions", ThenSubgraphIndex=then, ElseSubgraphIndex=other)


def loop(cond: int, body: int) -> Options:
    """The options of WHILE."""
    return _options("WhileOptions", CondSubgraphIndex=cond, BodySubgraphIndex=body)


def model(*graphs: Net, metadata: Sequence[tuple[str, bytes]] = ()) -> bytes:
    """The bytes of a file with these graphs, and with entries of metadata."""
    builder = flatbuffers.Builder(1 << 16)
    kinds = sorted({kind for graph in graphs for kind, *_ in graph.operators})
    codes = []
    for kind in kinds:
        tflite.OperatorCodeStart(builder)
        tflite.OperatorCodeAddDeprecatedBuiltinCode(builder, min(kind, 127))
        tflite.OperatorCodeAddBuiltinCode(builder, kind)
        tflite.OperatorCodeAddVersion(builder, 1)
        codes.append(tflite.OperatorCodeEnd(builder))
    buffers = [_buffer(builder, None)]
    made = [_graph(builder, graph, kinds, buffers) for graph in graphs]
    entries = []
    for name, data in metadata:
        text = builder.CreateString(name)
        tflite.MetadataStart(builder)
        tflite.MetadataAddName(builder, text)
        tflite.MetadataAddBuffer(builder, len(buffers))
        entries.append(tflite.MetadataEnd(builder))
        buffers.append(_buffer(builder, np.frombuffer(data, np.uint8)))
    vectors = [_vector(builder, each) for each in (codes, made, buffers, entries)]
    text = builder.CreateString("made by haulout's benchmarks")
    tflite.ModelStart(builder)
    tflite.ModelAddVersion(builder, 3)
    tflite.ModelAddOperatorCodes(builder, vectors[0])
    tflite.ModelAddSubgraphs(builder, vectors[1])
    tflite.ModelAddBuffers(builder, vectors[2])
    tflite.ModelAddDescription(builder, text)
    if entries:
        tflite.ModelAddMetadata(builder, vectors[3])
    builder.Finish(tflite.ModelEnd(builder), b"TFL3")
    return bytes(builder.Output())


def _graph(builder: Any, graph: Net, kinds: list[int], buffers: list[int]) -> int:
    tensors = []
    for name, shape, kind, data, keeps in graph.tensors:
        number = 0
        if data is not None:
            number = len(buffers)
            buffers.append(_buffer(builder, data))
        text, dims = builder.CreateString(name), builder.CreateNumpyVector(np.array(shape, np.int32))
        tflite.TensorStart(builder)
        tflite.TensorAddName(builder, text)
        tflite.TensorAddShape(builder, dims)
        tflite.TensorAddType(builder, kind)
        tflite.TensorAddBuffer(builder, number)
        tflite.TensorAddIsVariable(builder, keeps)
        tensors.append(tflite.TensorEnd(builder))
    operators = []
    for kind, inputs, outputs, options in graph.operators:
        ins, outs = (builder.CreateNumpyVector(np.array(each, np.int32)) for each in (inputs, outputs))
        table = None if options is None else options[1](builder)
        tflite.OperatorStart(builder)
        tflite.OperatorAddOpcodeIndex(builder, kinds.index(kind))
        tflite.OperatorAddInputs(builder, ins)
        tflite.OperatorAddOutputs(builder, outs)
        if options is not None:
            tflite.OperatorAddBuiltinOptionsType(builder, options[0])
            tflite.OperatorAddBuiltinOptions(builder, table)
        operators.append(tflite.OperatorEnd(builder))
    vectors = [_vector(builder, each) for each in (tensors, operators)]
    ends = [builder.CreateNumpyVector(np.array(each, np.int32)) for each in (graph.inputs, graph.outputs)]
    tflite.SubGraphStart(builder)
    tflite.SubGraphAddTensors(builder, vectors[0])
    tflite.SubGraphAddInputs(builder, ends[0])
    tflite.SubGraphAddOutputs(builder, ends[1])
    tflite.SubGraphAddOperators(builder, vectors[1])
    return int(tflite.SubGraphEnd(builder))


def _buffer(builder: Any, data: NDArray[Any] | None) -> int:
    content = None
    if data is not None:
        plain = np.ascontiguousarray(data).tobytes()
        builder.StartVector(1, len(plain), 16)
        for each in reversed(plain):
            builder.PrependByte(each)
        content = builder.EndVector()
    tflite.BufferStart(builder)
    if content is not None:
        tflite.BufferAddData(builder, content)
    return int(tflite.BufferEnd(builder))


def _vector(builder: Any, places: list[int]) -> int:
    builder.StartVector(4, len(places), 4)
    for each in reversed(places):
        builder.PrependUOffsetTRelative(each)
    return int(builder.EndVector())


# -- networks --------------------------------------------------------------------------------------------------------


def inception(blocks: int = 3, side: int = 28, width: int = 8) -> Net:
    """Blocks of four branches, joined along the channels."""
    net = Net()
    x = net.conv(net.input(1, 2 * side, 2 * side, 3), 2 * width, stride=2)
    for number in range(blocks):
        w = width * (number + 1)
        x = net.concat(
            net.conv(x, w, 1),
            net.conv(net.conv(x, w, 1), 2 * w, 3),
            net.conv(net.conv(net.conv(x, w, 1), 2 * w, 3), 2 * w, 3),
            net.conv(net.pool(x, 1), w, 1),
        )
        if number % 2:
            x = net.pool(x)
    net.outputs = [x]
    return net


def wired(seed: int = 1, nodes: int = 24, side: int = 14, channels: int = 8) -> Net:
    """A randomly wired graph: each node adds two earlier ones and convolves."""
    net, drawn = Net(seed), random.Random(seed)
    made = [net.conv(net.input(1, 2 * side, 2 * side, 3), channels, stride=2)]
    used: set[int] = set()
    for _ in range(nodes):
        one, two = (drawn.choice(made[-8:]) for _ in range(2))
        used |= {one, two}
        made.append(net.conv(one if one == two else net.add(one, two), channels, drawn.choice((1, 3))))
    rest = [each for each in made if each not in used]
    net.outputs = [net.concat(*rest) if len(rest) > 1 else rest[0]]
    return net


def unet(side: int = 32, width: int = 4) -> Net:
    """Down and up again, with skips; up by reshaping channels to places."""
    net = Net()
    x = net.input(1, side, side, 1)
    skips = []
    for level in range(3):
        x = net.conv(x, width << level)
        skips.append(x)
        x = net.pool(x)
    x = net.conv(x, width << 3)
    for skip in reversed(skips):
        _, tall, wide, channels = net.shape(skip)
        x = net.conv(x, 4 * channels, 1)
        x = net.conv(net.concat(net.reshape(x, 1, tall, wide, channels), skip), channels)
    net.outputs = [x]
    return net


def layers(seed: int = 3, count: int = 24) -> Net:
    """Dense layers of unequal widths, some of which read older results too."""
    net, drawn = Net(seed), random.Random(seed)
    made = [net.input(1, 64)]
    for _ in range(count):
        x = made[-1] if drawn.random() < 0.5 else net.concat(made[-1], drawn.choice(made[-5:]))
        made.append(net.dense(x, drawn.choice((16, 40, 64, 100, 144))))
    net.outputs = [made[-1]]
    return net


def keyword(width: int = 16) -> Net:
    """A plain chain: nothing to gain."""
    net = Net()
    x = net.conv(net.input(1, 49, 10, 1), width, stride=2)
    for _ in range(4):
        x = net.conv(net.conv(x, width), width, 1)
    _, tall, wide, channels = net.shape(x)
    net.outputs = [net.dense(net.reshape(x, 1, tall * wide * channels), 12)]
    return net


def residual(width: int = 8, side: int = 24) -> Net:
    """Sums with what came before."""
    net = Net()
    x = net.conv(net.input(1, side, side, 3), width)
    for number in range(6):
        x = net.relu(net.add(x, net.conv(net.conv(x, width), width)))
        if number % 2:
            width *= 2
            x = net.conv(x, width, stride=2)
    net.outputs = [x]
    return net


def encoder(layers: int = 2, tokens: int = 32, width: int = 48) -> Net:
    """Attention with one head, and a wide layer behind it; reshaped between both."""
    net = Net()
    x = net.input(tokens, width)
    for _ in range(layers):
        q, k, v = (net.reshape(net.dense(x, width), 1, tokens, width) for _ in range(3))
        scores = net.apply("BATCH_MATMUL", [q, k], (1, tokens, tokens), _options("BatchMatMulOptions", AdjY=1))
        shares = net.apply("SOFTMAX", [scores], (1, tokens, tokens), _options("SoftmaxOptions", Beta=1))
        mixed = net.apply("BATCH_MATMUL", [shares, v], (1, tokens, width), _plain("BatchMatMul"))
        x = net.add(x, net.dense(net.reshape(mixed, tokens, width), width))
        x = net.add(x, net.dense(net.dense(x, 4 * width), width))
    net.outputs = [x]
    return net


MODELS: dict[str, Callable[[], Net]] = {
    "inception": inception,
    "wired-1": wired,
    "wired-2": lambda: wired(2),
    "wired-8": lambda: wired(8, 32),
    "unet": unet,
    "encoder": encoder,
    "layers-3": layers,
    "layers-4": lambda: layers(4),
    "layers-5": lambda: layers(5, 40),
    "keyword": keyword,
    "residual": residual,
}
