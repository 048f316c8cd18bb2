"""A module as `torch.export` sees it: a graph of functional operations, and what each of its inputs and results is.

Inputs of the graph are parameters, buffers, constants and the arguments of the user, in an order of its own. Results
are buffers that the module changes, arguments that it changes, and what it returns. Every one has the author's name
here: `layers.0.attn.weight`, `batch['x']`, `result[0]`.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import ml_dtypes
import numpy as np
import numpy.typing as npt

from haulout.frontends.hlo.from_torch.libraries import Libraries
from haulout.support.diagnostics import bad_input

Array = npt.NDArray[Any]
Role = Literal["parameter", "buffer", "constant", "argument"]
MAX_LINES = 12
"""Of a message of PyTorch that are shown."""
_DTYPES = {
    "bfloat16": ml_dtypes.bfloat16,
    "float8_e4m3fn": ml_dtypes.float8_e4m3fn,
    "float8_e5m2": ml_dtypes.float8_e5m2,
}
_PLAIN = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "complex64", "complex128"),
)


@dataclass(frozen=True, slots=True, eq=False)
class Input:
    """A tensor that the graph takes, as one or, where a module has it under several names, more of its inputs."""

    role: Role
    names: tuple[str, ...]
    value: Any
    mutated: bool = False

    @property
    def name(self) -> str:
        """The first of its names."""
        return self.names[0]

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents of the tensor."""
        return tuple(self.value.shape)


@dataclass(frozen=True, slots=True)
class Exported:
    """A module's graph with its inputs in their order."""

    name: str
    graph: Any
    """A `torch.fx.GraphModule`."""
    inputs: tuple[Input | None, ...]
    """None: an argument that is no tensor."""
    outputs: tuple[str | None, ...]
    """Names of the results: mutations first, as PyTorch orders them. None: the result is the constant None."""
    mutations: int
    structure: Any
    """A `TreeSpec` of what the module returns."""
    arguments: tuple[str, ...]
    """Names of all leaves of the arguments, tensors or not."""
    argument_structure: Any

    def of_role(self, *roles: Role) -> list[Input]:
        """The tensors of some roles, each once."""
        return list(dict.fromkeys(each for each in self.inputs if each is not None and each.role in roles))


def export(module: Any, args: Sequence[Any], kwargs: Mapping[str, Any], lib: Libraries) -> Exported:
    """Export a `torch.nn.Module` for these arguments.

    Raises `bad-input`: it is no module, PyTorch cannot export it, or an input has elements of an unknown type.
    """
    torch, name = lib.torch, type(module).__name__
    if not isinstance(module, torch.nn.Module):
        bad_input(f"{module!r} is a {name}, not a torch.nn.Module", help=["wrap a function in a module"])
    if not isinstance(args, tuple | list):
        bad_input(f"args of {name} is a {type(args).__name__}, not a tuple", help=["pass (x,) for one argument"])
    try:
        with _no_accelerator(torch):
            program = torch.export.export(module, tuple(args), dict(kwargs), strict=False)
        # In one pass: a second one confuses an argument that is changed with a buffer of its name.
        table = torch.export.default_decompositions()
        table.update(lib.torchax.decompositions.DECOMPOSITIONS)
        program = program.run_decompositions(table)
    except Exception as error:
        # Whatever the module raises while it is traced; the cause keeps the traceback for a debugger.
        first, *rest = str(error).strip().splitlines() or [type(error).__name__]
        message = f"PyTorch cannot export {name}: {type(error).__name__}: {first}"
        bad_input(message, notes=rest[:MAX_LINES])
    return _described(name, module, program, tuple(args), dict(kwargs), lib)


def _described(name: str, module: Any, program: Any, args: Any, kwargs: Any, lib: Libraries) -> Exported:
    signature, pytree = program.graph_signature, lib.torch.utils._pytree
    states = {each.target for each in signature.input_specs if each.kind.name in ("PARAMETER", "BUFFER")}
    names = _argument_names(module, args, kwargs, states, pytree)
    arguments = zip(names, pytree.tree_leaves((args, kwargs)), strict=True)
    mutated = {(each.kind.name, each.target) for each in signature.output_specs}
    found: list[tuple[Role, str, Any, bool]] = []
    for spec in signature.input_specs:
        kind, target = spec.kind.name, spec.target
        if kind == "USER_INPUT":
            found.append(("argument", *next(arguments), ("USER_INPUT_MUTATION", spec.arg.name) in mutated))
        elif kind == "PARAMETER":
            changed = ("PARAMETER_MUTATION", target) in mutated
            found.append(("parameter", target, program.state_dict[target], changed))
        elif kind == "BUFFER":
            held = program.state_dict if spec.persistent else program.constants
            found.append(("buffer", target, held[target], ("BUFFER_MUTATION", target) in mutated))
        elif kind == "CONSTANT_TENSOR":
            found.append(("constant", target, program.constants[target], False))
        else:
            bad_input(f"{name} has an input of kind {kind}, which is not supported: {target or spec.arg.name}")
    inputs = _tensors(found, lib.torch)
    return Exported(
        name,
        program.graph_module,
        tuple(inputs),
        tuple(_result_names(name, program, names, pytree)),
        sum(each.kind.name.endswith("_MUTATION") for each in signature.output_specs),
        program.call_spec.out_spec,
        tuple(names),
        program.call_spec.in_spec,
    )


