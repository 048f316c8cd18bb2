"""The stand-ins in `sys.modules` during import and trace of a kernel; the previous modules are restored afterwards.

Modules that were imported in between and saw a stand-in are removed again, so that a process with the real packages
keeps using them.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from haulout.frontends.nki.stand_ins import collectives, compiler, isa, language, objects
from haulout.frontends.nki.stand_ins.placeholders import AbsentModules, PlaceholderModule
from haulout.frontends.nki.tensor import Tensor

ROOTS = ("nki", "neuronxcc", "neuron_dtypes")
"""Packages that the stand-ins take the place of."""
AROUND = "_kernels_in_"
"""Begin of the name of a package that is made of the folders around a kernel's file."""

_DECORATORS = ("jit", "baremetal", "benchmark", "profile", "trace")
_ANNOTATIONS = ("tensor", "mutable_tensor", "scalar")


class _Annotation:
    """`nt.tensor` and `nt.tensor[nt.mutable]`."""

    def __getitem__(self, key: Any) -> _Annotation:
        return self

    def __or__(self, other: Any) -> _Annotation:
        return self

    def __instancecheck__(self, instance: Any) -> bool:
        return isinstance(instance, Tensor)


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
            root: _plain(root, dtype=str, tensor=Tensor, **dict.fromkeys(_DECORATORS, objects.jit)),
            f"{root}.language": language.make_module(f"{root}.language"),
            f"{root}.isa": isa_module,
            f"{root}.isa.constants": isa_module,
            f"{root}.collectives": collectives.make_module(f"{root}.collectives"),
            f"{root}.typing": _plain(f"{root}.typing", mutable=True, **dict.fromkeys(_ANNOTATIONS, _Annotation())),
            f"{root}.isa.neuron_isa": isa_module,
            f"{root}.compiler": compiler.make_module(f"{root}.compiler"),
            f"{root}.language.constants": _plain(f"{root}.language.constants", sizeinbytes=language.size_in_bytes),
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
def installed() -> Iterator[AbsentModules]:
    """Put the stand-ins in place; on leaving, `sys.modules` is as it was but for modules that never saw them.

    Absent modules that are imported meanwhile are placeholders, and are gone on leaving.
    """
    before = dict(sys.modules)
    for name in [name for name, module in before.items() if _is_root(name) or _holds_real(module, before)]:
        del sys.modules[name]
    sys.modules.update(make_modules())
    absent = AbsentModules()
    sys.meta_path.append(absent)
    try:
        yield absent
    finally:
        sys.meta_path.remove(absent)
        for name, module in list(sys.modules.items()):
            made_up = isinstance(module, PlaceholderModule) or name.startswith(AROUND)
            if _is_root(name) or made_up or (before.get(name) is not module and saw_stand_in(module)):
                del sys.modules[name]
        for name, module in before.items():
            if sys.modules.get(name) is not module:
                sys.modules[name] = module
                parent, _, last = name.rpartition(".")
                if parent in sys.modules:
                    setattr(sys.modules[parent], last, module)


def _is_root(name: str) -> bool:
    return name.split(".")[0] in ROOTS


def _holds_real(module: Any, modules: Mapping[str, types.ModuleType]) -> bool:
    """Whether a module has imported the real packages: then it is imported again, against the stand-ins."""
    if not any(root in modules for root in ROOTS) or not saw_stand_in(module):
        return False
    return any(_is_root(getattr(value, "__name__", "")) for value in vars(module).values() if _is_module(value))


def _is_module(value: Any) -> bool:
    return isinstance(value, types.ModuleType)


def saw_stand_in(module: Any) -> bool:
    """Whether a module may hold a stand-in: it is not of the standard library, an installed package, or ours."""
    file = getattr(module, "__file__", None)
    if getattr(module, "__name__", "").split(".")[0] == "haulout":
        return False
    return isinstance(file, str) and "site-packages" not in file and not file.startswith(sys.base_prefix)
