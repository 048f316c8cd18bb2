"""Names as they are in every output: nothing reads them as markup, and no page is broken by them."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from tests.cli.command import FIXED, haulout, map_data

MARKUP = ["a[/x]b", "[red]", "[bold]x[/bold]", ":smile:", "\\[x]"]
HTML = ["</script><img src=x onerror=alert(1)>", "<!--<script>", "a\u2028b"]


def renamed(folder: Path, *, program: str = "two-core sum", shared: str = "part0", output: str = "out") -> Path:
    """The example with other names."""
    text = FIXED.read_text()
    for old, new in (("part0", shared), ("out", output)):
        quoted = '"' + new.replace("\\", "\\\\") + '"'
        text = text.replace(f"%{old}", f"%{quoted}").replace(f"[{old},", f"[{quoted},")
        text = text.replace(f"outputs=[{old}]", f"outputs=[{quoted}]")
    text = re.sub(r'program ".*?"', lambda _: 'program "' + program.replace("\\", "\\\\") + '"', text)
    path = folder / "names.bir"
    path.write_text(text, "utf-8")
    return path


@pytest.mark.parametrize("name", MARKUP)
def test_printed_as_they_are(name: str, tmp_path: Path) -> None:
    source = renamed(tmp_path, program=name, output=name)
    compiled = haulout("compile", source, "-q", "-o", tmp_path / "out")
    assert compiled.status == 0, compiled
    assert f"{name}: 2 cores" in compiled.stdout
    simulated = haulout("simulate", source)
    assert simulated.status == 0, simulated
    assert name in simulated.stdout
    assert haulout("check", source).stdout.startswith(f"{name}: 2 cores, ")


class Page(HTMLParser):
    """Elements of a page, and the text in its scripts and titles."""

    def __init__(self) -> None:
        super().__init__()
        self.tags = ["page"]
        self.texts: dict[str, list[str]] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.texts.setdefault(self.tags[-1], []).append(data)


@pytest.mark.parametrize("name", [*MARKUP, *HTML])
def test_no_name_breaks_the_memory_map(name: str, tmp_path: Path) -> None:
    assert haulout("compile", renamed(tmp_path, program=name, shared=name), "-q", "-o", tmp_path / "out").status == 0
    page = (tmp_path / "out" / "memory.html").read_text("utf-8")
    found = Page()
    found.feed(page)
    assert found.texts["title"][0] == name
    assert found.tags.count("script") == 3
    assert "img" not in found.tags
    assert any(name in panel["names"] for panel in map_data(page)["panels"])


def test_names_of_a_plan(tmp_path: Path) -> None:
    """Its buffers may be called anything; the page is named as the file, which may be no UTF-8."""
    path = tmp_path / "odd\udcff.csv"
    path.write_text('id,lower,upper,size,offset\n"a<!--\x01",0,3,4,0\n', "utf-8")
    assert haulout("map", path, "-o", tmp_path / "page.html").status == 0
    page = (tmp_path / "page.html").read_text("utf-8")
    assert "<title>odd\\xff</title>" in page
    assert map_data(page)["panels"][0]["names"] == ["a<!--\x01"]
