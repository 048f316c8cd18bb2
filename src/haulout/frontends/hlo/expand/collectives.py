"""Collectives of several operands that are one collective of each kind of operand.

    all-reduce, reduce-scatter     of several types: one for each type
    scalars among arrays           tokens that users of `torch_xla` pass from one collective to the next

A scalar has no dimension to gather, scatter or exchange along: `all-gather` and `all-to-all` pass it on, and
`reduce-scatter` reduces it on every member. That keeps the order, which is all that such a scalar is for, since
collectives never change places.
"""

from __future__ import annotations

from collections.abc import Sequence

from haulout.frontends.hlo import attributes
from haulout.frontends.hlo.expand.writer import Value, Writer
from haulout.frontends.hlo.types import TupleShape
from haulout.ir.opcodes import REDUCTIONS


def _all_reduce(writer: Writer) -> Value | None:
    if len({each.dtype for each in writer.parameters}) < 2 or (combiner := _combiner(writer)) is None:
        return None
    results: dict[int, Value] = {}
    _reduce(writer, "all-reduce", combiner, range(len(writer.parameters)), results, _texts(writer))
    return writer.tuple(*(results[at] for at in range(len(writer.parameters))))


def _reduce_scatter(writer: Writer) -> Value | None:
    scalars, arrays = _scalars_and_arrays(writer)
    several = len({writer.parameters[at].dtype for at in arrays}) > 1
    if not arrays or not (scalars or several) or (combiner := _combiner(writer)) is None:
        return None
    texts, results = _texts(writer), dict[int, Value]()
    _reduce(writer, "reduce-scatter", combiner, arrays, results, texts)
    without = {key: text for key, text in texts.items() if key != "dimensions"}
    _reduce(writer, "all-reduce", combiner, scalars, results, without)
    return writer.tuple(*(results[at] for at in range(len(writer.parameters))))


def _passing_scalars_on(writer: Writer) -> Value | None:
    scalars, arrays = _scalars_and_arrays(writer)
    if not scalars or not arrays:
        return None
    results = {at: writer.parameters[at] for at in scalars}
    _write(writer, writer.instruction.opcode, arrays, results, _texts(writer))
    return writer.tuple(*(results[at] for at in range(len(writer.parameters))))


def _scalars_and_arrays(writer: Writer) -> tuple[list[int], list[int]]:
    """Positions of both kinds of operands; nothing where the results are not as many."""
    shape, count = writer.instruction.shape, len(writer.parameters)
    if not isinstance(shape, TupleShape) or len(shape.elements) != count:
        return [], []
    scalars = [at for at in range(count) if not writer.parameters[at].dims]
    return scalars, [at for at in range(count) if at not in scalars]


def _combiner(writer: Writer) -> str | None:
    """The opcode that combines two elements, if it is one for every type."""
    to_apply = writer.instruction.attributes.get("to_apply")
    computation = writer.known.get(attributes.name(to_apply)) if to_apply is not None else None
    return computation.root.opcode if computation is not None and computation.root.opcode in REDUCTIONS else None


def _texts(writer: Writer) -> dict[str, str]:
    given = writer.instruction.attributes
    return {key: value.text for key, value in given.items() if key not in ("to_apply", "metadata")}


def _reduce(
    writer: Writer,
    opcode: str,
    combiner: str,
    chosen: Sequence[int],
    results: dict[int, Value],
    texts: dict[str, str],
) -> None:
    """One instruction for each type of the chosen operands."""
    for dtype in sorted({writer.parameters[at].dtype for at in chosen}):
        of_type = [at for at in chosen if writer.parameters[at].dtype == dtype]
        _write(writer, opcode, of_type, results, {**texts, "to_apply": writer.combiner(combiner, dtype)})


def _write(
    writer: Writer, opcode: str, chosen: Sequence[int], results: dict[int, Value], texts: dict[str, str]
) -> None:
    """One instruction for the chosen operands, whose results are declared at the same positions."""
    declared = writer.instruction.shape
    assert isinstance(declared, TupleShape)
    shapes = tuple(declared.elements[at] for at in chosen)
    operands = [writer.parameters[at] for at in chosen]
    if len(chosen) == 1:
        results[chosen[0]] = writer.write(shapes[0], opcode, *operands, **texts)
        return
    made = writer.write(TupleShape(shapes), opcode, *operands, **texts)
    results |= {at: writer.element(made, index) for index, at in enumerate(chosen)}


EXPANSIONS = {
    "all-reduce": _all_reduce,
    "reduce-scatter": _reduce_scatter,
    "all-gather": _passing_scalars_on,
    "all-to-all": _passing_scalars_on,
}
