"""The planner of ExecuTorch's arenas: `suite` is an algorithm for `MemoryPlanningPass`. Extra: `executorch`.

    planner = haulout.executorch.suite(capacity=256 * 1024)
    passes = MemoryPlanningPass(memory_planning_algo=planner)
    program = edge.to_executorch(ExecutorchBackendConfig(memory_planning_pass=passes))
    print(planner.report())

A tensor is a buffer that is live from its first node to its last one, both included. A memory id is a pool. What
shares the storage of another tensor (`storage_base`, `inplace_base`) has no row of its own: the row of that tensor
lives as long as any of them. Branches and bodies of loops are planned first. In the graph around them, what they need
is one buffer for each node that runs them, from this node to the last use of its results, because the results of a
branch stay in the bytes of the branch; then the offsets of their tensors move there.

    arena    [ a ][   two branches   ]           nodes  4 .. 7: the branches run in node 4, node 7 reads the result
             [    b     ][   c    ]              nodes  8 .. 12
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from haulout.packing.bound import live_at, lower_bound
from haulout.packing.overflow import largest_hole, over_capacity
from haulout.packing.plan import solve
from haulout.packing.problem import I64, Problem
from haulout.packing.rules import Pool, Rules, check_bytes
from haulout.packing.validate import violations
from haulout.support.diagnostics import HauloutError, bad_input
from haulout.support.shown import format_bytes

__all__ = ["Arena", "Planner", "Tensor", "suite"]

MAX_LISTED = 10


@dataclass(frozen=True, slots=True)
class Tensor:
    """A planned tensor: its node, `size` and `offset` in bytes, the first and the last node that uses it."""

    name: str
    size: int
    offset: int
    first: int
    last: int
    kind: str
    """Element type and shape."""
    line: str
    """The source line that made it, as `file:line`; empty if unknown."""


@dataclass(frozen=True, slots=True)
class Arena:
    """One memory id of one graph. Sizes are bytes.

    `greedy`: what ExecuTorch's own algorithm needs; None if its placement is wrong or gives the arena nothing.
    `padding` is added for XNNPACK, and part of none of the other numbers. `largest_hole`: the longest free stretch
    below the peak at `moment`, the node at which the most bytes are live; `at_peak`: the tensors of that moment, the
    largest first.
    """

    graph: int
    memory: int
    tensors: int
    peak: int
    lower_bound: int
    greedy: int | None
    capacity: int | None
    padding: int
    moment: int
    largest_hole: int
    at_peak: tuple[Tensor, ...]

    def __str__(self) -> str:
        limit = "" if self.capacity is None else f" of {self.capacity}"
        lines = [
            f"graph {self.graph}, memory {self.memory}: {self.peak}{limit} bytes ({format_bytes(self.peak)}) for "
            f"{self.tensors} tensors, lower bound {self.lower_bound}"
        ]
        if self.greedy is not None:
            gain = "already the smallest" if self.greedy == self.lower_bound else f"{self.greedy - self.peak} saved"
            lines.append(
                f"  greedy: {self.greedy} bytes, {_ratio(self.greedy, self.lower_bound)} of the bound, {gain}"
            )
        lines.append(f"  at node {self.moment} the largest hole is {self.largest_hole} bytes, and these are live:")
        lines += [
            f"    {each.size:>12} at {each.offset:<12} {each.name}, {each.kind}, nodes {each.first} to {each.last}"
            + (f", {each.line}" if each.line else "")
            for each in self.at_peak[:MAX_LISTED]
        ]
        if len(self.at_peak) > MAX_LISTED:
            lines.append(f"    and {len(self.at_peak) - MAX_LISTED} more")
        return "\n".join(lines)


def _ratio(bytes_: int, bound: int) -> str:
    return f"{bytes_ / bound:.3f}" if bound else "1.000"


def suite(*, capacity: int | Mapping[int, int | None] | None = None, effort: float = 1.0) -> Planner:
    """An algorithm for `MemoryPlanningPass(memory_planning_algo=...)`, never worse than ExecuTorch's own.

    `capacity`: bytes of memory 1, or of each memory id (None: no limit), the fastest first. With a mapping, tensors
    that have no memory id are placed in the memories of the mapping; those that have one keep it. `effort`: how much
    to search, 1 is usual, 0 is construction alone. Raises `bad-input`; planning raises `over-capacity`, which names
    the tensors that cannot fit together.
    """
    given = capacity if isinstance(capacity, Mapping) else {} if capacity is None else {1: capacity}
    for memory, size in given.items():
        if not isinstance(memory, int) or isinstance(memory, bool) or memory < 1:
            bad_input(f"`capacity` names memory {memory!r}, expected an integer from 1")
        check_bytes(f"the capacity of memory {memory}", size)
    return Planner(dict(given), tuple(given) if isinstance(capacity, Mapping) else (1,), effort)


@dataclass(slots=True)
class Planner:
    """Made by `suite`. `arenas`: what was planned, one a graph and memory id; bodies come before their graph."""

    capacity: dict[int, int | None]
    free: tuple[int, ...]
    """Memories of tensors without a memory id, the preferred one first."""
    effort: float = 1.0
    arenas: list[Arena] = field(default_factory=list)
    planned: dict[int, _Planned] = field(default_factory=dict)
    """By the identity of the graph."""

    def __call__(
        self, alignment: int, specs: Iterable[Any], graph_module: Any, graph_signature: Any, extra_padding: int = 0
    ) -> list[int]:
        """Give every spec its memory id and offset. The bytes of each memory id; the first entry, constants, is 0."""
        rows = list(specs)
        for spec in rows:
            spec.realign(alignment)
        graph = _Graph(graph_module, rows, alignment, self.planned)
        greedy = _greedy(alignment, rows, graph_module, graph_signature, graph)
        memory, offset = self._placed(graph, greedy, extra_padding)
        graph.write(memory, offset)
        number = len(self.planned)
        sizes = [0] * (max(1, *memory.tolist()) + 1)
        for each in np.unique(memory).tolist():
            mine = np.flatnonzero(memory == each)
            part, own = graph.problem(mine), offset[mine]
            peak = int((own + part.size).max(initial=0))
            sizes[each] = peak + (extra_padding if graph.tensors(mine) else 0)
            if graph.tensors(mine):
                theirs = greedy.size(each) if len(self.free) == 1 else None
                self.arenas.append(
                    Arena(
                        graph=number,
                        memory=each,
                        tensors=graph.tensors(mine),
                        peak=peak,
                        lower_bound=lower_bound(part).size,
                        greedy=theirs,
                        capacity=self.capacity.get(each),
                        padding=extra_padding,
                        **graph.fullest(mine, part, own),
                    )
                )
        self.planned[id(graph_module)] = _Planned(graph_module, rows, sizes, [body for _, body in graph.bodies])
        return sizes

    def _placed(self, graph: _Graph, greedy: _Greedy, padding: int) -> tuple[I64, I64]:
        """The memory id and the offset of each row."""
        limit = {each: None if size is None else max(0, size - padding) for each, size in self.capacity.items()}
        allowed = [self.free if each is None else (each,) for each in graph.memory]
        if any(len(each) > 1 for each in allowed):
            return self._in_pools(graph, allowed, limit)
        memory = np.array([each[0] for each in allowed], np.int64).reshape(len(allowed))
        offset = np.zeros(len(allowed), np.int64)
        for each in np.unique(memory).tolist():
            mine = np.flatnonzero(memory == each)
            problem, names = graph.problem(mine), graph.names(mine)
            hint = greedy.offset[mine] if greedy.valid else None
            solution = solve(problem, hint=hint, effort=self.effort)
            capacity = limit.get(each)
            if capacity is not None and solution.peak > capacity:  # search for this very number
                solution = solve(problem, capacity=capacity, hint=hint, effort=self.effort)
                if not solution.fits:
                    raise HauloutError(over_capacity(_in(problem, Pool(f"memory {each}", capacity)), solution, names))
            offset[mine] = solution.offset
        return memory, offset

    def _in_pools(
        self, graph: _Graph, allowed: Sequence[tuple[int, ...]], limit: Mapping[int, int | None]
    ) -> tuple[I64, I64]:
        ids = sorted({each for pools in allowed for each in pools}, key=[*self.free, *graph.known].index)
        problem = graph.problem(np.arange(len(allowed)))
        rules = Rules(
            pools=tuple(Pool(f"memory {each}", limit.get(each)) for each in ids),
            allowed=tuple(tuple(ids.index(each) for each in pools) for pools in allowed),
        )
        problem = replace(problem, rules=rules)
        solution = solve(problem, effort=self.effort)
        if not solution.fits:
            raise HauloutError(over_capacity(problem, solution, graph.names(np.arange(len(allowed)))))
        return np.array(ids, np.int64)[solution.pool], solution.offset

    def report(self) -> str:
        """For each arena its bytes, the bound, ExecuTorch's own figure, the largest hole, what makes the peak."""
        return "\n".join(map(str, self.arenas))


