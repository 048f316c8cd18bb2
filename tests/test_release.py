"""What is uploaded: the wheel has all that runs, the source distribution is small, the page renders."""

from __future__ import annotations

import re
import sys
import tarfile
import tomllib
import zipfile
from email.parser import BytesParser
from pathlib import Path, PurePosixPath

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("haulout", "haulout_start")
SDIST_MIB = 2
"""The most that the source distribution may take, packed."""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The wheel and the source distribution."""
    wheel = pytest.importorskip("hatchling.builders.wheel")
    sdist = pytest.importorskip("hatchling.builders.sdist")
    pytest.importorskip("hatch_fancy_pypi_readme")
    folder = str(tmp_path_factory.mktemp("dist"))
    made = [
        next(builder(str(ROOT)).build(directory=folder, versions=["standard"]))
        for builder in (wheel.WheelBuilder, sdist.SdistBuilder)
    ]
    return Path(made[0]), Path(made[1])


def files_of(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def text_of(wheel: Path, name: str) -> bytes:
    with zipfile.ZipFile(wheel) as archive:
        (found,) = (each for each in archive.namelist() if each.endswith(f".dist-info/{name}"))
        return archive.read(found)


def test_the_wheel_has_every_file_of_the_packages_and_no_other(built: tuple[Path, Path]) -> None:
    wanted = {
        path.relative_to(ROOT / "src").as_posix()
        for package in PACKAGES
        for path in (ROOT / "src" / package).rglob("*")
        if path.is_file() and path.suffix in (".py", ".toml", ".html", ".css", ".js", ".typed")
    }
    found = {name for name in files_of(built[0]) if ".dist-info/" not in name}
    assert found == wanted
    assert {"haulout/py.typed", "haulout/report/templates/memory_map.js"} <= found


def test_nothing_is_left_out_of_the_packages_by_its_suffix() -> None:
    """The test above knows all suffixes of the source."""
    suffixes = {
        path.suffix
        for package in PACKAGES
        for path in (ROOT / "src" / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert suffixes <= {".py", ".toml", ".html", ".css", ".js", ".typed"}


def test_the_wheel_has_the_command_the_plugin_and_the_licence(built: tuple[Path, Path]) -> None:
    points = text_of(built[0], "entry_points.txt").decode()
    assert "haulout = haulout_start:start" in points
    assert "haulout = haulout.testing.pytest_plugin" in points
    assert text_of(built[0], "licenses/LICENSE") == (ROOT / "LICENSE").read_bytes()


def test_the_source_distribution_is_small_and_has_no_tests(built: tuple[Path, Path]) -> None:
    assert built[1].stat().st_size < SDIST_MIB * 2**20
    with tarfile.open(built[1]) as archive:
        names = {PurePosixPath(*PurePosixPath(name).parts[1:]) for name in archive.getnames()}
    assert not {name.parts[0] for name in names} & {"tests", "benchmarks", "tools", "out", "dist"}
    for name in ("README.md", "LICENSE", "CHANGELOG.md", "pyproject.toml", "docs/README.md", "PKG-INFO"):
        assert PurePosixPath(name) in names
    assert PurePosixPath("examples/jax/decoder_train.n4.hlo") in names  # the README runs it
    assert PurePosixPath("src/haulout_judges/__init__.py") not in names


def test_the_page_of_the_index_renders_and_has_no_dead_link(built: tuple[Path, Path]) -> None:
    metadata = BytesParser().parsebytes(text_of(built[0], "METADATA"))
    assert metadata["Description-Content-Type"] == "text/markdown"
    page = metadata.get_payload()
    assert isinstance(page, str)
    links = re.findall(r"\[[^\]]*\]\(([^)\s]+)\)", page)
    assert [link for link in links if not re.match(r"https?://|mailto:|#", link)] == []
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(page.splitlines()) == len(readme.splitlines())
    assert "haulout check examples/race/sum_race.bir" in page
    renderer = pytest.importorskip("markdown_it", reason="needs markdown-it-py, which rich brings")
    html = renderer.MarkdownIt("commonmark").enable("table").render(page)
    assert html.count("<h2>") == readme.count("\n## ")
    assert "<table>" in html
    assert "](" not in re.sub(r"<(code|pre)>.*?</\1>", "", html, flags=re.DOTALL)


def test_classifiers_name_the_pythons_that_are_tested() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = {each.rpartition(" ")[2] for each in project["classifiers"] if "Python :: 3." in each}
    least = project["requires-python"].removeprefix(">=")
    assert least in named
    tried = re.search(r"for minor in ([\d ]+);", (ROOT / ".ci" / "pythons").read_text(encoding="utf-8"))
    assert tried is not None
    assert named <= {f"3.{minor}" for minor in tried[1].split()}
    assert sys.version_info >= tuple(map(int, least.split(".")))
