"""Allocations of a traced kernel: equal on all cores where they are shared, within the chip, and read whole.

Sizes are those of the target (`hardware_table.py`): more than the memory has is an error, more than the compiler
leaves to kernels a warning.
"""

from __future__ import annotations

from itertools import zip_longest

from haulout.frontends.nki.byte_sets import overlap
from haulout.frontends.nki.findings import Findings, span_at
from haulout.frontends.nki.hardware_table import MAX_PARTITIONS, PSUM_BYTES, RULES, SBUF_BYTES, SBUF_USABLE
from haulout.frontends.nki.recorder import Recorder
from haulout.frontends.nki.storage import Buffer, Storage
from haulout.frontends.nki.trace import Trace
from haulout.ir.patterns import Pattern
from haulout.support.diagnostics import Label, Severity


def check_allocations(trace: Trace, findings: Findings) -> None:
    """`shared-allocation-mismatch` at the first shared allocation that differs between core 0 and another."""
    first = trace.recorders[0]
    for other in trace.recorders[1:]:
        for at, (left, right) in enumerate(zip_longest(first.shared_storages(), other.shared_storages())):
            if wrong := _difference(left, right):
                _report_difference(findings, (first.core, other.core), at, left, right, wrong)
                break


def check_inputs(trace: Trace, findings: Findings) -> None:
    """`input-not-read`: a tensor argument that no instruction of any core touches."""
    touched = {
        number
        for recorder in trace.recorders
        for record in recorder.records
        for number, _ in (*record.reads, *record.writes)
    }
    for storage in trace.recorders[0].storages if trace.recorders else []:
        # Arguments have the same numbers on all cores.
        if storage.argument and not storage.returned and storage.number not in touched:
            findings.add(
                "input-not-read",
                f"no instruction reads the argument {storage.describe()}",
                severity=Severity.NOTE,
                place=storage.place,
                label="this kernel",
                subject=storage.name,
                help=["remove the argument, or check that no other tensor is used in its place"],
            )


def _difference(left: Storage | None, right: Storage | None) -> str | None:
    if left is None or right is None:
        return "is missing"
    if left.shape != right.shape or left.dtype != right.dtype:
        return "has a different shape or type"
    if left.shared_number != right.shared_number:
        return "has a different name"
    return None


def _report_difference(
    findings: Findings, cores: tuple[int, int], at: int, left: Storage | None, right: Storage | None, wrong: str
) -> None:
    sides = [(core, side) for core, side in zip(cores, (left, right), strict=True) if side is not None]
    labels = [Label(f"core {core}: {side.describe()}", span_at(side.place)) for core, side in sides]
    missing = cores[0] if left is None else cores[1]
    findings.add(
        "shared-allocation-mismatch",
        f"shared allocation {at} {wrong} on core {missing}: shared tensors are matched across cores by name, "
        "unnamed ones by order",
        place=sides[0][1].place,
        label=labels[0].message,
        more=labels[1:],
        notes=["the cores would use one address for two tensors, or two addresses for one"],
        help=["make the same `nl.shared_hbm` allocations in the same order on all cores, outside of `if program_id`"],
    )


# -- capacity --------------------------------------------------------------------------------------------------------


def check_capacity(trace: Trace, findings: Findings) -> None:
    """`partition-limit` and `over-capacity`, for each tensor, and for what lives at one time on a core."""
    for recorder in trace.recorders:
        sizes, usable = SBUF_BYTES[recorder.target], SBUF_USABLE[recorder.target]
        limits = {Buffer.sbuf: (sizes, usable), Buffer.psum: (PSUM_BYTES, PSUM_BYTES)}
        for storage in recorder.storages:
            if storage.buffer in limits and not storage.unplaced:
                _check_one(findings, storage, *limits[storage.buffer])
        for buffer, (limit, left) in limits.items():
            _check_together(findings, recorder, buffer, limit, left)


def _check_one(findings: Findings, storage: Storage, limit: int, usable: int) -> None:
    last = storage.partition + storage.partitions
    if last > MAX_PARTITIONS:
        findings.add(
            "partition-limit",
            f"{storage.describe()} spans partitions {storage.partition}:{last}; the memory has {MAX_PARTITIONS}",
            place=storage.place,
            help=["the first dimension of a tensor in SBUF or PSUM is the partition: at most 128"],
        )
    begin = storage.address or 0
    end = begin + storage.row_bytes
    if end > usable:
        findings.add(
            "over-capacity",
            f"{storage.describe()} takes bytes {begin}:{end} of each partition; {storage.buffer.value} has "
            + (f"{limit}" if end > limit else f"{limit}, of which {usable} are usable"),
            severity=Severity.ERROR if end > limit else Severity.WARNING,
            place=storage.place,
            notes=[] if end > limit else [RULES["sbuf-usable"].note],
            help=["allocate a smaller tile, or reuse the bytes of one that is no longer needed"],
        )


