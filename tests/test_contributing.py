"""CONTRIBUTING.md is true: its paths, commands and recipes; and the form of the changelog and of the decisions."""

from __future__ import annotations

import ast
import inspect
import re
import shlex
import tomllib
from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from importlib import import_module
from pathlib import Path

import click
import pytest
from tests.fuzz.sources import KINDS
from tests.test_docs import ROOT, _emitted
from tools import make_docs

from haulout import api
from haulout.cli.main import SHORT_HELP
from haulout.ir.opcodes import COLLECTIVES, OPCODES
from haulout.passes.lower_local_collectives import LOWERINGS
from haulout.passes.pipeline import REGISTRY, compile_pipeline
from haulout.report.catalog import CATALOG
from haulout.report.examples import EXAMPLES
from haulout.sim.numerics.evaluate import KERNELS
from haulout.support.file_kind import Kind

PAGE = ROOT / "CONTRIBUTING.md"
TEXT = PAGE.read_text(encoding="utf-8")
SOURCE = ROOT / "src" / "haulout"
FRONT_ENDS = sorted(path.parent.name for path in (SOURCE / "frontends").glob("*/__init__.py"))
COMMANDS: dict[str, click.Command] = {
    name: getattr(import_module(f"haulout.cli.{module}"), module)
    for name, module in ((each, each.replace("-", "_")) for each in SHORT_HELP)
}

_FENCE = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"`([^`\n]+)`")
_PATH = re.compile(r"(?:src|tests|tools|docs|examples|benchmarks|\.ci)(?:/[\w.\-]+)*|[\w\-]+\.(?:md|toml)")


def section(title: str) -> str:
    """The text below a heading, up to the next heading of the same or a higher level."""
    match = re.search(rf"^(#+) {re.escape(title)}\n(.*?)(?=^#{{1,3}} |\Z)", TEXT, re.MULTILINE | re.DOTALL)
    assert match is not None, title
    return match[2]


def named(text: str) -> list[str]:
    """What stands in backquotes and is a path, with `::TEST` when it names one."""
    found = _CODE.findall(re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL))
    return [each for each in found if _PATH.fullmatch(each.partition("::")[0])]


KINDS_OF = {
    "Add a pass": sorted(Path(inspect.getfile(kind)).stem for kind in REGISTRY.values()),
    "Add an opcode": sorted(LOWERINGS),
    "Add a diagnostic": [],
    "Add a front end": FRONT_ENDS,
    "Add a command": sorted(each.replace("-", "_") for each in COMMANDS),
    "Add an option": [],
}
"""Recipe -> what NAME stands for in its paths."""


# -- the page --------------------------------------------------------------------------------------------------------


def test_every_recipe_is_known() -> None:
    assert re.findall(r"^### (.*)$", TEXT, re.MULTILINE) == list(KINDS_OF)


def test_named_paths_exist() -> None:
    paths = named(TEXT)
    assert "src/haulout/cli/NAME.py" in paths and len(paths) > 80
    wrong = []
    for path in paths:
        file, _, test = path.partition("::")
        if "NAME" in file:
            continue
        if not (ROOT / file).exists() or (test and f"def {test}(" not in (ROOT / file).read_text(encoding="utf-8")):
            wrong.append(path)
    assert wrong == []


def test_paths_with_a_name_exist_for_each_of_their_kind() -> None:
    seen = 0
    for recipe, kinds in KINDS_OF.items():
        for path in (each for each in named(section(recipe)) if "NAME" in each):
            assert kinds, path
            assert [each for each in kinds if not (ROOT / path.replace("NAME", each)).exists()] == [], path
            seen += 1
    assert seen == sum("NAME" in path for path in named(TEXT)) > 4


def commands() -> Iterator[list[str]]:
    """The words of each command, from blocks and from text."""
    for block in _FENCE.findall(TEXT):
        yield from (shlex.split(line) for line in block.splitlines() if line)
    for code in _CODE.findall(TEXT):
        if re.match(r"(?:make|haulout|\.venv/bin/python) ", code):
            yield shlex.split(code)


def test_commands_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    seen = list(commands())
    assert ["make", "test"] in seen and ["make", "test-all"] in seen
    for program, *arguments in seen:
        match program, arguments:
            case "make", [target]:
                assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
            case "haulout", [name, *rest]:
                known = {option for each in COMMANDS[name].params for option in each.opts}
                assert {each for each in rest if each.startswith("-")} <= known, rest
            case ".venv/bin/python", ["-m", "pytest", *rest]:
                paths = [each for each in rest if each.startswith("tests")]
                assert paths and all((ROOT / each).exists() for each in paths), rest
            case ".venv/bin/python", ["-m", "pip", *rest]:
                extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
                assert re.findall(r"\[(\w+)\]", " ".join(rest)) <= list(extras)
            case ".venv/bin/python", [script, *options]:
                text = (ROOT / script).read_text(encoding="utf-8")
                assert all(f'"{each}"' in text for each in options), options
            case _:
                raise AssertionError(f"nothing checks {program} {arguments}")


