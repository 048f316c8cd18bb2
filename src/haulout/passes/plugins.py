"""Passes of others: from a Python file, or from installed packages that name them as entry points.

A pass is a frozen dataclass derived from `Pass`, with a `name`. A package names its passes in the group
`haulout.passes`; each entry is a class.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterable
from importlib.metadata import entry_points
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

from haulout.passes.base import Pass
from haulout.passes.pipeline import REGISTRY
from haulout.support.diagnostics import bad_input

GROUP = "haulout.passes"
"""The group of entry points."""


def more_passes(files: Iterable[Path] = ()) -> dict[str, type[Pass]]:
    """Passes that are not our own, by name: of installed packages, then of files.

    Raises `bad-input` for a file or an entry that cannot be loaded, and for a name that is taken.
    """
    found: dict[str, type[Pass]] = {}
    for entry in entry_points(group=GROUP):
        try:
            loaded = entry.load()
        except Exception as error:
            bad_input(f"the passes of entry point {entry.value!r} cannot be loaded: {_shown(error)}")
        if not _is_pass(loaded):
            bad_input(f"entry point {entry.value!r} of the group {GROUP} is not a pass: {loaded!r}")
        _add(found, loaded, entry.value)
    for file in files:
        _add_file(found, file)
    return found


def _add_file(found: dict[str, type[Pass]], file: Path) -> None:
    name = f"haulout_passes.{file.stem}"
    spec = spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        bad_input(f"{file} is no Python file")
    module = sys.modules[name] = module_from_spec(spec)  # annotations are looked up there
    try:
        spec.loader.exec_module(module)
    except OSError as error:
        bad_input(f"cannot read {file}: {error.strerror or error}")
    except Exception as error:
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(file)]
        place = f"{file}:{lines[-1]}" if lines else str(file)
        bad_input(f"{place}: {_shown(error)}")
    made = [each for each in vars(module).values() if _is_pass(each) and each.__module__ == name]
    if not made:
        bad_input(f"{file} defines no pass", help=["derive a frozen dataclass from haulout.passes.base.Pass"])
    for each in made:
        _add(found, each, str(file))


def _add(found: dict[str, type[Pass]], each: type[Pass], origin: str) -> None:
    if each.name in REGISTRY or each.name in found:
        bad_input(f"{origin}: a pass is named {each.name!r} already")
    found[each.name] = each


def _is_pass(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, Pass) and hasattr(value, "name")


def _shown(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
