"""Cuts that the source of a module asks for, where haulout divides the work of one device itself.

    a scope `haulout.split(axis=1)` in `op_name`     every operation of it whose result has such a dimension
    a custom-call of Sharding                        what makes its operand
    `sharding=` of a parameter                       what reads it

Scopes come from `haulout.jax.split_axis`; the innermost one counts, also where it is around the call of a function
that JAX has compiled apart. A scope in a function that is transposed (`transpose(jvp(haulout.split(axis=1)))`) says
nothing of the gradients, which have other shapes. One in a function that is mapped (`vmap`) cannot be followed.

A sharding names the dimension that it divides by devices. Where the mesh has one device, the name of an axis is what
is left of it. Neither the number of devices nor their order matters. A sharding that divides nothing asks for
nothing, and one that divides several dimensions cannot be followed: no operation is cut along two.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from haulout.frontends.hlo.metadata import op_name
from haulout.frontends.hlo.model import Instruction
from haulout.frontends.hlo.types import Shape
from haulout.frontends.hlo.values import View
from haulout.frontends.hlo.views import strides_of
from haulout.ir.splits import NO_DIMENSION

MARKS = ("Sharding", "xla.sdy.FuncResultSharding")
"""Targets of custom-calls that give their operand, with a sharding."""

_SCOPE = re.compile(r"haulout\.split\(axis=(-?[0-9]{1,3})\)")
_OPENED = re.compile(r"([A-Za-z_]*)\(|\)")
_TILES = re.compile(r"devices=\[([0-9,]{1,200})\]")
_BY_AXES = re.compile(r"\[((?:\{[^{}\[\]]*\},? ?)+)\]")
_AXES = re.compile(r"\{([^{}]*)\}")


def is_mark(instruction: Instruction) -> bool:
    """Whether it is a custom-call that only carries a sharding."""
    target = instruction.attributes.get("custom_call_target")
    return instruction.opcode == "custom-call" and target is not None and target.text.strip("\"'") in MARKS


class Scope(NamedTuple):
    """The innermost scope around an instruction."""

    axis: int
    """As it is written."""
    mapped: bool
    """Whether it is inside `vmap`: then the axis is one of other shapes."""

    def dim(self, instruction: Instruction) -> int | None:
        """The dimension of its result that is asked for; None: the result has no such dimension."""
        if not isinstance(instruction.shape, Shape):
            return None
        rank = len(instruction.shape.dims)
        if self.mapped:
            return NO_DIMENSION if rank else None
        return self.axis % rank if -rank <= self.axis < rank else None


def scope_of(instruction: Instruction, around: Scope | None) -> Scope | None:
    """The scope that an instruction names, or else the one `around` the call of its computation."""
    metadata = instruction.attributes.get("metadata")
    if metadata is None or "haulout.split(" not in metadata.text:
        return around
    for path in op_name(metadata).split(";"):
        found = [(each, _transformed(path[: each.start()])) for each in _SCOPE.finditer(path)]
        kept = [Scope(int(each[1]), "vmap" in names) for each, names in found if "transpose" not in names]
        if kept:
            return kept[-1]
    return None


def _transformed(before: str) -> list[str]:
    """The transformations of JAX that a scope stands inside of."""
    opened: list[str] = []
    for match in _OPENED.finditer(before):
        if match[0] == ")":
            if opened:
                opened.pop()
        else:
            opened.append(match[1])
    return opened


def sharding_dim(instruction: Instruction) -> int | None:
    """The dimension that its sharding divides; None: it divides nothing; NO_DIMENSION: it divides several."""
    if not isinstance(instruction.shape, Shape):
        return None
    rank = len(instruction.shape.dims)
    texts = [value.text for key in ("sharding", "frontend_attributes") if (value := instruction.attributes.get(key))]
    for text in texts:
        tiles = _TILES.search(text)
        if tiles is not None:
            counts = [each for each in tiles[1].split(",") if each][:rank]
            cut = [dim for dim, count in enumerate(counts) if count.lstrip("0") not in ("", "1")]
        else:
            named = _BY_AXES.search(text)
            dims = _AXES.findall(named[1])[:rank] if named is not None else []
            cut = [dim for dim, axes in enumerate(dims) if "'" in axes or '"' in axes]
        if cut:
            return cut[0] if len(cut) == 1 else NO_DIMENSION
    return None


def dim_of_array(view: View, dim: int) -> int:
    """The dimension of the array that is dimension `dim` of a view of it; NO_DIMENSION if there is none."""
    if dim == NO_DIMENSION:
        return dim
    whole = View(view.array, view.array.shape)
    wanted = view.shape.dims[dim], strides_of(view)[dim]
    found = zip(whole.shape.dims, strides_of(whole), strict=True)
    return next((at for at, each in enumerate(found) if each == wanted), NO_DIMENSION)
