"""Loops: what one iteration does to the next, to itself, and to the code around the loop."""

from __future__ import annotations

import pytest
from tests.checker.loop_snippets import BUFFER, FENCE, START, core, loop
from tests.checker.snippets import bir, choices, codes, edits, findings, program, sides, subject

from haulout.checker import check_program
from haulout.ir.text import parse_bir
from haulout.support.diagnostics import HauloutError, Severity

# -- one core --------------------------------------------------------------------------------------------------------


def test_the_next_iteration_waits_by_carried() -> None:
    text = core(BUFFER, START, loop("%w = iota @dma0 () -> (%a) {}", "%r = copy @act (%a) -> () deps=[w]"))
    assert codes(text.format("carried=[r]")) == []
    (wrong,) = findings(text.format(""))
    assert wrong.code == "missing-dependence"
    assert (sides(wrong), subject(wrong).distance) == (["r@0", "w@0"], 1)
    assert edits(program(text.format("")), wrong) == ["carried r -> w"]
    assert codes(text.format("").replace("trip=4", "trip=1")) == []
    assert codes(text.format("").replace("trip=4", "trip=0")) == []


def test_a_pair_is_told_once_within_an_iteration_and_once_from_one_to_the_next() -> None:
    text = core(BUFFER, START, loop("%w = iota @dma0 () -> (%a)", "%r = copy @act (%a) -> ()"))
    within, across = findings(text)
    assert [(sides(each), subject(each).distance) for each in (within, across)] == [
        (["w@0", "r@0"], 0),
        (["r@0", "w@0"], 1),
    ]
    assert [edits(program(text), each) for each in (within, across)] == [["deps w -> r"], ["carried r -> w"]]


def test_accesses_before_a_loop_and_in_it() -> None:
    text = core(BUFFER, START, "%w = iota @dma0 () -> (%a)", loop("%r = copy @act (%a) -> () {}"))
    assert codes(text.format("deps=[w]")) == []
    (wrong,) = findings(text.format(""))
    assert edits(program(text.format("")), wrong) == ["deps w -> r"]


def test_after_a_loop_instructions_wait_for_a_join_in_its_header() -> None:
    text = core(
        BUFFER,
        START,
        loop("%r = copy @act (%a) -> ()", header="%join = nop @sync () -> () {}"),
        "%w = iota @dma0 () -> (%a) {}",
    )
    assert codes(text.format("carried=[r]", "deps=[join]")) == []
    assert codes(text.format("", "deps=[join]")) == ["missing-dependence"]
    (wrong,) = findings(text.format("carried=[r]", ""))
    assert edits(program(text.format("carried=[r]", "")), wrong) == ["relay r -> w"]


def test_a_body_does_not_dominate_blocks_after_its_loop() -> None:
    text = core(BUFFER, START, loop("%r = copy @act (%a) -> ()"), "%w = iota @dma0 () -> (%a) deps=[r]")
    (wrong,) = findings(text)
    assert wrong.code == "bad-input"
    assert wrong.message == "it depends on %r, which is in a loop that may not run"


def test_order_that_takes_as_many_iterations_as_engines() -> None:
    text = core(
        BUFFER,
        START,
        "%w = iota @act () -> (%a)",
        loop(
            "%i = nop @act () -> ()",
            "%j = nop @vector () -> () carried=[i]",
            "%k = nop @pool () -> () carried=[j]",
            trip=3,
        ),
        "%r = copy @pool (%a) -> ()",
    )
    assert codes(text) == []
    assert codes(text.replace("trip=3", "trip=300")) == []
    assert codes(text.replace("trip=3", "trip=2")) == ["missing-dependence"]


def test_a_branch_lets_nothing_pass_before_its_condition_is_written() -> None:
    text = core(
        BUFFER,
        "mloc %c dram.local size=4",
        START,
        loop("%r = copy @pool (%a) -> ()", header="%w = iota @act () -> (%a)\n%p = iota @act () -> (%c)"),
        "%q = copy @vector (%a) -> ()",
    )
    with_cond = text.replace("cond=go", "cond=c")
    assert codes(with_cond) == ["missing-dependence"]  # of the next iteration's %w on %r
    assert codes(with_cond.replace("(%a)\n%p", "(%a) carried=[r]\n%p")) == []
    # %r and %q do not wait for %w.
    assert codes(text.replace("(%a)\n%p", "(%a) carried=[r]\n%p")) == ["missing-dependence"] * 2
    late = with_cond.replace("%w = iota @act () -> (%a)", "%w = iota @dma0 () -> (%a) carried=[r]")
    assert "missing-dependence" in codes(late)