def _in(problem: Problem, pool: Pool) -> Problem:
    return replace(problem, rules=replace(problem.rules, pools=(pool,)))


@dataclass(frozen=True, slots=True, eq=False)
class _Greedy:
    """ExecuTorch's own placement of the rows: offsets, bytes of each memory id, whether no two live rows overlap."""

    offset: I64
    sizes: Sequence[int]
    valid: bool

    def size(self, memory: int) -> int | None:
        """Bytes of a memory id; None if the placement is wrong or has none."""
        return (self.sizes[memory] or None) if self.valid and memory < len(self.sizes) else None


def _greedy(alignment: int, specs: list[Any], graph_module: Any, signature: Any, graph: _Graph) -> _Greedy:
    try:
        from executorch.exir.memory_planning import greedy
    except ImportError:
        bad_input("planning for ExecuTorch needs the package executorch: pip install 'haulout[executorch]'")
    result = greedy(alignment, specs, graph_module, signature, 0)
    offset = np.zeros(len(graph.memory), np.int64)
    memory = np.array([each or 1 for each in graph.memory], np.int64)
    for row, spec in enumerate(graph.rows):
        offset[row] = result.spec_dict[spec].mem_offset
    wrong = [
        each
        for each in np.unique(memory).tolist()
        for mine in (np.flatnonzero(memory == each),)
        if violations(graph.problem(mine), offset[mine])
    ]
    return _Greedy(offset, result.bufsizes, not wrong)


