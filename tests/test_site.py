"""The documentation site has every page and the whole API, and needs nothing from the network."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.test_docs import DOCS, LINKED, ROOT

import haulout
from haulout import checker, jax, nki, packing, torch

pytestmark = pytest.mark.long("10 s: builds the site")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site as `make docs` builds it."""
    pytest.importorskip("sphinx")
    folder = tmp_path_factory.mktemp("site")
    options = ["--fail-on-warning", "--keep-going", "--quiet", "--builder", "html", "--conf-dir", "docs"]
    command = [sys.executable, "-m", "sphinx", *options, "--doctree-dir", f"{folder}-doctrees", ".", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_every_page_is_in_the_navigation(site: Path) -> None:
    linked = set(re.findall(r'<li class="toctree-l1[^>]*><a [^>]*href="([^"#]+)"', (site / "index.html").read_text()))
    pages = [path.relative_to(ROOT).with_suffix(".html").as_posix() for path in [*LINKED, *DOCS.rglob("*.rst")]]
    assert len(pages) > 30
    assert [page for page in pages if not (site / page).exists() or page not in linked | {"README.html"}] == []


def test_the_api_is_described_and_can_be_searched(site: Path) -> None:
    search = (site / "searchindex.js").read_text()
    for module in (haulout, nki, jax, torch, packing, checker):
        page = (site / "docs" / "api" / f"{module.__name__.rpartition('.')[2]}.html").read_text()
        for name in module.__all__:
            value = getattr(module, name)
            if not (inspect.isroutine(value) or inspect.isclass(value)):
                continue
            assert f'id="{module.__name__}.{name}"' in page, name
            assert name in search, name


def test_the_site_loads_nothing_from_elsewhere(site: Path) -> None:
    loads = re.compile(r'<(?:script|img|iframe|link)\b[^>]*\b(?:src|href)="(?:https?:)?//[^"]*"')
    pages = list(site.rglob("*.html"))
    assert len(pages) > 30
    assert [tag for page in pages for tag in loads.findall(page.read_text()) if "canonical" not in tag] == []
