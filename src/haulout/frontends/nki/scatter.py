"""Outputs that indices fill: the given indices decide which bytes are written.

With known indices a scatter is exact, and rows without an index stay unwritten. That is a property of the indices,
not of the kernel, if some index could reach every byte.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from haulout.frontends.nki.accessed import reach
from haulout.frontends.nki.storage import Buffer, Storage
from haulout.frontends.nki.tensor import Tensor
from haulout.frontends.nki.trace import Trace
from haulout.ir.patterns import Pattern

MAX_BYTES = 1 << 28
"""Larger tensors are not looked at."""


def filled_by_indices(trace: Trace) -> set[tuple[str, int]]:
    """Places of returned tensors that are written through indices, and wholly so when any index counts."""
    found: dict[tuple[str, int], bool] = {}
    for recorder in trace.recorders:
        for storage in recorder.storages:
            if storage.returned:
                found[storage.place] = found.get(storage.place, True) and _is_filled(trace, storage, recorder.core)
    return {place for place, filled in found.items() if filled}


def _is_filled(trace: Trace, wanted: Storage, core: int) -> bool:
    if wanted.size > MAX_BYTES:
        return False
    mask = np.zeros(wanted.size, bool)
    scattered = False
    for recorder in trace.recorders:
        twin: Storage | None = wanted
        if wanted.buffer is not Buffer.shared_hbm:
            twin = wanted if recorder.core == core else None
        elif wanted.shared_number is not None:
            twin = recorder.shared_storage(wanted.shared_number)
        if twin is None:
            continue
        for record in recorder.records:
            dst = (record.given or {}).get("dst")
            # Bytes of an index that is not known are all that it reaches already.
            moved = dst if isinstance(dst, Tensor) and dst.is_indirect() and not record.maybe else None
            for number, pattern in record.writes:
                if number == twin.number:
                    scattered |= moved is not None
                    _mark(mask, pattern if moved is None else reach(moved))
    return scattered and bool(mask.all())


def _mark(mask: npt.NDArray[Any], pattern: Pattern | None) -> None:
    if pattern is None:
        mask[:] = True
        return
    counts, strides = [count for _, count in pattern.dims], [stride for stride, _ in pattern.dims]
    low, high = pattern.hull
    if low >= 0 and high <= mask.size:
        np.lib.stride_tricks.as_strided(mask[pattern.offset :], (*counts, pattern.run), (*strides, 1))[...] = True