class _Graph:
    """The rows of a graph: one for each spec that has storage of its own, then what its branches and loops need."""

    def __init__(self, graph_module: Any, specs: list[Any], alignment: int, planned: Mapping[int, _Planned]) -> None:
        self.alignment = alignment
        self.specs = specs
        self.base: list[tuple[int, int]] = []
        """For each spec its row, and its offset within the row."""
        self.rows: list[Any] = []
        self.nodes = list(graph_module.graph.nodes)
        row_of: dict[int, int] = {}
        roots = [_root(spec) for spec in specs]
        own = {id(spec) for spec in specs}
        for spec, (root, _) in zip(specs, roots, strict=True):
            if id(root) not in own:
                bad_input(f"{spec} shares the storage of {root}, which is not planned")
            if id(root) not in row_of and root is spec:
                row_of[id(root)] = len(self.rows)
                self.rows.append(spec)
        first: list[int] = [each.lifetime[0] for each in self.rows]
        last: list[int] = [each.lifetime[1] for each in self.rows]
        size: list[int] = [0] * len(self.rows)
        for spec, (root, shift) in zip(specs, roots, strict=True):
            row = row_of[id(root)]
            self.base.append((row, shift))
            if None in spec.lifetime:
                bad_input(f"{spec} has no lifetime")
            first[row], last[row] = min(first[row], spec.lifetime[0]), max(last[row], spec.lifetime[1])
            size[row] = max(size[row], shift + spec.allocated_memory)
        self.memory: list[int | None] = [each.mem_id for each in self.rows]
        self.bodies: list[tuple[int, _Planned]] = []
        """Rows of what other graphs need, and these graphs."""
        if any(getattr(graph_module, "input_mem_buffer_sizes", None) or ()):
            for start, end, bodies in _runs(graph_module, self.nodes, planned):
                for memory in range(1, max(len(each.sizes) for each in bodies)):
                    self.bodies += [(len(size), each) for each in bodies]
                    self.memory.append(memory)
                    first.append(start)
                    last.append(end)
                    size.append(max(each.sizes[memory] for each in bodies if memory < len(each.sizes)))
        self.first, self.last, self.size = (np.array(each, np.int64) for each in (first, last, size))
        self.known = sorted({each or 1 for each in self.memory})

    def problem(self, rows: I64) -> Problem:
        """These rows as buffers of one address space; times are nodes, half-open."""
        return Problem.of(self.first[rows], self.last[rows] + 1, self.size[rows], self.alignment)

    def tensors(self, rows: I64) -> int:
        """How many of the rows are tensors."""
        return int((rows < len(self.rows)).sum())

    def names(self, rows: I64) -> list[str]:
        """The names of these rows."""
        made = self._makers()
        return [self._name(row, made) for row in rows.tolist()]

    def _name(self, row: int, made: Mapping[int, Any]) -> str:
        if row >= len(self.rows):
            return f"graphs of {self.nodes[self.first[row]].name}"
        node = made.get(id(self.rows[row]))
        return f"tensor {row}" if node is None else str(node.name)

    def _makers(self) -> dict[int, Any]:
        """The node that makes each spec: not the `alloc` before it."""
        made: dict[int, Any] = {}
        for node in self.nodes:
            if node.op in ("call_function", "placeholder") and getattr(node.target, "__name__", "") != "alloc":
                for spec in _flat(node.meta.get("spec")):
                    made.setdefault(id(spec), node)
        return made

    def fullest(self, rows: I64, part: Problem, offset: I64) -> dict[str, Any]:
        """The moment, the hole and the tensors of an `Arena`."""
        bound = lower_bound(part)
        top = int(np.argmax(np.where(part.occupies, offset + part.size, -1)))
        moment = int(part.lower[top]) if bound.moment is None else bound.moment
        live = live_at(part, moment)
        peak = int((offset + part.size).max(initial=0))
        made = self._makers()
        tensors = []
        for k in live[np.lexsort((live, -part.size[live]))].tolist():
            row = int(rows[k])
            spec = self.rows[row] if row < len(self.rows) else None
            kind = "" if spec is None else f"{str(spec.dtype).removeprefix('torch.')}{list(spec.shape)}"
            ends = int(self.first[row]), int(self.last[row])
            line = _line(made.get(id(spec)))
            tensors.append(Tensor(self._name(row, made), int(part.size[k]), int(offset[k]), *ends, kind, line))
        hole = largest_hole(part, offset, live, peak)
        return {"moment": moment, "largest_hole": hole, "at_peak": tuple(tensors)}

    def write(self, memory: I64, offset: I64) -> None:
        """Set `mem_id`, `mem_offset` and `mem_obj_id`: one object for what overlaps, directly or through others."""
        thing = np.zeros(len(memory), np.int64)
        number, end, before = -1, 0, 0
        for row in np.lexsort((offset, memory)).tolist():
            if memory[row] != before or offset[row] >= end:
                number, end, before = number + 1, 0, int(memory[row])
            end = max(end, int(offset[row] + self.size[row]))
            thing[row] = number
        for spec, (row, shift) in zip(self.specs, self.base, strict=True):
            spec.mem_id, spec.mem_offset, spec.mem_obj_id = (
                int(memory[row]),
                int(offset[row]) + shift,
                int(thing[row]),
            )
        for row, body in self.bodies:
            body.move(int(memory[row]), int(offset[row]))


