"""How the cores of a mesh share an array: the part that each core holds.

Core k is at the k-th place of the mesh, the last axis running fastest. A `PartitionSpec` names for each dimension the
axis, or the axes, that it is cut over; cores that differ in other axes only hold equal parts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from haulout.frontends.hlo.from_torch.exported import Array
from haulout.support.diagnostics import bad_input

Mesh = Mapping[str, int]
Pieces = tuple[tuple[str, ...], ...]
"""Of each dimension the axes that it is cut over."""


def mesh_axes(mesh: Any) -> dict[str, int]:
    """Names and sizes of the axes of a mesh, which is a mapping, an `AbstractMesh` or a `Mesh` of JAX."""
    if mesh is None:
        return {}
    return {str(name): int(size) for name, size in dict(getattr(mesh, "shape", mesh)).items()}


def spec_of(given: Any, name: str, jax: Any) -> Any:
    """A `PartitionSpec`, an empty one for None. Raises `bad-input` for anything else."""
    spec = jax.sharding.PartitionSpec
    if given is not None and not isinstance(given, spec):
        bad_input(
            f"the sharding of {name} is {given!r}, not a PartitionSpec",
            help=["jax.sharding.PartitionSpec(None, 'x') cuts the second dimension over the axis x"],
        )
    return spec() if given is None else given


def by_structure(shardings: Any, args: Sequence[Any], name: str, jax: Any) -> list[Any]:
    """Of each leaf of positional arguments its sharding, from one for each argument or for all that is in it.

    Raises `bad-input` if the structures do not fit.
    """
    if shardings is None:
        return []
    if not isinstance(shardings, tuple | list) or len(shardings) != len(args):
        message = f"arg_shardings must have an element for each of the {len(args)} arguments of {name}"
        bad_input(message, help=["or give them by name: arg_shardings={'x': PartitionSpec('d')}"])
    return [leaf for at in range(len(args)) for leaf in _leaves(shardings[at], args[at], f"argument {at}", jax)]


def _leaves(given: Any, value: Any, name: str, jax: Any) -> list[Any]:
    """The sharding for each leaf of a value."""
    is_list, is_dict = isinstance(value, tuple | list), isinstance(value, Mapping)
    children = list(enumerate(value)) if is_list else list(value.items()) if is_dict else []
    if given is None or isinstance(given, jax.sharding.PartitionSpec):
        parts = [(given, each, key) for key, each in children]
    elif is_list and isinstance(given, tuple | list) and len(given) == len(value):
        parts = [(given[key], each, key) for key, each in children]
    elif is_dict and isinstance(given, Mapping) and not set(given) - set(value):
        parts = [(given.get(key), each, key) for key, each in children]
    else:
        bad_input(f"the sharding of {name} is {given!r}, which does not have its structure")
    if not (is_list or is_dict):
        return [given]
    return [leaf for spec, each, key in parts for leaf in _leaves(spec, each, f"{name}[{key!r}]", jax)]


def cut(spec: Any, shape: Sequence[int], axes: Mesh, name: str) -> Pieces:
    """What a `PartitionSpec` says of an array. Raises `bad-input` if it does not fit the mesh or the array."""
    entries = tuple(spec)
    pieces = tuple(() if each is None else (each,) if isinstance(each, str) else tuple(each) for each in entries)
    unknown = [axis for piece in pieces for axis in piece if axis not in axes]
    if unknown:
        has = f"has {', '.join(axes)}" if axes else "is not given"
        bad_input(f"{name} is to be cut over {unknown[0]!r}, which is no axis: the mesh {has}", help=["pass mesh="])
    if len(pieces) > len(shape):
        bad_input(f"{name} of shape {tuple(shape)} has fewer dimensions than its sharding {spec}")
    for dim, piece in enumerate(pieces):
        parts = math.prod(axes[axis] for axis in piece)
        if shape[dim] % parts:
            bad_input(f"{name} of shape {tuple(shape)} cannot be cut into {parts} equal parts along dimension {dim}")
    return (*pieces, *((),) * (len(shape) - len(pieces)))


def whole(pieces: Pieces) -> bool:
    """Whether every core holds all of the array."""
    return not any(pieces)


def spread(value: Array, pieces: Pieces, axes: Mesh) -> list[Array]:
    """What each core holds, in the order of the cores."""
    sizes = tuple(axes.values())
    held: list[Array] = []
    for core in range(math.prod(sizes)):
        at = dict(zip(axes, np.unravel_index(core, sizes), strict=True))
        where: list[slice] = []
        for extent, piece in zip(value.shape, pieces, strict=True):
            part = 0
            for axis in piece:
                part = part * axes[axis] + int(at[axis])
            length = extent // math.prod(axes[axis] for axis in piece)
            where.append(slice(part * length, (part + 1) * length))
        held.append(np.ascontiguousarray(value[tuple(where)]).reshape(value[tuple(where)].shape))
    return held
