"""Run HLO files with haulout's simulator and with XLA, on the same drawn inputs, and print how far apart they are.

    python tools/compare_with_xla.py FILE.hlo ... [--seed 0]

One line a file: the number of results (over all cores), the largest relative error (max|a-b| / max|b|) of a float
result, and how many results are beyond tolerance (1e-5; 1e-2 for 16-bit floats; integers must be equal).  The exit
status is 1 when any is.  Files may be large: this is what the small stored examples cannot show.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from example_arrays import Array
from hlo_judge import run_hlo

import haulout

__all__ = ["main"]

_TOLERANCE = {4: 1e-5, 8: 1e-5, 2: 1e-2, 1: 1e-1}  # by the size of a float


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(description="Compare haulout's simulator with XLA on HLO files.")
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    beyond = 0
    for path in options.files:
        errors = compare(path, options.seed)
        worst, failed = max(error for error, _ in errors), sum(not good for _, good in errors)
        print(f"{path.name}: {len(errors)} results, worst {worst:.1e}, {failed} beyond tolerance", flush=True)
        beyond += failed
    return int(beyond > 0)


def compare(path: Path, seed: int) -> list[tuple[float, bool]]:
    """For every result of every core: its error, and whether that is within tolerance."""
    judged = run_hlo(path, seed=seed)
    inputs = {key.removeprefix("in/"): array for key, array in judged.items() if key.startswith("in/")}
    names = haulout.load(path).output_names
    outputs = haulout.simulate(haulout.compile(path).program, inputs).outputs
    errors = []
    for key, expected in judged.items():
        if key.startswith("out/"):
            _, core, index = key.split("/")
            errors.append(_error(outputs[f"{core}/{names[int(index)]}"], expected))
    return errors


def _error(ours: Array, theirs: Array) -> tuple[float, bool]:
    if (ours.shape, ours.dtype) != (theirs.shape, theirs.dtype):
        return float("inf"), False
    if theirs.dtype.kind in "biu":
        equal = np.array_equal(ours, theirs)
        return 0.0 if equal else float("inf"), equal
    a, b = ours.astype(np.float64), theirs.astype(np.float64)
    if not np.array_equal(np.isfinite(a), np.isfinite(b)):
        return float("inf"), False
    finite = np.isfinite(b)
    error = float(np.abs(a - b)[finite].max(initial=0.0)) / float(np.abs(b)[finite].max(initial=1e-300))
    return error, error <= _TOLERANCE[theirs.dtype.itemsize]


if __name__ == "__main__":
    raise SystemExit(main())
