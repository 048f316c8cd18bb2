"""Mutants through the commands: a small sample of what `benchmarks/fuzz.py` runs, the same ones each time."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from tests.fuzz.commands import DEFECTS, run_mutant
from tests.fuzz.sources import KINDS, sources

import haulout.api

SAMPLE = {"bir": 60, "hlo": 40, "nki": 60, "csv": 80, "npz": 60, "toml": 40, "tasks": 40}


@pytest.mark.thin(3, "40 s")
@pytest.mark.parametrize("kind", KINDS)
def test_mutants(kind: str, tmp_path: Path) -> None:
    ends: Counter[str] = Counter()
    for number in range(SAMPLE[kind]):
        found = run_mutant(kind, number, tmp_path / "mutant")
        assert found.ended not in DEFECTS, f"{kind} {number}: {found.ended}: {found.command}\n{found.seen}"
        ends[found.ended] += 1
        ends["reached"] += found.reached
    # A sample that is always refused would say little.
    assert ends["reached"] >= SAMPLE[kind] // 12, ends
    assert ends["refused"] >= SAMPLE[kind] // 12, ends


def test_sources_are_sound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a change, the first command of each is not refused; texts and modules are in `test_fuzz.py`."""
    for kind in ("nki", "csv", "npz", "toml"):
        for at, source in enumerate(sources(kind)):
            with monkeypatch.context() as patch:
                whole = replace(source, mutate=lambda data, _number: data)
                patch.setattr("tests.fuzz.commands.sources", lambda _kind, whole=whole: [whole])
                found = run_mutant(kind, 0, tmp_path / "mutant")
            assert found.ended in ("clean", "findings"), f"{kind} {at}: {found}"


@pytest.mark.parametrize(
    ("fault", "ended"),
    [
        (ZeroDivisionError("of no use"), "exit 3"),
        (GeneratorExit(), "exception"),
        (MemoryError(), "memory"),
    ],
)
def test_what_counts_as_a_defect(
    fault: BaseException, ended: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A harness that finds nothing wrong with anything would prove nothing."""

    def crash(*_: object, **__: object) -> None:
        raise fault

    sources("bir")
    monkeypatch.setattr(haulout.api, "check_source", crash)
    assert run_mutant("bir", 0, tmp_path / "mutant").ended == ended


def test_a_hang_and_a_half_written_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def hang(*_: object, **__: object) -> None:
        while True:
            pass

    def leave(*_: object, **__: object) -> None:
        (tmp_path / "mutant" / "out" / ".program.bir.x").write_text("bir 1\n")
        raise haulout.HauloutError(haulout.Diagnostic("bad-input", haulout.Severity.ERROR, "as it must be"))

    sources("bir")
    monkeypatch.setattr(haulout.api, "check_source", hang)
    assert run_mutant("bir", 0, tmp_path / "mutant", seconds=0.2).ended == "timeout"
    monkeypatch.setattr(haulout.api, "check_source", leave)
    assert run_mutant("bir", 0, tmp_path / "mutant").ended == "half-written"
