"""Rules of the tensor engine: matrix multiplications, plain and of micro-scaled types, and transposes."""

from __future__ import annotations

from typing import Any

from haulout.frontends.nki.engines import chosen_engine
from haulout.frontends.nki.hardware_checks import Breach, Check, Found, Given, Operands, free_size
from haulout.frontends.nki.hardware_table import BANK_BYTES
from haulout.frontends.nki.storage import Buffer
from haulout.frontends.nki.tensor import Tensor

_ARRAY = 128
"""Rows and columns of processing elements."""
_BLOCK = 32
"""Rows and columns that the vector engine transposes."""
_FLOAT8 = frozenset({"float8_e4m3", "float8_e5m2", "float8_e4m3fn"})
_MULTIPLIED = _FLOAT8 | {"bfloat16", "float16", "tfloat32", "float32"}
_SINGLE = frozenset({"float32", "tfloat32"})
_SCALES = frozenset({"float8_e8m0fnu", "uint8"})
_PACKED = frozenset({"float8_e5m2_x4", "float8_e4m3fn_x4", "float4_e2m1fn_x4"})


def _most_moving(dst: Tensor, target: str) -> int:
    return 512 if target in ("gen2", "gen3") else 8192 if dst.dtype == "bfloat16" else 4096


# -- matrix multiplication -------------------------------------------------------------------------------------------


def _matmul(given: Given, operands: Operands, target: str) -> Found:
    dst, stationary, moving = (operands.get(each) for each in ("dst", "stationary", "moving"))
    if dst is None or stationary is None or moving is None:
        return
    wide = getattr(given.get("perf_mode"), "name", "none")
    # In the double modes the first free dimension is part of the contraction.
    parts = 1 if wide == "none" else 2
    most, columns = _most_moving(dst, target), free_size(moving) // parts
    if columns > most:
        message = f"moving has {columns} elements in each partition; {target} takes at most {most}"
        yield Breach("mm-moving", "moving", message, "multiply it in parts")
    else:
        yield from _bank(dst)
    rows, width, tiled = _ARRAY, _ARRAY, _pair(given.get("tile_size"))
    if tiled is not None:
        rows, width = tiled
    if free_size(stationary) // parts > width:
        message = (
            f"stationary has {free_size(stationary) // parts} elements in each partition; it takes at most {width}"
        )
        yield Breach("mm-stationary", "stationary", message, "multiply it in parts")
    if tiled is not None and stationary.shape[0] > rows:
        message = f"stationary spans {stationary.shape[0]} partitions; its tile has {rows} rows"
        yield Breach("mm-stationary", "rows", message)
    yield from _tile(given, dst, target)
    yield from _types(given, dst, stationary, moving, target)
    if wide == "double_row":
        yield from _double_row(given, stationary, moving, target)


def _types(given: Given, dst: Tensor, stationary: Tensor, moving: Tensor, target: str) -> Found:
    kinds = {"stationary": stationary.dtype, "moving": moving.dtype}
    transposes = bool(given.get("is_transpose"))
    for name, dtype in kinds.items():
        if dtype not in _MULTIPLIED and not (transposes and name == "stationary"):
            what = "multiplies no integers" if "int" in dtype or dtype == "bool" else "does not multiply it"
            yield Breach("mm-dtype", name, f"{name} is {dtype}; the tensor engine {what}")
        elif dtype == "float8_e4m3fn" and target != "gen4":
            yield Breach("mm-dtype", name, f"{name} is {dtype}, which needs gen4; the target is {target}")
    if set(kinds.values()) >= {"float8_e4m3", "float8_e4m3fn"}:
        message = f"stationary is {stationary.dtype}, moving {moving.dtype}; the two kinds of float8_e4m3 do not mix"
        yield Breach("mm-dtype", "types", message)
    single = [dtype in _SINGLE for dtype in kinds.values()]
    if any(single) and not all(single) and not (transposes and stationary.dtype not in _MULTIPLIED):
        message = f"stationary is {stationary.dtype}, moving {moving.dtype}; float32 needs float32 on both sides"
        yield Breach("mm-dtype", "types", message)
    if not transposes:
        if dst.dtype != "float32" and not (target == "gen4" and dst.dtype == "bfloat16"):
            yield Breach("mm-dtype", "dst", f"dst is {dst.dtype}; {target} accumulates in float32")
    elif dst.dtype != stationary.dtype and not (stationary.itemsize == 1 and dst.itemsize == 2):
        yield Breach("mm-tr-dtype", "dst", f"dst is {dst.dtype}, stationary {stationary.dtype}, with is_transpose")


