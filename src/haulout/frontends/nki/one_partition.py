"""On-chip tensors with equal accesses in all partitions: one partition represents all.

`x[:, 0:8]` has 128 runs of bytes in all partitions, and one in a single partition. Two accesses of such a tensor
overlap if they overlap in the first partition, and bytes are written in all partitions or in none, so the findings
are equal. Tensors at an address that the kernel chose keep their partitions, because other tensors may overlap them.
"""

from __future__ import annotations

from functools import lru_cache

from haulout.frontends.nki.recorder import Recorder
from haulout.ir.patterns import Pattern


def narrow_tensors(recorder: Recorder) -> dict[int, int]:
    """Storage number -> bytes of a partition, for the tensors of a core that one partition can stand for."""
    rows = {
        storage.number: storage.row_bytes
        for storage in recorder.storages
        if storage.buffer.on_chip and storage.address is None and storage.partitions > 1
    }
    for record in recorder.records:
        for number, pattern in (*record.reads, *record.writes):
            if pattern is not None and number in rows:
                row = rows[number]
                if first_partition(pattern, row, recorder.storages[number].partitions) is None:
                    del rows[number]
    return rows


@lru_cache(maxsize=1 << 14)
def first_partition(pattern: Pattern, row: int, partitions: int) -> Pattern | None:
    """What a pattern touches in the first of `partitions` partitions of `row` bytes; None when not all are alike."""
    for at, (stride, count) in enumerate(pattern.dims):
        # The partitions are a dim of their own, or one with a dim inside the partition that fills it evenly.
        if row % stride or count != row // stride * partitions:
            continue
        inner = ((stride, row // stride),) if stride < row else ()
        rest = Pattern(pattern.offset, pattern.run, pattern.dims[:at] + inner + pattern.dims[at + 1 :])
        low, high = rest.hull
        if low >= 0 and high <= row:
            return rest
    return None
