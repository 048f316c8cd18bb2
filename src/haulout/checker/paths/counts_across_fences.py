"""Whether choices made before a fence still matter after it: through the counts of semaphores.

At a fence of all cores everything before it is complete. What remains of semaphores is a number: the signals made so
far. Where only its own core signals a semaphore, a wait in the segment after the fence (`path_selection.py`) needs
from the segment

    wait_back=[[S,j]]    what the segment itself has issued before the wait, less j: what came before the fence was
                         issued and made, and cancels. No choice before the fence matters.
    wait=[[S,k]]         k less what was made before the fence: the same on all paths only if that count is.

Signals after the segment come too late for either, whatever was chosen. So only a constant can depend on choices made
before a fence: when the arms of a fork add unequally to its semaphore, or a loop of unknown trips adds to it. To cut
at that fence would then separate choices that belong together. Where other cores signal, their choices count as well.
That is not examined: it is enough then that some semaphore is used where choices decide whether it is.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from haulout.checker.paths.control_flow import ControlFlow
from haulout.ir.enums import NONE
from haulout.ir.schema import Bools, Ints
from haulout.ir.semaphores import semaphore_use
from haulout.ir.structure import Fork, Loop, Structure


def counts_carry(flow: ControlFlow, has_fence: Bools, has_semaphores: Bools) -> bool:
    """Whether what is chosen before a fence of all cores may change what a wait after it implies."""
    program = flow.program
    use = semaphore_use(program)
    signals, waits = use.signals, use.waits
    made = flow.block[signals.instruction]
    if (signals.remote & (made != NONE)).any():
        return bool((has_semaphores & flow.is_conditional).any())
    waiting = flow.block[waits.instruction]
    constants = np.flatnonzero(~waits.back & (waiting != NONE))
    if not len(constants):
        return False
    names = np.int64(len(use.names))
    wanted = program.instruction_core[waits.instruction[constants]] * names + waits.name[constants]
    keys, semaphore = np.unique(wanted, return_inverse=True)
    added = np.zeros((len(flow.blocks), len(keys)), np.int64)
    key = signals.core * names + signals.name
    counted = np.flatnonzero((made != NONE) & np.isin(key, keys))
    np.add.at(added, (made[counted], np.searchsorted(keys, key[counted])), signals.amount[counted])
    waited = np.zeros(added.shape, bool)
    waited[waiting[constants], semaphore] = True
    nothing = np.zeros(len(keys), bool)
    walk = _Walk(flow.structure, added, waited, has_fence)
    walk.sequence(flow.blocks, _Uneven(nothing, nothing))
    return walk.depends


class _Sum(NamedTuple):
    """What blocks add to each semaphore, and whether that depends on choices inside; then the sum means nothing."""

    added: Ints
    uneven: Bools


def _sums(structure: Structure, added: Ints) -> tuple[dict[int, Bools], dict[int, Bools]]:
    """Semaphores whose count depends on what is chosen: at each loop and fork, by its block, or inside of it; and in
    one iteration of each loop, by its header.
    """
    whole: dict[int, Bools] = {}
    iteration: dict[int, Bools] = {}

    def sequence(parts: list[_Sum]) -> _Sum:
        total, uneven = np.zeros(added.shape[1], np.int64), np.zeros(added.shape[1], bool)
        for part in parts:
            total, uneven = total + part.added, uneven | part.uneven
        return _Sum(total, uneven)

    def loop(loop: Loop, header: _Sum, body: _Sum) -> _Sum:
        once = header.added + body.added
        iteration[loop.header] = body.uneven
        whole[loop.header] = body.uneven | (once > 0) if loop.trip == NONE else body.uneven
        return _Sum(max(loop.trip, 0) * once + header.added, whole[loop.header])

    def fork(fork: Fork, arms: list[_Sum]) -> _Sum:
        then, other = arms if len(arms) == 2 else (*arms, sequence([]))
        whole[fork.block] = then.uneven | other.uneven | (then.added != other.added)
        return _Sum(then.added, whole[fork.block])

    nothing = np.zeros(added.shape[1], bool)
    structure.fold(lambda block: _Sum(added[block], nothing), sequence, loop, fork)
    return whole, iteration


class _Uneven(NamedTuple):
    """Semaphores whose count differs between paths to this point."""

    here: Bools
    fence: Bools
    """At the last fence already."""

    def also(self, more: Bools, fence: bool) -> _Uneven:
        """With more of them, then perhaps a fence."""
        here = self.here | more
        return _Uneven(here, here if fence else self.fence)


class _Walk:
    """Through the blocks in layout order."""

    def __init__(self, structure: Structure, added: Ints, waited: Bools, has_fence: Bools) -> None:
        self.structure, self.waited, self.has_fence = structure, waited, has_fence
        self.whole, self.iteration = _sums(structure, added)
        self.depends = False
        """Some wait is for a count that was not the same at the fence before."""

    def sequence(self, blocks: range, uneven: _Uneven) -> _Uneven:
        """Examine the waits of blocks; what is uneven after them."""
        for item in self.structure.items(blocks.start, blocks.stop):
            match item:
                case Loop():
                    # The iteration before has chosen as well, and may have passed a fence since.
                    fenced = bool(self.has_fence[item.begin : item.end].any())
                    uneven = uneven.also(self.iteration[item.header], fenced)
                    self._examine(item.header, uneven)
                    uneven = self.sequence(item.body, uneven).also(self.whole[item.header], False)
                case Fork():
                    one, other = (self.sequence(side, uneven) for side in item.sides)
                    uneven = _Uneven(one.here | other.here, one.fence | other.fence)
                    uneven = uneven.also(self.whole[item.block], False)
                case _:
                    if self.has_fence[item]:
                        uneven = _Uneven(uneven.here, uneven.here)
                    self._examine(item, uneven)
        return uneven

    def _examine(self, block: int, uneven: _Uneven) -> None:
        self.depends = self.depends or bool((self.waited[block] & uneven.fence).any())
