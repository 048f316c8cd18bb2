"""The findings of the checker as a verdict, and where a judge differs from it.

Only this file and `advised.py` know the checker; the judges do not import it.
"""

from __future__ import annotations

from collections.abc import Iterable

from haulout.checker import check_program
from haulout.ir.program import Program
from haulout.support.diagnostics import Diagnostic, Severity
from haulout_judges.verdict import Outcome, Verdict, hang, unjudged

HANGS = frozenset({"barrier-mismatch", "deadlock"})
BETWEEN_CORES = frozenset({"cross-core-race", "possible-race"})
UNORDERED = BETWEEN_CORES | {"missing-dependence", "benign-duplicate-write"}


def checker_verdict(program: Program) -> Verdict:
    """The verdict of the checker on order; findings on values and storage do not count."""
    return verdict_of(check_program(program, advise=False))


def verdict_of(findings: Iterable[Diagnostic]) -> Verdict:
    """The same from its findings."""
    by_code = {each.code: each for each in findings}
    if "bad-input" in by_code:
        return unjudged(str(by_code["bad-input"]))
    for code in sorted(by_code.keys() & HANGS):
        return hang(str(by_code[code]))
    if by_code.keys() & UNORDERED:
        return Verdict(Outcome.RACE)
    if "unproved-paths" in by_code:
        return unjudged(str(by_code["unproved-paths"]))
    return Verdict(Outcome.CLEAN)


def differs(program: Program, verdict: Verdict, findings: list[Diagnostic]) -> str:
    """How a judge's verdict contradicts the checker's findings; empty when it does not.

    A judge that names pairs must also agree whether some pair is between two cores, and whether some pair is inside
    one.
    """
    checked = verdict_of(findings)
    if Outcome.UNJUDGED in (verdict.outcome, checked.outcome):
        return ""
    if verdict.outcome is Outcome.CLEAN and _guesses(program, findings):
        return ""
    codes = {each.code for each in findings}
    if "view-mismatch" in codes and Outcome.HANG not in (verdict.outcome, checked.outcome):
        return ""  # the place of such a view is undefined, and the checker reports it
    if verdict.outcome is not checked.outcome:
        return f"the judge says {verdict.outcome.value}, the checker {checked.outcome.value}"
    if verdict.outcome is not Outcome.RACE or verdict.pairs is None:
        return ""
    core = program.instruction_core
    # A branch is judged with its core's instructions.
    across = {
        int(core[a]) != int(core[b]) if min(a, b) >= 0 else _branch_core(program, a, b) for a, b in verdict.pairs
    }
    both_zero = "benign-duplicate-write" in codes
    for where, reported in ((True, bool(codes & BETWEEN_CORES)), (False, "missing-dependence" in codes)):
        if (where in across) != reported and not both_zero:
            place = "between cores" if where else "within a core"
            return f"the judge {'sees' if where in across else 'sees no'} race {place}, the checker " + (
                "does" if reported else "does not"
            )
    return ""


def _guesses(program: Program, findings: list[Diagnostic]) -> bool:
    """True if the checker only warns, in a program with moving patterns: where it would have to examine too many
    iterations, it treats a moving pattern as unknown bytes and reports an uncertain finding.
    """
    unordered = [each for each in findings if each.code in UNORDERED]
    certain = any(each.severity is Severity.ERROR for each in unordered)
    return bool(unordered) and not certain and len(program.steps) > 0


def _branch_core(program: Program, a: int, b: int) -> bool:
    """True if a pair with a branch in it is between two cores."""
    cores = [int(program.instruction_core[row]) if row >= 0 else int(program.block_core[-1 - row]) for row in (a, b)]
    return cores[0] != cores[1]
