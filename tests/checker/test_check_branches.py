"""Branches: what an arm does to the other one, to the code around it, and to itself in the next iteration."""

from __future__ import annotations

import pytest
from tests.checker.loop_snippets import BUFFER, FENCE, FORK, START, branch, core
from tests.checker.snippets import choices, codes, edits, findings, program, sides, subject

from haulout.support.diagnostics import Severity

SHARED = ("mloc %s dram.shared size=64 kind=inout", "mloc %s dram.shared size=64 remote=[s,0]")


# -- one core --------------------------------------------------------------------------------------------------------


def test_accesses_before_in_and_after_a_branch() -> None:
    text = core(
        BUFFER,
        FORK,
        "%w = iota @dma0 () -> (%a)",
        branch("%t = copy @act (%a) -> () {}", "%e = copy @vector (%a) -> () {}"),
        "%r = copy @pool (%a) -> () {}",
    )
    assert codes(text.format(*["deps=[w]"] * 3)) == []
    for missing in range(3):
        waits = ["deps=[w]"] * 3
        waits[missing] = ""
        (wrong,) = findings(text.format(*waits))
        assert wrong.code == "missing-dependence"
        assert edits(program(text.format(*waits)), wrong) == [f"deps w -> {'ter'[missing]}"]
        assert choices(wrong) == []


def test_arms_never_meet_each_other() -> None:
    text = core(BUFFER, FORK, branch("%t = iota @act () -> (%a)", "%e = iota @dma0 () -> (%a)"))
    assert codes(text) == []


def test_an_arm_and_later_blocks_are_ordered_through_a_join() -> None:
    text = core(
        BUFFER,
        FORK,
        branch("%t = iota @dma0 () -> (%a)\n{}", name="fork"),
        "{}",
        "%r = copy @act (%a) -> () {}",
    )
    joined = ["%gather = nop @sync () -> () deps=[t]", "%join = nop @sync () -> ()", "deps=[join]"]
    assert codes(text.format(*joined)) == []
    assert codes(text.format("%gather = nop @sync () -> ()", *joined[1:])) == ["missing-dependence"]
    (wrong,) = findings(text.format("", "", ""))
    assert wrong.code == "missing-dependence"
    assert edits(program(text.format("", "", "")), wrong) == ["relay t -> r"]


def test_an_arm_does_not_dominate_later_blocks() -> None:
    text = core(BUFFER, FORK, branch("%t = iota @dma0 () -> (%a)"), "%r = copy @act (%a) -> () deps=[t]")
    (wrong,) = findings(text)
    assert wrong.code == "bad-input"
    assert wrong.message == "it depends on %t, which is in an arm of the branch at ^fork that may not be taken"
    other = core(BUFFER, FORK, branch("%t = iota @dma0 () -> (%a)", "%r = copy @act (%a) -> () deps=[t]"))
    assert codes(other) == ["bad-input"]


def test_only_one_arm_waits() -> None:
    text = core(
        BUFFER,
        FORK,
        "%w = iota @dma0 () -> (%a)",
        branch("%t = nop @act () -> () {}", "%e = nop @act () -> () {}"),
        "%r = copy @act (%a) -> ()",
    )
    assert codes(text.format("deps=[w]", "deps=[w]")) == []
    (second,) = findings(text.format("deps=[w]", ""))
    assert choices(second) == [("fork", (1,))]
    (first,) = findings(text.format("", "deps=[w]"))
    assert choices(first) == [("fork", (0,))]
    (both,) = findings(text.format("", ""))
    assert choices(both) == []


def test_a_branch_reads_its_condition_and_holds_back_what_follows() -> None:
    text = core(
        BUFFER,
        "mloc %c dram.local size=4",
        FORK,
        branch("%t = copy @vector (%a) -> ()").replace(
            "cond=go:", "cond=c:\n%w = iota @act () -> (%a)\n%p = iota @act () -> (%c)"
        ),
        "%r = copy @pool (%a) -> ()",
    )
    assert codes(text) == []  # everything after it waits for %p, which comes after %w on its engine
    # Two are missing: in the arm and after the branch.
    assert codes(text.replace("%w = iota @act", "%w = iota @dma0")) == ["missing-dependence"] * 2
    (never,) = findings(text.replace("%p = iota @act () -> (%c)", "%p = nop @act () -> ()").replace("(%a)", "()"))
    assert never.code == "uninitialized-read"
    assert sides(never) == ["^fork@0"]


# -- loops around ----------------------------------------------------------------------------------------------------


