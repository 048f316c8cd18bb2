"""What was chosen before a fence and still tells behind it: how far semaphores have been counted.

A fence of all cores has everything before it complete. Of semaphores there remains a number: the signals made so far.
Where only its own core signals a semaphore, a wait in the segment behind the fence (`ways.py`) needs from the segment

    wait_back=[[S,j]]    what the segment itself has issued before the wait, less j: what came before the fence was
                         issued and made, and falls out. Nothing chosen before the fence matters.
    wait=[[S,k]]         k less what was made before the fence: the same on all ways only if that count is.

Signals behind the segment come too late for either, whatever was chosen. So a constant is what may lean on choices
made before a fence: when the arms of a fork add unequally to its semaphore, or a loop of unknown trips adds to it.
A cut at that fence would then take ways apart that belong together. Where other cores signal, their choices count as
well; that is not looked into: semaphores of which it depends on choices whether they are used are too much then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from haulout.checker.paths.loops import Nest
from haulout.ir.enums import NONE
from haulout.ir.program import Program
from haulout.ir.schema import Bools, Ints
from haulout.ir.semaphores import semaphore_use


def counts_carry(program: Program, block: Ints, nest: Nest, has_fence: Bools, has_semaphores: Bools) -> bool:
    """Whether what is chosen before a fence of all cores may change what a wait behind it implies.

    `block` has the number in its nest of each instruction's block, NONE for those of other functions.
    """
    use = semaphore_use(program)
    signals, waits = use.signals, use.waits
    made = block[signals.instruction]
    if (signals.remote & (made != NONE)).any():
        maybe = [any(arm != NONE or nest.loops[number].trip == NONE for number, arm in each) for each in nest.around]
        return bool((has_semaphores & np.array(maybe, bool)).any())
    waiting = block[waits.instruction]
    fixed = np.flatnonzero(~waits.back & (waiting != NONE))
    if not len(fixed):
        return False
    names = np.int64(len(use.names))
    wanted = program.instruction_core[waits.instruction[fixed]] * names + waits.name[fixed]
    keys, semaphore = np.unique(wanted, return_inverse=True)
    added = np.zeros((len(nest.around), len(keys)), np.int64)
    key = signals.core * names + signals.name
    counted = np.flatnonzero((made != NONE) & np.isin(key, keys))
    np.add.at(added, (made[counted], np.searchsorted(keys, key[counted])), signals.amount[counted])
    waited = np.zeros(added.shape, bool)
    waited[waiting[fixed], semaphore] = True
    walk = _Walk(nest, added, waited, has_fence)
    nothing = np.zeros(len(keys), bool)
    walk.sequence(range(len(nest.around)), _Unlike(nothing, nothing))
    return walk.leans


@dataclass(frozen=True, slots=True)
class _Unlike:
    """Semaphores of whose count the ways that lead somewhere disagree."""

    at_all: Bools
    before: Bools
    """At the last fence already."""

    def also(self, more: Bools, fence: bool) -> _Unlike:
        """With more of them, then perhaps a fence."""
        at_all = self.at_all | more
        return _Unlike(at_all, at_all if fence else self.before)


class _Walk:
    """Through the blocks in layout order."""

    def __init__(self, nest: Nest, added: Ints, waited: Bools, has_fence: Bools) -> None:
        self.nest, self.added, self.waited, self.has_fence = nest, added, waited, has_fence
        self.leans = False
        """Some wait is for a count that was not the same at the fence before."""
        self.uneven: dict[int, Bools] = {}
        """Of each loop and fork, by its block: the semaphores whose count depends on what is chosen there, or, in an
        arm, inside of it."""
        self.within: dict[int, Bools] = {}
        """Of each loop, by its header: those that depend on what is chosen in one iteration."""
        self._measure(range(len(added)))

    def _measure(self, blocks: range) -> tuple[Ints, Bools]:
        """What blocks add, and for which semaphores that depends on choices; those sums mean nothing."""
        total, uneven = np.zeros(self.added.shape[1], np.int64), np.zeros(self.added.shape[1], bool)
        at = blocks.start
        while at < blocks.stop:
            if at in self.nest.headers:
                loop = self.nest.loops[self.nest.headers[at]]
                once, self.within[at] = self._measure(range(at + 1, loop.end))
                adds = (once > 0) | (self.added[at] > 0)
                self.uneven[at] = self.within[at] | adds if loop.trip == NONE else self.within[at]
                total += max(loop.trip, 0) * (once + self.added[at]) + self.added[at]
                uneven = uneven | self.uneven[at]
                at = loop.end
                continue
            total += self.added[at]
            if at in self.nest.forking:
                fork = self.nest.forks[self.nest.forking[at]]
                (then, some), (other, more) = (self._measure(arm) for arm in fork.arms)
                self.uneven[at] = some | more | (then != other)
                total += then
                uneven = uneven | self.uneven[at]
                at = fork.join
            else:
                at += 1
        return total, uneven

    def sequence(self, blocks: range, unlike: _Unlike) -> _Unlike:
        """Look at the waits of blocks; what is unlike behind them."""
        at = blocks.start
        while at < blocks.stop:
            if at in self.nest.headers:
                loop = self.nest.loops[self.nest.headers[at]]
                # The iteration before has chosen as well, and may have passed a fence since.
                unlike = unlike.also(self.within[at], bool(self.has_fence[at : loop.end].any()))
                self._look(at, unlike)
                unlike = self.sequence(range(at + 1, loop.end), unlike).also(self.uneven[at], False)
                at = loop.end
                continue
            unlike = unlike.also(np.zeros_like(unlike.at_all), bool(self.has_fence[at]))
            self._look(at, unlike)
            if at in self.nest.forking:
                fork = self.nest.forks[self.nest.forking[at]]
                unlike = self._arms(fork.arms, unlike).also(self.uneven[at], False)
                at = fork.join
            else:
                at += 1
        return unlike

    def _arms(self, arms: Sequence[range], unlike: _Unlike) -> _Unlike:
        one, other = (self.sequence(arm, unlike) for arm in arms)
        return _Unlike(one.at_all | other.at_all, one.before | other.before)

    def _look(self, block: int, unlike: _Unlike) -> None:
        self.leans = self.leans or bool((self.waited[block] & unlike.before).any())
