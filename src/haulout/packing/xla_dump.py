"""Problems from the files of XLA's --xla_dump_to: a buffer assignment and its live ranges.

    NAME-buffer-assignment.txt     BufferAssignment:
                                   allocation 15: size 418180, preallocated-temp:
                                    value: <122 copy.8 @0> (size=4,offset=303488): s32[]
    NAME-live-range.txt            BufferLiveRange:
                                     copy.8{}:37-44            first and last position of the schedule

Older versions write both into the first file, which is also supported. The buffers are the values of the preallocated
temporaries, which XLA's heap simulation packs; parameters, constants and results have allocations of their own. Each
memory space ("color") is a pool. XLA's offsets become the hint, so a plan that starts from it is never worse.

The dump does not say which values must share storage. Values at one offset of one allocation are taken for aliases if
their ranges share more than a moment, or if one of them is a phi (the value of a loop or call) of the same size. If
they share just the moment at which one dies and the other is born, they are an in-place pair.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import numpy as np

from haulout.packing.csvio import XLA_HEADER, Table
from haulout.packing.problem import LIMIT, Problem
from haulout.packing.rules import Pool, Rules
from haulout.support.diagnostics import Label, Span, bad_input
from haulout.support.files import read_text

_SUFFIX = "buffer-assignment.txt"
_ALLOCATION = re.compile(r"allocation (\d{1,18}): size (\d{1,19})(.*):\Z")
_COLOR = re.compile(r", color (\d{1,9})\b")
_VALUE = re.compile(r"\s*value: <\d+ (.+?)(\{[\d,]*\})?( \(phi\))? @\d+> \(size=(\d{1,19}),offset=(\d{1,19})\)")
_RANGE = re.compile(r"\s+(.+)(\{[\d,]*\}):(\d{1,18})-(\d{1,18})\Z")
_MAX_ALIGNMENT = 256
_DEFAULT_ALIGNMENT = 64


@dataclass(frozen=True, slots=True)
class _Value:
    """One value of a temporary allocation; `last` is inclusive."""

    name: str
    phi: bool
    size: int
    offset: int
    allocation: int
    first: int
    last: int


def read_xla_dump(path: str | Path) -> Table:
    """Read NAME-buffer-assignment.txt and NAME-live-range.txt in its folder. Raises `HauloutError` (`bad-input`)."""
    path = Path(path)
    text = read_text(path)
    if "BufferLiveRange:" in text:
        return parse_xla_dump(text, text, str(path))
    beside = path.with_name(path.name.removesuffix(_SUFFIX) + "live-range.txt")
    if not path.name.endswith(_SUFFIX) or not beside.exists():
        bad_input(
            f"{path} has no live ranges, and {beside.name} is not in its folder",
            help=("XLA writes both files with --xla_dump_to=FOLDER; keep them in one folder",),
        )
    return parse_xla_dump(text, read_text(beside), str(path), str(beside))


def parse_xla_dump(assignment: str, ranges: str, file: str = "<xla>", ranges_file: str = "<xla>") -> Table:
    """The same from texts; `file` and `ranges_file` are their names for messages."""
    lives = _lives(ranges, ranges_file)
    values: list[_Value] = []
    colors: list[int] = []  # of the temporary allocations
    inside = False
    for number, line in enumerate(assignment.splitlines(), 1):
        where = Label("here", Span(file, number), line)
        if line.startswith("allocation "):
            found = _ALLOCATION.match(line)
            if found is None:
                bad_input(f"line {number}: expected an allocation of XLA's format", where)
            inside = "preallocated-temp" in found[3]
            if inside:
                color = _COLOR.search(found[3])
                colors.append(int(color[1]) if color else 0)
        elif line.startswith(" value: "):
            value = _VALUE.match(line)
            if value is None:
                bad_input(f"line {number}: expected a value of XLA's format", where)
            name, index, phi, size, offset = value.groups()
            if not inside:
                continue
            key = name + (index or "{}")
            if key not in lives:
                bad_input(f"line {number}: {key} has no live range", where)
            if int(size) > LIMIT or int(offset) > LIMIT:
                bad_input(f"line {number}: a size or offset above 2**62", where)
            values.append(_Value(key, bool(phi), int(size), int(offset), len(colors) - 1, *lives[key]))
        elif not line.startswith((" ", "\t")):
            inside = False  # another section after the last allocation
    if XLA_HEADER not in assignment:
        bad_input(f"{file} has no line `{XLA_HEADER}`", Label("here", Span(file, 1)))
    return _table(values, colors)


def _lives(text: str, file: str) -> dict[str, tuple[int, int]]:
    """First and last position of every value, from the section `BufferLiveRange:`."""
    lives: dict[str, tuple[int, int]] = {}
    inside = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip() == "BufferLiveRange:":
            inside = True
        elif inside:
            found = _RANGE.match(line)
            if found is None:
                break
            name, index, first, last = found.groups()
            if int(last) < int(first):
                bad_input(
                    f"line {number}: the range ends at {last}, before its start {first}",
                    Label("here", Span(file, number), line),
                )
            lives[name + index] = (int(first), int(last))
    if not inside:
        bad_input(f"{file} has no live ranges", Label("here", Span(file, 1)))
    return lives


def _table(values: list[_Value], colors: list[int]) -> Table:
    aliases, pairs = _ties(values)
    spaces = sorted(set(colors)) or [0]
    pool = [spaces.index(colors[value.allocation]) for value in values]
    offsets = np.array([value.offset for value in values], np.int64)
    common = int(np.gcd.reduce(offsets)) if len(offsets) else 0
    alignment = min(common & -common, _MAX_ALIGNMENT) if common else _DEFAULT_ALIGNMENT
    rules = Rules(
        aliases,
        pairs,
        (),
        tuple(Pool(f"color {space}") for space in spaces),
        tuple((p,) for p in pool) if len(spaces) > 1 else (),
    )
    problem = Problem.of(
        [value.first for value in values],
        [value.last + 1 for value in values],
        [value.size for value in values],
        alignment,
        rules=rules,
    )
    # Several allocations of one color are one pool here, but XLA's offsets start at 0 in each.
    single = len(colors) <= len(spaces)
    return Table(problem, tuple(value.name for value in values), None, offsets if single else None)


def _ties(values: list[_Value]) -> tuple[tuple[tuple[int, ...], ...], tuple[tuple[int, int], ...]]:
    """Alias groups and in-place pairs among the values at one offset of one allocation, in near linear time.

    A value that lives on after the birth of another one at its offset is its alias. So at any time the values that
    are live at one offset are one group, except at a moment at which some die and others are born: that is an
    in-place pair of two groups. One pair of values represents the two groups, since aliases are one storage.
    """
    places: dict[tuple[int, int], list[int]] = {}
    for k, value in enumerate(values):
        places.setdefault((value.allocation, value.offset), []).append(k)
    groups = _Groups(len(values))
    handed: list[tuple[int, int]] = []
    for members in places.values():
        looping = {values[k].size for k in members if values[k].phi}
        first_of: dict[int, int] = {}
        for k in members:
            if values[k].size in looping:
                groups.join(first_of.setdefault(values[k].size, k), k)
        end, dying = -1, -1  # of the group that is live: its last moment, and the least value that lives until then
        by_birth = sorted(members, key=lambda k: (values[k].first, k))
        for birth, same in groupby(by_birth, key=lambda k: values[k].first):
            born = list(same)
            for k in born[1:]:
                groups.join(born[0], k)
            last = max(values[k].last for k in born)
            least = min(k for k in born if values[k].last == last)
            if end > birth:
                groups.join(dying, born[0])
            elif end == birth:
                handed.append((dying, born[0]))
            if end <= birth or last > end:
                end, dying = last, least
            elif last == end:
                dying = min(dying, least)
    by_group: dict[int, list[int]] = {}
    for k in range(len(values)):
        by_group.setdefault(groups.head(k), []).append(k)
    pairs: dict[tuple[int, int], tuple[int, int]] = {}
    for one, two in sorted(handed):
        if groups.head(one) != groups.head(two):
            pairs.setdefault((groups.head(one), groups.head(two)), (one, two))
    return tuple(sorted(tuple(each) for each in by_group.values() if len(each) > 1)), tuple(sorted(pairs.values()))


class _Groups:
    """Disjoint sets of values."""

    def __init__(self, count: int) -> None:
        self._above = list(range(count))

    def head(self, value: int) -> int:
        """The value that represents the group."""
        above = self._above
        while above[value] != value:
            above[value] = above[above[value]]
            value = above[value]
        return value

    def join(self, one: int, two: int) -> None:
        """Join two groups."""
        low, high = sorted((self.head(one), self.head(two)))
        self._above[high] = low
