"""Access patterns of public bug reports, reduced, with their expected verdicts; the straight-line ones."""

from __future__ import annotations

import pytest
from tests.checker.snippets import codes, findings, told

FENCE = '%{0} = core_barrier @all () -> () name="{0}"'


def owner(*lines: str, extra: str = "") -> str:
    return "\n".join(["mloc %s dram.shared size=64 kind=inout", extra, *lines])


def viewer(*lines: str, extra: str = "") -> str:
    return "\n".join(["mloc %s dram.shared size=64 remote=[s,0]", extra, *lines])


def test_triton_11326_the_callee_writes_first() -> None:
    write = "%w = iota @act () -> (%s)", "%v = memset @act () -> (%s) value=1"
    found = findings(owner(write[0]), viewer(write[1]))
    assert {each.code for each in found} == {"cross-core-race"}
    assert "two writes" in told(found[0])
    fenced = owner(write[0], FENCE.format("b")), viewer(FENCE.format("b"), write[1])
    assert codes(*fenced) == []


def test_triton_10263_an_alias_of_what_is_still_read() -> None:
    left = """
        mloc %t dram.shared size=64 address=0
        mloc %u dram.local size=64 address=0
        %w = iota @act () -> (%t)
        {}
        %x = core_barrier @all () -> () name="x"
        %f = iota @act () -> (%u)
    """
    right = """
        mloc %t dram.shared size=64 remote=[t,0] address=0
        %y = core_barrier @all () -> () name="y"
        %r = copy @act (%t) -> ()
        {}
        {}
    """
    fence = '%x = core_barrier @all () -> () name="x"'
    y = FENCE.format("y")
    assert codes(left.format(y), right.format(fence, "")) == []
    late = left.format("%q = iota @act () -> ()").replace(fence, y)
    found = findings(late, right.format("", ""))
    assert "cross-core-race" in {each.code for each in found}
    assert "a read and a write" in told(found[0])


def test_tilelang_2556_a_mirrored_read() -> None:
    mirrored = owner("%w = iota @act () -> (%s[0:32])", "%r = copy @act (%s[32:64]) -> ()")
    other = viewer("%w = iota @act () -> (%s[32:64])", "%r = copy @act (%s[0:32]) -> ()")
    assert set(codes(mirrored, other)) == {"cross-core-race"}
    own = owner("%w = iota @act () -> (%s[0:32])", "%r = copy @act (%s[0:32]) -> ()")
    assert codes(own, viewer("%w = iota @act () -> (%s[32:64])", "%r = copy @act (%s[32:64]) -> ()")) == []


@pytest.mark.parametrize("report", ["tilelang 2699", "tvm 17439"])
def test_a_buffer_placed_on_one_that_is_still_read(report: str) -> None:
    core = """
        mloc %q dram.local size=64 address=0
        mloc %fill dram.local size=64 address={}
        %w = iota @act () -> (%q)
        %r = copy @vector (%q) -> () deps=[w]
        %f = memset @dma0 () -> (%fill) value=1 deps=[w]
    """
    found = findings(core.format(0))
    assert {each.code for each in found} == {"missing-dependence", "overlapping-storage"}
    assert any("write after read" in told(each) for each in found)
    assert codes(core.format(64)) == []


def test_tilelang_1026_a_barrier_on_even_cores_only() -> None:
    fence = FENCE.format("b")
    assert "barrier-mismatch" in codes(fence, "%a = iota @act () -> ()", fence)


def test_vulkan_7093_two_halves() -> None:
    assert codes(owner("%w = iota @act () -> (%s[0:24])"), viewer("%w = iota @act () -> (%s[24:64])")) == []


