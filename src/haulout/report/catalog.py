"""Every diagnostic code: what it means, why it matters, what to do. Codes are stable; the docs are made from it."""

from __future__ import annotations

from typing import NamedTuple


class Entry(NamedTuple):
    """One code."""

    what: str
    why: str
    fix: str


CATALOG: dict[str, Entry] = {
    "bad-input": Entry(
        "The input is not what it should be, or holds something that is not supported.",
        "Nothing is guessed and nothing is dropped: what is not understood stops the run, with its place.",
        "Correct the input at the place shown; rewrite the program without a construct that is not supported.",
    ),
    "internal-error": Entry(
        "haulout itself failed.",
        "It is a defect of haulout, not of the program.",
        "Report it with the reproducer or crash file that the message names.",
    ),
    "out-of-memory": Entry(
        "The machine has too little memory for this program.",
        "The tables or the simulated DRAM do not fit.",
        "Use a larger machine, or a smaller program.",
    ),
    "cross-core-race": Entry(
        "Two cores touch the same bytes, one of them writes, and nothing orders the two accesses.",
        "On some schedule of the hardware the reader sees stale or half-written data.",
        "Put a `core_barrier` on engine `all` behind the first access and before the second, on every core; or let "
        "the compiler place it: with a `seq` on every instruction, `haulout compile` adds the fewest that suffice.",
    ),
    "possible-race": Entry(
        "A race that rests on an access whose bytes are not known statically (`?`).",
        "Such an access is taken to meet every byte of its location; it may or may not in truth.",
        "Order it as if it did, or give the access its exact bytes.",
    ),
    "missing-dependence": Entry(
        "Two instructions of one core, on different engines, touch the same bytes and nothing orders them.",
        "Engines of a core run ahead of each other; only dependences and barriers order them.",
        "Add the first to the `deps` of the second, or put both on one engine.",
    ),
    "barrier-mismatch": Entry(
        "Two cores do not meet the same barriers in the same sequence with equal names and participants.",
        "The cores hang, or meet at different places and every order that was planned is off.",
        "Make the sequences equal: the message shows both at the first difference.",
    ),
    "deadlock": Entry(
        "Instructions wait for each other in a cycle, for a partner that never comes, or for a count that is never "
        "reached.",
        "The program never ends.",
        "Break the cycle that the message shows, or mend the count.",
    ),
    "uninitialized-read": Entry(
        "Bytes that nothing has written reach an output, a condition, an index, or an unknown use.",
        "The value is whatever the memory held. Padding that is read but reaches none of these is no finding.",
        "Write the location first, or declare it `kind=input`.",
    ),
    "output-not-written": Entry(
        "Bytes of an output are never written.",
        "The caller gets whatever the memory held.",
        "Write all of it, or make the output smaller.",
    ),
    "out-of-bounds": Entry(
        "An access touches bytes outside its location.",
        "It reads or overwrites a neighbour.",
        "Correct the pattern or the location's size.",
    ),
    "overlapping-storage": Entry(
        "Two locations that are needed at the same time share bytes, or partitions of two cores overlap.",
        "One overwrites the other.",
        "Move one of them; the allocator never does this, so look for an address that was set by hand.",
    ),
    "misaligned-storage": Entry(
        "An address or offset is negative, or no multiple of the alignment.",
        "The hardware rejects or splits the access.",
        "Choose an address that is a multiple of `align`.",
    ),
    "unresolved-remote": Entry(
        "A view's RemoteLocalTarget does not exist, or has no address.",
        "The core would read from nowhere.",
        "Name a location that the owner core has in the function of the same name.",
    ),
    "view-mismatch": Entry(
        "A view does not have its owner's address, bank and base partition.",
        "Cores disagree where the tensor lies.",
        "Run `sync_shared_allocations` after the last change of an address.",
    ),
    "over-capacity": Entry(
        "The placement needs more bytes than there are.",
        "The program does not fit.",
        "Raise the capacity, shorten lifetimes, or split the buffers that the message names: the fewest that cannot "
        "fit together, with the moment when each core holds most.",
    ),
    "unfaithful-order": Entry(
        "Conflicting accesses are ordered, but against the order of the source: `seq`, inside a core the list. Or "
        "both have one `seq`, which is no order.",
        "Every schedule agrees, on a result that is not the source's.",
        "Move the barrier or the dependence so that what comes first in the source comes first here; give the parts "
        "of one operation a `seq` each.",
    ),
    "benign-duplicate-write": Entry(
        "Nothing orders two writes of the same bytes, and every order leaves the same bytes.",
        "It is harmless: the last write of each byte has one value in every schedule, and no read comes between. The "
        "checker numbers values itself: equal opcodes, attributes and reads give equal bytes. No read is excused.",
        "Nothing, or let one core write to save the work.",
    ),
    "order-dependent-result": Entry(
        "A `fetch_and_op` hands on the value that it found, and nothing orders it and another atomic access to the "
        "same bytes.",
        "It is no race, but the program does not say which value is fetched: runs may differ, and nothing is proved "
        "of what is made of it.",
        "Nothing, where any order will do (taking tickets, for instance); else order the two.",
    ),
    "unproved-paths": Entry(
        "There are more ways through branches and loops than the checker looks at.",
        "What is found is true, but a way that was not looked at may hold another fault: nothing is proved for it.",
        "Put a `core_barrier` on engine `all` of all cores between the branches, outside of them: what stands on its "
        "two sides is proved apart. Or say how often loops run (`trip`), or split the function.",
    ),
    "assumed-trip": Entry(
        "A loop whose trip count is not known moves an operand on and on (a `step` without modulus).",
        "Sooner or later the operand leaves its location. The loop is taken to end before that; nothing is proved of "
        "runs that do not, and `simulate` stops them with out-of-bounds.",
        "Say how often the loop runs (`trip`), or give the step a modulus.",
    ),
    "one-member-collective": Entry(
        "A collective whose groups have one member each, or whose pairs lead from each core to itself.",
        "It exchanges nothing. Mostly the program was meant for more cores than it has, or its groups count replicas "
        "where partitions were meant; then each core keeps a result of its own.",
        "Partition the program for all cores that should take part, or drop the collective. In HLO the groups count "
        "partitions only with `channel_id` and, but for all-to-all and collective-permute, `use_global_device_ids`.",
    ),
    "unexpected-output": Entry(
        "An output of a simulated run is not what was expected.",
        "The program computes something else than the reference.",
        "Compare the inputs first; then look for the first value that differs.",
    ),
    "kept-fences": Entry(
        "The program has no common `seq`, so its barriers were left as they are.",
        "Without a common time nobody can say which of two unordered accesses should come first.",
        "Give every instruction a `seq` to let the compiler place fences.",
    ),
    "too-few-semaphores": Entry(
        "A core needs more semaphores than it has: for the engines that are waited for, or for its barriers.",
        "One counter an engine is exact; a shared one needs its signals to follow one another, which adds waits that "
        "could hang where the cores do not meet in one order. Barriers of other participants, or of another engine, "
        "never share one.",
        "Allow more: `lower_sync{semaphores=N}`, `lower_barriers{semaphores=N}`; one for each engine that is waited "
        "for is always enough for the first, and the second names all that it uses.",
    ),
    "kept-dependences": Entry(
        "`lower_sync` left dependences as they are.",
        "In a loop, or in an arm of a branch, no constant tells how often a producer has signalled; a wait that "
        "follows the run does (`wait_back`), and here it may not be used, for the reason shown.",
        "Allow `relative_waits`, or let all cores meet in one order.",
    ),
    "kept-partitions": Entry(
        "Other partitions of DRAM were asked for, and the program keeps proportional ones, for the reason shown.",
        "A joint space that is no smaller, or is not tried, would only give up the separation of the cores.",
        "Nothing; or remove what the message names.",
    ),
    "capacity-fence": Entry(
        "A fence that no conflict needs was added, because storage must be free earlier to fit the capacity.",
        "With fewer fences buffers are held for longer.",
        "Nothing; or raise the capacity by the bytes that it frees to save the fence.",
    ),
    "added-rendezvous": Entry(
        "The policy `bracket` found conflicts between cores without a rendezvous and added fences for them.",
        "Two fences around a block do not order what is inside it.",
        "Nothing; the fences are correct.",
    ),
    "moved-pin": Entry(
        "The planner's validator: a pinned buffer is not at the offset that it is pinned to.",
        "Something else relies on that place.",
        "Leave it at its offset, or unpin it.",
    ),
    "wrong-pool": Entry(
        "The planner's validator: a buffer is in a pool that it does not allow, or shares it with a symmetric one.",
        "The memory that it needs is another one.",
        "Place it in a pool that it allows.",
    ),
    "crossed-segment": Entry(
        "The planner's validator: a buffer crosses a multiple of its segment, the largest contiguous stretch.",
        "Its bytes are not contiguous there.",
        "Place it behind the boundary.",
    ),
    "split-alias": Entry(
        "The planner's validator: two buffers that are aliases are not in one place.",
        "They are one storage; what is written to one must be seen in the other.",
        "Give both the same pool and offset.",
    ),
    "unequal-offsets": Entry(
        "The planner's validator: buffers of a symmetric group have different offsets.",
        "Each pool's owner takes its own offset for everybody's.",
        "Give all of them one offset.",
    ),
    "kernel-error": Entry(
        "A kernel passes something that its operation does not take: a wrong argument, element type or shape.",
        "The kernel would not compile, or would compute something else than it says.",
        "Correct the kernel at the line shown.",
    ),
    "assumed-loop-count": Entry(
        "How often a loop of a kernel runs is known on the device only: its body is taken a few times in a row.",
        "What is proved holds for that many iterations.",
        "Nothing, or choose another number with `trips`.",
    ),
    "assumed-register": Entry(
        "The value of a register is known on the device only, and the kernel uses it as a number: 0 is taken.",
        "What is proved holds for that value.",
        "Nothing, or compute the number from the kernel's arguments.",
    ),
    "unknown-instruction": Entry(
        "A kernel calls an instruction that this version does not know.",
        "It is taken to read and to write all its tensors: findings may rest on accesses that it does not make.",
        "Check the spelling; order it as if it did touch them, or report the instruction.",
    ),
    "shared-allocation-mismatch": Entry(
        "The cores of a kernel do not make the same shared allocations in the same order.",
        "Shared tensors are matched across cores, by their names or their order: one address for two tensors, or two "
        "for one.",
        "Make the same allocations in the same order on all cores, outside of what depends on the core.",
    ),
    "return-mismatch": Entry(
        "The cores of a kernel return different tensors, or the same ones in another order.",
        "The caller gets one set of results; which core's is not said, so it may read the wrong tensor.",
        "Return the same tensors in the same order on all cores, outside of what depends on the core.",
    ),
    "hardware-rule": Entry(
        "An instruction of a kernel asks for what its engine cannot do.",
        "A memory that the engine does not reach, too many elements, or a type that it does not take: the kernel "
        "does not compile for the device.",
        "Move the operand to a memory that the engine reaches, split the instruction, or convert the type.",
    ),
    "partition-limit": Entry(
        "A tensor in SBUF or PSUM spans more partitions than there are.",
        "The first dimension is the partition; the memory ends there.",
        "Cut the first dimension into tiles.",
    ),
    "overlapping-split": Entry(
        "The cores read shifted parts of an input that overlap, and none reads its end.",
        "Mostly an offset counts elements where rows are meant: the result is wrong without any race.",
        "Correct the offset of each core's part.",
    ),
    "barrier-not-shared": Entry(
        "A barrier names a tensor that the other cores do not see.",
        "It orders no access of theirs, whatever it was meant to order.",
        "Name the shared tensor that the cores exchange.",
    ),
    "adjacent-barriers": Entry(
        "Two barriers follow each other with nothing between them on any core.",
        "They are one; the second costs time and orders nothing.",
        "Drop one of them.",
    ),
    "redundant-barrier": Entry(
        "A barrier orders no two accesses of different cores.",
        "It costs time and changes nothing inside the kernel; what runs after the kernel may rely on it.",
        "Drop it when nothing relies on it.",
    ),
}
