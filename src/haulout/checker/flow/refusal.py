"""Why a function is not proved by data flow: the construct that the proof does not cover, and its place."""

from __future__ import annotations

from dataclasses import dataclass

from haulout.ir.enums import NONE


@dataclass(frozen=True, slots=True)
class Refusal:
    """A construct that is not proved, in words that complete "not proved: ..."."""

    text: str
    block: int = NONE
    """The number of its block in the function; NONE: the function as a whole."""
    instruction: int = NONE
    """Its row in the program as written; NONE: no instruction in particular."""
