"""CPU seconds to trace, emit, prepare and simulate a kernel of many layers, as one that runs a whole model has.

    python benchmarks/nki_layers.py [--layers N] [--simulate] [--profile trace|emit|prepare|simulate]

The kernel is one of a decoder's tokens: each layer normalizes, projects to q in tiles, attends to a cache of keys and
values, projects back, exchanges its half of the sum with the other core, and has a gated MLP that exchanges its sum,
too. 30 layers are about 45,000 instructions on two cores.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import time
from collections.abc import Callable
from typing import Any

from haulout.frontends.nki import TensorSpec, emit, trace_kernel
from haulout.frontends.nki.stand_ins.install import make_modules
from haulout.nki.kernel_check import prepare
from haulout.nki.kernel_simulation import simulate_trace

_MODULES = make_modules()
nl, nisa = _MODULES["nki.language"], _MODULES["nki.isa"]

P, WIDTH, HIDDEN, HEADS, CACHE = 128, 1024, 1024, 8, 512
"""Partitions; elements of a token; elements of a core's part of the MLP; heads of a core; tokens of the cache."""
TOKENS = 4


def _tile(shape: tuple[int, ...], dtype: Any, buffer: Any = None) -> Any:
    return nl.ndarray(shape, dtype=dtype, buffer=nl.sbuf if buffer is None else buffer)


def _norm(x: Any, gamma: Any, ones: Any) -> Any:
    """x scaled to unit mean square; x [P, blocks, tokens], the token's elements over partitions and blocks."""
    _, blocks, tokens = x.shape
    sums = _tile((P, tokens), nl.float32, nl.psum)
    for block in range(blocks):
        square = _tile((P, tokens), nl.bfloat16)
        nisa.activation(dst=square, op=nl.square, data=x[:, block, :])
        nisa.nc_matmul(dst=sums, stationary=ones, moving=square)
    scale = _tile((P, tokens), nl.float32)
    nisa.tensor_scalar(dst=scale, data=sums, op0=nl.multiply, operand0=1.0 / (P * blocks), op1=nl.add, operand1=1e-6)
    nisa.activation(dst=scale, op=nl.rsqrt, data=scale)
    found = _tile(x.shape, nl.bfloat16)
    for block in range(blocks):
        part = _tile((P, tokens), nl.float32)
        nisa.tensor_scalar(dst=part, data=x[:, block, :], op0=nl.multiply, operand0=gamma[:, block : block + 1])
        nisa.tensor_tensor(dst=found[:, block, :], data1=part, data2=scale, op=nl.multiply)
    return found


def _project(x: Any, weights: Any, count: int) -> Any:
    """x times weights [blocks * P, count * P], as [P, count, tokens]."""
    _, blocks, tokens = x.shape
    found = _tile((P, count, tokens), nl.bfloat16)
    for column in range(count):
        sums = _tile((P, tokens), nl.float32, nl.psum)
        for block in range(blocks):
            part = _tile((P, P), nl.bfloat16)
            rows = nl.ds(block * P, P)
            nisa.dma_copy(dst=part, src=weights[rows, nl.ds(column * P, P)])
            nisa.nc_matmul(dst=sums, stationary=part, moving=x[:, block, :])
        nisa.tensor_copy(dst=found[:, column, :], src=sums)
    return found


