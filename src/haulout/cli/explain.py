"""`haulout explain [CODE]`: the meaning of a code, an example, and what to do."""

from __future__ import annotations

from difflib import get_close_matches
from textwrap import fill, indent

import click

from haulout.cli.status import CLEAN, guarded
from haulout.report.catalog import CATALOG, Entry
from haulout.report.examples import EXAMPLES, Example
from haulout.support.diagnostics import bad_input

_WIDTH = 100


@click.command()
@click.argument("code", required=False)
@guarded
def explain(code: str | None) -> int:
    """Explain a diagnostic code; without CODE, list all of them."""
    if code is None:
        width = max(map(len, CATALOG))
        for each in sorted(CATALOG):
            click.echo(f"{each:<{width}}  {CATALOG[each].what}")
    else:
        click.echo(explanation(known_code(code)))
    return CLEAN


def known_code(code: str) -> str:
    """The code itself; raises `bad-input` with similar codes if it is unknown."""
    if code in CATALOG:
        return code
    near = get_close_matches(code, CATALOG, n=3, cutoff=0.4)
    advice = [f"did you mean {' or '.join(near)}?"] if near else []
    bad_input(f"unknown code '{code}'", help=[*advice, "`haulout explain` lists all codes"])


def explanation(code: str) -> str:
    """The output of `haulout explain CODE`."""
    entry: Entry = CATALOG[code]
    parts = [code, _filled(entry.what), f"Why it matters\n{_filled(entry.why)}"]
    if code in EXAMPLES:
        parts.append(f"Example\n{_example(EXAMPLES[code])}")
    return "\n\n".join([*parts, f"What to do\n{_filled(entry.fix)}"])


def _filled(text: str) -> str:
    return fill(text, _WIDTH, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False)


def _example(example: Example) -> str:
    files = [f"  {name}\n\n{indent(text.rstrip(), '    ')}\n" for name, text in example.files.items()]
    return "\n".join([*files, f"  $ {example.command}", _filled(example.finding)])
