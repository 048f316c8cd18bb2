"""Modules that XLA has not partitioned are refused, unless haulout is to divide them (`annotations.py`).

Every core runs the text as it is.

A module before partitioning has the shapes of the whole program, so each core would compute all of it. Each of these
constructs shows it, and is refused at its place:

    sharding={devices=...} on anything but a parameter of the entry     the partitioner splits each value once
    custom-call of Sharding, SPMDFullToShardShape, xla.sdy....          the partitioner resolves these
    xla.sdy.meshes, xla.sdy.sharding in frontend attributes             Shardy resolves these before the partitioner
    a sharding of more devices than num_partitions                      the header says that it is for fewer

Parameters of a partitioned entry keep their shardings, which describe how the caller splits its arguments. A module
without any other of these constructs could be either; it counts as partitioned.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import NoReturn

from haulout.frontends.hlo.model import HloModule, Instruction
from haulout.frontends.hlo.source import Excerpt
from haulout.support.diagnostics import HauloutError

HOW = (
    "partition it first: haulout.jax.lower(fn, *specs, mesh=..., in_shardings=...) lets XLA do it",
    "or run it with XLA_FLAGS='--xla_dump_to=DIR --xla_dump_hlo_pass_re=spmd-partitioning', and take the file "
    "DIR/*.after_spmd-partitioning*.txt",
)
"""What to do about a module that is not partitioned as it should be."""
_OR_DIVIDE = (*HOW, "or let haulout divide it, with --lnc N: then its shardings ask for cuts")

_MARKS = ("Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape")
_SHARDY = ("xla.sdy.", "sdy.")
_TILES = re.compile(r"devices=\[([0-9,]+)\]")
_LISTED = re.compile(r"devices=\[[0-9,]+\]([0-9,]+)")
_MAXIMAL = re.compile(r"maximal device=([0-9]+)")
_MESH = re.compile(r"mesh\s*[\[<]\s*\[?([^\]]*)\]")
_SIZE = re.compile(r"=([0-9]+)")
_AXIS = re.compile(r"\{\s*\\?[\"']")
MAX_DIGITS = 9


def is_partitioned(module: HloModule) -> bool:
    """Whether nothing says that the module is not partitioned."""
    try:
        require_partitioned(module)
    except HauloutError:
        return False
    return True


def require_partitioned(module: HloModule) -> None:
    """Raise `HauloutError` (`bad-input`) at the first thing that says that the module is not partitioned."""
    header = module.attributes.get("frontend_attributes")
    if header is not None and "xla.sdy.meshes" in header.text and _mesh_size(header.text) > 1:
        header.fail("this module is not partitioned: it names the meshes of Shardy", "xla.sdy.meshes", _OR_DIVIDE)
    for computation in module.computations.values():
        for instruction in computation.instructions:
            _check_custom_call(module, instruction)
            at_entry = computation is module.entry and instruction.opcode == "parameter"
            value = instruction.attributes.get("sharding")
            if value is not None:
                _check_sharding(module, instruction, value, at_entry)
            value = instruction.attributes.get("frontend_attributes")
            if value is not None and not at_entry and "xla.sdy.sharding" in value.text and _AXIS.search(value.text):
                _unresolved(instruction, value)


def _check_custom_call(module: HloModule, instruction: Instruction) -> None:
    """On one device there is nothing to partition: there a mark is a custom-call as any other."""
    target = instruction.attributes.get("custom_call_target")
    if instruction.opcode != "custom-call" or target is None:
        return
    name = target.text.strip("\"'")
    if module.num_partitions > 1 and (name in _MARKS or name.startswith(_SHARDY)):
        target.fail(
            f"this module is not partitioned: it has a custom-call of {name}",
            "what the partitioner resolves",
            _OR_DIVIDE,
        )


def _check_sharding(module: HloModule, instruction: Instruction, value: Excerpt, at_entry: bool) -> None:
    devices = max(_devices(value.text), default=1)
    if devices > module.num_partitions:
        value.fail(
            f"this sharding is over {devices} devices, the module has num_partitions={module.num_partitions}",
            f"of {instruction.opcode} %{instruction.name}",
            _OR_DIVIDE,
        )
    splits = "devices=" in value.text or ("mesh" in value.text and _AXIS.search(value.text))
    if devices > 1 and splits and not at_entry:
        _unresolved(instruction, value)


def _unresolved(instruction: Instruction, value: Excerpt) -> NoReturn:
    value.fail(
        f"this module is not partitioned: {instruction.opcode} %{instruction.name} is still to be split over devices",
        "its sharding",
        _OR_DIVIDE,
    )


def _devices(text: str) -> Iterator[int]:
    """How many devices each part of a sharding needs."""
    for tiles in _TILES.findall(text):
        yield math.prod(_numbers(tiles))
    for ids in [*_LISTED.findall(text), *_MAXIMAL.findall(text)]:
        yield max(_numbers(ids)) + 1
    if "mesh" in text:
        yield _mesh_size(text)


def _mesh_size(text: str) -> int:
    """Devices of the largest mesh: `mesh['a'=2,'b'=4]`, `#sdy.mesh<["a"=2, "b"=4]>`."""
    return max((math.prod(_numbers(",".join(_SIZE.findall(axes)))) for axes in _MESH.findall(text)), default=1)


def _numbers(text: str) -> list[int]:
    """The numbers of a list; one of more digits than any count of devices has is as good as the largest."""
    return [int(each) if len(each) <= MAX_DIGITS else 10**MAX_DIGITS for each in text.split(",") if each] or [1]