def _double_row(given: Given, stationary: Tensor, moving: Tensor, target: str) -> Found:
    rule = "mm-double-row"
    if target == "gen2":
        yield Breach(rule, "perf_mode", "perf_mode.double_row needs gen3; the target is gen2")
    for name, tensor in (("stationary", stationary), ("moving", moving)):
        if tensor.dtype not in _FLOAT8:
            yield Breach(rule, name, f"{name} is {tensor.dtype}; perf_mode.double_row takes float8")
        if len(tensor.shape) < 2 or tensor.shape[1] != 2:
            message = f"{name} is {tensor!r}; with perf_mode.double_row its first free dimension is 2"
            yield Breach(rule, f"{name}.shape", message)
    tiled = _pair(given.get("tile_size"))
    if tiled is not None and tiled[1] != _ARRAY:
        yield Breach(rule, "tile_size", f"tile_size is {tiled}; perf_mode.double_row has no column tiles")
    if given.get("is_transpose"):
        yield Breach(rule, "is_transpose", "is_transpose with perf_mode.double_row; it multiplies only")


def _pair(value: Any) -> tuple[int, int] | None:
    """A position or a size in the array, where it is known."""
    if isinstance(value, list | tuple) and len(value) == 2 and all(isinstance(each, int) for each in value):
        return (value[0], value[1])
    return None


def _tile(given: Given, dst: Tensor, target: str) -> Found:
    both = given.get("tile_position"), given.get("tile_size")
    if not both[0] and not both[1]:
        return
    if not both[0] or not both[1]:
        there, gone = ("tile_position", "tile_size") if both[0] else ("tile_size", "tile_position")
        yield Breach("mm-tile", gone, f"{there} is given without {gone}")
        return
    position, size = _pair(both[0]), _pair(both[1])
    if position is None or size is None:
        return
    sizes = (64, 128) if target == "gen2" else (32, 64, 128)
    for at, word in enumerate(("row", "column")):
        if size[at] not in sizes:
            yield Breach("mm-tile", word, f"a {word} size of {size[at]}; {target} has {', '.join(map(str, sizes))}")
        elif position[at] % size[at] or not 0 <= position[at] <= _ARRAY - size[at]:
            message = f"a tile of {size[at]} {word}s starts at {position[at]}; it must start at a multiple inside 128"
            yield Breach("mm-tile", word, message)
    first = _first_partition(dst)
    if first is not None and first != position[1]:
        message = f"dst starts at partition {first}, the tile at column {position[1]}"
        yield Breach("mm-tile-dst", "dst", message, "write the partitions that the tile's columns lead to")


def _first_partition(tensor: Tensor) -> int | None:
    """The first partition of a view; None where its tensor's is not known."""
    storage = tensor.storage
    if tensor.indirect is not None or not storage.row_bytes or storage.buffer.is_hbm:
        return None
    inside = tensor.offset * tensor.itemsize // storage.row_bytes
    # A tensor of more than 64 partitions starts at 0; of fewer, where the compiler puts it.
    return storage.partition + inside if storage.address is not None or storage.partitions > 64 else None


