"""More than 64 cores: HLO is compiled, proved and simulated, and a race between two of them is found."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.checker.snippets import program as snippet

import haulout
from haulout.ir.text import parse_bir, print_bir


def module(cores: int, key: str, trips: int = 2) -> str:
    """A loop with an all-reduce in groups of eight, then one of all cores and a ring."""
    groups = ",".join("{" + ",".join(map(str, range(at, at + 8))) + "}" for at in range(0, cores, 8))
    everyone = "{" + ",".join(map(str, range(cores))) + "}"
    ring = ",".join(f"{{{core},{(core + 1) % cores}}}" for core in range(cores))
    by_partition = key == "num_partitions"
    first, second, third = (f", channel_id={k}" if by_partition else "" for k in (1, 2, 3))
    ids = ", use_global_device_ids=true" if by_partition else ""
    return f"""HloModule many, {key}={cores}

add {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}}

body {{
  p = (s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  x = f32[4] get-tuple-element(p), index=1
  r = f32[4] all-reduce(x){first}, replica_groups={{{groups}}}{ids}, to_apply=add
  eighth = f32[] constant(0.125)
  e = f32[4] broadcast(eighth), dimensions={{}}
  y = f32[4] multiply(r, e)
  one = s32[] constant(1)
  j = s32[] add(i, one)
  ROOT o = (s32[], f32[4]) tuple(j, y)
}}

cond {{
  p = (s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant({trips})
  ROOT c = pred[] compare(i, n), direction=LT
}}

ENTRY main {{
  x = f32[4] parameter(0)
  z = s32[] constant(0)
  t = (s32[], f32[4]) tuple(z, x)
  l = (s32[], f32[4]) while(t), condition=cond, body=body
  y = f32[4] get-tuple-element(l), index=1
  s = f32[4] all-reduce(y){second}, replica_groups={{{everyone}}}{ids}, to_apply=add
  q = f32[4] collective-permute(y){third}, source_target_pairs={{{ring}}}
  ROOT o = (f32[4], f32[4]) tuple(s, q)
}}
"""


@pytest.mark.parametrize(
    ("cores", "key"),
    [
        (72, "num_partitions"),
        pytest.param(128, "replica_count", marks=pytest.mark.long),  # 15 s
        pytest.param(256, "num_partitions", marks=pytest.mark.long),  # 30 s
    ],
)
def test_hlo(cores: int, key: str, tmp_path: Path) -> None:
    path = tmp_path / "many.hlo"
    path.write_text(module(cores, key))
    result = haulout.compile(path)
    assert result.ok, result.diagnostics
    assert result.program.lnc == cores
    text = print_bir(result.program)
    assert print_bir(parse_bir(text)) == text
    assert haulout.check(parse_bir(text)) == []
    given = np.random.default_rng(0).integers(-8, 8, (cores, 4)).astype(np.float32)
    inputs = {f"nc{core}/x": given[core] for core in range(cores)}
    outputs = haulout.simulate(result.program, inputs).outputs
    means = np.repeat(given.reshape(-1, 8, 4).mean(1), 8, axis=0)
    first, second = result.program.output_names
    for core in range(cores):
        np.testing.assert_allclose(outputs[f"nc{core}/{first}"], means.sum(0), rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(outputs[f"nc{core}/{second}"], means[core - 1], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("members", "codes"),
    [([66, 69], set()), ([2, 5], {"cross-core-race"}), ([66, 68], {"cross-core-race"}), ([], {"cross-core-race"})],
)
def test_the_order_of_cores_above_64(members: list[int], codes: set[str]) -> None:
    """Core 66 writes, core 69 reads; cores 2 and 5 would be their bits in a mask of 64."""
    lines = {
        66: ["mloc %t dram.shared size=64", "%w = iota @act () -> (%t)"],
        69: ["mloc %t dram.shared size=64 remote=[t,66]"],
    }
    for core in members:
        line = f'%m = core_barrier @all () -> () name="m" cores={str(members).replace(" ", "")}'
        lines.setdefault(core, []).append(line)
    lines[69] += ["mloc %o dram.local size=64 kind=output", "%r = copy @act (%t) -> (%o)"]
    found = haulout.check(snippet(*("\n".join(lines.get(core, [])) for core in range(70))))
    assert {each.code for each in found} == codes
