"""`haulout.executorch`: ExecuTorch's arenas planned by haulout; needs the package `executorch`, but for two tests."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from typing import Any

import pytest

from haulout.executorch import Planner, suite
from haulout.support.diagnostics import HauloutError


def test_without_executorch_the_message_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "executorch.exir.memory_planning", None)
    with pytest.raises(HauloutError, match=r"haulout\[executorch\]"):
        suite()(16, [], _Empty(), None, 0)


@pytest.mark.parametrize("capacity", [-1, 2**63, {0: 64}, {"sram": 64}, {1: "big"}])
def test_a_wrong_capacity_is_refused(capacity: Any) -> None:
    with pytest.raises(HauloutError, match="capacity"):
        suite(capacity=capacity)


class _Empty:
    """A graph without nodes."""

    class graph:  # noqa: N801
        nodes: tuple[()] = ()


def _needs_executorch() -> None:
    pytest.importorskip("executorch.exir.memory_planning")


def _specs(rows: list[tuple[int, int, int]]) -> list[Any]:
    """Specs of (bytes, first node, last node)."""
    import torch
    from executorch.exir.tensor import TensorSpec

    specs = []
    for size, first, last in rows:
        spec = TensorSpec(torch.uint8, torch.Size([size]))
        spec.lifetime = [first, last]
        specs.append(spec)
    return specs


def _planned(planner: Planner, specs: list[Any], padding: int = 0, alignment: int = 16) -> list[int]:
    return planner(alignment, specs, _Empty(), None, padding)


def _overlaps(one: Any, two: Any) -> bool:
    """Whether two specs are live together and share bytes; both intervals by definition."""
    live = one.lifetime[0] <= two.lifetime[1] and two.lifetime[0] <= one.lifetime[1]
    below = one.mem_offset + one.allocated_memory <= two.mem_offset
    above = two.mem_offset + two.allocated_memory <= one.mem_offset
    return one.mem_id == two.mem_id and live and not below and not above and min(one.nbytes(), two.nbytes()) > 0


def test_lifetimes_are_inclusive_and_offsets_aligned() -> None:
    _needs_executorch()
    specs = _specs([(100, 0, 3), (50, 3, 5), (100, 4, 6)])
    assert _planned(suite(), specs) == [0, 112 + 64]  # the first two meet at node 3
    assert all(spec.mem_id == 1 and spec.mem_offset % 16 == 0 for spec in specs)
    assert not any(_overlaps(one, two) for one in specs for two in specs if one is not two)


@pytest.mark.parametrize("seed", range(12))
def test_never_above_greedy_and_never_wrong(seed: int) -> None:
    _needs_executorch()
    from executorch.exir.memory_planning import greedy

    drawn = random.Random(seed)
    rows = []
    for _ in range(drawn.randrange(1, 60)):
        first = drawn.randrange(30)
        rows.append((drawn.randrange(0, 500), first, first + drawn.randrange(8)))
    memories = [drawn.choice([None, None, 1, 3]) for _ in rows]
    padding = drawn.choice([0, 64])
    specs, theirs = _specs(rows), _specs(rows)
    for one, two, memory in zip(specs, theirs, memories, strict=True):
        one.mem_id = two.mem_id = memory
    before = greedy(16, theirs, _Empty(), None, padding).bufsizes  # type: ignore[arg-type]
    planner = suite()
    after = _planned(planner, specs, padding)
    assert len(after) == len(before) and all(ours <= old for ours, old in zip(after, before, strict=True))
    assert [spec.mem_id for spec in specs] == [memory or 1 for memory in memories]
    assert not any(_overlaps(one, two) for one in specs for two in specs if one is not two)
    for arena in planner.arenas:
        assert arena.greedy == before[arena.memory] - padding
        assert arena.lower_bound <= arena.peak == after[arena.memory] - padding
    # What shares bytes has one object.
    for one in specs:
        for two in specs:
            apart = one.mem_offset + one.allocated_memory <= two.mem_offset or (
                two.mem_offset + two.allocated_memory <= one.mem_offset
            )
            assert apart or one.mem_id != two.mem_id or one.mem_obj_id == two.mem_obj_id


def test_shared_storage_is_one_buffer() -> None:
    _needs_executorch()
    base, part, other = _specs([(128, 0, 2), (64, 2, 5), (128, 3, 5)])
    if hasattr(part, "storage_base_offset"):
        part.storage_base, part.storage_base_offset = base, 64
        shift = 64
    else:
        part.inplace_base, shift = base, 0
    assert _planned(suite(), [base, part, other]) == [0, 256]  # the base lives on in its part
    assert part.mem_offset == base.mem_offset + shift and part.mem_id == base.mem_id
    assert part.mem_obj_id == base.mem_obj_id != other.mem_obj_id
    (left,) = _specs([(64, 0, 1)])
    left.inplace_base = base
    with pytest.raises(HauloutError, match="not planned"):
        _planned(suite(), [left])


def test_a_capacity_between_greedy_and_the_bound() -> None:
    _needs_executorch()
    rows = [(size * 64, first, last) for size, first, last in [(4, 0, 1), (3, 1, 3), (2, 2, 4), (4, 3, 5), (1, 0, 5)]]
    specs = _specs(rows)
    free = suite()
    _planned(free, specs)
    (arena,) = free.arenas
    bound = arena.lower_bound
    assert arena.peak == bound
    assert _planned(suite(capacity=bound), _specs(rows)) == [0, bound]
    assert _planned(suite(capacity=bound + 64), _specs(rows), padding=64) == [0, bound + 64]
    with pytest.raises(HauloutError) as caught:
        _planned(suite(capacity=bound - 1), _specs(rows))
    (finding,) = caught.value.diagnostics
    assert finding.code == "over-capacity" and len(finding.labels) >= 2
    with pytest.raises(HauloutError):
        _planned(suite(capacity=bound), _specs(rows), padding=64)


def test_memories_with_sizes() -> None:
    _needs_executorch()
    specs = _specs([(256, 0, 4), (256, 1, 3), (256, 2, 5), (64, 0, 5)])
    specs[0].mem_id = 2  # stays there
    sizes = _planned(suite(capacity={1: 320, 2: None}), specs)
    assert sizes[1] <= 320 and sum(sizes) == 256 * 3 + 64
    assert specs[0].mem_id == 2 and {spec.mem_id for spec in specs} == {1, 2}
    assert not any(_overlaps(one, two) for one in specs for two in specs if one is not two)


# -- through the exporter and the runtime ----------------------------------------------------------------------------


def _program(net: Any, inputs: tuple[Any, ...], algorithm: Callable[..., list[int]] | None = None) -> Any:
    """The program of a module; None: ExecuTorch's own algorithm."""
    import torch
    from executorch.exir import ExecutorchBackendConfig, to_edge
    from executorch.exir.passes import MemoryPlanningPass

    passes = MemoryPlanningPass(memory_planning_algo=algorithm)
    edge = to_edge(torch.export.export(net.eval(), inputs))
    return edge.to_executorch(ExecutorchBackendConfig(memory_planning_pass=passes))


