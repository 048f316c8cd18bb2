"""Programs of one collective, and what they compute, in plain NumPy: nothing here is shared with the lowerings.

    Case("all_gather", cores=4, groups=[[0, 2], [1, 3]], dtypes=["f32", "s32"], shape=(4, 8), dim=1)

`program` is that collective with copies before and after it, on inputs `x0`, `x1`, ... and outputs `y0`, `y1`, ...;
`expected` maps the inputs of all cores to the outputs of all cores.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from haulout import Program
from haulout.ir.builder import ProgramBuilder
from haulout.ir.dtypes import NUMPY
from haulout.ir.enums import Engine, Kind, Space

Values = dict[str, np.ndarray[Any, Any]]

UFUNCS: dict[str, Any] = {
    "add": np.add,
    "multiply": np.multiply,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
}


@dataclass(frozen=True)
class Case:
    opcode: str
    cores: int
    groups: list[list[int]]
    dtypes: list[str]
    shape: tuple[int, ...] = (4, 8)
    dim: int = 0
    op: str = "add"
    pairs: list[list[int]] = field(default_factory=list)
    tuple_form: bool = False
    timed: bool = True

    def __str__(self) -> str:
        what = [self.opcode, f"n{self.cores}", "+".join(self.dtypes)]
        what += [self.op] if self.opcode in ("all_reduce", "reduce_scatter") else []
        what += [f"dim{self.dim}"] if self.opcode not in ("all_reduce", "collective_permute") else []
        what += ["groups"] if len(self.groups) > 1 else []
        what += ["tuple"] if self.tuple_form else []
        what += [] if self.timed else ["noseq"]
        return "-".join(what)

    @property
    def result_shape(self) -> tuple[int, ...]:
        size, shape = len(self.groups[0]), list(self.shape)
        if self.opcode == "all_gather":
            shape[self.dim] *= size
        if self.opcode == "reduce_scatter":
            shape[self.dim] //= size
        return tuple(shape)

    def attrs(self) -> dict[str, Any]:
        if self.opcode == "collective_permute":
            return {"pairs": self.pairs}
        attrs: dict[str, Any] = {"groups": self.groups}
        if self.opcode in ("all_reduce", "reduce_scatter"):
            attrs["op"] = self.op
        if self.opcode not in ("all_reduce",) and not self.tuple_form:
            attrs["dim"] = self.dim
        return attrs

    def program(self) -> Program:
        """Inputs are copied before the collective and results behind it, on other engines than the collective's."""
        build = ProgramBuilder(str(self), self.cores)
        for core in range(self.cores):
            main = build.function(build.module(f"nc{core}", core), "main")
            entry = build.block(main, "entry")
            seq = 0

            def step(opcode: str, engine: Engine, reads: Sequence[int], writes: Sequence[int], **attrs: Any) -> None:
                nonlocal seq
                name = f"i{seq}"
                time = seq if self.timed else None
                build.instruction(entry, name, opcode, engine, reads, writes, seq=time, attrs=attrs or None)  # noqa: B023
                seq += 1

            def location(name: str, kind: Kind, dtype: str, shape: tuple[int, ...]) -> int:
                size = math.prod(shape) * NUMPY[dtype].itemsize
                return build.location(main, name, Space.DRAM_LOCAL, size, kind=kind, dtype=dtype, shape=shape)  # noqa: B023

            numbered = list(enumerate(self.dtypes))
            sources = [location(f"x{at}", Kind.INPUT, dtype, self.shape) for at, dtype in numbered]
            copies = [location(f"a{at}", Kind.INTERNAL, dtype, self.shape) for at, dtype in numbered]
            results = [location(f"b{at}", Kind.INTERNAL, dtype, self.result_shape) for at, dtype in numbered]
            targets = [location(f"y{at}", Kind.OUTPUT, dtype, self.result_shape) for at, dtype in numbered]
            for at, (source, copy) in enumerate(zip(sources, copies, strict=True)):
                step("copy", (Engine.VECTOR, Engine.ACT)[at % 2], [source], [copy])
            step(self.opcode, Engine.POOL, copies, results, **self.attrs())
            # What was read may be overwritten at once: a WAR edge that the lowering must not lose.
            for copy in copies:
                step("memset", Engine.DMA5, [], [copy], value=255)
            for result, target in zip(results, targets, strict=True):
                step("copy", Engine.ACT, [result], [target])
        return build.freeze()

    def inputs(self, seed: int = 0) -> Values:
        generator = np.random.default_rng(seed)
        values: Values = {}
        for core in range(self.cores):
            for at, name in enumerate(self.dtypes):
                dtype = NUMPY[name]
                whole = generator.integers(0 if name[0] in "up" else -3, 2 if name == "pred" else 4, self.shape)
                fraction = generator.random(self.shape) if name in ("f32", "f16", "bf16", "f64") else 0
                values[f"nc{core}/x{at}"] = (whole + fraction).astype(dtype)
        return values

    def expected(self, inputs: Values) -> Values:
        outputs: Values = {}
        for at in range(len(self.dtypes)):
            given = [inputs[f"nc{core}/x{at}"] for core in range(self.cores)]
            for core in range(self.cores):
                outputs[f"nc{core}/y{at}"] = self._result(given, inputs, core, at)
        return outputs

    def _result(self, given: list[Any], inputs: Values, core: int, at: int) -> Any:
        if self.opcode == "collective_permute":
            sources = [source for source, target in self.pairs if target == core]
            return given[sources[0]] if sources else np.zeros_like(given[core])
        group = next(group for group in self.groups if core in group)
        mine = group.index(core)
        members = [given[peer] for peer in group]
        match self.opcode:
            case "all_reduce":
                return functools.reduce(UFUNCS[self.op], members)
            case "reduce_scatter":
                return np.split(functools.reduce(UFUNCS[self.op], members), len(group), self.dim)[mine]
            case "all_gather":
                return np.concatenate(members, self.dim)
            case "all_to_all" if self.tuple_form:
                return inputs[f"nc{group[at]}/x{mine}"]
            case "all_to_all":
                return np.concatenate([np.split(each, len(group), self.dim)[mine] for each in members], self.dim)
        raise AssertionError(self.opcode)
