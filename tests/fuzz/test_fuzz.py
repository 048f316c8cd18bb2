"""Mutated input ends in a result or in `HauloutError`: never another exception, a hang, or memory without bound.

A few hundred mutants, the same ones each time; `HAULOUT_FUZZ=N` tries N of each sort. A failure names the source and
the number, from which `mutate` makes the mutant again.
"""

from __future__ import annotations

import os
from itertools import cycle, islice
from pathlib import Path

import pytest
from tests.fuzz.mutants import mutate_store, mutate_text
from tests.fuzz.sources import MODULES, ROOT, TEXTS
from tests.fuzz.victim import bounds, traceback_of

import haulout
from haulout.ir.store import save_program
from haulout.ir.text import print_bir

WANTED = int(os.environ.get("HAULOUT_FUZZ", "0"))
SHARDS, PARTS = 4, 4
"""Mutants of a sort are cut into shards, and those into parts: each part is a test."""


def count(default: int) -> int:
    return (WANTED or default) // SHARDS


def sources(kind: str, folder: Path) -> list[Path]:
    """What mutants of a sort are made from."""
    match kind:
        case "text":
            return TEXTS
        case "hlo":
            return MODULES
        case "compiled":
            made = []
            for path in TEXTS:
                made.append(folder / f"compiled.{path.name}")
                made[-1].write_text(print_bir(haulout.compile(path).program))
            return made
        case "store":
            made = []
            for path in [*TEXTS, ROOT / "tests/end_to_end/data/tuple_all_reduce.n2.hlo"]:
                made.append(folder / f"{path.stem}.npz")
                save_program(haulout.load(path), made[-1])
            return made
    raise AssertionError(kind)


def mutate(source: Path, number: int) -> bytes:
    """Mutant `number` of a file."""
    return (mutate_store if source.suffix == ".npz" else mutate_text)(source.read_bytes(), number)


@pytest.mark.thin(4 * PARTS + 1, "200 s")
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("shard", range(SHARDS))
@pytest.mark.parametrize(("kind", "mutants"), [("text", 400), ("compiled", 160), ("hlo", 320), ("store", 240)])
def test_mutants(kind: str, mutants: int, shard: int, part: int, tmp_path: Path) -> None:
    found = []
    first = shard * count(mutants)
    all_of_shard = enumerate(islice(cycle(sources(kind, tmp_path)), count(mutants)), first)
    for number, source in islice(all_of_shard, part, None, PARTS):
        path = tmp_path / f"mutant{source.suffix}"
        path.write_bytes(mutate(source, number))
        if text := traceback_of(
            path, "bracket" if number % 2 else "minimal", "edges" if number % 3 else "semaphores"
        ):
            found.append(f"mutant {number} of {source.name}:\n{text}")
    assert not found, f"{len(found)} mutants:\n" + "\n".join(found)


@pytest.mark.parametrize("path", [*TEXTS, *MODULES], ids=lambda path: path.name)
def test_sources_are_sound(path: Path) -> None:
    """Mutants of something broken would all end early."""
    haulout.load(path)
    assert haulout.compile(path).proved


def test_victim_sees_what_it_should(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A victim that catches everything would prove nothing."""

    def crash(*_: object, **__: object) -> None:
        raise ZeroDivisionError("of no use")

    monkeypatch.setattr("haulout.passes.build_fdeps.BuildFdeps.run", crash)
    assert "ZeroDivisionError" in str(traceback_of(TEXTS[0]))
    monkeypatch.setattr("haulout.ir.text.parse_bir", crash)
    assert "Traceback" in str(traceback_of(TEXTS[0]))
    monkeypatch.undo()
    assert traceback_of(TEXTS[0]) is None
    assert traceback_of(tmp_path / "missing.bir") is None
    with pytest.raises(MemoryError), bounds():
        bytearray(1 << 40)


HUGE = [1 << 20, 1 << 34, 1 << 40, (1 << 61) - 64, 1 << 61, 1 << 62, (1 << 62) + 1, (1 << 63) - 1, 1 << 64, 10**30]


@pytest.mark.parametrize("size", HUGE)
@pytest.mark.parametrize("space", ["dram.local", "dram.shared", "sbuf", "psum"])
@pytest.mark.parametrize("shaped", [False, True])
def test_sizes_are_numbers_not_memory(size: int, space: str, shaped: bool, tmp_path: Path) -> None:
    """No pass and no check allocates what a location's size says; the simulator refuses what the machine lacks."""
    shape = f" dtype=u8 shape=[{size}]" if shaped else ""
    modules = "".join(
        f"""module @nc{core} core={core} {{
  func @main {{
    mloc %x dram.local size={size}{shape} kind=input
    mloc %big {space} size={size}{shape}
    mloc %y dram.local size={size}{shape} kind=output
    block ^entry:
      %a = dma_copy @dma0 (%x) -> (%big) seq=0
      %b = dma_copy @dma1 (%big) -> (%y) seq=1
      %c = dma_copy @dma2 (%x[0;{size // 2}x2;1]) -> (%y[{max(size - 2, 0)}:{size}]) seq=2
      %d = memset @dma3 () -> (%y[?]) seq=3
  }}
}}
"""
        for core in range(2)
    )
    path = tmp_path / "huge.bir"
    path.write_text(f'bir 1\nprogram "huge" lnc=2\n{modules}')
    for fences in ("minimal", "bracket"):
        assert traceback_of(path, fences) is None
    with bounds():
        try:
            haulout.simulate(path)
        except haulout.HauloutError as error:
            assert error.diagnostics[0].code == "bad-input"


def test_depth_is_no_recursion(tmp_path: Path) -> None:
    """Brackets in brackets, in every kind of file."""
    for name, text in (
        ("deep.bir", f'bir 1\nprogram "p" lnc=1 x={"[" * 100_000}{"]" * 100_000}\n'),
        ("open.bir", f'bir 1\nprogram "p" lnc=1 x={"[" * 100_000}\n'),
        ("deep.hlo", f"HloModule m, x={'{' * 100_000}{'}' * 100_000}\n"),
        (
            "shape.hlo",
            f"HloModule m\n\nENTRY main {{\n  ROOT p = {'(' * 100_000}f32[]{')' * 100_000} parameter(0)\n}}\n",
        ),
    ):
        path = tmp_path / name
        path.write_text(text)
        assert traceback_of(path) is None
