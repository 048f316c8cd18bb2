"""The trace of a kernel: its Python code runs once for each core, and the instructions are recorded.

arguments      specs become tensors of each core; a tensor in HBM is one tensor for all cores
run            program 0, 1, ...; an exception of the kernel is a finding at the line of the kernel
return value   the tensors that the caller reads
"""

from __future__ import annotations

import contextlib
import inspect
import io
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Any, Literal

from haulout.frontends.nki import session
from haulout.frontends.nki.arguments import DottedName, TensorSpec, tensor_spec
from haulout.frontends.nki.findings import OWN_FOLDERS, Findings, shown_path, span_at
from haulout.frontends.nki.hardware_table import HARDWARE, RULES
from haulout.frontends.nki.recorder import Recorder
from haulout.frontends.nki.tensor import Tensor
from haulout.support.diagnostics import Diagnostic, HauloutError, Label, Severity, bad_input, error_text

BarrierScope = Literal["data", "global"]
"""What a `core_barrier` orders: its tensor, or everything."""
MAX_FRAMES = 5
"""Frames of the kernel that a finding shows."""


@dataclass(slots=True)
class Trace:
    """The recordings of all cores. `failed`: a core stopped with an error, so order is unknown."""

    name: str
    place: tuple[str, int]
    recorders: list[Recorder]
    findings: Findings = field(default_factory=Findings)
    returned: list[list[Tensor | None]] = field(default_factory=list)
    """The values that each core returned, in order; None: not a tensor."""
    failed: bool = False
    output: str = ""
    """What the kernel printed."""

    @property
    def cores(self) -> int:
        """Size of the launch grid."""
        return len(self.recorders)

    @property
    def instructions(self) -> int:
        """Of all cores."""
        return sum(each.instructions for each in self.recorders)


def trace_kernel(
    function: Callable[..., Any],
    arguments: Mapping[str, Any] | Sequence[Any],
    *,
    cores: int = 2,
    grid: tuple[int, ...] = (),
    trips: int | None = None,
    target: str = "gen3",
) -> Trace:
    """Record a kernel on `cores` cores. The module of the function must have imported the stand-ins.

    `grid`: the axes of the launch grid, one program for each core, if there are several. `arguments` by name or in
    order: specs, arrays, and other values. `trips` is the assumed trip count of loops whose count is known on the
    device only. `target` is the generation (`gen2`, `gen3`, `gen4`).
    """
    inner = getattr(function, "function", function)
    code = getattr(inspect.unwrap(inner), "__code__", None)
    place = (code.co_filename, code.co_firstlineno) if code is not None else ("", 0)
    named = _bound(inner, arguments)
    overwritten: set[str] = set()
    options = {"trips": trips, "target": target, "grid": grid}
    while True:
        result = Trace(getattr(function, "__name__", "kernel"), place, [])
        _run(result, inner, named, cores, {**options, "overwritten": frozenset(overwritten)})
        # What one core writes into an argument, another may read: its contents are then not those that were given.
        changed = {storage.name for each in result.recorders for storage in each.overwritten_arguments()}
        if cores < 2 or changed <= overwritten:
            return result
        overwritten |= changed


def _run(
    result: Trace, function: Callable[..., Any], named: Mapping[str, Any], cores: int, options: dict[str, Any]
) -> None:
    """Run the function once a core."""
    findings = result.findings
    printed = Printed()
    for core in range(cores):
        recorder = Recorder(core, cores, findings, **options)
        result.recorders.append(recorder)
        values = {name: _prepared(recorder, name, value, result.place, function) for name, value in named.items()}
        try:
            with session.recording(recorder), contextlib.redirect_stdout(printed):
                result.returned.append(_leaves(function(**values)))
                for tensor in result.returned[-1]:
                    if tensor is not None:
                        tensor.storage.returned = True
        except HauloutError as error:
            findings.items += error.diagnostics
            result.failed = True
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # a kernel that calls `exit` does not end this process
            findings.items.append(raised(error, core))
            result.failed = True
        if result.failed:
            break
    result.output = printed.getvalue()
    findings.items[:0] = _unknown_instructions(result.recorders)
    if any(each.code == "old-style" for each in findings.items):
        findings.items[:] = [_lowered(each) for each in findings.items]


def _lowered(finding: Diagnostic) -> Diagnostic:
    """A finding of a kernel for the first NKI. Its compiler moved operands that take partitions in another way: they
    broadcast over them, or step over some. That is a warning, as the kernel of today needs an instruction for it.
    """
    is_partition = finding.code == HARDWARE and RULES["ap-partition"].note in finding.notes
    return replace(finding, severity=min(finding.severity, Severity.WARNING)) if is_partition else finding


def _unknown_instructions(recorders: Sequence[Recorder]) -> list[Diagnostic]:
    """A finding for each instruction that no row of the table describes. It comes first, as others may follow from
    it. It is an error if a name is close to it or was removed: then the kernel is wrong."""
    found = Findings()
    for recorder in recorders:
        for name, (where, help) in recorder.unknown.items():
            if name in found.said:
                continue
            found.said.add(name)
            found.add(
                "unknown-instruction",
                f"unknown instruction nisa.{name}: the trace assumes that it reads and writes all its tensors",
                severity=Severity.ERROR if help else Severity.WARNING,
                place=where,
                subject=name,
                help=help,
            )
    return found.items


class Printed(io.StringIO):
    """What a kernel prints; closing it has no effect."""

    def close(self) -> None:
        """A kernel may close its stdout."""