def test_a_condition_is_read_by_the_branch() -> None:
    text = core("mloc %c dram.local size=4", START, loop(header="{}").replace("trip=4 cond=go", "cond=c"))
    assert codes(text.format("%p = iota @act () -> (%c)")) == []
    (never,) = findings(text.format(""))
    assert never.code == "uninitialized-read"
    assert sides(never) == ["^loop@0"]
    early = core("mloc %c dram.local size=4", START, "%p = iota @act () -> (%c)", text.split(START)[1].format(""))
    (wrong,) = findings(early)
    assert wrong.code == "missing-dependence"
    assert "^loop@0" in sides(wrong)


def test_dependences_across_two_loops_deep() -> None:
    inner = loop(
        "%w = iota @dma0 () -> (%a) {}", header="%j = nop @sync () -> () carried=[w]", name="in", behind=" -> ^loop"
    )
    text = core(
        BUFFER,
        START,
        "block ^loop -> ^first, ^done trip=3 cond=go:",
        "%h = nop @sync () -> ()",
        "block ^first -> ^in:",
        "%f = nop @act () -> ()",
        inner,
        "%r = copy @act (%a) -> () deps=[j]",
        "block ^done:",
    )
    assert codes(text.format("deps=[f]")) == []  # %f follows the %r of the iteration before on its engine
    (wrong,) = findings(text.format(""))
    assert subject(wrong).distance == 1
    assert codes(text.format("").replace("trip=3", "trip=1")) == []


# -- zero trips ------------------------------------------------------------------------------------------------------


def test_triton_124_the_loop_that_waits_does_not_run() -> None:
    text = core(
        BUFFER,
        START,
        "%w = iota @dma0 () -> (%a)",
        loop("%r = copy @act (%a) -> () deps=[w]", trip=None),
        "%v = memset @act () -> (%a) value=1",
    )
    (wrong,) = findings(text)
    assert wrong.code == "missing-dependence"
    assert subject(wrong).kind == "write after write"
    assert choices(wrong) == [("loop", (0,))]
    assert codes(text.replace("value=1", "value=1 deps=[w]")) == []
    assert codes(text.replace("^loop_done cond", "^loop_done trip=2 cond", 1)) == []
    assert codes(text.replace("^loop_done cond", "^loop_done trip=0 cond", 1)) == ["missing-dependence"]


def test_a_loop_between_two_others_orders_nothing_for_them() -> None:
    def text(trip: int | None) -> str:
        return core(
            BUFFER,
            START,
            loop("%w = iota @dma0 () -> (%a)", trip=None, behind=" -> ^mid"),
            loop(FENCE.format("b"), trip=trip, name="mid", behind=" -> ^last"),
            loop("%r = copy @act (%a) -> ()", trip=None, name="last"),
        )

    assert "missing-dependence" in codes(text(None))
    assert any(("mid", (0,)) in choices(each) for each in findings(text(None)))
    # The next write follows no read, and the loops around are told apart: only %w after %w, on one engine.
    assert codes(text(2)) == []


def test_an_inner_loop_may_run_in_one_iteration_and_not_in_the_next() -> None:
    def text(trip: int | None) -> str:
        fence = loop(FENCE.format("b"), trip=trip, name="fence", behind=" -> ^loop")
        work = loop("%w = iota @dma0 () -> (%a)", trip=None, name="work", behind=" -> ^fence")
        body = ["block ^first -> ^work:", "%r = copy @act (%a) -> ()", work, fence]
        return core(BUFFER, START, "block ^loop -> ^first, ^done trip=2 cond=go:", *body, "block ^done:")

    assert codes(text(1)) == ["missing-dependence"]  # %w after %r of one iteration
    found = findings(text(None))
    assert any((sides(each)[1], subject(each).distance) == ("r@0", 1) for each in found)


