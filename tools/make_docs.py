"""Generate the reference pages from the code: tables, passes, diagnostics, commands; the tables of opcodes and of the
rules of the hardware; and the way of a tensor.

    python tools/make_docs.py            # write docs/reference, tutorials/tensor.md, tables in opcodes.md and nki.md
    python tools/make_docs.py --check    # exit 1, and say which, when a page is not what the code gives

A page is a function from the code to text; `PAGES` lists them. What a page says is in the code (docstrings, column
declarations, the rows of opcodes, the catalog of codes, click's help) and is corrected there and nowhere else.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import inspect
import re
import textwrap
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import click

from haulout.cli.main import main as haulout_command
from haulout.frontends.nki.hardware_table import HARDWARE, RULES, TARGETS
from haulout.ir.enums import Engine
from haulout.ir.opcodes import (
    ALL_TYPES,
    BITS,
    COMPLEX,
    CONTINUOUS,
    FETCH,
    FLOATS,
    INTEGERS,
    NUMBERS,
    OPCODES,
    ORDERED,
    REALS,
    Flow,
    Opcode,
    lookup,
)
from haulout.ir.schema import TABLES, Table
from haulout.passes.base import Pass
from haulout.passes.options import option_types, type_text
from haulout.passes.pipeline import LEVELS, REGISTRY, compile_pipeline
from haulout.report.catalog import CATALOG

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
HELP_WIDTH = 100
NOTE = "<!-- Made by tools/make_docs.py; change the code and run it again. -->"

DESIGN_NOTES = {
    "lnc_splitter": "sharing.md",
    "fold_constants": "constants.md",
    "alternate_buffers": "sharing.md",
    "mark_uniform": "sharing.md",
    "split_uniform": "sharing.md",
    "share_replicated": "sharing.md",
    "localize_shared_memory": "tables.md",
    "build_fdeps": "dependences.md",
    "anti_dependency_analyzer_post_shared_dram": "dependences.md",
    "lower_local_collectives": "collectives.md",
    "order_by_phases": "fences.md",
    "extend_shared_lifetimes": "fences.md",
    "assign_queues": "cost-model.md",
    "coloring_allocator_dram_shared": "lifetimes-and-allocation.md",
    "sync_shared_allocations": "lifetimes-and-allocation.md",
    "lower_sync": "lower-sync.md",
    "lower_barriers": "lower-sync.md",
    "estimate": "cost-model.md",
    "check": "checker.md",
}
"""Pass -> the note of docs/design that tells how it works."""


# -- pages -----------------------------------------------------------------------------------------------------------


def tables_page() -> str:
    """Every table of a program, column by column."""
    parts = [
        "# Tables",
        "A program is these tables (`haulout.ir.schema`); [design/tables.md](../design/tables.md) tells how they are "
        "meant to be used. A row number is an id; null is -1; ranges are half-open. `strings` is the table of texts, "
        "each stored once.",
        grid(("table", "what a row is"), [(f"[`{name}`](#{name})", first_line(t)) for name, t in TABLES.items()]),
    ]
    for name, table in TABLES.items():
        parts += [f"## {name}", inspect.cleandoc(table.__doc__ or "")]
        if table.parent is not None:
            parts.append(f"Rows are sorted by `{table.parent}`.")
        parts.append(grid(("column", "dtype", "points into", "meaning"), _columns(table)))
    return page(parts)


def _columns(table: type[Table]) -> list[tuple[str, str, str, str]]:
    rows = []
    for name, spec in table.specs().items():
        target = spec["to"]
        link = "" if target is None else f"[`{target}`](#{target})" if target in TABLES else f"`{target}`"
        meaning = spec["doc"] + ("; may be null" if spec["null"] and "null:" not in spec["doc"] else "")
        rows.append((f"`{name}`", str(spec["dtype"]), link, meaning))
    return rows


def passes_page() -> str:
    """Every pass with its contract and options, and the pipeline of `haulout compile`."""
    steps = [(str(each.position or ""), f"[`{each.name}`](#{each.name})", options_text(each)) for each in pipeline()]
    parts = [
        "# Passes",
        "`haulout opt INPUT --passes 'NAME{OPTION=VALUE},NAME,...'` runs passes by name. The contract says what "
        "holds before and after. `haulout compile` runs this pipeline; with `--sync`, also `lower_sync`, "
        "`lower_barriers` and a second `check`:",
        grid(("order", "pass", "options"), steps),
        "## Levels",
        "`haulout compile -O0` to `-O3`, and `level=` of `haulout.compile`. `-O0` compiles fastest and shares "
        "nothing; `-O1` does what always pays; `-O2` is the default; `-O3` searches longest for places in DRAM, and "
        "lets cores use the same bytes at different times where that takes less. `--share`, `--fuse` and "
        "`--partitions` override the level; `--fences bracket` also leaves out `order_by_phases`. A cell has the "
        "options that differ from the defaults of the pass.",
        levels_table(),
        "## Passes of your own",
        "A pass is a frozen dataclass derived from `haulout.passes.base.Pass`, with a `name` and a method `run`; its "
        "fields are its options. `haulout opt --load FILE.py` takes the passes of a file. An installed package names "
        "its passes as entry points of the group `haulout.passes`. `--print-before`, `--print-after`, their forms "
        "with `-all`, and `--print-after-changed` show the program on stderr. The program is verified after each "
        "pass. The one that crashes or breaks it is named, and `--reproducer DIR` keeps the program before it, with "
        "the pipeline in its first line: `haulout opt` of that file runs the pass again.",
    ]
    for name, kind in REGISTRY.items():
        parts += [f"## {name}", " ".join(_facts(kind)), inspect.cleandoc(kind.__doc__ or "")]
        rows = [(f"`{n}`", kind, f"`{default}`", doc) for n, kind, default, doc in _options(kind)]
        if rows:
            parts.append(grid(("option", "value", "default", "meaning"), rows))
    return page(parts)


def levels_table() -> str:
    """What each level runs, pass by pass, in the order of the default pipeline."""
    made = [compile_pipeline(level=level) for level in range(len(LEVELS))]
    cells = [{(each.name, each.position): options_text(each) or "yes" for each in passes} for passes in made]
    rows = [("HLO front end", *(f"`fuse={level.fuse}`" for level in LEVELS))]
    for key in dict.fromkeys((each.name, each.position) for each in made[-1]):
        rows.append((f"[`{key[0]}`](#{key[0]})", *(found.get(key, "no") for found in cells)))
    return grid(("", *(f"`-O{level}`" for level in range(len(LEVELS)))), rows)


def pipeline() -> list[Pass]:
    """What `haulout compile` runs."""
    return compile_pipeline()


def options_text(each: Pass) -> str:
    """The options of a pass that differ from its defaults, as `opt` takes them."""
    given = {item.name: getattr(each, item.name) for item in fields(each)}
    changed = {item.name: given[item.name] for item in fields(each) if given[item.name] != item.default}
    return " ".join(f"`{name}={str(value).lower()}`" for name, value in changed.items())


def _facts(kind: type[Pass]) -> list[str]:
    facts = [f"Order {kind.order}." if kind.order is not None else "No order of its own."]
    if kind.cross_core:
        facts.append("Skipped when there is one core.")
    if kind.name in DESIGN_NOTES:
        facts.append(f"Design: [{DESIGN_NOTES[kind.name]}](../design/{DESIGN_NOTES[kind.name]}).")
    return facts


def _options(kind: type[Pass]) -> list[tuple[str, str, str, str]]:
    """Name, what it takes, default and meaning of each option; the meaning is the docstring below the field."""
    (body,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    assert isinstance(body, ast.ClassDef)
    meaning: dict[str, str] = {}
    for before, after in zip(body.body, body.body[1:], strict=False):
        if isinstance(before, ast.AnnAssign) and isinstance(before.target, ast.Name) and (text := _text(after)):
            meaning[before.target.id] = " ".join(text.split())
    types = option_types(kind)
    return [(f.name, type_text(types[f.name]), str(f.default), meaning.get(f.name, "")) for f in fields(kind)]


def _text(statement: ast.stmt) -> str | None:
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
        value = statement.value.value
        return value if isinstance(value, str) else None
    return None


def diagnostics_page() -> str:
    """Every code: what, why, what to do."""
    codes = sorted(CATALOG)
    parts = [
        "# Diagnostics",
        "Codes are stable. Severity stands with each finding: notes do not change the exit status, errors and "
        "warnings do.",
        grid(("code", "what it says"), [(f"[`{code}`](#{code})", CATALOG[code].what) for code in codes]),
    ]
    for code in codes:
        entry = CATALOG[code]
        parts += [f"## {code}", entry.what, f"**Why it matters.** {entry.why}", f"**What to do.** {entry.fix}"]
    return page(parts)


def cli_page() -> str:
    """The help of every command, as `--help` prints it at a fixed width."""
    parts = ["# Commands", "`python -m pip install .` installs the command `haulout`."]
    parts += ["## haulout", fenced(_help(haulout_command, "haulout", None))]
    parent = click.Context(haulout_command, info_name="haulout", **haulout_command.context_settings)
    for name in haulout_command.list_commands(parent):
        command = haulout_command.get_command(parent, name)
        assert command is not None
        parts += [f"## haulout {name}", fenced(_help(command, name, parent))]
    return page(parts)


def _help(command: click.Command, name: str, parent: click.Context | None) -> str:
    sizes: dict[str, Any] = {"terminal_width": HELP_WIDTH, "max_content_width": HELP_WIDTH}
    with click.Context(command, parent, info_name=name, **sizes, **command.context_settings) as context:
        lines = command.get_help(context).splitlines()
    return "\n".join(line.rstrip() for line in lines)


_TYPES = {
    ALL_TYPES: "all types",
    ORDERED: "all but complex types",
    NUMBERS: "all but `pred`",
    REALS: "integers, floats",
    CONTINUOUS: "floats, complex types",
    FLOATS: "floats",
    COMPLEX: "complex types",
    BITS: "`pred`, integers",
    INTEGERS: "integers",
    "": "",
}
_PART = re.compile(r"(<!-- opcodes: ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def opcodes_page() -> str:
    """The page as it is, its tables made anew."""
    text = (DOCS / "opcodes.md").read_text(encoding="utf-8")
    return _PART.sub(lambda part: f"{part[1]}{_opcode_table(part[2])}\n{part[3]}", text)


def _opcode_table(part: str) -> str:
    """The opcodes of a section; or, of all, the facts; or the kinds of `Flow`."""
    match part:
        case "facts":
            known = [*(row for row in OPCODES.values() if row.section != "nki"), *_nki_rows()]
            headings = ("opcodes", "engine", "undefined bytes", "equal operands", "atomic", "time", "dimensions")
            return _grouped(headings, known, _opcode_facts)
        case "flow":
            return grid(("name", "meaning"), [(each.value, _flow_text(each)) for each in Flow])
    rows = [row for row in OPCODES.values() if row.section == part]
    return _grouped(("opcodes", "operands", "on", "attributes", "does"), rows, _opcode_contract)


def _opcode_contract(row: Opcode) -> tuple[str, ...]:
    operands = "any" if row.operands is None else f"`{row.operands.text}`"
    return operands, _TYPES[row.types], row.attributes, row.does


def _opcode_facts(row: Opcode) -> tuple[str, ...]:
    engine = "" if row.is_nki else "dma" if row.engine is Engine.DMA0 else row.engine.text
    atomic = "yes" if row.commutes or row.name == FETCH else ""
    reaches = "collective" if row.collective else row.flow.value
    return engine, reaches, "equal bytes" if row.function else "", atomic, row.cost.value, row.axes.value


def _nki_rows() -> list[Opcode]:
    return [*(row for row in OPCODES.values() if row.is_nki), lookup("nki.*")]


def _flow_text(flow: Flow) -> str:
    """The docstring below a member."""
    (body,) = ast.parse(textwrap.dedent(inspect.getsource(Flow))).body
    assert isinstance(body, ast.ClassDef)
    pairs = zip(body.body, body.body[1:], strict=False)
    return next(
        _text(after) or ""
        for before, after in pairs
        if isinstance(before, ast.Assign) and ast.unparse(before.targets[0]) == flow.name
    )


def _grouped(headings: Sequence[str], rows: Sequence[Opcode], cells: Callable[[Opcode], tuple[str, ...]]) -> str:
    """A table in which opcodes of equal cells share a row; columns without any text are left out."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for row in rows:
        groups.setdefault(cells(row), []).append(row.name)
    lines = [(f"`{' '.join(names)}`", *found) for found, names in groups.items()]
    kept = [at for at in range(len(headings)) if any(line[at] for line in lines)]
    return grid([headings[at] for at in kept], [[line[at].replace("|", "\\|") for at in kept] for line in lines])


