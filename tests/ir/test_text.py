"""The text format: what is printed reads back; what is wrong is shown where it stands."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from haulout.ir.store import load_program, save_program
from haulout.ir.text import parse_bir, print_bir
from haulout.ir.text.lexer import Line
from haulout.ir.text.values import parse_pattern
from haulout.support.diagnostics import HauloutError
from haulout_generators.programs import random_program

HEAD = 'bir 1\nprogram "p" lnc=1\nmodule @m core=0 {\n func @f {\n  mloc %x sbuf size=64\n  block ^e:\n'
TAIL = "\n }\n}\n"

FULL = """\
bir 1
program "two-core sum" lnc=2 outputs=[out]
module @nc0 core=0 subgraph=0 {
  func @main {
    mloc %x dram.local size=4096 kind=input dtype=f32 shape=[4,256]
    mloc %part0 dram.shared size=4096
    mloc %part1 dram.shared size=4096 remote=["part 1",1] address=8192 bank=0 partition=0
    mloc %s sbuf size=256 align=32 parts=8 loc="k.py:3"
    mloc %c dram.local size=4 kind=const dtype=s32 shape=[] data="AQAAAA=="
    mloc %out dram.local size=4096 kind=output
    block ^entry -> ^loop:
      %w = dma_copy @dma0 (%x) -> (%part0) seq=0 loc="k.py:7"
      %b = core_barrier @all () -> () seq=1 name="cb_sg0_start" cores=[0,1] index=0 made_by=me
    block ^loop -> ^loop, ^exit trip=4 cond=c divergent=true:
      %"q 1" = foo @pool (%part0[16;-4x3,0x4;4], %s[?]) -> (%out[0:12]) seq=3 deps=[w] carried=["q 1"] \
step=[[0,loop,4,0]] signal=[[sem,1]] wait=[[sem,2]] mode=nan name="a b" scale=1.5 vs=[[1,2],[]]
    block ^exit:
      %sr = sendrecv @sync (%part0) -> (%out) seq=4 to=1 from=1 tag="t"
  }
}
module @nc1 core=1 {
  func @main {
    mloc %"part 1" dram.shared size=4096
    block ^entry:
      %b = core_barrier @all () -> () name="cb_sg0_start" cores=[0,1] index=0 made_by=me
      %sr = sendrecv @sync () -> () to=0 from=0 tag="t"
  }
}
"""


def test_every_construct_is_printed_as_it_was_written() -> None:
    assert print_bir(parse_bir(FULL)) == FULL


def test_hexadecimal_comments_and_free_indentation() -> None:
    text = HEAD.replace("size=64", "size=0x40   # bytes") + "\n\n %i = a @pe (%x[0x10:0x20]) -> () # why" + TAIL
    assert "%i = a @pe (%x[16:32]) -> ()" in print_bir(parse_bir(text))


def test_other_spellings_of_integers_are_read() -> None:
    text = HEAD.replace("size=64", "size=64 dtype=i32 shape=[16]") + "%i = a @pe () -> (%x)" + TAIL
    assert "dtype=s32" in print_bir(parse_bir(text))


@pytest.mark.parametrize("name", ["a b", "1", "true", "nan", "x\\y", 'say "hi"', "#", "ä", "a,b", "]"])
def test_any_name_round_trips(name: str) -> None:
    quoted = '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'
    body = f"%{quoted} = a @pe (%x) -> ()\n%b = a @act (%x) -> () deps=[{quoted}]"
    text = print_bir(parse_bir(HEAD + body + TAIL))
    assert f"%{quoted} = a" in text
    assert f"deps=[{quoted}]" in text
    assert print_bir(parse_bir(text)) == text


@pytest.mark.parametrize(
    ("body", "message", "line", "column"),
    [
        ("%i = a @pe (%y) -> ()", "no location %y", 7, 13),
        ("%i = a @gpu () -> ()", "expected an engine", 7, 8),
        ("%i = a @all () -> ()", "only core_barrier", 7, 0),
        ("%i = a @pe (%x[8:4]) -> ()", "at least one byte", 7, 16),
        ("%i = a @pe (%x[0;4x0;4]) -> ()", "count of at least 1", 7, 16),
        ("%i = a @pe (%x[]) -> ()", "expected LOW:HIGH", 7, 0),
        ("%i = a @pe (%x -> ()", "expected ','", 7, 16),
        ("%i = a @pe () -> () seq=-1", "from 0 to", 7, 21),
        ("%i = a @pe () -> () deps=[j]", "no instruction %j", 7, 0),
        ("%i = a @pe () -> () deps=3", "list of names", 7, 21),
        ("%i = a @pe () -> () seq=99999999999999999999", "more than 64 bits", 7, 25),
        ("%i = a @pe () -> () signal=[s,1]", "a list of [NAME,INT], found 's'", 7, 21),
        ("%i = a @pe () -> () wait=[[s,9223372036854775807]]", "integers from -4611686018427387904", 7, 21),
        ("%i = core_barrier @all () -> ()", "name=..., which is required", 7, 0),
        ("%i = a @pe () -> ()\n%i = a @pe () -> ()", "defined twice", 8, 1),
        ("%i = a @pe () -> () ~", "no token starts with", 7, 21),
        ("%i = a @pe () -> () seq=1 seq=2", "given twice", 7, 27),
        ("mloc %z sbuf size=4", "expected '}'", 7, 1),
    ],
)
def test_an_error_shows_where_and_what_was_expected(body: str, message: str, line: int, column: int) -> None:
    with pytest.raises(HauloutError) as caught:
        parse_bir(HEAD + body + TAIL, "t.bir")
    finding = caught.value.diagnostics[0]
    assert message in finding.message
    assert finding.code == "bad-input"
    assert finding.span is not None
    assert (finding.span.file, finding.span.line) == ("t.bir", line)
    if column:
        assert finding.span.column == column


@pytest.mark.parametrize("text", ["", "bir 2", "bir 1", 'bir 1\nprogram "p"', 'bir 1\nprogram "p" lnc=0', HEAD])
def test_what_is_cut_short_is_bad_input(text: str) -> None:
    with pytest.raises(HauloutError):
        parse_bir(text)


def test_deep_nesting_needs_no_deep_stack() -> None:
    deep = "[" * 5000 + "1" + "]" * 5000
    text = print_bir(parse_bir(HEAD + f"%i = a @pe () -> () k={deep}" + TAIL))
    assert print_bir(parse_bir(text)) == text


@given(st.randoms(use_true_random=False))
def test_random_programs_round_trip_through_text_and_store(rng: Random) -> None:
    text = print_bir(random_program(rng))
    assert print_bir(parse_bir(text)) == text


def test_store_round_trip_and_same_bytes(tmp_path: Path) -> None:
    program = parse_bir(FULL)
    save_program(program, tmp_path / "a.npz")
    save_program(program, tmp_path / "b.npz")
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()
    assert print_bir(load_program(tmp_path / "a.npz")) == FULL


@pytest.mark.parametrize("data", [b"", b"PK\x03\x04", b"not a zip", b"\x93NUMPY"])
def test_a_broken_store_is_bad_input(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "p.npz"
    path.write_bytes(data)
    with pytest.raises(HauloutError):
        load_program(path)


def test_pattern_text_is_its_canonical_form() -> None:
    line = Line("f", 1, "")
    pattern = parse_pattern(line, "0;64x2,16x4,4x4;4", (0, 1))
    assert str(pattern.canonical()) == "0:128"
    assert str(parse_pattern(line, " 8 ; -4x3 , 0x2 ; 0x4 ", (0, 1))) == "8;-4x3,0x2;4"
