"""Outputs compared with expected ones, for example those that JAX computed.

Floats agree when `max|a - b| <= tolerance * max|b|`, with a tolerance for each element type; everything else agrees
when it is equal. NaN agrees only with NaN.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from haulout.ir.paths import result_paths
from haulout.ir.program import Program
from haulout.ir.values import load_values
from haulout.support.diagnostics import Diagnostic, Severity, bad_input
from haulout.support.readers import read_npy

TOLERANCE = {"float64": 1e-10, "float32": 1e-5, "float16": 1e-2, "bfloat16": 1e-2}
"""Relative to the largest expected magnitude; the f8 types: 0.1."""

Array = npt.NDArray[Any]


def expected_outputs(program: Program, values: Mapping[str, Array]) -> dict[str, Array]:
    """Expected arrays by `MODULE/LOCATION`, from `out/MODULE/INDEX`, `MODULE/LOCATION`, `MODULE/PATH` or `PATH`.

    INDEX is the position in the source's result tuple (`Program.output_names`), PATH what its author calls a result
    (`ir/paths.py`); without a module it is the result of every core.
    """
    names = program.output_names
    paths = {path: name for name, path in zip(names, result_paths(program), strict=True) if path is not None}
    modules = [program.strings[name] for name in program.modules.name.tolist()]
    found: dict[str, Array] = {}
    for key, value in values.items():
        if key.startswith("in/"):
            continue
        if (path := key.removeprefix("out/")) in paths:
            found |= {f"{module}/{paths[path]}": value for module in modules}
            continue
        module, _, last = key.removeprefix("out/").partition("/")
        last = paths.get(last, last)
        if key.startswith("out/") and last.isdecimal():
            if int(last) >= len(names):
                bad_input(f"{key}: the program has {len(names)} outputs")
            last = names[int(last)]
        found[f"{module}/{last}"] = value
    if not found:
        bad_input("no expected outputs: names are out/MODULE/INDEX, MODULE/LOCATION, or paths of results")
    return found


def expected_results(path: Path, results: Sequence[Array]) -> dict[str, Array]:
    """Expected results of a kernel as `result N`: the array of an .npy file, which is result 0, or those of an .npz
    file, named by position, `out/0` or `0`. Floats are rounded to the type of the result, which files may not have.
    """
    given = {"0": read_npy(path)} if path.suffix == ".npy" else load_values(path)
    found: dict[str, Array] = {}
    for key, value in given.items():
        number = key.removeprefix("out/")
        if not number.isdecimal() or int(number) >= len(results):
            names = ["names are their positions: 0, 1, ..."]
            bad_input(f"{path}: {key} is not one of the {len(results)} results", help=names)
        wanted = results[int(number)].dtype
        is_wide = value.dtype.kind == "f" and wanted.kind not in "iub"
        found[f"result {int(number)}"] = value.astype(wanted) if is_wide else value
    return found


def compare_outputs(outputs: Mapping[str, Array], expected: Mapping[str, Array]) -> tuple[list[Diagnostic], float]:
    """An `unexpected-output` for each array that disagrees, and the largest relative error among floats."""
    findings: list[Diagnostic] = []
    worst = 0.0
    for name, want in expected.items():
        got = outputs.get(name)
        if got is None:
            bad_input(f"unknown expected output {name}", help=[f"outputs: {', '.join(outputs)}"])
        message, error = _difference(got, want)
        worst = max(worst, error)
        if message:
            findings.append(Diagnostic("unexpected-output", Severity.ERROR, f"{name}: {message}"))
    return findings, worst


def _difference(got: Array, want: Array) -> tuple[str, float]:
    """Why two arrays disagree ("" when they agree), and the relative error of floats."""
    if got.dtype != want.dtype or got.shape != want.shape:
        return f"is {got.dtype}{list(got.shape)}, expected {want.dtype}{list(want.shape)}", 0.0
    kind = str(want.dtype)
    if kind not in TOLERANCE and not kind.startswith(("float8", "complex")):
        wrong = int(np.count_nonzero(got != want))
        return (f"{wrong} of {want.size} elements differ" if wrong else ""), 0.0
    if want.dtype.kind == "c":
        got, want = (np.stack([each.real, each.imag]) for each in (got, want))
        kind = str(want.dtype)
    a, b = got.astype(np.float64), want.astype(np.float64)
    if not np.array_equal(np.isfinite(a), np.isfinite(b)) or not np.array_equal(
        a[~np.isfinite(a)], b[~np.isfinite(b)], equal_nan=True
    ):
        return "elements that are not finite differ", 0.0
    finite = np.isfinite(b)
    largest = float(np.abs(b[finite]).max(initial=0.0))
    off = float(np.abs(a[finite] - b[finite]).max(initial=0.0))
    error = off / largest if largest else off
    limit = TOLERANCE.get(kind, 0.1)
    return (f"max|a-b| = {off:.3g}, max|b| = {largest:.3g}, limit {limit:g}" if error > limit else ""), error
