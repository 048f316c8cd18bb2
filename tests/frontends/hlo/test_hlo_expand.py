"""Instructions that stand for others: fusions, asynchronous pairs, marks, and what is written as a computation."""

from __future__ import annotations

import math
from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest
import scipy.special
from tests.frontends.hlo.executor import Executor

from haulout.frontends.hlo import lower, parse_hlo
from haulout.ir.opcodes import OPAQUE
from haulout.ir.program import Program
from haulout.ir.verify import verify
from haulout.support.diagnostics import HauloutError

Array = np.ndarray
SUM = "sum {\n  p = f32[] parameter(0)\n  q = f32[] parameter(1)\n  ROOT r = f32[] add(p, q)\n}\n"
TWICE = "twice {\n  v = f32[4] parameter(0)\n  ROOT w = f32[4] add(v, v)\n}\n"
HOW = "channel_id=1, use_global_device_ids=true, replica_groups={{0,1}}"


def program(body: str, before: str = "", cores: int = 1) -> Program:
    found = lower(parse_hlo(f"HloModule m, num_partitions={cores}\n{before}\nENTRY e {{\n{body}\n}}\n", "m.hlo"))
    assert verify(found) == []
    assert not any(text.startswith(OPAQUE) for text in found.strings)
    return found


def run(body: str, *values: Array, before: str = "") -> list[Array]:
    return Executor(program(body, before)).run([list(values)])[0]


def run_two(body: str, value: Array, before: str = "") -> list[Array]:
    """The first result of each of two cores; core 1 gets ten times the value."""
    outputs = Executor(program(body, before, 2)).run([[value], [10 * value]])
    return [each[0] for each in outputs]


X = np.array([0.5, -1.0, 2.0, 0.25], np.float32)


# -- calls and pairs -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["kLoop", "kCustom", "kInput", "kOutput"])
def test_a_fusion_is_a_call(kind: str) -> None:
    body = f'x = f32[4] parameter(0)\nROOT y = f32[4] fusion(x), kind={kind}, calls=twice, backend_config={{"a":[1]}}'
    assert np.array_equal(run(body, X, before=TWICE)[0], 2 * X)


@pytest.mark.parametrize("shape", ["f32[4]", "(f32[4])"])
def test_async_start_runs_its_computation(shape: str) -> None:
    pair = f"({shape}, f32[4], u32[])"
    body = (
        f'x = f32[4] parameter(0)\ns = {pair} async-start(x), calls=twice, async_execution_thread="main"\n'
        f"u = {pair} async-update(s)\nz = f32[4] negate(x)\nd = f32[4] async-done(u)\nROOT y = f32[4] add(d, z)"
    )
    assert np.array_equal(run(body, X, before=TWICE)[0], X)


def test_copies_across_memories() -> None:
    body = (
        "x = f32[4]{0} parameter(0)\ns = (f32[4]{0:S(1)}, f32[4]{0}, u32[]) copy-start(x), "
        "cross_program_prefetch_index=0\n"
        "ROOT y = f32[4]{0:S(1)} copy-done(s)"
    )
    assert np.array_equal(run(body, X)[0], X)


PAIRS = {
    "all-reduce": (f"f32[4] all-reduce-start(x), {HOW}, to_apply=sum", "f32[4]", lambda a, b: [a + b] * 2),
    "all-gather": (
        f"(f32[4], f32[8]) all-gather-start(x), {HOW}, dimensions={{0}}",
        "f32[8]",
        lambda a, b: [np.concatenate([a, b])] * 2,
    ),
    "collective-permute": (
        "(f32[4], f32[4], u32[], u32[]) collective-permute-start(x), channel_id=1, source_target_pairs={{0,1},{1,0}}",
        "f32[4]",
        lambda a, b: [b, a],
    ),
    "reduce-scatter": (
        f"((f32[4]), f32[2]) reduce-scatter-start(x), {HOW}, dimensions={{0}}, to_apply=sum",
        "f32[2]",
        lambda a, b: np.split(a + b, 2),
    ),
    "all-to-all": (
        "((f32[4]), f32[4], s32[1]) all-to-all-start(x), channel_id=1, replica_groups={{0,1}}, dimensions={0}",
        "f32[4]",
        lambda a, b: [np.concatenate(each) for each in zip(np.split(a, 2), np.split(b, 2), strict=True)],
    ),
}


