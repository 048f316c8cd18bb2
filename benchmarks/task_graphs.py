"""Growth of the check of task graphs, on layers of a model written as both forms of files.

    python benchmarks/task_graphs.py [--sizes 12000,100000] [--width 64] [--fault]

Each layer has `width` tasks. Each of them reads a tile of columns of one matrix, or all of it in every second layer,
and writes a tile of the other; so matrices are written again two layers later, and a layer must wait for all readers.
With `--fault` the waits of one layer are left out. A size runs in a process of its own, on compiled kernels.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

NO_EVENT = 0x7FFFFFFFFFFFFFFE
ROWS = 128


def slices(layer: int, task: int, width: int) -> tuple[tuple[int, list[int], int], tuple[int, list[int], int]]:
    """(tensor, shape, first column) of what a task reads, and of what it writes; tiles have 64 columns."""
    reads = (layer % 2, [ROWS, 64 * width], 0) if layer % 4 >= 2 else (layer % 2, [ROWS, 64], 64 * task)
    return reads, ((layer + 1) % 2, [ROWS, 64], 64 * task)


def dump(size: int, width: int, fault: bool) -> dict[str, Any]:
    """A dependency dump: edges from tile to tile, or from all tiles."""
    tasks, edges = [], []
    broken = size // width // 2 // 4 * 4 + 2
    for number in range(size):
        layer, task = divmod(number, width)
        args = []
        for kind, (tensor, shape, column) in zip(
            ("INPUT", "OUTPUT_EXISTING"), slices(layer, task, width), strict=True
        ):
            place = {"start_offset": str(column), "strides": [64 * width, 1], "shape": shape}
            args.append({"type": kind, "tensor_id": str(tensor), "dtype": "BFLOAT16", **place})
        tasks.append({"task_id": str(number), "args": args})
        first = (layer - 1) * width
        if layer and not (fault and layer == broken):
            every = layer % 4 >= 2 or (layer - 1) % 4 >= 2
            before = range(first, first + width) if every else [first + task]
            edges += [{"pred": str(each), "succ": str(number), "flags": ["wait"]} for each in before]
    tensors = [
        {
            "tensor_id": str(at),
            "buffer_addr": str(at << 30),
            "dtype": "BFLOAT16",
            "buffer_numel": str(ROWS * 64 * width),
        }
        for at in range(2)
    ]
    return {"tasks": tasks, "tensors": tensors, "edges": edges}


def kernel(size: int, width: int, fault: bool) -> dict[str, Any]:
    """A persistent kernel: an event a layer."""
    layers = (size + width - 1) // width
    broken = layers // 2 // 4 * 4 + 2
    tasks = []
    for number in range(size):
        layer, task = divmod(number, width)
        sides = [
            [
                {
                    "base_ptr": f"t{tensor}",
                    "offset": 2 * column,
                    "dims": shape,
                    "strides": [64 * width, 1],
                    "data_type": 941,
                }
            ]
            for tensor, shape, column in slices(layer, task, width)
        ]
        waits = layer > 0 and not (fault and layer == broken)
        events = {"trigger_event": layer, "dependent_event": layer - 1 if waits else NO_EVENT}
        tasks.append({"task_type": 120, "inputs": sides[0], "outputs": sides[1], **events})
    events = [
        {"event_type": 900, "num_triggers": min(width, size - layer * width), "first_task_id": 0, "last_task_id": 0}
        for layer in range(layers)
    ]
    return {"all_tasks": tasks, "all_events": events, "first_tasks": []}


def measure(path: str, fault: bool) -> dict[str, float]:
    """Seconds to read and to check a file."""
    from haulout import tasks
    from haulout.checker.tasks import check_task_graph

    make = {"dump": dump, "kernel": kernel}[Path(path).name.split("-")[0]]
    with TemporaryDirectory() as folder:
        small = Path(folder) / "small.json"
        small.write_text(json.dumps(make(256, 16, True)))
        tasks.check(small, fix=True)
    began = perf_counter()
    graph = tasks.load(path)
    read = perf_counter()
    checked = check_task_graph(graph, fix=fault)
    ended = perf_counter()
    assert checked.ok != fault, checked.diagnostics[:1]
    assert checked.verified == fault
    return {
        "edges": len(graph.source),
        "pairs that need an order": checked.needed,
        "races": checked.races,
        "edges of the fix": len(checked.edges),
        "read": round(read - began, 2),
        "check": round(ended - read, 2),
        "total": round(ended - began, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default="12000,100000")
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--fault", action="store_true")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one is not None:
        print(json.dumps(measure(options.one, options.fault)))
        return
    with TemporaryDirectory() as folder:
        for name, make in (("dump", dump), ("kernel", kernel)):
            for size in [int(each) for each in options.sizes.split(",")]:
                path = Path(folder) / f"{name}-{size}.json"
                path.write_text(json.dumps(make(size, options.width, options.fault)))
                command = [sys.executable, __file__, "--one", str(path), *["--fault"] * options.fault]
                done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
                figures = ", ".join(f"{key} {value:,}" for key, value in json.loads(done.stdout).items())
                print(f"{name} {size:,} tasks, {path.stat().st_size / 2**20:.0f} MiB: {figures}")


if __name__ == "__main__":
    main()