def test_layers_are_those_that_are_enforced() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (layers,) = (each["layers"] for each in contracts if each.get("containers") == ["haulout"])
    table = [
        set(re.findall(r"`src/haulout/(\w+)(?:\.py)?`", row.split("|")[1]))
        for row in section("Layers").splitlines()
        if "| `src" in row
    ]
    assert table == [set(re.findall(r"\w+", each)) for each in layers]


def test_words_are_in_order_and_have_one_meaning() -> None:
    rows = re.findall(
        r"^\| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", section("Words").split("Write like this")[0], re.MULTILINE
    )
    words = [row[0].strip("`") for row in rows if row[0] not in ("word", "---")]
    assert len(words) > 30 and words == sorted(set(words))


# -- recipes ---------------------------------------------------------------------------------------------------------


def headings(page: str) -> set[str]:
    """Headings of the second level of a generated page."""
    text = (ROOT / "docs" / "reference" / page).read_text(encoding="utf-8")
    return set(re.findall(r"^## (.*)$", text, re.MULTILINE))


@cache
def texts(path: Path) -> set[str]:
    """All string constants of a Python file."""
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    return {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}


@pytest.mark.parametrize("name", REGISTRY)
def test_every_pass_follows_its_recipe(name: str) -> None:
    kind = REGISTRY[name]
    assert name in headings("passes.md")
    assert (ROOT / "docs" / "design" / make_docs.DESIGN_NOTES[name]).exists()
    contract = inspect.cleandoc(kind.__doc__ or "")
    assert "Before:" in contract and "After:" in contract
    runs = [
        line
        for path in (ROOT / "tests" / "filecheck").rglob("*.bir")
        for line in path.read_text(encoding="utf-8").splitlines()
        if line.startswith("# RUN:")
    ]
    assert any(re.search(rf"--passes\s.*\b{name}\b", line) for line in runs)
    tests = [path for path in (ROOT / "tests").rglob("test_*.py") if path != Path(__file__)]
    about = (name, kind.__name__, Path(inspect.getfile(kind)).stem)
    assert any(word in path.read_text(encoding="utf-8") for path in tests for word in about)


@pytest.mark.parametrize("opcode", sorted(KERNELS))
def test_every_opcode_follows_its_recipe(opcode: str) -> None:
    sections = set(re.findall(r"<!-- opcodes: ([\w-]+) -->", (ROOT / "docs" / "opcodes.md").read_text()))
    assert OPCODES[opcode].section in sections
    tests = [*(ROOT / "tests" / "sim").rglob("*.py"), ROOT / "tests" / "check" / "undefined_programs.py"]
    assert any(opcode in texts(path) or any(f" = {opcode} @" in text for text in texts(path)) for path in tests)


