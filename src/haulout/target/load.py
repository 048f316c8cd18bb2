"""Reads a target: a preset by its name, or a TOML file of the same form; errors name the line.

    name = "..."            description = "..."
    [dram]                  gbytes_per_s; optional: gibibytes
    [cost_us]               barrier, barrier_per_core, sendrecv, branch
    [engine.NAME]           issue_us, gbytes_per_s; optional: gflops_per_s, wide_slowdown, least_run
    [slowdown]              optional: OPCODE = factor

NAME is each of pe, act, vector, pool, sync, and dma for all queues. All values are numbers up to 10**15, gibibytes up
to 2**32 (2**62 bytes, the largest address). An unknown key is an error.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, NoReturn

from haulout.ir.enums import Engine
from haulout.ir.schema import SIZE_MAX
from haulout.support.diagnostics import Label, Span, bad_input
from haulout.support.files import read_text
from haulout.support.readers import parse_toml
from haulout.support.shown import shown, shown_number
from haulout.target.model import EngineRate, Target

DEFAULT = "generic"
PRESETS = ("generic", "trainium")
_LINES = ("pe", "act", "vector", "pool", "sync", "dma")
_MAX_NUMBER = 10**15
"""Products of such numbers stay finite."""
_MAX_GIBIBYTES = SIZE_MAX // 2**30
_OPTIONAL = {"gflops_per_s": 0.0, "wide_slowdown": 1.0, "least_run": 1.0}
_TABLE = re.compile(r"\s*\[\s*([A-Za-z0-9_.\-]+)\s*\]")
_KEY = re.compile(r"\s*\"?([A-Za-z0-9_\-]+)\"?\s*=")


def load_target(name: str) -> Target:
    """A preset by name, or the file of a path that ends in `.toml`. Raises `bad-input`."""
    if name in PRESETS:
        return _preset(name)
    if not name.endswith(".toml"):
        bad_input(f"unknown target {name!r}", help=[f"one of {', '.join(PRESETS)}, or a file FILE.toml"])
    return parse_target(read_text(Path(name)), name)


@cache
def _preset(name: str) -> Target:
    return parse_target((files("haulout.target") / "presets" / f"{name}.toml").read_text("utf-8"), f"{name}.toml")


def parse_target(text: str, file: str) -> Target:
    """The target that a text describes; `file` names it in messages. Raises `bad-input`."""
    return _Reader(text, file, parse_toml(text, file)).target()


@dataclass(frozen=True, slots=True)
class _Reader:
    text: str
    file: str
    tree: Mapping[str, Any]

    def target(self) -> Target:
        """Table by table."""
        self._only((), self.tree, {"name", "description", "dram", "cost_us", "engine", "slowdown"})
        dram = self._table("dram")
        self._only(("dram",), dram, {"gbytes_per_s", "gibibytes"})
        cost = self._table("cost_us")
        self._only(("cost_us",), cost, {"barrier", "barrier_per_core", "sendrecv", "branch"})
        engines = self._table("engine")
        self._only(("engine",), engines, set(_LINES))
        rates = {line: self._rate(line) for line in _LINES}
        slowdown = self._table("slowdown", needed=False)
        return Target(
            name=self._string("name"),
            description=self._string("description"),
            engines=tuple(
                EngineRate() if each is Engine.ALL else rates[each.text.rstrip("0123456789")] for each in Engine
            ),
            barrier_us=self._number(("cost_us", "barrier"), cost),
            barrier_per_core_us=self._number(("cost_us", "barrier_per_core"), cost),
            sendrecv_us=self._number(("cost_us", "sendrecv"), cost),
            branch_us=self._number(("cost_us", "branch"), cost),
            dram_gbytes_per_s=self._number(("dram", "gbytes_per_s"), dram, positive=True),
            dram_bytes=(
                int(self._number(("dram", "gibibytes"), dram, positive=True, most=_MAX_GIBIBYTES) * 2**30)
                if "gibibytes" in dram
                else None
            ),
            slowdown={key: self._number(("slowdown", key), slowdown, positive=True) for key in slowdown},
        )

    def _rate(self, line: str) -> EngineRate:
        path = ("engine", line)
        engines = self._table("engine")
        if not isinstance(engines.get(line), dict):
            self._refuse(path, f"the target has no table [engine.{line}]")
        table = engines[line]
        self._only(path, table, {"issue_us", "gbytes_per_s", *_OPTIONAL})
        values = {
            key: self._number((*path, key), table) if key in table else default for key, default in _OPTIONAL.items()
        }
        if values["least_run"] != int(values["least_run"]) or values["least_run"] < 1:
            self._refuse((*path, "least_run"), f"least_run = {values['least_run']:g}, expected a number of bytes")
        if values["wide_slowdown"] < 1:
            self._refuse((*path, "wide_slowdown"), f"wide_slowdown = {values['wide_slowdown']:g}, expected 1 or more")
        return EngineRate(
            issue_us=self._number((*path, "issue_us"), table),
            gbytes_per_s=self._number((*path, "gbytes_per_s"), table, positive=True),
            gflops_per_s=values["gflops_per_s"],
            wide_slowdown=values["wide_slowdown"],
            least_run=int(values["least_run"]),
        )

    def _table(self, name: str, *, needed: bool = True) -> Mapping[str, Any]:
        table = self.tree.get(name, None if needed else {})
        if not isinstance(table, dict):
            self._refuse((name,), f"the target has no table [{name}]")
        return table

    def _string(self, key: str) -> str:
        value = self.tree.get(key)
        if not isinstance(value, str):
            self._refuse((key,), f"the target has no string {key}")
        return value

    def _number(
        self, path: tuple[str, ...], table: Mapping[str, Any], *, positive: bool = False, most: int = _MAX_NUMBER
    ) -> float:
        key, value = path[-1], table.get(path[-1])
        if value is None:
            self._refuse(path, f"[{'.'.join(path[:-1])}] has no {key}")
        wanted = "a number above 0" if positive else "a number of at least 0"
        good = isinstance(value, int | float) and not isinstance(value, bool) and value >= 0  # NaN is not either
        if not good or (positive and value == 0):
            self._refuse(path, f"{key} = {shown(value)}, expected {wanted}")
        if value > most:
            self._refuse(path, f"{key} = {shown(value)}, expected at most {shown_number(most)}")
        return float(value)

    def _only(self, path: tuple[str, ...], table: Mapping[str, Any], known: set[str]) -> None:
        for key in table:
            if key not in known:
                where = f"[{'.'.join(path)}]" if path else "the target"
                self._refuse((*path, key), f"{where} has no key {key!r}", help=f"keys: {', '.join(sorted(known))}")

    def _refuse(self, path: tuple[str, ...], message: str, help: str | None = None) -> NoReturn:
        label = Label("here", Span(self.file, self._line(path)))
        bad_input(message, label, help=[help] if help else [])

    def _line(self, path: tuple[str, ...]) -> int:
        """The line of a key or table, else of the innermost table around it, else 1."""
        best, inside, deepest = 1, "", 0
        wanted = ".".join(path)
        for number, line in enumerate(self.text.splitlines(), 1):
            if table := _TABLE.match(line):
                inside = table[1]
            elif key := _KEY.match(line):
                if (f"{inside}.{key[1]}" if inside else key[1]) == wanted:
                    return number
                continue
            else:
                continue
            if (wanted == inside or wanted.startswith(f"{inside}.")) and len(inside) > deepest:
                best, deepest = number, len(inside)
        return best
