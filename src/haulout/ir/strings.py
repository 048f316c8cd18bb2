"""Interned text: equal strings have equal ids, so names of different cores compare as integers. Append-only."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from haulout.ir.enums import NONE


class StringTable:
    """Text by id. Programs made from one another share it: an id, once given, never changes its meaning."""

    __slots__ = ("_ids", "_texts")

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self._texts: list[str] = []
        self._ids: dict[str, int] = {}
        for text in texts:
            self.intern(text)

    def intern(self, text: str) -> int:
        """The id of `text`, new or known."""
        found = self._ids.setdefault(text, len(self._texts))
        if found == len(self._texts):
            self._texts.append(text)
        return found

    def find(self, text: str) -> int:
        """The id of `text`, or NONE when no row of any table can hold it."""
        return self._ids.get(text, NONE)

    def optional(self, text: str | None) -> int:
        """The id of `text`, NONE for None."""
        return NONE if text is None else self.intern(text)

    def __getitem__(self, index: int) -> str:
        if index < 0:
            raise IndexError("null string id")
        return self._texts[index]

    def get(self, index: int) -> str | None:
        """The text, or None for NONE."""
        return None if index < 0 else self._texts[index]

    def __len__(self) -> int:
        return len(self._texts)

    def __iter__(self) -> Iterator[str]:
        return iter(self._texts)

    def to_columns(self) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
        """All text as UTF-8 bytes and the offsets where each string starts; one more offset than strings."""
        encoded = [text.encode() for text in self._texts]
        offsets = np.zeros(len(encoded) + 1, np.int64)
        np.cumsum([len(item) for item in encoded], out=offsets[1:])
        return np.frombuffer(b"".join(encoded), np.uint8), offsets

    @classmethod
    def from_columns(cls, data: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64]) -> StringTable:
        """The inverse of `to_columns`."""
        whole, cuts = data.tobytes(), offsets.tolist()
        return cls(whole[a:b].decode() for a, b in pairwise(cuts))
