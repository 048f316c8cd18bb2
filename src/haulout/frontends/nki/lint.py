"""What is wrong with a traced kernel before any question of order: `lint_outputs.py`, `lint_memory.py` and
`lint_sync.py`, by code.

return-mismatch             the cores return different tensors, or in another order
shared-allocation-mismatch  the k-th shared allocation is not the same tensor on every core
over-capacity               a tensor, or all that live at one time, do not fit a partition of SBUF or PSUM
partition-limit             more partitions than there are
overlapping-split           cores read shifted parts of an input that overlap, and leave a rest unread
barrier-not-shared          a barrier on a tensor that the other core does not see
adjacent-barriers           two barriers with nothing between
redundant-barrier           a barrier that orders nothing inside the kernel
"""

from __future__ import annotations

from haulout.frontends.nki.findings import Findings
from haulout.frontends.nki.lint_memory import check_allocations, check_capacity, check_splits
from haulout.frontends.nki.lint_outputs import check_returns
from haulout.frontends.nki.lint_sync import check_barriers
from haulout.frontends.nki.trace import BarrierScope, Trace
from haulout.support.diagnostics import Diagnostic


def lint(trace: Trace, barrier_scope: BarrierScope = "data") -> list[Diagnostic]:
    """All findings that need no order, in the order of the list above."""
    findings = Findings()
    check_returns(trace, findings)
    check_allocations(trace, findings)
    check_capacity(trace, findings)
    check_splits(trace, findings)
    check_barriers(trace, barrier_scope, findings)
    return findings.items
