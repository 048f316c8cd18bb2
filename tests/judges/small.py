"""Small programs with a verdict that anybody can see."""

from __future__ import annotations

from tests.checker.snippets import program

from haulout.ir.program import Program
from haulout_judges import Outcome

OWNER = "mloc %t dram.shared size=64 kind=inout\n"
VIEW = "mloc %t dram.shared size=64 remote=[t,0]\n"
WRITE, READ = "%w = iota @act () -> (%t)\n", "%r = copy @vector (%t) -> ()\n"
MEET = '%m = core_barrier @all () -> () name="m"\n'


def line(name: str, engine: str, extra: str = "") -> str:
    return f'%{name} = core_barrier @{engine} () -> () name="{name}" {extra}\n'


def crowd(barrier: str) -> list[str]:
    """Seven readers of one buffer, then a writer: more than a granule of the sanitizer remembers."""
    readers = [VIEW + READ + barrier for _ in range(7)]
    return [OWNER + barrier + WRITE, *readers]


LOOP = """
mloc %c dram.local size=4
block ^entry -> ^head:
block ^head -> ^body, ^behind {trip} cond=c:
%d = iota @pool () -> (%c)
block ^body -> ^head:
{body}
block ^behind:
{behind}
"""


def loop(locations: str, body: str, behind: str = "", trip: str = "") -> str:
    return locations + LOOP.format(body=body, behind=behind, trip=trip)


BRANCH = """
mloc %c dram.local size=4 kind=input
block ^entry -> ^then, ^else cond=c {mark}:
{before}
block ^then -> ^join:
{then}
block ^else -> ^join:
{other}
block ^join:
{behind}
"""


def branch(locations: str, then: str, other: str, behind: str = "", before: str = "", mark: str = "") -> str:
    return locations + BRANCH.format(then=then, other=other, behind=behind, before=before, mark=mark)


APART = "divergent=true"
ADD = "%a = add @dma0 (%t) -> (%t) dtypes=[s32,s32] atomic=[0,1]\n"
SIGNAL = "%w = iota @act () -> (%t) signal=[[s,1]]\n"
FAR = "%f = nop @act () -> () remote_signal=[[1,s,1]]\n"
WAIT = "%r = copy @vector (%t) -> () wait=[[s,{}]]\n"

