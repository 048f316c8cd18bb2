"""What a checker's findings are worth where an access touches some of its bytes, not known which.

Such an operand has a pattern that covers all that can be, and its number stands in the instruction's attribute
`maybe=[...]` (reads first). The checker takes it for all of its bytes, so what it proves holds. A finding that stays
when those accesses are taken away is certain; one that goes with them is possible.

Writes that `duplicate=[...]` lists put the same values into a tensor as those of all other cores: a race that goes
when the tensor is left to its owner does no harm.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from haulout.check import check_program
from haulout.ir.attributes import int_list, parse_attrs
from haulout.ir.enums import NONE
from haulout.ir.program import Program
from haulout.ir.schema import Bools
from haulout.support.diagnostics import Diagnostic, Severity

_ORDER = frozenset({"cross-core-race", "missing-dependence", "possible-race"})
_NOTE = "which of these bytes are touched is known on the device only; the patterns shown cover all that can be"


def check_certain(program: Program) -> list[Diagnostic]:
    """The checker's findings, those possible that rest on operands of `maybe`; worst first."""
    base = _without_duplicates(program, check_program(program))
    guessed = maybe_accesses(program)
    if not guessed.any() or not any(each.code in _ORDER for each in base):
        return base
    found = [each for each in base if each.code not in _ORDER]
    harmless = {each.message for each in base if each.code == "benign-duplicate-write"}
    without = program.replace(accesses=program.accesses.take(~guessed))
    certain = [each for each in check_program(without) if each.code in _ORDER and each.message not in harmless]
    known = {(each.code, each.message) for each in certain}
    found += certain
    found += [_possible(each) for each in base if each.code in _ORDER and (each.code, each.message) not in known]
    return sorted(found, key=lambda each: -each.severity)


def _without_duplicates(program: Program, found: list[Diagnostic]) -> list[Diagnostic]:
    """The findings, as notes those that go when tensors that all cores fill alike are left to their owners.

    Writes of such a tensor stand in the attribute `duplicate`: whoever is last, the values are the same.
    """
    same = marked_accesses(program, "duplicate")
    if not same.any() or not any(each.code in _ORDER for each in found):
        return found
    owner = program.owner[program.accesses.location]
    filled = np.zeros(len(program.locations), bool)
    filled[owner[same]] = True
    elsewhere = program.location_core[program.accesses.location] != program.location_core[owner]
    left = program.replace(accesses=program.accesses.take(~(filled[owner] & elsewhere)))
    known = {(each.code, each.message) for each in check_program(left)}
    return [
        each if each.code not in _ORDER or (each.code, each.message) in known else _benign(each) for each in found
    ]


def _benign(finding: Diagnostic) -> Diagnostic:
    notes = (*finding.notes, "it does no harm: all cores write the same values there")
    return replace(finding, code="benign-duplicate-write", severity=Severity.NOTE, notes=notes, help=())


def maybe_accesses(program: Program) -> Bools:
    """Mask of the accesses that `maybe` names."""
    return marked_accesses(program, "maybe")


def marked_accesses(program: Program, key: str) -> Bools:
    """Mask of the accesses whose numbers stand in an attribute of their instruction, reads first."""
    mask = np.zeros(len(program.accesses), bool)
    attrs = program.instructions.attrs
    # Few texts, many instructions: each text is parsed once.
    for text in np.unique(attrs[attrs != NONE]).tolist():
        if f"{key}=" in program.strings[text]:
            operands = int_list(parse_attrs(program.strings[text]).get(key, [])) or []
            rows = np.flatnonzero(attrs == text)
            first, count = program.access_starts[rows], np.diff(program.access_starts)[rows]
            for operand in operands:
                mask[(first + operand)[count > operand]] = True
    return mask


def _possible(finding: Diagnostic) -> Diagnostic:
    code = "possible-race" if finding.code == "cross-core-race" else finding.code
    severity = min(finding.severity, Severity.WARNING)
    return replace(finding, code=code, severity=severity, notes=(*finding.notes, _NOTE))
