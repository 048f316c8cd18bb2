"""The catalog of diagnostic codes: what each means, why it matters, what to do.

Codes are stable. `docs/reference/diagnostics.md` is generated from this table.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from haulout.support.diagnostics import Diagnostic


class Entry(NamedTuple):
    """One code."""

    what: str
    why: str
    fix: str


ASSUMED = {
    "assumed-trip": "anything about loops that run more often than assumed",
    "assumed-loop-count": "anything about other loop counts than assumed",
    "order-dependent-result": "which values atomic accesses fetch",
}
"""Code of a note -> the property that is not proved because of it."""


def assumptions(diagnostics: Iterable[Diagnostic]) -> list[str]:
    """The properties that are not proved, from notes of the checker."""
    codes = {each.code for each in diagnostics}
    return [text for code, text in ASSUMED.items() if code in codes]


CATALOG: dict[str, Entry] = {
    "bad-input": Entry(
        "The input is malformed, or uses something that is not supported.",
        "haulout does not guess, and it does not drop what it cannot read. It stops at the first such place.",
        "Correct the input at the place shown, or rewrite the program without the unsupported construct.",
    ),
    "internal-error": Entry(
        "haulout failed.",
        "This is a defect of haulout, not of the program.",
        "Report it with the reproducer or crash file that the message names.",
    ),
    "out-of-memory": Entry(
        "The machine has too little memory for this program.",
        "The tables or the simulated DRAM do not fit.",
        "Use a machine with more memory, or a smaller program.",
    ),
    "cross-core-race": Entry(
        "Two cores access the same bytes, at least one of them writes, and the two accesses are unordered.",
        "On some schedule of the hardware the reader sees stale or partly written data.",
        "Add a `core_barrier` on engine `all` after the first access and before the second, on every core. Or let "
        "the compiler place it: if every instruction has a `seq`, `haulout compile` adds the fewest barriers that "
        "suffice.",
    ),
    "possible-race": Entry(
        "A race with an access whose bytes are not known at compile time (`?`).",
        "The checker assumes that such an access touches every byte of its location. It may touch fewer.",
        "Order the accesses, or give the access its exact bytes.",
    ),
    "missing-dependence": Entry(
        "Two instructions of one core, on different engines, access the same bytes, and they are unordered.",
        "Engines of a core run independently. Only dependences and barriers order them.",
        "Add the first to the `deps` of the second, or put both on one engine.",
    ),
    "task-race": Entry(
        "Two tasks of a task graph access the same bytes, at least one of them writes, and no path of edges and "
        "events leads from one to the other.",
        "Tasks start when their edges and events allow it. In some run the later task comes first.",
        "Add the edge that the message names. `haulout check --fix` lists few edges that order all races.",
    ),
    "event-count": Entry(
        "An event of a task graph fires before all tasks that trigger it have ended.",
        "A task that waits for the event may start before the last of them.",
        "Let the event wait for all its triggers.",
    ),
    "unproved-task": Entry(
        "A task graph says something that the reader does not know: a type of task, a form of argument, a tensor "
        "that is not named, a trigger from another file.",
        "What such tasks access, or wait for, is not known. Nothing is proved about it.",
        "Write it in the form that [task-graphs.md](../task-graphs.md) describes, or check it by hand.",
    ),
    "missing-edges": Entry(
        "Edges that order all races of a task graph; `haulout check --fix` lists them.",
        "They are few, but not always the fewest.",
        "Add these edges. An edge into an event is one more trigger that the event waits for.",
    ),
    "redundant-edge": Entry(
        "An edge of a task graph orders nothing that other paths do not order.",
        "It costs a wait or a signal.",
        "Nothing is required. The edges may be removed, all at once.",
    ),
    "barrier-mismatch": Entry(
        "Two cores do not have the same sequence of barriers, with equal names and participants.",
        "The cores deadlock, or wait for each other at different places, and the intended order does not hold.",
        "Make the sequences equal. The message shows where they first differ.",
    ),
    "deadlock": Entry(
        "Instructions wait for each other in a cycle, for a partner that never arrives, or for a count that is "
        "never reached.",
        "The program never ends.",
        "Break the cycle that the message shows, or correct the count.",
    ),
    "uninitialized-read": Entry(
        "Uninitialized bytes reach an output, a condition, an index, or an unknown use.",
        "The value is undefined. Uninitialized padding that reaches none of these is not a finding.",
        "Write the location first, or declare it `kind=input`.",
    ),
    "output-not-written": Entry(
        "Bytes of an output are never written.",
        "The caller reads undefined values.",
        "Write all of it, or make the output smaller.",
    ),
    "out-of-bounds": Entry(
        "An access touches bytes outside its location.",
        "It reads or overwrites other data.",
        "Correct the pattern or the location's size.",
    ),
    "overlapping-storage": Entry(
        "Two locations that are live at the same time share bytes, or the partitions of two cores overlap.",
        "One location overwrites the other.",
        "Move one of them. The allocator never places them so; look for an address that was set by hand.",
    ),
    "misaligned-storage": Entry(
        "An address or offset is negative, or not a multiple of the alignment.",
        "The hardware rejects or splits the access.",
        "Choose an address that is a multiple of `align`.",
    ),
    "unresolved-remote": Entry(
        "The target of a view does not exist, or has no address.",
        "The core has no address to access.",
        "Name a location that the owner core has in the function of the same name.",
    ),
    "view-mismatch": Entry(
        "A view differs from its owner in address, bank or base partition.",
        "The cores use different addresses for one tensor.",
        "Run `sync_shared_allocations` after the last change of an address.",
    ),
    "over-capacity": Entry(
        "The allocation needs more bytes than the capacity.",
        "The program does not fit.",
        "Raise the capacity, shorten lifetimes, or split the buffers that the message names. They are the smallest "
        "set that does not fit; the message also gives the time of the peak on each core.",
    ),
    "unfaithful-order": Entry(
        "Conflicting accesses are ordered against the source order: `seq` across cores, the instruction list "
        "within a core. Or both have the same `seq`, which gives them no order.",
        "Every schedule gives the same result, and it differs from the result of the source.",
        "Move the barrier or the dependence so that the accesses have their source order. Give each part of an "
        "operation a `seq` of its own.",
    ),
    "benign-duplicate-write": Entry(
        "Two writes of the same bytes are unordered, and both write the same values.",
        "It is harmless: the final value of each byte is equal in every schedule, and no read comes between the "
        "writes. The checker proves this with value numbering: equal opcodes, attributes and operands give equal "
        "bytes.",
        "Nothing is required. To save work, let one core write.",
    ),
    "equal-bytes-unproved": Entry(
        "A location says with `same=` that several cores hold equal bytes in it, and this does not follow from the "
        "program.",
        "A pass, or a reader, that relies on it may store the value once, or compute it once. If the cores hold "
        "different bytes, results are wrong. The checker follows the values of all cores by value numbering: equal "
        "opcodes, attributes and operands give equal bytes.",
        "Remove `same=` from the location, or let the cores compute it alike. `mark_uniform` writes the classes that "
        "can be derived.",
    ),
    "unequal-bytes": Entry(
        "A location says with `same=` that several cores hold equal bytes in it, and in a simulated run they do not.",
        "The claim is false.",
        "Remove `same=` from the location, or correct what one of the cores computes.",
    ),
    "order-dependent-result": Entry(
        "A `fetch_and_op` returns the previous value, and it is unordered with another atomic access to the same "
        "bytes.",
        "It is not a race, but the fetched value depends on the schedule. Nothing is proved about results that are "
        "computed from it.",
        "Nothing is required if every order is correct, as for tickets. Otherwise order the two accesses.",
    ),
    "unproved-paths": Entry(
        "The proof of all paths together does not cover a construct, which the note names, and the program has more "
        "paths through branches and loops than the checker examines.",
        "The reported findings are correct, but a path that was not examined may have other faults.",
        "Add a `core_barrier` on engine `all` of all cores between the branches and outside of them: the checker "
        "then proves the parts before and after it separately. Or give loops a `trip`, or split the function.",
    ),
    "assumed-trip": Entry(
        "A loop with an unknown trip count advances an operand without limit (a `step` without modulus).",
        "After enough iterations the operand leaves its location. The checker assumes that the loop ends before "
        "that. Longer runs are not proved, and `simulate` stops them with `out-of-bounds`.",
        "Give the loop a `trip`, or the step a modulus.",
    ),
    "split-not-followed": Entry(
        "The source asks for a cut of a value along a dimension, and the cores cannot divide it so.",
        "The work is divided in another way, or not at all, so the program may need more fences than was meant.",
        "Ask for one of the cuts that the message lists, or remove the annotation. `haulout explain-split` shows "
        "what is divided, and `--split` overrides annotations.",
    ),
    "one-member-collective": Entry(
        "Each group of a collective has one member, or each of its pairs goes from a core to itself.",
        "It exchanges no data. Usually the program was partitioned for more cores than it has, or its groups "
        "number replicas instead of partitions. Each core then keeps its own result.",
        "Partition the program for all cores that take part, or remove the collective. In HLO, groups number "
        "partitions only with `channel_id` and, except for all-to-all and collective-permute, "
        "`use_global_device_ids`.",
    ),
    "opaque-instruction": Entry(
        "The program has instructions whose opcode is not known, such as custom calls.",
        "Each reads its operands and writes its results, on its own core. Storage and order are proved for these "
        "accesses; what the instruction computes is not known, so the program cannot be executed. Side effects are "
        "ordered by operands and results alone.",
        "Nothing, if only storage and order matter. To execute the program, write it with known opcodes.",
    ),
    "left-out-constant": Entry(
        "HLO text has constants without their data, `{...}`: dumps leave out large ones unless they are asked for.",
        "The program takes each as an input, equal on all cores. Storage and order do not depend on it; what is "
        "computed does.",
        "Dump the module with its constants, or give their values as inputs.",
    ),
    "incomplete-text": Entry(
        "HLO text uses operands, parameters or computations that it does not define: it is a part of a dump.",
        "Operands that nothing defines are inputs; an operation without its computation is opaque; donation is not "
        "followed. What remains is compiled and proved, and says nothing about the rest.",
        "Nothing, if the part is what you want to see. Else give the whole module.",
    ),
    "unexpected-output": Entry(
        "An output of a simulated run differs from the expected value.",
        "The program and the reference compute different results.",
        "Compare the inputs first. Then look for the first value that differs.",
    ),
    "different-results": Entry(
        "A result of the split program differs from the one of the program before the split.",
        "On the same inputs both must compute the same, up to rounding. A collective is missing or wrong, a "
        "dimension is cut or transposed in another way, or operands are swapped.",
        "Look at the first operation that differs, which the finding names: what it reads is right. If the cores "
        "hold tiles in another order, say so with `--split`; if only rounding differs, widen `--rtol`.",
    ),
    "kept-fences": Entry(
        "Not every instruction has a `seq`, so the compiler kept the barriers of the program.",
        "Without `seq` the intended order of two unordered accesses is unknown.",
        "To let the compiler place fences, give every instruction a `seq`.",
    ),
    "too-few-semaphores": Entry(
        "A core needs more semaphores than it has, for its engines or for its barriers.",
        "With one semaphore for each engine, waits are exact. Engines that share a semaphore must signal in a "
        "fixed order; the waits for that can deadlock where the cores do not rendezvous in one order. Barriers "
        "with different participants or engines never share a semaphore.",
        "Allow more: `lower_sync{semaphores=N}`, `lower_barriers{semaphores=N}`. For `lower_sync`, one for each "
        "engine that an instruction waits for is enough. The message of `lower_barriers` names all that it uses.",
    ),
    "kept-dependences": Entry(
        "`lower_sync` kept some dependences.",
        "In a loop or in an arm of a branch, the number of signals of a producer is not a constant. A relative "
        "wait (`wait_back`) handles this, but it cannot be used here, for the reason shown.",
        "Allow `relative_waits`, or let all cores rendezvous in one order.",
    ),
    "kept-partitions": Entry(
        "The requested partitions of DRAM were not used. The program keeps proportional ones, for the reason shown.",
        "A joint space that is not smaller gives up the separation of the cores for no gain.",
        "Nothing is required. Or remove the obstacle that the message names.",
    ),
    "capacity-fence": Entry(
        "The compiler added a fence to free storage earlier, so that the program fits the capacity.",
        "Without it, buffers are live for longer.",
        "Nothing is required. To save the fence, raise the capacity by the bytes that it frees.",
    ),
    "added-rendezvous": Entry(
        "The policy `bracket` added fences for conflicts between cores that had no rendezvous.",
        "Two fences around a block do not order the accesses inside it.",
        "Nothing is required. The fences are correct.",
    ),
    "moved-pin": Entry(
        "The planner's validator: a pinned buffer is not at the offset that it is pinned to.",
        "Other code expects the buffer at that offset.",
        "Place it at its pinned offset, or unpin it.",
    ),
    "wrong-pool": Entry(
        "The planner's validator: a buffer is in a pool that it does not allow, or in the pool of a symmetric "
        "buffer.",
        "The buffer needs another memory.",
        "Place it in a pool that it allows.",
    ),
    "crossed-segment": Entry(
        "The planner's validator: a buffer crosses a multiple of the segment size.",
        "Bytes are contiguous within a segment only.",
        "Place the buffer after the boundary.",
    ),
    "split-alias": Entry(
        "The planner's validator: two aliases have different pools or offsets.",
        "Aliases share their storage: a write to one must be visible in the other.",
        "Give both the same pool and offset.",
    ),
    "unequal-offsets": Entry(
        "The planner's validator: buffers of a symmetric group have different offsets.",
        "The owner of each pool uses its own offset for all buffers of the group.",
        "Give all buffers of the group one offset.",
    ),
    "kernel-error": Entry(
        "A kernel calls an operation with a wrong argument, element type or shape, or it raises an exception.",
        "The kernel does not compile for the device, or computes a wrong result.",
        "Correct the kernel at the line shown.",
    ),
    "assumed-loop-count": Entry(
        "The trip count of a loop is known on the device only. The trace assumes a small number of iterations.",
        "The proof holds for that number of iterations.",
        "Nothing is required. Or choose another number with `trips`.",
    ),
    "assumed-register": Entry(
        "The kernel uses a register as a number, and its value is known on the device only. The trace assumes 0.",
        "The proof holds for that value.",
        "Nothing is required. Or compute the number from the arguments of the kernel.",
    ),
    "undefined-result": Entry(
        "An instruction of a simulated kernel met a value for which NKI does not document the result: NaN in a "
        "maximum or comparison, an input outside of a function's range, an integer above 2^24 in float32, an "
        "accumulator that nothing has defined.",
        "The simulator does what NumPy does. The device may give something else.",
        "Keep such values away from the instruction: mask, clamp or initialize them. A finding stands for its line.",
    ),
    "unknown-instruction": Entry(
        "A kernel calls an instruction that this version of haulout does not know.",
        "The trace assumes that it reads and writes all its tensors. Findings may depend on accesses that it does "
        "not make.",
        "Check the spelling. Order it as if it accessed all its tensors, or report the instruction.",
    ),
    "old-style": Entry(
        "A kernel is written for the first NKI, `neuronxcc.nki`, where instructions return tiles and take masks.",
        "It is checked as the instructions of today that compute the same. Addresses in SBUF and PSUM that it "
        "chooses are left to the compiler.",
        "Nothing is required. The migration guide of NKI says how to write the kernel today.",
    ),
    "removed-api": Entry(
        "A kernel uses a name, a parameter or a style that NKI had once.",
        "The kernel does not compile with the NKI of today. The trace takes what was meant.",
        "Use what the finding names.",
    ),
    "missing-module": Entry(
        "A kernel's file imports a module that is not installed, which is a note, or the kernel uses a name of it, "
        "which is an error.",
        "Many kernels do not need what their file imports. If one does, the trace ends.",
        "Install the module, or give the kernel what it takes from there as an argument.",
    ),
    "unfinished-import": Entry(
        "A kernel's file raises an exception after the kernel is defined, as a script does that tries it on a "
        "device.",
        "The kernel is checked. It may miss what the rest of the file defines.",
        "Nothing is required. Or move the code that runs the kernel to another file.",
    ),
    "input-not-read": Entry(
        "No instruction of any core reads or writes a tensor argument of a kernel.",
        "The result does not depend on that input, often because another tensor is used in its place.",
        "Remove the argument, or use it.",
    ),
    "invalid-suppression": Entry(
        "A comment `# haulout: ignore[...]` in a kernel names no known code, or gives no reason.",
        "It has no effect.",
        "Write the code of the finding in brackets, and the reason behind it.",
    ),
    "unused-suppression": Entry(
        "A comment `# haulout: ignore[...]` stands on a line without such a finding.",
        "The code has changed, or the comment stands on another line than the finding. It would hide a later "
        "finding.",
        "Remove the comment, or move it to the line that the finding shows.",
    ),
    "shared-allocation-mismatch": Entry(
        "The cores of a kernel do not make the same shared allocations in the same order.",
        "Shared tensors are matched across cores by name or by order. After a mismatch, two tensors have one "
        "address, or one tensor has two.",
        "Make the same allocations in the same order on all cores, outside of code that depends on the core.",
    ),
    "return-mismatch": Entry(
        "The cores of a kernel return different tensors, or the same ones in another order.",
        "The caller gets the results of one core, and it is unspecified which. It may read the wrong tensor.",
        "Return the same tensors in the same order on all cores, outside of code that depends on the core.",
    ),
    "hardware-rule": Entry(
        "An instruction of a kernel violates a rule of its engine; the note names the rule and its targets.",
        "The engine does not reach the memory, or does not support the number of elements or the type. The kernel "
        "does not compile for the device. A warning is a rule that is inferred, a note a hint about speed.",
        "Move the operand to a memory that the engine reaches, split the instruction, or convert the type. The table "
        "of rules is in `docs/nki.md`.",
    ),
    "partition-limit": Entry(
        "A tensor in SBUF or PSUM spans more partitions than the memory has.",
        "The first dimension of such a tensor is the partition.",
        "Split the first dimension into tiles.",
    ),
    "overlapping-split": Entry(
        "The cores read overlapping parts of an input, and none reads its end.",
        "Usually an offset counts elements instead of rows. The result is wrong although there is no race.",
        "Correct the offset of the part of each core.",
    ),
    "barrier-not-shared": Entry(
        "A barrier names a tensor that the other cores do not share.",
        "It orders no access of the other cores.",
        "Name the shared tensor that the cores exchange.",
    ),
    "adjacent-barriers": Entry(
        "Two barriers follow each other, with no access between them on any core.",
        "The second barrier costs time and orders no access.",
        "Remove one of them.",
    ),
    "redundant-barrier": Entry(
        "A barrier does not order any two accesses of different cores.",
        "It costs time and has no effect inside the kernel. Code that runs after the kernel may need it.",
        "Remove it if no later code needs it.",
    ),
}
