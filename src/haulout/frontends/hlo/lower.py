"""From a parsed HLO module to a program: one module a core, one function `@main`, its first block `^entry`.

1. Flatten the entry computation: calls inlined, tuples resolved, reshapes as views, loops and branches by marks
   (`flatten.py`).
2. Decide which movements of elements store their result (`movements.py`).
3. Keep the steps that the result depends on (`live.py`), and all parameters: the rest has no effect that could be
   seen.
4. Loops that cores may run differently often go on until all of them are done (`ragged_loops.py`).
5. Give every array a location; results go straight to the outputs, new values of a loop to the place of the old ones,
   the values of two arms to one place, where that is safe (`storage.py`, `sharing.py`); elsewhere plan a copy
   (`planning.py`).
6. Emit the rows of one core, rule by rule (`ops/`): one instruction an operation, or one copy a piece; blocks for
   loops and branches (`emit.py`), with the number of iterations where it is known (`trips.py`), and a mark where
   cores may part (`uniformity.py`).
7. Repeat them for every core. Cores differ only in the constants that hold their ids.

HLO is SPMD: all cores run the same text, so `seq`, the position of the instruction in the flattened source, is the
common time of all of them. `outputs=` on the program names the locations of the results in the order of the result
tuple; the parameters are the first locations of the function, in their order.
"""

from __future__ import annotations

from haulout.frontends.hlo.emit import Emitter, Rule
from haulout.frontends.hlo.flatten import flatten
from haulout.frontends.hlo.live import live
from haulout.frontends.hlo.model import HloModule
from haulout.frontends.hlo.movements import choose_movements
from haulout.frontends.hlo.ops import collectives, contraction, elementwise, indexing, movement, reduction, windows
from haulout.frontends.hlo.partitioned import require_partitioned
from haulout.frontends.hlo.planning import plan_marks
from haulout.frontends.hlo.ragged_loops import even_out, loops_of
from haulout.frontends.hlo.storage import assign_storage
from haulout.frontends.hlo.uniformity import divergent_branches, find_uniformity
from haulout.frontends.hlo.values import Operation, check_attributes
from haulout.ir.program import Program
from haulout.ir.replicate import replicate
from haulout.ir.schema import MAX_CORES

RULES: dict[str, Rule] = {
    **elementwise.RULES,
    **movement.RULES,
    **contraction.RULES,
    **windows.RULES,
    **reduction.RULES,
    **indexing.RULES,
    **collectives.RULES,
}
"""Every HLO opcode that becomes instructions; those that only rearrange names are resolved in `flatten.py`."""


def lower(module: HloModule) -> Program:
    """The program of `module` on `num_partitions` cores.

    Raises `HauloutError` (`bad-input`), with the line of the HLO text and of the user's source, on a module that is
    not partitioned, on an opcode or an attribute that is not supported, and on shapes that do not fit together.
    """
    if module.num_partitions > MAX_CORES:
        module.attributes["num_partitions"].fail(
            f"{module.num_partitions} partitions; at most {MAX_CORES} cores are supported"
        )
    require_partitioned(module)
    flat = flatten(module, module.entry, RULES, control=True)
    choose_movements(live(flat))
    steps = live(flat)
    uniformity = find_uniformity(module, flat, steps)
    ragged = [loop for loop in loops_of(steps) if uniformity.is_ragged(loop)]
    length = flat.length
    if ragged:
        steps, length = even_out(steps, ragged)
        uniformity = find_uniformity(module, flat, steps)
    storage = assign_storage(module, flat, steps)
    plan_marks(steps, storage)
    out = Emitter(module, storage, steps, divergent_branches(steps, uniformity))
    for step in steps:
        if not isinstance(step, Operation):
            out.mark(step)
            continue
        rule = RULES[step.opcode]
        check_attributes(step.instruction, rule.attributes)
        rule.emit(out, step)
    out.finish(length + 1)
    return replicate(out.build.freeze(), module.num_partitions, data=out.per_core_data, same=out.core_classes)