_RULES = re.compile(r"(<!-- hardware rules -->\n).*?(<!-- end -->)", re.DOTALL)


def nki_page() -> str:
    """The page as it is, its table of rules made anew."""
    text = (DOCS / "nki.md").read_text(encoding="utf-8")
    return _RULES.sub(lambda part: f"{part[1]}{_rules_table()}\n{part[2]}", text)


def _rules_table() -> str:
    """The rules of the hardware, by section."""
    rows, section = [], ""
    for rule in RULES.values():
        where = "all" if rule.targets == TARGETS else ", ".join(rule.targets)
        code = "" if rule.code == HARDWARE else f" (`{rule.code}`)"
        rows.append((
            "" if rule.section == section else rule.section,
            f"`{rule.name}`",
            rule.asks,
            where,
            rule.severity.name.lower() + code,
        ))  # fmt: skip
        section = rule.section
    return grid(("", "rule", "what is asked", "targets", "a breach is"), rows)


def tensor_page() -> str:
    """One tensor on its way through the passes."""
    # This file is a script, and a module of `tools` for the tests.
    way = importlib.import_module("tools.tensor_way" if __package__ else "tensor_way")
    return page(way.page_parts())


PAGES: dict[str, Callable[[], str]] = {
    "reference/tables.md": tables_page,
    "reference/passes.md": passes_page,
    "reference/diagnostics.md": diagnostics_page,
    "reference/cli.md": cli_page,
    "opcodes.md": opcodes_page,
    "nki.md": nki_page,
    "tutorials/tensor.md": tensor_page,
}
"""File of docs -> its text."""


# -- Markdown --------------------------------------------------------------------------------------------------------


def page(parts: Iterable[str]) -> str:
    """Paragraphs, headings and grids with blank lines between, behind the note that the page is generated."""
    return "\n\n".join([NOTE, *parts]) + "\n"


def grid(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def fenced(text: str) -> str:
    """Text as it is."""
    return f"```text\n{text}\n```"


def first_line(documented: object) -> str:
    """The first line of a docstring."""
    return inspect.cleandoc(documented.__doc__ or "").splitlines()[0]


# -- command ---------------------------------------------------------------------------------------------------------


def outdated(folder: Path = DOCS) -> list[str]:
    """The pages in `folder` that are missing or not what the code gives."""
    found = []
    for name, make in PAGES.items():
        path = folder / name
        if not path.is_file() or path.read_text(encoding="utf-8") != make():
            found.append(name)
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the pages, or check them; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when a page is out of date")
    parser.add_argument("--folder", type=Path, default=DOCS, help="where the pages are")
    options = parser.parse_args(arguments)
    if options.check:
        wrong = outdated(options.folder)
        for name in wrong:
            print(f"{name} is out of date: run python tools/make_docs.py")
        return 1 if wrong else 0
    for name, make in PAGES.items():
        path = options.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(make(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
