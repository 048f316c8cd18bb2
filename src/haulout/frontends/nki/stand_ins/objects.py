"""Small things of `nki` and `nki.language`: operators, the base class of kernels' objects, `nki.jit`."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any

from haulout.frontends.nki import session
from haulout.frontends.nki.findings import kernel_place
from haulout.frontends.nki.storage import Buffer
from haulout.frontends.nki.tensor import Tensor
from haulout.ir.enums import Engine

_SCALAR: dict[str, Callable[..., Any]] = {
    "add": lambda x, y: x + y,
    "subtract": lambda x, y: x - y,
    "multiply": lambda x, y: x * y,
    "divide": lambda x, y: x / y,
    "maximum": max,
    "minimum": min,
    "abs": abs,
    "exp": math.exp,
    "log": math.log,
    "sqrt": math.sqrt,
    "square": lambda x: x * x,
    "power": lambda x, y: x**y,
}


class Operator:
    """`nl.add` and the like: named in instructions, or called on tensors, which gives a new tensor in SBUF."""

    def __init__(self, name: str) -> None:
        self.__name__ = name

    def __repr__(self) -> str:
        return f"nl.{self.__name__}"

    def __call__(self, *operands: Any, **options: Any) -> Any:
        """The result on numbers; on tensors, an instruction that is recorded."""
        tensors = [each for each in operands if isinstance(each, Tensor)]
        if not tensors:
            return _SCALAR[self.__name__](*operands)
        shape = tensors[0].shape
        for other in tensors[1:]:
            shape = broadcast_shape(shape, other.shape)
        recorder, place = session.recorder(), kernel_place(2)
        dtype = options.get("dtype") or tensors[0].dtype
        result = recorder.allocate(shape, dtype, Buffer.sbuf, name=f"{self.__name__}_result", place=place)
        given: dict[str, Any] = {"dst": result, "op": self}
        given |= {"src": operands[0]} if len(operands) == 1 else {"operands": operands}
        recorder.add(f"nki.{self.__name__}", Engine.VECTOR, tensors, [result], place, None, given)
        return result


def broadcast_shape(first: tuple[int, ...], second: tuple[int, ...]) -> tuple[int, ...]:
    """NumPy's broadcasting of two shapes that agree."""
    length = max(len(first), len(second))
    one = (1,) * (length - len(first)) + first
    other = (1,) * (length - len(second)) + second
    return tuple(max(a, b) for a, b in zip(one, other, strict=True))


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
        """Run the function."""
        return self.function(*args, **kwargs)

    def __getitem__(self, grid: Any) -> Kernel:
        return Kernel(self.function, grid)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self.function, instance)


def jit(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """`nki.jit`, with or without options."""
    return Kernel(function) if function is not None else Kernel
