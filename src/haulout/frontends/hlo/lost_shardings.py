"""Shardings of the parameters of a partitioned module, from the text before partitioning.

From JAX 0.12 on, XLA's partitioner leaves no sharding on the parameters of the entry. Without it nothing says which
cores get equal bytes. The dump before the pass still has it, and the parameters have the same numbers there. One that
has none there is replicated: the partitioner gives this sharding to everything that has none.
"""

from __future__ import annotations

import re

from haulout.frontends.hlo.model import HloModule
from haulout.frontends.hlo.parser import parse_hlo

_PARAMETER = re.compile(r"= .* parameter\(")
_REPLICATED = "{replicated}"


def with_shardings(text: str, before: str) -> str:
    """The text of a partitioned module with a sharding on every parameter of its entry; `before` is the text before.

    Raises `HauloutError` (`bad-input`) if a text cannot be parsed, or if the two have other parameters.
    """
    entry = text[max(text.find("\nENTRY"), 0) :]
    if all("sharding=" in line for line in entry.splitlines() if _PARAMETER.search(line)):
        return text  # as older versions write it; there is no need to parse it twice
    module = parse_hlo(text, "<after partitioning>")
    lacking = [each for each in module.entry.parameters if "sharding" not in each.attributes]
    if module.num_partitions == 1 or not lacking:
        return text
    known = _shardings(parse_hlo(before, "<before partitioning>"))
    if len(known) != len(module.entry.parameters):
        module.entry.where.fail(
            f"{len(known)} parameters before partitioning, {len(module.entry.parameters)} after it"
        )
    for parameter in sorted(lacking, key=lambda each: each.where.start, reverse=True):
        at = text.index(")", parameter.where.end) + 1  # `parameter(0)`; `where` ends before the bracket
        text = f"{text[:at]}, sharding={known[parameter.number]}{text[at:]}"
    return text


def _shardings(module: HloModule) -> list[str]:
    """Of each parameter of the entry."""
    values = [each.attributes.get("sharding") for each in module.entry.parameters]
    return [_REPLICATED if value is None else value.text for value in values]
