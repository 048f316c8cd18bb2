"""Growth curve by lines of HLO: seconds of CPU time of each stage, and peak memory, for a Llama training step.

    python benchmarks/hlo_size.py [--lines 1000,...,32000] [--cores 8] [--svg docs/design/hlo-size.svg]
    python benchmarks/hlo_size.py --parse 1000000

The text is of `haulout_generators.llama`, with as many layers as make about so many lines. Each size has a process of
its own, where a small one runs first and loads the kernels. `--svg` draws the curves. `--parse` only reads a text.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import subprocess
import sys
from pathlib import Path
from time import process_time

STAGES = ("parse", "build", "passes", "checker", "report")
COLOURS = ("#4477aa", "#66ccee", "#228833", "#ee6677", "#aa3377", "#222222")


def text_of(lines: int, cores: int) -> str:
    """A step of about so many lines; of one microbatch where a layer with four would have more."""
    from haulout_generators.llama import Llama, llama_step

    def made(layers: int, microbatches: int) -> str:
        return llama_step(Llama(layers=layers, microbatches=microbatches, cores=cores))

    microbatches = 4 if lines >= 3000 else 1
    one, two = (made(layers, microbatches).count("\n") for layers in (1, 2))
    return made(max(1, round((lines - one) / (two - one)) + 1), microbatches)


def measure(lines: int, cores: int) -> dict[str, float]:
    from haulout.frontends.hlo import lower, parse_hlo
    from haulout.passes.base import PassContext
    from haulout.passes.check import Check
    from haulout.passes.manager import PassManager
    from haulout.passes.pipeline import compile_pipeline
    from haulout.report.model import make_report
    from haulout.support.diagnostics import Severity

    def run(text: str) -> dict[str, float]:
        times = [process_time()]
        module = parse_hlo(text, "step.hlo")
        times.append(process_time())
        program = lower(module)
        rows = len(program.instructions)
        times.append(process_time())
        context = PassContext()
        manager = PassManager([each for each in compile_pipeline() if not isinstance(each, Check)])
        program = manager.run(program, context)
        times.append(process_time())
        program = PassManager([Check()]).run(program, context)
        proved = not any(each.severity > Severity.NOTE for each in context.findings)
        assert proved, context.findings[0]
        times.append(process_time())
        make_report(program, context, manager.records, "minimal", target="generic", proved=proved)
        times.append(process_time())
        spent = {name: end - begin for name, begin, end in zip(STAGES, times, times[1:], strict=False)}
        return {"lines": text.count("\n"), "rows": rows, **spent, "all": times[-1] - times[0]}

    run(text_of(1000, cores))
    return {**run(text_of(lines, cores)), "MiB": peak()}


def parse_only(lines: int, cores: int) -> dict[str, float]:
    from haulout.frontends.hlo import parse_hlo

    text = text_of(lines, cores)
    began = process_time()
    parse_hlo(text, "step.hlo")
    return {"lines": text.count("\n"), "parse": process_time() - began, "MiB": peak()}


def peak() -> float:
    """MiB of this process at most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def in_process(*options: str) -> dict[str, float]:
    done = subprocess.run([sys.executable, __file__, *options], check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def chart(columns: list[dict[str, float]]) -> str:
    """The curves as SVG: seconds by stage on the left, peak memory on the right; all axes are logarithmic."""
    parts = [
        '<svg xmlns="http://www.w3.org/2000/svg" width="860" height="360" font-family="sans-serif" font-size="12">',
        '<rect width="860" height="360" fill="white"/>',
    ]
    xs = [column["lines"] for column in columns]
    curves = {name: [max(column[name], 0.01) for column in columns] for name in (*STAGES, "all")}
    parts += panel(60, "seconds of CPU time", xs, curves)
    parts += panel(500, "peak MiB", xs, {"MiB": [column["MiB"] for column in columns]})
    return "\n".join([*parts, "</svg>", ""])


def panel(left: int, title: str, xs: list[float], curves: dict[str, list[float]]) -> list[str]:
    width, top, height = 270, 40, 260
    values = [value for curve in curves.values() for value in curve]
    spans = [(math.floor(math.log10(min(each))), math.ceil(math.log10(max(each)))) for each in (xs, values)]

    def at(x: float, y: float) -> tuple[float, float]:
        (low, high), (bottom, above) = spans
        across = (math.log10(x) - low) / max(high - low, 1)
        return left + width * across, top + height * (1 - (math.log10(y) - bottom) / max(above - bottom, 1))

    parts = [f'<text x="{left}" y="{top - 16}" font-weight="bold">{title}</text>']
    for power in range(spans[0][0], spans[0][1] + 1):
        x, _ = at(10**power, values[0])
        parts.append(f'<path d="M{x:.1f} {top}V{top + height}" stroke="#ddd"/>')
        parts.append(f'<text x="{x:.1f}" y="{top + height + 18}" text-anchor="middle">{10**power:,}</text>')
    for power in range(spans[1][0], spans[1][1] + 1):
        _, y = at(xs[0], 10.0**power)
        parts.append(f'<path d="M{left} {y:.1f}H{left + width}" stroke="#ddd"/>')
        parts.append(f'<text x="{left - 6}" y="{y + 4:.1f}" text-anchor="end">{10.0**power:g}</text>')
    ends: list[tuple[float, str, str]] = []
    for colour, (name, curve) in zip(COLOURS[::-1], list(curves.items())[::-1], strict=False):
        points = [at(x, y) for x, y in zip(xs, curve, strict=True)]
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>')
        ends.append((points[-1][1], name, colour))
    x, below = at(xs[-1], values[0])[0], 0.0
    for y, name, colour in sorted(ends):
        below = max(y + 4, below + 13)  # names must not overlap
        parts.append(f'<text x="{x + 6:.1f}" y="{below:.1f}" fill="{colour}">{name}</text>')
    parts.append(f'<text x="{left + width / 2}" y="{top + height + 38}" text-anchor="middle">lines of HLO</text>')
    return parts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lines", default="1000,3000,6000,12000,20000,32000")
    parser.add_argument("--cores", type=int, default=8)
    parser.add_argument("--svg", type=Path)
    parser.add_argument("--parse", type=int)
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one is not None:
        print(json.dumps(measure(options.one, options.cores)))
        return
    if options.parse is not None:
        found = parse_only(options.parse, options.cores)
        print(f"{found['lines']:,.0f} lines parsed in {found['parse']:.1f} s of CPU time, {found['MiB']:,.0f} MiB")
        return
    columns = [in_process("--one", lines, "--cores", str(options.cores)) for lines in options.lines.split(",")]
    print(f"{options.cores} cores; seconds of CPU time")
    for name in columns[-1]:
        form = ",.0f" if name in ("lines", "rows", "MiB") else ".2f"
        cells = "".join(f"{column[name]:>12{form}}" for column in columns)
        growth = ""
        if len(columns) > 1 and name in (*STAGES, "all") and columns[-2][name] > 0.05:
            times = columns[-1]["lines"] / columns[-2]["lines"]
            growth = f"{columns[-1][name] / columns[-2][name] / times:>10.2f} times linear"
        print(f"{name:<10}{cells}{growth}")
    if options.svg is not None:
        options.svg.write_text(chart(columns))


if __name__ == "__main__":
    main()
