"""`haulout warmup`: compile all kernels in advance, so that the first run is as fast as later ones.

The command runs small programs and plans through the library, with interpretation disabled. The callers of a kernel
determine its types, so this module needs no list of types.
"""

from __future__ import annotations

import pkgutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path

import click
import numpy as np

from haulout import api
from haulout.checker import check_reordered
from haulout.cli.common import quiet_option
from haulout.cli.status import CLEAN, guarded
from haulout.packing import Pool, Problem, plan, solve
from haulout.packing.penalties import with_less_reuse
from haulout.report.examples import EXAMPLES
from haulout.sim import compare_schedules
from haulout.support.diagnostics import HauloutError
from haulout.support.jit import KERNELS, always_compiled, compile_seconds, compiled_kernels, watch_compilation

_PACKAGES = ("analysis", "checker", "packing", "passes", "sim")
"""Packages with kernels."""
_COUNTING = """bir 1
program "two queues signal" lnc=1
module @nc0 core=0 {
  func @main {
    mloc %x dram.local size=64 kind=input dtype=f32 shape=[16]
    mloc %a dram.local size=64 dtype=f32 shape=[16]
    mloc %b dram.local size=64 dtype=f32 shape=[16]
    mloc %out dram.local size=64 kind=output dtype=f32 shape=[16]
    block ^entry:
      %one = dma_copy @dma0 (%x) -> (%a) seq=0 signal=[["s",1]]
      %two = dma_copy @dma1 (%x) -> (%b) seq=1 signal=[["s",1]]
      %sum = add @vector (%a, %b) -> (%out) seq=2 wait=[["s",2]]
  }
}
"""

_LOOP = """bir 1
program "a loop and a branch" lnc=1
module @nc0 core=0 {
  func @main {
    mloc %c dram.local size=4 kind=input dtype=s32 shape=[1]
    mloc %x dram.local size=64 kind=input dtype=f32 shape=[16]
    mloc %a dram.local size=64 dtype=f32 shape=[16] address=0
    mloc %b dram.local size=64 dtype=f32 shape=[16] address=0
    mloc %d dram.local size=64 dtype=f32 shape=[16] address=64
    mloc %out dram.local size=64 kind=output dtype=f32 shape=[16] address=64
    block ^entry -> ^head:
      %zero = dma_copy @dma1 (%x) -> (%d)
      %one = dma_copy @dma0 (%x) -> (%a) signal=[["s",1]]
      %two = dma_copy @dma1 (%a) -> (%out) wait=[["s",1]] signal=[["t",1]]
    block ^head -> ^body, ^after cond=c:
      %three = dma_copy @dma0 (%x) -> (%b) wait=[["t",1]]
    block ^body -> ^arm, ^join cond=c:
    block ^arm -> ^join:
      %four = nop @dma0 () -> ()
    block ^join -> ^head:
    block ^after:
  }
}
"""

_UNORDERED_LOOP = _LOOP.replace(' wait=[["t",1]]', "")
"""What is not proved as a whole is judged run by run, by other kernels."""

_ONE_CORE = """bir 1
program "divided over two cores" lnc=1
module @nc0 core=0 {
  func @main {
    mloc %x dram.local size=64 kind=input dtype=f32 shape=[4,4]
    mloc %a dram.local size=64 dtype=f32 shape=[4,4]
    mloc %y dram.local size=64 kind=output dtype=f32 shape=[4,4]
    block ^entry:
      %tanh = tanh @act (%x) -> (%a) seq=0
      %dot = dot @pe (%a, %a) -> (%y) seq=1 lhs_contracting=[1] rhs_contracting=[0]
  }
}
"""


@click.command()
@quiet_option
@guarded
def warmup(quiet: bool) -> int:
    """Compile all kernels for this machine in advance.

    The first run that needs a kernel compiles it, once for each machine and version, and stores the code. This
    command compiles all of them and prints where they are stored. NUMBA_CACHE_DIR sets another folder.
    """
    _import_all()
    compiled: set[str] = set()

    def report(kernel: str) -> None:
        if kernel not in compiled and not quiet:
            click.echo(f"compiling {kernel}", err=True)
        compiled.add(kernel)

    began = time.perf_counter()
    with always_compiled(), watch_compilation(report), tempfile.TemporaryDirectory(prefix="haulout-") as folder:
        for program in _programs(Path(folder)):
            _run(program)
        divided = Path(folder) / "divided.bir"
        divided.write_text(_ONE_CORE, encoding="utf-8")
        api.compile(divided, lnc=2)
        _plan()
        _check_graphs(Path(folder))
    ready = compiled_kernels()
    click.echo(
        f"{len(ready)} of {len(KERNELS)} kernels are ready, {len(compiled)} of them compiled now: "
        f"{compile_seconds():.1f} s of {time.perf_counter() - began:.1f} s"
    )
    for each in sorted({kernel.cache_folder or "" for kernel in ready}):
        click.echo(f"stored in {each}" if each else "not stored: no folder is writable; set NUMBA_CACHE_DIR")
    return CLEAN


def _import_all() -> None:
    """Import every module that may have kernels."""
    for name in _PACKAGES:
        package = import_module(f"haulout.{name}")
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            import_module(module.name)


def _programs(folder: Path) -> Iterator[Path]:
    """The example programs of `haulout explain`, which have every kind of finding, and three more."""
    texts = [text for each in EXAMPLES.values() for name, text in each.files.items() if name.endswith(".bir")]
    for number, text in enumerate([*texts, _COUNTING, _LOOP, _UNORDERED_LOOP]):
        path = folder / f"{number}.bir"
        path.write_text(text, encoding="utf-8")
        yield path


def _run(path: Path) -> None:
    """Check, compile and simulate a program, and ignore its faults."""
    with suppress(HauloutError):
        program = api.load(path)
        with suppress(HauloutError):
            api.check(program)
        with suppress(HauloutError):
            api.compile(program, sync="all")
        with suppress(HauloutError):
            compare_schedules(program)
        with suppress(HauloutError):
            # No example is small and has instructions that move.
            check_reordered(program, program, np.arange(len(program.instructions), dtype=np.int32))


def _check_graphs(folder: Path) -> None:
    """Check the example task graphs of `haulout explain`."""
    for each in EXAMPLES.values():
        for name, text in each.files.items():
            if name.endswith(".json"):
                path = folder / name
                path.write_text(text, encoding="utf-8")
                api.check_source(path, fix=True)


def _plan() -> None:
    """Plans with a search, pinned buffers, few and many overlaps, two pools, and costs of reuse."""
    rng = np.random.default_rng(0)
    lower = rng.integers(0, 10, 14)
    upper, size = lower + rng.integers(1, 6, 14), 64 * rng.integers(1, 9, 14)
    pinned = np.full(14, -1)
    pinned[0] = 64
    plan(lower, upper, size, pinned=pinned)
    plan(lower, upper, size, pools=(Pool("a", 3000), Pool("b")), allowed=[(0, 1)] * 14)
    line = np.arange(1000)
    plan(line, line + 1, np.full(1000, 64), pinned=np.where(line, -1, 64))
    chain = Problem.of(line[:4], line[:4] + 1, np.full(4, 64))
    with_less_reuse(chain, solve(chain, capacity=128), [(0, 1, 1), (1, 2, 1)])
