"""Compilation of scalar loops with Numba, on their first call.

Importing Numba costs about half a second and compiling a kernel costs seconds the first time, so neither
happens when `haulout` is imported. `@njit` therefore wraps the function in a `Kernel`: its first call imports
Numba and makes the dispatcher (compiled code is cached on disk, so the seconds are paid once per machine). A
kernel may call other kernels as ordinary functions: Numba finds their dispatchers through `_numba_type_`.

Inside `interpreted()` kernels run as plain Python. A kernel that keeps to int64 without wrapping around, and to
IEEE doubles, gives identical results either way; small inputs are done sooner without it.

Numba's disk cache looks at the file that defines the called kernel alone. A kernel may call kernels of other files,
so `_source_stamp` covers their files too.

A cache that cannot be read or written costs time, never the run: what cannot be loaded is compiled again, and what
cannot be saved is not saved.
"""

from __future__ import annotations

import functools
import gc
import hashlib
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Generic, ParamSpec, TypeVar, cast

P = ParamSpec("P")
R = TypeVar("R")
_log = logging.getLogger(__name__)

_interpret: ContextVar[bool] = ContextVar("haulout_interpret_kernels", default=False)
_always_compile: ContextVar[bool] = ContextVar("haulout_always_compile_kernels", default=False)


class _RobustCache:
    """Numba's cache of one kernel. Its files may be truncated, unreadable, or on a full disk."""

    def __init__(self, cache: Any) -> None:
        self._cache = cache

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cache, name)

    def load_overload(self, *args: Any) -> Any:
        """The stored code for a signature; None, and an empty cache, if it cannot be read."""
        try:
            return _load_alone(self._cache, *args) if _loads_alone() else self._cache.load_overload(*args)
        except Exception as error:  # unpickling changed bytes may raise any exception
            _log.info("the kernel cache cannot be read: %s: %s", type(error).__name__, error)
            with suppress(Exception):
                self._cache.flush()
            return None

    def save_overload(self, *args: Any) -> None:
        """Store compiled code if possible."""
        try:
            self._cache.save_overload(*args)
        except Exception as error:
            _log.info("the kernel cache cannot be written: %s: %s", type(error).__name__, error)


@functools.cache
def _loads_alone() -> bool:
    """Whether `_load_alone` is known to work with this version of Numba: it calls what is not documented."""
    import numba

    return str(numba.__version__).startswith("0.68.")


def _load_alone(cache: Any, signature: Any, context: Any) -> Any:
    """What Numba's `load_overload` does, without the compiler's tables of Python and NumPy.

    Numba imports these first, which takes longer than everything else about a stored kernel. Compiled code needs
    the run time of Numba only; whatever is compiled later imports the tables by itself.
    """
    from numba.core.runtime.nrt import rtsys

    rtsys.initialize(context)
    return cache._load_overload(signature, context)


class _WatchedCompiler:
    """Numba's compiler of one kernel. It calls watchers before it runs, and measures its time."""

    def __init__(self, compiler: Any, name: str) -> None:
        self._compiler, self._name = compiler, name

    def __getattr__(self, name: str) -> Any:
        return getattr(self._compiler, name)

    def compile(self, args: Any, return_type: Any) -> Any:
        """Compile for one signature that the cache does not have."""
        with _compilation.running(self._name), _collector_paused(), _quickly():
            return self._compiler.compile(args, return_type)


_OPTIMIZATION = 2
"""Of LLVM: at Numba's 3, kernels compile a tenth longer and run no faster."""


@contextmanager
def _quickly() -> Iterator[None]:
    """Compile at `_OPTIMIZATION`, or at a lower level that the user has set."""
    import numba

    config: Any = numba.config
    before = config.OPT
    config.OPT = before if before < _OPTIMIZATION else type(before)(_OPTIMIZATION)
    try:
        yield
    finally:
        config.OPT = before


