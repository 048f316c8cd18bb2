"""Growth of strided and moving accesses: tensors of many columns taken apart and put together, mixed strides, tiles.

    python benchmarks/strided.py [--sizes 64,128,256,512,2048] [--rows 70000]

`slices`: an HLO module with that many slices of a tensor's middle dimension, each copied and concatenated, through
the whole of `compile` and through the checker. `mixed`: a program of two cores with that many accesses of five
strides each, through the checker alone; `phases`: the same with barriers, where every second access is a write.
`tiles`: a loop of 1000 iterations on two cores in which that many instructions write a tile of their own each,
through the checker alone. All sizes run in one process, after a small one that loads the kernels;
seconds are those of the processor. The last column is the growth from the size before: 1 is linear.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from random import Random
from time import process_time

from haulout.api import compile as compile_file
from haulout.checker import check_program
from haulout.ir.text import parse_bir


def slices(count: int, rows: int) -> str:
    lines = [f"HloModule stacked\n\nENTRY e {{\n p = f32[{rows},{count},8] parameter(0)"]
    for k in range(count):
        lines.append(f" s{k} = f32[{rows},1,8] slice(p), slice={{[0:{rows}],[{k}:{k + 1}],[0:8]}}")
        lines.append(f" t{k} = f32[{rows},1,8] tanh(s{k})")
    names = ", ".join(f"t{k}" for k in range(count))
    lines.append(f" ROOT r = f32[{rows},{count},8] concatenate({names}), dimensions={{1}}\n}}\n")
    return "\n".join(lines)


def mixed(count: int, runs: int = 2000) -> str:
    rng, size = Random(5), 1 << 22
    lines = ["bir 1", 'program "mixed" lnc=2']
    for core in range(2):
        kind = "kind=inout" if core == 0 else "remote=[S,0]"
        lines += [f"module @nc{core} core={core} {{", "  func @main {", f"    mloc %S dram.shared size={size} {kind}"]
        lines.append("    block ^e:")
        for k in range(count):
            stride = rng.choice([512, 640, 768, 1024, 1536])
            part = f"%S[{rng.randrange(1024) * 4};{stride}x{min(runs, (size - 4096) // stride)};4]"
            lines.append(f"      %i{k} = dma_copy @dma{k % 4} ({part}) -> ()")
        lines += ["  }", "}"]
    return "\n".join(lines)


def phases(count: int, runs: int = 2000) -> str:
    rng, size = Random(5), 1 << 24

    def part() -> str:
        stride = rng.randrange(512, 2048, 4)
        return f"%S[{rng.randrange(1024) * 4 + rng.randrange(500) * 4096};{stride}x{runs};4]"

    cores: list[list[str]] = [[], []]
    for k in range(count // 2):
        cores[k % 2].append(f"      %w{k} = dma_copy @dma0 () -> ({part()})")
        for lines in cores:
            lines.append(f'      %b{k} = core_barrier @all () -> () name="b{k}"')
            lines.append(f"      %r{k} = dma_copy @dma1 ({part()}) -> ()")
            lines.append(f'      %c{k} = core_barrier @all () -> () name="c{k}"')
    found = ["bir 1", 'program "phases" lnc=2']
    for core, lines in enumerate(cores):
        kind = "kind=inout" if core == 0 else "remote=[S,0]"
        found += [f"module @nc{core} core={core} {{", "  func @main {", f"    mloc %S dram.shared size={size} {kind}"]
        found += ["    block ^e:", *lines, "  }", "}"]
    return "\n".join(found)


def tiles(count: int, trip: int = 1000) -> str:
    row = 128 * count
    lines = ["bir 1", 'program "tiles" lnc=2']
    for core in range(2):
        kind = "kind=inout" if core == 0 else "remote=[S,0]"
        lines += [f"module @nc{core} core={core} {{", "  func @main {"]
        lines += [f"    mloc %S dram.shared size={row * trip} {kind}", "    mloc %c dram.local size=4 kind=input"]
        lines += [f"    block ^head -> ^body, ^after cond=c trip={trip}:", "    block ^body -> ^head:"]
        for k in range(count):
            at = 64 * (count * core + k)
            tile = f"%S[{at}:{at + 64}]"
            lines.append(f"      %w{k} = dma_copy @dma{k % 4} () -> ({tile}) step=[[0,head,{row},0]]")
        lines += ["    block ^after:", "  }", "}"]
    return "\n".join(lines)


def measure(size: int, rows: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "slices.hlo"
        path.write_text(slices(size, rows))
        began = process_time()
        program = compile_file(path).program
        compiled = process_time()
        assert not check_program(program)
        checked = process_time()
    found = {"slices: compile": compiled - began, "slices: check": checked - compiled}
    for text in (mixed, phases, tiles):
        program = parse_bir(text(size))
        parsed = process_time()
        assert not check_program(program)
        found[f"{text.__name__}: check"] = process_time() - parsed
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="64,128,256,512,2048")
    parser.add_argument("--rows", type=int, default=70_000)
    options = parser.parse_args()
    sizes = [int(size) for size in options.sizes.split(",")]
    measure(600, 70_000)  # large enough for compiled kernels
    columns = [measure(size, options.rows) for size in sizes]
    print(f"{'slices or accesses':<20}" + "".join(f"{size:>9,}" for size in sizes) + "   growth")
    for name in columns[0]:
        cells = "".join(f"{column[name]:>9.2f}" for column in columns)
        growth = ""
        if len(sizes) > 1:
            growth = f"{columns[-1][name] / columns[-2][name] / (sizes[-1] / sizes[-2]):>9.2f}"
        print(f"{name:<20}{cells}{growth}")


if __name__ == "__main__":
    main()
