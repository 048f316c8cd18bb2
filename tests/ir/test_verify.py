"""One broken program for each rule of the verifier."""

from __future__ import annotations

import numpy as np
import pytest

from haulout.ir.text import parse_bir
from haulout.ir.verify import verify

SOUND = """bir 1
program "p" lnc=2
module @nc0 core=0 {
  func @f {
    mloc %s dram.shared size=64
    mloc %t dram.shared size=64 remote=[t,1]
    mloc %x dram.local size=64 dtype=f32 shape=[16]
    block ^e:
      %a = op @pe (%s) -> (%x) seq=0
      %b = op @act (%x) -> (%s) seq=1 deps=[a]
  }
}
module @nc1 core=1 {
  func @f {
    mloc %t dram.shared size=64
    mloc %s dram.shared size=64 remote=[s,0]
    block ^e:
      %a = op @pe (%t) -> (%s) seq=0
  }
}
"""


def test_the_base_program_is_sound() -> None:
    assert verify(parse_bir(SOUND)) == []


@pytest.mark.parametrize(
    ("old", "new", "code", "message"),
    [
        ("core=1 {", "core=2 {", "bad-input", "one module for each core"),
        (
            "func @f {\n    mloc %t dram.shared size=64\n",
            "func @g {\n    mloc %t dram.shared size=64\n",
            "bad-input",
            "equal on all cores",
        ),
        ("shape=[16]", "shape=[15]", "bad-input", "f32[15] is 60 bytes"),
        ("remote=[t,1]", "remote=[u,1]", "unresolved-remote", "%u of core 1 does not exist"),
        ("remote=[t,1]", "remote=[s,0]", "bad-input", "its own core"),
        (
            "mloc %t dram.shared size=64\n    mloc %s dram.shared size=64 remote=[s,0]",
            "mloc %t dram.shared size=64 remote=[t,0]\n    mloc %s dram.shared size=64 remote=[s,0]",
            "bad-input",
            "a view of a view",
        ),
        ("size=64 remote=[t,1]", "size=32 remote=[t,1]", "bad-input", "32 bytes of a location of 64"),
        (
            "mloc %t dram.shared size=64 remote=[t,1]",
            "mloc %t dram.local size=64 remote=[t,1]",
            "bad-input",
            "remote=",
        ),
        ("(%s) -> (%x) seq=0", "(%s[60:68]) -> (%x) seq=0", "out-of-bounds", "60:68"),
        ("(%s) -> (%x) seq=0", "(%s[0;-4x2;4]) -> (%x) seq=0", "out-of-bounds", "-4:4"),
        ("(%x) -> (%s) seq=1", "(%x[0:32]) -> (%x[16:48]) seq=1", "bad-input", "neither the same bytes nor disjoint"),
        ("seq=1 deps=[a]", "deps=[a]", "bad-input", "seq"),
        ("seq=0\n      %b", "seq=5\n      %b", "bad-input", "seq falls from 5 to 1"),
        ("seq=0\n      %b", "seq=0 deps=[b]\n      %b", "bad-input", "comes later"),
        ("shape=[16]", "shape=[16] address=32", "bad-input", "address 32"),
        ("seq=0", "seq=0 signal=[[s,0]]", "bad-input", "a signal of 0"),
        ("seq=0", f"seq=0 signal=[[s,{1 << 31}]]", "bad-input", "a signal of 2147483648"),
        ("seq=0", "seq=0 wait=[[s,-3]]", "bad-input", "a wait for -3"),
        ("seq=0", "seq=0 wait_back=[[s,-3]]", "bad-input", "a wait for -3"),
        ("seq=0", "seq=0 remote_signal=[[7,s,1]]", "bad-input", "a remote signal to core 7, lnc="),
        ("seq=0", "seq=0 remote_signal=[[0,s,1]]", "bad-input", "a remote signal to core 0, which is its own"),
        ("kind", "kind", "", ""),
    ],
)
def test_what_is_broken_is_named(old: str, new: str, code: str, message: str) -> None:
    found = verify(parse_bir(SOUND.replace(old, new)))
    if not code:
        assert found == []
        return
    assert any(each.code == code and message in each.message for each in found), [str(each) for each in found]


def test_const_data_must_have_the_right_length() -> None:
    for data, seen in (("AAAA", "3 bytes"), ("!!", "not base64")):
        text = SOUND.replace("size=64 dtype=f32 shape=[16]", f'size=64 kind=const data="{data}"')
        assert any(seen in each.message for each in verify(parse_bir(text)))


def test_dangling_ids_are_found_in_every_table() -> None:
    program = parse_bir(SOUND)
    broken = program.replace(accesses=program.accesses.replace(location=program.accesses.location + 100))
    assert any("accesses.location" in each.message for each in verify(broken))
    instructions = program.instructions
    broken = program.replace(instructions=instructions.replace(block=instructions.block[::-1]))
    assert any("instructions.block falls" in each.message for each in verify(broken))
    broken = program.replace(instructions=instructions.replace(engine=np.full(len(instructions), 99)))
    assert any("engine" in each.message for each in verify(broken))


def test_equal_read_and_write_bytes_are_legal() -> None:
    for pattern in ("", "[0:32]", "[0;8x4;4]"):
        text = SOUND.replace("(%x) -> (%s) seq=1", f"(%x{pattern}) -> (%x{pattern}) seq=1")
        assert verify(parse_bir(text)) == []
    interleaved = SOUND.replace("(%x) -> (%s) seq=1", "(%x[0;8x4;4]) -> (%x[4;8x4;4]) seq=1")
    assert verify(parse_bir(interleaved)) == []


def test_a_branch_reads_something() -> None:
    text = SOUND.replace("mloc", "mloc %none dram.local size=0\n    mloc", 1)
    branch = "block ^e -> ^then, ^join cond=none:\nblock ^then -> ^join:\nblock ^join:"
    text = text.replace("block ^e:", branch, 1)
    (finding,) = verify(parse_bir(text, "case.bir"))
    assert finding.message == "block ^e branches on a location without bytes"
    assert finding.labels[0].span is not None
