"""ExecuTorch's own planner against ours, on the networks of `executorch_models.py`.

    python benchmarks/executorch_table.py [NAME ...] [--run]

A row a network: tensors, ExecuTorch's greedy algorithm over the lower bound, ours over the bound, seconds of the
processor for both; ours cold, then warm, without greedy. `--run` also executes both programs in the runtime, and
compares their outputs and the arenas.
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import Any

import torch
from executorch.exir import ExecutorchBackendConfig, to_edge
from executorch.exir.memory_planning import greedy
from executorch.exir.passes import MemoryPlanningPass
from executorch_models import MODELS

import haulout.executorch


def planned(exported: torch.export.ExportedProgram, algorithm: Any = None) -> bytes:
    """The `.pte` with an algorithm; None: ExecuTorch's own."""
    passes = MemoryPlanningPass(memory_planning_algo=algorithm)
    return bytes(to_edge(exported).to_executorch(ExecutorchBackendConfig(memory_planning_pass=passes)).buffer)


def execute(pte: bytes, inputs: tuple[torch.Tensor, ...]) -> tuple[list[torch.Tensor], list[int]]:
    """The outputs, and the bytes of each arena that the file makes the runtime allocate."""
    from executorch.exir._serialize._program import deserialize_pte_binary
    from executorch.runtime import Runtime

    method = Runtime.get().load_program(pte).load_method("forward")
    assert method is not None
    (plan,) = deserialize_pte_binary(pte).program.execution_plan
    return [each.clone() for each in method.execute(inputs)], plan.non_const_buffer_sizes


class Timed:
    """Plans a graph several times and keeps the seconds of each time, and those of greedy."""

    def __init__(self) -> None:
        self.ours: list[float] = []
        self.theirs = 0.0
        self.planner = haulout.executorch.suite()

    def __call__(self, *arguments: Any) -> list[int]:
        start = time.process_time()
        greedy(*arguments)
        self.theirs = time.process_time() - start
        for _ in range(3):
            self.planner.arenas.clear()
            for spec in arguments[1]:
                spec.mem_id = None
            start = time.process_time()
            sizes = self.planner(*arguments)
            self.ours.append(time.process_time() - start - self.theirs)
        return sizes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", default=list(MODELS))
    parser.add_argument("--run", action="store_true")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    print("| network | tensors | greedy | bound | ours | greedy, s | ours cold, s | warm, s | runtime |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name in arguments.names:
        torch.manual_seed(0)
        net, inputs = MODELS[name]()
        exported = torch.export.export(net.eval(), inputs)
        timed = Timed()
        pte = planned(exported, timed)
        (arena,) = timed.planner.arenas
        seen = ""
        if arguments.run:
            before, old = execute(planned(exported), inputs)
            after, new = execute(pte, inputs)
            equal = all(torch.equal(one, two) for one, two in zip(before, after, strict=True))
            seen = f"{'equal' if equal else 'DIFFERENT'}, {sum(old)} to {sum(new)} bytes"
        assert arena.greedy is not None
        print(
            f"| {name} | {arena.tensors} | {arena.greedy / arena.lower_bound:.3f} | {arena.lower_bound} "
            f"| {arena.peak / arena.lower_bound:.3f} | {timed.theirs:.3f} | {timed.ours[0]:.3f} "
            f"| {min(timed.ours[1:]):.3f} | {seen} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
