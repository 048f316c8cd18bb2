"""Starting: what a command imports before it works, the list of commands, and kernels that are compiled."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from pathlib import Path

import click
import pytest
from tests.cli.command import FIXED, ROOT, haulout

import haulout as package
from haulout.cli.main import SHORT_HELP, main
from haulout.cli.status import guarded
from haulout.support.jit import njit

HEAVY = ("jinja2", "numba", "numpy", "rich", "scipy")


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def loaded(code: str) -> list[str]:
    """The heavy packages that a piece of code imports."""
    return json.loads(run(f"import json, sys\n{code}\nprint(json.dumps(sorted({{*sys.modules}} & {{*{HEAVY}}})))"))


def command(*arguments: str) -> str:
    """Code that runs the command from its script's entry, its output taken away."""
    return (
        "import contextlib, io, haulout_start\n"
        f"sys.argv = ['haulout', *{arguments}]\n"
        "with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit): haulout_start.start()"
    )


@pytest.mark.parametrize("arguments", [("--version",), ("--help",), ("-h",), ("chek",)], ids=str)
def test_the_group_imports_nothing_heavy(arguments: tuple[str, ...]) -> None:
    assert loaded(command(*arguments)) == []


def test_the_package_imports_nothing_heavy() -> None:
    assert loaded("import haulout; assert haulout.__version__") == []
    assert loaded("import haulout; haulout.HauloutError, haulout.Severity") == []
    assert loaded("import haulout; haulout.Program") == ["numpy"]


def test_a_small_check_imports_what_it_needs() -> None:
    assert loaded(command("check", str(FIXED))) == ["numpy"]


# -- the package's names ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", package.__all__)
def test_every_name_is_there(name: str) -> None:
    assert getattr(package, name).__name__ == name
    assert name in dir(package)


def test_a_name_that_is_not_there() -> None:
    with pytest.raises(AttributeError, match="module 'haulout' has no attribute 'chek'"):
        package.chek  # type: ignore[attr-defined]  # noqa: B018


def test_check_and_the_checker() -> None:
    """`haulout.check` is the function, `haulout.checker` the package: both can be imported, in any order."""
    code = "import haulout.checker.driver, haulout; print(haulout.check.__module__, haulout.checker.__name__)"
    assert run(code) == "haulout.api haulout.checker\n"


# -- the list of commands --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SHORT_HELP)
def test_short_help_is_what_the_command_says(name: str) -> None:
    """The table says no more than the first sentence of the command's own help, and fits on one line."""
    found = main.get_command(click.Context(main), name)
    assert found is not None
    assert found.name == name
    assert found.help is not None
    assert inspect.cleandoc(found.help).startswith(SHORT_HELP[name].rstrip("."))
    assert f"  {name:<{max(map(len, SHORT_HELP))}}  {SHORT_HELP[name]}\n" in haulout("--help").stdout


def test_every_module_of_a_command_is_listed() -> None:
    modules = {path.stem for path in (ROOT / "src" / "haulout" / "cli").glob("*.py")}
    texts = {name: (ROOT / f"src/haulout/cli/{name}.py").read_text("utf-8") for name in modules}
    commands = {name.replace("_", "-") for name, text in texts.items() if f"def {name}(" in text}
    assert commands - {"main"} == set(SHORT_HELP)


# -- kernels that are compiled ---------------------------------------------------------------------------------------

COMPILING = "compiling kernels for this machine (once) ...\n"


def twice(x: int) -> int:
    """A kernel's function; `njit` gives a kernel that has compiled nothing."""
    return 2 * x


@click.command()
@click.option("--quiet", is_flag=True)
@guarded
def kernels(quiet: bool) -> int:
    assert njit(twice)(2) == njit(twice)(2) == 4
    return 0


@pytest.mark.parametrize(("arguments", "stderr"), [([], COMPILING), (["--quiet"], "")], ids=str)
def test_compiling_is_said_once(
    arguments: list[str], stderr: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from click.testing import CliRunner
    from numba.core import config

    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path))
    done = CliRunner().invoke(kernels, arguments)
    assert (done.exit_code, done.stderr) == (0, stderr)
    assert CliRunner().invoke(kernels, arguments).stderr == ""


@pytest.mark.long("60 s: it compiles all kernels")
def test_warmup_reaches_every_kernel() -> None:
    """For the types that callers use: nothing is left to compile, the second time."""
    first, again = (run("from haulout.cli.main import main; main(['warmup', '-q'])") for _ in range(2))
    count = first.partition(" ")[0]
    assert f"{count} of {count} kernels are ready" in first
    assert "stored in" in first
    assert f"{count} of {count} kernels are ready, 0 of them compiled now" in again


def test_timings_list_the_compilation_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from numba.core import config

    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path))
    result = package.compile(FIXED, on_pass=lambda _: print(njit(twice)(2)))
    timings = result.report.timings
    assert [each.name for each in timings].count("compile kernels") == 1
    assert timings[0].name == "compile kernels"
    assert timings[0].seconds > 0
    names = [each.name for each in package.compile(FIXED, on_pass=lambda _: print(njit(twice)(2))).report.timings]
    assert names == [each.name for each in timings[1:]]