def psum_bytes(tensor: Tensor) -> tuple[int, int]:
    """The bytes of each partition from the first to the last that a view covers, from the start of its tensor."""
    storage = tensor.storage
    last = sum(
        (count - 1) * max(stride, 0) for stride, count in zip(tensor.strides[1:], tensor.shape[1:], strict=True)
    )
    begin = tensor.offset * tensor.itemsize % max(storage.row_bytes, 1)
    return begin, begin + (last + 1) * tensor.itemsize


def _bank(dst: Tensor) -> Found:
    """One result is in one bank: known where the kernel chose the address, or the result is longer than any."""
    storage = dst.storage
    if storage.buffer is not Buffer.psum or (storage.address is None and storage.row_bytes <= BANK_BYTES):
        return
    begin, end = psum_bytes(dst)
    if storage.address is None:
        if end - begin > BANK_BYTES:
            message = (
                f"dst spans {end - begin} bytes of each partition; a result must fit one bank of {BANK_BYTES} bytes"
            )
            yield Breach("mm-bank", "dst", message)
        return
    begin, end = storage.address + begin, storage.address + end
    if begin // BANK_BYTES != (end - 1) // BANK_BYTES:
        message = f"dst takes bytes {begin}:{end} of each partition; a result must fit one bank of {BANK_BYTES} bytes"
        yield Breach("mm-bank", "dst", message)


class Accumulation:
    """The bytes of PSUM that matrix multiplications have written, as bits, by tensor; one entry for all tensors that
    the kernel places, which may overlap."""

    def __init__(self) -> None:
        self._written: dict[int, int] = {}

    def add(self, dst: Tensor) -> None:
        """A matrix multiplication writes `dst`."""
        key, bits = self._place(dst)
        self._written[key] = self._written.get(key, 0) | bits

    def check(self, dst: Tensor) -> Breach | None:
        """`accumulate=True` where none has written."""
        key, bits = self._place(dst)
        if self._written.get(key, 0) & bits:
            return None
        return Breach(
            "mm-acc",
            "dst",
            f"accumulate=True adds to {dst!r}, which no matrix multiplication has written",
            "overwrite it with accumulate=False first, or leave accumulate out",
        )

    @staticmethod
    def _place(dst: Tensor) -> tuple[int, int]:
        storage = dst.storage
        begin, end = psum_bytes(dst)
        bits = (1 << end) - (1 << begin)
        return (storage.number, bits) if storage.address is None else (-1, bits << storage.address)


# -- micro-scaled types ----------------------------------------------------------------------------------------------


def _matmul_mx(given: Given, operands: Operands, target: str) -> Found:
    names = ("dst", "stationary", "moving", "stationary_scale", "moving_scale")
    found = [operands.get(each) for each in names]
    dst, stationary, moving = found[:3]
    if dst is None or stationary is None or moving is None:
        return
    rows, columns, most = stationary.shape[0], free_size(stationary), _most_moving(dst, target)
    if rows not in (32, 64, 96, 128) or rows != moving.shape[0]:
        message = f"stationary spans {rows} partitions, moving {moving.shape[0]}; both need 32, 64, 96 or 128"
        yield Breach("mx-shape", "partitions", message)
    if columns % 2 or columns > _ARRAY:
        message = f"stationary has {columns} elements in each partition; it takes an even number of at most 128"
        yield Breach("mx-shape", "stationary", message)
    if free_size(moving) > most:
        message = f"moving has {free_size(moving)} elements in each partition; it takes at most {most}"
        yield Breach("mx-shape", "moving", message)
    tiled = _pair(given.get("tile_size"))
    if tiled is not None and tiled[1] != _ARRAY:
        yield Breach("mx-shape", "tile_size", f"tile_size is {tiled}; nc_matmul_mx has no column tiles")
    for name, tensor, data in zip(names[3:], found[3:], (stationary, moving), strict=True):
        if tensor is None:
            continue
        few = data.shape[0] == _BLOCK and tensor.shape[0] == _BLOCK // 8
        if tensor.shape[0] != data.shape[0] and not few:
            message = f"{name} spans {tensor.shape[0]} partitions, its data {data.shape[0]}"
            yield Breach("mx-shape", name, message)
        if tensor.dtype not in _SCALES:
            yield Breach("mx-dtype", name, f"{name} is {tensor.dtype}; it takes float8_e8m0fnu or uint8")
    for name, tensor in (("stationary", stationary), ("moving", moving)):
        if tensor.dtype not in _PACKED:
            yield Breach("mx-dtype", name, f"{name} is {tensor.dtype}; it takes a 4-packed type")
    if dst.dtype not in ("float32", "bfloat16"):
        yield Breach("mx-dtype", "dst", f"dst is {dst.dtype}; it takes float32 or bfloat16")


