"""PyTorch modules for several cores: `lower` one to a program, or turn it into JAX for gradients. Extra: `torch`.

    lowered = haulout.torch.lower(model, (tokens,), mesh={"x": 2}, param_shardings={"layers.*.wq.weight": P("x")})
    result = haulout.compile(lowered.program)
    outputs = haulout.simulate(result.program, lowered.inputs).outputs

`torch.export` gives the graph of the module, torchax the lowering of each operation to JAX, and the rest is as in
`haulout.jax`. Arrays keep the names that the module has for them, `layers.0.attn.wq.weight`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from haulout.frontends.hlo import from_jax
from haulout.frontends.hlo.from_torch.exported import Array, Exported, Input, Role, as_numpy, export, numpy_type
from haulout.frontends.hlo.from_torch.graph import runner
from haulout.frontends.hlo.from_torch.libraries import libraries
from haulout.frontends.hlo.from_torch.patterns import by_pattern
from haulout.frontends.hlo.from_torch.placement import by_structure, cut, mesh_axes, spec_of, spread, whole
from haulout.ir.program import Program
from haulout.passes.base import PassContext
from haulout.passes.lnc_splitter import LncSplitter
from haulout.support.diagnostics import bad_input

__all__ = ["JaxModule", "Lowered", "lower", "match", "to_jax"]


_STATES: tuple[Role, Role] = ("parameter", "buffer")


class Lowered(NamedTuple):
    """A program, and the arrays that it starts from."""

    program: Program
    inputs: dict[str, Array]
    """Parameters, buffers and arguments for `simulate`, `run` and `--inputs`: `nc0/up.weight` is the part of core 0,
    `down.bias` what all cores hold. Tensors on the device `meta` have no numbers and are left out."""
    results: tuple[str, ...]
    """What the module calls its results, in the order of `program.output_names`."""


class JaxModule(NamedTuple):
    """A module as a function of JAX."""

    apply: Callable[..., Any]
    """`apply(params, buffers, *args)`: what the module returns, and its buffers after that."""
    params: dict[str, Array]
    buffers: dict[str, Array]


def lower(
    module: Any,
    args: Sequence[Any],
    *,
    mesh: Any = None,
    param_shardings: Mapping[str, Any] | None = None,
    arg_shardings: Sequence[Any] | Mapping[str, Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    lnc: int | None = None,
) -> Lowered:
    """The program of a `torch.nn.Module` called with `args`, on as many cores as `mesh` has places.

    `mesh` is as in `haulout.jax.partition`. `param_shardings` gives parameters and buffers a `PartitionSpec` by
    pattern (`match`), `arg_shardings` the arguments: by pattern, or one for each argument, which counts for all its
    tensors or has its structure. What has none is whole on every core, and so is what the module returns. With `lnc`
    there is no partitioning, and `haulout.compile` divides the work over so many cores; shardings then only ask for
    cuts.

    Results are what the module returns, under `result`, `result[0]` or `result['loss']`, and buffers and arguments
    that it changes, under their own names: these are donated, so the new contents are stored where the old ones were.
    Elements have the types of PyTorch, 64 bits included.

    Raises `HauloutError` (`bad-input`): a library is missing, PyTorch cannot export the module, an operation has no
    lowering, a pattern matches nothing, a sharding does not fit; and as `haulout.jax.lower` does.
    """
    lib = libraries()
    made = export(module, args, kwargs or {}, lib)
    inputs = made.of_role(*_STATES, "argument")
    axes = mesh_axes(mesh)
    specs = _specs(made, args, param_shardings or {}, arg_shardings, lib.jax)
    pieces = [cut(spec, each.shape, axes, each.name) for each, spec in zip(inputs, specs, strict=True)]
    values = [as_numpy(each.value, each.name, lib.torch) for each in inputs]
    run = runner(made, lib)

    def forward(*arrays: Any) -> Any:
        return tuple(each for each in run(arrays) if each is not None)

    forward.__name__ = made.name
    results = [name for name in made.outputs if name is not None]
    options: from_jax.JitOptions = {"donate_argnums": tuple(at for at, each in enumerate(inputs) if each.mutated)}
    if mesh is not None:
        kept = {name: spec for each, spec in zip(inputs, specs, strict=True) for name in each.names}
        spec = lib.jax.sharding.PartitionSpec()
        outputs = [kept[name] if at < made.mutations else spec for at, name in enumerate(results)]
        options.update({"mesh": mesh, "in_shardings": tuple(specs), "out_shardings": tuple(outputs)})
    with lib.jax.enable_x64(True):
        types = [numpy_type(each.value.dtype, each.name) for each in inputs]
        program = from_jax.lower(
            forward,
            *(lib.jax.ShapeDtypeStruct(each.shape, dtype) for each, dtype in zip(inputs, types, strict=True)),
            divide=lnc is not None,
            names=from_jax.Names([each.name for each in inputs], results),
            how="param_shardings= or arg_shardings=",
            **options,
        )
    if lnc not in (None, 1):
        program = LncSplitter(cores=lnc or 1).run(program, PassContext())
    held: dict[str, Array] = {}
    for each, value, piece in zip(inputs, values, pieces, strict=True):
        if value is not None and (whole(piece) or lnc is not None):
            held[each.name] = value
        elif value is not None:
            held |= {f"nc{core}/{each.name}": part for core, part in enumerate(spread(value, piece, axes))}
    return Lowered(program, held, tuple(results))


def to_jax(module: Any, args: Sequence[Any], kwargs: Mapping[str, Any] | None = None) -> JaxModule:
    """A `torch.nn.Module` as a function of JAX, for `jax.grad` and a training step that `haulout.jax.lower` takes.

    `args` and `kwargs` are examples: the function is for arrays of their types and extents, in the same order. Where
    JAX has no types of 64 bits, elements of these types have 32, as everywhere in JAX. Arguments that the module
    changes are refused: JAX has no place for their new contents. Raises `HauloutError` as `lower` does.
    """
    lib = libraries()
    made = export(module, args, kwargs or {}, lib)
    changed = [each.name for each in made.of_role("argument", "parameter") if each.mutated]
    if changed:
        bad_input(f"{made.name} changes {', '.join(changed)} in place, which `to_jax` does not follow")
    run, pytree = runner(made, lib), lib.torch.utils._pytree
    given = made.of_role(*_STATES, "argument")
    first = {name: each.name for each in given for name in each.names}

    def as_array(each: Input) -> Array:
        value = as_numpy(each.value, each.name, lib.torch)
        if value is None:
            bad_input(f"{each.name} is on the device meta and has no numbers", help=["module.to_empty(device='cpu')"])
        return value

    def apply(params: Mapping[str, Any], buffers: Mapping[str, Any], *args: Any, **kwargs: Any) -> Any:
        leaves, structure = pytree.tree_flatten((args, kwargs))
        if structure != made.argument_structure:
            bad_input(f"{made.name} was exported for arguments {made.argument_structure}, not {structure}")
        held = {"parameter": params, "buffer": buffers, "argument": dict(zip(made.arguments, leaves, strict=True))}
        found = run([held[each.role][each.name] for each in given])
        changed = zip(made.outputs[: made.mutations], found, strict=False)
        new = dict(buffers) | {first[name]: value for name, value in changed if name is not None}
        return pytree.tree_unflatten(list(found[made.mutations :]), made.structure), new

    params, buffers = ({each.name: as_array(each) for each in made.of_role(role)} for role in _STATES)
    return JaxModule(apply, params, buffers)


def match(patterns: Mapping[str, Any], names: Sequence[str] | Mapping[str, Any]) -> dict[str, Any]:
    """For each name the `PartitionSpec` of the first pattern that matches it, of the others an empty one.

    Patterns are those of `fnmatch`: `*` matches any characters, dots too. So `match(patterns, jaxed.params)` gives
    `in_shardings` of a training step. Raises `HauloutError` (`bad-input`) for a pattern that decides nothing.
    """
    jax = libraries().jax
    found = by_pattern(patterns, list(names), "parameter or buffer")
    return {name: spec_of(found.get(name), name, jax) for name in names}


def _specs(made: Exported, args: Sequence[Any], params: Mapping[str, Any], arguments: Any, jax: Any) -> list[Any]:
    """Of each tensor its `PartitionSpec`."""
    chosen = by_pattern(
        params, [name for each in made.of_role(*_STATES) for name in each.names], "parameter or buffer"
    )
    if isinstance(arguments, Mapping):
        given = by_pattern(arguments, [each.name for each in made.of_role("argument")], "argument")
    else:
        given = dict(zip(made.arguments, by_structure(arguments, args, made.name, jax), strict=False))
    found: list[Any] = []
    for each in made.of_role(*_STATES, "argument"):
        known = given if each.role == "argument" else chosen
        found.append(spec_of(next((known[name] for name in each.names if name in known), None), each.name, jax))
    return found
