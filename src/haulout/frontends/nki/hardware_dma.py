"""Rules of DMA: memories, descriptors that hardware makes, transposes, indices; and hints about its speed.

Hints are notes: below 512 contiguous bytes the fixed cost of each piece dominates. A transfer of less than 64 KiB
(128 partitions of 512 bytes) gets none, since no other layout of so few bytes would help.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from haulout.frontends.nki.engines import chosen_engine
from haulout.frontends.nki.hardware_checks import Breach, Check, Found, Given, Operands, all_of, free_size
from haulout.frontends.nki.storage import Buffer
from haulout.frontends.nki.tensor import Tensor

_AXES = {2: (1, 0), 3: (2, 1, 0), 4: (3, 1, 2, 0)}
MAX_SENT = {4: 1024, 2: 512, 1: 256}
"""Bytes a partition of an exchange through GpSimd's DMA, by the size of an element."""
_EFFICIENT = 512
"""Contiguous bytes from which on a DMA is efficient."""
_SMALL = 64 << 10
"""Bytes of a transfer below which it takes the fixed cost whatever its layout is."""
_BLOCK = 32 * 32
"""Elements from which on a transposition inside of SBUF is worth another engine."""
_MAX_SOURCES = 16


def most_sent(tensor: Tensor) -> int:
    """Bytes of each partition that GpSimd's DMA exchanges at once."""
    return MAX_SENT.get(tensor.itemsize, MAX_SENT[4])


def _mode(given: Given) -> str:
    return str(getattr(given.get("dge_mode"), "name", "unknown"))


def _by_index(tensor: Tensor | None) -> bool:
    """Whether a view has an index for each partition."""
    return tensor is not None and tensor.indirect is not None and tensor.indirect.vector


# -- memories and indices --------------------------------------------------------------------------------------------


def _memory(name: str) -> Check:
    """DMA reads and writes HBM and SBUF."""

    def check(given: Given, operands: Operands, target: str) -> Found:
        for role, tensor in _sources(given, operands):
            if tensor.storage.buffer is Buffer.psum:
                message = f"{role} is {tensor!r}; DMA does not read PSUM"
                yield Breach("dma-psum", role, message, "copy it to SBUF with nisa.tensor_copy first")
        dst = operands.get("dst")
        if dst is not None and dst.storage.buffer is Buffer.psum:
            rule = "dma-to-psum" if name == "dma_copy" else "dma-psum"
            message = f"dst is {dst!r}; {name} writes HBM and SBUF"
            yield Breach(rule, "dst", message, "write SBUF, and copy it with nisa.tensor_copy")

    return check


def _sources(given: Given, operands: Operands) -> Iterator[tuple[str, Tensor]]:
    for name, tensor in operands.items():
        if name != "dst":
            yield name, tensor
    for at, each in enumerate(given.get("srcs") or ()):
        if isinstance(each, Tensor):
            yield f"srcs[{at}]", each


def _indices(given: Given, operands: Operands, target: str) -> Found:
    """Where indices are, what they select, and what happens to those outside."""
    everything = [*_sources(given, operands), *([("dst", operands["dst"])] if "dst" in operands else [])]
    for name, tensor in everything:
        if tensor.indirect is None or not tensor.indirect.vector:
            continue
        index = tensor.indirect.index
        if not tensor.storage.buffer.is_hbm:
            message = f"{name} is {tensor!r} with an index for each partition; such an index selects in HBM"
            yield Breach("index-place", name, message)
        if isinstance(index, Tensor) and index.storage.buffer is not Buffer.sbuf:
            message = f"the index of {name} is {index!r}; it must be in SBUF"
            yield Breach("index-place", f"{name}.index", message, "load it with nisa.dma_copy first")
    skips = getattr(given.get("oob_mode"), "name", "") == "skip"
    if skips and all(tensor.indirect is None for _, tensor in everything):
        yield Breach("oob-skip", "oob_mode", "oob_mode.skip, and no operand has an index", "leave oob_mode out")


