"""Kernels: lazy, the same compiled and interpreted, callable from one another."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from haulout.support.jit import (
    KERNELS,
    always_compiled,
    compile_seconds,
    compiled_kernels,
    interpreted,
    njit,
    plain_if_small,
    plain_work,
    watch_compilation,
    work_clock,
)


@njit
def _double(x: int) -> int:
    """Twice x."""
    return 2 * x


@njit
def _total(values: NDArray[np.int64]) -> int:
    total = 0
    for value in values:
        total += _double(value)
    return total


def test_compiled_and_interpreted_agree() -> None:
    values = np.arange(5)
    with interpreted():
        plain = _total(values)
    assert plain == _total(values) == 20
    assert _total.is_ready


def test_keeps_name_and_docstring() -> None:
    assert _double.__doc__ == "Twice x."
    assert _double.__name__ == "_double"  # type: ignore[attr-defined]


def test_interpreted_ends_with_its_block() -> None:
    calls = []

    def probe(x: int) -> int:
        calls.append(x)
        return x

    kernel = njit(probe)
    with interpreted():
        kernel(1)
    assert calls == [1]
    assert not kernel.is_ready


def test_compilation_is_watched_and_timed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A callee is compiled while its caller is: both are told, the time counts once."""
    from numba.core import config

    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path))
    told: list[str] = []
    before, clock, began = compile_seconds(), work_clock(), time.perf_counter()
    monkeypatch.setitem(globals(), "_double", njit(_double.py_func))
    with watch_compilation(told.append):
        assert njit(_total.py_func)(np.arange(3)) == 6
        assert [name.rpartition(".")[2] for name in told] == ["_total", "_double"]
        assert njit(_total.py_func)(np.arange(3)) == 6  # from the cache
    seconds, elapsed = compile_seconds() - before, time.perf_counter() - began
    assert len(told) == 2
    assert 0 < seconds <= elapsed
    assert work_clock() - clock <= elapsed - seconds + 0.001 * elapsed + 1e-3
    njit(_double.py_func)(1.5)
    assert len(told) == 2


@njit
def _double_thrice(values: NDArray[np.int32]) -> int:
    total = _double(7) + _double(len(values))
    for value in values:
        total += _double(value)
    return total


def test_constants_and_narrow_integers_need_no_version_of_a_callee(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from numba.core import config

    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path))
    monkeypatch.setitem(globals(), "_double", njit(_double.py_func))
    told: list[str] = []
    most = np.iinfo(np.int32).max
    with watch_compilation(told.append):
        assert njit(_double_thrice.py_func)(np.array([1, most], np.int32)) == 14 + 4 + 2 + 2 * most
    assert [name.rpartition(".")[2] for name in told] == ["_double_thrice", "_double"]


def test_always_compiled() -> None:
    """What the cache has of a caller counts for its callees."""
    kernel = njit(_total.py_func)
    with always_compiled(), plain_if_small(kernel, 1), interpreted():
        assert kernel(np.arange(3)) == 6
    assert kernel.is_ready
    assert kernel in KERNELS
    assert {kernel, kernel.py_func.__globals__["_double"]} <= {*compiled_kernels()}
    other = njit(_total.py_func)
    with plain_if_small(other, 1):
        assert other(np.arange(3)) == 6
    assert other not in compiled_kernels()


