"""The documentation is true: generated pages fit the code, snippets run, transcripts are real, names exist."""

from __future__ import annotations

import ast
import importlib.util
import re
import shlex
import shutil
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tools import make_docs

from haulout.cli.main import main
from haulout.report.catalog import CATALOG

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
LINKED = [*PAGES, *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md"))]


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT))


# -- generated pages -------------------------------------------------------------------------------------------------


def test_generated_pages_are_what_the_code_gives() -> None:
    assert make_docs.outdated() == []


def test_check_tells_which_page_differs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "reference"
    assert make_docs.main(["--folder", str(folder)]) == 0
    assert make_docs.main(["--folder", str(folder), "--check"]) == 0
    (folder / "reference" / "passes.md").write_text("# Passes\n")
    (folder / "reference" / "cli.md").unlink()
    assert make_docs.main(["--folder", str(folder), "--check"]) == 1
    said = capsys.readouterr().out
    assert "passes.md" in said and "cli.md" in said and "tables.md" not in said


# -- codes -----------------------------------------------------------------------------------------------------------

_CODE = re.compile(r"[a-z]+(-[a-z]+)*\Z")


def _emitted(root: Path) -> dict[str, str]:
    """Every code that stands in the source where a code is expected: code -> a place of it.

    That is: the argument of a function's parameter `code`, by position or by name, the same for the fields of
    `Diagnostic`, and the first of a pair (code, Severity.X).
    """
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(root.rglob("*.py"))}
    position: dict[str, set[int]] = {"Diagnostic": {0}}
    for tree in trees.values():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef):
                names = [each.arg for each in node.args.args if each.arg != "self"]
                if "code" in names:
                    position.setdefault(node.name, set()).add(names.index("code"))
                elif "code" in [each.arg for each in node.args.kwonlyargs]:
                    position.setdefault(node.name, set())
    found: dict[str, str] = {}
    for path, tree in trees.items():
        for expression in _code_expressions(tree, position, _own_calls(tree)):
            for constant in ast.walk(expression):
                text = constant.value if isinstance(constant, ast.Constant) else None
                if isinstance(text, str) and _CODE.match(text):
                    found.setdefault(text, f"{_name(path)}:{expression.lineno}")
    return found


def _own_calls(tree: ast.Module) -> set[ast.Call]:
    """Calls of `self.NAME` in classes whose NAME takes no code, though that of another class does."""
    found = set()
    for owner in ast.walk(tree):
        methods = owner.body if isinstance(owner, ast.ClassDef) else []
        plain = {
            each.name
            for each in methods
            if isinstance(each, ast.FunctionDef) and "code" not in [arg.arg for arg in each.args.args]
        }
        for node in ast.walk(owner) if plain else ():
            match node:
                case ast.Call(func=ast.Attribute(value=ast.Name(id="self"), attr=name)) if name in plain:
                    found.add(node)
    return found


def _code_expressions(tree: ast.Module, position: dict[str, set[int]], skipped: set[ast.Call]) -> Iterator[ast.expr]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Tuple) and len(node.elts) == 2 and _is_severity(node.elts[1]):
            yield node.elts[0]
        if not isinstance(node, ast.Call) or node in skipped:
            continue
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        # A set's `add` takes one argument; nothing that takes a code takes nothing else.
        if name not in position or len(node.args) + len(node.keywords) < 2:
            continue
        for at in position[name]:
            if at < len(node.args) and isinstance(node.args[at], ast.Constant | ast.IfExp):
                yield node.args[at]
        yield from (keyword.value for keyword in node.keywords if keyword.arg == "code")


