"""Rules of instructions that search, gather, count and draw random numbers; see `hardware_rules.py`."""

from __future__ import annotations

import math

from haulout.frontends.nki.engines import chosen_engine
from haulout.frontends.nki.hardware_checks import Breach, Check, Found, Given, Operands, all_of, free_size
from haulout.frontends.nki.hardware_limits import alike, columns, has_engine, same_type
from haulout.frontends.nki.storage import Buffer


def _elements(rule: str, name: str, least: int, most: int) -> Check:
    """An operand with a bounded number of elements in each partition."""

    def check(given: Given, operands: Operands, target: str) -> Found:
        tensor = operands.get(name)
        if tensor is not None and not least <= free_size(tensor) <= most:
            takes = str(least) if least == most else f"{least} to {most}"
            yield Breach(rule, name, f"{name} has {free_size(tensor)} elements in each partition; it takes {takes}")

    return check


def _indices(rule: str, name: str, types: str) -> Check:
    """An operand that holds positions."""

    def check(given: Given, operands: Operands, target: str) -> Found:
        tensor = operands.get(name)
        if tensor is not None and tensor.dtype not in types.split():
            yield Breach(rule, f"{name}.dtype", f"{name} is {tensor.dtype}; it takes {' or '.join(types.split())}")

    return check


def _match_replace(given: Given, operands: Operands, target: str) -> Found:
    if "dst_idx" in operands:
        yield Breach("gen-idx", "dst_idx", f"dst_idx is given; the target is {target}")


def _bn_aggr(given: Given, operands: Operands, target: str) -> Found:
    data = operands.get("data")
    if data is not None and free_size(data) % 3:
        yield Breach(
            "bn-512", "data", f"data has {free_size(data)} elements in each partition; it takes a multiple of 3"
        )


def _local_gather(given: Given, operands: Operands, target: str) -> Found:
    rule, source, index = "gather-16", operands.get("src_buffer"), operands.get("index")
    for name, tensor in (("src_buffer", source), ("index", index)):
        if tensor is not None and tensor.shape[0] % 16:
            yield Breach(rule, name, f"{name} spans {tensor.shape[0]} partitions; it takes a multiple of 16")
    if index is None:
        return
    if source is not None and source.shape[0] != index.shape[0]:
        yield Breach(rule, "partitions", f"src_buffer spans {source.shape[0]} partitions, index {index.shape[0]}")
    valid = given.get("num_valid_indices")
    count = valid if isinstance(valid, int) else 16 * free_size(index)
    if count > 4096:
        yield Breach(rule, "count", f"{count} indices for 16 partitions; it takes at most 4096")
    length = given.get("num_elem_per_idx")
    if isinstance(length, int) and length not in (1, 2, 4, 8, 16, 32):
        yield Breach(rule, "num_elem_per_idx", f"num_elem_per_idx is {length}; it takes 1, 2, 4, 8, 16 or 32")


def _n_gather(given: Given, operands: Operands, target: str) -> Found:
    dst, index = operands.get("dst"), operands.get("indices")
    if dst is not None and index is not None and free_size(dst) != free_size(index):
        message = f"dst has {free_size(dst)} elements in each partition, indices {free_size(index)}"
        yield Breach("gather-16", "count", message)


def _pattern(given: Given, operands: Operands, target: str) -> Found:
    dst, pattern = operands.get("dst"), given.get("pattern")
    if dst is None or not isinstance(pattern, list | tuple) or not pattern:
        return
    if not all(isinstance(each, list | tuple) and len(each) == 2 and isinstance(each[1], int) for each in pattern):
        return
    if len(pattern) > 4:
        yield Breach("pattern-size", "rank", f"pattern has {len(pattern)} dimensions; it takes at most 4")
    count = math.prod(each[1] for each in pattern)
    if count != free_size(dst):
        message = f"pattern has {count} elements, dst {free_size(dst)} in each partition"
        yield Breach("pattern-size", "count", message)


def _shuffle(given: Given, operands: Operands, target: str) -> Found:
    mask, dst, src = given.get("shuffle_mask"), operands.get("dst"), operands.get("src")
    if isinstance(mask, list | tuple) and all(isinstance(each, int) for each in mask):
        wrong = [each for each in mask if not (0 <= each < 32 or each == 255)]
        if len(mask) != 32 or wrong:
            what = f"an entry {wrong[0]}" if wrong else f"{len(mask)} entries"
            yield Breach("shuffle-mask", "mask", f"the mask has {what}; it takes 32, each 0 to 31 or 255")
    if dst is not None and src is not None and dst.dtype != src.dtype:
        yield Breach("shuffle-mask", "dtype", f"src is {src.dtype}, dst {dst.dtype}; a shuffle converts nothing")


