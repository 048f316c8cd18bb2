"""Small programs written as text: one block of lines a core, locations first."""

from __future__ import annotations

from textwrap import dedent

from haulout.checker import check_program
from haulout.ir.program import Program
from haulout.ir.text import parse_bir
from haulout.ir.verify import verify
from haulout.support.diagnostics import Diagnostic


def bir(*cores: str, attrs: str = "") -> str:
    """The text of a program; each core's text holds `mloc` lines and instructions, of one block unless it says so."""
    lines = ["bir 1", f'program "snippet" lnc={len(cores)} {attrs}'.rstrip()]
    for core, text in enumerate(cores):
        body = [line for line in dedent(text).splitlines() if line.strip()]
        locations = [line for line in body if line.lstrip().startswith("mloc")]
        rest = [line for line in body if line not in locations]
        if not (rest and rest[0].lstrip().startswith("block")):
            rest.insert(0, "block ^entry:")
        lines += [f"module @nc{core} core={core} {{", "func @main {", *locations, *rest, "}", "}"]
    return "\n".join(lines) + "\n"


def program(*cores: str, attrs: str = "") -> Program:
    """The program of `bir(...)`; it is sound."""
    made = parse_bir(bir(*cores, attrs=attrs), "snippet.bir")
    assert [str(wrong) for wrong in verify(made) if wrong.code != "view-mismatch"] == []
    return made


def findings(*cores: str, attrs: str = "") -> list[Diagnostic]:
    """What the checker says about `bir(...)`."""
    return check_program(program(*cores, attrs=attrs))


def codes(*cores: str, attrs: str = "") -> list[str]:
    """The codes of the findings, sorted."""
    return sorted(finding.code for finding in findings(*cores, attrs=attrs))


def told(finding: Diagnostic) -> str:
    """All text of a finding."""
    return "\n".join([finding.message, *(label.message for label in finding.labels), *finding.notes, *finding.help])
