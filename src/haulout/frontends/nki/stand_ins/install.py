"""The stand-ins in `sys.modules`, while a kernel is imported and traced; what was there before comes back after.

Modules that are imported meanwhile and saw a stand-in are forgotten again, so that a process that has the real
packages keeps using them.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from haulout.frontends.nki.stand_ins import collectives, isa, language, objects
from haulout.frontends.nki.tensor import Tensor

ROOTS = ("nki", "neuronxcc", "neuron_dtypes")
"""Packages that the stand-ins take the place of."""


def _plain(name: str, **values: Any) -> types.ModuleType:
    module = types.ModuleType(name)
    for key, value in values.items():
        setattr(module, key, value)
    return module


def make_modules() -> dict[str, types.ModuleType]:
    """All stand-ins by import name, each an attribute of its parent."""
    modules: dict[str, types.ModuleType] = {}
    for root in ("nki", "neuronxcc.nki"):
        isa_module = isa.make_module(f"{root}.isa")
        modules |= {
            root: _plain(root, jit=objects.jit, baremetal=objects.jit, benchmark=objects.jit, dtype=str),
            f"{root}.language": language.make_module(f"{root}.language"),
            f"{root}.isa": isa_module,
            f"{root}.isa.constants": isa_module,
            f"{root}.collectives": collectives.make_module(f"{root}.collectives"),
            f"{root}.typing": _plain(f"{root}.typing", tensor=Tensor, mutable_tensor=Tensor),
            f"{root}.isa.neuron_isa": isa_module,
        }
    modules["neuronxcc"] = _plain("neuronxcc")
    modules["neuron_dtypes"] = _plain("neuron_dtypes", **vars(language.make_module("neuron_dtypes")))
    for name, module in modules.items():
        module.__path__ = []
        parent, _, last = name.rpartition(".")
        if parent in modules:
            setattr(modules[parent], last, module)
    return modules


@contextmanager
def installed(forget: Callable[[types.ModuleType], bool] = lambda module: True) -> Iterator[None]:
    """Put the stand-ins in place; afterwards, of the modules imported meanwhile those that `forget` names go."""
    before = dict(sys.modules)
    for name in list(sys.modules):
        if name.split(".")[0] in ROOTS:
            del sys.modules[name]
    sys.modules.update(make_modules())
    try:
        yield
    finally:
        for name in list(sys.modules):
            module = sys.modules[name]
            if name.split(".")[0] in ROOTS or (name not in before and saw_stand_in(module) and forget(module)):
                del sys.modules[name]
        sys.modules.update({name: module for name, module in before.items() if name.split(".")[0] in ROOTS})


def saw_stand_in(module: Any) -> bool:
    """Whether a module may hold a stand-in: anything that is not of the standard library or installed packages."""
    file = getattr(module, "__file__", None)
    return isinstance(file, str) and "site-packages" not in file and not file.startswith(sys.base_prefix)