class _Compilation:
    """Compilation in this process. A kernel may be compiled within its caller: time counts once."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.watchers: list[Callable[[str], None]] = []
        self._depth = 0

    @contextmanager
    def running(self, name: str) -> Iterator[None]:
        for tell in self.watchers:
            tell(name)
        began = time.perf_counter()
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
            if self._depth == 0:
                self.seconds += time.perf_counter() - began


_compilation = _Compilation()


@contextmanager
def watch_compilation(tell: Callable[[str], None]) -> Iterator[None]:
    """Within the block, call `tell(kernel)` before a kernel is compiled; not for one that the cache has."""
    _compilation.watchers.append(tell)
    try:
        yield
    finally:
        _compilation.watchers.remove(tell)


def compile_seconds() -> float:
    """Seconds that this process has spent on compiling kernels."""
    return _compilation.seconds


def work_clock() -> float:
    """`time.perf_counter()` without the seconds of compiling kernels: differences are times of the work itself."""
    return time.perf_counter() - _compilation.seconds


class Kernel(Generic[P, R]):
    """A function that Numba compiles on its first call outside `interpreted()`."""

    def __init__(self, function: Callable[P, R]) -> None:
        self.py_func = function
        self.plain_work = 0
        """What `plain_if_small` has counted so far."""
        functools.update_wrapper(self, function)

    @functools.cached_property
    def dispatcher(self) -> Callable[P, R]:
        """Numba's dispatcher of this function; made on first use."""
        with _collector_paused():
            import numba

        compile_it: Any = numba.njit
        try:
            # Without the entry for C, which nothing calls and which takes a twentieth of the time of compilation.
            compiled = compile_it(cache=True, no_cfunc_wrapper=True)(self.py_func)
            compiled._cache._cache_file._source_stamp = _source_stamp(self)
            compiled._cache = _RobustCache(compiled._cache)
        except (RuntimeError, OSError):  # no directory to cache in, as for code in a zip file or a read-only home
            compiled = compile_it(self.py_func)
        compiled._compiler = _WatchedCompiler(compiled._compiler, self.name)
        compiled.get_call_template = functools.partial(_general_call, compiled.get_call_template)
        return cast("Callable[P, R]", compiled)

    @property
    def name(self) -> str:
        """Module and function."""
        return f"{self.py_func.__module__}.{self.py_func.__qualname__}"

    @property
    def callees(self) -> list[Kernel[..., Any]]:
        """The kernels that it calls by name."""
        found = [self.py_func.__globals__.get(name) for name in self.py_func.__code__.co_names]
        return [each for each in found if isinstance(each, Kernel)]

    @property
    def cache_folder(self) -> str | None:
        """The folder of its compiled code; None if there is none."""
        return getattr(self.dispatcher._cache, "cache_path", None)  # type: ignore[attr-defined]

    @property
    def is_ready(self) -> bool:
        """Whether it is loaded: it has run compiled."""
        return "dispatcher" in self.__dict__ and bool(self.dispatcher.signatures)  # type: ignore[attr-defined]

    @property
    def is_stored(self) -> bool:
        """Whether the cache on disk has code of it, for any types; False if that is not known."""
        try:
            return bool(self.dispatcher._cache._cache_file._load_index())  # type: ignore[attr-defined]
        except Exception:  # as for `_RobustCache`: no cache, or one with changed bytes
            return False

    @functools.cached_property
    def _inner(self) -> Any:
        """The dispatcher for calls by other kernels, which hold its code: no entry for Python, nothing stored."""
        import numba

        compile_it: Any = numba.njit
        inner = compile_it(no_cfunc_wrapper=True, no_cpython_wrapper=True)(self.py_func)
        inner._compiler = _WatchedCompiler(inner._compiler, self.name)
        inner.get_call_template = functools.partial(_general_call, inner.get_call_template)
        return inner

    @property
    def _numba_type_(self) -> Any:
        return self._inner._numba_type_

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run the kernel, compiled unless inside `interpreted()`."""
        if _interpret.get():
            return self.py_func(*args, **kwargs)
        return self.dispatcher(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<kernel {self.name}>"


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Without the cycle collector: an import makes many objects that stay, and it would visit all of them often."""
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if running:
            gc.enable()