def _quantize_mx(given: Given, operands: Operands, target: str) -> Found:
    dst, src, scale = (operands.get(each) for each in ("dst", "src", "dst_scale"))
    for name, tensor in operands.items():
        if tensor.storage.buffer is Buffer.psum:
            yield Breach("sbuf-only", name, f"{name} is {tensor!r}; quantize_mx takes SBUF only")
    if dst is None or src is None:
        return
    if src.shape[0] % _BLOCK or free_size(src) % 4:
        message = f"src is {src!r}; it takes a multiple of 32 partitions and of 4 elements in each"
        yield Breach("mx-shape", "src", message)
    elif dst.shape[0] != src.shape[0] or 4 * free_size(dst) != free_size(src):
        yield Breach(
            "mx-shape", "dst", f"dst is {dst!r}; it has as many partitions as src, and a quarter of its elements"
        )
    if src.dtype not in ("float16", "bfloat16"):
        yield Breach("mx-dtype", "src", f"src is {src.dtype}; it takes float16 or bfloat16")
    if dst.dtype not in _PACKED - {"float4_e2m1fn_x4"}:
        yield Breach("mx-dtype", "dst", f"dst is {dst.dtype}; it takes float8_e5m2_x4 or float8_e4m3fn_x4")
    if scale is not None and scale.dtype not in _SCALES:
        yield Breach("mx-dtype", "dst_scale", f"dst_scale is {scale.dtype}; it takes float8_e8m0fnu or uint8")


# -- transposes ------------------------------------------------------------------------------------------------------


def _transpose(given: Given, operands: Operands, target: str) -> Found:
    dst, data = operands.get("dst"), operands.get("data")
    if dst is None or data is None:
        return
    if dst.dtype != data.dtype:
        yield Breach("tr-dtype", "dst", f"dst is {dst.dtype}, data {data.dtype}; a transposition must keep the type")
    chosen = chosen_engine(given)
    rows, columns = data.shape[0], free_size(data)
    if chosen == "unknown":
        chosen = "tensor" if dst.storage.buffer is Buffer.psum else "vector"
    if chosen == "vector" and max(rows, columns) > _BLOCK:
        yield Breach("tr-size", "data", f"data is {rows} by {columns}; the vector engine transposes 32 by 32")
    if chosen == "tensor" and max(rows, columns) > _ARRAY:
        yield Breach("tr-size", "data", f"data is {rows} by {columns}; the tensor engine transposes 128 by 128")
    if dst.size == data.size and (dst.shape[0], free_size(dst)) != (columns, rows):
        message = (
            f"dst is {dst.shape[0]} by {free_size(dst)}, data {rows} by {columns}; dst must be {columns} by {rows}"
        )
        yield Breach("tr-size", "dst", message)
    if chosen == "tensor" and (dst.storage.buffer is not Buffer.psum or data.storage.buffer is Buffer.psum):
        message = (
            f"data is in {data.buffer.value}, dst in {dst.buffer.value}; the tensor engine reads SBUF, writes PSUM"
        )
        yield Breach("tr-mem", "memory", message)


MATMUL_LIMITS: dict[str, Check] = {
    "nc_matmul": _matmul,
    "nc_matmul_mx": _matmul_mx,
    "quantize_mx": _quantize_mx,
    "nc_transpose": _transpose,
}
"""What is checked of each instruction."""
