"""Modules that a kernel's file imports and that are absent: placeholders, which fail only when the kernel uses them.

A published kernel imports torch, its test helpers and the packages of its repository, and the kernel itself needs
none of them. An absent module is first looked for beside the file that imports it. If it is not there, it becomes a
placeholder: while the file is imported, every use of it gives another placeholder; while the kernel runs, a use is
`missing-module`, with the line of the use and the line of the import.

An import whose failure the file itself handles (`try: import torch` with `except ImportError`) fails as usual.
"""

from __future__ import annotations

import ast
import importlib.abc
import importlib.machinery
import importlib.util
import linecache
import sys
import sysconfig
import types
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, NoReturn

from haulout.frontends.nki import session
from haulout.frontends.nki.findings import OWN_FOLDERS, kernel_place, span_at
from haulout.support.diagnostics import Diagnostic, Label, Severity, fail

Place = tuple[str, int]
"""(file, line)."""
_INSTALLED = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")})
"""Folders whose own imports are left alone: packages test for optional modules."""
_HANDLED = frozenset({"ImportError", "ModuleNotFoundError", "Exception", "BaseException"})


class Placeholder:
    """A name of an absent module."""

    def __init__(self, name: str, imported: Place) -> None:
        self.__dict__.update(_name=name, _imported=imported)

    def __repr__(self) -> str:
        return f"{self._name} of a module that is not installed"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Placeholder) and other._name == self._name

    def __hash__(self) -> int:
        return hash(self._name)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Placeholder(f"{self._name}.{name}", self._imported)

    def __setattr__(self, name: str, value: Any) -> None:
        """Settings of an absent module have no effect."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """While the file is imported: the function itself of a decorator, else another placeholder."""
        self.fail_in_kernel("is called")
        if len(args) == 1 and not kwargs and isinstance(args[0], types.FunctionType | type):
            return args[0]
        return self

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type, ...]:
        return ()

    def __instancecheck__(self, instance: Any) -> bool:
        return isinstance(instance, Placeholder)

    def __getitem__(self, key: Any) -> Placeholder:
        self.fail_in_kernel("is subscripted")
        return self

    def __iter__(self) -> Iterator[Any]:
        self.fail_in_kernel("is iterated over")
        return iter(())

    def __bool__(self) -> bool:
        self.fail_in_kernel("is a condition")
        return False

    def __enter__(self) -> Placeholder:
        self.fail_in_kernel("is a context")
        return self

    def __exit__(self, *_: object) -> None:
        """Leave the context."""

    def _operate(self, *_: Any) -> Placeholder:
        self.fail_in_kernel("is an operand")
        return self

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _operate
    __abs__ = __floordiv__ = __mod__ = __pow__ = __neg__ = __matmul__ = __or__ = __ror__ = __and__ = _operate
    __lt__ = __le__ = __gt__ = __ge__ = _operate

    def fail_in_kernel(self, how: str) -> None:
        """`missing-module` if the kernel runs; `how` says what it does with the name."""
        if session.is_tracing():
            _missing(self._name, how, self._imported)


def _missing(name: str, how: str, imported: Place) -> NoReturn:
    module = name.split(".")[0]
    fail(
        "missing-module",
        f"{name} {how}, and the module {module} is not installed",
        Label("here", span_at(kernel_place(3))),
        Label("imported here", span_at(imported)),
        help=[f"install {module}, or give the kernel what it takes from there as an argument"],
    )


class PlaceholderModule(types.ModuleType):
    """An absent module; its names are placeholders."""

    def __init__(self, name: str, imported: Place) -> None:
        super().__init__(name)
        self.__path__: list[str] = []
        self.__dict__["_imported"] = imported

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Placeholder(f"{self.__name__}.{name}", self.__dict__["_imported"])


@dataclass(slots=True)
class AbsentModules(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """The last finder of `sys.meta_path` while a kernel's file is imported."""

    imports: dict[str, Place] = field(default_factory=dict)
    """Absent modules, and the line that imports each first."""
    failures: list[Diagnostic] = field(default_factory=list)
    """What failed behind the kernel in its file."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The module beside the importing file, or a placeholder; None for imports of installed packages."""
        place = _importing()
        if place is None or _is_handled(place):
            return None
        if path is None and (beside := _beside(Path(place[0]).parent, fullname)) is not None:
            return beside
        self.imports.setdefault(fullname, place)
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        """A placeholder."""
        return PlaceholderModule(spec.name, self.imports[spec.name])

    def exec_module(self, module: types.ModuleType) -> None:
        """There is nothing to execute."""

    def notes(self) -> list[Diagnostic]:
        """One note for all absent modules, and what failed."""
        roots: dict[str, Place] = {}
        for name, place in self.imports.items():
            roots.setdefault(name if name.startswith(("nki.", "neuronxcc.")) else name.split(".")[0], place)
        if not roots:
            return self.failures
        labels = tuple(Label(f"{name} is imported here", span_at(place)) for name, place in roots.items())
        one = len(roots) == 1
        message = (
            f"{', '.join(roots)} {'is' if one else 'are'} not installed: a use of {'it' if one else 'them'} by the "
            "kernel is an error"
        )
        return [Diagnostic("missing-module", Severity.NOTE, message, labels), *self.failures]


def _importing() -> Place | None:
    """The line of the import statement; None if it is one of Python's, of an installed package, or of haulout."""
    frame = sys._getframe(2)
    while frame is not None:
        file = frame.f_code.co_filename
        if file == "<frozen importlib.util>":  # asks whether a module is there
            return None
        if not file.startswith("<frozen importlib") and not file.endswith("importlib/__init__.py"):
            own = file.startswith((*_INSTALLED, *OWN_FOLDERS, "<"))
            return None if own else (file, frame.f_lineno)
        if frame.f_back is None:
            return None
        frame = frame.f_back
    return None


def _beside(folder: Path, name: str) -> importlib.machinery.ModuleSpec | None:
    """A module or package of that name in the folder of the file that imports it."""
    for file in (folder / name / "__init__.py", folder / f"{name}.py"):
        if file.is_file():
            where = [str(file.parent)] if file.name == "__init__.py" else None
            return importlib.util.spec_from_file_location(name, file, submodule_search_locations=where)
    return None


def _is_handled(place: Place) -> bool:
    return any(first <= place[1] <= last for first, last in _handled_lines(place[0]))


@lru_cache(maxsize=64)
def _handled_lines(file: str) -> list[tuple[int, int]]:
    """Lines of bodies of `try` that handle a failed import."""
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError):
        return []
    return [
        (node.body[0].lineno, node.body[-1].end_lineno or node.body[-1].lineno)
        for node in ast.walk(tree)
        if isinstance(node, ast.Try) and any(_handles(each.type) for each in node.handlers)
    ]


def _handles(kind: ast.expr | None) -> bool:
    if kind is None:
        return True
    return any(isinstance(each, ast.Name) and each.id in _HANDLED for each in ast.walk(kind))
