"""Inputs and outputs of `simulate` and `run`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click
import numpy as np
from rich.table import Table

from haulout.cli.common import INPUT, plain_console, print_table
from haulout.ir.paths import result_paths
from haulout.ir.program import Program

inputs_option = click.option(
    "--inputs",
    type=INPUT,
    metavar="FILE",
    help="All inputs (.npz): MODULE/LOCATION, or LOCATION for all cores; a path of JAX, params['w'], is as good as "
    "LOCATION; in/ before it is ignored.",
)
seed_option = click.option(
    "--seed",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Without --inputs, all inputs are drawn from this seed.",
)
expect_option = click.option(
    "--expect",
    type=INPUT,
    metavar="FILE",
    help="Compare with these arrays (.npz): out/MODULE/INDEX, MODULE/LOCATION, or the path of a result of JAX.",
)
output_option = click.option(
    "-o", "--output", metavar="FILE", help="Write every core's outputs to this .npz file; - is stdout."
)


def input_arrays(values: dict[str, np.ndarray[Any, Any]]) -> dict[str, np.ndarray[Any, Any]]:
    """The inputs: the arrays under `in/` if there are any, else all arrays."""
    marked = {name.removeprefix("in/"): value for name, value in values.items() if name.startswith("in/")}
    return marked or values


def agreement_text(wanted: int, different: int, worst: float) -> str:
    """What `--expect` found."""
    return f"{wanted - different} of {wanted} outputs as expected, largest relative error {worst:.2g}"


def print_outputs(outputs: Mapping[str, np.ndarray[Any, Any]], *, err: bool, program: Program | None = None) -> None:
    """A table of the outputs of all cores: a row a name, with what its author calls it in a program of JAX."""
    paths = {} if program is None else dict(zip(program.output_names, result_paths(program), strict=True))
    table = Table(title_justify="left", title_style="bold", title="outputs")
    for heading in ("name", "type", "cores", "least", "mean", "largest"):
        table.add_column(heading, justify="left" if heading in ("name", "type", "cores") else "right")
    by_name: dict[str, list[np.ndarray[Any, Any]]] = {}
    for qualified, value in outputs.items():
        by_name.setdefault(qualified.partition("/")[2], []).append(value)
    for name, values in by_name.items():
        equal = all(value.tobytes() == values[0].tobytes() for value in values)
        numbers = np.concatenate([value.astype(np.float64).ravel() for value in values])
        cells = (
            [f"{each:.6g}" for each in (numbers.min(), numbers.mean(), numbers.max())] if numbers.size else [""] * 3
        )
        same = "equal on all" if equal else "different"
        table.add_row(paths.get(name) or name, f"{values[0].dtype}{list(values[0].shape)}", same, *cells)
    print_table(plain_console(stderr=err), table)
