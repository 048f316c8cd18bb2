"""Read a problem from a file of any known format, which is detected by contents, that of ONNX by the name."""

from __future__ import annotations

from pathlib import Path

from haulout.packing.csvio import TFLITE_IDENTIFIER, XLA_HEADER, Table, read_csv
from haulout.support.diagnostics import bad_input
from haulout.support.files import read_start, read_text


def read_problem(path: str | Path, *, in_place: bool = False) -> Table:
    """CSV in the columns of MiniMalloc or idealloc, a structured problem, XLA's buffer assignment, or a model of ONNX
    or TensorFlow Lite. `in_place` is for the latter: element-wise operators may write over an input.

    Raises `HauloutError`.
    """
    start = read_start(Path(path), 4096)
    if start[4:8] == TFLITE_IDENTIFIER or str(path).endswith(".tflite"):
        from haulout.packing.tflite_model import read_tflite

        return read_tflite(path, in_place=in_place)
    if in_place:
        bad_input(f"{path}: in-place operators are for TensorFlow Lite models; other formats tell what they allow")
    if str(path).endswith(".onnx"):  # the format has no mark
        from haulout.packing.onnx_model import read_onnx

        return read_onnx(path)
    if start.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] == b"{":
        from haulout.packing.structured import parse_structured

        return parse_structured(read_text(Path(path)).removeprefix("\ufeff"), str(path))
    lines = start.decode("utf-8", errors="replace").splitlines()
    if any(line.startswith(XLA_HEADER) for line in lines[:20]):
        from haulout.packing.xla_dump import read_xla_dump

        return read_xla_dump(path)
    return read_csv(path)
