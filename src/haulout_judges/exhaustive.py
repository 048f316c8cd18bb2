"""Judge by exploration: every state that a run can reach.

A state is the progress of each queue. In a state, any operation that can happen may happen next. Two conflicting
operations that can both happen in one state race: either may be first. A state in which nothing can happen, before
all operations are over, is a hang.

What has become possible stays possible until it happens, whatever else happens. So the operations without a conflict
with any later operation may be taken at once, all of them, and no other choice needs to be explored. That, and
remembering states, keeps small programs small.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from haulout.ir.enums import NONE
from haulout.ir.program import Program
from haulout_judges.queues import Op, OpKind, Queues, mask_of, queue_programs
from haulout_judges.straight import Semaphore, Step, runs
from haulout_judges.verdict import Outcome, Verdict, hang, joined, of_pairs, unjudged
from haulout_judges.walks import NotStraightError

MAX_STATES = 20_000


def judge(program: Program) -> Verdict:
    """The verdict on all runs."""
    verdicts = []
    try:
        for steps in runs(program):
            verdicts.append(judge_run(steps))
            if verdicts[-1].outcome is Outcome.UNJUDGED:
                break
        return joined(verdicts)
    except NotStraightError as error:
        return unjudged(str(error))


def judge_run(steps: Sequence[Step]) -> Verdict:
    """The verdict on one run."""
    return _Exploration(queue_programs(steps)).verdict()


class _Exploration:
    def __init__(self, made: Queues) -> None:
        self.made = made
        self.rivals = made.rivals()
        """For each operation, a bit set of the conflicting ones of other queues."""
        self.waits = [mask_of(each for each in op.waits if each != NONE) for op in made.ops]
        self.never = [NONE in op.waits for op in made.ops]
        self.signals: dict[Semaphore, list[tuple[int, int]]] = defaultdict(list)
        """Of each semaphore: (operation, what it adds)."""
        for number, op in enumerate(made.ops):
            for semaphore, value in op.signals:
                self.signals[semaphore].append((number, value))
        self.pairs: set[tuple[int, int]] = set()

    def verdict(self) -> Verdict:
        everything = (1 << len(self.made.ops)) - 1
        visited = {0}
        stack = [((0,) * len(self.made.queues), 0)]
        while stack:
            places, over = stack.pop()
            enabled = self.enabled(places, over)
            if not enabled:
                if over != everything:
                    return hang("nothing can happen any more")
                continue
            self.note_races([ops[0] for ops in enabled if len(ops) == 1])
            left = ~over
            quiet = [ops for ops in enabled if not self.rivals[ops[0]] & left]
            for ops in [[op for each in quiet for op in each]] if quiet else enabled:
                reached = over | mask_of(ops)
                if reached in visited:
                    continue
                visited.add(reached)
                following = list(places)
                for op in ops:
                    following[self.made.ops[op].queue] += 1
                stack.append((tuple(following), reached))
            if len(visited) > MAX_STATES:
                # A race that was found is one; the others are not known.
                return Verdict(Outcome.RACE) if self.pairs else unjudged(f"more than {MAX_STATES} states")
        return of_pairs(frozenset(self.pairs))

    def note_races(self, enabled: Sequence[int]) -> None:
        among = mask_of(enabled)
        for a in enabled:
            found = self.rivals[a] & among
            if found:
                self.pairs |= {self.made.ops[a].pair(self.made.ops[b]) for b in enabled if found >> b & 1}

    def enabled(self, places: tuple[int, ...], over: int) -> list[list[int]]:
        """What can happen: single operations, and all operations of a rendezvous together."""
        found: list[list[int]] = []
        gathered: dict[int, list[int]] = {}
        for queue, at in zip(self.made.queues, places, strict=True):
            if at == len(queue):
                continue
            number = queue[at]
            op = self.made.ops[number]
            if self.never[number] or self.waits[number] & ~over or not self.reached(op, over):
                continue
            if op.kind is OpKind.ATTEND:
                gathered.setdefault(op.rendezvous, []).append(number)
            else:
                found.append([number])
        complete = [ops for rendezvous, ops in gathered.items() if len(ops) == self.made.wanted[rendezvous]]
        return complete or found

    def reached(self, op: Op, over: int) -> bool:
        """True if semaphores let an operation go on. They never fall, so it stays true."""
        return all(
            sum(added for number, added in self.signals[semaphore] if over >> number & 1) >= value
            for semaphore, value in op.needs
        )