CASES: dict[str, tuple[list[str], Outcome]] = {
    "nothing between": ([OWNER + WRITE, VIEW + READ], Outcome.RACE),
    "a barrier between": ([OWNER + WRITE + MEET, VIEW + MEET + READ], Outcome.CLEAN),
    "a barrier before both": ([OWNER + MEET + WRITE, VIEW + MEET + READ], Outcome.RACE),
    "two readers": ([OWNER + READ, VIEW + READ], Outcome.CLEAN),
    "two halves": (
        [OWNER + "%w = iota @act () -> (%t[0:32])", VIEW + "%w = iota @act () -> (%t[32:64])"],
        Outcome.CLEAN,
    ),
    "even and odd rows": (
        [OWNER + "%w = iota @act () -> (%t[0;16x4;8])", VIEW + "%w = iota @act () -> (%t[8;16x4;8])"],
        Outcome.CLEAN,
    ),
    "rows that meet": (
        [OWNER + "%w = iota @act () -> (%t[0;16x4;9])", VIEW + "%w = iota @act () -> (%t[8;16x4;8])"],
        Outcome.RACE,
    ),
    "two engines": ([OWNER + WRITE + READ], Outcome.RACE),
    "two engines with an edge": ([OWNER + WRITE + READ.replace("()", "() deps=[w]")], Outcome.CLEAN),
    "a signal that overtakes": (
        [OWNER + WRITE + line("m", "pool"), VIEW + line("m", "pool") + READ.rstrip() + " deps=[m]"],
        Outcome.RACE,
    ),
    "a signal that waits": (
        [OWNER + WRITE + line("m", "pool", "deps=[w]"), VIEW + line("m", "pool") + READ.rstrip() + " deps=[m]"],
        Outcome.CLEAN,
    ),
    "an exchange": (
        [
            OWNER + WRITE + '%s = sendrecv @act () -> () to=1 tag="x"',
            VIEW + '%s = sendrecv @vector () -> () from=0 tag="x"\n' + READ,
        ],
        Outcome.CLEAN,
    ),
    "an exchange the other way": (
        [
            OWNER + WRITE + '%s = sendrecv @act () -> () from=1 tag="x"',
            VIEW + '%s = sendrecv @vector () -> () to=0 tag="x"\n' + READ,
        ],
        # Both arrive before either goes on: the arrival of the receiver comes after its write.
        Outcome.CLEAN,
    ),
    "an exchange writes what its peer still reads": (
        [
            OWNER + '%s = sendrecv @act () -> (%t) from=1 tag="x"',
            VIEW + '%s = sendrecv @vector () -> () to=0 tag="x"\n' + READ,
        ],
        Outcome.RACE,
    ),
    "subsets that chain": (
        [
            OWNER + WRITE + line("p", "all", "cores=[0,1]"),
            line("p", "all", "cores=[0,1]") + line("q", "all", "cores=[1,2]"),
            VIEW + line("q", "all", "cores=[1,2]") + READ,
        ],
        Outcome.CLEAN,
    ),
    "a crowd of readers": (crowd(""), Outcome.RACE),
    "a crowd of readers that is waited for": (crowd(MEET), Outcome.CLEAN),
    "a missing barrier": ([OWNER + MEET, VIEW], Outcome.HANG),
    "another name": ([OWNER + MEET, VIEW + MEET.replace('"m"', '"n"')], Outcome.HANG),
    "no partner": ([OWNER + '%s = sendrecv @act () -> () to=1 tag="x"', VIEW], Outcome.HANG),
    "opposite orders": (
        [line("p", "act") + line("q", "pool", "deps=[p]"), line("q", "pool") + line("p", "act", "deps=[q]")],
        Outcome.HANG,
    ),
    "a loop that must run": (
        [loop(OWNER, WRITE + MEET, trip="trip=1"), loop(VIEW, MEET, READ, trip="trip=1")],
        Outcome.CLEAN,
    ),
    "a loop that may not run": ([OWNER + loop("", MEET), loop(VIEW, MEET, READ)], Outcome.CLEAN),
    "what stands before a loop that may not run": (
        [
            loop(OWNER, MEET).replace("block ^head", WRITE + "block ^head", 1),
            loop(VIEW, MEET, READ),
        ],
        Outcome.RACE,
    ),
    "the next iteration writes": ([loop(OWNER, WRITE + MEET), loop(VIEW, MEET + READ)], Outcome.RACE),
    "the next iteration waits": (
        [loop(OWNER, WRITE + MEET + line("n", "all")), loop(VIEW, MEET + READ + line("n", "all"))],
        Outcome.CLEAN,
    ),
    "a carried edge": ([loop(OWNER, WRITE.rstrip() + " carried=[r]\n" + READ.rstrip() + " deps=[w]")], Outcome.CLEAN),
    "no carried edge": ([loop(OWNER, WRITE + READ.rstrip() + " deps=[w]")], Outcome.RACE),
    "tiles that move apart": (
        [
            loop(
                OWNER,
                "%w = iota @act () -> (%t[16:32]) step=[[0,head,16,0]]\n"
                "%r = copy @vector (%t[0:16]) -> () carried=[w] step=[[0,head,16,0]]",
                trip="trip=3",
            )
        ],
        Outcome.CLEAN,
    ),
    "tiles that meet in the fourth iteration": (
        [
            loop(OWNER, "%w = iota @act () -> (%t[0:16]) step=[[0,head,16,4]]"),
            loop(VIEW, "%r = copy @act (%t[48:64]) -> ()"),
        ],
        Outcome.RACE,
    ),
    "tiles that come round": (
        [
            loop(
                OWNER,
                "%w = iota @act () -> (%t[0:16]) step=[[0,head,16,4]]\n"
                "%r = copy @vector (%t[0:16]) -> () deps=[w] step=[[0,head,16,4]]",
                trip="trip=8",
            )
        ],
        Outcome.RACE,
    ),
    "slots that begin elsewhere": (
        [
            loop(OWNER, "%w = iota @act () -> (%t[0:16]) step=[[0,head,16,4]]\n" + MEET),
            loop(VIEW, "%r = copy @act (%t[0:16]) -> () step=[[0,head,16,4,1]]\n" + MEET),
        ],
        Outcome.CLEAN,
    ),
    "slots that begin alike": (
        [
            loop(OWNER, "%w = iota @act () -> (%t[0:16]) step=[[0,head,16,4,3]]\n" + MEET),
            loop(VIEW, "%r = copy @act (%t[0:16]) -> () step=[[0,head,16,4,3]]\n" + MEET),
        ],
        Outcome.RACE,
    ),
    "atomic additions": ([OWNER + ADD, VIEW + ADD], Outcome.CLEAN),
    "atomic additions on two engines": (
        [OWNER + ADD + ADD.replace("%a", "%b").replace("dma0", "act")],
        Outcome.CLEAN,
    ),
    "atomic additions in loops": ([loop(OWNER, ADD), loop(VIEW, ADD)], Outcome.CLEAN),
    "atomic additions of parts": ([OWNER + ADD.replace("%t)", "%t[0:32])"), VIEW + ADD], Outcome.CLEAN),
    "an addition that is not atomic": ([OWNER + ADD, VIEW + ADD.replace("atomic=[0,1]", "")], Outcome.RACE),
    "another operation": ([OWNER + ADD, VIEW + ADD.replace("add", "maximum")], Outcome.RACE),
    "another element type": ([OWNER + ADD, VIEW + ADD.replace("s32", "s16")], Outcome.RACE),
    "an atomic addition and a write": ([OWNER + WRITE, VIEW + ADD], Outcome.RACE),
    "an atomic addition and a read": ([OWNER + ADD, VIEW + READ], Outcome.RACE),
    "a write hidden by an atomic of its queue": (
        [OWNER + WRITE.replace("act", "dma0") + ADD, VIEW + ADD],
        Outcome.RACE,
    ),
    "a maximum hidden by an addition of its queue": (
        [OWNER + ADD.replace("add", "maximum").replace("%a", "%b") + ADD, VIEW + ADD],
        Outcome.RACE,
    ),
    "a read behind one of two additions": (
        [OWNER + ADD + MEET + READ, VIEW + MEET + ADD],
        Outcome.RACE,
    ),
    "a read behind two additions": ([OWNER + ADD + MEET + READ, VIEW + ADD + MEET + READ], Outcome.CLEAN),
    "a write behind one of three additions": (
        [OWNER + ADD + MEET + WRITE, VIEW + ADD + MEET, VIEW + MEET + ADD],
        Outcome.RACE,
    ),
    "additions, a barrier, maxima": (
        [side + ADD + MEET + ADD.replace("add", "maximum").replace("%a", "%b") for side in (OWNER, VIEW)],
        Outcome.CLEAN,
    ),
    "values that are fetched in any order": (
        [
            side + "%a = fetch_and_op @dma0 (%t[0:4], %t[32:36]) -> (%t[0:4], %l) op=add dtypes=[s32,s32,s32,s32] "
            "atomic=[0,2]\nmloc %l dram.local size=4 kind=inout\n"
            for side in (OWNER, VIEW)
        ],
        Outcome.CLEAN,
    ),
    "a barrier in one arm": (
        [branch(OWNER, MEET, "", before=WRITE), branch(VIEW, MEET, "", READ)],
        Outcome.RACE,
    ),
    "a barrier in both arms": (
        [branch(OWNER, MEET, line("n", "all"), before=WRITE), branch(VIEW, MEET, line("n", "all"), READ)],
        Outcome.CLEAN,
    ),
    "write and read in different arms": ([branch(OWNER, WRITE, ""), branch(VIEW, "", READ)], Outcome.CLEAN),
    "write and read in different arms of each core's own choice": (
        [branch(OWNER, WRITE, "", mark=APART), branch(VIEW, "", READ, mark=APART)],
        Outcome.RACE,
    ),
    "a barrier in one arm of each core's own choice": (
        [branch(OWNER, MEET, "", mark=APART), branch(VIEW, MEET, "", mark=APART)],
        Outcome.HANG,
    ),
    "barriers of other names in the arms of each core's own choice": (
        [
            branch(OWNER, MEET, line("n", "all"), before=WRITE, mark=APART),
            branch(VIEW, MEET, line("n", "all"), READ, mark=APART),
        ],
        Outcome.CLEAN,
    ),
    "an edge from one arm only": (
        [
            branch(
                OWNER,
                "%n = nop @vector () -> () deps=[w]",
                "",
                "%r = copy @vector (%t) -> ()",
                before=WRITE,
            )
        ],
        Outcome.RACE,
    ),
    "an edge from both arms": (
        [
            branch(
                OWNER,
                "%n = nop @vector () -> () deps=[w]",
                "%o = nop @vector () -> () deps=[w]",
                "%r = copy @vector (%t) -> ()",
                before=WRITE,
            )
        ],
        Outcome.CLEAN,
    ),
    "a semaphore": ([OWNER + SIGNAL + WAIT.format(1)], Outcome.CLEAN),
    "a semaphore of another writer": (
        [OWNER + SIGNAL + "%o = nop @pool () -> () signal=[[s,1]]\n" + WAIT.format(1)],
        Outcome.RACE,
    ),
    "a semaphore of both writers": (
        [OWNER + SIGNAL + "%o = nop @pool () -> () signal=[[s,1]]\n" + WAIT.format(2)],
        Outcome.CLEAN,
    ),
    "a semaphore that never comes": ([OWNER + SIGNAL + WAIT.format(2)], Outcome.HANG),
    "a signal to another core": ([OWNER + WRITE + FAR, VIEW + WAIT.format(1)], Outcome.CLEAN),
    "a signal to another core that overtakes": (
        [OWNER + WRITE + FAR.replace("@act", "@pool"), VIEW + WAIT.format(1)],
        Outcome.RACE,
    ),
    "a wait that looks back": (
        [
            OWNER
            + SIGNAL
            + "%w2 = iota @act () -> (%t) signal=[[s,1]]\n"
            + WAIT.format(0).replace("wait", "wait_back")
        ],
        Outcome.CLEAN,
    ),
    "a wait that looks back too far": (
        [
            OWNER
            + SIGNAL
            + "%w2 = iota @act () -> (%t) signal=[[s,1]]\n"
            + WAIT.format(1).replace("wait", "wait_back")
        ],
        Outcome.RACE,
    ),
}


def case(name: str) -> tuple[Program, Outcome]:
    """A program and its verdict."""
    cores, outcome = CASES[name]
    return program(*cores), outcome
