"""`nki.collectives`: exchanges between devices, not between the cores of one; recorded as reading and writing
operands."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

from haulout.frontends.nki import session
from haulout.frontends.nki.findings import kernel_place
from haulout.frontends.nki.registers import VirtualRegister
from haulout.frontends.nki.stand_ins.objects import NKIObject
from haulout.frontends.nki.tensor import Tensor
from haulout.ir.enums import Engine

_NAMES = (
    "all_reduce",
    "all_gather",
    "all_gather_v",
    "reduce_scatter",
    "all_to_all",
    "all_to_all_v",
    "collective_permute",
    "collective_permute_implicit",
    "collective_permute_implicit_reduce",
)


class ReplicaGroup(NKIObject):
    """Groups of devices."""

    def __init__(self, groups: Any = None, **_: Any) -> None:
        self.groups = groups

    def __repr__(self) -> str:
        return f"ReplicaGroup({self.groups})"


def _flat(values: Any) -> list[Tensor]:
    if isinstance(values, Tensor):
        return [values]
    return [tensor for value in values or () for tensor in _flat(value)] if isinstance(values, list | tuple) else []


def _recorded(name: str) -> Callable[..., None]:
    def call(srcs: Any = (), dsts: Any = (), *args: Any, **kwargs: Any) -> None:
        reads, writes = _flat(srcs), _flat(dsts)
        for key, value in kwargs.items():
            if key.startswith("src") or key == "metadata_tensor":
                reads += _flat(value)
            elif key.startswith("dst"):
                writes += _flat(value)
        recorder = session.recorder()
        line = recorder.queue_of([*writes, *reads]) or Engine.DMA0
        given = {"srcs": reads, "dsts": writes, "args": args} | {
            key: value for key, value in kwargs.items() if not key.startswith("dst")
        }
        recorder.add(f"nki.{name}", line, reads, writes, kernel_place(2), None, given)

    call.__name__ = name
    return call


def _rank(*_: Any, **__: Any) -> VirtualRegister:
    """A rank that only the device knows."""
    return VirtualRegister(None)


def make_module(name: str) -> types.ModuleType:
    """The module under one of its import names."""
    module = types.ModuleType(name, __doc__)
    for each in _NAMES:
        setattr(module, each, _recorded(each))
    module.ReplicaGroup = ReplicaGroup  # type: ignore[attr-defined]
    module.rank_id = _rank  # type: ignore[attr-defined]
    module.collective_permute_implicit_current_processing_rank_id = _rank  # type: ignore[attr-defined]
    return module
