"""What a program file is, by its contents; the suffix decides only where these say nothing.

    PK..                          a stored program (.npz)
    bir, then a number            a program as text (.bir)
    HloModule, or a computation   HLO text (.hlo)
    module, #loc, func.func, ...  MLIR, such as StableHLO: refused, with what to do instead
    ML\\xefR                       MLIR as bytecode: refused likewise
    other binary data             refused; a serialized HloModuleProto (.pb) can be printed as text

Blank lines and comments (`#`, `//`, `/* */`) may come first.
"""

from __future__ import annotations

import enum
import re
from pathlib import Path

from haulout.support.diagnostics import bad_input
from haulout.support.files import read_start


class Kind(enum.Enum):
    """The kinds of program files, each with its usual suffix."""

    BIR = ".bir"
    HLO = ".hlo"
    STORE = ".npz"


_BINARY = (".pb", ".bin", ".proto", ".neff", ".mlirbc")
_SKIPPED = r"(?:\s|#[^\n]*(?:\n|\Z)|//[^\n]*(?:\n|\Z)|/\*.*?\*/)*"
_STARTS = {
    Kind.BIR: re.compile(_SKIPPED + r"bir\s+\d", re.DOTALL),
    Kind.HLO: re.compile(
        _SKIPPED + r"(?:HloModule\b|ENTRY\s+%?[\w.\-]+\s*[({]|%?[A-Za-z_][\w.\-]*\s*(?:\([^{}]*\)\s*->[^{}]*)?\{\s*"
        r"(?:ROOT\s+)?%?[\w.\-]+\s*=\s*\(?[a-z][a-z0-9]*\[)",
        re.DOTALL,
    ),
}
_MLIR = re.compile(
    r'(?:\s|//[^\n]*(?:\n|\Z))*(?:#\w[\w.]*\s*=|module\b[^\n]*\{|func\.func\b|"?builtin\.module\b)|\b(?:stablehlo|mhlo)\.\w'
)
_LOOK = 1 << 16
"""Bytes at the beginning that are looked at."""
_INSTEAD_OF_MLIR = (
    "lower the JAX function with haulout.jax.lower(fn, *specs, mesh=..., in_shardings=...)",
    "or run the program with XLA_FLAGS='--xla_dump_to=DIR --xla_dump_hlo_as_text', and take HLO text from DIR",
)
_INSTEAD_OF_BINARY = (
    "an HloModuleProto can be printed: jaxlib._jax.HloModule.from_serialized_hlo_module_proto(data).to_string()",
    "or run the program with XLA_FLAGS='--xla_dump_to=DIR --xla_dump_hlo_as_text', and take HLO text from DIR",
)


def kind_of_file(path: Path) -> Kind:
    """The kind of a file. Raises `bad-input` for a file that cannot be read, or that no reader understands."""
    suffix = next((kind for kind in Kind if kind.value == path.suffix), None)
    data = read_start(path, _LOOK)
    if data.startswith(b"PK\x03\x04"):
        return Kind.STORE
    if data.startswith(b"ML\xefR"):
        bad_input(f"{path} is MLIR as bytecode, not HLO text", help=_INSTEAD_OF_MLIR)
    text = data.decode("utf-8-sig", "replace")
    for kind, start in _STARTS.items():
        if start.match(text):
            return kind
    if suffix is not Kind.BIR and suffix is not Kind.STORE and _MLIR.search(text):
        bad_input(f"{path} is MLIR text, such as StableHLO, not HLO text", help=_INSTEAD_OF_MLIR)
    if suffix is not None:
        return suffix
    if path.suffix in _BINARY or b"\x00" in data:
        bad_input(f"{path} is binary: no reader for {path.suffix or 'it'}", help=_INSTEAD_OF_BINARY)
    kernel = ["a kernel is FILE.py::FUNCTION, for check and compile"] if path.suffix == ".py" else []
    expected = "it begins neither with `HloModule` nor with `bir 1`, and is no stored program"
    bad_input(f"{path}: no reader for {path.suffix or 'a file without a suffix'}", help=[expected, *kernel])
