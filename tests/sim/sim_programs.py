"""Small programs for the simulator's tests, without the frame that every `.bir` file has."""

from haulout.ir.program import Program
from haulout.ir.text import parse_bir


def program(*cores: str) -> Program:
    """A program of one function from the statements of each core: `mloc` lines, then instructions."""
    lines = ["bir 1", f'program "test" lnc={len(cores)}']
    for core, statements in enumerate(cores):
        rows = [row.strip() for row in statements.strip().splitlines()]
        lines += [f"module @nc{core} core={core} {{", "func @main {"]
        lines += [row for row in rows if row.startswith("mloc")]
        if not any(row.startswith("block") for row in rows):
            lines.append("block ^entry:")
        lines += [row for row in rows if not row.startswith("mloc")]
        lines += ["}", "}"]
    return parse_bir("\n".join(lines) + "\n", "test.bir")


def vector(name: str, space: str = "dram.local", attrs: str = "") -> str:
    """The statement of a location of four f32."""
    return f"mloc %{name} {space} size=16 dtype=f32 shape=[4] {attrs}"