def _outputs(program: Any, *inputs: tuple[Any, ...]) -> list[list[Any]]:
    from executorch.runtime import Runtime

    method = Runtime.get().load_program(bytes(program.buffer)).load_method("forward")
    return [[each.clone() for each in method.execute(list(some))] for some in inputs]


def _sizes(program: Any) -> list[int]:
    return list(program.executorch_program.execution_plan[0].non_const_buffer_sizes)


def _attention() -> Any:
    """Heads side by side, and layers of other widths after them: greedy leaves holes."""
    import torch

    class Attention(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.ways = torch.nn.ModuleList(torch.nn.Linear(16, 16) for _ in range(4))
            self.wide, self.narrow = torch.nn.Linear(16, 64), torch.nn.Linear(64, 16)

        def forward(self, x: Any) -> Any:
            q, k, v = (way(x).reshape(32, 2, 8).transpose(0, 1) for way in self.ways[:3])
            mixed = (q @ k.transpose(1, 2)).softmax(-1) @ v
            x = x + self.ways[3](mixed.transpose(0, 1).reshape(32, 16))
            return x + self.narrow(self.wide(x).relu())

    return Attention()


def test_an_exported_program_runs_the_same_in_a_smaller_arena() -> None:
    _needs_executorch()
    import torch

    x = (torch.randn(32, 16),)
    net, planner = _attention(), suite()
    old, new = _program(net, x), _program(net, x, planner)
    (arena,) = planner.arenas
    assert _sizes(old) == [0, arena.greedy] and _sizes(new) == [0, arena.peak]
    assert arena.peak == arena.lower_bound < arena.greedy
    assert torch.equal(_outputs(old, x)[0][0], _outputs(new, x)[0][0])
    report = planner.report()
    assert f"memory 1: {arena.peak} bytes" in report and f"greedy: {arena.greedy} bytes" in report
    assert f"{arena.greedy - arena.peak} saved" in report and "the largest hole is 0 bytes" in report
    assert arena.at_peak[0].name in report and "test_haulout_executorch.py" in arena.at_peak[0].line
    assert sum(each.size for each in arena.at_peak) == arena.lower_bound


def test_what_a_branch_needs_is_taken_while_its_result_lives() -> None:
    _needs_executorch()
    import torch

    class Branch(torch.nn.Module):
        def forward(self, p: Any, x: Any) -> Any:
            early = (x.sin() * x.cos() + x.exp()).mean(0)  # done when the branch starts
            y = torch.cond(p, lambda x: torch.relu(x + 1) * 2, lambda x: x - 1, (x,))
            return (y * 2 + y).sum(0) + early  # reads the branch's result twice

    x = torch.randn(32, 32)
    inputs = [(torch.tensor(flag), x) for flag in (True, False, True)]
    planner = suite()
    old, new = _program(Branch(), inputs[0]), _program(Branch(), inputs[0], planner)
    assert [arena.graph for arena in planner.arenas] == [0, 1, 2]
    whole = planner.arenas[-1]
    assert "graphs of cond" in {each.name for each in whole.at_peak}
    assert sum(_sizes(new)) == whole.peak == whole.lower_bound < sum(_sizes(old))
    for some, before, after in zip(inputs, _outputs(old, *inputs), _outputs(new, *inputs), strict=True):
        assert torch.equal(before[0], after[0])
        assert torch.allclose(after[0], Branch()(*some), atol=1e-5)


def test_the_results_of_two_branches_live_at_once() -> None:
    _needs_executorch()
    import torch

    class Two(torch.nn.Module):
        def forward(self, p: Any, x: Any) -> Any:
            y = torch.cond(p, lambda x: torch.relu(x + 1) * 2, lambda x: x - 1, (x,))

            def inner(x: Any) -> Any:
                z = torch.cond(x.sum() > 0, lambda x: x * 5 + 3, lambda x: x * 7, (x,))
                return z - x

            return y - torch.cond(p, lambda x: x.exp() + 2, inner, (x,))

    inputs = [(torch.tensor(flag), sign * torch.rand(4, 8)) for flag in (True, False) for sign in (1, -1)]
    planner = suite()
    program = _program(Two(), inputs[0], planner)
    for some, result in zip(inputs, _outputs(program, *inputs), strict=True):
        assert torch.allclose(result[0], Two()(*some), atol=1e-5)
    assert planner.arenas[-1].greedy is None  # its two branches share bytes


def test_a_state_and_two_memories() -> None:
    _needs_executorch()
    import torch

    class Counted(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = _attention()
            self.register_buffer("state", torch.zeros(32, 16))

        def forward(self, x: Any) -> Any:
            y = self.inner(x + self.state)
            self.state.add_(y)
            return y.relu() + self.state

    inputs = [(torch.randn(32, 16),) for _ in range(3)]
    net = Counted().requires_grad_(False)
    old, new, apart = (
        _program(net, inputs[0], planner) for planner in (None, suite(), suite(capacity={1: 6000, 2: None}))
    )
    assert sum(_sizes(new)) < sum(_sizes(old))
    assert 0 < _sizes(apart)[1] <= 6000 and _sizes(apart)[2] > 0
    for one, two, three in zip(*(_outputs(each, *inputs) for each in (old, new, apart)), strict=True):
        assert torch.equal(one[0], two[0]) and torch.equal(one[0], three[0])


def test_executorch_finds_the_placement_valid() -> None:
    _needs_executorch()
    import torch
    from executorch.exir.memory_planning import Verifier

    found: list[Any] = []

    def planned(*arguments: Any) -> list[int]:
        found.append((arguments[2], arguments[3]))
        return suite()(*arguments)

    _program(_attention(), (torch.randn(32, 16),), planned)
    graph_module, signature = found[0]
    verifier = Verifier(graph_module, True, True, True, signature)
    assert verifier.verify_storage_reuse() > 0  # raises where live tensors overlap
