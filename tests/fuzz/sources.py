"""What mutants are made from, by kind: files, how each is broken, and the command lines that read it."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from tests.checker.task_graphs import random_dump, random_kernel
from tests.fuzz.mutants import mutate_bytes, mutate_python, mutate_store, mutate_text

import haulout
from haulout.ir.store import save_program
from haulout.ir.text import print_bir
from haulout.ir.values import save_values

ROOT = Path(__file__).parents[2]
DATA = Path(__file__).parent / "data"
TEXTS = [*sorted(DATA.glob("*.bir")), *sorted((ROOT / "examples" / "race").glob("*.bir"))]
MODULES = [
    path
    for folder in ("tests/end_to_end/data", "tests/frontends/hlo/data")
    for path in sorted((ROOT / folder).glob("*.hlo"))
    if path.stat().st_size < 16000
]
KINDS = ("bir", "hlo", "nki", "csv", "npz", "toml", "tasks")

_SIMULATE = "simulate -q --max-instructions 2000"
_PROGRAM = (
    "check {}",
    "compile -q {} -o {out}",
    "check --format json {}",
    "compile -q --fences bracket --sync semaphores --format json {} -o {out}",
    f"{_SIMULATE} {{}} -o {{out}}/values.npz",
    "compile -q --sync all --partitions joint --target trainium {} -o {out}",
    f"{_SIMULATE} --schedule all {{}}",
    "run -q --max-instructions 2000 {} -o {out}/values.npz",
    "opt -q {} -o {out}/program.bir",
    "check --format sarif --lnc 2 {} {}",
    "reduce {} --code cross-core-race --time-limit 0.2 -o {out}/program.bir",
    "map {} -o {out}/map.html",
    "explain-split {} --split axis=0",
    "trace {} -o {out}/trace.json",
    "compare --max-instructions 2000 {} {}",
    "compile -q -O3 --split x=0 {} -o {out}",
    "opt -q --passes build_fdeps,extend_shared_lifetimes --print-after build_fdeps {}",
)
_KERNELS = {
    ROOT / "examples/nki/two_core_sum.py": ["two_core_sum --arg x=bf16[64,32]"],
    ROOT / "examples/nki/split_qkv.py": ["split_qkv --arg x=bf16[256,128] --arg weights=bf16[128,96]"],
    ROOT / "examples/nki/fused_mlp.py": ["fused_mlp --args examples/nki/fused_mlp.toml"],
    ROOT / "examples/nki/broken/two_core_sum.py": ["two_core_sum --arg x=bf16[64,32]"],
    DATA / "kernels.py": [
        "exchange --arg x=f32[64,16]",
        "loops --arg x=f32[64,16] --arg steps=2",
        "gathered --arg x=f32[64,16] --arg idx=i32[8,1]{{0:64}}",
    ],
}


_GRAPHS = ("check {}", "check --fix --format json {}")


@dataclass(frozen=True)
class Source:
    """A sound file. In a command, `{}` is the mutant's path and `{out}` a folder for what is written."""

    name: str
    """The file's name, which says how it is read."""
    data: bytes
    mutate: Callable[[bytes, int], bytes]
    commands: tuple[str, ...] = field(repr=False)


@cache
def sources(kind: str) -> list[Source]:
    """All sources of a kind."""
    match kind:
        case "bir":
            compiled = [print_bir(haulout.compile(path).program).encode() for path in TEXTS]
            texts = [path.read_bytes() for path in TEXTS] + compiled
            return [Source("mutant.bir", text, mutate_text, _PROGRAM) for text in texts]
        case "hlo":
            return [Source("mutant.hlo", path.read_bytes(), mutate_text, _PROGRAM) for path in MODULES]
        case "nki":
            return [
                Source("mutant.py", path.read_bytes(), mutate_python, _of_kernel(tuple(calls)))
                for path, calls in _KERNELS.items()
            ]
        case "csv":
            plan = (
                "plan -q {} -o {out}/placed.csv",
                "plan -q --capacity 5000 --spread --format json {}",
                "plan -q --segment 64 --effort 0 {} -o {out}/placed.csv",
                "map {} -o {out}/map.html",
            )
            return [
                Source("mutant.csv", (DATA / "plan.csv").read_bytes(), mutate_text, plan),
                Source("mutant.csv", (DATA / "placed.csv").read_bytes(), mutate_text, plan[-1:]),
                Source("mutant.txt", (DATA / "buffer-assignment.txt").read_bytes(), mutate_text, plan[:3]),
            ]
        case "npz":
            return [*_stores(), *_values()]
        case "toml":
            target = (f"compile -q --target {{}} {TEXTS[0]} -o {{out}}",)
            arguments = tuple(
                f"{command} {DATA / 'kernels.py'}::loops --args {{}}"
                for command in ("check", "compile -q -o {out}", "check --format json")
            )
            presets = [ROOT / f"src/haulout/target/presets/{name}.toml" for name in ("generic", "trainium")]
            return [
                *(Source("mutant.toml", path.read_bytes(), mutate_text, target) for path in presets),
                *(Source("mutant.toml", DATA.joinpath("arguments.toml").read_bytes(), mutate_text, arguments),) * 2,
            ]
        case "tasks":
            graphs = [random_dump(5), random_dump(11), random_kernel(5, exact=True), random_kernel(8, exact=False)]
            return [
                Source("mutant.json", json.dumps(each, indent=1).encode(), mutate_text, _GRAPHS) for each in graphs
            ]
    raise ValueError(kind)


def _of_kernel(calls: tuple[str, ...]) -> tuple[str, ...]:
    forms = ("check {}::CALL", "compile -q -o {out} {}::CALL", "check --format json --barrier-scope global {}::CALL")
    return tuple(
        form.replace("CALL", call.replace("examples/", f"{ROOT}/examples/")) for call in calls for form in forms
    )


def _stores() -> list[Source]:
    made = []
    with TemporaryDirectory() as folder:
        path = Path(folder) / "store.npz"
        for text in [*TEXTS, ROOT / "tests/end_to_end/data/tuple_all_reduce.n2.hlo"]:
            save_program(haulout.load(text), path)
            made.append(Source("mutant.npz", path.read_bytes(), mutate_store, _PROGRAM))
    return made


def _values() -> list[Source]:
    program = ROOT / "examples/race/sum_fixed.bir"
    result = haulout.simulate(program)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "values.npz"
        save_values(result.outputs, path)
        outputs = path.read_bytes()
        shape = np.zeros((4, 256), np.float32)
        save_values({"in/x": shape, "in/nc1/x": shape + 1, "out/nc0/0": shape}, path)
        inputs = path.read_bytes()
    known = io.BytesIO()
    np.save(known, np.arange(8, dtype=np.int32).reshape(8, 1))
    gathered = f"{DATA / 'kernels.py'}::gathered --arg x=f32[64,16] --arg idx=@{{}}"
    return [
        Source("mutant.npz", inputs, mutate_store, (f"{_SIMULATE} {program} --inputs {{}} -o {{out}}/values.npz",)),
        Source("mutant.npz", outputs, mutate_store, (f"{_SIMULATE} {program} --expect {{}}",)),
        Source(
            "mutant.npy", known.getvalue(), mutate_bytes, (f"check {gathered}", f"compile -q -o {{out}} {gathered}")
        ),
    ]
