"""The cores of a module: its partitions; or its replicas, where there is one partition.

A header may leave their number open: users of `torch_xla` and of `jax.pmap` say it when they run the program. Then
it is one more than the largest id in the groups and pairs of the collectives, or what the caller says. They are
partitions if the program asks for the number of its partition, exchanges data by it (`all-to-all` and
`collective-permute` with `channel_id`), or has shardings and ids of devices; else they are replicas.
"""

from __future__ import annotations

import re
from dataclasses import replace
from math import prod

from haulout.frontends.hlo.model import HloModule
from haulout.ir.schema import MAX_CORES
from haulout.support.diagnostics import bad_input

_HEADER = {"num_partitions", "replica_count"}
_ID = re.compile(r"[0-9]{1,6}")
_LISTS = re.compile(r"[{}0-9,\s]*")
_IOTA = re.compile(r"\[[0-9]{1,6},[0-9]{1,6}\]<=\[((?:[0-9]{1,6},?){1,8})\](?:T\([0-9,]*\))?")
_BY_PARTITION = ("all-to-all", "collective-permute")


def with_cores(module: HloModule, cores: int | None) -> HloModule:
    """The module for its cores, `cores` of them where the file does not say.

    Raises `HauloutError` (`bad-input`) if it says another number, or more than are supported.
    """
    partitions, replicas = module.num_partitions, module.replica_count
    if cores is None and partitions == replicas == 1 and not _HEADER.intersection(module.attributes):
        cores = _named(module)
    if cores not in (None, 1) and partitions == replicas == 1:
        if _counts_partitions(module):
            partitions = cores
        else:
            replicas = cores
    elif cores not in (None, partitions * replicas):
        what = f"num_partitions={partitions}" + (f" and replica_count={replicas}" if replicas > 1 else "")
        bad_input(f"{module.file} has {what}, so it is not for {cores} cores")
    for key, count in (("num_partitions", partitions), ("replica_count", replicas)):
        if count > MAX_CORES:
            message = f"{key}={count}: at most {MAX_CORES} cores are supported"
            module.attributes[key].fail(message) if key in module.attributes else bad_input(message)
    if partitions == 1 < replicas:
        return replace(module, num_partitions=replicas, replica_count=1, by_replica=True)
    return replace(module, num_partitions=partitions, replica_count=replicas)


def _named(module: HloModule) -> int:
    """One more than the largest id that a collective names, as far as ids are written out."""
    largest = 0
    for computation in module.computations.values():
        for instruction in computation.instructions:
            for key in ("replica_groups", "source_target_pairs"):
                value = instruction.attributes.get(key)
                if value is not None and (match := _IOTA.fullmatch(value.text.strip())):
                    largest = max(largest, prod(int(each) for each in match[1].split(",")) - 1)
                elif value is not None and _LISTS.fullmatch(value.text):
                    largest = max([largest, *(int(each) for each in _ID.findall(value.text))])
    return largest + 1


def _counts_partitions(module: HloModule) -> bool:
    """Whether the program tells partitions apart."""
    instructions = [each for computation in module.computations.values() for each in computation.instructions]
    by_device = any("use_global_device_ids" in each.attributes for each in instructions)
    return any(
        each.opcode == "partition-id"
        or (each.opcode in _BY_PARTITION and "channel_id" in each.attributes)
        or (by_device and "sharding" in each.attributes)
        for each in instructions
    )
