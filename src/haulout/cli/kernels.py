"""Options of commands that accept an NKI kernel, `kernels.py::function`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from haulout import api
from haulout.cli.common import INPUT
from haulout.support.diagnostics import Diagnostic, bad_input

if TYPE_CHECKING:
    from haulout.frontends.nki import BarrierScope
    from haulout.ir.program import Program


def kernel_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--arg`, `--args` and `--barrier-scope`."""
    for option in reversed(
        (
            click.option(
                "--arg",
                "arg",
                multiple=True,
                metavar="NAME=VALUE",
                help="An argument of the kernel: x=bf16[4,1,1024], idx=@idx.npy, k=4, size=(5,5). Repeatable.",
            ),
            click.option(
                "--args", "args_file", type=INPUT, metavar="FILE.toml", help="Arguments of the kernel from a file."
            ),
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


def kernel_arguments(source: str, arg: Sequence[str], args_file: str | None) -> dict[str, Any]:
    """The arguments of both options; `--arg` overrides `--args`. `bad-input` if INPUT has some and is no kernel."""
    if not arg and not args_file:
        return {}
    if not api.is_kernel(source):
        bad_input(
            f"{'--arg' if arg else '--args'}: {source} has no arguments", help=["a kernel is FILE.py::FUNCTION"]
        )
    from haulout.frontends.nki import load_arguments, parse_arguments

    return (load_arguments(args_file) if args_file else {}) | parse_arguments(arg)


def load_input(
    source: str, lnc: int | None, arguments: dict[str, Any], barrier_scope: BarrierScope
) -> tuple[Program, list[Diagnostic]]:
    """The program of INPUT, and what the trace of a kernel found."""
    if not api.is_kernel(source):
        return api.load(source, lnc=lnc), []
    from haulout.ir.verify import check_sound
    from haulout.nki import trace

    traced = trace(source, arguments, lnc=lnc or 2, barrier_scope=barrier_scope)
    return check_sound(traced.program), traced.findings
