"""HLO of a Llama training step, as XLA's SPMD partitioner leaves it: of any number of layers, so of any length.

Tensor and sequence parallel: activations between blocks are cut by tokens; an all-gather goes before each block, a
reduce-scatter behind it. The weights of all layers are one array, for some with the layer as second dimension, so the
slice of a layer is strided, as in scanned layers that were unrolled. Each microbatch runs forward and backward;
gradients are added into stacked arrays with `dynamic-update-slice`; Adam updates weights that are donated.

The default sizes are those of Llama 3 8B on eight cores: about 1,250 lines a layer with four microbatches.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Llama:
    """Sizes of a model and of its step."""

    layers: int = 32
    cores: int = 8
    microbatches: int = 4
    tokens: int = 1024
    hidden: int = 4096
    inner: int = 14336
    heads: int = 32
    head: int = 128
    vocabulary: int = 128256


def llama_step(sizes: Llama) -> str:
    """The HLO text of a step on `sizes.cores` partitions."""
    return _Step(sizes).text()


@dataclass(frozen=True, slots=True)
class _Value:
    name: str
    dims: tuple[int, ...]


@dataclass(slots=True)
class _Saved:
    """What the backward pass of a layer reads."""

    x: _Value
    scale: _Value
    normal: _Value
    query: _Value
    key: _Value
    value: _Value
    share: _Value
    attended: _Value
    middle: _Value
    scale_2: _Value
    normal_2: _Value
    gate: _Value
    sigmoid: _Value
    up: _Value
    product: _Value


@dataclass(slots=True)
class _Step:
    sizes: Llama
    lines: list[str] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    channels: int = 0
    scope: str = "step"
    weights: dict[str, _Value] = field(default_factory=dict)
    gradients: dict[str, _Value] = field(default_factory=dict)
    place: dict[str, int] = field(default_factory=dict)
    """Weight -> the dimension of its layers."""

    # -- instructions --------------------------------------------------------------------------------------------

    def emit(
        self, opcode: str, dims: tuple[int, ...], *operands: _Value, more: str = "", dtype: str = "f32"
    ) -> _Value:
        number = self.counts[opcode] = self.counts.get(opcode, 0) + 1
        name, listed = f"{opcode}.{number}", ", ".join(f"%{each.name}" for each in operands)
        layout = "{" + ",".join(map(str, range(len(dims) - 1, -1, -1))) + "}" if dims else ""
        self.lines.append(
            f"  %{name} = {dtype}[{','.join(map(str, dims))}]{layout} {opcode}({listed}){more}, "
            f'metadata={{op_name="jit(step)/{self.scope}/{opcode}" source_file="llama.py" source_line={len(opcode)}}}'
        )
        return _Value(name, dims)

    def constant(self, value: str, dtype: str = "f32") -> _Value:
        number = self.counts["constant"] = self.counts.get("constant", 0) + 1
        self.lines.append(f"  %constant.{number} = {dtype}[] constant({value})")
        return _Value(f"constant.{number}", ())

    def spread(self, value: _Value, dims: tuple[int, ...], *at: int) -> _Value:
        return self.emit("broadcast", dims, value, more=f", dimensions={{{','.join(map(str, at))}}}")

    def full(self, value: str, dims: tuple[int, ...]) -> _Value:
        return self.spread(self.constant(value), dims)

    def same(self, opcode: str, *operands: _Value) -> _Value:
        return self.emit(opcode, operands[0].dims, *operands)

    def sum(self, value: _Value, dim: int, combine: str = "add") -> _Value:
        start = self.constant("0" if combine == "add" else "-inf")
        dims = tuple(extent for at, extent in enumerate(value.dims) if at != dim)
        return self.emit("reduce", dims, value, start, more=f", dimensions={{{dim}}}, to_apply=%{combine}")

    def dot(self, a: _Value, b: _Value, left: int = 1, right: int = 0) -> _Value:
        more = f", lhs_contracting_dims={{{left}}}, rhs_contracting_dims={{{right}}}"
        return self.emit("dot", (a.dims[1 - left], b.dims[1 - right]), a, b, more=more)

    def cut(self, value: _Value, *ranges: tuple[int, int]) -> _Value:
        text = ", ".join(f"[{begin}:{end}]" for begin, end in ranges)
        return self.emit("slice", tuple(end - begin for begin, end in ranges), value, more=f", slice={{{text}}}")

    def collective(self, opcode: str, dims: tuple[int, ...], value: _Value, more: str) -> _Value:
        self.channels += 1
        cores = ",".join(map(str, range(self.sizes.cores)))
        common = f", channel_id={self.channels}, replica_groups={{{{{cores}}}}}, use_global_device_ids=true"
        return self.emit(opcode, dims, value, more=common + more)

    def gathered(self, value: _Value) -> _Value:
        dims = value.dims[0] * self.sizes.cores, *value.dims[1:]
        return self.collective("all-gather", dims, value, ", dimensions={0}")

    def scattered(self, value: _Value) -> _Value:
        dims = value.dims[0] // self.sizes.cores, *value.dims[1:]
        return self.collective("reduce-scatter", dims, value, ", dimensions={0}, to_apply=%add")

    def reduced(self, value: _Value) -> _Value:
        return self.collective("all-reduce", value.dims, value, ", to_apply=%add")

    # -- weights and gradients -----------------------------------------------------------------------------------

    def shapes(self) -> dict[str, tuple[int, tuple[int, ...]]]:
        """Weight -> the dimension of its layers, and its extents on a core without it."""
        s = self.sizes
        wide, narrow, inner = s.heads * s.head // s.cores, s.head, s.inner // s.cores
        return {
            "wq": (1, (s.hidden, wide)),
            "wk": (1, (s.hidden, narrow)),
            "wv": (1, (s.hidden, narrow)),
            "wo": (0, (wide, s.hidden)),
            "w_gate": (1, (s.hidden, inner)),
            "w_up": (1, (s.hidden, inner)),
            "w_down": (0, (inner, s.hidden)),
            "norm": (0, (s.hidden,)),
            "norm_2": (0, (s.hidden,)),
        }

    def of_layer(self, stacked: _Value, at: int, layer: int) -> _Value:
        ranges = [(0, extent) for extent in stacked.dims]
        ranges[at] = (layer, layer + 1)
        part = self.cut(stacked, *ranges)
        return self.emit("reshape", tuple(extent for dim, extent in enumerate(stacked.dims) if dim != at), part)

    def weight(self, name: str, layer: int) -> _Value:
        return self.of_layer(self.weights[name], self.place[name], layer)

    def add_gradient(self, name: str, layer: int, value: _Value) -> None:
        at, stacked = self.place[name], self.gradients[name]
        total = self.same("add", self.of_layer(stacked, at, layer), value)
        dims = [*value.dims]
        dims.insert(at, 1)
        part = self.emit("reshape", tuple(dims), total)
        zero, number = self.constant("0", "s32"), self.constant(str(layer), "s32")
        starts = [number if dim == at else zero for dim in range(len(dims))]
        self.gradients[name] = self.emit("dynamic-update-slice", stacked.dims, stacked, part, *starts)

    # -- a layer -------------------------------------------------------------------------------------------------

    def norm(self, x: _Value, weight: _Value) -> tuple[_Value, _Value, _Value]:
        """The result, 1 / root mean square by row, and the rows that it normalised."""
        total = self.sum(self.same("multiply", x, x), 1)
        mean = self.same("multiply", total, self.full(f"{1 / x.dims[1]:g}", total.dims))
        scale = self.same("rsqrt", self.same("add", mean, self.full("1e-05", total.dims)))
        normal = self.same("multiply", x, self.spread(scale, x.dims, 0))
        return self.same("multiply", normal, self.spread(weight, x.dims, 1)), scale, normal

    def norm_back(
        self, name: str, layer: int, weight: _Value, scale: _Value, normal: _Value, change: _Value
    ) -> _Value:
        self.add_gradient(name, layer, self.reduced(self.sum(self.same("multiply", change, normal), 0)))
        inside = self.same("multiply", change, self.spread(weight, change.dims, 1))
        along = self.sum(self.same("multiply", inside, normal), 1)
        mean = self.same("multiply", along, self.full(f"{1 / change.dims[1]:g}", along.dims))
        back = self.same("multiply", normal, self.spread(mean, change.dims, 0))
        return self.same("multiply", self.same("subtract", inside, back), self.spread(scale, change.dims, 0))

    def split(self, x: _Value, heads: int) -> _Value:
        """[tokens, heads * head] as [heads, tokens, head]."""
        parts = self.emit("reshape", (x.dims[0], heads, x.dims[1] // heads), x)
        return self.emit("transpose", (heads, x.dims[0], x.dims[1] // heads), parts, more=", dimensions={1,0,2}")

    def merged(self, x: _Value) -> _Value:
        """The opposite."""
        heads, tokens, head = x.dims
        parts = self.emit("transpose", (tokens, heads, head), x, more=", dimensions={1,0,2}")
        return self.emit("reshape", (tokens, heads * head), parts)

    def batched(self, a: _Value, b: _Value, left: int, right: int) -> _Value:
        """A product of each head."""
        more = f", lhs_batch_dims={{0}}, lhs_contracting_dims={{{left}}}, rhs_batch_dims={{0}}"
        dims = a.dims[0], a.dims[3 - left], b.dims[3 - right]
        return self.emit("dot", dims, a, b, more=f"{more}, rhs_contracting_dims={{{right}}}")

    def turned(self, x: _Value, cosine: _Value, sine: _Value, *, back: bool = False) -> _Value:
        """Rotary embedding of [heads, tokens, head]."""
        heads, tokens, head = x.dims
        cosine, sine = (self.spread(each, x.dims, 1, 2) for each in (cosine, sine))
        halves = ((0, head // 2), (head // 2, head))
        left, right = (self.cut(x, (0, heads), (0, tokens), half) for half in halves)
        pair = [right, self.same("negate", left)] if back else [self.same("negate", right), left]
        other = self.same("multiply", self.emit("concatenate", x.dims, *pair, more=", dimensions={2}"), sine)
        return self.same("add", self.same("multiply", x, cosine), other)

    def all_heads(self, x: _Value) -> _Value:
        """[1, tokens, head], for each of the heads that share it."""
        heads = self.sizes.heads // self.sizes.cores
        return self.spread(self.emit("reshape", x.dims[1:], x), (heads, *x.dims[1:]), 1, 2)

    def of_heads(self, x: _Value) -> _Value:
        """The opposite: the sum over the heads."""
        return self.emit("reshape", (1, *x.dims[1:]), self.sum(x, 0))

    def forward(self, x: _Value, layer: int, angles: tuple[_Value, _Value], mask: _Value) -> tuple[_Value, _Saved]:
        s = self.sizes
        self.scope = "jvp(layer)"
        result, scale, normal = self.norm(x, self.weight("norm", layer))
        every = self.gathered(result)
        heads = s.heads // s.cores
        query = self.turned(self.split(self.dot(every, self.weight("wq", layer)), heads), *angles)
        key = self.all_heads(self.turned(self.split(self.dot(every, self.weight("wk", layer)), 1), *angles))
        value = self.all_heads(self.split(self.dot(every, self.weight("wv", layer)), 1))
        scores = self.batched(query, key, 2, 2)
        scores = self.same("multiply", scores, self.full(f"{s.head**-0.5:g}", scores.dims))
        allowed = self.emit("broadcast", scores.dims, mask, more=", dimensions={1,2}", dtype="pred")
        scores = self.emit("select", scores.dims, allowed, scores, self.full("-1e+30", scores.dims))
        most = self.spread(self.sum(scores, 2, "max"), scores.dims, 0, 1)
        powers = self.same("exponential", self.same("subtract", scores, most))
        share = self.same("divide", powers, self.spread(self.sum(powers, 2), scores.dims, 0, 1))
        whole = self.merged(self.batched(share, value, 2, 1))
        middle = self.same("add", x, self.scattered(self.dot(whole, self.weight("wo", layer))))
        result_2, scale_2, normal_2 = self.norm(middle, self.weight("norm_2", layer))
        every_2 = self.gathered(result_2)
        gate, up = self.dot(every_2, self.weight("w_gate", layer)), self.dot(every_2, self.weight("w_up", layer))
        sigmoid = self.same("logistic", gate)
        product = self.same("multiply", self.same("multiply", gate, sigmoid), up)
        end = self.same("add", middle, self.scattered(self.dot(product, self.weight("w_down", layer))))
        saved = _Saved(
            x, scale, normal, query, key, value, share, whole, middle, scale_2, normal_2, gate, sigmoid, up, product
        )
        return end, saved

    def backward(self, change: _Value, layer: int, saved: _Saved, angles: tuple[_Value, _Value]) -> _Value:
        s = self.sizes
        self.scope = "transpose(jvp(layer))"
        weight, weight_2 = self.weight("norm", layer), self.weight("norm_2", layer)
        # The second block.
        every = self.gathered(change)
        self.add_gradient("w_down", layer, self.dot(saved.product, every, 0, 0))
        d_product = self.dot(every, self.weight("w_down", layer), 1, 1)
        silu = self.same("multiply", saved.gate, saved.sigmoid)
        d_up, d_silu = self.same("multiply", d_product, silu), self.same("multiply", d_product, saved.up)
        rest = self.same("subtract", self.full("1", saved.sigmoid.dims), saved.sigmoid)
        slope = self.same("add", self.full("1", rest.dims), self.same("multiply", saved.gate, rest))
        d_gate = self.same("multiply", d_silu, self.same("multiply", saved.sigmoid, slope))
        read_2 = self.gathered(self.same("multiply", saved.normal_2, self.spread(weight_2, saved.normal_2.dims, 1)))
        self.add_gradient("w_gate", layer, self.dot(read_2, d_gate, 0, 0))
        self.add_gradient("w_up", layer, self.dot(read_2, d_up, 0, 0))
        one, other = (
            self.dot(d_gate, self.weight("w_gate", layer), 1, 1),
            self.dot(d_up, self.weight("w_up", layer), 1, 1),
        )
        d_result = self.scattered(self.same("add", one, other))
        back = self.norm_back("norm_2", layer, weight_2, saved.scale_2, saved.normal_2, d_result)
        change = self.same("add", change, back)
        # Attention.
        every = self.gathered(change)
        self.add_gradient("wo", layer, self.dot(saved.attended, every, 0, 0))
        d_whole = self.split(self.dot(every, self.weight("wo", layer), 1, 1), s.heads // s.cores)
        d_value = self.of_heads(self.batched(saved.share, d_whole, 1, 1))
        d_share = self.batched(d_whole, saved.value, 2, 2)
        along = self.spread(self.sum(self.same("multiply", d_share, saved.share), 2), d_share.dims, 0, 1)
        d_scores = self.same("multiply", saved.share, self.same("subtract", d_share, along))
        d_scores = self.same("multiply", d_scores, self.full(f"{s.head**-0.5:g}", d_scores.dims))
        d_query = self.turned(self.batched(d_scores, saved.key, 2, 1), *angles, back=True)
        d_key = self.turned(self.of_heads(self.batched(d_scores, saved.query, 1, 1)), *angles, back=True)
        parts = {"wq": self.merged(d_query), "wk": self.merged(d_key), "wv": self.merged(d_value)}
        read = self.gathered(self.same("multiply", saved.normal, self.spread(weight, saved.normal.dims, 1)))
        total = None
        for name, part in parts.items():
            self.add_gradient(name, layer, self.dot(read, part, 0, 0))
            back = self.dot(part, self.weight(name, layer), 1, 1)
            total = back if total is None else self.same("add", total, back)
        assert total is not None
        d_read = self.scattered(total)
        return self.same("add", change, self.norm_back("norm", layer, weight, saved.scale, saved.normal, d_read))

    # -- the step ------------------------------------------------------------------------------------------------

    def loss(self, x: _Value, unembed: _Value, wanted: _Value) -> tuple[_Value, _Value]:
        """What the weights of the last product and the activations change by."""
        self.scope = "loss"
        every = self.gathered(x)
        logits = self.dot(every, unembed)
        most = self.spread(self.sum(logits, 1, "max"), logits.dims, 0)
        powers = self.same("exponential", self.same("subtract", logits, most))
        total = self.reduced(self.sum(powers, 1))
        change = self.same("subtract", self.same("divide", powers, self.spread(total, logits.dims, 0)), wanted)
        return self.dot(every, change, 0, 0), self.scattered(self.dot(change, unembed, 1, 1))

    def adam(self, weight: _Value, gradient: _Value, mean: _Value, square: _Value) -> list[_Value]:
        self.scope = "adam"

        def mixed(old: _Value, new: _Value, keep: float) -> _Value:
            kept = self.same("multiply", old, self.full(f"{keep:g}", old.dims))
            return self.same("add", kept, self.same("multiply", new, self.full(f"{1 - keep:g}", old.dims)))

        mean = mixed(mean, gradient, 0.9)
        square = mixed(square, self.same("multiply", gradient, gradient), 0.95)
        below = self.same("add", self.same("sqrt", square), self.full("1e-08", square.dims))
        step = self.same("multiply", self.same("divide", mean, below), self.full("0.0003", mean.dims))
        return [self.same("subtract", weight, step), mean, square]

    def text(self) -> str:
        s = self.sizes
        parameters: list[_Value] = []

        def parameter(name: str, dims: tuple[int, ...], dtype: str = "f32") -> _Value:
            layout = "{" + ",".join(map(str, range(len(dims) - 1, -1, -1))) + "}"
            extents = ",".join(map(str, dims))
            self.lines.append(f"  %{name} = {dtype}[{extents}]{layout} parameter({len(parameters)})")
            parameters.append(_Value(name, dims))
            return parameters[-1]

        moments: dict[str, tuple[_Value, _Value]] = {}
        for name, (at, dims) in self.shapes().items():
            self.place[name] = at
            stacked = (*dims[:at], s.layers, *dims[at:])
            self.weights[name] = parameter(name, stacked)
            moments[name] = parameter(f"{name}_mean", stacked), parameter(f"{name}_square", stacked)
        unembed = parameter("unembed", (s.hidden, s.vocabulary // s.cores))
        self.weights["unembed"] = unembed
        moments["unembed"] = parameter("unembed_mean", unembed.dims), parameter("unembed_square", unembed.dims)
        angles = parameter("cosine", (s.tokens, s.head)), parameter("sine", (s.tokens, s.head))
        mask = parameter("mask", (s.tokens, s.tokens), "pred")
        inputs = [parameter(f"x_{each}", (s.tokens // s.cores, s.hidden)) for each in range(s.microbatches)]
        wanted = [parameter(f"wanted_{each}", (s.tokens, unembed.dims[1])) for each in range(s.microbatches)]
        self.gradients = {name: self.full("0", each.dims) for name, each in self.weights.items()}
        for each in range(s.microbatches):
            x, saved = inputs[each], []
            for layer in range(s.layers):
                x, kept = self.forward(x, layer, angles, mask)
                saved.append(kept)
            more, change = self.loss(x, unembed, wanted[each])
            self.gradients["unembed"] = self.same("add", self.gradients["unembed"], more)
            for layer in reversed(range(s.layers)):
                change = self.backward(change, layer, saved[layer], angles)
        results: list[_Value] = []
        for name, weight in self.weights.items():
            results += self.adam(weight, self.gradients[name], *moments[name])
        shapes = ", ".join(f"f32[{','.join(map(str, each.dims))}]" for each in results)
        listed = ", ".join(f"%{each.name}" for each in results)
        self.lines.append(f"  ROOT %results = ({shapes}) tuple({listed})")
        alias = ", ".join(f"{{{at}}}: ({at}, {{}}, may-alias)" for at in range(len(results)))
        return (
            f"HloModule jit_step, input_output_alias={{ {alias} }}, num_partitions={s.cores}\n\n"
            + "".join(_combiner(name, opcode) for name, opcode in (("add", "add"), ("max", "maximum")))
            + "ENTRY %main {\n"
            + "\n".join(self.lines)
            + "\n}\n"
        )


def _combiner(name: str, opcode: str) -> str:
    parameters = "".join(f"  %{each} = f32[] parameter({at})\n" for at, each in enumerate("ab"))
    return f"%{name} {{\n{parameters}  ROOT %c = f32[] {opcode}(%a, %b)\n}}\n\n"
