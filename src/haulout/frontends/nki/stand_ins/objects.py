"""Small things of `nki` and `nki.language`: the base class of kernels' objects, `nki.jit`."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any

from haulout.frontends.nki import session
from haulout.frontends.nki.findings import kernel_place, reject
from haulout.frontends.nki.stand_ins.placeholders import Placeholder


class _Lenient(type):
    """NKI lets a dataclass be made without all of its fields, and with more; those left out are None."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        fields = [each for each in getattr(cls, "__dataclass_fields__", {}).values() if each.init]
        code = getattr(vars(cls).get("__init__"), "__code__", None)
        if code is None or code.co_filename != "<string>":
            return super().__call__(*args, **kwargs)
        for each in fields[len(args) :]:
            if each.default is dataclasses.MISSING and each.default_factory is dataclasses.MISSING:
                kwargs.setdefault(each.name, None)
        # Class attributes without a type are not fields of a dataclass, but NKI accepts them.
        names = {each.name for each in fields}
        more = {name: kwargs.pop(name) for name in list(kwargs) if name not in names}
        made = super().__call__(*args, **kwargs)
        for name, value in more.items():
            setattr(made, name, value)
        return made


class NKIObject(metaclass=_Lenient):
    """Base of kernels' own objects. A subclass without `__init__` takes its annotated fields as arguments."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        fields = [name for kind in reversed(type(self).__mro__) for name in vars(kind).get("__annotations__", ())]
        given = dict(zip(fields, args, strict=False)) | kwargs
        for name in fields:
            if name in given or hasattr(type(self), name):
                setattr(self, name, given.pop(name, getattr(type(self), name, None)))
        for name, value in given.items():
            setattr(self, name, value)
        post_init = getattr(self, "__post_init__", None)
        if post_init is not None:
            post_init()


class Kernel:
    """What `nki.jit` returns: the function, which a launch grid may subscript."""

    def __init__(self, function: Callable[..., Any], grid: Any = None) -> None:
        functools.update_wrapper(self, function)
        self.function, self.grid = function, grid

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the function; not while its file is imported, which a script does that also calls it."""
        if session.is_importing() and not session.is_tracing():
            return Placeholder(f"the result of {getattr(self.function, '__name__', 'a kernel')}", kernel_place(2))
        return self.function(*args, **kwargs)

    def __getitem__(self, grid: Any) -> Kernel:
        """The kernel on a launch grid. A kernel that calls another one has one program for each core."""
        counts = grid if isinstance(grid, tuple) else (grid,)
        if session.is_tracing() and all(isinstance(count, int) for count in counts):
            programs = math.prod(counts)
            if programs not in (1, session.recorder().cores):
                reject(
                    f"a launch grid of {programs} programs on {session.recorder().cores} cores",
                    "check the kernel itself: every core runs one program of it",
                )
        return Kernel(self.function, grid)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self.function, instance)


def jit(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """`nki.jit`, with or without options."""
    return Kernel(function) if function is not None else Kernel
