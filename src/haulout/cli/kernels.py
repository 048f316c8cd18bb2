"""Options of commands that accept an NKI kernel, `kernels.py::function`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import click


def kernel_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--arg`, `--args` and `--barrier-scope`."""
    for option in reversed(
        (
            click.option(
                "--arg",
                "arg",
                multiple=True,
                metavar="NAME=VALUE",
                help="An argument of the kernel: x=bf16[4,1,1024], idx=@idx.npy, k=4. Repeatable.",
            ),
            click.option("--args", "args_file", metavar="FILE.toml", help="Arguments of the kernel from a file."),
            click.option(
                "--barrier-scope",
                type=click.Choice(["data", "global"]),
                default="data",
                show_default=True,
                help="The accesses that core_barrier orders: of its tensor, as documented, or all.",
            ),
        )
    ):
        command = option(command)
    return command


def kernel_arguments(arg: Sequence[str], args_file: str | None) -> dict[str, Any]:
    """The arguments of both options; `--arg` overrides `--args`."""
    if not arg and not args_file:
        return {}
    from haulout.frontends.nki import load_arguments, parse_arguments

    return (load_arguments(args_file) if args_file else {}) | parse_arguments(arg)