def _check_together(findings: Findings, recorder: Recorder, buffer: Buffer, limit: int, usable: int) -> None:
    """Tensors whose place the compiler chooses: the most bytes in a partition that live at one time.

    A tensor lives from its first access to its last, in list order, and to the end of a loop that it was filled
    before: no allocation needs less.
    """
    lives: dict[int, list[int]] = {}
    for at, record in enumerate(recorder.records):
        for number, _ in (*record.reads, *record.writes):
            storage = recorder.storages[number]
            fits = storage.address is None and storage.row_bytes <= usable and not storage.unplaced
            if storage.buffer is buffer and fits:
                lives.setdefault(number, [at, at])[1] = at
    for begin, end in recorder.outermost_loops():
        for life in lives.values():
            if life[0] < begin < life[1] < end:
                life[1] = end
    events = sorted(
        [(begin, 1, number) for number, (begin, _) in lives.items()]
        + [(end + 1, 0, number) for number, (_, end) in lives.items()]
    )
    used, most, culprits, living = 0, 0, [], set[int]()
    for _, born, number in events:
        used += recorder.storages[number].row_bytes * (1 if born else -1)
        living.add(number) if born else living.discard(number)
        if used > most:
            most, culprits = used, sorted(living)
    if most <= usable:
        return
    over = most > limit
    tensors = sorted(
        (recorder.storages[number] for number in culprits), key=lambda each: (-each.row_bytes, each.number)
    )
    findings.add(
        "over-capacity",
        f"{most} bytes of each partition of {buffer.value} are in use at one time on core {recorder.core}; "
        f"the memory has {limit}" + ("" if over else f", of which {usable} are usable"),
        severity=Severity.ERROR if over else Severity.WARNING,
        place=tensors[0].place,
        subject=buffer.value,
        label=f"{tensors[0].describe()}: {tensors[0].row_bytes} bytes",
        more=[Label(f"{each.describe()}: {each.row_bytes} bytes", span_at(each.place)) for each in tensors[1:3]],
        notes=[
            f"{len(tensors)} tensors are live at that time; the largest are shown",
            *([] if over else [RULES["sbuf-usable"].note]),
        ],
        help=["use smaller tiles, or use one tensor for the last time before the next is written"],
    )


# -- parts of inputs -------------------------------------------------------------------------------------------------


def check_splits(trace: Trace, findings: Findings) -> None:
    """`overlapping-split`: the same line reads, on two cores, parts of an input that are shifted by less than their
    length, while the input's end is read by neither: mostly an offset in elements where one in rows is meant."""
    if trace.cores < 2:
        return
    sides = [_input_reads(recorder) for recorder in trace.recorders[:2]]
    reach = [_read_to(recorder) for recorder in trace.recorders]
    for (line, name), (number, part) in sides[0].items():
        other = sides[1].get((line, name))
        if other is None:
            continue
        storage = trace.recorders[0].storages[number]
        shift = other[1].offset - part.offset
        length = part.hull[1] - part.hull[0]
        end = max(each.get(number, 0) for each in reach)
        alike = part.dims == other[1].dims and part.run == other[1].run
        # Parts that interleave have hulls that overlap, and no byte in common.
        if alike and 0 < shift < length and end < storage.size and overlap(part, other[1]):
            _report_split(findings, line, storage, (part, other[1]), end)


def _input_reads(recorder: Recorder) -> dict[tuple[tuple[str, int], str], tuple[int, Pattern]]:
    """Reads of parts of inputs that happen once: (place, input) -> (storage, bytes)."""
    found: dict[tuple[tuple[str, int], str], tuple[int, Pattern]] = {}
    twice = set()
    for record in recorder.records:
        for number, pattern in record.reads:
            storage = recorder.storages[number]
            if not storage.argument or storage.written or pattern is None:
                continue
            key = (record.place, storage.name)
            if key in found and found[key][1] != pattern:
                twice.add(key)
            found[key] = (number, pattern)
    return {key: value for key, value in found.items() if key not in twice}


def _read_to(recorder: Recorder) -> dict[int, int]:
    """The byte behind the last one read of each input."""
    found: dict[int, int] = {}
    for record in recorder.records:
        for number, pattern in record.reads:
            storage = recorder.storages[number]
            if storage.argument:
                end = storage.size if pattern is None else pattern.hull[1]
                found[number] = max(found.get(number, 0), end)
    return found


def _report_split(
    findings: Findings, line: tuple[str, int], storage: Storage, parts: tuple[Pattern, Pattern], end: int
) -> None:
    shift = parts[1].offset - parts[0].offset
    row = storage.size // storage.shape[0] if storage.shape else storage.size
    item = max(storage.size // max(_count(storage.shape), 1), 1)
    hints = []
    if shift % item == 0 and shift // item * row < storage.size:
        elements = shift // item
        hints.append(
            f"the offset differs by {elements} elements; {elements} rows would be {elements * row} bytes: "
            f"if rows are meant, multiply it by the {row // item} elements of a row"
        )
    findings.add(
        "overlapping-split",
        f"the cores read overlapping parts of input {storage.name} and leave its end unread: core 0 bytes "
        f"{_range(parts[0])}, core 1 bytes {_range(parts[1])} of {storage.size}; neither reads {end}:{storage.size}",
        severity=Severity.WARNING,
        place=line,
        subject=storage.name,
        label=f"reads {storage.name} from byte {parts[0].offset} on core 0, from byte {parts[1].offset} on core 1",
        more=[Label(storage.describe(), span_at(storage.place))],
        help=hints or ["check the offset of the part of each core"],
    )


def _count(shape: tuple[int, ...]) -> int:
    total = 1
    for extent in shape:
        total *= extent
    return total


def _range(part: Pattern) -> str:
    low, high = part.hull
    return f"{low}:{high}"