def test_vulkan_8291_one_of_three_barriers_matches() -> None:
    line = '%{} = core_barrier @{} () -> () name="{}" {}'
    left = owner(
        "%w = iota @act () -> (%s)",
        line.format("p", "pool", "p", ""),
        line.format("q", "dma0", "q", "deps=[w]"),
        line.format("v", "vector", "v", ""),
    )
    right = viewer(
        line.format("p", "pool", "p", ""),
        line.format("q", "dma0", "q", ""),
        line.format("v", "vector", "v", ""),
        "%r = copy @act (%s) -> () {}",
    )
    assert codes(left, right.format("deps=[q]")) == []
    assert codes(left, right.format("deps=[p]")) == ["cross-core-race"]
    assert codes(left, right.format("deps=[p,v]")) == ["cross-core-race"]


def test_ptoas_711_the_signal_overtakes_the_data() -> None:
    left = owner("%d = dma_copy @dma0 () -> (%s)", '%b = core_barrier @sync () -> () name="b" {}')
    right = viewer('%b = core_barrier @sync () -> () name="b"', "%r = copy @act (%s) -> () deps=[b]")
    (race,) = findings(left.format(""), right)
    assert race.code == "cross-core-race"
    assert "does not wait for @dma0: %d may still be in flight" in told(race)
    assert race.help[0] == "add deps=[d] to %b on core 0"
    assert codes(left.format("deps=[d]"), right) == []


def test_aws_neuron_1298_the_same_barriers_in_another_order() -> None:
    left, right = (f"{FENCE.format(a)}\n{FENCE.format(b)}" for a, b in (("X", "Y"), ("Y", "X")))
    (wrong,) = findings(left, right)
    assert wrong.code == "barrier-mismatch"
    assert "the order is inverted" in told(wrong)


def test_llama_cpp_27678_the_same_index_from_other_text() -> None:
    left = '%from_the_then_side = core_barrier @all () -> () name="b" loc="a.py:3"'
    right = '%from_the_else_side = core_barrier @all () -> () name="b" loc="a.py:5"'
    assert codes(left, right) == []


def test_aiter_4082_peers_still_read_the_staging_buffer() -> None:
    left = owner("%w = iota @act () -> (%s)", FENCE.format("b"), "{}", "%next = iota @act () -> (%s)")
    right = viewer(FENCE.format("b"), "%r = copy @act (%s) -> ()", "{}")
    (race,) = findings(left.format(""), right.format(""))
    assert "a read and a write" in told(race)
    fence = FENCE.format("after_reads")
    assert codes(left.format(fence), right.format(fence)) == []


def neighbours(cores: int, closed: bool) -> list[str]:
    """Each core reads its right neighbour's buffer, meets its neighbours, then changes its own in place."""
    links = [(core, core + 1) for core in range(cores - 1)]
    if closed:
        links.append((0, cores - 1))
    texts = []
    for core in range(cores):
        right = (core + 1) % cores
        lines = [
            "mloc %mine dram.shared size=64 kind=inout",
            f"mloc %other dram.shared size=64 remote=[mine,{right}]",
        ]
        lines.append("%r = copy @act (%other) -> ()")
        for first, second in links:
            if core in (first, second):
                lines.append(f'%l{first}_{second} = core_barrier @all () -> () name="l" cores=[{first},{second}]')
        lines.append("%w = iota @act () -> (%mine)")
        texts.append("\n".join(lines))
    return texts


def test_ark_253_right_with_two_cores_and_wrong_with_three() -> None:
    assert codes(*neighbours(2, closed=False)) == []
    assert codes(*neighbours(3, closed=False)) == ["cross-core-race"]
    assert codes(*neighbours(3, closed=True)) == []


def test_xla_19026_two_collectives_met_in_opposite_orders() -> None:
    first = '%p = core_barrier @vector () -> () name="p" cores=[0,1,2] {}'
    second = '%q = core_barrier @pool () -> () name="q" cores=[0,1,3] {}'
    up = f"{first.format('')}\n{second.format('deps=[p]')}"
    down = f"{second.format('')}\n{first.format('deps=[q]')}"
    (wrong,) = findings(up, down, first.format(""), second.format(""))
    assert wrong.code == "deadlock"
    assert codes(up, up, first.format(""), second.format("")) == []