def test_values_that_only_a_loop_writes_are_possibly_missing() -> None:
    text = core(
        "mloc %a dram.local size=64",
        "mloc %o dram.local size=64 kind=output",
        START,
        loop("%w = iota @act () -> (%a)", "%v = copy @act (%a) -> (%o)", trip=None),
        "%r = copy @act (%a) -> ()",
    )
    found = findings(text)
    assert [(each.code, each.severity) for each in found] == [
        ("uninitialized-read", Severity.WARNING),
        ("output-not-written", Severity.WARNING),
    ]
    assert all(choices(each) == [("loop", (0,))] for each in found)
    assert codes(text.replace("^loop_done cond", "^loop_done trip=1 cond", 1)) == []


# -- cores -----------------------------------------------------------------------------------------------------------


def test_triton_9887_one_loop_writes_and_the_next_one_reads() -> None:
    def text(number: int, between: str) -> str:
        other = 1 - number
        return core(
            f"mloc %s{number} dram.shared size=64 kind=inout",
            f"mloc %s{other} dram.shared size=64 remote=[s{other},{other}]",
            START,
            loop(f"%w = iota @act () -> (%s{number})", behind=" -> ^next"),
            between,
            loop("%r = copy @act (%s0, %s1) -> ()", name="next"),
        )

    found = findings(text(0, ""), text(1, ""))
    assert {each.code for each in found} == {"cross-core-race"}
    assert all(subject(each).kind != "write after write" for each in found)
    assert codes(text(0, FENCE.format("b")), text(1, FENCE.format("b"))) == []


def buffers(phases: list[str], number: int) -> str:
    head = "kind=inout" if number == 0 else "remote=[s,0]"
    return core(f"mloc %s dram.shared size=256 {head}", START, loop(*phases))


def test_triton_9720_three_buffers_are_one_too_few() -> None:
    def ring(size: int) -> tuple[str, str]:
        sides: tuple[list[str], list[str]] = ([], [])
        for i in range(size):
            write, read = 64 * ((i + 3) % size), 64 * (i % size)
            sides[0].append(f"%w{i} = iota @dma0 () -> (%s[{write}:{write + 64}])")
            sides[1].append(f"%r{i} = copy @act (%s[{read}:{read + 64}]) -> ()")
            for side in sides:
                side.append(FENCE.format(f"b{i}"))
        return buffers(sides[0], 0), buffers(sides[1], 1)

    assert set(codes(*ring(3))) == {"cross-core-race"}
    assert codes(*ring(4)) == []


@pytest.mark.parametrize("trip", ["trip=50", ""])
def test_triton_9720_with_patterns_that_move(trip: str) -> None:
    def two_cores(write: int, modulus: int) -> list[str]:
        texts = (
            f"%w = iota @dma0 () -> (%s[{write}:{write + 64}]) step=[[0,loop,64,{modulus}]]",
            f"%r = copy @act (%s[0:64]) -> () step=[[0,loop,64,{modulus}]]",
        )
        return [
            buffers([text, FENCE.format("b")], number).replace("trip=4", trip) for number, text in enumerate(texts)
        ]

    assert codes(*two_cores(0, 3)) == ["cross-core-race"]
    assert codes(*two_cores(128, 2)) == []
    assert codes(*two_cores(64, 3)) == []  # they meet, but never between two barriers
    (race,) = findings(*(text.replace(FENCE.format("b"), "") for text in two_cores(64, 3)))
    assert subject(race).distance > 0


def test_tvm_2767_a_barrier_inside_but_none_at_the_back_edge() -> None:
    def text(number: int, last: str) -> str:
        mine = "%s[0:32]" if number == 0 else "%s[32:64]"
        head = "kind=inout" if number == 0 else "remote=[s,0]"
        body = (f"%w = iota @act () -> ({mine})", FENCE.format("b"), "%r = copy @act (%s[0:32]) -> ()", last)
        return core(f"mloc %s dram.shared size=64 {head}", START, loop(*body))

    (race,) = findings(text(0, ""), text(1, ""))
    assert race.code == "cross-core-race"
    assert (sides(race), subject(race).distance) == (["r@1", "w@0"], 1)
    assert edits(program(text(0, ""), text(1, "")), race) == ["barrier w | w"]
    assert codes(text(0, FENCE.format("c")), text(1, FENCE.format("c"))) == []
    assert codes(*(text(number, "").replace("trip=4", "trip=1") for number in (0, 1))) == []


