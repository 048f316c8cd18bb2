"""Whether advice is worth what it says: the fix is applied, printed, read again and judged anew.

    wrong = contradiction(program, finding)      # empty: the finding goes, and nothing comes

Two judges are asked. The checker, for everything; and reachability (`judges/reachability.py`), which shares no code
with it, for the pairs of instructions that nothing orders.
"""

from __future__ import annotations

from haulout.checker import check_program
from haulout.ir.program import Program
from haulout.ir.text import parse_bir, print_bir
from haulout.ir.verify import verify
from haulout.support.diagnostics import Diagnostic, Severity
from haulout_judges import Outcome
from haulout_judges.reachability import judge

_Pair = frozenset[tuple[int, str]]
_ORDER = frozenset(
    {"cross-core-race", "possible-race", "missing-dependence", "benign-duplicate-write", "unfaithful-order"}
)


def contradiction(program: Program, finding: Diagnostic) -> str:
    """What is wrong with the program that a finding's fix makes, if it was not wrong before; empty: nothing."""
    assert finding.advice is not None and finding.subject is not None
    fixed = parse_bir(print_bir(finding.advice.fix.apply(program)), "fixed.bir")
    if unsound := [str(each) for each in verify(fixed) if each.severity is Severity.ERROR]:
        return f"it is not sound: {unsound[0]}"
    known = {_key(each) for each in check_program(program, advise=False)}
    for each in check_program(fixed, advise=False):
        if each.code not in _ORDER and _key(each) not in known:
            return f"it has a new finding: {each}"
    before, after = judge(program), judge(fixed)
    if after.outcome is Outcome.HANG and before.outcome is not Outcome.HANG:
        return f"it hangs: {after.reason}"
    if before.pairs is None or after.pairs is None:
        return ""
    were, are = _pairs(program, before.pairs), _pairs(fixed, after.pairs)
    if new := are - were:
        return f"nothing orders {sorted(next(iter(new)))} any more"
    shown: _Pair = frozenset((each.core, each.name) for each in finding.subject.instructions)
    return "the finding is still there" if finding.subject.distance == 0 and shown in are and _once(fixed) else ""


def _once(program: Program) -> bool:
    """Whether each instruction runs once; otherwise a pair of names is many pairs."""
    return len(program.edges) == 0


def _key(finding: Diagnostic) -> object:
    return finding.code, None if finding.subject is None else finding.subject.identity


def _pairs(program: Program, pairs: frozenset[tuple[int, int]]) -> set[_Pair]:
    return {frozenset(_name(program, row) for row in pair) for pair in pairs}


def _name(program: Program, row: int) -> tuple[int, str]:
    if row < 0:
        block = -1 - row
        return int(program.block_core[block]), "^" + program.strings[int(program.blocks.name[block])]
    return int(program.instruction_core[row]), program.instruction_name(row)