@pytest.mark.parametrize("name", PAIRS)
def test_collectives_in_two_halves(name: str) -> None:
    start, result, expected = PAIRS[name]
    kind = start.split(" " + name)[0]
    body = f"x = f32[4] parameter(0)\ns = {start}\nn = f32[4] negate(x)\nROOT y = {result} {name}-done(s)"
    assert kind
    found = run_two(body, X, SUM)
    for mine, wanted in zip(found, expected(X, 10 * X), strict=True):
        assert np.allclose(mine, wanted)


def test_a_pair_must_fit() -> None:
    with pytest.raises(HauloutError, match="its operands are"):
        program("x = f32[4] parameter(0)\ns = (f32[4], f32[5], u32[]) copy-start(x)\nROOT y = f32[4] copy-done(s)")
    with pytest.raises(HauloutError, match="must give operands and result"):
        program("x = f32[4] parameter(0)\ns = f32[4] copy-start(x)\nROOT y = f32[4] copy-done(s)")


@pytest.mark.parametrize(
    "mark",
    [
        'custom-call({}), custom_call_target="AwsNeuronTransferWithStaticRing", api_version=API_VERSION_UNSPECIFIED',
        'custom-call({}), custom_call_target="AwsNeuronModuleMarkerStart-Forward"',
        'custom-call({}), custom_call_target="MoveToHost"',
        'domain({}), domain={kind="sharding", entry={replicated}, exit={replicated}}',
        "opt-barrier({})",
    ],
)
def test_marks_give_their_operand(mark: str) -> None:
    found = program(f"x = f32[4] parameter(0)\nm = f32[4] {mark.replace('{}', 'x')}\nROOT y = f32[4] add(m, m)")
    assert len(found.instructions) == 1
    assert np.array_equal(Executor(found).run([[X]])[0][0], 2 * X)


def test_tokens_and_sizes() -> None:
    body = (
        "x = f32[4,6] parameter(0)\na = token[] after-all()\nb = token[] after-all(a)\n"
        "s = s32[] get-dimension-size(x), dimensions={1}\nROOT r = (s32[], token[]) tuple(s, b)"
    )
    size, token = run(body, np.zeros((4, 6), np.float32))
    assert (int(size), bool(token)) == (6, False)


# -- smaller ones --------------------------------------------------------------------------------------------------


def test_map_is_its_computation_on_arrays() -> None:
    before = (
        "each {\n  a = f32[] parameter(0)\n  b = s32[] parameter(1)\n  c = f32[] convert(b)\n"
        "  two = f32[] constant(2)\n"
        "  d = f32[] multiply(c, two)\n  less = pred[] compare(a, d), direction=LT\n"
        "  ROOT r = f32[] select(less, d, a)\n}\n"
    )
    body = (
        "x = f32[4] parameter(0)\ny = s32[4] parameter(1)\nROOT r = f32[4] map(x, y), dimensions={0}, to_apply=each"
    )
    y = np.array([0, 1, -2, 3], np.int32)
    assert np.array_equal(run(body, X, y, before=before)[0], np.maximum(X, 2.0 * y))


def test_a_bitcast_in_a_comparison() -> None:
    """As XLA writes the total order of floats after its optimizations."""
    before = (
        "before {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  i = s32[] bitcast(a)\n"
        "  j = s32[] bitcast(b)\n  ROOT less = pred[] compare(i, j), direction=LT\n}\n"
    )
    x = np.array([3.5, 0.25, 7.0, 1.0], np.float32)
    body = "x = f32[4] parameter(0)\nROOT r = f32[4] sort(x), dimensions={0}, to_apply=before"
    assert np.array_equal(run(body, x, before=before)[0], np.sort(x))
    (bits,) = run("x = f32[] parameter(0)\nROOT r = s32[] bitcast(x)", np.float32(1.5))
    assert int(bits) == 0x3FC00000


