"""Modules in the forms that users of Neuron and PyTorch/XLA have, small: compiled, proved, run against NumPy."""

from __future__ import annotations

import math

import numpy as np
import scipy.special

import haulout
from haulout.frontends.hlo import lower, parse_hlo
from haulout.ir.dtypes import NUMPY

Array = np.ndarray
RING = 'custom_call_target="AwsNeuronTransferWithStaticRing", api_version=API_VERSION_UNSPECIFIED'

DECODER = f"""HloModule Step.99, input_output_alias={{ {{1}}: (2, {{}}, must-alias) }}

%assign.1 (p0.1: f32[], p1.2: f32[]) -> f32[] {{
  %p0.1 = f32[] parameter(0)
  ROOT %p1.2 = f32[] parameter(1)
}}

%sum.1 (p0.3: f32[], p1.4: f32[]) -> f32[] {{
  %p0.3 = f32[] parameter(0)
  %p1.4 = f32[] parameter(1)
  ROOT %add.1 = f32[] add(f32[] %p0.3, f32[] %p1.4)
}}

ENTRY %Step.99 (x: f32[8,4], at: s32[1], cache: f32[6,4,3], w: f32[8,3], bias: f32[8]) -> (f32[8,4], f32[6,4,3]) {{
  %x = f32[8,4]{{1,0}} parameter(0), frontend_attributes={{neff_input_names="input0"}}
  %constant.1 = f32[] constant(1)
  %broadcast.1 = f32[4]{{0}} broadcast(f32[] %constant.1), dimensions={{}}
  %constant.2 = f32[] constant(0)
  %broadcast.2 = f32[4]{{0}} broadcast(f32[] %constant.2), dimensions={{}}
  %bn = (f32[8,4]{{1,0}}, f32[4]{{0}}, f32[4]{{0}}) batch-norm-training(f32[8,4]{{1,0}} %x,
    f32[4]{{0}} %broadcast.1, f32[4]{{0}} %broadcast.2), epsilon=1e-05, feature_index=1
  %normal = f32[8,4]{{1,0}} get-tuple-element((f32[8,4]{{1,0}}, f32[4]{{0}}, f32[4]{{0}}) %bn), index=0
  %w = f32[8,3]{{1,0}} parameter(3)
  %custom-call.1 = f32[8,3]{{1,0}} custom-call(f32[8,3]{{1,0}} %w), {RING}
  %dot.1 = f32[4,3]{{1,0}} dot(f32[8,4]{{1,0}} %normal, f32[8,3]{{1,0}} %custom-call.1), lhs_contracting_dims={{0}},
    rhs_contracting_dims={{0}}
  %row = f32[1,4,3]{{2,1,0}} reshape(f32[4,3]{{1,0}} %dot.1)
  %at = s32[1]{{0}} parameter(1)
  %cache = f32[6,4,3]{{2,1,0}} parameter(2)
  %scatter.1 = f32[6,4,3]{{2,1,0}} scatter(f32[6,4,3]{{2,1,0}} %cache, s32[1]{{0}} %at, f32[1,4,3]{{2,1,0}} %row),
    update_window_dims={{1,2}}, inserted_window_dims={{0}}, scatter_dims_to_operand_dims={{0}}, index_vector_dim=1,
    to_apply=%assign.1
  %gelu = f32[4,3]{{1,0}} custom-call(f32[4,3]{{1,0}} %dot.1), custom_call_target="AwsNeuronGelu",
    api_version=API_VERSION_UNSPECIFIED
  %dot.2 = f32[8,4]{{1,0}} dot(f32[8,3]{{1,0}} %custom-call.1, f32[4,3]{{1,0}} %gelu), lhs_contracting_dims={{1}},
    rhs_contracting_dims={{1}}
  %all-reduce.1 = f32[8,4]{{1,0}} all-reduce(f32[8,4]{{1,0}} %dot.2), replica_groups={{{{0,1}}}}, to_apply=%sum.1
  %bias = f32[8]{{0}} parameter(4)
  %custom-call.2 = f32[8]{{0}} custom-call(f32[8]{{0}} %bias), {RING}
  %broadcast.3 = f32[8,4]{{1,0}} broadcast(f32[8]{{0}} %custom-call.2), dimensions={{0}}
  %add.2 = f32[8,4]{{1,0}} add(f32[8,4]{{1,0}} %all-reduce.1, f32[8,4]{{1,0}} %broadcast.3)
  ROOT %tuple.1 = (f32[8,4]{{1,0}}, f32[6,4,3]{{2,1,0}}) tuple(f32[8,4]{{1,0}} %add.2, f32[6,4,3]{{2,1,0}} %scatter.1)
}}
"""


