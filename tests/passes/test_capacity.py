"""With a capacity, `minimal` adds the fences that free storage, and none where it fits without."""

from __future__ import annotations

from random import Random

import pytest

import haulout
from haulout.passes.fences.capacity import live_bytes
from haulout.testing.programs import random_program

HANDED_OVER = """bir 1
program "handed over" lnc=2
module @nc0 core=0 {
  func @main {
    mloc %x dram.local size=64 kind=input dtype=u8 shape=[64]
    mloc %s dram.shared size=4096
    mloc %t dram.local size=4096
    mloc %out dram.local size=64 kind=output dtype=u8 shape=[64]
    block ^entry:
      %put = fill @dma0 (%x) -> (%s) seq=0
      %work = fill @act () -> (%t) seq=8
      %last = mix @act (%t) -> (%out) seq=9
  }
}
module @nc1 core=1 {
  func @main {
    mloc %s dram.shared size=4096 remote=[s,0]
    mloc %out dram.local size=64 kind=output dtype=u8 shape=[64]
    block ^entry:
      %get = mix @act (%s) -> (%out) seq=2
  }
}
"""
"""Core 1 reads a buffer of core 0; nothing tells core 0 when it has, so its own %t cannot have the buffer's place."""


def compiled(text: str, capacity: int | None) -> haulout.CompileResult:
    from haulout.ir.text import parse_bir

    return haulout.compile(parse_bir(text), capacity=capacity)


def test_fences_are_added_until_it_fits() -> None:
    free = compiled(HANDED_OVER, None)
    assert free.ok
    assert free.report.barriers == 1
    tight = compiled(HANDED_OVER, free.report.total_peak_bytes - 4096)
    assert tight.ok
    assert tight.report.total_peak_bytes <= free.report.total_peak_bytes - 4096
    assert tight.report.barriers == 2
    assert [each.code for each in tight.diagnostics] == ["capacity-fence"]


def test_none_is_added_where_it_fits() -> None:
    free = compiled(HANDED_OVER, None)
    same = compiled(HANDED_OVER, free.report.total_peak_bytes)
    assert same.report.barriers == free.report.barriers
    assert same.diagnostics == []


def test_what_cannot_fit_says_so() -> None:
    with pytest.raises(haulout.HauloutError) as caught:
        compiled(HANDED_OVER, 1024)
    assert caught.value.diagnostics[0].code == "over-capacity"


@pytest.mark.parametrize("seed", range(30))
def test_random_programs_stay_proved_and_never_grow(seed: int) -> None:
    source = random_program(Random(seed), steps=16)
    free = haulout.compile(source)
    try:
        tight = haulout.compile(source, capacity=max(free.report.total_peak_bytes - 64, 0))
    except haulout.HauloutError as error:
        assert error.diagnostics[0].code == "over-capacity"
        return
    assert tight.ok
    assert tight.report.total_peak_bytes < free.report.total_peak_bytes
    assert live_bytes(tight.program)[0] <= tight.report.total_peak_bytes
