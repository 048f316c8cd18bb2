"""`return-mismatch`: all cores of a kernel must return the same tensors in the same order.

The caller gets the results of one core, and it is unspecified which.
"""

from __future__ import annotations

import ast
import linecache
from itertools import zip_longest

from haulout.frontends.nki.findings import Findings, span_at
from haulout.frontends.nki.storage import Buffer
from haulout.frontends.nki.tensor import Tensor
from haulout.frontends.nki.trace import Trace
from haulout.support.diagnostics import Label

MAX_RETURNS = 3
"""`return` statements that a finding shows."""


def check_returns(trace: Trace, findings: Findings) -> None:
    """Report the first result that differs between core 0 and another."""
    first = trace.returned[0] if trace.returned else []
    for core, other in enumerate(trace.returned[1:], 1):
        for at, (left, right) in enumerate(zip_longest(first, other)):
            if _identity(left) != _identity(right):
                _report(trace, findings, core, at, left, right)
                break
        else:
            continue
        break


def _identity(tensor: Tensor | None) -> object:
    """What makes results of two cores one: the tensor where cores share it, else what it looks like."""
    if tensor is None:
        return None
    storage = tensor.storage
    if storage.buffer is not Buffer.shared_hbm:
        return storage.argument and storage.number, storage.buffer, tensor.shape, tensor.dtype
    own = storage.shared_number if storage.shared_number is not None else storage.number
    return own, tensor.dtype, tensor.offset, tensor.strides, tensor.shape


def _report(trace: Trace, findings: Findings, core: int, at: int, left: Tensor | None, right: Tensor | None) -> None:
    whole = [[each for each in trace.returned[number] if each is not None] for number in (0, core)]
    same = not any(whole) or {_identity(each) for each in whole[0]} == {_identity(each) for each in whole[1]}
    how = "the same tensors in another order" if same else "different tensors"
    labels = [
        Label(f"core {number}: result {at} is {side!r}", span_at(side.storage.place))
        for number, side in ((0, left), (core, right))
        if side is not None
    ]
    lines = _returns(trace.place)[:MAX_RETURNS]
    place = (trace.place[0], lines[0]) if lines else trace.place
    findings.add(
        "return-mismatch",
        f"the cores return {how}: result {at} is {_named(left, right)} on core 0 and {_named(right, left)} on core "
        f"{core}",
        place=place,
        label="returned here" if lines else "this kernel",
        more=[*(Label("or here", span_at((trace.place[0], line))) for line in lines[1:]), *labels],
        notes=["the caller gets the results of one core, and it is unspecified which"],
        help=["return the same tensors in the same order on all cores, outside of code that depends on the core"],
    )


def _named(tensor: Tensor | None, other: Tensor | None) -> str:
    if tensor is None:
        return "nothing"
    same = other is not None and other.name == tensor.name
    return f"{tensor!r} at element {tensor.offset}" if same else tensor.name


def _returns(place: tuple[str, int]) -> list[int]:
    """Lines of the `return` statements with a value of the function at a place."""
    try:
        tree = ast.parse("".join(linecache.getlines(place[0])))
    except (SyntaxError, ValueError):
        return []
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and place[1] in (
            node.lineno,
            *(each.lineno for each in node.decorator_list[:1]),
        ):
            return [each.lineno for each in _own(node) if isinstance(each, ast.Return) and each.value is not None]
    return []


def _own(node: ast.AST) -> list[ast.AST]:
    """Nodes below one, in the order of the text, those of functions inside it left out."""
    found = []
    for each in ast.iter_child_nodes(node):
        if not isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            found += [each, *_own(each)]
    return found
