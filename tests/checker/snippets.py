"""Small programs written as text: one block of lines a core, locations first."""

from __future__ import annotations

from textwrap import dedent

from haulout.checker import check_program
from haulout.checker.explain.fixes import AddBarrier, AddDependence, AddExchange, AddRelay, Fix
from haulout.ir.program import Program
from haulout.ir.text import parse_bir
from haulout.ir.verify import verify
from haulout.support.diagnostics import Diagnostic, Subject


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


def subject(finding: Diagnostic) -> Subject:
    """What a finding is about."""
    assert finding.subject is not None
    return finding.subject


def sides(finding: Diagnostic) -> list[str]:
    """The instructions of a finding, each as `NAME@CORE`."""
    return [f"{each.name}@{each.core}" for each in subject(finding).instructions]


def choices(finding: Diagnostic) -> list[tuple[str, tuple[int, ...]]]:
    """The choices of loops and branches that a finding depends on."""
    return [(each.block.removeprefix("^"), each.choice) for each in subject(finding).provisos]


def edits(made: Program, finding: Diagnostic) -> list[str]:
    """The edits that a finding advises: `deps w -> r`, `carried r -> w`, `barrier w | r` (the next instruction or the
    end on each core), `sendrecv w -> r`, `relay w -> r`.
    """
    assert finding.advice is not None and isinstance(finding.advice.fix, Fix)
    name, found = made.instruction_name, []
    for edit in finding.advice.fix.edits:
        if isinstance(edit, AddBarrier):
            blocks = made.instructions.block
            inside = [each.before < len(blocks) and blocks[each.before] == each.block for each in edit.places]
            places = [name(each.before) if some else "end" for each, some in zip(edit.places, inside, strict=True)]
            found.append(f"barrier {' | '.join(places)}")
            continue
        kind = {AddExchange: "sendrecv", AddRelay: "relay"}.get(type(edit), "deps")
        if isinstance(edit, AddDependence) and edit.carried:
            kind = "carried"
        found.append(f"{kind} {name(edit.producer)} -> {name(edit.consumer)}")
    return found