def _bound(function: Callable[..., Any], arguments: Mapping[str, Any] | Sequence[Any]) -> dict[str, Any]:
    """Arguments by parameter; `bad-input` where they do not fit the signature."""
    suffix = ".must_alias_input"
    try:
        signature = inspect.signature(function)
        if isinstance(arguments, Mapping):
            _check_names(function, signature, [name.removesuffix(suffix) for name in arguments])
            bound = signature.bind(**{name.removesuffix(suffix): value for name, value in arguments.items()})
        else:
            bound = signature.bind(*arguments)
    except TypeError as error:
        name = getattr(function, "__name__", "kernel")
        parameters = [str(each) for each in inspect.signature(function).parameters.values()]
        bad_input(f"{name}: {error}", help=[f"{name}({', '.join(parameters)})"])
    named: dict[str, Any] = {}
    for name, value in bound.arguments.items():
        match signature.parameters[name].kind:
            case inspect.Parameter.VAR_KEYWORD:
                named |= value
            case inspect.Parameter.VAR_POSITIONAL:
                bad_input(f"*{name}: give arguments by name")
            case _:
                named[name] = value
    return named


def _check_names(function: Callable[..., Any], signature: inspect.Signature, names: Sequence[str]) -> None:
    """`bad-input` for the first argument that the kernel does not have."""
    kinds = {each.kind for each in signature.parameters.values()}
    if inspect.Parameter.VAR_KEYWORD in kinds:
        return
    for name in names:
        if name not in signature.parameters:
            close = get_close_matches(name, signature.parameters, 1)
            own = getattr(function, "__name__", "kernel")
            parameters = ", ".join(str(each) for each in signature.parameters.values())
            bad_input(
                f"{own} has no argument {name!r}",
                help=[*(f"did you mean {each!r}?" for each in close), f"{own}({parameters})"],
            )


def _prepared(recorder: Recorder, name: str, value: Any, place: tuple[str, int], function: Callable[..., Any]) -> Any:
    """What the kernel gets for an argument: tensors for specs and arrays, inside lists and dicts too."""
    if isinstance(value, DottedName):
        return _looked_up(name, value, getattr(inspect.unwrap(function), "__globals__", {}))
    if isinstance(value, list | tuple) and any(_is_structured(each) for each in value):
        return type(value)(
            _prepared(recorder, f"{name}_{at}", each, place, function) for at, each in enumerate(value)
        )
    if isinstance(value, dict) and any(_is_structured(each) for each in value.values()):
        return {key: _prepared(recorder, f"{name}_{key}", each, place, function) for key, each in value.items()}
    spec = tensor_spec(value)
    return value if spec is None else _argument(recorder, name, spec, place)


def _is_structured(value: Any) -> bool:
    return isinstance(value, DottedName | list | tuple | dict) or (
        hasattr(value, "shape") and hasattr(value, "dtype")
    )


def _argument(recorder: Recorder, name: str, spec: TensorSpec, place: tuple[str, int]) -> Tensor:
    tensor = recorder.allocate(spec.shape, spec.dtype, spec.buffer, name=name, argument=True, place=place)
    tensor.storage.array = spec.array if spec.array is not None else spec.values
    tensor.storage.given = spec.values is not None or spec.within is not None
    known = tensor.name not in recorder.overwritten
    tensor.storage.within = spec.within if known else None
    if spec.values is not None and known:
        tensor.storage.give(spec.values)
    return tensor


def _looked_up(argument: str, name: DottedName, names: Mapping[str, Any]) -> Any:
    first, *rest = name.text.split(".")
    if first not in names:
        if rest:
            bad_input(f"argument {argument}: {name.text}: the module of the kernel has no name {first!r}")
        return name.text
    found = names[first]
    for part in rest:
        if not hasattr(found, part):
            bad_input(f"argument {argument}: {name.text}: {first} has no {part!r}")
        found = getattr(found, part)
    return found


def _leaves(value: Any) -> list[Tensor | None]:
    """A return value through lists, tuples, dicts and plain objects: its tensors, None for anything else."""
    match value:
        case None:
            return []
        case Tensor():
            return [value]
        case list() | tuple():
            return [leaf for each in value for leaf in _leaves(each) or [None]]
        case dict():
            return [leaf for each in value.values() for leaf in _leaves(each) or [None]]
    base = getattr(value, "base_tensor", None)
    return [base if isinstance(base, Tensor) else None]


def raised(error: BaseException, core: int) -> Diagnostic:
    """What the kernel raised, with the kernel's frames, the innermost first."""
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith(OWN_FOLDERS) and not frame.filename.startswith("<frozen")
    ]
    labels = [Label("raised here", span_at((frame.filename, frame.lineno or 0))) for frame in frames[-1:]]
    labels += [
        Label(f"called by {frame.name}", span_at((frame.filename, frame.lineno or 0)))
        for frame in reversed(frames[-MAX_FRAMES:-1])
    ]
    text = error_text(error)
    own = traceback.extract_tb(error.__traceback__)[-1]
    notes = []
    if own.filename.startswith(OWN_FOLDERS):
        notes.append(f"raised in {shown_path(own.filename)}:{own.lineno}, which stands in for NKI")
    return Diagnostic(
        "kernel-error",
        Severity.ERROR,
        f"the kernel stopped on core {core}: {type(error).__name__}: {text}",
        tuple(labels),
        tuple(notes),
    )
