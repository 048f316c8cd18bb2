"""Random programs of one engine, and what they do, byte by byte: on values and on what is undefined.

Everything is carried out on arrays of elements, as the opcodes are documented; it shares no code with the
checker. The undefined bytes of each location are followed apart, so it is known which of them are seen in the end.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

import numpy as np
import numpy.typing as npt

from haulout.ir.attributes import AttrValue
from haulout.ir.builder import ProgramBuilder
from haulout.ir.enums import Engine, Kind, Space
from haulout.ir.patterns import Pattern
from haulout.ir.program import Program

Array = npt.NDArray[np.generic]
TYPES = {"u8": np.dtype(np.uint8), "u16": np.dtype(np.uint16), "u32": np.dtype(np.uint32)}


@dataclass(frozen=True, slots=True)
class Place:
    """A location: `parts` rows of `columns` elements; in DRAM one row."""

    name: str
    kind: Kind
    dtype: str
    parts: int
    columns: int

    @property
    def item(self) -> int:
        return TYPES[self.dtype].itemsize

    @property
    def size(self) -> int:
        return self.parts * self.columns * self.item


@dataclass(frozen=True, slots=True)
class View:
    """Elements of a place, as an array of their numbers; its pattern has the same order unless it is `unordered`."""

    place: Place
    elements: npt.NDArray[np.int64]
    pattern: Pattern | None
    unordered: bool = False

    def bytes(self) -> npt.NDArray[np.int64]:
        """[element, byte of it]."""
        return self.elements.reshape(-1, 1) * self.place.item + np.arange(self.place.item)

    @property
    def rises(self) -> bool:
        """Whether its elements count as their bytes do, which is all that a pattern says to `nki.*`."""
        return bool((np.diff(self.elements.ravel()) > 0).all())

    def layout(self, operand: int) -> list[AttrValue]:
        """As `args` gives it."""
        rows, columns = self.elements.shape
        down = int(self.elements[1, 0] - self.elements[0, 0]) if rows > 1 else self.place.columns
        right = int(self.elements[0, 1] - self.elements[0, 0]) if columns > 1 else 1
        return [[operand], self.place.dtype, [rows, columns], [down, right]]


@dataclass(slots=True)
class Step:
    """An instruction: its result's elements out of its operands', on values and on masks alike."""

    opcode: str
    reads: tuple[View, ...]
    writes: tuple[View, ...]
    value: Callable[..., Array] | None = None
    undefined: Callable[..., Array] | None = None
    """None: all of it where anything is."""


def random_steps(random: Random, count: int) -> list[Step]:
    """Instructions on a few locations, many of which are never written wholly."""
    places = _places(random)
    return [step for _ in range(count) if (step := _step(random, places)) is not None]


def _places(random: Random) -> list[Place]:
    """In DRAM, or all of them in four partitions."""
    found = []
    grid, types = random.random() < 0.5, random.choice([["u16"], sorted(TYPES)])
    for number in range(random.randint(3, 6)):
        kind = Kind.OUTPUT if number == 0 else Kind.INTERNAL
        columns = random.choice([4, 6]) * (1 if grid else 2)
        found.append(Place(f"l{number}", kind, random.choice(types), 4 if grid else 1, columns))
    return found


def _view(random: Random, place: Place, rows: int, columns: int, turned: bool = False) -> View | None:
    """Some of the elements of a place, as rows of a grid; None when it has not so many."""
    if rows > place.parts or columns > place.columns:
        return None
    top, left = random.randint(0, place.parts - rows), random.randint(0, place.columns - columns)
    row = place.columns * place.item
    offset = top * row + left * place.item
    grid = (top + np.arange(rows))[:, None] * place.columns + left + np.arange(columns)
    pattern = Pattern(offset, columns * place.item, ((row, rows),)).canonical()
    step = random.choice([1, 1, 2])
    if step > 1 and left + step * (columns - 1) < place.columns:
        grid = (top + np.arange(rows))[:, None] * place.columns + left + step * np.arange(columns)
        pattern = Pattern(offset, place.item, ((row, rows), (step * place.item, columns))).canonical()
    elif turned and rows == 1 and random.random() < 0.3:
        grid = grid[:, ::-1]
        pattern = Pattern(offset + (columns - 1) * place.item, place.item, ((-place.item, columns),)).canonical()
    elif turned and random.random() < 0.2:
        return View(place, grid[:, ::-1], pattern, unordered=True)
    return View(place, grid, pattern)


def _step(random: Random, places: list[Place]) -> Step | None:
    kinds = ["fill", "fill", "fill", "copy", "copy", "element", "element", "convert", "select", "dot", "nop", "index"]
    if places[0].parts > 1:
        kinds = [
            "fill",
            "fill",
            "fill",
            "fill",
            "tensor",
            "tensor",
            "scalar",
            "reduce",
            "transpose",
            "transpose",
            "copy",
            "nki copy",
            "dot",
        ]
    kind = random.choice(kinds)
    rows = random.choice([1, 2, 2, 4]) if places[0].parts > 1 else 1
    if kind == "fill" and random.random() < 0.7:
        rows = places[0].parts
    columns, source, target, other = random.randint(1, 6), *(random.choice(places) for _ in range(3))
    if kind in ("nop", "index", "dot") and random.random() < 0.7:
        return None
    if source is target or other is target:
        return None
    x = _view(random, source, rows, columns, turned=True)
    y = _view(random, target, rows, columns)
    z = _view(random, other, rows, columns)
    if x is None or y is None or z is None:
        return None
    match kind:
        case "fill":
            return Step(
                "memset", (), (y,), lambda: np.zeros((rows, columns)), lambda: np.zeros((rows, columns), bool)
            )
        case "copy" if source.item == target.item and not x.unordered:
            return Step("dma_copy", (x,), (y,), lambda a: a, lambda a: a)
        case "element" if source.dtype == target.dtype == other.dtype and not x.unordered:
            return Step("add", (x, z), (y,), lambda a, b: a + b, lambda a, b: a | b)
        case "convert" if not x.unordered:
            return Step("convert", (x,), (y,), lambda a: a, lambda a: a)
        case "select" if other.dtype == target.dtype and not x.unordered:
            one = _view(random, source, 1, 1)
            assert one is not None
            return Step(
                "select",
                (one, z, z),
                (y,),
                lambda p, a, b: np.where(p != 0, a, b + 1),
                lambda p, a, b: p | a | b,
            )
        case "dot":
            return Step("dot", (x, z), (y,), lambda a, b: np.full((rows, columns), a.sum() + b.sum()))
        case "nop":
            return Step("nop", (x,), ())
        case "index":
            return Step("gather", (z, x), (y,), lambda a, b: np.full((rows, columns), a.sum() + b.sum()))
        case "tensor" if source.dtype == target.dtype == other.dtype:
            if not x.rises:
                return Step("nki.tensor_tensor", (x, z), (y,), lambda a, b: a + b, _whole_rows(rows, columns, 2))
            return Step("nki.tensor_tensor", (x, z), (y,), lambda a, b: a + b, lambda a, b: a | b)
        case "scalar" if columns > 1 and (one := _view(random, other, rows, 1)) is not None:
            if not x.rises:
                return None
            return Step("nki.tensor_scalar", (x, one), (y,), lambda a, b: a + b, lambda a, b: a | b)
        case "reduce" if (one := _view(random, target, rows, 1)) is not None:
            return Step(
                "nki.tensor_reduce",
                (x,),
                (one,),
                lambda a: a.sum(axis=1, keepdims=True),
                lambda a: a.any(axis=1, keepdims=True),
            )
        case "transpose" if x.rises and rows > 1 and 1 < columns <= 4:
            turned = _view(random, target, columns, rows)
            if turned is None:
                return None
            return Step("nki.nc_transpose", (x,), (turned,), lambda a: a.T, lambda a: _corners(a).T)
        case "nki copy":
            if not x.rises:
                return Step("nki.dma_copy", (x,), (y,), lambda a: a, None)
            return Step("nki.dma_copy", (x,), (y,), lambda a: a, lambda a: a)
    return None


def _whole_rows(rows: int, columns: int, operands: int) -> Callable[..., Array]:
    def result(*masks: Array) -> Array:
        lost = np.zeros((rows, 1), bool)
        for mask in masks[:operands]:
            lost |= mask.any(axis=1, keepdims=True)
        return np.broadcast_to(lost, (rows, columns))

    return result


def _corners(mask: Array) -> Array:
    """Of a transpose: rows with something undefined, by columns with something undefined."""
    rows, columns = mask.any(axis=1, keepdims=True), mask.any(axis=0, keepdims=True)
    found: Array = rows & columns
    return found


# -- carrying it out -------------------------------------------------------------------------------------------------


def values(steps: list[Step], fill: int) -> list[bytes]:
    """What is seen in the end, when memory holds random bytes before: outputs, and what effects and indices read."""
    memory = np.random.default_rng(fill)
    held = {place: memory.integers(0, 256, place.size, np.uint8) for place in _all_places(steps)}
    seen = []
    for step in steps:
        found = [held[view.place][view.bytes()] for view in step.reads]
        seen += [each.tobytes() for at, each in enumerate(found) if _is_seen(step, at)]
        if step.value is None:
            continue
        arrays = [
            each.copy().view(TYPES[view.place.dtype]).reshape(view.elements.shape).astype(np.int64)
            for each, view in zip(found, step.reads, strict=True)
        ]
        for view in step.writes:
            result = np.asarray(step.value(*arrays)).reshape(-1, 1).astype(TYPES[view.place.dtype])
            held[view.place][view.bytes()] = result.view(np.uint8)
    written = _written(steps)
    return seen + [
        held[place][written[place]].tobytes() for place in _all_places(steps) if place.kind is not Kind.INTERNAL
    ]


def harmful(steps: list[Step], start: Place, among: int | None = None) -> bool:
    """Whether bytes of a location that nothing has written are seen; read by the first steps only, with `among`."""
    undefined = {place: np.zeros(place.size, bool) for place in _all_places(steps)}
    unwritten = np.ones(start.size, bool)
    for number, step in enumerate(steps):
        masks = []
        for at, view in enumerate(step.reads):
            mask = undefined[view.place][view.bytes()]
            if view.place == start and (among is None or number < among):
                mask = mask | unwritten[view.bytes()]
            if _is_seen(step, at) and mask.any():
                return True
            if step.opcode != "dma_copy":
                mask = np.broadcast_to(mask.any(axis=1, keepdims=True), mask.shape)
            masks.append(mask)
        for view in step.writes:
            if step.opcode == "dma_copy":
                result = masks[0]
            else:
                arrays = [
                    mask[:, 0].reshape(view.elements.shape) for mask, view in zip(masks, step.reads, strict=True)
                ]
                lost = any(array.any() for array in arrays)
                whole = np.full(view.elements.shape, lost)
                elements = np.asarray(whole if step.undefined is None else step.undefined(*arrays))
                result = np.broadcast_to(elements.reshape(-1, 1), view.bytes().shape)
            undefined[view.place][view.bytes()] = result
            if view.place == start:
                unwritten[view.bytes()] = False
    return any(mask.any() for place, mask in undefined.items() if place.kind is not Kind.INTERNAL)


def _is_seen(step: Step, operand: int) -> bool:
    return not step.writes or (step.opcode == "gather" and operand == 1)


def _written(steps: list[Step]) -> dict[Place, npt.NDArray[np.bool_]]:
    found = {place: np.zeros(place.size, bool) for place in _all_places(steps)}
    for step in steps:
        for view in step.writes:
            found[view.place][view.bytes()] = True
    return found


def _all_places(steps: list[Step]) -> list[Place]:
    return list(dict.fromkeys(view.place for step in steps for view in (*step.reads, *step.writes)))


def program_of(steps: list[Step]) -> Program:
    """The program."""
    build = ProgramBuilder("undefined", 1, file="undefined.bir")
    function = build.function(build.module("nc0", 0), "main")
    rows = {}
    for place in _all_places(steps):
        grid = place.parts > 1
        rows[place] = build.location(
            function,
            place.name,
            Space.SBUF if grid else Space.DRAM_LOCAL,
            place.size,
            kind=place.kind,
            dtype=place.dtype,
            shape=(place.parts, place.columns) if grid else (place.columns,),
            parts=place.parts if grid else None,
        )
    block = build.block(function, "entry")
    for number, step in enumerate(steps):
        reads, writes = ([(rows[view.place], view.pattern) for view in side] for side in (step.reads, step.writes))
        attrs: dict[str, AttrValue] = {}
        if step.opcode.startswith("nki."):
            views = enumerate((*step.reads, *step.writes))
            attrs["args"] = [[f"p{at}", *view.layout(at)] for at, view in views]
        build.instruction(block, f"i{number}", step.opcode, Engine.POOL, reads, writes, attrs=attrs)
    return build.freeze()
