"""What PyTorch computes for a case, under the names of the program's results."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from tests.frontends.hlo.from_torch.models import Case
from torch.utils import _pytree as pytree


def results(case: Case) -> dict[str, Any]:
    """What the module returns, and its buffers after that; the case stays as it is."""
    module = copy.deepcopy(case.module)
    with torch.no_grad():
        returned, _ = pytree.tree_flatten_with_path(module(*copy.deepcopy(case.args)))
    found = {"result" + pytree.keystr(path): leaf.detach().numpy() for path, leaf in returned}
    return found | {name: buffer.numpy() for name, buffer in module.named_buffers()}


def for_cores(
    wanted: Mapping[str, Any], inputs: Mapping[str, Any], names: list[str | None], cores: int
) -> dict[str, Any]:
    """The results of these names: where the cores have parts of a buffer, their parts of its new contents."""
    found: dict[str, Any] = {}
    for name in filter(None, names):
        if name.startswith("result") or name in inputs:
            found[name] = wanted[name]
            continue
        part = inputs[f"nc0/{name}"].shape
        (axis,) = (at for at, extent in enumerate(wanted[name].shape) if extent != part[at])
        found |= {f"nc{core}/{name}": each for core, each in enumerate(np.split(wanted[name], cores, axis))}
    return found