def tabulates(path: Path, names: set[str]) -> bool:
    """Whether a set, tuple, list or dictionary of the file is a table of these names: has two of them or more."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.Tuple(elts=cells) | ast.List(elts=cells) | ast.Set(elts=cells) | ast.Dict(keys=cells):
                if len({each.value for each in cells if isinstance(each, ast.Constant)} & names) > 1:
                    return True
    return False


_OWN_NAMES = ("testing", "frontends", "cli", "sim/nki", "target/activation_ranges.py")
"""Folders and files whose names are not those of opcodes."""


def test_every_table_of_opcodes_is_in_the_recipe() -> None:
    """A file that lists opcodes has to be looked at when one is added; front ends evaluate some by
    themselves; commands and instructions of NKI have names of their own."""
    listed = set(named(section("Add an opcode")))
    found = set()
    for path in SOURCE.rglob("*.py"):
        own = any(path.is_relative_to(SOURCE / each) for each in _OWN_NAMES)
        if not own and tabulates(path, set(KERNELS)):
            found.add(path.relative_to(ROOT).as_posix())
    functions = {f"src/haulout/sim/numerics/{name}.py" for name in ("evaluate", "elementwise", "reductions")}
    tables = {
        "src/haulout/ir/opcodes.py",
        "src/haulout/sim/steps/make.py",
        "src/haulout/report/exchange.py",
    }
    assert found == tables | functions <= listed


def test_every_collective_follows_its_recipe() -> None:
    assert set(LOWERINGS) == set(COLLECTIVES)
    described = (ROOT / "docs" / "opcodes.md").read_text(encoding="utf-8")
    numerics = texts(ROOT / "tests" / "passes" / "test_collective_numerics.py")
    for name in LOWERINGS:
        assert f"| `{name}` |" in described and name in numerics
    users = {
        path.relative_to(ROOT).as_posix()
        for path in SOURCE.rglob("*.py")
        if set(LOWERINGS) <= texts(path) and not path.is_relative_to(SOURCE / "frontends" / "nki")
    }
    assert users <= set(named(section("Add an opcode")))


@pytest.mark.parametrize("code", sorted(CATALOG))
def test_every_diagnostic_follows_its_recipe(code: str) -> None:
    assert code in EXAMPLES
    assert code in headings("diagnostics.md")


@pytest.mark.long("6 s")
def test_every_code_is_emitted_and_has_an_entry() -> None:
    assert sorted(_emitted(ROOT / "src")) == sorted(CATALOG)


@pytest.mark.parametrize("name", FRONT_ENDS)
def test_every_front_end_follows_its_recipe(name: str) -> None:
    assert list((ROOT / "tests" / "frontends" / name).glob("test_*.py"))
    assert name in KINDS
    pages = {path.stem for folder in ("docs", "docs/design") for path in (ROOT / folder).glob("*.md")}
    assert name in pages
    assert f"haulout.frontends.{name}" in inspect.getsource(api)


def test_every_suffix_has_mutants_and_a_reader() -> None:
    assert {kind.value.removeprefix(".") for kind in Kind} <= set(KINDS)
    for kind in Kind:
        assert f"case Kind.{kind.name}" in inspect.getsource(api._read_file)


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_follows_its_recipe(name: str) -> None:
    assert f"haulout {name}" in headings("cli.md")
    assert COMMANDS[name].help
    words = {
        text.split()[0] for path in (ROOT / "tests" / "cli").glob("test_*.py") for text in texts(path) if text.split()
    }
    assert name in words
    # The two read no file.
    fuzzed = {text.split()[0] for text in texts(ROOT / "tests/fuzz/sources.py") if text.split()}
    assert name in fuzzed | {"explain", "warmup"}


def test_every_option_follows_its_recipe() -> None:
    for name, command in COMMANDS.items():
        for each in command.params:
            assert not isinstance(each, click.Option) or each.help, f"{name} {each.opts}"
    for name, kind in REGISTRY.items():
        assert [option for option, _, _, meaning in make_docs._options(kind) if not meaning] == [], name
    defaults = {name: each.default for name, each in inspect.signature(api.compile).parameters.items()}
    of_command = {each.name: each.default for each in COMMANDS["compile"].params}
    for name in inspect.signature(compile_pipeline).parameters:
        assert name in of_command, name
        assert defaults[name] in (of_command[name], None), name
        fitting = [kind for kind in REGISTRY.values() for item in fields(kind) if item.name == name]
        assert fitting or name in ("level", "share", "sync"), name  # they choose among passes


# -- changelog and decisions -----------------------------------------------------------------------------------------

CHANGELOG = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
DECISIONS = sorted((ROOT / "docs" / "decisions").glob("*.md"))
SECTIONS = ["Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"]


def test_changelog_has_the_form() -> None:
    versions = re.findall(r"^## (.*)$", CHANGELOG, re.MULTILINE)
    assert versions[0] == "[Unreleased]"
    assert all(re.fullmatch(r"\[\d+\.\d+\.\d+\] - \d{4}-\d\d-\d\d", each) for each in versions[1:])
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert versions[1].startswith(f"[{project['version']}]")
    for body in re.split(r"^## .*$", CHANGELOG, flags=re.MULTILINE)[1:]:
        found = re.findall(r"^### (.*)$", body, re.MULTILINE)
        assert found and found == [each for each in SECTIONS if each in found]


def test_changelog_names_codes_and_commands_that_exist() -> None:
    codes = set(re.findall(r"`([a-z]+(?:-[a-z]+)+)`", CHANGELOG))
    assert codes and codes <= set(CATALOG) | set(COMMANDS)
    names = set(re.findall(r"`haulout ([a-z-]+)`", CHANGELOG))
    assert names and names <= set(COMMANDS)


@pytest.mark.parametrize("path", DECISIONS, ids=lambda path: path.stem)
def test_a_decision_is_short_and_tells_reason_and_cost(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.startswith("# Decision: ")
    found = re.findall(r"^## (.*)$", text, re.MULTILINE)
    assert found[:2] == ["Choice", "Why"] and "Cost" in found
    assert len(text.splitlines()) <= 60


@pytest.mark.parametrize("path", [PAGE, ROOT / "CHANGELOG.md", *DECISIONS], ids=lambda path: path.stem)
def test_pages_speak_of_the_product(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"(?<![\w.])/(?:home|work|tmp|usr|root|opt)/", text)
    assert not re.search(r"(?i)\bissue\b|(?<!\w)#\d+\b", text)
    words = ("mend", "mended", "whoever", "nobody", "stands behind", "leans on")
    assert [word for word in words if re.search(rf"\b{word}\b", text)] == []
    assert [line for line in text.splitlines() if len(line) > 130 and not line.startswith("|")] == []
