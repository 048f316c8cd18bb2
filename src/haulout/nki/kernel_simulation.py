"""Simulation of a kernel: arrays in, arrays out, under one schedule or under all.

trace       the kernel's Python; arrays are arguments and inputs
prepare     the order that NKI's compiler guarantees inside a core (`kernel_check.prepare`)
simulate    events in the order of a schedule; each instruction computes (`haulout.sim.nki`)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from haulout.frontends.nki import BarrierScope, Kernel, Trace, emit, trace_of
from haulout.ir.program import Program
from haulout.nki.kernel_check import prepare
from haulout.nki.kernel_inputs import given_arrays, tensor_array
from haulout.sim import compare_schedules
from haulout.sim import simulate as run
from haulout.sim.execution import Progress
from haulout.sim.run import SimulationResult
from haulout.support.diagnostics import Diagnostic, HauloutError, Severity

Array = npt.NDArray[Any]
MAX_INSTRUCTIONS = 10_000_000


@dataclass(slots=True)
class SimulatedKernel:
    """The outputs of a kernel, and everything that was found on the way."""

    trace: Trace
    program: Program
    returned: tuple[Array, ...]
    """The tensors that the kernel returned, as core 0 has them."""
    result: SimulationResult
    diagnostics: list[Diagnostic]
    schedules: int
    """How many schedules were compared, or 1."""

    @property
    def ok(self) -> bool:
        """No error."""
        return not any(each.severity is Severity.ERROR for each in self.diagnostics)


def simulate(
    kernel: Kernel,
    *args: Any,
    lnc: int | None = None,
    barrier_scope: BarrierScope = "data",
    schedule: str = "list",
    target: str = "gen3",
    seed: int = 0,
    **kwargs: Any,
) -> Any:
    """What a kernel returns for some arguments: an array, or a tuple of arrays.

    Arrays are tensors in HBM, in NKI's element types (those of `ml_dtypes` included). A tensor that is only described
    (`haulout.nki.tensor`) is drawn from `seed`. `lnc`: the number of cores; None: that of the launch grid, `f[2]`, or
    two. `schedule`: see `haulout.sim.simulate`, or `all`, which also compares all adversarial ones. Raises
    `HauloutError` with all findings if one is an error.
    """
    grid = getattr(kernel, "grid", None)
    if lnc is None:
        lnc = grid if isinstance(grid, int) else 2
    found = simulate_kernel(
        kernel,
        _named(kernel, args, kwargs),
        lnc=lnc,
        barrier_scope=barrier_scope,
        schedule=schedule,
        target=target,
        seed=seed,
    )
    if not found.ok:
        raise HauloutError(*found.diagnostics)
    return found.returned[0] if len(found.returned) == 1 else found.returned


def simulate_kernel(
    kernel: Kernel,
    arguments: Mapping[str, Any] | Sequence[Any] = (),
    *,
    lnc: int = 2,
    barrier_scope: BarrierScope = "data",
    schedule: str = "list",
    target: str = "gen3",
    seed: int = 0,
    max_instructions: int = MAX_INSTRUCTIONS,
    progress: Progress | None = None,
) -> SimulatedKernel:
    """The same, with the trace, the program and all findings. Raises `HauloutError` if the kernel does not run to its
    end.
    """
    traced = trace_of(kernel, arguments, lnc=lnc, target=target)
    return simulate_trace(
        traced,
        barrier_scope=barrier_scope,
        schedule=schedule,
        seed=seed,
        max_instructions=max_instructions,
        progress=progress,
    )


def simulate_trace(
    traced: Trace,
    *,
    barrier_scope: BarrierScope = "data",
    schedule: str = "list",
    seed: int = 0,
    max_instructions: int = MAX_INSTRUCTIONS,
    progress: Progress | None = None,
) -> SimulatedKernel:
    """The same for a trace."""
    if traced.failed:
        raise HauloutError(*traced.findings.items)
    program = prepare(emit(traced, barrier_scope=barrier_scope).program)
    values = given_arrays(traced, program, seed)
    options: dict[str, Any] = {"seed": seed, "max_instructions": max_instructions, "progress": progress}
    first = "list" if schedule == "all" else schedule
    result = run(program, values, schedule=first, **options)
    found, schedules = [*traced.findings.items, *result.diagnostics], 1
    if schedule == "all":
        report = compare_schedules(program, values, excuse_equal=True, **options)
        found += report.diagnostics
        schedules = len(report.schedules)
    return SimulatedKernel(traced, program, _returned(traced, result), result, found, schedules)


def _named(kernel: Kernel, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Mapping[str, Any] | Sequence[Any]:
    if not kwargs:
        return args
    if not args:
        return kwargs
    raise TypeError("give the arguments of a kernel by position, or all by name")


def _returned(traced: Trace, result: SimulationResult) -> tuple[Array, ...]:
    found = []
    for tensor in traced.returned[0]:
        if tensor is None:
            continue
        whole = result.outputs.get(f"nc0/{tensor.storage.name}")
        if whole is None:
            continue
        stored = np.ascontiguousarray(whole).reshape(-1).view(np.uint8)
        found.append(tensor_array(stored, tensor))
    return tuple(found)
