"""`nki.compiler` of the first NKI: decorators of kernels, and places of tensors, which have no effect here."""

from __future__ import annotations

import contextlib
import types
from collections.abc import Iterator
from typing import Any

from haulout.frontends.nki.storage import Buffer


def _decorator(*args: Any, **_: Any) -> Any:
    """The function itself, with or without options of the decorator."""
    return args[0] if len(args) == 1 and callable(args[0]) else _decorator


@contextlib.contextmanager
def no_reorder(*_: Any, **__: Any) -> Iterator[None]:
    """Instructions keep their order. A schedule that the compiler may choose is one without this region."""
    yield


class Placed:
    """A memory for a tensor whose place the kernel chooses."""

    def __init__(self, name: str) -> None:
        self.name = name


class Region:
    """`sbuf` or `psum`: a memory, and how places in it are chosen."""

    def __init__(self, buffer: Buffer) -> None:
        self.name = buffer.name

    def alloc(self, *_: Any, **__: Any) -> Placed:
        """A memory with an address that is not followed."""
        return Placed(self.name)

    mod_alloc = auto_alloc = alloc


def make_module(name: str) -> types.ModuleType:
    """The module under one of its import names."""
    module = types.ModuleType(name, __doc__)
    for each in ("skip_middle_end_transformations", "enable_stack_allocator", "force_auto_alloc"):
        setattr(module, each, _decorator)
    module.no_reorder = no_reorder  # type: ignore[attr-defined]
    module.multi_buffer = lambda count=1, *_, **__: count  # type: ignore[attr-defined]
    for buffer in (Buffer.sbuf, Buffer.psum):
        setattr(module, buffer.name, Region(buffer))
    return module