def test_ptoas_564_the_next_tile_overwrites_what_is_still_read() -> None:
    text = core(
        "mloc %l sbuf size=64",
        START,
        loop("%d = dma_copy @dma0 () -> (%l) {}", "%r = copy @vector (%l) -> () deps=[d]"),
    )
    (wrong,) = findings(text.format(""))
    assert (subject(wrong).kind, subject(wrong).distance) == ("write after read", 1)
    assert codes(text.format("carried=[r]")) == []


def test_barriers_of_a_body_meet_anew_in_every_iteration() -> None:
    text = core(START, loop(FENCE.format("b"), "{}"))
    assert codes(text.format(""), text.format("")) == []
    assert codes(text.format(FENCE.format("c")), text.format("")) == ["barrier-mismatch"]
    numbered = text.format("").replace('name="b"', 'name="b" index=0') + "\n" + FENCE.format("d") + " index=1"
    assert codes(numbered, numbered) == []
    behind = [text.format("").replace(FENCE.format("b"), "") + "\n" + FENCE.format("b"), text.format("")]
    assert codes(*behind) == ["barrier-mismatch"]


def test_sendrecv_in_a_loop() -> None:
    def text(number: int) -> str:
        head = "kind=inout" if number == 0 else "remote=[s,0]"
        side = "to=1" if number == 0 else "from=0"
        work = "%w = iota @act () -> (%s)" if number == 0 else "%r = copy @act (%s) -> ()"
        lines = [work, f'%m = sendrecv @act () -> () {side} tag="t"']
        return core(f"mloc %s dram.shared size=64 {head}", START, loop(*(lines if number == 0 else lines[::-1])))

    (race,) = findings(text(0), text(1))  # the read may still run when the writer goes on
    assert (subject(race).kind, subject(race).distance) == ("write after read", 1)
    both = [text(number).replace("to=1", "to=1 from=1").replace("from=0 ", "to=0 from=0 ") for number in (0, 1)]
    twice = '%n = sendrecv @act () -> () to={0} from={0} tag="u"'
    closed = [
        each.replace("block ^loop_done", twice.format(1 - at) + "\nblock ^loop_done") for at, each in enumerate(both)
    ]
    assert codes(*(each.replace("^loop_body -> ^loop:", "^loop_body -> ^loop:") for each in closed)) == []
    assert codes(text(0), text(1).replace("trip=4", "trip=4").replace("from=0", "from=0").replace('"t"', '"u"')) != []


# -- patterns that move ----------------------------------------------------------------------------------------------


def test_triton_6639_the_next_tile_is_written_while_this_one_is_read() -> None:
    text = core(
        "mloc %a dram.local size=640",
        START,
        "%f = iota @dma0 () -> (%a[0:64])",
        loop(
            "%r = copy @act (%a[0:64]) -> () deps=[f] carried=[w] step=[[0,loop,64,0]]",
            "%w = iota @dma0 () -> (%a[64:128]) step=[[0,loop,64,0]]",
            trip=9,
        ),
    )
    assert codes(text) == []
    (wrong,) = findings(text.replace("carried=[w] ", ""))
    assert wrong.code == "missing-dependence"
    assert subject(wrong).distance == 1
    with pytest.raises(HauloutError) as failed:
        check_program(parse_bir(bir(text.replace("trip=9", "trip=10"))))
    assert [each.code for each in failed.value.diagnostics] == ["out-of-bounds"]


def test_a_conflict_at_a_distance() -> None:
    def text(distance: int, trip: int, wait: str = "") -> str:
        low = 64 * distance
        return core(
            "mloc %a dram.local size=6400 kind=inout",
            START,
            loop(
                f"%r = copy @act (%a[0:64]) -> () {wait} step=[[0,loop,64,0]]",
                f"%w = iota @dma0 () -> (%a[{low}:{low + 64}]) step=[[0,loop,64,0]]",
                trip=trip,
            ),
        )

    assert codes(text(9, 9)) == []
    assert codes(text(9, 10)) == ["missing-dependence"]
    assert codes(text(9, 10, "carried=[w]")) == []
    assert codes(text(90, 10)) == []


