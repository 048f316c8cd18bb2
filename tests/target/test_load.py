"""Targets: the presets, files of one's own, and what is said about those that are wrong."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import pytest
from click.testing import CliRunner

from haulout import HauloutError
from haulout.cli.main import main
from haulout.ir.enums import Engine
from haulout.target import PRESETS, load_target
from haulout.target.load import parse_target

GENERIC = (files("haulout.target") / "presets" / "generic.toml").read_text("utf-8")


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_is_complete_and_says_what_it_is(name: str) -> None:
    target = load_target(name)
    assert target.name == name
    assert target.description
    assert all(target.rate(engine).gbytes_per_s > 0 for engine in Engine)
    assert target.rate(Engine.PE).gflops_per_s > 0
    assert target.rate(Engine.DMA0) == target.rate(Engine.DMA15) != target.rate(Engine.PE)


def test_the_presets_are_all_files_that_are_shipped() -> None:
    shipped = {Path(each.name).stem for each in (files("haulout.target") / "presets").iterdir()}
    assert shipped == set(PRESETS)


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("4294967296", None),
        ("4294967296.5", "expected at most 4294967296 (2**32)"),
        ("1e14", "expected at most 4294967296 (2**32)"),
        ("inf", "expected at most 4294967296 (2**32)"),
        ("nan", "expected a number above 0"),
        ("0", "expected a number above 0"),
        ("-1", "expected a number above 0"),
        ("true", "expected a number above 0"),
        ("'2'", "expected a number above 0"),
    ],
)
def test_the_largest_memory_is_what_addresses_reach(value: str, told: str | None) -> None:
    text = GENERIC.replace("[dram]", f"[dram]\ngibibytes = {value}")
    if told is None:
        assert parse_target(text, "t.toml").dram_bytes == 2**62
        return
    with pytest.raises(HauloutError) as caught:
        parse_target(text, "t.toml")
    (finding,) = caught.value.diagnostics
    assert finding.message.startswith("gibibytes = ") and finding.message.endswith(told)
    assert finding.span is not None and text.splitlines()[finding.span.line - 1].startswith("gibibytes")


def test_a_barrier_costs_more_with_every_core() -> None:
    target = load_target("generic")
    assert target.barrier(1) == 1.0
    assert target.barrier(3) == pytest.approx(1.2)


def test_a_file_of_ones_own_replaces_a_preset(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(GENERIC.replace('"generic"', '"mine"').replace("barrier = 1.0", "barrier = 7"))
    target = load_target(str(path))
    assert (target.name, target.barrier_us, target.dram_bytes) == ("mine", 7.0, None)
    path.write_text(GENERIC.replace("[dram]", "[dram]\ngibibytes = 0.5"))
    assert load_target(str(path)).dram_bytes == 2**29  # read anew


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("barrier = 1.0", "barier = 1.0", "[cost_us] has no key 'barier'"),
        ("barrier = 1.0", "barrier = -1", "barrier = -1,"),
        ("barrier = 1.0", "barrier = true", "barrier = True,"),
        ("barrier = 1.0", 'barrier = "1"', "barrier = '1',"),
        ("barrier = 1.0", "barrier = nan", "barrier = nan,"),
        ("barrier = 1.0", "barrier = 1e300", "barrier = 1e+300,"),
        ("barrier = 1.0", "barrier = inf", "barrier = inf,"),
        ("gbytes_per_s = 200", "gbytes_per_s = 0", "gbytes_per_s = 0,"),
        ("least_run = 64", "least_run = 0.5", "least_run = 0.5,"),
        ("wide_slowdown = 2.0", "wide_slowdown = 0.5", "wide_slowdown = 0.5,"),
        ("gather = 4.0", "gather = 0", "gather = 0,"),
        ("[engine.pool]", "[engine.poll]", "[engine] has no key 'poll'"),
        ("barrier = 1.0", "barrier = = 1.0", "invalid TOML: Invalid value"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(old: str, new: str, message: str) -> None:
    with pytest.raises(HauloutError) as caught:
        parse_target(GENERIC.replace(old, new, 1), "t.toml")
    (finding,) = caught.value.diagnostics
    assert finding.code == "bad-input"
    assert message in finding.message
    assert finding.span is not None and finding.span.file == "t.toml"
    assert finding.span.line == next(at for at, line in enumerate(GENERIC.splitlines(), 1) if line.startswith(old))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the target has no table [dram]"),
        ('name = "x"\n', "the target has no table [dram]"),
        (GENERIC.replace('name = "generic"\n', ""), "the target has no string name"),
        (GENERIC.replace("branch = 0.1\n", ""), "[cost_us] has no branch"),
        (GENERIC.replace("[engine.sync]", "[other]"), "the target has no key 'other'"),
        (
            GENERIC.replace("[engine.sync]\nissue_us = 0.0\ngbytes_per_s = 500\n", ""),
            "the target has no table [engine.sync]",
        ),
        ("dram = 3\n" + GENERIC.replace("[dram]\ngbytes_per_s = 200\n", ""), "the target has no table [dram]"),
        (
            GENERIC.replace("barrier = 1.0", f"barrier = {'9' * 5000}"),
            "invalid TOML: an integer of more than 64 bits",
        ),
        (GENERIC.replace("barrier = 1.0", f"barrier = {10**400}"), "invalid TOML: an integer of more than 64 bits"),
        (
            GENERIC.replace("barrier = 1.0", f"barrier = 0x{'f' * 5000}"),
            "invalid TOML: an integer of more than 64 bits",
        ),
        (f"x = {'[' * 100_000}", "invalid TOML: tables or lists are nested too deeply"),
        ("[dram", "invalid TOML: Expected ']' at the end of a table declaration"),
    ],
)
def test_what_is_missing_is_told(text: str, message: str) -> None:
    with pytest.raises(HauloutError) as caught:
        parse_target(text, "t.toml")
    assert caught.value.diagnostics[0].message.startswith(message)


@pytest.mark.parametrize("name", ["trn9", "no/such/file.toml", "", "generic.TOML"])
def test_an_unknown_target_is_bad_input(name: str, tmp_path: Path) -> None:
    program = tmp_path / "p.bir"
    program.write_text('bir 1\nprogram "p" lnc=1\nmodule @nc0 core=0 {\n  func @main {\n    block ^e:\n  }\n}\n')
    out = str(tmp_path / "out")
    result = CliRunner().invoke(main, ["compile", str(program), "-o", out, "-q", "--target", name])
    assert result.exit_code == (0 if name == "" else 2), result.output
    assert "Traceback" not in result.output
