"""Make the programs of one device in examples/split: HLO text before any pass of XLA, inputs, and what JAX computes.

    python tools/make_split_examples.py                   # all, to examples/split
    python tools/make_split_examples.py gpt ssm -o DIR    # some, elsewhere
    python tools/make_split_examples.py --large -o DIR    # the large ones: HLO only
    python tools/make_split_examples.py --list

Needs the extra `jax`; those named `flax_*` need `flax` and `transformers<5`, too, and are left out without them. For
a model `M` two files are written, `M.hlo` and `M.npz`, with `in/<parameter>` and `out/nc0/<index in the output
tuple>` (see `example_arrays`). Large models get no data: `haulout run` draws inputs.
Same seed, same JAX, same machine: the same bytes.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import example_arrays
import jax_child
import numpy as np
from hlo_text import entry_parameters

if TYPE_CHECKING:
    from split_program import Model

__all__ = ["hlo", "models"]

SHOWN = Path(__file__).resolve().parent.parent / "examples" / "split"


def models() -> Mapping[str, Callable[..., Model]]:
    """Name of each model, and what makes it; its one argument is `large`. Imports JAX."""
    of = import_module("split_sequences")
    fields = import_module("split_fields")

    def partial(build: Callable[..., Model], *given: Any, **named: Any) -> Callable[..., Model]:
        return lambda large: build(*given, **named, large=large)

    others = {}
    if find_spec("flax") and find_spec("transformers"):
        flax = import_module("split_flax")
        others = {"flax_gpt2": partial(flax.gpt2), "flax_gpt2_train": partial(flax.gpt2, train=True)}
    return {
        "gpt": partial(of.gpt, 8),
        "gpt_one": partial(of.gpt, 1),
        "gpt_train": partial(of.gpt, 8, train=True),
        "gpt_one_train": partial(of.gpt, 1, train=True),
        "resnet": partial(fields.resnet),
        "resnet_train": partial(fields.resnet, train=True),
        "moe": partial(of.moe, by_index=False),
        "moe_train": partial(of.moe, by_index=False, train=True),
        "moe_index": partial(of.moe, by_index=True),
        "moe_index_train": partial(of.moe, by_index=True, train=True),
        "ssm": partial(of.state_space),
        "ssm_train": partial(of.state_space, train=True),
        "ssm_tree": partial(of.state_space, associative=True),
        "rnn_scan": partial(of.rnn, 8),
        "unet": partial(fields.unet),
        "cg": partial(fields.conjugate_gradients),
        **others,
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; without `--child` it only starts the child."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    parser = argparse.ArgumentParser(description="Make example programs of one device with JAX.")
    parser.add_argument("names", nargs="*", help="models to make; default: all")
    parser.add_argument("-o", "--output", type=Path, default=SHOWN, help="directory to write to")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--large", action="store_true", help="large models, without data")
    parser.add_argument("--list", action="store_true", help="print names, make nothing")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(given)
    if not options.child:
        return jax_child.run_again(Path(__file__), ["--child", *given], 1)

    known = models()
    if options.list:
        print(*known, sep="\n")
        return 0
    if unknown := [name for name in options.names if name not in known]:
        print(f"no such model: {', '.join(unknown)}; see --list", file=sys.stderr)
        return 2
    options.output.mkdir(parents=True, exist_ok=True)
    for name in options.names or known:
        model = known[name](large=options.large)
        text, compiled = hlo(model, name)
        (options.output / f"{name}.hlo").write_text(text)
        if not options.large:
            example_arrays.save(options.output / f"{name}.npz", _arrays(model, name, text, compiled, options.seed))
        print(name)
    return 0


def hlo(model: Model, name: str) -> tuple[str, Any]:
    """The text of a model before any pass, without metadata, and what JAX lowered it to."""
    jax: Any = import_module("jax")
    program = import_module("split_program")

    @wraps(model.fn)
    def entry(*args: Any) -> Any:
        return model.fn(*args)

    entry.__name__ = name
    lowered = jax.jit(entry, keep_unused=True, donate_argnums=model.donate).lower(*program.specs_of(model))
    return lowered.compiler_ir("hlo").as_hlo_text(), lowered


def _arrays(model: Model, name: str, text: str, lowered: Any, seed: int) -> dict[str, example_arrays.Array]:
    """Inputs drawn from the seed, by the names of the text, and the results that JAX computes from them."""
    jax: Any = import_module("jax")
    program = import_module("split_program")
    parameters = entry_parameters(text)
    drawn = program.values_of(model, name, seed)
    arrays = {f"in/{each.name}": values for each, values in zip(parameters, drawn, strict=True)}
    shape = jax.tree.structure(model.args, is_leaf=program.is_arg)
    results = jax.tree.leaves(lowered.compile()(*jax.tree.unflatten(shape, list(map(jax.numpy.asarray, drawn)))))
    return arrays | {f"out/nc0/{index}": np.asarray(result) for index, result in enumerate(results)}


if __name__ == "__main__":
    raise SystemExit(main())
