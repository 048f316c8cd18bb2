"""The planner of TensorFlow Lite's micro interpreter against ours, on the networks of `tflite_models.py`.

    python benchmarks/tflite_table.py [NAME ...]

A row a network: buffers, the interpreter's own planner (reimplemented: `micro_greedy`) over the lower bound, ours
over the bound, processor seconds of reading and planning, cold and warm; whether the model with the offline plan has
equal outputs in ai-edge-litert, where that is installed (it reads the file; it has an arena planner of its own).
"""

from __future__ import annotations

import argparse
import importlib.util
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from tflite_models import MODELS

from haulout.packing import Solution, solve
from haulout.packing.tflite_model import read_tflite, with_offline_plan


def planned(path: Path) -> tuple[Solution, int, int, float]:
    """The placement, buffers, the interpreter's own peak, and seconds."""
    start = time.process_time()
    table = read_tflite(path)
    solution = solve(table.problem, hint=table.hint)
    seconds = time.process_time() - start
    assert table.own_planner is not None
    return solution, len(table.ids), table.own_planner[1], seconds


def outputs(path: Path) -> list[Any]:
    """What the interpreter computes from inputs that are drawn."""
    from ai_edge_litert.interpreter import Interpreter

    run = Interpreter(model_path=str(path))
    run.allocate_tensors()
    drawn = np.random.default_rng(0)
    for each in run.get_input_details():
        run.set_tensor(each["index"], drawn.standard_normal(each["shape"]).astype(np.float32))
    run.invoke()
    return [run.get_tensor(each["index"]).copy() for each in run.get_output_details()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", default=list(MODELS))
    print("| network | buffers | micro / bound | bound, bytes | ours / bound | cold, s | warm, s | outputs |")
    print("|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for name in parser.parse_args().names:
            path, out = Path(folder, "model.tflite"), Path(folder, "planned.tflite")
            path.write_bytes(MODELS[name]().file())
            _, _, _, cold = planned(path)
            solution, buffers, theirs, warm = planned(path)
            out.write_bytes(with_offline_plan(path, solution.offset))
            seen = ""
            if importlib.util.find_spec("ai_edge_litert"):
                pairs = zip(outputs(path), outputs(out), strict=True)
                seen = "equal" if all(np.array_equal(one, two) for one, two in pairs) else "DIFFERENT"
            bound = solution.lower_bound
            print(
                f"| {name} | {buffers} | {theirs / bound:.3f} | {bound} | {solution.peak / bound:.3f} "
                f"| {cold:.3f} | {warm:.3f} | {seen} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