def _general_call(find: Any, args: tuple[Any, ...], kws: dict[str, Any]) -> Any:
    """What Numba's `get_call_template` gives for the types of a call within a kernel, taken more generally.

    Numba compiles a callee once for `f(0)`, once for `f(n)` and once for an `n` of 32 bits. One version that takes
    64 bits serves them all: it is inlined where that is worth it, and constants are propagated then. The kernels of
    the checker compile in 0.6 times the time.
    """
    import numba

    types: Any = numba.types

    def general(given: Any) -> Any:
        given = types.unliteral(given)
        return types.int64 if given in types.signed_domain else given

    return find(tuple(map(general, args)), {name: general(each) for name, each in kws.items()})


def _source_stamp(kernel: Kernel[..., Any]) -> str:
    """Hash of the files that define a kernel and the kernels that it calls."""
    found, todo = {kernel.name: kernel}, [kernel]
    while todo:
        fresh = [each for each in todo.pop().callees if each.name not in found]
        found.update((each.name, each) for each in fresh)
        todo += fresh
    files = sorted({each.py_func.__code__.co_filename for each in found.values()})
    return hashlib.sha256(b"".join(Path(file).read_bytes() for file in files)).hexdigest()


def njit(function: Callable[P, R]) -> Kernel[P, R]:
    """Mark `function` for compilation in nopython mode, cached on disk, on its first call."""
    kernel = Kernel(function)
    KERNELS.append(kernel)
    return kernel


KERNELS: list[Kernel[..., Any]] = []
"""All kernels of the modules that are imported."""


def compiled_kernels() -> list[Kernel[..., Any]]:
    """Those that have run compiled in this process, for some signature, and those that these call.

    What the cache has of a kernel holds the code of its callees, which then have no dispatcher of their own.
    """
    found: dict[int, Kernel[..., Any]] = {}
    todo = [each for each in KERNELS if each.is_ready]
    while todo:
        kernel = todo.pop()
        if id(kernel) not in found:
            found[id(kernel)] = kernel
            todo += kernel.callees
    return [each for each in KERNELS if id(each) in found]


@contextmanager
def always_compiled() -> Iterator[None]:
    """Make `interpreted()` and `plain_if_small` without effect: small inputs then compile the kernels ahead."""
    token = _always_compile.set(True)
    try:
        yield
    finally:
        _always_compile.reset(token)


@contextmanager
def interpreted() -> Iterator[None]:
    """Run kernels as plain Python within the block (in this thread and context only)."""
    token = _interpret.set(not _always_compile.get())
    try:
        yield
    finally:
        _interpret.reset(token)


_PLAIN_RUNS = 10
"""So many runs of the largest work in plain Python cost as much as loading a kernel."""


def plain_if_small(
    kernel: Kernel[..., Any], work: int, limit: int = 20_000, *, unstored: int = 0
) -> AbstractContextManager[None]:
    """`interpreted()` when `work` is small and `kernel` not loaded yet: plain Python is done before it would be.

    The work of all calls counts, so a loop of small calls loads the kernel in the end. `unstored`: the limit of one
    call if the kernel has to be compiled.
    """
    if work > plain_work(kernel, work, limit, unstored=unstored):
        return nullcontext()
    kernel.plain_work += work
    return interpreted()


def plain_work(kernel: Kernel[..., Any], work: int, limit: int, *, unstored: int = 0) -> int:
    """How much of a call's `work` is worth doing in plain Python, which may be all of it; see `plain_if_small`.

    A part is for a search that often ends early: it is tried in plain Python and, if that was not enough, done again
    compiled. The caller adds what it does to `kernel.plain_work`.
    """
    if kernel.is_ready or _always_compile.get():
        return 0
    part = min(limit, max(0, _PLAIN_RUNS * limit - kernel.plain_work))
    if part < work and kernel.plain_work < unstored and not kernel.is_stored:
        part = max(part, unstored - kernel.plain_work)
    return min(part, work)


@contextmanager
def compiled() -> Iterator[None]:
    """Run kernels compiled within the block, also inside `interpreted()`."""
    token = _interpret.set(False)
    try:
        yield
    finally:
        _interpret.reset(token)


def compiled_if_large(work: int, limit: int = 20_000) -> AbstractContextManager[None]:
    """`compiled()` when `work` has turned out to be large; a caller that saw less of it may interpret."""
    return compiled() if work > limit else nullcontext()
