"""Modules written by hand, for forms of collectives and branches that JAX's front end does not produce.

Other compilers, and XLA's own later passes, combine collectives into one with several operands and write replica
groups in every notation there is; they branch on predicates, and on indices that are out of range.  These texts hold
them; what they compute is asked of XLA (`hlo_judge`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

__all__ = ["TEXTS", "Text"]


@dataclass(frozen=True)
class Text:
    """A named text and the numbers of cores it is made for; where XLA cannot run it, it is asked about `same`."""

    name: str
    cores: tuple[int, ...]
    build: Callable[[int], str]
    same: Callable[[int], str] | None = None


_COMPUTATIONS = """
%add (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %sum = f32[] add(%a, %b)
}

%mul (c: f32[], d: f32[]) -> f32[] {
  %c = f32[] parameter(0)
  %d = f32[] parameter(1)
  ROOT %product = f32[] multiply(%c, %d)
}
"""

_BRANCHES = """
%swapped (p.0: (f32[3], f32[3])) -> (f32[3], f32[3]) {
  %p.0 = (f32[3], f32[3]) parameter(0)
  %p.0.0 = f32[3] get-tuple-element(%p.0), index=0
  %p.0.1 = f32[3] get-tuple-element(%p.0), index=1
  ROOT %r.0 = (f32[3], f32[3]) tuple(%p.0.1, %p.0.0)
}

%same (p.1: (f32[3], f32[3])) -> (f32[3], f32[3]) {
  ROOT %p.1 = (f32[3], f32[3]) parameter(0)
}

%less (p.2: (f32[3], f32[3])) -> (f32[3], f32[3]) {
  %p.2 = (f32[3], f32[3]) parameter(0)
  %p.2.0 = f32[3] get-tuple-element(%p.2), index=0
  %p.2.1 = f32[3] get-tuple-element(%p.2), index=1
  %d.2 = f32[3] subtract(%p.2.0, %p.2.1)
  ROOT %r.2 = (f32[3], f32[3]) tuple(%p.2.0, %d.2)
}

%wide (p.3: f32[3]) -> (f32[3], f32[3]) {
  %p.3 = f32[3] parameter(0)
  %s.3 = f32[3] multiply(%p.3, %p.3)
  ROOT %r.3 = (f32[3], f32[3]) tuple(%s.3, %p.3)
}