def _tensors(found: Sequence[tuple[Role, str, Any, bool]], torch: Any) -> list[Input | None]:
    """Of each input of the graph its tensor: one for parameters, and for buffers, that are the same object."""
    groups: dict[Any, list[tuple[Role, str, Any, bool]]] = {}
    keys = [(role, name if role == "argument" else id(value)) for role, name, value, _ in found]
    for key, each in zip(keys, found, strict=True):
        groups.setdefault(key, []).append(each)
    made: dict[Any, Input | None] = {}
    for key, group in groups.items():
        role, name, value, _ = group[0]
        is_tensor = isinstance(value, torch.Tensor)
        if is_tensor:
            numpy_type(value.dtype, name)
        names, changed = tuple(each[1] for each in group), any(each[3] for each in group)
        made[key] = Input(role, names, value, changed) if is_tensor else None
    return [made[key] for key in keys]


@contextlib.contextmanager
def _no_accelerator(torch: Any) -> Iterator[None]:
    """torchax calls its device an accelerator, and PyTorch, which knows none, then cannot trace control flow."""
    device = torch.get_device_module("jax")
    known = device.is_available
    device.is_available = lambda: False
    try:
        yield
    finally:
        device.is_available = known


def _argument_names(module: Any, args: Any, kwargs: Any, states: Collection[str], pytree: Any) -> list[str]:
    """Of each leaf of the arguments: `x`, `state[0]`, `batch['x']`; `args[0]` where a parameter or buffer is `x`."""
    try:
        bound = inspect.signature(module.forward).bind(*args, **kwargs).arguments
    except (TypeError, ValueError):
        bound = {}
    roots: list[str] = []
    for name, value in bound.items():
        kind = inspect.signature(module.forward).parameters[name].kind
        if kind is inspect.Parameter.VAR_POSITIONAL:
            roots += [f"{name}[{at}]" for at in range(len(value))]
        elif kind is not inspect.Parameter.VAR_KEYWORD and name not in kwargs:
            roots.append(name)
    if len(roots) != len(args):
        roots = [f"args[{at}]" for at in range(len(args))]
    roots = [f"args[{at}]" if name in states else name for at, name in enumerate(roots)]
    named = [(f"args[{name!r}]" if name in states else name, value) for name, value in kwargs.items()]
    parts = [*zip(roots, args, strict=True), *named]
    return [
        root + pytree.keystr(path) for root, value in parts for path, _ in pytree.tree_flatten_with_path(value)[0]
    ]


def _result_names(name: str, program: Any, names: list[str], pytree: Any) -> list[str | None]:
    """Buffers and arguments by their own names, then what is returned: `result`, `result['loss']`."""
    signature = program.graph_signature
    placeholders = [each.arg.name for each in signature.input_specs if each.kind.name == "USER_INPUT"]
    arguments = dict(zip(placeholders, names, strict=True))
    out = program.call_spec.out_spec
    leaves, _ = pytree.tree_flatten_with_path(pytree.tree_unflatten(list(range(out.num_leaves)), out))
    changed = {each.target for each in signature.output_specs if each.kind.name.endswith("_MUTATION")}
    root = "returned" if "result" in changed else "result"
    paths = iter(root + pytree.keystr(path) for path, _ in leaves)
    found: list[str | None] = []
    for spec in signature.output_specs:
        kind = spec.kind.name
        if kind == "USER_OUTPUT":
            path = next(paths)
            found.append(None if getattr(spec.arg, "value", path) is None else path)
        elif kind in ("BUFFER_MUTATION", "PARAMETER_MUTATION"):
            found.append(spec.target)
        elif kind == "USER_INPUT_MUTATION":
            found.append(arguments[spec.target])
        else:
            bad_input(f"{name} has a result of kind {kind}, which is not supported: {spec.target}")
    return found


def numpy_type(dtype: Any, name: str) -> np.dtype[Any]:
    """NumPy's type of the elements of a tensor. Raises `bad-input` if there is none."""
    text = str(dtype).removeprefix("torch.")
    if text not in _DTYPES and text not in _PLAIN:
        bad_input(f"{name} has elements of type {dtype}, which is not supported")
    found: np.dtype[Any] = np.dtype(_DTYPES.get(text, text))
    return found


def as_numpy(tensor: Any, name: str, torch: Any) -> Array | None:
    """The numbers of a tensor; None if it has none, on the device `meta`."""
    dtype = numpy_type(tensor.dtype, name)
    if tensor.device.type == "meta":
        return None
    held = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous()
    if str(tensor.dtype).removeprefix("torch.") in _DTYPES:
        bits = {1: torch.uint8, 2: torch.int16}[dtype.itemsize]
        return np.array(held.view(bits).numpy()).view(dtype)
    return np.array(held.numpy())
