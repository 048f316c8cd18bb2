"""Kernels in files: `kernels.py::fused_mlp`, imported with the stand-ins in place and traced.

A file inside a package (folders with `__init__.py`) is imported under its package name, so that relative imports
work. A file with relative imports outside of a package is imported as if the folders around it were one. Modules that
are absent are placeholders (`stand_ins/placeholders.py`).
"""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from types import ModuleType
from typing import Any

from haulout.frontends.nki import session
from haulout.frontends.nki.emit import Emitted, emit
from haulout.frontends.nki.findings import shown_path
from haulout.frontends.nki.stand_ins.install import AROUND, installed
from haulout.frontends.nki.stand_ins.placeholders import AbsentModules
from haulout.frontends.nki.trace import BarrierScope, Printed, Trace, raised, trace_kernel
from haulout.support.diagnostics import Diagnostic, HauloutError, Label, Severity, Span, bad_input, error_text


@contextmanager
def kernel_in_file(path: str | Path, name: str) -> Iterator[Callable[..., Any]]:
    """The function of a file, which may be called while the context lasts."""
    with _kernel_in_file(path, name) as (function, _):
        yield function


@contextmanager
def _kernel_in_file(path: str | Path, name: str) -> Iterator[tuple[Callable[..., Any], AbsentModules]]:
    with installed() as absent:
        with session.importing(str(path)), redirect_stdout(Printed()):  # stdout is for findings
            module = _imported(Path(path), name.split(".")[0], absent)
        function: Any = module
        for part in name.split("."):
            function = getattr(function, part, None)
        if not callable(function):
            kernels = [each for each, value in vars(module).items() if callable(value) and not each.startswith("_")]
            bad_input(f"{path} has no function {name!r}", help=[f"functions: {', '.join(kernels)}"])
        yield function, absent


def _imported(path: Path, kernel: str, absent: AbsentModules) -> ModuleType:
    """The module of a file; `bad-input` with the lines when it cannot be imported.

    A script may define its kernel and then try it on a device. What fails after the kernel is defined is a note.
    """
    module: ModuleType | None = None
    if not path.is_file():
        bad_input(f"cannot read {path}: no such file")
    path = path.resolve()
    root, parts = path.parent, [path.stem]
    while (root / "__init__.py").exists():
        parts.insert(0, root.name)
        root = root.parent
    added, writes_bytecode = str(root), sys.dont_write_bytecode
    sys.path.insert(0, added)
    # A file that changes twice in a second would be taken from the bytecode of its first text.
    sys.dont_write_bytecode = True
    try:
        if len(parts) == 1:
            parts = _around(path)
        if len(parts) > 1:
            # Imported anew, also when the process has it: what it has may hold the real NKI.
            sys.modules.pop(".".join(parts), None)
            return importlib.import_module(".".join(parts))
        # A name of its own: the file may be called like a module of Python's.
        name = f"_kernels_{path.stem}"
        spec = importlib.util.spec_from_file_location(name, path)
        if spec is None or spec.loader is None:
            bad_input(f"{path} is not a Python file")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
        return module
    except HauloutError:
        raise
    except KeyboardInterrupt:
        raise
    except SyntaxError as error:
        span = Span(shown_path(str(error.filename or path)), error.lineno or 0, max(error.offset or 0, 0))
        bad_input(f"invalid Python: {error.msg}", Label("here", span))
    except BaseException as error:
        found = raised(error, 0)
        reason = f"{type(error).__name__}: {error_text(error)}"
        if module is not None and callable(getattr(module, kernel, None)) and isinstance(error, Exception):
            message = f"{path.name} fails after {kernel} is defined: {reason}"
            absent.failures.append(Diagnostic("unfinished-import", Severity.NOTE, message, found.labels, found.notes))
            return module
        message = f"{path.name} cannot be imported: {reason}"
        raise HauloutError(Diagnostic("bad-input", Severity.ERROR, message, found.labels, found.notes)) from None
    finally:
        sys.dont_write_bytecode = writes_bytecode
        if added in sys.path:
            sys.path.remove(added)


_RELATIVE = re.compile(r"^\s*from\s+(\.+)", re.MULTILINE)


def _around(path: Path) -> list[str]:
    """The module of a file outside of a package, as a list of names: with the folders around it as packages, as far
    out as its relative imports and those of the files beside it lead."""
    own = _RELATIVE.findall(path.read_text("utf-8", "replace"))
    if not own:
        return [path.stem]
    beside = [
        each for file in path.parent.glob("*.py") for each in _RELATIVE.findall(file.read_text("utf-8", "replace"))
    ]
    folders = [path.parent, *path.parents[1:]][: max(map(len, beside))][::-1]
    parts: list[str] = []
    for at, folder in enumerate(folders):
        # The outermost name is none of Python's.
        parts.append(folder.name.replace(".", "_") if at else AROUND + folder.name.replace(".", "_"))
        package = ModuleType(".".join(parts))
        package.__path__ = [str(folder)]
        sys.modules[package.__name__] = package
    return [*parts, path.stem]


def trace_file(
    path: str | Path,
    name: str,
    arguments: Mapping[str, Any] | Sequence[Any],
    *,
    cores: int = 2,
    grid: tuple[int, ...] = (),
    trips: int | None = None,
    target: str = "gen3",
) -> Trace:
    """Trace the kernel `name` of a file; see `trace_kernel`."""
    with _kernel_in_file(path, name) as (function, absent):
        found = trace_kernel(function, arguments, cores=cores, grid=grid, trips=trips, target=target)
        found.findings.items += absent.notes()
        return found


def load_kernel(
    path: str | Path,
    name: str,
    arguments: Mapping[str, Any] | Sequence[Any],
    *,
    lnc: int = 2,
    barrier_scope: BarrierScope = "data",
    grid: tuple[int, ...] = (),
    trips: int | None = None,
    target: str = "gen3",
) -> Emitted:
    """The program of a kernel in a file, with what tracing found. Raises `HauloutError` when it did not come to
    its end."""
    trace = trace_file(path, name, arguments, cores=lnc, grid=grid, trips=trips, target=target)
    if trace.failed:
        raise HauloutError(*trace.findings.items)
    return emit(trace, barrier_scope=barrier_scope)
