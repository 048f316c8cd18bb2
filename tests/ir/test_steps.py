"""Where steps take patterns, against going through the iterations one by one."""

from __future__ import annotations

from itertools import product
from random import Random

import pytest

from haulout.ir.text import parse_bir, print_bir
from haulout.ir.verify import verify

TEXT = """bir 1
program "p" lnc=1
module @nc0 core=0 {{
  func @f {{
    mloc %x dram.local size={size} kind=inout
    mloc %c dram.local size=4 kind=input
    block ^e -> ^outer:
    block ^outer -> ^outer_body, ^x{outer} cond=c:
    block ^outer_body -> ^head:
    block ^head -> ^body, ^join{inner} cond=c:
{header}
    block ^body -> ^head:
{body}
    block ^join -> ^outer:
    block ^x:
  }}
}}
"""


def text(steps: str, *, size: int = 64, outer: str = " trip=2", inner: str = " trip=3", header: bool = False) -> str:
    """One memset of eight bytes from byte 24 in the header or in the body of the inner of two loops."""
    line = f"      %w = memset @dma0 () -> (%x[24:32]) step=[{steps}]"
    where = {"header": line, "body": ""} if header else {"header": "", "body": line}
    return TEXT.format(size=size, outer=outer, inner=inner, **where)


def codes(source: str) -> list[str]:
    return [each.code for each in verify(parse_bir(source))]


@pytest.mark.thin(5, "6 s")
@pytest.mark.parametrize("seed", range(400))
def test_known_trips_agree_with_going_through_them(seed: int) -> None:
    random = Random(seed)
    trips = random.choice([1, 2, 3, 5, 9]), random.choice([1, 2, 3, 5, 9])
    header = random.random() < 0.3
    steps = []
    for _ in range(random.choice([1, 1, 2, 3])):
        modulus = random.choice([0, 0, 1, 2, 3, 4])
        phase = random.randrange(modulus) if modulus else 0
        steps.append((random.randrange(2), random.choice([-16, -8, -4, 4, 8, 16]), modulus, phase))
    listed = ",".join(f"[0,{('outer', 'head')[loop]},{step},{mod},{phase}]" for loop, step, mod, phase in steps)
    source = text(listed, outer=f" trip={trips[0]}", inner=f" trip={trips[1]}", header=header)
    leaves = False
    for turns in product(range(trips[0]), range(trips[1] + header)):
        shift = sum(step * ((turns[loop] + phase) % mod if mod else turns[loop]) for loop, step, mod, phase in steps)
        leaves |= not 0 <= 24 + shift <= 56
    assert codes(source) == (["out-of-bounds"] if leaves else [])


@pytest.mark.parametrize(
    ("steps", "wanted"),
    [
        ("[0,head,8,5]", []),  # the period of five ends at byte 64
        ("[0,head,8,6]", ["out-of-bounds"]),
        ("[0,head,8,6,5]", ["out-of-bounds"]),
        ("[0,head,-8,4,3]", []),
        ("[0,head,8,0]", []),  # what the checker notes
        ("[0,head,8,6],[0,head,-8,6]", []),
        ("[0,head,8,3],[0,outer,8,0]", []),
        ("[0,head,8,5],[0,outer,8,0]", ["out-of-bounds"]),
    ],
)
def test_an_unknown_trip(steps: str, wanted: list[str]) -> None:
    assert codes(text(steps, inner="")) == wanted


def test_where_it_leaves_is_said() -> None:
    (wrong,) = verify(parse_bir(text("[0,head,8,8,2]", inner="")))
    assert "bytes 24:88 of a location of 64 bytes" in wrong.message
    assert "in iteration 3 of the loop at ^head" in wrong.notes[0]
    assert "at most 3 times" in wrong.help[1]
    (wrong,) = verify(parse_bir(text("[0,head,4611686018427387904,4611686018427387904]", inner="")))
    assert "more than 2**62 bytes" in wrong.message


def test_a_loop_that_does_not_run() -> None:
    assert codes(text("[0,head,64,2]", inner=" trip=0")) == []
    assert codes(text("[0,head,64,2]", inner=" trip=1")) == []
    assert codes(text("[0,head,64,2,1]", inner=" trip=1")) == ["out-of-bounds"]


@pytest.mark.parametrize(
    ("step", "message"),
    [
        ("[0,head,8,4,4]", "a step with phase 4, expected from 0 to 3"),
        ("[0,head,8,0,1]", "a step with phase 1, expected none without a modulus"),
        ("[0,head,8,-2]", "steps.modulus[0] is -2, expected at least 0"),
        ("[0,head,8,4,-1]", "steps.phase[0] is -1, expected at least 0"),
    ],
)
def test_numbers_that_make_no_sense(step: str, message: str) -> None:
    (wrong,) = verify(parse_bir(text(step)))
    assert (wrong.code, wrong.message) == ("bad-input", message)


def test_a_phase_is_printed_where_there_is_one() -> None:
    for step in ("[0,head,8,4]", "[0,head,8,4,3]"):
        printed = print_bir(parse_bir(text(step)))
        assert f"step=[{step}]" in printed
        assert print_bir(parse_bir(printed)) == printed
    assert "step=[[0,head,8,4]]" in print_bir(parse_bir(text("[0,head,8,4,0]")))
