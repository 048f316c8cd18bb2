"""Examples as programs for `haulout check`, `compile` and `simulate`."""

from __future__ import annotations

from textwrap import indent

from haulout.report.examples.example import Example

CHECK = "haulout check example.bir"


def program(*cores: str) -> str:
    """The text of a program; each core's lines, locations first, in one block unless they say so."""
    parts = [f'bir 1\nprogram "example" lnc={len(cores)}\n']
    for core, text in enumerate(cores):
        lines = [line.strip() for line in text.strip().splitlines()]
        locations = [line for line in lines if line.startswith("mloc")]
        body = [line for line in lines if not line.startswith("mloc")]
        if not (body and body[0].startswith("block")):
            body.insert(0, "block ^entry:")
        inside = [line if line.startswith("block") else f"  {line}" for line in body]
        function = "func @main {\n" + indent("\n".join([*locations, *inside]), "  ") + "\n}"
        parts.append(f"module @nc{core} core={core} {{\n" + indent(function, "  ") + "\n}\n")
    return "".join(parts)


def checked(finding: str, *cores: str) -> Example:
    """What `haulout check` says about a program."""
    return Example({"example.bir": program(*cores)}, CHECK, finding)


OWNER = "mloc %t dram.shared size=64 kind=inout"
VIEW = "mloc %t dram.shared size=64 remote=[t,0]"
BARRIER = '%{0} = core_barrier @all () -> () name="{0}"'.format

_CLAIM = "mloc %y dram.local size=4 kind=output same=[[0,1]]"
_IDS = [f'mloc %id dram.local size=4 kind=const data="{each}"\n{_CLAIM}' for each in ("AAAAAA==", "AQAAAA==")]

_NESTED = """
mloc %c dram.local size=1 kind=input
block ^entry -> ^fork:
block ^fork -> ^i, ^join cond=c divergent=true:
block ^i -> ^j, ^end cond=c:
block ^j -> ^k, ^next_i cond=c:
block ^k -> ^meet, ^next_j cond=c:
block ^meet -> ^k:
%b = core_barrier @pool () -> () name="own" cores=[{}]
block ^next_j -> ^j:
block ^next_i -> ^i:
block ^end -> ^join:
block ^join:
"""
"""Loops in an arm that each core chooses for itself, around a barrier."""

