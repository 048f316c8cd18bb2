"""The graph of an exported module, run on arrays of JAX: each operation by the lowering that torchax has for it.

What JAX traces here is the module. PyTorch knows the type and the extents of every value: a result of another type is
converted, one of other extents is refused. Control flow (`cond`, `while_loop`, `scan`) becomes that of JAX.

JAX writes down the line that calls it. Here that would be a line of torchax for every module, so each lowering is
called by code that stands at the module's own line (`_from_line`), and frames of the libraries do not count.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from types import CodeType
from typing import Any

import numpy as np

from haulout.frontends.hlo.from_torch.exported import MAX_LINES, Exported, Input, as_numpy, numpy_type
from haulout.frontends.hlo.from_torch.libraries import Libraries
from haulout.support.diagnostics import Diagnostics, HauloutError, Label, Severity, Span, bad_input

_CALL = "found = call()"
_FRAME = re.compile(r'File "([^"]+)", line (\d+)')
_GETITEM = "getitem"
_CONTROL = ("cond", "while_loop", "scan")


def runner(exported: Exported, lib: Libraries) -> Callable[[Sequence[Any]], tuple[Any, ...]]:
    """The module as a function of its parameters, buffers and arguments, as `exported.of_role` lists them.

    Its results are in the order of `exported.outputs`. Raises `bad-input` with every operation that has no lowering.
    """
    _require_lowerings(exported, lib)
    _hide_frames(lib)
    held = {each: _constant(each, lib) for each in exported.of_role("constant")}
    given = exported.of_role("parameter", "buffer", "argument")
    graph = _interpreter(lib)

    def run(arrays: Sequence[Any]) -> tuple[Any, ...]:
        values = held | dict(zip(given, arrays, strict=True))
        return tuple(graph(exported.graph, [None if each is None else values[each] for each in exported.inputs]))

    return run


def _constant(each: Input, lib: Libraries) -> Any:
    value = as_numpy(each.value, each.name, lib.torch)
    if value is None:
        bad_input(f"the constant {each.name} is on the device meta and has no numbers")
    return value


def _nodes(graph: Any, torch: Any) -> Iterator[Any]:
    """Calls of a graph and of the graphs inside of it."""
    for each in graph.modules():
        if isinstance(each, torch.fx.GraphModule):
            yield from (node for node in each.graph.nodes if node.op == "call_function")


def _require_lowerings(exported: Exported, lib: Libraries) -> None:
    """Raise `bad-input` with every kind of operation that is missing, at its first place."""
    found, missing = Diagnostics(), Counter[str]()
    first: dict[str, Any] = {}
    for node in _nodes(exported.graph, lib.torch):
        if (fault := _fault(node.target, lib)) is not None:
            missing[fault] += 1
            first.setdefault(fault, node)
    for fault, count in missing.items():
        times = f", {count} times" if count > 1 else ""
        message = f"{exported.name} has {first[fault].target}{times}: {fault}"
        random = "draws random numbers" in fault
        found.add(
            "bad-input",
            Severity.ERROR,
            message,
            *_place(first[fault]),
            help=["call module.eval() first, or pass the numbers as an argument"] if random else [_HOW],
        )
    found.raise_if_errors()


_HOW = "write it with other operations, or register a lowering: torchax.ops.ops_registry.register_torch_dispatch_op"


def _fault(target: Any, lib: Libraries) -> str | None:
    """Why an operation cannot be lowered, None if it can."""
    if not isinstance(target, lib.torch._ops.OpOverload):
        name = getattr(target, "__name__", str(target))
        is_control = isinstance(target, lib.torch._ops.HigherOrderOperator) and name in _CONTROL
        return None if is_control or name == _GETITEM else f"{name} has no lowering to JAX"
    known = _lowering(target, lib)
    if known is None or not known.is_jax_function:
        return f"torchax has no lowering of {target}"
    return f"{target} draws random numbers, which differ from those of PyTorch" if known.needs_env else None


def _lowering(target: Any, lib: Libraries) -> Any:
    registry = lib.torchax.ops.ops_registry.all_aten_ops
    return registry.get(target) or registry.get(target.overloadpacket)


def _line(node: Any) -> tuple[str, int] | None:
    """The file and the line of the module that a node comes from."""
    frames = _FRAME.findall(node.meta.get("stack_trace") or "")
    return (frames[-1][0], int(frames[-1][1])) if frames else None


def _place(node: Any) -> list[Label]:
    line = _line(node)
    return [] if line is None else [Label("here", Span(*line))]


def _hide_frames(lib: Libraries) -> None:
    """Lines of the libraries and of this file are none of the user's."""
    for file in (__file__, *(f"{Path(str(each.__file__)).parent}{os.sep}" for each in (lib.torch, lib.torchax))):
        _hide(file)


