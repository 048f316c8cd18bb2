"""Bytes that all operations treat alike, as one."""

from __future__ import annotations

from collections import defaultdict

from haulout_judges.queues import Queues


def atoms(made: Queues) -> tuple[list[list[int]], list[list[int]], int]:
    """Of each operation the atoms that it reads and those that it writes; how many atoms there are."""
    users: dict[int, list[int]] = defaultdict(list)
    for number, op in enumerate(made.ops):
        for byte in op.reads - op.writes:
            users[byte].append(2 * number)
        for byte in op.writes:
            users[byte].append(2 * number + 1)
    atom_of: dict[tuple[int, ...], int] = {}
    for byte in sorted(users):
        atom_of.setdefault(tuple(users[byte]), len(atom_of))
    reads: list[list[int]] = [[] for _ in made.ops]
    writes: list[list[int]] = [[] for _ in made.ops]
    for signature, atom in atom_of.items():
        for use in signature:
            (writes if use % 2 else reads)[use // 2].append(atom)
    return reads, writes, len(atom_of)