def _is_severity(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "Severity"


def test_every_code_has_an_entry() -> None:
    assert {code: place for code, place in _emitted(ROOT / "src").items() if code not in CATALOG} == {}


def test_the_scan_finds_codes_of_every_form() -> None:
    found = _emitted(ROOT / "src")
    for code in (
        "bad-input",  # keyword default of a wrapper
        "out-of-bounds",  # code=
        "kept-fences",  # a method with a parameter `code`
        "cross-core-race",  # a conditional, and a table of pairs
        "possible-race",  # a table of pairs alone
        "moved-pin",  # a local function
        "barrier-mismatch",  # Diagnostic(...)
        "view-mismatch",
    ):
        assert code in found, code


def test_entries_say_something() -> None:
    for code, entry in CATALOG.items():
        assert _CODE.match(code), code
        for text in entry:
            assert text.endswith(".") and len(text) > 10, (code, text)


# -- names and links -------------------------------------------------------------------------------------------------

_FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_FILE = re.compile(r"[A-Za-z0-9_.\-/]*[A-Za-z0-9_\-]\.(?:py|md|bir|hlo|npz|toml|json|html)\b")
_MADE = {
    "demo.bir",
    "block.bir",
    "deps.json",
    "expected.npz",
    "inputs.npz",
    "memory.html",
    "out/memory.html",
    "out/program.bir",
    "out/report.json",
    "out/site/index.html",
    "out/timeline.json",
    "out/trace.json",
    "program.bir",
    "report.json",
    "timeline.json",
    "trace.json",
    "task_graph_rank0.json",
}
"""What commands and snippets write, and a text that is no file."""
_FOLDERS = ("src", "tools", "tests", "benchmarks", "docs", "examples")


def _slugs(path: Path) -> set[str]:
    """The anchors of a page, as GitHub makes them from headings."""
    text = _FENCE.sub("", path.read_text(encoding="utf-8"))
    headings = re.findall(r"^#+ +(.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", LINKED, ids=_name)
def test_links_resolve(page: Path) -> None:
    wrong = []
    for target in _LINK.findall(_FENCE.sub("", page.read_text(encoding="utf-8"))):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        path = (page.parent / file).resolve() if file else page
        if not path.exists() or (anchor and anchor not in _slugs(path)):
            wrong.append(target)
    assert wrong == []


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_named_files_exist(page: Path) -> None:
    everywhere = {path.name for folder in _FOLDERS for path in (ROOT / folder).rglob("*")}
    roots = (ROOT, ROOT / "src" / "haulout", page.parent, DOCS)
    wrong = []
    for name in _FILE.findall(page.read_text(encoding="utf-8")):
        is_placeholder = Path(name).stem.isupper()
        if name in _MADE or is_placeholder or ("/" not in name and name in everywhere):
            continue
        if not any((root / name).exists() for root in roots):
            wrong.append(name)
    assert wrong == []


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_no_place_of_one_machine_is_named(page: Path) -> None:
    assert not re.search(r"(?<![\w.])/(?:home|work|tmp|usr|root|opt)/", page.read_text(encoding="utf-8"))


def test_every_page_is_in_the_index() -> None:
    index = DOCS / "README.md"
    linked = {(DOCS / target.partition("#")[0]).resolve() for target in _LINK.findall(index.read_text())}
    assert [_name(page) for page in PAGES if page != index and page.resolve() not in linked] == []


# -- snippets and transcripts ----------------------------------------------------------------------------------------


def _blocks(page: Path, language: str) -> list[str]:
    return [body for info, body in _FENCE.findall(page.read_text(encoding="utf-8")) if info.strip() == language]


def _pages_with(language: str) -> list[Path]:
    return [page for page in PAGES if _blocks(page, language)]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that looks like the project's root to a reader who follows the pages."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _run(page: Path, language: str) -> None:
    """All blocks of a page, in one namespace, one after the other."""
    names: dict[str, Any] = {"__name__": page.stem}
    for number, body in enumerate(_blocks(page, language), 1):
        exec(compile(body, f"{_name(page)}, {language} block {number}", "exec"), names)


@pytest.mark.parametrize("page", _pages_with("python"), ids=_name)
def test_python_runs(page: Path, folder: Path) -> None:
    _run(page, "python")


@pytest.mark.torch
@pytest.mark.long("40 s")
@pytest.mark.skipif(importlib.util.find_spec("torchax") is None, reason="needs the extra `torch`")
@pytest.mark.parametrize("page", _pages_with("python torch"), ids=_name)
def test_python_with_torch_runs(page: Path, folder: Path) -> None:
    _run(page, "python torch")


@pytest.mark.jax
@pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="needs the extra `jax`")
@pytest.mark.parametrize("page", _pages_with("python jax"), ids=_name)
def test_python_with_jax_runs(page: Path, folder: Path) -> None:
    _run(page, "python jax")


