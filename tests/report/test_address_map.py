"""`vnc_remote_addr_map` is the owners' placement, read by name from the printed program."""

from __future__ import annotations

import json
import re
from pathlib import Path
from random import Random

import pytest
from click.testing import CliRunner

from haulout import compile as compile_program
from haulout.cli.main import main
from haulout.ir.text import print_bir
from haulout.report.address_map import remote_address_map
from haulout_generators.programs import random_program

_LOCATION = re.compile(r"mloc %(\S+) (.*)")
_CORE = re.compile(r"module @\S+ core=(\d+)")


def attribute(text: str, key: str) -> str | None:
    found = re.search(rf"(?:^| ){key}=(\[[^\]]*\]|\S+)", text)
    return found.group(1) if found else None


def expected(text: str) -> list[dict[str, object]]:
    """The map by reading the program's text: views, and the lines of their owners."""
    lines: dict[tuple[int, str], str] = {}
    core = 0
    for line in text.splitlines():
        if found := _CORE.search(line):
            core = int(found.group(1))
        if found := _LOCATION.search(line):
            lines[core, found.group(1)] = found.group(2)
    rows = []
    for (core, name), attrs in lines.items():
        remote = attribute(attrs, "remote")
        if remote is None:
            continue
        owner, owner_core = remote.strip("[]").split(",")
        at = lines[int(owner_core), owner]
        address = attribute(at, "address")
        place = {
            key: None if address is None else int(attribute(at, key) or 0, 0)
            for key in ("address", "bank", "partition")
        }
        rows.append(
            {
                "function": "main",
                "name": name,
                "core": core,
                "owner_core": int(owner_core),
                "owner_name": owner,
                **place,
            }
        )
    return rows


@pytest.mark.parametrize("seed", range(30))
def test_map_is_the_owners_placement(seed: int) -> None:
    result = compile_program(random_program(Random(seed)))
    text = print_bir(result.program)
    written = json.loads(result.report.to_json())["vnc_remote_addr_map"]
    assert written == expected(text)
    # The views agree: sync_shared_allocations copied the same.
    own = {
        (view.name, core): view.address
        for core, module in enumerate(result.program.module_views())
        for view in module.functions[0].locations
    }
    assert all(own[row["name"], row["core"]] == row["address"] for row in written)


def test_some_program_has_a_map() -> None:
    assert any(len(remote_address_map(compile_program(random_program(Random(s))).program)) > 1 for s in range(5))


def test_before_allocation_there_are_no_addresses() -> None:
    program = random_program(Random(1))
    rows = remote_address_map(program)
    assert rows
    assert {(row.address, row.bank, row.partition) for row in rows} == {(None, None, None)}


def test_compile_writes_it(tmp_path: Path) -> None:
    source = tmp_path / "case.bir"
    source.write_text(print_bir(random_program(Random(3))))
    done = CliRunner().invoke(main, ["compile", str(source), "-o", str(tmp_path / "out"), "--quiet"])
    assert done.exit_code == 0, done.output
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert report["vnc_remote_addr_map"] == expected((tmp_path / "out" / "program.bir").read_text())