def _by_hardware(given: Given, operands: Operands, target: str) -> Found:
    """Descriptors that hardware makes move bytes as they are, from addresses of one index."""
    asked = chosen_engine(given)
    if asked != "unknown" and (_mode(given) != "hwdge" or asked not in ("sync", "scalar")):
        message = f"engine is {asked} with dge_mode.{_mode(given)}; it takes sync or scalar, with dge_mode.hwdge"
        yield Breach("hwdge-engine", "engine", message)
    if _mode(given) != "hwdge":
        return
    dst, src = operands.get("dst"), operands.get("src")
    if dst is not None and src is not None and dst.dtype != src.dtype:
        message = f"src is {src.dtype}, dst {dst.dtype}; dge_mode.hwdge does not convert types"
        yield Breach("hwdge-dtype", "dtype", message, "leave dge_mode out")
    for name, tensor in operands.items():
        if _by_index(tensor):
            message = f"{name} has an index for each partition, which dge_mode.hwdge does not take"
            yield Breach("hwdge-gather", name, message, "use dge_mode.swdge, or leave it out")


# -- transposes ------------------------------------------------------------------------------------------------------


def _dma_transpose(given: Given, operands: Operands, target: str) -> Found:
    dst, src, axes = operands.get("dst"), operands.get("src"), given.get("axes")
    if dst is None or src is None:
        return
    if dst.storage.buffer.is_hbm:
        yield Breach("tr-axes", "memory", f"dst is {dst!r}; a transposition by DMA ends in SBUF")
    if dst.dtype != src.dtype:
        yield Breach("tr-axes", "dtype", f"src is {src.dtype}, dst {dst.dtype}; a transposition converts nothing")
    order = _AXES.get(len(src.shape))
    if axes is not None and tuple(axes) not in _AXES.values():
        yield Breach("tr-axes", "axes", f"axes must be (1, 0), (2, 1, 0) or (3, 1, 2, 0), found {tuple(axes)}")
    elif order is None or (axes is not None and len(tuple(axes)) != len(src.shape)):
        message = f"src must have 2, 3 or 4 dimensions, and as many axes, found {len(src.shape)} dimensions"
        yield Breach("tr-axes", "axes", message)
    elif tuple(src.shape[axis] for axis in order) != dst.shape:
        wanted = [src.shape[axis] for axis in order]
        yield Breach("tr-axes", "dst", f"dst must have shape {wanted}, found {list(dst.shape)}")
    if _by_index(src):
        yield from _gathered(given, src)
    elif _mode(given) == "hwdge":
        yield from _turned_by_hardware(src)


def _turned_by_hardware(src: Tensor) -> Found:
    shape = src.shape
    if src.itemsize != 2:
        yield Breach("tr-hwdge", "dtype", f"src is {src.dtype}; dge_mode.hwdge transposes elements of 2 bytes")
    if len(shape) < 2:
        return
    if shape[-1] > 128:
        yield Breach("tr-hwdge", "last", f"the last dimension of src is {shape[-1]}; it takes at most 128")
    if len(shape) == 2 and shape[0] != 16:
        yield Breach("tr-hwdge", "first", f"src is {list(shape)}; with dge_mode.hwdge its first dimension is 16")
    if len(shape) > 2 and (shape[0] not in (1, 2, 4, 8, 16) or shape[0] * shape[-2] % 16):
        message = f"src is {list(shape)}; with dge_mode.hwdge its first dimension is 1, 2, 4, 8 or 16, and its "
        yield Breach("tr-hwdge", "first", message + "product with the last but one a multiple of 16")


def _gathered(given: Given, src: Tensor) -> Found:
    """A transposition of rows that an index selects."""
    rule = "tr-gather"
    if _mode(given) not in ("unknown", "swdge"):
        yield Breach(rule, "dge_mode", f"dge_mode.{_mode(given)}; a transposition by index takes swdge or unknown")
    if src.itemsize != 2:
        yield Breach(rule, "dtype", f"src is {src.dtype}; a transposition by index takes elements of 2 bytes")
    if src.shape[-1] > 128:
        yield Breach(rule, "last", f"the last dimension of src is {src.shape[-1]}; it takes at most 128")
    if src.shape[0] % 16:
        yield Breach(rule, "rows", f"src has {src.shape[0]} rows; a transposition by index takes a multiple of 16")
    index = None if src.indirect is None else src.indirect.index
    if not isinstance(index, Tensor):
        return
    rows, columns = index.shape[0], free_size(index)
    if index.dtype != "uint32":
        yield Breach(rule, "index.dtype", f"the index is {index.dtype}; a transposition by index takes uint32")
    if not 16 <= rows <= 128 or rows % 16 or (columns > 1 and rows != 128):
        message = f"the index is {rows} by {columns}; it takes 16 to 128 partitions, a multiple of 16, and 128 if it "
        yield Breach(rule, "index", message + "has more than one column")