def _root(spec: Any) -> tuple[Any, int]:
    """The spec whose storage a spec uses, itself in most cases, and the offset within it."""
    shift, seen = 0, {id(spec)}
    while True:
        name = "storage_base" if hasattr(spec, "storage_base") else "inplace_base"  # until ExecuTorch 1.4
        base = getattr(spec, name, None)
        if base is None:
            return spec, shift
        if id(base) in seen:
            bad_input(f"{spec} shares its own storage, through others")
        seen.add(id(base))
        shift += getattr(spec, "storage_base_offset", 0)
        spec = base


@dataclass(frozen=True, slots=True, eq=False)
class _Planned:
    """A graph that has its offsets: its specs, bytes of each memory id, the graphs that it runs."""

    graph_module: Any
    specs: list[Any]
    sizes: list[int]
    bodies: list[_Planned]

    def move(self, memory: int, by: int) -> None:
        """Add to the offsets in a memory, also those of the graphs inside."""
        for spec in self.specs:
            if spec.mem_id == memory:
                spec.mem_offset += by
        for each in {id(body): body for body in self.bodies}.values():
            each.move(memory, by)


def _runs(
    graph_module: Any, nodes: Sequence[Any], planned: Mapping[int, _Planned]
) -> list[tuple[int, int, list[_Planned]]]:
    """For each node that runs other graphs: its number, the last use of its results, and the graphs.

    Nodes that run a common graph are one entry.
    """
    runs: list[tuple[int, int, list[_Planned]]] = []
    for number, node in enumerate(nodes):
        targets = [getattr(graph_module, each.target, None) for each in node.all_input_nodes if each.op == "get_attr"]
        bodies = [planned[id(each)] for each in targets if id(each) in planned]
        if not bodies:
            continue
        ends = [spec.lifetime[1] for spec in _flat(node.meta.get("spec"))]
        first, last = number, max(number, *(each for each in ends if each is not None))
        for other in [each for each in runs if any(body in bodies for body in each[2])]:
            runs.remove(other)
            first, last = min(first, other[0]), max(last, other[1])
            bodies = [*other[2], *(body for body in bodies if body not in other[2])]
        runs.append((first, last, bodies))
    return runs


def _flat(specs: Any) -> Iterator[Any]:
    """The tensor specs of a node: of one result, or of several."""
    if isinstance(specs, list | tuple):
        for each in specs:
            yield from _flat(each)
    elif hasattr(specs, "lifetime"):
        yield specs


def _line(node: Any) -> str:
    """`file:line` of the innermost call that made a node, outside of torch if there is one."""
    trace = "" if node is None else node.meta.get("stack_trace") or ""
    found = re.findall(r'File "([^"<]+)", line (\d+)', trace)
    own = [each for each in found if not re.search(r"[\\/]torch[\\/]", each[0])]
    return ":".join((own or found)[-1]) if found else ""