@cache
def _hide(file: str) -> None:
    import_module("jax.extend.source_info_util").register_exclusion(file)


def _from_line(line: tuple[str, int] | None, call: Callable[[], Any]) -> Any:
    """What `call` returns, called by code at this line."""
    if line is None:
        return call()
    names: dict[str, Any] = {"call": call}
    exec(_code(*line), names)
    return names["found"]


@cache
def _code(file: str, line: int) -> CodeType:
    return compile("\n" * (line - 1) + _CALL, file, "exec")


def _interpreter(lib: Libraries) -> Callable[[Any, Sequence[Any]], Any]:
    """What runs a graph on arrays."""
    lax = lib.jax.lax

    class Interpreter(lib.torch.fx.Interpreter):  # type: ignore[name-defined,misc]
        def run_node(self, node: Any) -> Any:
            try:
                found = _from_line(_line(node), partial(super().run_node, node))
            except HauloutError:
                raise
            except Exception as error:
                first, *rest = str(error).strip().splitlines() or [type(error).__name__]
                message = f"torchax cannot lower {node.target}: {type(error).__name__}: {first}"
                bad_input(message, *_place(node), notes=rest[:MAX_LINES])
            return _conformed(found, node, lib) if node.op == "call_function" else found

        def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
            if isinstance(target, lib.torch._ops.OpOverload):
                return _lowering(target, lib).func(*args, **kwargs)
            rule = control.get(getattr(target, "__name__", ""))
            return super().call_function(target, args, kwargs) if rule is None else rule(*args, **kwargs)

        def get_attr(self, target: Any, args: Any, kwargs: Any) -> Any:
            found = super().get_attr(target, args, kwargs)
            return as_numpy(found, target, lib.torch) if isinstance(found, lib.torch.Tensor) else found

    def run(graph: Any, values: Sequence[Any]) -> Any:
        return Interpreter(graph).run(*values, enable_io_processing=False)

    def cond(chosen: Any, yes: Any, no: Any, operands: Sequence[Any] = ()) -> Any:
        one = lib.jax.numpy.reshape(chosen, ())
        return lax.cond(one, lambda *each: tuple(run(yes, each)), lambda *each: tuple(run(no, each)), *operands)

    def while_loop(goes_on: Any, body: Any, carried: Sequence[Any], rest: Sequence[Any] = ()) -> Any:
        def test(state: Any) -> Any:
            found = run(goes_on, [*state, *rest])
            return lib.jax.numpy.reshape(found[0] if isinstance(found, tuple | list) else found, ())

        return lax.while_loop(test, lambda state: tuple(run(body, [*state, *rest])), tuple(carried))

    def scan(combine: Any, init: Sequence[Any], rows: Sequence[Any], rest: Sequence[Any] = ()) -> Any:
        def step(state: Any, row: Any) -> Any:
            found = tuple(run(combine, [*state, *row, *rest]))
            return found[: len(init)], found[len(init) :]

        last, made = lax.scan(step, tuple(init), tuple(rows))
        return (*last, *made)

    control = dict(zip(_CONTROL, (cond, while_loop, scan), strict=True))
    return run


def _conformed(value: Any, node: Any, lib: Libraries) -> Any:
    """The value with the type that PyTorch says, as far as JAX has it; of other extents it is refused."""

    def one(found: Any, wanted: Any) -> Any:
        if not isinstance(wanted, lib.torch.Tensor):
            return found
        if tuple(np.shape(found)) != tuple(wanted.shape):
            message = f"the lowering of {node.target} gives {np.shape(found)}, not {tuple(wanted.shape)}"
            bad_input(message, *_place(node), help=[_HOW])
        dtype = lib.jax.dtypes.canonicalize_dtype(numpy_type(wanted.dtype, str(node.target)))
        return found if found.dtype == dtype else lib.jax.numpy.asarray(found).astype(dtype)

    known = node.meta.get("val")
    if isinstance(known, tuple | list) and isinstance(value, tuple | list):
        return tuple(one(*each) for each in zip(value, known, strict=False))
    return one(value, known)