def _attend(q: Any, cache: Any, core: int, layer: int) -> Any:
    """Attention of each head to the cached keys and values, [2, HEADS of both cores, P, CACHE]."""
    found = _tile(q.shape, nl.bfloat16)
    for head in range(HEADS // 2):
        keys = _tile((P, CACHE), nl.bfloat16)
        nisa.dma_copy(dst=keys, src=cache[layer, 0, core * (HEADS // 2) + head])
        scores = _tile((TOKENS, CACHE), nl.float32, nl.psum)
        nisa.nc_matmul(dst=scores, stationary=q[:, head, :], moving=keys)
        weights, total, most = _tile((TOKENS, CACHE), nl.bfloat16), _tile((TOKENS, 1), nl.float32), None
        most = _tile((TOKENS, 1), nl.float32)
        nisa.tensor_reduce(dst=most, op=nl.maximum, data=scores, axis=1, negate=True)
        nisa.activation_reduce(dst=weights, op=nl.exp, data=scores, reduce_op=nl.add, reduce_res=total, bias=most)
        nisa.reciprocal(dst=total, data=total)
        nisa.tensor_scalar(dst=weights, data=weights, op0=nl.multiply, operand0=total)
        sums = _tile((P, TOKENS), nl.float32, nl.psum)
        for block in range(CACHE // P):
            turned, staged = _tile((P, TOKENS), nl.bfloat16, nl.psum), _tile((P, TOKENS), nl.bfloat16)
            nisa.nc_transpose(dst=turned, data=weights[:, nl.ds(block * P, P)])
            nisa.tensor_copy(dst=staged, src=turned)
            values = _tile((P, P), nl.bfloat16)
            source = cache[layer, 1, core * (HEADS // 2) + head, :, nl.ds(block * P, P)]
            nisa.dma_transpose(dst=values, src=source)
            nisa.nc_matmul(dst=sums, stationary=values, moving=staged)
        nisa.tensor_copy(dst=found[:, head, :], src=sums)
    return found


def _added(x: Any, part: Any, core: int) -> Any:
    """x plus the sum of both cores' parts."""
    other = _tile(part.shape, nl.bfloat16)
    nisa.sendrecv(src=part, dst=other, send_to_rank=1 - core, recv_from_rank=1 - core, pipe_id=0)
    found = _tile(x.shape, nl.bfloat16)
    for block in range(x.shape[1]):
        nisa.tensor_tensor(dst=part[:, block, :], data1=part[:, block, :], data2=other[:, block, :], op=nl.add)
        nisa.tensor_tensor(dst=found[:, block, :], data1=x[:, block, :], data2=part[:, block, :], op=nl.add)
    return found


def layers(x, gammas, wq, wo, gate, up, down, cache, count):
    """`count` layers on tokens x [WIDTH, TOKENS]."""
    core, blocks = nl.program_id(0), WIDTH // P
    ones = _tile((P, P), nl.bfloat16)
    nisa.memset(dst=ones, value=1.0)
    here = _tile((P, blocks, TOKENS), nl.bfloat16)
    nisa.dma_copy(dst=here, src=x.reshape((blocks, P, TOKENS)).permute((1, 0, 2)))
    for layer in range(count):
        gamma = _tile((P, 2 * blocks), nl.float32)
        nisa.dma_copy(dst=gamma, src=gammas[layer])
        q = _project(_norm(here, gamma[:, 0:blocks], ones), wq[layer, core], HEADS // 2)
        here = _added(here, _project(_attend(q, cache, core, layer), wo[layer, core], blocks), core)
        normed = _norm(here, gamma[:, blocks : 2 * blocks], ones)
        one, two = (_project(normed, each[layer, core], HIDDEN // P) for each in (gate, up))
        for block in range(HIDDEN // P):
            nisa.activation(dst=one[:, block, :], op=nl.silu, data=one[:, block, :])
            nisa.tensor_tensor(dst=one[:, block, :], data1=one[:, block, :], data2=two[:, block, :], op=nl.multiply)
        here = _added(here, _project(one, down[layer, core], blocks), core)
    out = nl.ndarray((2, P, blocks * TOKENS), dtype=nl.bfloat16, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out[core], src=here.reshape((P, blocks * TOKENS)))
    return out


def arguments(count: int) -> list[Any]:
    """The arguments for so many layers."""
    half = HEADS // 2 * P
    shapes: list[tuple[str, tuple[int, ...]]] = [
        ("bfloat16", (WIDTH, TOKENS)),
        ("float32", (count, P, 2 * WIDTH // P)),
        ("bfloat16", (count, 2, WIDTH, half)),
        ("bfloat16", (count, 2, half, WIDTH)),
        ("bfloat16", (count, 2, WIDTH, HIDDEN)),
        ("bfloat16", (count, 2, WIDTH, HIDDEN)),
        ("bfloat16", (count, 2, HIDDEN, WIDTH)),
        ("bfloat16", (count, 2, HEADS, P, CACHE)),
    ]
    return [*(TensorSpec(dtype, shape) for dtype, shape in shapes), count]


def main() -> None:
    """Print the seconds of each phase."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, default=30)
    parser.add_argument("--simulate", action="store_true")
    parser.add_argument("--profile", choices=("trace", "emit", "prepare", "simulate"))
    chosen = parser.parse_args()

    def timed(name: str, run: Callable[[], Any]) -> Any:
        profile = cProfile.Profile() if chosen.profile == name else None
        begun = time.process_time()
        found = run() if profile is None else profile.runcall(run)
        print(f"{name:10} {time.process_time() - begun:6.2f} s")
        if profile is not None:
            pstats.Stats(profile).sort_stats("tottime").print_stats(35)
        return found

    trace_kernel(layers, arguments(1), cores=2)  # imports
    given = arguments(chosen.layers)
    trace = timed("trace", lambda: trace_kernel(layers, given, cores=2))
    print(f"{trace.instructions} instructions, {[each.message for each in trace.findings.items][:5]}")
    emitted = timed("emit", lambda: emit(trace))
    timed("prepare", lambda: prepare(emitted.program))
    if chosen.simulate:
        found = timed("simulate", lambda: simulate_trace(trace))
        print([each.message for each in found.diagnostics if each not in trace.findings.items])


if __name__ == "__main__":
    main()