@pytest.mark.parametrize(
    ("trip", "wanted"),
    [("trip=8", []), ("trip=7", [Severity.ERROR]), ("", [Severity.WARNING, Severity.NOTE])],
)
def test_an_output_written_tile_by_tile(trip: str, wanted: list[Severity]) -> None:
    body = "%w = iota @dma0 () -> (%o[0:64]) step=[[0,loop,64,0]]"
    text = core("mloc %o dram.local size=512 kind=output", START, loop(body).replace("trip=4", trip))
    assert [each.severity for each in findings(text)] == wanted


def test_more_iterations_than_can_be_looked_at_are_possible() -> None:
    text = core(
        "mloc %a dram.local size=640000 kind=inout",
        START,
        loop(
            "%r = copy @act (%a[0:64]) -> () step=[[0,loop,64,0]]",
            "%w = iota @dma0 () -> (%a[0:64]) step=[[0,loop,64,0]]",
            trip=10000,
        ),
    )
    assert {(each.code, each.severity) for each in findings(text)} == {("missing-dependence", Severity.WARNING)}


@pytest.mark.parametrize("phases", [(0, 0), (0, 1), (2, 1), (2, 2)])
@pytest.mark.parametrize("trip", [3, 10, None])
def test_a_ring_that_starts_at_another_slot(phases: tuple[int, int], trip: int | None) -> None:
    """Between two barriers one core writes a slot and the other reads one."""

    def side(number: int, line: str) -> str:
        head = "kind=inout" if number == 0 else "remote=[s,0]"
        step = f"step=[[0,loop,64,3,{phases[number]}]]"
        return core(
            f"mloc %s dram.shared size=192 {head}", START, loop(f"{line} {step}", FENCE.format("b"), trip=trip)
        )

    writer, reader = side(0, "%w = iota @dma0 () -> (%s[0:64])"), side(1, "%r = copy @act (%s[0:64]) -> ()")
    assert codes(writer, reader) == (["cross-core-race"] if phases[0] == phases[1] else [])


def test_a_loop_that_only_a_step_bounds_is_noted() -> None:
    def text(step: str, trip: int | None = None) -> str:
        return core(
            "mloc %a dram.local size=256 kind=inout",
            START,
            loop(f"%w = iota @dma0 () -> (%a[0:64]) step=[{step}]", trip=trip),
        )

    (note,) = findings(text("[0,loop,64,0]"))
    assert (note.code, note.severity) == ("assumed-trip", Severity.NOTE)
    assert "no more than 4 times" in note.message
    assert codes(text("[0,loop,64,0]", 4)) == []
    assert codes(text("[0,loop,64,4,3]")) == []
    assert codes(text("[0,loop,64,0],[0,loop,-64,0]")) == []  # it stays where it is


def test_a_step_of_unknown_bytes_bounds_nothing() -> None:
    lines = "%w = iota @dma0 () -> (%a[?]) step=[[0,loop,64,0]]\n%r = copy @act (%a[?]) -> () deps=[w] carried=[w]"
    text = core("mloc %a dram.local size=256 kind=inout", START, loop(lines, trip=None))
    assert {(each.code, each.severity) for each in findings(text)} == {("missing-dependence", Severity.WARNING)}


def test_a_step_of_a_loop_that_is_not_around() -> None:
    text = core(BUFFER, START, loop(), "%w = iota @act () -> (%a[0:8]) step=[[0,loop,8,2]]")
    (wrong,) = findings(text)
    assert (wrong.code, wrong.message) == (
        "bad-input",
        "its step follows a block that is not the header of a loop around it",
    )


@pytest.mark.parametrize(("index", "clean"), [(2, True), (9, False)])
def test_an_index_is_a_place_in_the_text_not_in_the_run(index: int, clean: bool) -> None:
    """A run that skips the inner loop in its first turn reaches the smaller index after the larger one."""
    text = f"""bir 1
program "index" lnc=1
module @nc0 core=0 {{
  func @main {{
    mloc %p dram.local size=1 kind=input dtype=pred shape=[]
    block ^b0 -> ^b1:
    block ^b1 -> ^b2, ^b7 cond=p:
    block ^b2 -> ^b3:
    block ^b3 -> ^b4, ^b6 cond=p:
    block ^b4 -> ^b3:
      %f2 = core_barrier @all () -> () name="f2" index={index}
    block ^b6 -> ^b1:
      %f3 = core_barrier @all () -> () name="f3" index=3
    block ^b7:
  }}
}}
"""
    assert (check_program(parse_bir(text)) == []) == clean