def _nonzero(given: Given, operands: Operands, target: str) -> Found:
    dst, src = operands.get("dst"), operands.get("src")
    if dst is not None and src is not None and free_size(dst) != free_size(src) + 1:
        message = (
            f"dst has {free_size(dst)} elements in each partition; src has {free_size(src)}, and the count is one"
        )
        yield Breach("count-shape", "dst", message)


def _topk(given: Given, operands: Operands, target: str) -> Found:
    src, count = operands.get("src"), given.get("n")
    if src is not None and src.shape[0] % 16:
        yield Breach("count-shape", "src", f"src spans {src.shape[0]} partitions; it takes a multiple of 16")
    if isinstance(count, int) and not 8 <= count < 65536:
        yield Breach("count-shape", "n", f"n is {count}; it takes 8 to 65535")


def _sequence(given: Given, operands: Operands, target: str) -> Found:
    tensor = operands.get("segment_ids")
    if tensor is not None and tensor.shape[0] != 1:
        yield Breach("count-shape", "segment_ids", f"segment_ids spans {tensor.shape[0]} partitions; it takes one")


def _seed(given: Given, operands: Operands, target: str) -> Found:
    tensor = operands.get("src_seeds")
    if tensor is not None and (tensor.size != 1 or tensor.itemsize != 4):
        yield Breach("count-shape", "src_seeds", f"src_seeds is {tensor!r}; it takes one element of 32 bits")


def _random(given: Given, operands: Operands, target: str) -> Found:
    tensor = operands.get("src_seeds")
    if tensor is not None and tensor.storage.buffer is Buffer.psum and chosen_engine(given) == "vector":
        yield Breach("sbuf-only", "src_seeds", f"src_seeds is {tensor!r}; it must be in SBUF")


_INTEGERS = "int8 int16 int32 uint8 uint16 uint32"

SIZE_LIMITS: dict[str, Check] = {
    "bn_stats": all_of(_elements("bn-512", "data", 1, 512), _elements("bn-512", "dst", 6, 6)),
    "bn_aggr": _bn_aggr,
    "max8": all_of(_elements("find-16384", "src", 8, 16384), _elements("find-16384", "dst", 8, 8)),
    "nc_find_index8": all_of(
        _elements("find-16384", "data", 8, 16384),
        _elements("find-16384", "vals", 8, 8),
        _elements("find-16384", "dst", 8, 8),
        _indices("find-16384", "dst", "uint16 uint32"),
    ),
    "nc_match_replace8": all_of(
        _elements("find-16384", "data", 1, 16384),
        _elements("find-16384", "vals", 8, 8),
        _elements("find-16384", "dst_idx", 8, 8),
        _match_replace,
    ),
    "local_gather": all_of(
        _local_gather, _indices("gather-16", "index", "uint16"), same_type("gather-16", "dst", "src_buffer")
    ),
    "nc_n_gather": all_of(
        _n_gather, _indices("gather-16", "indices", "uint32"), same_type("gather-16", "dst", "data")
    ),
    "iota": _pattern,
    "affine_select": all_of(alike("on_true_tile"), _pattern),
    "nc_stream_shuffle": all_of(alike("src"), _shuffle),
    "nonzero_with_count": all_of(
        _nonzero, _indices("count-shape", "src", "float32 int32"), _indices("count-shape", "dst", "int32")
    ),
    "topk": all_of(
        _topk,
        _indices("count-shape", "src", "bfloat16"),
        _indices("count-shape", "val_dst", "bfloat16"),
        _indices("count-shape", "idx_dst", "uint32"),
    ),
    "sequence_bounds": all_of(_sequence, _indices("count-shape", "segment_ids", "float32 int32")),
    "rng": all_of(has_engine("rng"), _indices("count-shape", "dst", _INTEGERS)),
    "rand2": columns("min", "max"),
    "set_rng_seed": _seed,
    "rand_set_state": all_of(has_engine("rand_set_state"), _random, _indices("count-shape", "src_seeds", "uint32")),
    "rand_get_state": all_of(has_engine("rand_get_state"), _indices("count-shape", "dst", "uint32")),
}
"""What is checked of each instruction."""
