"""Mutated programs: whatever parses and is simulated ends with a result or with diagnostics."""

import re

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.sim.sim_programs import source
from tests.tiers import examples

from haulout.ir.text import parse_bir
from haulout.sim import compare_schedules, simulate
from haulout.support.diagnostics import HauloutError


def core(me: int) -> str:
    """One core of a program with a bit of everything."""
    shapes = "shapes=[[4,2],[],[],[1,2]]"
    other, own, theirs = 1 - me, 1024 * me, 1024 * (1 - me)
    return f"""
        mloc %x dram.local size=32 kind=input dtype=f32 shape=[2,4] address={own}
        mloc %s{me} dram.shared size=32 dtype=f32 shape=[2,4] address={own + 64}
        mloc %v dram.shared size=32 remote=[s{other},{other}] dtype=f32 shape=[2,4] address={theirs + 64}
        mloc %i dram.local size=4 kind=const dtype=s32 shape=[] data="AQAAAA==" address={own + 128}
        mloc %z dram.local size=4 kind=const dtype=f32 shape=[] data="AAAAAA==" address={own + 192}
        mloc %t dram.local size=32 dtype=f32 shape=[4,2] address={own + 256}
        mloc %y dram.local size=8 kind=output dtype=f32 shape=[2] address={own + 320}
        mloc %p sbuf size=32 dtype=f32 shape=[2,4] address=0 partition=3 parts=2
        mloc %table dram.local size=4 kind=const dtype=u8 shape=[4] data="AQEAAA==" address={own + 384}
        mloc %c dram.local size=1 dtype=u8 shape=[] address={own + 448}
        mloc %f dram.local size=1 kind=const dtype=u8 shape=[] data="{("AA==", "AQ==")[me]}" address={own + 512}
        block ^entry -> ^next:
        %put = dma_copy @dma0 (%x) -> (%s{me}) seq=0 signal=[[put,1]] remote_signal=[[{other},full,2]]
        %load = dma_copy @dma1 (%x) -> (%p) seq=0 wait=[[put,1],[full,1]]
        %meet = core_barrier @all () -> () name=meet cores=[0,1] seq=1
        %turn = dma_copy @dma0 (%v[0;4x4,16x2;4]) -> (%t) seq=2
        block ^next -> ^loop:
        %go = sendrecv @dma2 (%p[0:16]) -> (%p[16:32]) to={other} from={other} tag=ring seq=3
        %row = dynamic_slice @pool (%t, %i, %i) -> (%p[0:8]) seq=4 deps=[turn,go] sizes=[1,2] {shapes}
        %sum = reduce @vector (%x, %z) -> (%y) dims=[1] op=add seq=5
        block ^loop -> ^body, ^end cond=c trip=2:
        %test = dma_copy @pool (%table[0:1]) -> (%c) seq=6 step=[[0,loop,1,0]]
        block ^body -> ^loop:
        %tile = dma_copy @dma1 (%x[0:8]) -> (%p[0:8]) seq=7 deps=[sum] carried=[tile] step=[[1,loop,8,2]]
        %late = core_barrier @vector () -> () name=late seq=8 wait_back=[[put,0]]
        block ^end -> ^then, ^else cond=f divergent=true:
        %last = nop @sync () -> () deps=[test] seq=9
        block ^then -> ^join:
        %one = core_barrier @all () -> () name=one seq=10
        block ^else -> ^join:
        %two = core_barrier @all () -> () name=two seq=11
        block ^join:
    """


BASE = source(core(0), core(1))
NUMBERS = ["-1", "0", "1", "3", "4", "7", "16", "64", "4096", "2147483648", "4611686018427387904"]
WORDS = [
    "x",
    "y",
    "t",
    "p",
    "v",
    "all",
    "dma0",
    "vector",
    "loop",
    "body",
    "else",
    "join",
    "put",
    "wait",
    "signal",
    "c",
    "nop",
    "add",
    "dma_copy",
    "memset",
    "dot",
    "f32",
    "s8",
    "true",
    "?",
]


@st.composite
def mutated(draw: st.DrawFn) -> str:
    lines = BASE.splitlines()
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(2, len(lines) - 1))
        match draw(st.sampled_from(["number"] * 4 + ["word"] * 3 + ["drop", "swap", "repeat"])):
            case "number" if found := list(re.finditer(r"\d+", lines[at])):
                lines[at] = _replaced(lines[at], draw(st.sampled_from(found)), draw(st.sampled_from(NUMBERS)))
            case "word" if found := list(re.finditer(r"[a-z_]+\d*", lines[at])):
                lines[at] = _replaced(lines[at], draw(st.sampled_from(found)), draw(st.sampled_from(WORDS)))
            case "drop":
                del lines[at]
            case "swap":
                other = draw(st.integers(2, len(lines) - 1))
                lines[at], lines[other] = lines[other], lines[at]
            case "repeat":
                lines.insert(at, lines[at])
    return "\n".join(lines)


def _replaced(line: str, match: re.Match[str], text: str) -> str:
    return line[: match.start()] + text + line[match.end() :]


def test_the_program_to_be_mutated_runs() -> None:
    result = simulate(parse_bir(BASE, "fuzz.bir"))
    assert not result.diagnostics
    assert result.statistics.barriers == 4


@settings(max_examples=examples(1500))
@given(mutated())
def test_nothing_but_diagnostics_comes_of_mutated_programs(text: str) -> None:
    try:
        program = parse_bir(text, "fuzz.bir")
        simulate(program, schedule="random:1", max_instructions=200)
        compare_schedules(program, max_instructions=200)
    except HauloutError as error:
        assert error.diagnostics
