"""From a parsed HLO module to a program: one module for each core, one function `@main`, its first block `^entry`.

1. Rewrite what stands for other instructions (`expand/`): fusions, asynchronous pairs, batch norm, random bits, ...
   Flatten the entry computation: calls inlined, tuples resolved, reshapes as views, loops and branches delimited by
   boundaries (`flatten.py`). Slices that move evenly with a loop become views, too (`affine_starts.py`).
2. Decide which movements of elements store their result (`movements.py`). A product that is only read transposed is
   stored so (`swapped_products.py`).
3. Keep all parameters and the steps that the result depends on (`live_steps.py`), and all that is not understood.
4. Guard the bodies of loops that cores may run differently often (`divergent_loops.py`).
5. Order the operations between boundaries for memory (`memory_order.py`).
6. Fuse element-wise operations into what reads their results (`fuse_elementwise.py`), and order them again.
7. Assign a location to every array (`storage.py`). Coalesce copies where it is safe (`coalescing.py`); plan the
   others (`boundary_copies.py`).
8. Emit the rows of one core, rule by rule (`ops/`): one instruction for each operation, or one copy for each piece;
   blocks for loops and branches (`emit.py`), with the trip count if it is known (`trips.py`), and `divergent` on
   branches where cores may take different arms (`uniformity.py`).
9. Replicate them for every core. Cores differ only in the constants that contain their ids.

HLO is SPMD: all cores run the same text, so `seq`, the position of the instruction in the flattened source, is their
common time. `outputs=` of the program names the locations of the results in the order of the result tuple. The
parameters are the first locations of the function, in their order.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from haulout.frontends.hlo.affine_starts import flatten_with_views
from haulout.frontends.hlo.boundary_copies import plan_boundaries
from haulout.frontends.hlo.cores import with_cores
from haulout.frontends.hlo.divergent_loops import guard_bodies, loops_of
from haulout.frontends.hlo.emit import Emitter, Rule
from haulout.frontends.hlo.expand import expand
from haulout.frontends.hlo.fuse_elementwise import Fuse, fuse_elementwise
from haulout.frontends.hlo.live_steps import live_steps
from haulout.frontends.hlo.memory_order import order_for_memory
from haulout.frontends.hlo.model import HloModule
from haulout.frontends.hlo.movements import choose_movements
from haulout.frontends.hlo.ops import (
    collectives,
    contraction,
    elementwise,
    fused,
    indexing,
    linear_algebra,
    movement,
    opaque,
    reduction,
    transforms,
    windows,
)
from haulout.frontends.hlo.partitioned import require_partitioned
from haulout.frontends.hlo.refusals import all_refusals
from haulout.frontends.hlo.shardings import parameter_classes
from haulout.frontends.hlo.storage import assign_storage, donated
from haulout.frontends.hlo.swapped_products import swap_products
from haulout.frontends.hlo.uniformity import divergent_branches, find_uniformity
from haulout.frontends.hlo.values import Opaque, Operation, check_attributes, leaves
from haulout.ir.program import Program
from haulout.ir.replicate import replicate
from haulout.support.diagnostics import HauloutError

RULES: dict[str, Rule] = {
    **elementwise.RULES,
    **movement.RULES,
    **contraction.RULES,
    **windows.RULES,
    **reduction.RULES,
    **indexing.RULES,
    **linear_algebra.RULES,
    **transforms.RULES,
    **collectives.RULES,
}
"""Every HLO opcode that becomes instructions; those that only rearrange names are resolved in `flatten.py`."""
_MADE = {**fused.RULES, **movement.MADE, **opaque.RULES}
"""What the front end makes of them."""


def lower(
    module: HloModule,
    *,
    fuse: Fuse = "all",
    replicated: Collection[str] = (),
    whole: bool = False,
    cores: int | None = None,
) -> Program:
    """The program of `module` on its cores, `cores` where the file leaves their number open (`cores.py`).

    `fuse` says which element-wise operations become one.

    All cores get equal bytes for parameters in `replicated`. With `whole` the module is one that XLA has not
    partitioned: it becomes a program of one core, and its shardings ask for cuts (`annotations.py`).

    Raises `HauloutError` (`bad-input`), with the line of the HLO text and of the user's source, on a module that is
    not partitioned, on an attribute that is not supported, and on shapes that do not fit together. An opcode that is
    not known becomes an opaque instruction (`opaque.py`), unless it is a collective.
    """
    if whole:
        module = replace(module, num_partitions=1)
    else:
        module = with_cores(module, cores)
        require_partitioned(module)
    try:
        return _lower(expand(module), fuse, replicated)
    except HauloutError as error:
        raise all_refusals(module, RULES, error) from None


def _lower(module: HloModule, fuse: Fuse, replicated: Collection[str]) -> Program:
    """The program of a module that is rewritten."""
    flat = flatten_with_views(module, RULES)
    choose_movements(live_steps(flat))
    results = [view.array for _, view in leaves(flat.result)]
    steps = swap_products(live_steps(flat), results)
    promised = parameter_classes(flat.parameters, module.num_partitions, replicated, by_replica=module.by_replica)
    uniformity = find_uniformity(module, promised, steps)
    divergent = [loop for loop in loops_of(steps) if uniformity.is_divergent(loop)]
    length = flat.length
    if divergent:
        steps, length = guard_bodies(steps, divergent)
        uniformity = find_uniformity(module, promised, steps)
    steps = order_for_memory(steps, donated(module, flat), results)
    if fuse == "all":
        # Arrays that are fused have no bytes, so another order may need less.
        steps = order_for_memory(fuse_elementwise(module, flat, steps), donated(module, flat), results)
    storage = assign_storage(module, flat, steps, uniformity.may_overwrite)
    plan_boundaries(steps, storage)
    out = Emitter(module, storage, steps, divergent_branches(steps, uniformity))
    for step in steps:
        if not isinstance(step, Operation):
            out.boundary(step)
            continue
        rule = _MADE.get(step.opcode) or RULES[step.opcode]
        if not isinstance(step, Opaque):
            check_attributes(step.instruction, RULES[step.instruction.opcode].attributes)
        rule.emit(out, step)
    out.finish(length + 1)
    same = out.core_classes(promised)
    return replicate(out.build.freeze(), module.num_partitions, data=out.per_core_data, same=same)
