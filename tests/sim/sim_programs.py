"""Small programs for the simulator's tests, without the frame that every `.bir` file has."""

import base64

from haulout.ir.program import Program
from haulout.ir.text import parse_bir


def program(*cores: str) -> Program:
    """A program of one function from the statements of each core: `mloc` lines, then instructions."""
    return parse_bir(source(*cores), "test.bir")


def source(*cores: str) -> str:
    """The text of that program."""
    lines = ["bir 1", f'program "test" lnc={len(cores)}']
    for core, statements in enumerate(cores):
        rows = [row.strip() for row in statements.strip().splitlines()]
        lines += [f"module @nc{core} core={core} {{", "func @main {"]
        lines += [row for row in rows if row.startswith("mloc")]
        if not any(row.startswith("block") for row in rows):
            lines.append("block ^entry:")
        lines += [row for row in rows if not row.startswith("mloc")]
        lines += ["}", "}"]
    return "\n".join(lines) + "\n"


def vector(name: str, space: str = "dram.local", attrs: str = "") -> str:
    """The statement of a location of four f32."""
    return f"mloc %{name} {space} size=16 dtype=f32 shape=[4] {attrs}"


def constant(name: str, value: int) -> str:
    """The statement of a constant s32."""
    data = base64.b64encode(value.to_bytes(4, "little", signed=True)).decode()
    return f'mloc %{name} dram.local size=4 kind=const dtype=s32 shape=[] data="{data}"'
