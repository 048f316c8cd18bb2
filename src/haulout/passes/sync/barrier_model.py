"""core_barrier on semaphores: a model of several schemes, and which are sound for two barriers in a row.

Each scheme is a program of a small machine; `explore` tries all its interleavings. `lower_barriers` emits the first
one, *monotone*, and the tests explore its output in the same way. The others use counters that can be reset, and show
what is wrong with them.

On each core, for every barrier: each engine adds to `here` after all its work. A *keeper* waits for all engines, then
for the keepers of the other cores by one of the schemes below, and adds to `go` to let the engines continue. `here`
and `go` only grow: engine E passes barrier b when `go` is at least b.

    scheme       keepers                                                                          two in a row
    monotone     add 1 to every other core's `met`; wait until the own is (N-1)*b                 sound
    alternating  the same with `met0`, `met1` in turn, N-1 each time, the own set to 0 after use  sound
    stale        one `met`, N-1 each time, never set to 0                                         passes early
    reset        one `met`, N-1 each time, the own set to 0 after use                             hangs
    up and down  one count for all: add 1, wait until it is N; next: take 1, wait until it is 0   hangs

*Monotone* is sound. Assume that a core leaves barrier b before core M reaches it, and take the first such moment. A
core adds for b+1 only after it left b, so every core but M has added at most b to each count, and M at most b-1. The
count of another core is then at most (N-2)*b + b-1, less than (N-1)*b, and M itself reaches b before it leaves: a
contradiction. *Alternating* needs constants only: a core that adds for b+2 has left b+1, so the receiver has reached
b+1, and before that it set the count of b to 0. With *reset* the signal of a fast core for b+1 arrives between the
wait and the reset, and is lost. *Up and down* is the error that the review of cheshire's pull request 170 found: a
fast core takes its 1 away before a slow one has seen N.

A signal may take any time to arrive: it is in flight until a step of its own delivers it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

Operation = Literal["arrive", "add", "send", "at_least", "equal", "set", "pass"]


class Step(NamedTuple):
    """One atomic step of a line. `arrive` and `pass` mark reaching a barrier and leaving it.

    `add` takes effect at once, `send` at any later time.
    """

    does: Operation
    counter: str = ""
    """The counter; for `arrive` and `pass`, the sequence of barriers."""
    core: int = 0
    """Whose counter."""
    value: int = 0
    """Added, waited for, set; or the number of the barrier, from 1."""


Line = tuple[Step, ...]
Keeper = Callable[[int, int, int], list[Step]]
"""(core, number of cores, number of the barrier from 1) -> the steps of a keeper between `here` and `go`."""


def monotone(core: int, cores: int, barrier: int) -> list[Step]:
    """Counts that only grow."""
    others = [each for each in range(cores) if each != core]
    return [Step("send", "met", each, 1) for each in others] + [
        Step("at_least", "met", core, len(others) * barrier),
    ]


def alternating(core: int, cores: int, barrier: int) -> list[Step]:
    """Two counts in turn, each set to 0 after its use."""
    name = f"met{barrier % 2}"
    others = [each for each in range(cores) if each != core]
    return [Step("send", name, each, 1) for each in others] + [
        Step("at_least", name, core, len(others)),
        Step("set", name, core, 0),
    ]


def reset(core: int, cores: int, barrier: int) -> list[Step]:
    """One count, set to 0 after its use: unsound."""
    others = [each for each in range(cores) if each != core]
    return [Step("send", "met", each, 1) for each in others] + [
        Step("at_least", "met", core, len(others)),
        Step("set", "met", core, 0),
    ]


def stale(core: int, cores: int, barrier: int) -> list[Step]:
    """One count, never set to 0: unsound."""
    others = [each for each in range(cores) if each != core]
    return [Step("send", "met", each, 1) for each in others] + [Step("at_least", "met", core, len(others))]


def up_and_down(core: int, cores: int, barrier: int) -> list[Step]:
    """One count for all cores, on core 0, that goes up to N at one barrier and down to 0 at the next: unsound."""
    up = barrier % 2 == 1
    return [
        Step("send", "count", 0, 1 if up else -1),
        Step("equal", "count", 0, cores if up else 0),
    ]


SCHEMES: dict[str, Keeper] = {
    "monotone": monotone,
    "alternating": alternating,
    "stale": stale,
    "reset": reset,
    "up and down": up_and_down,
}


def barrier_lines(keeper: Keeper, cores: int, barriers: int, engines: int) -> list[Line]:
    """The lines of all cores: for each `engines` engines and the keeper. With no engines the keeper is the core."""
    lines: list[Line] = []
    for core in range(cores):
        for _ in range(engines):
            steps: list[Step] = []
            for number in range(1, barriers + 1):
                steps += [
                    Step("arrive", value=number),
                    Step("send", "here", core, 1),
                    Step("at_least", "go", core, number),
                    Step("pass", value=number),
                ]
            lines.append(tuple(steps))
        steps = []
        for number in range(1, barriers + 1):
            steps += [
                Step("arrive", value=number),
                *([Step("at_least", "here", core, engines * number)] if engines else []),
                *keeper(core, cores, number),
                Step("pass", value=number),
                *([Step("send", "go", core, 1)] if engines else []),
            ]
        lines.append(tuple(steps))
    return lines


@dataclass(frozen=True, slots=True)
class Exploration:
    """The result over all interleavings."""

    states: int
    passes_early: bool
    """Some line left a barrier that another had not reached."""
    hangs: bool
    """Some state has no next step although a line is not at its end."""

    @property
    def sound(self) -> bool:
        """Neither."""
        return not self.passes_early and not self.hangs


State = tuple[tuple[int, ...], tuple[tuple[str, int, int], ...], tuple[tuple[str, int, int, int], ...]]
"""(place of each line, counters that are not 0, (counter, core, value, how many) in flight)."""


def explore(lines: list[Line]) -> Exploration:
    """Try every interleaving of the lines and of the arrivals of what is in flight."""
    first: State = ((0,) * len(lines), (), ())
    seen, stack = {first}, [first]
    early = hangs = False
    marks = [_marks(line) for line in lines]
    while stack:
        state = stack.pop()
        following = [*_arrivals(state), *_steps(lines, state)]
        if not following and any(at < len(line) for at, line in zip(state[0], lines, strict=True)):
            hangs = True
        early = early or _is_early(marks, state[0])
        for each in following:
            if each not in seen:
                seen.add(each)
                stack.append(each)
    return Exploration(len(seen), early, hangs)


def _arrivals(state: State) -> list[State]:
    """A signal that is in flight arrives."""
    places, counters, flight = state
    found: list[State] = []
    for at, (name, core, value, many) in enumerate(flight):
        left = list(flight)
        left[at : at + 1] = [(name, core, value, many - 1)] if many > 1 else []
        found.append((places, _with(counters, name, core, _get(counters, name, core) + value), tuple(left)))
    return found


def _steps(lines: list[Line], state: State) -> list[State]:
    """A line takes its next step."""
    places, counters, flight = state
    found: list[State] = []
    for index, line in enumerate(lines):
        if places[index] == len(line):
            continue
        step = line[places[index]]
        now = _get(counters, step.counter, step.core)
        if (step.does == "at_least" and now < step.value) or (step.does == "equal" and now != step.value):
            continue
        after, sent = counters, flight
        if step.does in ("set", "add"):
            before = now if step.does == "add" else 0
            after = _with(counters, step.counter, step.core, before + step.value)
        elif step.does == "send":
            many = {each[:3]: each[3] for each in flight}
            key = (step.counter, step.core, step.value)
            many[key] = many.get(key, 0) + 1
            sent = tuple((*each, count) for each, count in sorted(many.items()))
        found.append(((*places[:index], places[index] + 1, *places[index + 1 :]), after, sent))
    return found


def _get(counters: tuple[tuple[str, int, int], ...], name: str, core: int) -> int:
    return next((value for each, owner, value in counters if (each, owner) == (name, core)), 0)


def _with(
    counters: tuple[tuple[str, int, int], ...], name: str, core: int, value: int
) -> tuple[tuple[str, int, int], ...]:
    kept = [each for each in counters if each[:2] != (name, core)]
    return tuple(sorted([*kept, (name, core, value)] if value else kept))


Marks = list[dict[str, tuple[int, int]]]
"""For each place of a line: sequence of barriers -> (the last one it has reached, the last one it has left)."""


def _marks(line: Line) -> Marks:
    now = {step.counter: (0, 0) for step in line if step.does == "arrive"}
    found = [now]
    for step in line:
        come, left = now.get(step.counter, (0, 0))
        if step.does == "arrive":
            now = {**now, step.counter: (step.value, left)}
        elif step.does == "pass":
            now = {**now, step.counter: (come, step.value)}
        found.append(now)
    return found


def _is_early(marks: list[Marks], places: tuple[int, ...]) -> bool:
    """Whether a line has left a barrier that another has not reached."""
    least: dict[str, int] = {}
    most: dict[str, int] = {}
    for each, at in zip(marks, places, strict=True):
        for sequence, (come, left) in each[at].items():
            least[sequence] = min(come, least.get(sequence, come))
            most[sequence] = max(left, most.get(sequence, 0))
    return any(left > least[sequence] for sequence, left in most.items())
