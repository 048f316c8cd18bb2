"""What a finding is about is data: verdicts do not depend on words."""

from __future__ import annotations

from random import Random

import pytest
from tests.checker.generate import Shape, random_program
from tests.checker.loop_generate import random_loops
from tests.checker.test_check_loops_agree import SHAPES

from haulout.checker import check_program
from haulout.checker.explain.evidence import Evidence
from haulout.checker.explain.findings import Reporter
from haulout.ir.program import Program
from haulout.support.diagnostics import Diagnostic


def drawn(seed: int) -> Program:
    if seed % 2:
        name = sorted(SHAPES)[seed // 2 % len(SHAPES)]
        return random_loops(Random(f"subjects {seed}"), SHAPES[name])
    return random_program(Random(f"subjects {seed}"), Shape())


def about(findings: list[Diagnostic]) -> list[object]:
    return [(each.code, each.severity, each.subject) for each in findings]


@pytest.mark.long("40 s")
def test_every_finding_has_a_subject() -> None:
    seen = set()
    for seed in range(120):
        for each in check_program(drawn(seed)):
            assert each.subject is not None, each
            assert each.subject.function
            seen.add(each.code)
    assert len(seen) > 7


@pytest.mark.parametrize("seed", range(24))
def test_other_words_give_the_same_verdict(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    program = drawn(seed)
    before = about(check_program(program))
    monkeypatch.setattr(Reporter, "_sentence", lambda *_: "something is wrong")
    monkeypatch.setattr(Evidence, "notes", lambda *_: ["look"])
    assert about(check_program(program)) == before