@pytest.mark.skipif(importlib.util.find_spec("executorch") is None, reason="needs the extra `executorch`")
@pytest.mark.parametrize("page", _pages_with("python executorch"), ids=_name)
def test_python_with_executorch_runs(page: Path, folder: Path) -> None:
    _run(page, "python executorch")


def _commands(body: str) -> Iterator[tuple[str, list[str]]]:
    """Each `$ command` with the lines shown below it."""
    for part in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
        command, *shown = part.rstrip("\n").split("\n")
        yield command, shown


def _fits(shown: list[str], printed: list[str]) -> bool:
    """Whether the printed lines are those shown, `...` standing for any number of lines.

    Rounding errors depend on the machine's BLAS: any figure below 1e-06 stands for every other.
    """
    small = re.compile(r"error \d(?:\.\d+)?e-0[7-9]")
    shown, printed = ([small.sub("error SMALL", line.rstrip()) for line in lines] for lines in (shown, printed))
    pattern = "".join(r"(?:.*\n)*?" if line == "..." else re.escape(line) + "\n" for line in shown)
    return re.fullmatch(pattern, "".join(line + "\n" for line in printed)) is not None


def test_fits_can_say_no() -> None:
    assert _fits(["a", "...", "d"], ["a", "b", "c", "d "])
    assert not _fits(["a", "d"], ["a", "b", "d"])
    assert not _fits(["a", "..."], ["b"])
    assert _fits(["largest relative error 1.5e-07"], ["largest relative error 2e-07"])
    assert not _fits(["largest relative error 1.5e-07"], ["largest relative error 2e-06"])


@pytest.mark.parametrize("page", _pages_with("console"), ids=_name)
def test_transcripts_are_what_is_printed(page: Path, folder: Path) -> None:
    for body in _blocks(page, "console"):
        for command, shown in _commands(body):
            program, *arguments = shlex.split(command)
            assert program == "haulout", command
            result = CliRunner().invoke(main, arguments)
            assert _fits(shown, result.stdout.splitlines()), f"{command}\n{result.stdout}{result.stderr}"


@pytest.mark.long("10 s")
def test_transcripts_of_the_readme_are_what_is_printed(folder: Path) -> None:
    """The README indents its transcripts; a command may go on in the next line."""
    text = (ROOT / "README.md").read_text(encoding="utf-8").replace("\\\n", " ")
    blocks = [textwrap.dedent(block) for block in re.findall(r"(?:^(?: {4}.*)?\n)+", text, re.MULTILINE)]
    commands = [each for block in blocks for each in _commands(block) if each[0].startswith("haulout")]
    assert len(commands) >= 5
    for command, shown in commands:
        while shown and not shown[-1].strip():
            shown.pop()
        result = CliRunner().invoke(main, shlex.split(command)[1:])
        assert _fits(shown, result.stdout.splitlines()), f"{command}\n{result.stdout}{result.stderr}"


def test_no_other_kind_of_block_hides_code() -> None:
    """A fence with another name would not be run: these are all that there are."""
    kinds = {info.strip() for page in PAGES for info, _ in _FENCE.findall(page.read_text(encoding="utf-8"))}
    assert kinds <= {"python", "python executorch", "python jax", "python torch", "console", "text"}