# -- arithmetic ------------------------------------------------------------------------------------------------------


def _dma_compute(given: Given, operands: Operands, target: str) -> Found:
    rule, dst = "dma-compute", operands.get("dst")
    sources = [each for each in given.get("srcs") or () if isinstance(each, Tensor)]
    op, scales = getattr(given.get("reduce_op"), "__name__", None), given.get("scales")
    if op is not None and op != "add":
        yield Breach(rule, "reduce_op", f"reduce_op is nl.{op}; a DMA adds only")
    if len(sources) > _MAX_SOURCES:
        yield Breach(rule, "srcs", f"{len(sources)} sources; a DMA adds at most {_MAX_SOURCES}")
    if isinstance(scales, list | tuple) and any(isinstance(each, int | float) and each != 1 for each in scales):
        yield Breach(rule, "scales", f"scales are {list(scales)}; a DMA takes 1 only")
    if dst is None:
        return
    for at, each in enumerate(sources):
        if each.size != dst.size:
            yield Breach(rule, f"srcs[{at}]", f"srcs[{at}] has {each.size} elements, dst {dst.size}")
    if not any(_by_index(each) for each in (dst, *sources)):
        return
    if len(sources) != 2:
        yield Breach(
            rule, "count", f"{len(sources)} sources and an index for each row; it takes two, one of them dst"
        )
    elif all(each.storage is not dst.storage for each in sources):
        yield Breach(rule, "dst", "no source is dst; with an index for each row a DMA adds to what is there")
    if given.get("unique_indices") is False:
        yield Breach(rule, "unique_indices", "unique_indices=False; a DMA takes unique indices only")


# -- hints -----------------------------------------------------------------------------------------------------------


def _piece(tensor: Tensor) -> int:
    """Contiguous bytes of a view: on chip of a partition."""
    first = 0 if tensor.storage.buffer.is_hbm and not _by_index(tensor) else 1
    run = 1
    for stride, count in zip(reversed(tensor.strides[first:]), reversed(tensor.shape[first:]), strict=True):
        if count != 1:
            if stride != run:
                break
            run *= count
    return run * tensor.itemsize


def _pieces(given: Given, operands: Operands, target: str) -> Found:
    dst, src = operands.get("dst"), operands.get("src")
    for name, tensor in (("src", src), ("dst", dst)):
        total = 0 if tensor is None else tensor.size * tensor.itemsize
        if tensor is not None and total >= _SMALL and _piece(tensor) < _EFFICIENT:
            message = f"{name} is {total} bytes, of which {_piece(tensor)} at a time are contiguous"
            yield Breach("dma-small", "pieces", message, "give each partition a contiguous run of 512 bytes or more")
            return


def _turned(given: Given, operands: Operands, target: str) -> Found:
    dst, src = operands.get("dst"), operands.get("src")
    if dst is None or src is None or not dst.shape:
        return
    inside = src.storage.buffer is Buffer.sbuf and dst.storage.buffer is Buffer.sbuf
    if inside and src.size >= _BLOCK:
        yield Breach("dma-tr-sbuf", "memory", f"{src!r} is transposed into SBUF by DMA", "consider nisa.nc_transpose")
    if src.size * src.itemsize >= _SMALL and (dst.shape[0] % 128 or dst.shape[-1] % 16):
        message = f"the result has {dst.shape[0]} partitions and a last dimension of {dst.shape[-1]}"
        yield Breach("dma-tr-tiles", "tiles", message, "transpose a multiple of 128 columns and of 16 rows at once")


# -- all of them -----------------------------------------------------------------------------------------------------


DMA_LIMITS: Mapping[str, Check] = {
    "dma_copy": all_of(_memory("dma_copy"), _indices, _by_hardware, _pieces),
    "dma_transpose": all_of(_memory("dma_transpose"), _indices, _by_hardware, _dma_transpose, _turned),
    "dma_compute": all_of(_memory("dma_compute"), _indices, _dma_compute),
}
"""What is checked of each instruction."""