PROGRAMS: dict[str, Example] = {
    "bad-input": checked(
        "error[bad-input]: no location %u in this function",
        "mloc %t dram.local size=64\n%w = copy @vector () -> (%u)",
    ),
    "cross-core-race": checked(
        "error[cross-core-race]: %r on core 1 reads %t and %w on core 0 writes it, in either order",
        f"{OWNER}\n%w = iota @pool () -> (%t)",
        f"{VIEW}\n%r = copy @vector (%t) -> ()",
    ),
    "possible-race": checked(
        "warning[possible-race]: %r on core 1 may touch %t[?] and %w on core 0 may touch it, in either order",
        f"{OWNER}\n%w = iota @pool () -> (%t[0:32])",
        f"{VIEW}\n%r = copy @vector (%t[?]) -> ()",
    ),
    "missing-dependence": checked(
        "error[missing-dependence]: %r on core 0 reads %t without waiting for %w on core 0, which writes it",
        "mloc %t dram.local size=64\n%w = dma_copy @dma0 () -> (%t)\n%r = copy @vector (%t) -> ()",
    ),
    "barrier-mismatch": checked(
        "error[barrier-mismatch]: core 0 waits at barrier second, barrier 1 on @all; core 1 has only 1 there",
        f"{BARRIER('first')}\n{BARRIER('second')}",
        BARRIER("first"),
    ),
    "deadlock": checked(
        "error[deadlock]: cores [0, 1] deadlock: 2 waits form a cycle",
        '%a = core_barrier @pool () -> () name="a"\n%b = core_barrier @sync () -> () name="b" deps=[a]',
        '%b = core_barrier @sync () -> () name="b"\n%a = core_barrier @pool () -> () name="a" deps=[b]',
    ),
    "uninitialized-read": checked(
        "error[uninitialized-read]: %r on core 0 reads bytes 32:64 of %t, which nothing has written",
        "mloc %t dram.local size=64\n%w = iota @pool () -> (%t[0:32])\n%r = copy @vector (%t) -> () deps=[w]",
    ),
    "output-not-written": checked(
        "error[output-not-written]: output %t of core 0: byte 32 of 64 is never written",
        "mloc %t dram.local size=64 kind=output\n%w = iota @pool () -> (%t[0:32])",
    ),
    "out-of-bounds": checked(
        "error[out-of-bounds]: [32:96] touches bytes 32:96 of a location of 64 bytes",
        "mloc %t dram.local size=64\n%w = iota @pool () -> (%t[32:96])",
    ),
    "overlapping-storage": checked(
        "error[overlapping-storage]: %t and %u of core 0 share bytes 0x20:0x40 while both are live",
        "mloc %t dram.local size=64 kind=inout address=0\nmloc %u dram.local size=64 kind=inout align=32 address=32",
    ),
    "order-dependent-result": checked(
        "note[order-dependent-result]: %f on core 0 and %f on core 1 update %t in either order, and the fetched "
        "value depends on it",
        *(
            f"{side} dtype=s32 shape=[16]\nmloc %x dram.local size=64 kind=input dtype=s32 shape=[16]\n"
            "mloc %o dram.local size=64 kind=output dtype=s32 shape=[16]\n"
            "%f = fetch_and_op @dma0 (%t, %x) -> (%t, %o) op=add atomic=[0,2]"
            for side in (OWNER, VIEW)
        ),
    ),
    "assumed-trip": checked(
        "note[assumed-trip]: the loop at ^head is taken to run no more than 4 times: "
        "nothing is proved of longer runs",
        """
        mloc %t dram.local size=64 kind=inout
        mloc %c dram.local size=1 kind=input
        block ^head -> ^body, ^behind cond=c:
        block ^body -> ^head:
        %w = iota @pool () -> (%t[0:16]) step=[[0,head,16,0]]
        block ^behind:
        """,
    ),
    "unproved-paths": checked(
        "warning[unproved-paths]: checked 32 paths through ^fork, ^i, ^j, ^k: the others are not proved",
        *(_NESTED.format(core) for core in (0, 1)),
    ),
    "unresolved-remote": checked(
        "error[unresolved-remote]: its target %u of core 0 does not exist",
        "mloc %t dram.shared size=64",
        "mloc %v dram.shared size=64 remote=[u,0]",
    ),
    "view-mismatch": checked(
        "error[view-mismatch]: view %t of core 1 has address=0x40, but its owner %t of core 0 has address=0x0",
        "mloc %t dram.shared size=64 address=0",
        "mloc %t dram.shared size=64 remote=[t,0] address=64",
    ),
    "over-capacity": Example(
        {"example.csv": "id,lower,upper,size\na,0,2,48\nb,1,3,48\n"},
        "haulout plan example.csv --capacity 64",
        "error[over-capacity]: the buffers cannot fit: the best placement needs 96 bytes, the capacity is 64",
    ),
    "unfaithful-order": checked(
        "error[unfaithful-order]: %w on core 0 writes %t after %r on core 1 reads it, but the source has "
        "the opposite order (seq 2 and 1)",
        f"{OWNER}\n{BARRIER('meet')} seq=0\n%w = iota @pool () -> (%t) seq=1",
        f"{VIEW}\n%r = copy @vector (%t) -> () seq=2\n{BARRIER('meet')} seq=3",
    ),
    "benign-duplicate-write": checked(
        "note[benign-duplicate-write]: %w on core 0 and %w on core 1 write %t unordered; every order leaves the "
        "same bytes",
        f"{OWNER}\n%w = memset @dma0 () -> (%t) value=0",
        f"{VIEW}\n%w = memset @dma0 () -> (%t) value=0",
    ),
    "unexpected-output": Example(
        {
            "expected.py": (
                'import numpy as np\n\nnp.savez("expected.npz", **{"nc0/t": np.arange(1, 17, dtype=np.int32)})\n'
            ),
            "example.bir": program(
                "mloc %t dram.local size=64 kind=output dtype=s32 shape=[16]\n%w = iota @pool () -> (%t) dim=0"
            ),
        },
        "python expected.py && haulout simulate example.bir --expect expected.npz",
        "error[unexpected-output]: nc0/t: 16 of 16 elements differ",
    ),
    "different-results": Example(
        {
            f"{name}.bir": program(
                "mloc %x dram.local size=16 kind=input dtype=f32 shape=[4]\n"
                "mloc %y dram.local size=16 kind=output dtype=f32 shape=[4]\n"
                f"%twice = {opcode} @vector (%x, %x) -> (%y)"
            )
            for name, opcode in (("before", "add"), ("after", "multiply"))
        },
        "haulout compare before.bir after.bir",
        "error[different-results]: result %y differs on core 0: max|a-b| = 0.366, limit 3.38e-06",
    ),
    "kept-fences": Example(
        {"example.bir": program(f"{OWNER}\n{BARRIER('meet')}", f"{VIEW}\n{BARRIER('meet')}")},
        "haulout compile example.bir -o out",
        "note[kept-fences]: the program has no seq: its barriers define its order; no fence is added or removed",
    ),
    "added-rendezvous": Example(
        {
            "example.bir": program(
                "mloc %t dram.shared size=64\n%w = iota @pool () -> (%t) seq=0",
                "mloc %t dram.shared size=64 remote=[t,0]\nmloc %u dram.local size=64 kind=output\n"
                "%r = copy @vector (%t) -> (%u) seq=1",
            )
        },
        "haulout compile example.bir --fences bracket -o out",
        "note[added-rendezvous]: 1 fences were added inside brackets to order conflicts between cores",
    ),
    "capacity-fence": Example(
        {
            "example.bir": program(
                "mloc %t dram.shared size=64\nmloc %u dram.local size=64\n"
                "%put = iota @pool () -> (%t) seq=0\n%work = iota @pool () -> (%u) seq=2\n"
                "%use = copy @pool (%u) -> () seq=3",
                "mloc %t dram.shared size=64 remote=[t,0]\n%get = copy @vector (%t) -> () seq=1",
            )
        },
        "haulout compile example.bir --capacity 64 -o out",
        "note[capacity-fence]: fence cb_sg0_free0 was added for the capacity: it frees 64 bytes at the peaks of the "
        "cores",
    ),
    "kept-partitions": Example(
        {
            "example.bir": program(
                "mloc %t dram.local size=64 kind=inout\n%a = iota @pool () -> (%t) seq=0",
                "mloc %t dram.local size=64 kind=inout\n%a = iota @pool () -> (%t) seq=0",
            )
        },
        "haulout compile example.bir --partitions joint -o out",
        "note[kept-partitions]: partitions stay proportional: a joint space needs 128 bytes, they need 128",
    ),
    "equal-bytes-unproved": checked(
        "error[equal-bytes-unproved]: %y is claimed to be equal, same=[[0,1]], but that cannot be derived: after %c, "
        "cores 0 and 1 may hold other bytes",
        *(f"{each}\n%c = copy @vector (%id) -> (%y)" for each in _IDS),
    ),
    "unequal-bytes": Example(
        {"example.bir": program(*(f"{each}\n%c = dma_copy @dma0 (%id) -> (%y)" for each in _IDS))},
        "haulout simulate example.bir",
        "error[unequal-bytes]: %y is claimed to be equal, same=[[0,1]], but cores 0 and 1 differ after %c",
    ),
    "split-not-followed": Example(
        {
            "example.bir": (
                'bir 1\nprogram "example" lnc=1\nmodule @nc0 core=0 {\n  func @main {\n'
                "    mloc %x dram.local size=64 kind=input dtype=f32 shape=[4,4]\n"
                "    mloc %y dram.local size=64 kind=output dtype=f32 shape=[4,4]\n    block ^entry:\n"
                "      %a = tanh @act (%x) -> (%y) seq=0 split=2\n  }\n}\n"
            )
        },
        "haulout compile example.bir --lnc 2 -o out",
        "warning[split-not-followed]: an annotation cannot be followed: %a cannot be cut along dimension 2",
    ),
    "one-member-collective": checked(
        "warning[one-member-collective]: %sum exchanges nothing: each of its groups has one member (groups=[[0]])",
        "mloc %x dram.local size=64 kind=input dtype=f32 shape=[16]\n"
        "mloc %y dram.local size=64 kind=output dtype=f32 shape=[16]\n"
        "%sum = all_reduce @pool (%x) -> (%y) op=add groups=[[0]]",
    ),
    "opaque-instruction": checked(
        "warning[opaque-instruction]: 1 instruction is opaque: each reads its operands and writes its results, and "
        "nothing else is known of it",
        "mloc %x dram.local size=64 kind=input dtype=f32 shape=[16]\n"
        "mloc %y dram.local size=64 kind=output dtype=f32 shape=[16]\n"
        "%k = hlo.custom_call @vector (%x) -> (%y) target=my.kernel",
    ),
    "left-out-constant": checked(
        "warning[left-out-constant]: 1 constant has no data in the source; the program takes them as inputs: %c",
        "mloc %c dram.local size=64 kind=input dtype=f32 shape=[16] left_out=true\n"
        "mloc %y dram.local size=64 kind=output dtype=f32 shape=[16]\n"
        "%k = negate @vector (%c) -> (%y)",
    ),
    "incomplete-text": Example(
        {
            "example.hlo": "HloModule step, num_partitions=2\n\nENTRY main {\n  %x = f32[4] parameter(0)\n"
            "  ROOT %y = f32[4] add(f32[4] %x, f32[4] %before)\n}\n"
        },
        "haulout check example.hlo",
        "warning[incomplete-text]: step is made of a part of a module; the rest is not in the text",
    ),
    "too-few-semaphores": Example(
        {
            "example.bir": program(
                "mloc %t dram.local size=64\n%a = iota @pool () -> (%t)\n%b = copy @vector (%t) -> () deps=[a]"
            )
        },
        "haulout opt example.bir --passes lower_sync{semaphores=0}",
        "error[too-few-semaphores]: core 0 waits for 1 engines and has 0 semaphores; none is allowed",
    ),
    "kept-dependences": Example(
        {
            "example.bir": program(
                """
                mloc %t dram.local size=64
                mloc %c dram.local size=4
                block ^entry -> ^head:
                block ^head -> ^body, ^behind cond=c:
                %more = iota @pool () -> (%c)
                block ^body -> ^head:
                %a = iota @pool () -> (%t) carried=[b]
                %b = copy @vector (%t) -> () deps=[a]
                block ^behind:
                """
            )
        },
        "haulout opt example.bir --passes lower_sync{relative_waits=false}",
        "note[kept-dependences]: 2 dependences on instructions of loop ^head on core 0 are not "
        "lowered: the signals of a loop have no constant count, and wait_back is not allowed "
        "(relative_waits=false)",
    ),
}
