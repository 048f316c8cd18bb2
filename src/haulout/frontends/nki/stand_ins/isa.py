"""`nki.isa`: every instruction binds its arguments by the table of `instructions.py` and is recorded."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from functools import partial
from typing import Any, NoReturn

import numpy as np

from haulout.frontends.nki import session
from haulout.frontends.nki.accessed import known_indices
from haulout.frontends.nki.findings import kernel_place, reject, shown_value, span_at
from haulout.frontends.nki.hardware_rules import check_exchange
from haulout.frontends.nki.instructions import INSTRUCTIONS, Instruction
from haulout.frontends.nki.recorder import PIPE_QUEUES, TENSOR_QUEUES, MeetingDetail
from haulout.frontends.nki.registers import VirtualRegister
from haulout.frontends.nki.stand_ins import enums, old_style
from haulout.frontends.nki.stand_ins.placeholders import Placeholder
from haulout.frontends.nki.stand_ins.removed import REMOVED_EVERYWHERE, REMOVED_INSTRUCTIONS, removed_parameter
from haulout.frontends.nki.storage import Buffer
from haulout.frontends.nki.tensor import Tensor
from haulout.ir.enums import Engine
from haulout.support.diagnostics import Label, Severity, fail

_ENGINES = {"vector": Engine.VECTOR, "scalar": Engine.ACT, "tensor": Engine.PE, "sync": Engine.SYNC}


class NkiInstruction:
    """A recorded instruction, which others may be told to wait for."""

    def __init__(self, handle: int) -> None:
        self.handle = handle

    def depends_on(self, *producers: NkiInstruction) -> NkiInstruction:
        """Run after each of `producers`."""
        for producer in producers:
            session.recorder().wait_for(self.handle, producer.handle)
        return self


def _recorded(row: Instruction, *, old: bool) -> Callable[..., Any]:
    """The stand-in of one instruction. `old`: in a package that has instructions that return tiles."""
    parameters, known, needed = row.parameters, frozenset(row.parameters), row.parameters[: row.needed]
    # The trace knows what they do, but NKI does not take them any more.
    gone = () if old else tuple(each for each in parameters if removed_parameter(row.name, each) is not None)

    def call(*args: Any, **kwargs: Any) -> Any:
        recorder = session.recorder()
        given = dict(zip(parameters, args, strict=False))
        given.update(kwargs)
        if old_style.is_old(row, args, kwargs, given):
            return _returning(row, args, kwargs, allowed=old)
        if len(args) > len(parameters) or not known.issuperset(kwargs):
            _unknown_arguments(row, args, kwargs, allowed=old)
            kept = old_style.split_mask(row.name, given)
            if kept is None:
                return NkiInstruction(recorder.newest())
            given = kept
        for parameter in gone:
            if given.get(parameter) is not None:
                _report_removed(row.name, parameter)
        for parameter in needed:
            if parameter not in given:
                recorder.findings.add(
                    "kernel-error", f"nisa.{row.name} needs `{parameter}`", subject=parameter, help=[_signature(row)]
                )
        _check_operands(row, given)
        recorder.instruction(row, given)
        return NkiInstruction(recorder.newest())

    call.__name__ = call.__qualname__ = row.name
    return call


def _returning(row: Instruction, args: tuple[Any, ...], kwargs: dict[str, Any], *, allowed: bool) -> Tensor:
    """A call of the first NKI: the tile that it returns."""
    old_style.note_old_style(f"nisa.{row.name} returns a tile", allowed=allowed)
    given = old_style.arguments(row, args, kwargs)
    result: Tensor = given["dst"]
    _unknown_arguments(row, (), {name: value for name, value in given.items() if name != "pred"}, allowed=True)
    kept = old_style.split_mask(row.name, given)
    if kept is not None:
        _check_operands(row, kept)
        session.recorder().instruction(row, old_style.reachable(row, kept))
    return result


def _check_operands(row: Instruction, given: dict[str, Any]) -> None:
    """Stop at an operand that no instruction takes."""
    for name, value in given.items():
        if isinstance(value, Placeholder):
            value.fail_in_kernel(f"is given as `{name}`")
        if isinstance(value, Tensor) and value.blocks:
            reject(f"nisa.{row.name}: `{name}` has {value.blocks} block dimensions", "index them first: tile[i]")


def _signature(row: Instruction) -> str:
    return f"nisa.{row.name}({', '.join(row.parameters)})"


def _unknown_arguments(row: Instruction, args: tuple[Any, ...], kwargs: dict[str, Any], *, allowed: bool) -> None:
    """Report arguments that an instruction does not take, and those that it took once.

    `allowed`: `mask` and `dtype` belong to the NKI that the kernel is written for.
    """
    findings = session.recorder().findings
    if len(args) > len(row.parameters):
        findings.add("kernel-error", f"nisa.{row.name} takes {len(row.parameters)} arguments, found {len(args)}")
    for keyword in kwargs:
        if keyword in row.parameters or (allowed and keyword in REMOVED_EVERYWHERE):
            continue
        if _report_removed(row.name, keyword):
            continue
        close = get_close_matches(keyword, row.parameters, 1)
        message = f"nisa.{row.name} has no parameter `{keyword}`"
        findings.add(
            "kernel-error",
            message,
            subject=keyword,
            help=[f"did you mean `{close[0]}`?" for _ in close] + [_signature(row)],
        )


def _report_removed(instruction: str, keyword: str) -> bool:
    """A warning for a parameter that an instruction had once; False if it never had it."""
    removed = removed_parameter(instruction, keyword)
    if removed is not None:
        session.recorder().findings.add(
            "removed-api",
            f"nisa.{instruction} has no parameter `{keyword}` since NKI {removed.since}",
            severity=Severity.WARNING,
            subject=keyword,
            help=[removed.instead],
        )
    return removed is not None


PAIR = 2
"""Cores that share one HBM."""


def core_barrier(data: Tensor, cores: Any = (0, 1), engine: Any = None, name: str | None = None) -> NkiInstruction:
    """A rendezvous of cores on one engine; `data` is what it orders."""
    recorder, place = session.recorder(), kernel_place(2)
    if not isinstance(data, Tensor):
        _wrong_barrier(f"data must be a tensor, found {shown_value(data)}", place)
    line = _ENGINES.get(getattr(engine, "name", ""), Engine.POOL)
    recorder.barrier(data, _participants(cores, recorder.cores, place), line, name, place)
    return NkiInstruction(recorder.newest())


def _participants(cores: Any, count: int, place: tuple[str, int]) -> tuple[int, ...]:
    """The cores of a barrier; `bad-input` for a core outside of the grid.

    If a kernel for two cores runs on one, that core is the only participant of its barriers.
    """
    known = max(count, PAIR)
    given = list(cores) if isinstance(cores, Iterable) and not isinstance(cores, str) else None
    if not given:
        _wrong_barrier(f"cores must be a list of cores, such as (0, 1), found {shown_value(cores)}", place)
    found = []
    for core in given:
        if not isinstance(core, int | np.integer):
            _wrong_barrier(f"cores must be integers, found {shown_value(core)}", place)
        if not 0 <= core < known:
            _wrong_barrier(f"invalid core {core}: the kernel runs on {count} core{'s' * (count > 1)}", place)
        found.append(int(core))
    return tuple(core for core in found if core < count)


def _wrong_barrier(message: str, place: tuple[str, int]) -> NoReturn:
    fail("bad-input", f"nisa.core_barrier: {message}", Label("here", span_at(place)))


def sendrecv(
    src: Tensor,
    dst: Tensor,
    send_to_rank: int,
    recv_from_rank: int,
    pipe_id: Any = 0,
    dma_engine: Any = enums.dma_engine.dma,
    name: str | None = None,
) -> NkiInstruction:
    """An exchange with other cores."""
    recorder, place = session.recorder(), kernel_place(2)
    for role, tensor in (("src", src), ("dst", dst)):
        if tensor.buffer is not Buffer.sbuf:
            message = f"nisa.sendrecv: {role} must be in SBUF, found {tensor!r}"
            recorder.findings.add("kernel-error", message, subject=role)
    if src.size != dst.size or src.dtype != dst.dtype:
        message = f"nisa.sendrecv: src and dst must have one size and type, found {src!r} and {dst!r}"
        recorder.findings.add("kernel-error", message, subject="shape")
    for rank in (send_to_rank, recv_from_rank):
        if not isinstance(rank, int | np.integer) or not 0 <= rank < recorder.cores:
            message = f"nisa.sendrecv: a rank must be from 0 to {recorder.cores - 1}, found {shown_value(rank)}"
            recorder.findings.add("kernel-error", message, subject="rank")
            return NkiInstruction(recorder.newest())
    # Pipes have queues of their own: exchanges on different pipes do not wait for each other.
    line = Engine(Engine.DMA0 + TENSOR_QUEUES + (hash_of(pipe_id) % PIPE_QUEUES))
    if getattr(dma_engine, "name", "dma") == "gpsimd_dma":
        line = Engine.POOL
        check_exchange(src, recorder.target, recorder.findings, place)
    detail = MeetingDetail(int(send_to_rank), int(recv_from_rank), str(pipe_id))
    recorder.sendrecv(src, dst, detail, line, place)
    return NkiInstruction(recorder.newest())


def hash_of(pipe: Any) -> int:
    """A number for a pipe that is the same on every core and in every run."""
    return pipe if isinstance(pipe, int) else sum(str(pipe).encode())


def register_alloc(x: Any = None) -> VirtualRegister:
    """A register, with a value, or that of a tensor."""
    register = VirtualRegister(None)
    if isinstance(x, Tensor):
        register_load(register, x)
    elif x is not None:
        register.value = register.constant = int(x)
    return register


def register_load(dst: VirtualRegister, src: Tensor) -> None:
    """A register takes the value of a tensor of one element."""
    recorder = session.recorder()
    given = {"register": dst.loaded(), "src": src}
    recorder.add("nki.register_load", Engine.SYNC, [src], [], kernel_place(2), None, given)
    known = known_indices(src, 1)
    dst.value = known[0] if known else None


def register_move(dst: VirtualRegister, src: Any = None, imm: Any = None) -> None:
    """A register takes a constant or the value of another."""
    if imm is not None:
        _report_removed("register_move", "imm")
        src = imm
    dst.moved(src)


def register_store(dst: Tensor, src: Any) -> None:
    """A tensor of one element takes the value of a register."""
    given = {"dst": dst, "value": src}
    session.recorder().add("nki.register_store", Engine.SYNC, [], [dst], kernel_place(2), None, given)


def get_nc_sub_version() -> int:
    """The revision within the generation: the first."""
    return 0


def get_nc_version() -> enums.nc_version:
    """The generation that is traced for."""
    return enums.nc_version[session.recorder().target] if session.is_tracing() else enums.nc_version.gen3


def make_module(name: str) -> types.ModuleType:
    """The module under one of its import names."""
    module = types.ModuleType(name, __doc__)
    for row in INSTRUCTIONS.values():
        setattr(module, row.name, _recorded(row, old=name.startswith("neuronxcc")))
    for function in (
        core_barrier,
        sendrecv,
        register_alloc,
        register_load,
        register_move,
        register_store,
        get_nc_version,
        get_nc_sub_version,
    ):
        setattr(module, function.__name__, function)
    for kind in (
        enums.engine,
        enums.reduce_cmd,
        enums.dge_mode,
        enums.oob_mode,
        enums.matmul_perf_mode,
        enums.nc_version,
        enums.dma_engine,
    ):
        setattr(module, kind.__name__, kind)
    for member in enums.engine:
        # `dma_engine` is an enumeration of its own.
        if not hasattr(enums, f"{member.name}_engine"):
            setattr(module, f"{member.name}_engine", member)
    module.NkiInstruction = NkiInstruction  # type: ignore[attr-defined]
    module.VirtualRegister = VirtualRegister  # type: ignore[attr-defined]
    module.NkiValidationError = type("NkiValidationError", (Exception,), {})  # type: ignore[attr-defined]
    module.__getattr__ = partial(_unknown_name, sorted(vars(module)))  # type: ignore[method-assign]
    return module


def _unknown_name(known: list[str], name: str) -> Any:
    """An instruction that the table does not have."""
    if name.startswith("__"):
        raise AttributeError(name)
    removed = REMOVED_INSTRUCTIONS.get(name)
    close = get_close_matches(name, known, 1)

    def call(*args: Any, **kwargs: Any) -> None:
        tensors = [value for value in (*args, *kwargs.values()) if isinstance(value, Tensor)]
        for value in (*args, *kwargs.values()):
            if isinstance(value, list | tuple):
                tensors += [each for each in value if isinstance(each, Tensor)]
        help = [f"did you mean nisa.{each}?" for each in close]
        if removed is not None:
            help = [f"removed in NKI {removed.since}: {removed.instead}"]
        session.recorder().touch_all(name, tensors, help)

    call.__name__ = name
    return call