def turns(then: str, other: str = "", behind: str = "", trip: int = 4) -> str:
    """A loop whose body is a branch."""
    inner = branch(then, other, behind=" -> ^loop")
    return core(
        BUFFER,
        START,
        f"block ^loop -> ^fork, ^done trip={trip} cond=go:",
        "%join = nop @sync () -> () carried=[gather]",
        inner,
        behind or "%gather = nop @sync () -> ()",
        "block ^done:",
    )


def test_arms_of_two_iterations_meet() -> None:
    text = turns("%t = iota @act () -> (%a) {}", "%e = iota @dma0 () -> (%a) {}")
    found = findings(text.format("", ""))
    assert {each.code for each in found} == {"missing-dependence"}
    assert {subject(each).distance for each in found} == {1}
    assert codes(text.format("", "").replace("trip=4", "trip=1")) == []
    both = turns(
        "%t = iota @act () -> (%a) deps=[join]\n%x = nop @sync () -> () deps=[t]",
        "%e = iota @dma0 () -> (%a) deps=[join]\n%y = nop @sync () -> () deps=[e]",
    )
    assert codes(both) == []
    assert codes(both.replace("%y = nop @sync () -> () deps=[e]", "")) == ["missing-dependence"]


def test_a_carried_that_finds_nothing_in_an_iteration_between() -> None:
    """The wait names what the last iteration did; two iterations ago it was the other arm's turn."""
    text = turns("%t = iota @act () -> (%a)\n%w = iota @dma0 () -> (%a) deps=[t]", "%n = nop @vector () -> ()")
    waiting = text.replace("%t = iota @act () -> (%a)", "%t = iota @act () -> (%a) carried=[w]")
    (wrong,) = findings(waiting)
    assert wrong.code == "missing-dependence"
    assert (sides(wrong), subject(wrong).distance) == (["w@0", "t@0"], 2)
    assert codes(waiting.replace("trip=4", "trip=2")) == []
    assert codes(waiting.replace("%n = nop @vector () -> ()", "%n = nop @act () -> () carried=[w]")) == []


def test_waits_that_each_iteration_may_lose_are_not_called_proved() -> None:
    """To lose three waits it takes more iterations than are looked at."""
    arms = {
        "then": "%t = iota @act () -> (%a) carried=[t,x,y]\n%x = nop @vector () -> () deps=[t]",
        "other": "%y = nop @dma0 () -> () carried=[t]",
    }
    text = turns(arms["then"], arms["other"], trip=9).replace("%t = iota @act", "%t = iota @pool")
    assert codes(text) == []  # every two of %t are on one engine
    split = turns(
        "%t = iota @act () -> (%a) carried=[x,y]\n%x = nop @vector () -> () deps=[t]",
        "%y = nop @dma0 () -> () carried=[x]\n%u = iota @pool () -> (%a) carried=[x,y]",
        trip=9,
    )
    assert codes(split) != []


def test_a_branch_in_a_loop_in_a_branch() -> None:
    inner = branch("%w = iota @dma0 () -> (%a) {}", name="in", behind=" -> ^loop")
    text = core(
        BUFFER,
        FORK,
        "block ^fork -> ^first, ^end cond=go:",
        "%f = copy @act (%a) -> ()",
        "block ^first -> ^loop:",
        "block ^loop -> ^in, ^after trip=3 cond=go:",
        inner,
        "%x = nop @sync () -> ()",
        "block ^after -> ^end:",
        "block ^end:",
        "%l = copy @dma0 (%a) -> ()",
    )
    assert codes(text.format("deps=[f]")) == []
    (wrong,) = findings(text.format(""))
    assert (sides(wrong), subject(wrong).distance) == (["f@0", "w@0"], 0)


# -- values ----------------------------------------------------------------------------------------------------------


def test_a_value_that_one_arm_alone_writes() -> None:
    text = core(
        "mloc %a dram.local size=64",
        "mloc %o dram.local size=64 kind=output",
        FORK,
        branch("%t = iota @act () -> (%a)\n%u = iota @act () -> (%o)", "{}"),
        "%r = copy @act (%a) -> ()",
    )
    assert codes(text.format("%v = iota @act () -> (%a)\n%x = iota @act () -> (%o)")) == []
    found = findings(text.format(""))
    assert [(each.code, each.severity) for each in found] == [
        ("uninitialized-read", Severity.WARNING),
        ("output-not-written", Severity.WARNING),
    ]
    assert all(choices(each) == [("fork", (1,))] for each in found)
    (half,) = findings(text.format("%v = iota @act () -> (%a[0:32])\n%x = iota @act () -> (%o)"))
    assert (half.code, half.severity) == ("uninitialized-read", Severity.WARNING)


