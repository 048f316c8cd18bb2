"""Placements as text: a table, JSON, and a C header. CSV is in `csvio.py`."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from haulout.packing.problem import Problem
from haulout.packing.solution import Solution


def to_table(problem: Problem, solution: Solution, names: Sequence[str]) -> str:
    """One line a buffer: pool, offset, end, size and name, by pool and offset."""
    lines = [f"{'pool':<12} {'offset':>14} {'end':>14} {'size':>14}  buffer"]
    pools = [pool.name for pool in problem.rules.pools]
    rows = zip(solution.pool.tolist(), solution.offset.tolist(), problem.size.tolist(), names, strict=False)
    for pool, offset, size, name in sorted(rows):
        lines.append(f"{pools[pool]:<12} {offset:>14} {offset + size:>14} {size:>14}  {name}")
    return "\n".join(lines) + "\n"


def to_json(problem: Problem, solution: Solution, names: Sequence[str]) -> str:
    """`pools` with their peaks, `buffers` with pool and offset, the status."""
    pools = [pool.name for pool in problem.rules.pools]
    document = {
        "status": str(solution.status),
        "peak": solution.peak,
        "lower_bound": solution.lower_bound,
        "pools": [
            {"name": use.name, "peak": use.peak, "lower_bound": use.lower_bound, "capacity": use.capacity}
            for use in solution.pools
        ],
        "buffers": [
            {"id": name, "pool": pools[pool], "offset": offset, "size": size}
            for name, pool, offset, size in zip(
                names, solution.pool.tolist(), solution.offset.tolist(), problem.size.tolist(), strict=False
            )
        ],
    }
    return json.dumps(document, indent=1) + "\n"


def to_header(problem: Problem, solution: Solution, names: Sequence[str]) -> str:
    """A C header: the bytes of each pool, and offset, size and pool of each buffer as macros.

    Names become identifiers; those that would be equal get the number of their buffer.
    """
    out = [
        "/* Offsets of buffers in their pools, in bytes. Written by haulout plan. */",
        "#ifndef HAULOUT_PLAN_H",
        "#define HAULOUT_PLAN_H",
        "",
    ]
    used: set[str] = set()
    pools = []
    for number, use in enumerate(solution.pools):
        pools.append(_identifier(use.name, number, used))
        out += [f"#define {pools[-1]}_POOL {number}", f"#define {pools[-1]}_POOL_BYTES {use.peak}ull"]
    out.append("")
    used = set()
    rows = zip(names, solution.pool.tolist(), solution.offset.tolist(), problem.size.tolist(), strict=False)
    for number, (name, pool, offset, size) in enumerate(rows):
        macro = _identifier(name, number, used)
        out.append(f"#define {macro}_OFFSET {offset}ull")
        out.append(f"#define {macro}_SIZE {size}ull")
        if len(pools) > 1:
            out.append(f"#define {macro}_IN {pools[pool]}_POOL")
    return "\n".join([*out, "", "#endif", ""])


def _identifier(name: str, number: int, used: set[str]) -> str:
    """A new identifier of C for a name."""
    text = re.sub(r"[^A-Z0-9]+", "_", name.upper()).strip("_") or "BUFFER"
    if text[0].isdigit():
        text = f"B_{text}"
    while text in used:
        text = f"{text}_{number}"
    used.add(text)
    return text
