"""The closed sets of the program: spaces, kinds, engines, dependence kinds. Values are what the columns hold."""

from __future__ import annotations

import enum

NONE = -1
"""A null id, in every id column."""


class Space(enum.IntEnum):
    """The memory of a location."""

    DRAM_LOCAL = 0
    DRAM_SHARED = 1
    SBUF = 2
    PSUM = 3

    @property
    def text(self) -> str:
        """As written in `.bir`."""
        return _SPACE_TEXT[self]

    @property
    def is_dram(self) -> bool:
        """Whether it is in the DRAM that the cores share."""
        return self <= Space.DRAM_SHARED


_SPACE_TEXT = {
    Space.DRAM_LOCAL: "dram.local",
    Space.DRAM_SHARED: "dram.shared",
    Space.SBUF: "sbuf",
    Space.PSUM: "psum",
}
SPACE_BY_TEXT = {text: space for space, text in _SPACE_TEXT.items()}


class Kind(enum.IntEnum):
    """Who fills a location and who reads it in the end.

    INPUT, INOUT and CONST are live in the whole function, OUTPUT from its first access to the end of the function.
    """

    INTERNAL = 0
    INPUT = 1
    OUTPUT = 2
    INOUT = 3
    CONST = 4

    @property
    def text(self) -> str:
        """As written in `.bir`."""
        return self.name.lower()


KIND_BY_TEXT = {kind.text: kind for kind in Kind}


class Engine(enum.IntEnum):
    """The in-order lines of one core. ALL is the line of barriers that fence every other line."""

    PE = 0
    ACT = 1
    VECTOR = 2
    POOL = 3
    SYNC = 4
    DMA0 = 5
    DMA1 = 6
    DMA2 = 7
    DMA3 = 8
    DMA4 = 9
    DMA5 = 10
    DMA6 = 11
    DMA7 = 12
    DMA8 = 13
    DMA9 = 14
    DMA10 = 15
    DMA11 = 16
    DMA12 = 17
    DMA13 = 18
    DMA14 = 19
    DMA15 = 20
    ALL = 21

    @property
    def text(self) -> str:
        """As written in `.bir`."""
        return self.name.lower()


ENGINE_BY_TEXT = {engine.text: engine for engine in Engine}
LINES = len(Engine)
"""How many lines a core has, ALL included."""


class DependenceKind(enum.IntEnum):
    """Why an instruction waits for another. GIVEN: the program's author said so."""

    GIVEN = 0
    RAW = 1
    WAR = 2
    WAW = 3
