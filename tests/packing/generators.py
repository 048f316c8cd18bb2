"""Larger problems from a seed."""

from __future__ import annotations

import numpy as np

from haulout.packing import Problem


def random_problem(n: int, seed: int, alignment: int = 1) -> Problem:
    """Sizes and lifetimes spread evenly over their logarithms."""
    rng = np.random.default_rng(seed)
    lower = rng.integers(0, 4 * n, n)
    life = np.exp(rng.uniform(0, np.log(2 * n), n)).astype(np.int64) + 1
    size = np.exp(rng.uniform(np.log(16), np.log(1 << 20), n)).astype(np.int64)
    return Problem.of(lower, lower + life, size, alignment)


def perfect_problem(n: int, seed: int, width: int = 4096, height: int = 4096) -> Problem:
    """A rectangle of time and bytes cut into n pieces: everything fits `height` bytes without a hole."""
    rng = np.random.default_rng(seed)
    pieces = [(0, width, 0, height)]
    while len(pieces) < n:
        pieces.sort(key=lambda p: (p[1] - p[0]) * (p[3] - p[2]))
        a, b, c, d = pieces.pop()
        if (rng.random() < 0.5 and b - a > 1) or d - c <= 1:
            cut = int(rng.integers(a + 1, b))
            pieces += [(a, cut, c, d), (cut, b, c, d)]
        else:
            cut = int(rng.integers(c + 1, d))
            pieces += [(a, b, c, cut), (a, b, cut, d)]
    rng.shuffle(pieces)
    table = np.array(pieces)
    return Problem.of(table[:, 0], table[:, 1], table[:, 3] - table[:, 2], 1)


def network_problem(n: int, seed: int) -> Problem:
    """Forward and backward through layers: activations live long, temporaries briefly, few distinct sizes."""
    rng = np.random.default_rng(seed)
    layers = max(4, n // 12)
    layer = rng.integers(0, layers, n)
    kind = rng.random(n)
    backward = (2 * layers - layer) * 8
    lower = np.where(kind > 0.6, backward, layer * 8) + rng.integers(0, 4, n)
    upper = np.where(kind < 0.25, backward + 8, lower + rng.integers(1, 24, n))
    sizes = 2 ** rng.integers(8, 20, 40) * rng.choice([1, 3, 5], 40)
    return Problem.of(lower, np.maximum(upper, lower + 1), sizes[(layer * 7 + (kind * 10).astype(int)) % 40], 64)