%chosen (p.4: (f32[3], f32[3]), p.5: pred[]) -> (f32[3], f32[3]) {
  %p.4 = (f32[3], f32[3]) parameter(0)
  %p.5 = pred[] parameter(1)
  ROOT %r.4 = (f32[3], f32[3]) conditional(%p.5, %p.4, %p.4), true_computation=%swapped, false_computation=%less
}
"""


def _module(
    cores: int,
    name: str,
    parameters: Mapping[str, str],
    body: str,
    result: str,
    *,
    replicated: tuple[str, ...] = (),
    computations: str = _COMPUTATIONS,
) -> str:
    """Module text: `parameters` has their types by name, `body` the statements after them, the last one the root."""
    types = ", ".join(parameters.values())
    typed = ", ".join(f"{key}: {kind}" for key, kind in parameters.items())
    statements = [
        f"%{key} = {kind} parameter({k}){', sharding={replicated}' if key in replicated else ''}"
        for k, (key, kind) in enumerate(parameters.items())
    ]
    statements += body.strip().splitlines()
    lines = "\n".join(f"  {statement.strip()}" for statement in statements if statement.strip())
    header = f"HloModule {name}, entry_computation_layout={{({types})->{result}}}, num_partitions={cores}"
    return f"{header}\n{computations}\nENTRY %main ({typed}) -> {result} {{\n{lines}\n}}\n"


def _everyone(cores: int) -> str:
    return "{{" + ",".join(str(core) for core in range(cores)) + "}}"


def tuple_all_reduce(cores: int) -> str:
    """Two operands of different shape in one all-reduce; a product, too."""
    how = f"channel_id=1, replica_groups={_everyone(cores)}, use_global_device_ids=true"
    return _module(
        cores,
        "tuple_all_reduce",
        {"x": "f32[3,4]", "y": "f32[5]"},
        f"""
        %both = (f32[3,4], f32[5]) all-reduce(%x, %y), {how}, to_apply=%add
        %first = f32[3,4] get-tuple-element(%both), index=0
        %second = f32[5] get-tuple-element(%both), index=1
        %product = f32[5] all-reduce(%second), {how}, to_apply=%mul
        ROOT %result = (f32[3,4], f32[5], f32[5]) tuple(%first, %second, %product)
        """,
        "(f32[3,4], f32[5], f32[5])",
    )


def tuple_all_gather(cores: int) -> str:
    """Two operands, gathered along the same dimension."""
    how = f"channel_id=1, replica_groups={_everyone(cores)}, use_global_device_ids=true"
    x, y = f"f32[3,{4 * cores}]", f"s32[2,{cores}]"
    return _module(
        cores,
        "tuple_all_gather",
        {"x": "f32[3,4]", "y": "s32[2,1]"},
        f"""
        %both = ({x}, {y}) all-gather(%x, %y), {how}, dimensions={{1}}
        %first = {x} get-tuple-element(%both), index=0
        %second = {y} get-tuple-element(%both), index=1
        ROOT %result = ({x}, {y}) tuple(%first, %second)
        """,
        f"({x}, {y})",
    )


def tuple_reduce_scatter(cores: int) -> str:
    """Two operands, scattered along the same dimension."""
    return _reduce_scatters(cores, combined=True)


def _two_reduce_scatters(cores: int) -> str:
    return _reduce_scatters(cores, combined=False)


def _reduce_scatters(cores: int, combined: bool) -> str:
    how = f"channel_id=1, replica_groups={_everyone(cores)}, use_global_device_ids=true, dimensions={{0}}"
    one = f"""
        %both = (f32[2,3], f32[1]) reduce-scatter(%x, %y), {how}, to_apply=%add
        %first = f32[2,3] get-tuple-element(%both), index=0
        %second = f32[1] get-tuple-element(%both), index=1
        """
    two = f"""
        %first = f32[2,3] reduce-scatter(%x), {how}, to_apply=%add
        %second = f32[1] reduce-scatter(%y), {how}, to_apply=%add
        """
    return _module(
        cores,
        "tuple_reduce_scatter",
        {"x": f"f32[{2 * cores},3]", "y": f"f32[{cores}]"},
        f"""
        {one if combined else two}
        ROOT %result = (f32[2,3], f32[1]) tuple(%first, %second)
        """,
        "(f32[2,3], f32[1])",
    )


def tuple_all_to_all(cores: int) -> str:
    """The form without a split dimension: operand i goes to core i, result i comes from it."""
    names = [f"x{core}" for core in range(cores)]
    kind = "f32[2,3]"
    kinds = "(" + ", ".join([kind] * cores) + ")"
    got = "\n".join(f"%y{core} = {kind} get-tuple-element(%all), index={core}" for core in range(cores))
    results = ", ".join(f"%y{core}" for core in reversed(range(cores)))
    operands = ", ".join(f"%{name}" for name in names)
    return _module(
        cores,
        "tuple_all_to_all",
        dict.fromkeys(names, kind),
        f"""
        %all = {kinds} all-to-all({operands}), channel_id=1, replica_groups={_everyone(cores)}
        {got}
        ROOT %result = {kinds} tuple({results})
        """,
        kinds,
    )


def uncommon(cores: int) -> str:
    """Instructions that JAX expands or that only XLA's later passes make."""
    return _uncommon(cores, "bitcast")


def _common(cores: int) -> str:
    return _uncommon(cores, "reshape")


