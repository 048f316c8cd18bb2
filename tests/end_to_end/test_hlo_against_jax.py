"""What haulout computes for the stored examples is what JAX computed for them, on every core.

`data/` is made by `tools/make_examples.py`: the text that XLA partitioned, the inputs of every core, and the result
of every core.  Nothing of haulout was involved in it.  The last test asks the installed JAX again.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

import haulout
from haulout.ir.text import print_bir

Array = NDArray[Any]

DATA = Path(__file__).parent / "data"
JUDGE = Path(__file__).parents[2] / "tools" / "hlo_judge.py"
EXAMPLES = sorted(path.stem for path in DATA.glob("*.hlo"))
TOLERANCE = {"float32": 1e-5, "float16": 1e-2, "bfloat16": 1e-2}
BITS = {
    "bf16": ml_dtypes.bfloat16,
    "f8e4m3fn": ml_dtypes.float8_e4m3fn,
    "f8e5m2": ml_dtypes.float8_e5m2,
}  # dtypes that NumPy's files do not know: stored as integers, under a key with `:dtype` appended

# What the partitioned networks that this project was designed on are made of.
OPCODES = """
    add all-gather all-reduce all-to-all and broadcast call clamp collective-permute compare concatenate conditional
    constant convert convolution copy divide dot dynamic-slice dynamic-update-slice exponential gather
    get-tuple-element iota log maximum multiply negate or pad parameter partition-id reduce reduce-precision
    reduce-scatter reduce-window remainder reshape reverse rsqrt scatter select select-and-scatter slice sort subtract
    tanh topk transpose tuple while
"""


def stored(path: Path) -> dict[str, Array]:
    arrays: dict[str, Array] = {}
    with np.load(path, allow_pickle=False) as file:
        for key in file.files:
            name, _, dtype = key.partition(":")
            arrays[name] = file[key].view(BITS[dtype]) if dtype else file[key]
    return arrays


def part(arrays: dict[str, Array], head: str) -> dict[str, Array]:
    return {key.removeprefix(head): array for key, array in arrays.items() if key.startswith(head)}


def difference(ours: Array, theirs: Array) -> str | None:
    """Why two results are not the same; None when they are, within the tolerance of their dtype."""
    if (ours.shape, ours.dtype) != (theirs.shape, theirs.dtype):
        return f"is {ours.dtype}{list(ours.shape)}, not {theirs.dtype}{list(theirs.shape)}"
    if str(theirs.dtype) not in TOLERANCE:
        wrong = np.flatnonzero(ours != theirs)
        return f"{wrong.size} of {theirs.size} elements differ" if wrong.size else None
    a, b = ours.astype(np.float64), theirs.astype(np.float64)
    error, largest = np.abs(a - b).max(initial=0.0), np.abs(b).max(initial=0.0)
    if error <= TOLERANCE[str(theirs.dtype)] * largest:  # false for NaN, as it must be: no example holds one
        return None
    return f"max|a-b| = {error:.3g}, max|b| = {largest:.3g}"


def disagreements(ours: dict[str, Array], theirs: dict[str, Array]) -> Iterator[str]:
    for key, expected in theirs.items():
        if reason := difference(ours[key], expected):
            yield f"{key}: {reason}"


@pytest.mark.thin(8, "90 s")
@pytest.mark.parametrize("example", EXAMPLES)
def test_every_core_computes_what_jax_computes(example: str) -> None:
    path = DATA / f"{example}.hlo"
    arrays = stored(path.with_suffix(".npz"))
    expected = part(arrays, "out/")
    names = haulout.load(path).output_names

    program = haulout.compile(path).program
    outputs = haulout.simulate(program, part(arrays, "in/")).outputs

    cores = 1 + max(int(key.partition("/")[0][2:]) for key in expected)
    assert len(names) * cores == len(expected)
    ours = {f"nc{core}/{k}": outputs[f"nc{core}/{name}"] for core in range(cores) for k, name in enumerate(names)}
    assert list(disagreements(ours, expected)) == []


@pytest.mark.parametrize("example", ["kv_decode.n2", "kv_decode.n4", "kv_decode.n8", "kv_decode_scan.n4"])
def test_a_decode_step_updates_its_caches_in_place(example: str) -> None:
    """The results are the donated caches themselves, which nothing copies."""
    program = haulout.compile(DATA / f"{example}.hlo").program
    text = print_bir(program)
    caches = set(re.findall(r'mloc %(\S+) .*path="args\[1\]', text))
    assert set(program.output_names[1:]) == caches
    assert len(caches) == (2 if "scan" in example else 4)
    for name in caches:
        uses = re.findall(rf"= (\w+) @\w+ \([^=]*%{re.escape(name)}[,)\[]", text)
        assert "dynamic_update_slice" in uses
        assert set(uses) <= {"dynamic_update_slice", "dynamic_slice", "dot"}


def test_stored_results_are_finite() -> None:
    """`difference` relies on it."""
    for example in EXAMPLES:
        for key, array in stored(DATA / f"{example}.npz").items():
            assert array.dtype == np.bool_ or np.isfinite(array.astype(np.float64)).all(), f"{example} {key}"


def test_examples_hold_every_opcode() -> None:
    found: set[str] = set()
    for example in EXAMPLES:
        text = (DATA / f"{example}.hlo").read_text()
        found |= set(re.findall(r"^ +(?:ROOT )?%\S+ = (?:\(.*?\)|\S+) ([a-z][a-z-]*)\(", text, re.MULTILINE))
    assert set(OPCODES.split()) - found == set()


@pytest.mark.jax
@pytest.mark.skipif(find_spec("jax") is None, reason="needs the extra `jax`")
@pytest.mark.parametrize("example", ["decoder_train.n4", "moe_gspmd.n4", "all_to_all_groups.n8"])
def test_jax_still_computes_what_is_stored(example: str, tmp_path: Path) -> None:
    """The judge for arbitrary HLO text agrees with the run that made the example."""
    source, result = DATA / f"{example}.hlo", tmp_path / "judged.npz"
    command = [
        sys.executable,
        str(JUDGE),
        str(source),
        "--inputs",
        str(source.with_suffix(".npz")),
        "-o",
        str(result),
    ]
    subprocess.run(command, check=True, capture_output=True)
    assert list(disagreements(part(stored(result), "out/"), part(stored(source.with_suffix(".npz")), "out/"))) == []