def test_a_decoder_of_two_cores() -> None:
    """The header names no cores: the groups of the all-reduce do."""
    generator = np.random.default_rng(3)

    def drawn(*shape: int) -> Array:
        return generator.standard_normal(shape).astype(np.float32)

    x, cache, bias = drawn(8, 4), drawn(6, 4, 3), drawn(8)
    weights = [drawn(8, 3), drawn(8, 3)]
    result = haulout.compile(lower(parse_hlo(DECODER, "step.hlo")))
    assert result.ok and result.proved and result.program.lnc == 2
    values = {"x": x, "at": np.array([4], np.int32), "cache": cache, "bias": bias}
    outputs = haulout.simulate(result.program, values | {f"nc{c}/w": w for c, w in enumerate(weights)}).outputs

    normal = (x - x.mean(0)) / np.sqrt(x.var(0) + 1e-5)
    rows = [normal.T @ w for w in weights]
    gelus = [0.5 * row * (1 + scipy.special.erf(row / math.sqrt(2))) for row in rows]
    total = sum(w @ gelu.T for w, gelu in zip(weights, gelus, strict=True)) + bias[:, None]
    for core, row in enumerate(rows):
        after = cache.copy()
        after[4] = row
        found, stored = (outputs[f"nc{core}/{name}"] for name in result.program.output_names)
        assert np.allclose(found, total, 1e-4, 1e-5)
        assert np.allclose(stored, after, 1e-4, 1e-5)


TOKENS = """HloModule SyncTensorsGraph.12, entry_computation_layout={(bf16[3], f32[2])->(bf16[3], f32[2])}

%AddComputation.5 (x.6: f32[], y.7: f32[]) -> f32[] {
  %x.6 = f32[] parameter(0)
  %y.7 = f32[] parameter(1)
  ROOT %add.8 = f32[] add(f32[] %x.6, f32[] %y.7)
}

ENTRY %SyncTensorsGraph.12 (p0.1: bf16[3], p1.2: f32[2]) -> (bf16[3], f32[2]) {
  %constant.3 = f32[] constant(0), metadata={op_type="xla__device_data" source_file="model.py" source_line=44}
  %p0.1 = bf16[3]{0} parameter(0)
  %p1.2 = f32[2]{0} parameter(1)
  %all-reduce.9 = (bf16[3]{0}, f32[2]{0}, f32[]) all-reduce(bf16[3]{0} %p0.1, f32[2]{0} %p1.2, f32[] %constant.3),
    replica_groups={}, constrain_layout=true, to_apply=%AddComputation.5
  %get-tuple-element.10 = bf16[3]{0} get-tuple-element((bf16[3]{0}, f32[2]{0}, f32[]) %all-reduce.9), index=0
  %get-tuple-element.11 = f32[2]{0} get-tuple-element((bf16[3]{0}, f32[2]{0}, f32[]) %all-reduce.9), index=1
  ROOT %tuple.12 = (bf16[3]{0}, f32[2]{0}) tuple(bf16[3]{0} %get-tuple-element.10, f32[2]{0} %get-tuple-element.11)
}
"""


def test_gradients_are_summed_with_a_token() -> None:
    """`replica_groups={}` is all of them, so the caller says how many; the types differ,
    and the token is a scalar."""
    result = haulout.compile(lower(parse_hlo(TOKENS, "sync.hlo"), cores=4))
    assert result.ok and result.proved
    program = result.program
    values: dict[str, Array] = {}
    for core in range(4):
        values[f"nc{core}/p0.1"] = np.full(3, core + 1, NUMPY["bf16"])
        values[f"nc{core}/p1.2"] = np.full(2, 10 * (core + 1), np.float32)
    outputs = haulout.simulate(program, values).outputs
    for core in range(4):
        first, second = (outputs[f"nc{core}/{name}"].astype(np.float64) for name in program.output_names)
        assert first.tolist() == [10.0] * 3 and second.tolist() == [100.0] * 2
