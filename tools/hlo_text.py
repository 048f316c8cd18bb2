"""What the tools need to know about HLO text, found by scanning it: entry parameters, and a form XLA will run.

XLA refuses to compile a module for N partitions unless its own partitioner may run, and the modules here have
been through it already.  But a partitioned module is one program run by N cores, and so is a *replicated* one:
`as_replicas` turns partitions into replicas and changes nothing else.  Collectives lose their channel (then their
groups name replicas), `partition-id` becomes `replica-id`, and what only the partitioner reads goes away.

Groups given as axes of a mesh are written out.  XLA's parser reads them, but jaxlib 0.10 then goes by way of
StableHLO, which forgets device ids and mixes up meshes of several shapes: other cores would make a group.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

__all__ = ["Parameter", "as_replicas", "entry_parameters", "partition_count"]

_PARTITIONS = re.compile(r"^HloModule [^\n]*\bnum_partitions=(\d+)")
_PARAMETER = re.compile(
    r"^\s*(?:ROOT )?%?(\S+) = (\w+)\[([\d,]*)\]\S* parameter\((\d+)\)(, sharding=\{replicated\})?", re.MULTILINE
)
_COLLECTIVE = re.compile(
    r" (all-reduce|all-gather|reduce-scatter|all-to-all|collective-permute|collective-broadcast)(?:-start)?\("
)
_MESH = re.compile(
    r"mesh\[(?P<axes>[^\]]*)\]"
    r"(?:, device_ids=\(\[(?P<sizes>[\d,]+)\](?:T\((?P<order>[\d,]+)\))?\))?"
    r" \{(?P<along>[^}]*)\}"
)
_GLOBAL_IDS = {"all-reduce", "all-gather", "reduce-scatter"}
_PARTITIONER_ONLY = (
    "allow_spmd_sharding_propagation_to_parameters",
    "allow_spmd_sharding_propagation_to_output",
    "channel_id",
    "frontend_attributes",
    "input_output_alias",
    "metadata",
    "num_partitions",
    "sharding",
    "use_global_device_ids",
)


@dataclass(frozen=True)
class Parameter:
    """One parameter of the entry computation: its name in the text, element type and shape on one core.

    `replicated`: the text says that all cores have the same.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    replicated: bool = False


def partition_count(text: str) -> int:
    """The number of cores that the module was partitioned for."""
    match = _PARTITIONS.match(text)
    return int(match.group(1)) if match else 1


def entry_parameters(text: str) -> list[Parameter]:
    """The parameters of the entry computation in the order of their numbers."""
    entry = text[text.index("\nENTRY ") :]
    numbered = {
        int(number): Parameter(name, dtype, tuple(int(size) for size in sizes.split(",") if size), bool(replicated))
        for name, dtype, sizes, number, replicated in _PARAMETER.findall(entry)
    }
    return [numbered[number] for number in range(len(numbered))]


def as_replicas(text: str, *, donate: bool = False) -> str:
    """The module over N replicas that does what `text` does over N partitions; with `donate`, in the same places.

    Raises ValueError for a collective that does not say it works across partitions: that one would change meaning.
    """
    for number, line in enumerate(text.splitlines(), 1):
        match = _COLLECTIVE.search(line)
        if match is None:
            continue
        across = "channel_id=" in line
        if match.group(1) in _GLOBAL_IDS:
            across &= "use_global_device_ids=true" in line and "replica_groups={}" not in line
        if not across:
            raise ValueError(f"line {number}: {match.group(1)} is not across partitions")
    cores = partition_count(text)
    for attribute in _PARTITIONER_ONLY:
        if not (donate and attribute == "input_output_alias"):
            text = _without(text, attribute)
    text = re.sub(rf"(?<=replica_groups=){_MESH.pattern}", _listed, text)
    header, _, rest = text.partition("\n")
    return f"{header}, replica_count={cores}\n{rest.replace(' partition-id(', ' replica-id(')}"


def _listed(mesh: re.Match[str]) -> str:
    """Groups along some axes of a mesh as lists of cores, in the order in which the mesh is walked."""

    def numbers(field: str) -> list[int]:
        return [int(number) for number in mesh[field].split(",")]

    axes = {name.strip("'"): int(size) for name, _, size in (a.partition("=") for a in mesh["axes"].split(","))}
    along = [list(axes).index(name.strip("'")) for name in mesh["along"].split(",")]
    ids = np.arange(np.prod(list(axes.values())))
    if mesh["sizes"]:
        ids = ids.reshape(numbers("sizes"))
        ids = ids.transpose(numbers("order")) if mesh["order"] else ids
    cores = ids.reshape(list(axes.values()))
    last = np.moveaxis(cores, along, range(cores.ndim - len(along), cores.ndim))
    groups = last.reshape(-1, np.prod([cores.shape[axis] for axis in along]))
    return "{" + ",".join("{" + ",".join(map(str, group)) + "}" for group in groups.tolist()) + "}"


def _without(text: str, attribute: str) -> str:
    """`text` without every `, attribute=VALUE`; a value ends at a comma or bracket of its own depth."""
    kept: list[str] = []
    end = 0
    for match in re.finditer(rf", {attribute}=", text):
        if match.start() < end:
            continue
        kept.append(text[end : match.start()])
        end = _value_end(text, match.end())
    return "".join(kept) + text[end:]


def _value_end(text: str, at: int) -> int:
    depth, quoted = 0, False
    while True:
        char = text[at]
        if quoted:
            at += char == "\\"
            quoted = char != '"'
        elif char == '"':
            quoted = True
        elif char in "{[(":
            depth += 1
        elif char in "}])" and depth:
            depth -= 1
        elif depth == 0 and char in ",\n}])":
            return at
        at += 1