def test_numba_is_imported_late() -> None:
    """Neither importing the planner nor a small problem imports Numba."""
    code = (
        "import sys; from haulout.packing import plan; s = plan([0, 1, 2], [2, 3, 4], [64, 32, 64]);"
        "assert s.peak == 128, s; assert 'numba' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# -- a cache that cannot be used ------------------------------------------------------------------------------------

CACHED = """
import haulout.support.jit as jit

@jit.njit
def twice(x: int) -> int:
    return 2 * x

def main():
    print(twice(21), sum(twice.dispatcher.stats.cache_hits.values()))
"""


def cached_run(folder: Path, cache: Path) -> tuple[int, int]:
    """The kernel's result in a process of its own, and how often the cache had it."""
    (folder / "module.py").write_text(CACHED)
    done = subprocess.run(
        [sys.executable, "-c", "import module; module.main()"],
        cwd=folder,
        env={**os.environ, "NUMBA_CACHE_DIR": str(cache)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    result, hits = done.stdout.split()
    return int(result), int(hits)


@pytest.mark.long("5 s")
def test_broken_files_in_the_cache(tmp_path: Path) -> None:
    """The kernel is compiled again, and the cache is whole after that."""
    cache = tmp_path / "cache"
    assert cached_run(tmp_path, cache) == (42, 0)
    assert cached_run(tmp_path, cache) == (42, 1)
    (index,) = cache.rglob("*.nbi")
    (data,) = cache.rglob("*.nbc")
    index.write_bytes(index.read_bytes()[:-5])
    data.write_bytes(data.read_bytes()[:100])
    assert cached_run(tmp_path, cache) == (42, 0)
    assert cached_run(tmp_path, cache) == (42, 1)


@pytest.mark.long("5 s")
def test_a_changed_callee_compiles_the_caller_again(tmp_path: Path) -> None:
    """The caller and the kernel that it calls are in different files; only the second one changes."""
    (tmp_path / "callee.py").write_text(CACHED)
    (tmp_path / "caller.py").write_text(
        "import haulout.support.jit as jit\nfrom callee import twice\n"
        "@jit.njit\ndef four_times(x: int) -> int:\n    return twice(twice(x))\n"
    )

    def run() -> str:
        code = "import caller; print(caller.four_times(1))"
        env = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
        return subprocess.check_output([sys.executable, "-c", code], cwd=tmp_path, env=env, text=True)

    assert run() == run() == "4\n"
    (tmp_path / "callee.py").write_text(CACHED.replace("2 * x", "30 * x"))
    assert run() == "900\n"


@pytest.mark.long("4 s")
def test_a_cache_that_is_no_folder(tmp_path: Path) -> None:
    """Of two files in the way, one is where the folder should be, one where the index should be."""
    cache = tmp_path / "cache"
    cache.write_text("")
    assert cached_run(tmp_path, cache)[0] == 42
    cache.unlink()
    cached_run(tmp_path, cache)
    (index,) = cache.rglob("*.nbi")
    index.unlink()
    index.mkdir()
    assert cached_run(tmp_path, cache) == (42, 0)


def test_a_cache_that_is_full(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    from numba.core import caching

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(caching.IndexDataCacheFile, "_save_index", full)
    monkeypatch.setattr(caching.IndexDataCacheFile, "load", full)

    def thrice(x: int) -> int:
        return 3 * x

    with caplog.at_level("INFO", "haulout"):
        assert njit(thrice)(2) == 6
    assert [record.message for record in caplog.records] == [
        "the kernel cache cannot be read: OSError: [Errno 28] No space left on device",
        "the kernel cache cannot be written: OSError: [Errno 28] No space left on device",
    ]


def test_a_loop_of_small_calls_loads_the_kernel_in_the_end() -> None:
    kernel = njit(_total.py_func)
    calls = 0
    while not kernel.is_ready:
        calls += 1
        with plain_if_small(kernel, 10, 10):
            assert kernel(np.arange(3)) == 6
        assert kernel.plain_work <= 10 * calls
    assert calls > 1


def test_a_kernel_that_must_be_compiled_runs_plain_for_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from numba.core import config

    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path))
    kernel = njit(_total.py_func)
    with plain_if_small(kernel, 10, 0, unstored=10):
        kernel(np.arange(3))
    assert not kernel.is_ready and not kernel.is_stored
    with plain_if_small(kernel, 10, 0, unstored=10):
        kernel(np.arange(3))
    assert kernel.is_ready and kernel.is_stored
    again = njit(_total.py_func)
    with plain_if_small(again, 10, 0, unstored=10):
        again(np.arange(3))
    assert again.is_ready


def test_a_part_of_the_work_is_tried_plain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from numba.core import config

    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path))
    kernel = njit(_total.py_func)
    assert plain_work(kernel, 5, 10) == 5
    assert plain_work(kernel, 50, 10) == 10
    assert plain_work(kernel, 50, 10, unstored=30) == 30
    kernel.plain_work = 95
    assert plain_work(kernel, 50, 10) == 5
    assert plain_work(kernel, 50, 10, unstored=30) == 5
    with always_compiled():
        assert plain_work(kernel, 5, 10) == 0
    kernel(np.arange(3))
    assert plain_work(kernel, 5, 10) == 0


def test_what_a_kernel_calls_is_stored_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from numba.core import config

    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path))
    level = config.OPT
    caller = njit(_double_thrice.py_func)
    with interpreted():
        plain = caller(np.arange(3))
    assert caller(np.arange(3)) == plain
    assert level == config.OPT
    assert [path.name.split("-")[0].rpartition(".")[2] for path in tmp_path.rglob("*.nbi")] == ["_double_thrice"]