def test_a_value_without_a_writer_is_missing_on_every_path() -> None:
    text = core("mloc %a dram.local size=64", FORK, branch("%t = nop @act () -> ()"), "%r = copy @act (%a) -> ()")
    (wrong,) = findings(text)
    assert (wrong.code, wrong.severity) == ("uninitialized-read", Severity.ERROR)


@pytest.mark.parametrize("branches", [2, 5, 12])
def test_values_across_fences_need_every_combination_that_leaves_them_unwritten(branches: int) -> None:
    """All segments take one arm at once; only the path that writes in none of them shows the read."""
    parts = [core("mloc %a dram.local size=64", "block ^entry -> ^f0:")]
    for number in range(branches):
        last = number == branches - 1
        parts.append(
            branch(f"%w{number} = iota @act () -> (%a)", name=f"f{number}", behind="" if last else f" -> ^m{number}")
        )
        parts += [] if last else [f"block ^m{number} -> ^f{number + 1}:", FENCE.format(f"b{number}")]
    text = "\n".join(parts) + "\n%r = copy @act (%a) -> ()"
    (wrong,) = findings(text)
    assert (wrong.code, wrong.severity) == ("uninitialized-read", Severity.WARNING)
    assert codes(text.replace("block ^entry -> ^f0:", "block ^entry -> ^f0:\n%i = iota @act () -> (%a)")) == []
    assert codes(text.replace("%w0", "%w0 = nop @act () -> ()\n%v0")) == ["uninitialized-read"]


def test_storage_that_an_arm_takes_from_a_value_still_read() -> None:
    text = core(
        "mloc %a dram.local size=64 address=0",
        "mloc %b dram.local size=64 address=0",
        FORK,
        "%w = iota @act () -> (%a)",
        branch("%t = iota @act () -> (%b)\n%u = copy @act (%b) -> ()\n{}", "%e = copy @act (%a) -> ()"),
        "%r = copy @act (%a) -> ()",
    )
    (wrong,) = findings(text.format(""))
    assert wrong.code == "overlapping-storage"
    assert codes(text.format("%v = iota @act () -> (%a)")) == []


# -- cores -----------------------------------------------------------------------------------------------------------


def test_a_fence_in_both_arms_separates_and_one_in_one_arm_does_not() -> None:
    first, second = "%w = iota @act () -> (%s)", "%r = copy @act (%s) -> ()"

    def texts(then: str, other: str | None) -> list[str]:
        return [
            core(SHARED[0], FORK, first, branch(then, other)),
            core(SHARED[1], FORK, branch(then, other), second),
        ]

    assert codes(*texts(FENCE.format("b"), FENCE.format("b").replace("%b", "%c"))) == []
    (race,) = findings(*texts(FENCE.format("b"), None))
    assert race.code == "cross-core-race"
    assert choices(race) == [("fork", (1, 1))]


def test_a_divergent_branch_may_meet_by_index() -> None:
    first, second = "%w = iota @act () -> (%s)", "%r = copy @act (%s) -> ()"

    def texts(then: str, other: str | None) -> list[str]:
        return [
            core(SHARED[0], FORK, first, branch(then, other, attrs="divergent=true")),
            core(SHARED[1], FORK, branch(then, other, attrs="divergent=true"), second),
        ]

    one, other = FENCE.format("one"), FENCE.format("other")
    assert codes(*texts(one, other)) == []
    assert codes(*texts(one, other + " cores=[0,1]")) == []
    lonely, race = sorted(findings(*texts(one, None)), key=lambda finding: finding.code)
    assert (lonely.code, race.code) == (
        "barrier-mismatch",
        "cross-core-race",
    )  # the latter when no core takes the arm
    assert choices(lonely) == [("fork", (0, 1))]
    assert set(codes(*texts(one, f"{other}\n{FENCE.format('third')}"))) == {"barrier-mismatch"}
    assert "barrier-mismatch" in codes(*texts(one, other.replace("@all", "@pool")))


def test_names_must_agree_within_one_arm() -> None:
    one, other = FENCE.format("one"), FENCE.format("other")
    texts = [
        core(SHARED[number], FORK, branch(text, other, attrs="divergent=true"))
        for number, text in enumerate((one, FENCE.format("renamed")))
    ]
    (wrong,) = findings(*texts)
    assert wrong.code == "barrier-mismatch"


