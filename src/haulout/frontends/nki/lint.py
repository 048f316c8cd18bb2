"""Findings of a traced kernel that do not depend on order, by code:

return-mismatch             the cores return different tensors, or in another order
shared-allocation-mismatch  the k-th shared allocation differs between cores
over-capacity               a tensor, or all that are live at one time, do not fit a partition of SBUF or PSUM
partition-limit             a tensor spans more partitions than the memory has
overlapping-split           cores read overlapping parts of an input, and none reads its end
input-not-read              an argument that no instruction touches
barrier-not-shared          a barrier on a tensor that the other core does not share
adjacent-barriers           a barrier that repeats another
redundant-barrier           a barrier that orders no accesses inside the kernel

The checks are in `lint_outputs.py`, `lint_memory.py` and `lint_sync.py`.
"""

from __future__ import annotations

from haulout.frontends.nki.findings import Findings
from haulout.frontends.nki.lint_memory import check_allocations, check_capacity, check_inputs, check_splits
from haulout.frontends.nki.lint_outputs import check_returns
from haulout.frontends.nki.lint_sync import check_barriers
from haulout.frontends.nki.trace import BarrierScope, Trace
from haulout.support.diagnostics import Diagnostic


def lint(trace: Trace, barrier_scope: BarrierScope = "data") -> list[Diagnostic]:
    """All findings, in the order of the list above."""
    findings = Findings()
    check_returns(trace, findings)
    check_allocations(trace, findings)
    check_capacity(trace, findings)
    check_splits(trace, findings)
    check_inputs(trace, findings)
    check_barriers(trace, barrier_scope, findings)
    return findings.items
