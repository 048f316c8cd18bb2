"""Virtual registers and the loops that they bound.

A register's value is known when it came from a constant or from a tensor whose contents are known; then loops run as
often as they will on the device. Otherwise the body is taken `trips` times in a row, which is noted: with two, what
one iteration leaves to the next is judged; with none, what stands around the loop without it.
"""

from __future__ import annotations

from collections.abc import Iterator

from haulout.frontends.nki import session
from haulout.frontends.nki.diagnose import kernel_place


class VirtualRegister:
    """A scalar on an engine."""

    def __init__(self, state: int | None = None, frozen: bool = False) -> None:
        self.value = state
        self.turns: dict[tuple[str, int], int] = {}
        """How often `while` asked at each place."""

    def __bool__(self) -> bool:
        """Whether a `while` goes on: as the value says, or `trips` times in all."""
        place = kernel_place(2)
        if self.value is not None:
            return self.value != 0
        recorder = session.recorder()
        turn = self.turns.get(place, 0)
        self.turns[place] = turn + 1
        if turn == 0:
            recorder.note_loop(place)
        if turn < recorder.trips:
            return True
        del self.turns[place]
        return False

    def __index__(self) -> int:
        """The value as an integer; what is not known counts as 0 and is noted."""
        if self.value is None:
            session.recorder().note_register(kernel_place(2))
            return 0
        return self.value

    __int__ = __index__


Bound = int | VirtualRegister


def dynamic_range(start: Bound, stop: Bound | None = None, step: int = 1) -> Iterator[int]:
    """`nl.dynamic_range`: all iterations when the bounds are known, else the first `trips` of them."""
    first, last = (0, start) if stop is None else (start, stop)
    bounds = [bound.value if isinstance(bound, VirtualRegister) else int(bound) for bound in (first, last)]
    if bounds[0] is not None and bounds[1] is not None:
        yield from range(bounds[0], bounds[1], step)
        return
    recorder = session.recorder()
    recorder.note_loop(kernel_place(2))
    begin = bounds[0] if bounds[0] is not None else 0
    yield from range(begin, begin + recorder.trips * step, step)