def test_an_all_reduce_of_several_types() -> None:
    """As `torch_xla` writes it: arrays, and a token of another type."""
    body = (
        f"x = f32[4] parameter(0)\nh = bf16[4] convert(x)\nt = f32[] constant(1)\n"
        f"a = (bf16[4], f32[], f32[4]) all-reduce(h, t, x), {HOW}, to_apply=sum\n"
        "b = bf16[4] get-tuple-element(a), index=0\nw = f32[4] convert(b)\nk = f32[] get-tuple-element(a), index=1\n"
        "s = f32[4] broadcast(k), dimensions={}\nc = f32[4] get-tuple-element(a), index=2\nd = f32[4] add(w, s)\n"
        "ROOT r = f32[4] add(c, d)"
    )
    for found in run_two(body, X, SUM):
        assert np.array_equal(found, 22 * X + 2)


@pytest.mark.parametrize("kind", ["f32", "bf16"])
def test_a_token_among_the_arrays_of_a_reduce_scatter(kind: str) -> None:
    """As `torch_xla` writes it, also with a token of another type: the scalar is reduced on every member."""
    body = (
        f"x = f32[4] parameter(0)\nt = {kind}[] constant(1)\n"
        f"a = (f32[2], {kind}[]) reduce-scatter(x, t), {HOW}, dimensions={{0}}, to_apply=sum\n"
        f"b = f32[2] get-tuple-element(a), index=0\nk = {kind}[] get-tuple-element(a), index=1\n"
        "c = f32[] convert(k)\ns = f32[2] broadcast(c), dimensions={}\nROOT r = f32[2] add(b, s)"
    )
    found = run_two(body, X, SUM)
    assert np.array_equal(found[0], 11 * X[:2] + 2)
    assert np.array_equal(found[1], 11 * X[2:] + 2)


def test_a_reduce_scatter_of_several_types() -> None:
    body = (
        f"x = f32[4] parameter(0)\nh = bf16[4] convert(x)\n"
        f"a = (bf16[2], f32[2]) reduce-scatter(h, x), {HOW}, dimensions={{0}}, to_apply=sum\n"
        "b = bf16[2] get-tuple-element(a), index=0\nw = f32[2] convert(b)\n"
        "c = f32[2] get-tuple-element(a), index=1\nROOT r = f32[2] add(w, c)"
    )
    found = run_two(body, X, SUM)
    assert np.array_equal(np.concatenate(found), 22 * X)


def test_a_token_among_the_arrays_of_other_collectives() -> None:
    """A scalar has no dimension to gather or exchange along: it is passed on."""
    gathered = (
        f"x = f32[4] parameter(0)\nt = bf16[] constant(3)\n"
        f"a = (f32[8], bf16[]) all-gather(x, t), {HOW}, dimensions={{0}}\n"
        "b = f32[8] get-tuple-element(a), index=0\nk = bf16[] get-tuple-element(a), index=1\n"
        "c = f32[] convert(k)\ns = f32[8] broadcast(c), dimensions={}\nROOT r = f32[8] add(b, s)"
    )
    for found in run_two(gathered, X):
        assert np.array_equal(found, np.concatenate([X, 10 * X]) + 3)
    exchanged = (
        "x = f32[4] parameter(0)\nt = f32[] constant(3)\n"
        "a = (f32[4], f32[]) all-to-all(x, t), channel_id=1, replica_groups={{0,1}}, dimensions={0}\n"
        "b = f32[4] get-tuple-element(a), index=0\nk = f32[] get-tuple-element(a), index=1\n"
        "s = f32[4] broadcast(k), dimensions={}\nROOT r = f32[4] add(b, s)"
    )
    found = run_two(exchanged, X)
    assert np.array_equal(found[0], np.concatenate([X[:2], 10 * X[:2]]) + 3)
    assert np.array_equal(found[1], np.concatenate([X[2:], 10 * X[2:]]) + 3)