def test_barriers_that_make_up_for_each_other_on_one_way_only() -> None:
    """Each core meets one barrier of two when the first branch is taken by one and the second by the other."""
    fence = '%{0} = core_barrier @all () -> () name="b"'
    text = core(
        "block ^entry -> ^f:",
        branch(fence.format("x"), name="f", attrs="divergent=true", behind=" -> ^m"),
        "block ^m -> ^g:",
        fence.format("y"),
        branch(fence.format("z"), name="g", attrs="divergent=true"),
    )
    assert "barrier-mismatch" in codes(text, text)


def test_divergent_arms_on_different_cores_meet() -> None:
    def texts(then: str, other: str, attrs: str = "divergent=true") -> list[str]:
        return [core(location, FORK, branch(then, other, attrs=attrs)) for location in SHARED]

    write, read = "%w = iota @act () -> (%s)", "%r = copy @act (%s) -> ()"
    found = findings(*texts(write, read))
    assert {each.code for each in found} == {"cross-core-race"}
    assert codes(*texts(read, read.replace("%r", "%q"))) == []
    # Where all cores take one arm the writers meet, and a reader never meets a writer.
    assert all(subject(each).kind == "write after write" for each in findings(*texts(write, read, "")))


def test_a_sendrecv_must_pair_up_on_every_path() -> None:
    def texts(attrs: str) -> list[str]:
        lines = ['%m = sendrecv @act () -> () to=1 tag="t"', '%m = sendrecv @act () -> () from=0 tag="t"']
        return [core(FORK, branch(line, attrs=attrs)) for line in lines]

    assert codes(*texts("")) == []
    found = findings(*texts("divergent=true"))
    assert {each.code for each in found} == {"deadlock"}
    assert any(choices(each) == [("fork", (0, 1))] for each in found)


# -- many paths ------------------------------------------------------------------------------------------------------


def many(branches: int, then: str, other: str | None, *behind: str) -> str:
    """Branches one after the other, with nothing between; `{0}` in an arm is the number."""
    parts = [core(BUFFER, "mloc %b dram.local size=64 kind=inout", "block ^entry -> ^f0:")]
    parts.append("%w = iota @dma0 () -> (%a)")
    for number in range(branches):
        texts = [each.format(number) if each is not None else None for each in (then, other)]
        last = number == branches - 1
        parts.append(branch(str(texts[0]), texts[1], name=f"f{number}", behind="" if last else f" -> ^f{number + 1}"))
    return "\n".join([*parts, *behind])


def test_many_branches_are_proved_when_nothing_leans_on_their_arms() -> None:
    text = many(
        20, "%t{0} = copy @act (%b) -> ()", "%e{0} = copy @vector (%b) -> ()", "%r = copy @pool (%a) -> () {}"
    )
    assert codes(text.replace("{}", "deps=[w]")) == []
    assert codes(text.replace("{}", "")) == ["missing-dependence"]


def test_many_branches_with_one_arm_are_looked_at_in_pairs() -> None:
    text = many(9, "%t{0} = iota @act () -> (%b)", None, "%r = copy @pool (%a) -> () deps=[w]")
    assert codes(text) == []
    bad = text.replace("%t7 = iota @act", "%t7 = iota @dma0")
    found = findings(bad)
    assert {each.code for each in found} == {"missing-dependence"}


def test_every_arm_of_many_runs_in_some_run() -> None:
    text = many(9, "%t{0} = copy @act (%b) -> ()", None)
    assert codes(text) == []
    lost = text.replace("%t5 = copy @act (%b)", "%t5 = copy @act (%u)").replace(
        "block ^entry", "mloc %u dram.local size=8\nblock ^entry"
    )
    assert codes(lost) == ["uninitialized-read"]


def test_what_leans_on_both_arms_of_many_branches_is_proved() -> None:
    arm = "%t{0} = nop @act () -> () deps=[w]", "%e{0} = nop @act () -> () deps=[w]"
    text = many(20, *arm, "%r = copy @act (%a) -> ()")
    assert codes(text) == []
    assert codes(text.replace("deps=[w]", "")) == ["missing-dependence"]
    once = text.replace("%e7 = nop @act () -> () deps=[w]", "%e7 = nop @act () -> ()")
    assert codes(once) == []


def test_fences_between_keep_many_branches_provable() -> None:
    arm = "%t{0} = nop @act () -> () deps=[w]", "%e{0} = nop @act () -> () deps=[w]"
    text = many(20, *arm, "%r = copy @act (%a) -> ()")
    fenced = text.replace("block ^f1_join -> ^f2:", "block ^f1_join -> ^f2:\n" + FENCE.format("x"))
    assert codes(fenced) == []
