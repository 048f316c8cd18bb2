"""Make the example programs: HLO text as XLA partitioned it, inputs, and what JAX computes, core by core.

    python tools/make_examples.py                          # all: tests/end_to_end/data and examples/jax
    python tools/make_examples.py mlp_tp chain -o DIR      # some, elsewhere
    python tools/make_examples.py mlp_tp --cores 4 8 -o DIR
    python tools/make_examples.py --list

Needs the extra `jax`.  For an example `E` on N cores two files are written:

- `E.n<N>.hlo`: the module after the spmd-partitioning pass, as XLA dumps it;
- `E.n<N>.npz`: `in/nc<core>/<parameter>` and `out/nc<core>/<index in the output tuple>` (see `example_arrays`).

The recipe: one child process for each number of cores, with that many devices and XLA's dump switched on; there,
for each example: draw the arguments from the seed, lower and compile (`keep_unused=True`), run, take every device's
shard of every argument and result, take the dump, check that the two agree in shape.  Same seed, same JAX, same
machine: the same bytes.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import example_arrays
import jax_child
import numpy as np
from example_arrays import Array
from hlo_text import entry_parameters

from haulout.frontends.hlo.lost_shardings import with_shardings

if TYPE_CHECKING:
    from example_program import Example

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "tests" / "end_to_end" / "data"
SHOWN = ROOT / "examples" / "jax"
SHOWN_NAMES = ("mlp_tp.n2", "decoder_train.n4", "ring_matmul.n4", "clipped_steps.n4", "kv_decode.n4")
CORES = (2, 4, 8)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; without `--child` it only starts a child for each number of cores."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    parser = argparse.ArgumentParser(description="Make example programs with JAX.")
    parser.add_argument("names", nargs="*", help="examples to make; default: all")
    parser.add_argument("-o", "--output", type=Path, default=DATA, help="directory to write to")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cores", type=int, nargs="+", choices=CORES, help="default: each example's own")
    parser.add_argument("--list", action="store_true", help="print names and numbers of cores, make nothing")
    parser.add_argument("--child", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args(given)
    if options.child:
        return make(options.child, options)

    options.output.mkdir(parents=True, exist_ok=True)
    for cores in CORES[:1] if options.list else options.cores or CORES:
        with tempfile.TemporaryDirectory() as dump:
            status = jax_child.run_again(
                Path(__file__), [*given, "--child", str(cores)], cores, None if options.list else Path(dump)
            )
        if status:
            return status
    if not options.names and not options.list and options.output == DATA:
        SHOWN.mkdir(parents=True, exist_ok=True)
        for name in SHOWN_NAMES:
            for suffix in (".hlo", ".npz"):
                shutil.copyfile(DATA / f"{name}{suffix}", SHOWN / f"{name}{suffix}")
    return 0


def make(cores: int, options: argparse.Namespace) -> int:
    """In the child: make the examples for `cores` cores."""
    groups = ("models", "decoding", "images", "collectives", "operations", "branches", "algorithms")
    examples: list[Example] = [e for group in groups for e in import_module(f"example_{group}").EXAMPLES]
    texts = import_module("example_texts").TEXTS
    known = {e.name: e.cores for e in examples} | {t.name: t.cores for t in texts}
    if options.list:
        for name, counts in known.items():
            print(name, *counts)
        return 0
    if unknown := [name for name in options.names if name not in known]:
        print(f"no such example: {', '.join(unknown)}; see --list", file=sys.stderr)
        return 2

    asked = bool(options.names and options.cores)
    wanted = {name for name in options.names or known if asked or cores in known[name]}
    for example in examples:
        if example.name in wanted:
            _write(options.output / f"{example.name}.n{cores}", *_run(example, cores, options.seed))
    judge = import_module("hlo_judge")
    for written in texts:
        if written.name in wanted:
            text = written.build(cores)
            inputs = judge.drawn(entry_parameters(text), cores, options.seed)
            results = judge.execute(written.same(cores) if written.same else text, inputs)
            _write(options.output / f"{written.name}.n{cores}", text, inputs | results)
    return 0


def _run(example: Example, cores: int, seed: int) -> tuple[str, dict[str, Array]]:
    """Compile and run one example: its text, and its arrays on every core."""
    jax: Any = import_module("jax")
    # Instructions name the source lines they come from: those of the example, relative to the project.
    import_module("jax._src.source_info_util").register_exclusion(__file__)
    jax.config.update("jax_hlo_source_file_canonicalization_regex", f"{ROOT}{os.sep}")
    program = example.build(cores)

    def place(path: Any, arg: Any) -> Any:
        key = example.name + jax.tree_util.keystr(path)
        return jax.device_put(arg.values(seed, key), program.sharding(arg.spec))

    def is_spec(node: Any) -> bool:
        return isinstance(node, jax.sharding.PartitionSpec)

    def entry(*args: Any) -> Any:
        return program.fn(*args)

    entry.__name__ = example.name
    is_arg = import_module("example_program").Arg
    args = jax.tree_util.tree_map_with_path(place, program.args, is_leaf=lambda node: isinstance(node, is_arg))
    out = {}
    if program.out is not None:
        out["out_shardings"] = jax.tree.map(program.sharding, program.out, is_leaf=is_spec)
    function = jax.jit(entry, donate_argnums=program.donate, keep_unused=True, **out)
    inputs = [_shards(leaf, cores) for leaf in jax.tree.leaves(args)]
    compiled = function.lower(*args).compile()
    outputs = [_shards(leaf, cores) for leaf in jax.tree.leaves(compiled(*args))]

    text = _dumped(example.name)
    parameters = entry_parameters(text)
    arrays: dict[str, Array] = {}
    for core in range(cores):
        for parameter, shards in zip(parameters, inputs, strict=True):
            if shards[core].shape != parameter.shape:
                raise ValueError(f"{example.name}: {parameter} is not {shards[core].shape}")
            arrays[f"in/nc{core}/{parameter.name}"] = shards[core]
    for core in range(cores):
        for index, shards in enumerate(outputs):
            arrays[f"out/nc{core}/{index}"] = shards[core]
    return text, arrays


def _shards(array: Any, cores: int) -> list[Array]:
    """What each core holds of a global array; core k is device k."""
    by_device = {shard.device.id: np.array(shard.data) for shard in array.addressable_shards}
    return [by_device[core] for core in range(cores)]


def _dumped(name: str) -> str:
    """The text that XLA dumped when it compiled the example, with the shardings that it leaves out from 0.12 on."""
    flag = next(f for f in os.environ["XLA_FLAGS"].split() if f.startswith("--xla_dump_to="))
    folder = Path(flag.partition("=")[2])
    (after,) = folder.glob(f"*.jit_{name}.*.after_spmd-partitioning.*txt")
    (before,) = folder.glob(f"*.jit_{name}.*.before_spmd-partitioning.txt")
    return with_shardings(after.read_text(), before.read_text())


def _write(stem: Path, text: str, arrays: dict[str, Array]) -> None:
    stem.with_name(f"{stem.name}.hlo").write_text(text)
    example_arrays.save(stem.with_name(f"{stem.name}.npz"), arrays)
    print(stem.name)


if __name__ == "__main__":
    raise SystemExit(main())