@pytest.mark.parametrize(
    ("one", "other", "result"),
    [("bf16", "f32", "f32"), ("f8e4m3fn", "f8e5m2", "f32"), ("f8e5m2", "bf16", "f32"), ("s8", "s16", "s32")],
)
def test_a_product_of_two_types(one: str, other: str, result: str) -> None:
    """Quantized training multiplies them; both are exact in the type of the result."""
    body = (
        f"x = f32[2,3] parameter(0)\nw = f32[3,2] parameter(1)\na = {one}[2,3] convert(x)\n"
        f"b = {other}[3,2] convert(w)\nd = {result}[2,2] dot(a, b), lhs_contracting_dims={{1}}, "
        "rhs_contracting_dims={0}\nROOT r = f32[2,2] convert(d)"
    )
    x, w = np.array([[1, -2, 3], [4, 0, -1]], np.float32), np.array([[2, 1], [-1, 3], [0, 2]], np.float32)
    assert np.array_equal(run(body, x, w)[0], x @ w)


def test_a_product_that_would_lose_digits_is_refused() -> None:
    body = (
        "x = f32[2,2] parameter(0)\na = bf16[2,2] convert(x)\n"
        "ROOT d = bf16[2,2] dot(a, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    )
    with pytest.raises(HauloutError, match="the operands differ in type"):
        program(body)


@pytest.mark.parametrize("sizes", [[2, 1, 3], [0, 6, 0], [1, 2, 1]])
def test_ragged_dot(sizes: list[int]) -> None:
    generator = np.random.default_rng(5)
    x, w = (
        generator.standard_normal((6, 4)).astype(np.float32),
        generator.standard_normal((3, 4, 5)).astype(np.float32),
    )
    body = (
        "x = f32[6,4] parameter(0)\nw = f32[3,4,5] parameter(1)\ns = s32[3] parameter(2)\n"
        "ROOT r = f32[6,5] ragged-dot(x, w, s), lhs_contracting_dims={1}, rhs_contracting_dims={1}, "
        "lhs_ragged_dims={0}, rhs_group_dims={0}"
    )
    group = np.repeat(np.arange(3), sizes)
    expected = np.zeros((6, 5))
    for row, at in enumerate(group):
        expected[row] = x[row].astype(np.float64) @ w[at]
    assert np.allclose(run(body, x, w, np.array(sizes, np.int32))[0], expected, 1e-5, 1e-6)


# -- Neuron's custom-calls -----------------------------------------------------------------------------------------


def gelu(x: Array) -> Array:
    return x * 0.5 * (1 + scipy.special.erf(x / math.sqrt(2)))


def slope(function: Callable[[Array], Array], x: Array) -> Array:
    return (function(x + 1e-6) - function(x - 1e-6)) / 2e-6


def silu(x: Array) -> Array:
    return x / (1 + np.exp(-x))


FUNCTIONS: dict[str, Callable[[Array], Array]] = {
    "Gelu": gelu,
    "GeluApprxTanh": lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "GeluBackward": lambda x: slope(gelu, x),
    "Silu": silu,
    "SiluBackward": lambda x: slope(silu, x),
    "Erf": scipy.special.erf,
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize(("dtype", "tolerance"), [("f32", 2e-6), ("bf16", 1e-2)])
def test_activations(name: str, dtype: str, tolerance: float) -> None:
    x = np.linspace(-4, 4, 97).astype(np.float32 if dtype == "f32" else ml_dtypes.bfloat16)
    call = f'custom-call(x), custom_call_target="AwsNeuron{name}"'
    (found,) = run(f"x = {dtype}[97] parameter(0)\nROOT y = {dtype}[97] {call}", x)
    assert found.dtype == x.dtype
    assert np.allclose(found.astype(np.float64), FUNCTIONS[name](x.astype(np.float64)), tolerance, tolerance)


def softmax(x: Array, axis: int) -> Array:
    powers = np.exp(x - x.max(axis, keepdims=True))
    return np.asarray(powers / powers.sum(axis, keepdims=True))


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_softmax_and_its_gradient(dim: int) -> None:
    x, grad = (np.random.default_rng(seed).standard_normal((3, 5)).astype(np.float32) for seed in (1, 2))
    call = f'custom-call({{}}), custom_call_target="AwsNeuronSoftmax{{}}", backend_config="{dim}"'
    body = (
        "x = f32[3,5] parameter(0)\ng = f32[3,5] parameter(1)\n"
        f"y = f32[3,5] {call.format('x', '')}\nd = f32[3,5] {call.format('g, y', 'Backward')}\n"
        "ROOT r = (f32[3,5], f32[3,5]) tuple(y, d)"
    )
    y, d = run(body, x, grad)
    expected = softmax(x.astype(np.float64), dim)
    assert np.allclose(y, expected, 1e-6, 1e-7)
    assert np.allclose(d, expected * (grad - (grad * expected).sum(dim, keepdims=True)), 1e-5, 1e-6)


@pytest.mark.parametrize("dim", [0, 2])
def test_rms_norm(dim: int) -> None:
    generator = np.random.default_rng(3)
    x = generator.standard_normal((4, 2, 6)).astype(np.float32)
    weight = generator.standard_normal(x.shape[dim]).astype(ml_dtypes.bfloat16)
    body = (
        f"x = f32[4,2,6] parameter(0)\nw = bf16[{x.shape[dim]}] parameter(1)\ne = f32[] constant(1e-5)\n"
        f'ROOT y = bf16[4,2,6] custom-call(x, w, e), custom_call_target="AwsNeuronRmsNorm", backend_config="{dim}"'
    )
    (found,) = run(body, x, weight)
    wide = x.astype(np.float64)
    shaped = np.expand_dims(weight.astype(np.float64), [each for each in range(3) if each != dim])
    expected = wide / np.sqrt((wide**2).mean(dim, keepdims=True) + 1e-5) * shaped
    assert np.allclose(found.astype(np.float64), expected, 1e-2, 1e-3)


@pytest.mark.parametrize("target", ['"AwsNeuronTopK", backend_config="2"', '"TopK"'])
@pytest.mark.parametrize("kind", ["s32", "s64"])
def test_top_k(target: str, kind: str) -> None:
    x = np.array([[3, 1, 7, 5], [2, 2, 9, -1]], np.float32)
    body = f"x = f32[2,4] parameter(0)\nROOT y = (f32[2,2], {kind}[2,2]) custom-call(x), custom_call_target={target}"
    values, indices = run(body, x)
    assert values.tolist() == [[7, 5], [9, 2]]
    assert indices.tolist() == [[2, 3], [2, 0]] and indices.dtype == np.dtype(kind.replace("s", "int"))


# -- batch normalization -------------------------------------------------------------------------------------------


def test_batch_normalization_is_its_definition() -> None:
    """And the gradients are those of a sum that is weighted with `g`."""
    generator = np.random.default_rng(4)
    x, g = (generator.standard_normal((3, 4, 2)) for _ in range(2))
    scale, offset = generator.standard_normal(4), generator.standard_normal(4)

    def normalized(x: Array, scale: Array, offset: Array) -> Array:
        mean, variance = x.mean((0, 2), keepdims=True), x.var((0, 2), keepdims=True)
        return (x - mean) / np.sqrt(variance + 1e-3) * scale[:, None] + offset[:, None]

    rest = "epsilon=0.001, feature_index=1"
    three = "(f64[3,4,2], f64[4], f64[4])"
    body = (
        "x = f64[3,4,2] parameter(0)\ns = f64[4] parameter(1)\no = f64[4] parameter(2)\ng = f64[3,4,2] parameter(3)\n"
        f"t = {three} batch-norm-training(x, s, o), {rest}\nm = f64[4] get-tuple-element(t), index=1\n"
        f"v = f64[4] get-tuple-element(t), index=2\ni = f64[3,4,2] batch-norm-inference(x, s, o, m, v), {rest}\n"
        f"d = {three} batch-norm-grad(x, s, m, v, g), {rest}\nROOT r = ({three}, f64[3,4,2], {three}) tuple(t, i, d)"
    )
    y, mean, variance, again, *grads = run(body, x, scale, offset, g)
    assert np.allclose(y, normalized(x, scale, offset)) and np.allclose(again, y)
    assert np.allclose(mean, x.mean((0, 2))) and np.allclose(variance, x.var((0, 2)))
    for number, given in enumerate((x, scale, offset)):
        expected = np.zeros_like(given)
        for at in np.ndindex(given.shape):
            step = np.zeros_like(given)
            step[at] = 1e-6
            more, less = ([x, scale, offset] for _ in range(2))
            more[number], less[number] = given + step, given - step
            expected[at] = ((normalized(*more) - normalized(*less)) * g).sum() / 2e-6
        assert np.allclose(grads[number], expected, 1e-6, 1e-6)


@pytest.mark.parametrize(
    ("operands", "rest", "message"),
    [
        ("x, s", "epsilon=1, feature_index=1", "takes 3 operands"),
        ("x, s, s", "epsilon=1", "needs the attributes"),
        ("x, s, s", "epsilon=1, feature_index=2", "must be below 2"),
        ("x, s, s", "epsilon=a, feature_index=1", "expected a number"),
        ("x, s, x", "epsilon=1, feature_index=1", "operand 2 is f32[3,4]"),
    ],
)
def test_what_is_wrong_with_a_batch_norm(operands: str, rest: str, message: str) -> None:
    body = (
        "x = f32[3,4] parameter(0)\ns = f32[4] parameter(1)\n"
        f"ROOT r = (f32[3,4], f32[4], f32[4]) batch-norm-training({operands}), {rest}"
    )
    with pytest.raises(HauloutError) as caught:
        program(body)
    assert message in str(caught.value)


# -- random numbers ------------------------------------------------------------------------------------------------


def _turned(value: int, bits: int) -> int:
    return (value << bits | value >> (32 - bits)) & 0xFFFFFFFF


def threefry(key: int, count: int) -> tuple[int, int]:
    """From the paper, on Python's integers."""
    keys = [key & 0xFFFFFFFF, key >> 32]
    keys.append(0x1BD11BDA ^ keys[0] ^ keys[1])
    x, y = ((count & 0xFFFFFFFF) + keys[0]) % 2**32, ((count >> 32) + keys[1]) % 2**32
    for turn in range(20):
        x = (x + y) % 2**32
        y = _turned(y, (13, 15, 26, 6, 17, 29, 16, 24)[turn % 8]) ^ x
        if turn % 4 == 3:
            step = turn // 4 + 1
            x, y = (x + keys[step % 3]) % 2**32, (y + keys[(step + 1) % 3] + step) % 2**32
    return x, y


def philox(key: int, count: int) -> list[int]:
    """From the paper, on Python's integers."""
    keys = [key & 0xFFFFFFFF, key >> 32]
    words = [count >> shift & 0xFFFFFFFF for shift in (0, 32, 64, 96)]
    for _ in range(10):
        one, two = 0xD2511F53 * words[0], 0xCD9E8D57 * words[2]
        words = [two >> 32 ^ words[1] ^ keys[0], two % 2**32, one >> 32 ^ words[3] ^ keys[1], one % 2**32]
        keys = [(keys[0] + 0x9E3779B9) % 2**32, (keys[1] + 0xBB67AE85) % 2**32]
    return words


KEY, LOW, HIGH = 0x0123456789ABCDEF, 2**64 - 2, 77
STATES = {2: np.array([KEY, LOW], np.uint64), 3: np.array([KEY, LOW, HIGH], np.uint64)}


def drawn(algorithm: str, words: int, kind: str, dims: str) -> tuple[Array, Array]:
    result = f"(u64[{words}], {kind}[{dims}])"
    body = f"s = u64[{words}] parameter(0)\nROOT r = {result} rng-bit-generator(s), algorithm={algorithm}"
    state, bits = run(body, STATES[words])
    return state, bits


@pytest.mark.parametrize("dims", ["", "5", "4,3", "3,4,6", "3,5,7", "7,5,3", "5,7,7"])
def test_threefry(dims: str) -> None:
    """The words of a count are neighbours along the first even dimension, or else along the first largest one."""
    shape = tuple(map(int, dims.split(","))) if dims else (1,)
    cut = next((at for at, size in enumerate(shape) if size % 2 == 0), shape.index(max(shape)))
    half = -(-shape[cut] // 2)
    counts = (*shape[:cut], half, *shape[cut + 1 :])
    pairs = [threefry(KEY, (LOW + number) % 2**64) for number in range(math.prod(counts))]
    words = [np.array(each, np.uint32).reshape(counts) for each in zip(*pairs, strict=True)]
    pairs_along = (*counts[:cut], 2 * half, *counts[cut + 1 :])
    expected = np.stack(words, cut + 1).reshape(pairs_along).take(range(shape[cut]), cut)
    state, bits = drawn("rng_three_fry", 2, "u32", dims)
    assert np.array_equal(bits.reshape(shape), expected)
    assert state.tolist() == [KEY, (LOW + math.prod(counts)) % 2**64]
    for kind, width in (("u8", 8), ("s16", 16)):
        narrow = drawn("rng_three_fry", 2, kind, dims)[1].reshape(shape)
        assert np.array_equal(narrow.view(f"u{width // 8}"), (expected % 2**width).astype(f"u{width // 8}"))
    wide = drawn("rng_three_fry", 2, "u64", dims)[1]
    pairs = [threefry(KEY, (LOW + number) % 2**64) for number in range(math.prod(shape))]
    assert np.ravel(wide).tolist() == [low | high << 32 for low, high in pairs]


@pytest.mark.parametrize(("algorithm", "words"), [("rng_philox", 3), ("rng_philox", 2), ("rng_default", 2)])
@pytest.mark.parametrize("dims", ["", "5", "4,3"])
def test_philox(algorithm: str, words: int, dims: str) -> None:
    shape = tuple(map(int, dims.split(","))) if dims else ()
    total, start = math.prod(shape), LOW | (HIGH if words == 3 else KEY) << 64
    flat = [word for count in range(total) for word in philox(KEY, (start + count) % 2**128)]
    state, bits = drawn(algorithm, words, "u32", dims)
    assert bits.shape == shape and np.ravel(bits).tolist() == flat[:total]
    after = (start + -(-total // 4)) % 2**128
    assert state.tolist() == [KEY, after % 2**64, after >> 64][:words]
    wide = drawn(algorithm, words, "u64", dims)[1]
    assert np.ravel(wide).tolist() == [flat[2 * at] | flat[2 * at + 1] << 32 for at in range(total)]


def test_rng_is_in_its_range_and_repeats() -> None:
    one, two = "a = f32[] constant(-2)\nb = f32[] constant(3)\n", "c = s32[] constant(-4)\nd = s32[] constant(9)\n"
    body = (
        f"{one}{two}u = f32[2000] rng(a, b), distribution=rng_uniform\n"
        "n = f32[2000] rng(a, b), distribution=rng_normal\n"
        "i = s32[2000] rng(c, d), distribution=rng_uniform\nROOT r = (f32[2000], f32[2000], s32[2000]) tuple(u, n, i)"
    )
    uniform, normal, whole = run(body)
    assert -2 <= uniform.min() < -1.9 and 2.9 < uniform.max() < 3
    assert abs(normal.mean() + 2) < 0.3 and abs(normal.std() - 3) < 0.3
    assert set(whole.tolist()) == set(range(-4, 9))
    assert all(np.array_equal(mine, other) for mine, other in zip(run(body), (uniform, normal, whole), strict=True))