def _uncommon(cores: int, view: str) -> str:
    return _module(
        cores,
        "uncommon",
        {"x": "f32[3,4]"},
        f"""
        %y = f32[3,4] logistic(%x)
        %v = f32[2,6] {view}(%y)
        ROOT %result = (f32[3,4], f32[2,6]) tuple(%y, %v)
        """,
        "(f32[3,4], f32[2,6])",
    )


def group_notations(cores: int) -> str:
    """Every notation of replica groups: lists, iotas, mesh axes; the last two in another order of cores, too.

    Each core has its own data, so each way of grouping has its own sums.
    """
    half = cores // 2
    listed = "{" + ",".join(f"{{{k},{k + half}}}" for k in range(half)) + "}"
    notations = (
        listed,
        f"[{half},2]<=[{cores}]",
        f"[{half},2]<=[2,{half}]T(1,0)",
        f"[1,{cores}]<=[{cores}]",
        f"mesh['a'={half},'b'=2] {{'b'}}",
        f"mesh['a'={half},'b'=2] {{'a'}}",
        f"mesh['a'=2,'b'={half}], device_ids=([{half},2]T(1,0)) {{'b'}}",
        f"mesh['a'=2,'b'=1,'c'={half}] {{'a','c'}}",
    )
    sums = "\n".join(
        f"%sum{k} = f32[3] all-reduce(%x), channel_id={k + 1}, replica_groups={groups}, "
        "use_global_device_ids=true, to_apply=%add"
        for k, groups in enumerate(notations)
    )
    kinds = "(" + ", ".join(["f32[3]"] * len(notations)) + ")"
    return _module(
        cores,
        "group_notations",
        {"x": "f32[3]"},
        f"""
        {sums}
        ROOT %result = {kinds} tuple({", ".join(f"%sum{k}" for k in range(len(notations)))})
        """,
        kinds,
    )


def conditional_forms(cores: int) -> str:
    """Predicates and indices, tuples and arrays as operands; indices from -2 to 5, for three branches.

    `flag` and `k` differ between cores, `all` does not.
    """
    kind = "(f32[3], f32[3])"
    return _module(
        cores,
        "conditional_forms",
        {"x": "f32[3]", "y": "f32[3]", "flag": "pred[]", "k": "s32[]", "all": "pred[]"},
        f"""
        %xy = {kind} tuple(%x, %y)
        %called = {kind} call(%xy, %flag), to_apply=%chosen
        %same_everywhere = {kind} conditional(%all, %called, %x), true_computation=%same, false_computation=%wide
        %one = {kind} conditional(%k, %same_everywhere), branch_computations={{%swapped}}
        %p = f32[3] get-tuple-element(%one), index=0
        %q = f32[3] get-tuple-element(%one), index=1
        %two = s32[] constant(2)
        %index = s32[] subtract(%k, %two)
        %indexed = {kind} conditional(%index, %xy, %xy, %x), branch_computations={{%less, %swapped, %wide}}
        %a = f32[3] get-tuple-element(%indexed), index=0
        %b = f32[3] get-tuple-element(%indexed), index=1
        ROOT %result = (f32[3], f32[3], f32[3], f32[3]) tuple(%p, %q, %a, %b)
        """,
        "(f32[3], f32[3], f32[3], f32[3])",
        replicated=("all",),
        computations=_BRANCHES,
    )


TEXTS = (
    Text("tuple_all_reduce", (2, 4), tuple_all_reduce),
    Text("tuple_all_gather", (2, 4), tuple_all_gather),
    Text("tuple_reduce_scatter", (2, 4), tuple_reduce_scatter, _two_reduce_scatters),
    Text("tuple_all_to_all", (2, 4), tuple_all_to_all),
    Text("uncommon", (2,), uncommon, _common),
    Text("group_notations", (4, 8), group_notations),
    Text("conditional_forms", (2, 4), conditional_forms),
)
