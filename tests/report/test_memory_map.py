"""The memory map: what the page says of a program, and in a browser, what it shows."""

from __future__ import annotations

import base64
import json
import re
import time
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import haulout
from haulout.ir.enums import NONE, Kind
from haulout.ir.program import Program
from haulout.report.memory_map import Drawing, Panel, draw_program, memory_map

EXAMPLE = Path(__file__).parents[2] / "examples" / "jax" / "decoder_train.n4.hlo"


@pytest.fixture(scope="module")
def program() -> Program:
    return haulout.compile(EXAMPLE).program


@pytest.fixture(scope="module")
def page(program: Program) -> str:
    return memory_map(program.name, draw_program(program))


def section(page: str, name: str) -> Any:
    packed = re.search(rf'id="{name}">(.*?)</script>', page)[1]  # type: ignore[index]
    return json.loads(zlib.decompress(base64.b64decode(packed, validate=True)))


def test_boxes_of_one_space_never_overlap(program: Program) -> None:
    for panel in draw_program(program).panels:
        order = np.argsort(panel.lower, kind="stable").tolist()
        live: list[int] = []
        for at in order:
            live = [other for other in live if panel.upper[other] > panel.lower[at]]
            for other in live:
                apart = panel.offset[at] + panel.size[at] <= panel.offset[other]
                assert apart or panel.offset[other] + panel.size[other] <= panel.offset[at]
            live.append(at)


def test_every_placed_location_has_a_box_and_inputs_last(program: Program) -> None:
    panels, rows = draw_program(program).panels, program.locations
    drawn = np.concatenate([panel.rows for panel in panels if panel.rows is not None])
    placed = np.flatnonzero((rows.address != NONE) & (rows.remote_name == NONE) & (rows.size > 0))
    assert sorted(drawn.tolist()) == placed.tolist()
    for panel in panels:
        assert panel.rows is not None
        whole = np.isin(rows.kind[panel.rows], [Kind.INPUT, Kind.INOUT, Kind.CONST])
        assert (panel.lower[whole] == 0).all()
        assert (panel.upper[whole] == len(program.instructions)).all()
        assert (panel.group[whole] == panel.folded).all()


def test_the_page_has_the_peak_the_fences_and_the_accesses(program: Program, page: str) -> None:
    data, details = section(page, "data"), section(page, "details")
    assert len(data["fences"]) == len(program.barriers) // program.lnc
    assert any("then" in line for fence in data["fences"] for line in fence["orders"])
    times = [fence["time"] for fence in data["fences"]]
    assert times == sorted(times)
    for panel in data["panels"]:
        level = dict(zip(panel["times"], panel["level"], strict=True))
        live = [
            panel["size"][buffer]
            for lower, upper, buffer in zip(panel["lower"], panel["upper"], panel["buffer"], strict=True)
            if lower <= panel["time"] < upper
        ]
        assert sum(live) == level[panel["time"]] == max(panel["level"])
        row = panel["row"][0]
        begin, end = details["start"][row : row + 2]
        assert 0 < end - begin <= details["count"][row]


def test_a_fence_of_the_page_names_both_sides(program: Program) -> None:
    lines = [line for fence in draw_program(program).fences for line in fence["orders"]]
    assert all(re.search(r"^\S+: \S+ on core \d (writes|reads), then \S+ on core \d (writes|reads)$", line)
               or line.startswith("and ") for line in lines)  # fmt: skip


# -- in a browser ----------------------------------------------------------------------------------------------------


def show(driver: Any, page: str, folder: Path) -> None:
    """Open a page, and wait until it has drawn."""
    (folder / "memory.html").write_text(page, "utf-8")
    driver.get((folder / "memory.html").as_uri())
    until(driver, "return document.documentElement.dataset.ready === 'yes'")


def until(driver: Any, condition: str) -> None:
    """Wait for the page; what it does comes at once, but not in the same moment."""
    end = time.monotonic() + 60
    while not driver.execute_script(condition):
        assert time.monotonic() < end, condition
        time.sleep(0.05)


@pytest.fixture
def opened(driver: Any, page: str, tmp_path: Path) -> Any:
    show(driver, page, tmp_path)
    yield driver
    assert [entry for entry in driver.get_log("browser") if entry["level"] == "SEVERE"] == []


def click_box(driver: Any, panel: int, name: str) -> None:
    """Click the middle of a box."""
    driver.execute_script(
        """
        const p = panels[arguments[0]], i = p.buffer.findIndex(buffer => p.names[buffer] === arguments[1]);
        const box = p.map.getBoundingClientRect(), buffer = p.buffer[i];
        const x = box.left + toX((p.lower[i] + p.upper[i]) / 2, box.width);
        const y = box.top + (1 - (p.offset[buffer] + p.size[buffer] / 2 - p.bottom) / p.height) * box.height;
        const at = { clientX: x, clientY: y, pointerId: 1, bubbles: true };
        p.map.setPointerCapture = () => {};
        p.map.dispatchEvent(new PointerEvent("pointerdown", at));
        p.map.dispatchEvent(new PointerEvent("pointerup", at));
        """,
        panel,
        name,
    )


def test_a_click_tells_of_the_buffer(opened: Any, page: str) -> None:
    panel = section(page, "data")["panels"][0]
    inside = [at for at, group in enumerate(panel["group"]) if group == 0]
    name = panel["names"][max(inside, key=panel["size"].__getitem__)]
    click_box(opened, 0, name)
    until(opened, "return document.getElementById('side').textContent.includes('writes')")
    text = opened.find_element("id", "side").text
    assert name in text
    assert "offset" in text
    assert "writes" in text
    assert "Live at step" in text


def test_search_toggles_and_keys(opened: Any, page: str) -> None:
    panels = section(page, "data")["panels"]
    field = opened.find_element("id", "search")
    field.send_keys("dot")
    until(opened, "return document.getElementById('hits').textContent !== ''")
    found = sum("dot" in name for panel in panels for name in panel["names"])
    assert int(opened.find_element("id", "hits").text.split()[0]) >= found > 0
    toggle = opened.find_elements("css selector", "#legend button")[2]
    assert toggle.get_attribute("aria-pressed") == "false"
    height = opened.execute_script("return panels[0].height")
    toggle.click()
    assert toggle.get_attribute("aria-pressed") == "true"
    assert opened.execute_script("return panels[0].height") >= height
    canvas = opened.find_element("css selector", "canvas.map")
    canvas.send_keys("+")
    begin, end = opened.execute_script("return look().view")
    whole = opened.execute_script("return look().full")
    assert end - begin == pytest.approx(0.8 * (whole[1] - whole[0]))
    canvas.send_keys("0")
    assert opened.execute_script("return look().view") == whole


def test_what_is_painted(opened: Any) -> None:
    """Each shown box has its colour in its middle, and nothing is painted where none is."""
    wrong = opened.execute_script(
        """
        let wrong = 0, looked = 0;
        for (const p of panels) {
          paint(p);
          const w = p.image.width, h = p.image.height;
          for (let i = 0; i < p.boxes; i++) {
            const buffer = p.buffer[i];
            const { view } = look(), middle = (p.lower[i] + p.upper[i]) / 2;
            const x = Math.floor((middle - view[0]) / (view[1] - view[0]) * w);
            const y = Math.floor(h - (p.offset[buffer] + p.size[buffer] / 2 - p.bottom) / p.height * h);
            const tall = p.size[buffer] / p.height * h, wide = (p.upper[i] - p.lower[i]) / (view[1] - view[0]) * w;
            if (tall < 4 || wide < 4 || y < 0 || y >= h) continue;
            looked++;
            const ink = p.pixels[y * w + x], blank = packed(style("--paper"));
            const wanted = shown(p, buffer) ? packed(colour(p.group[buffer])) | 0 : blank | 0;
            if ((ink | 0) !== wanted) wrong++;
          }
        }
        return [wrong, looked];
        """
    )
    assert wrong[0] == 0
    assert wrong[1] > 20


def test_names_run_no_script(driver: Any, tmp_path: Path) -> None:
    bad = "</script><img src=x onerror=window.hit=1>"
    one = np.ones(1, np.int64)
    panel = Panel(bad, [bad], 0 * one, 5 * one, 0 * one, 0 * one, 64 * one, 0 * one, (bad,))
    show(driver, memory_map(bad, Drawing([panel])), tmp_path)
    click_box(driver, 0, bad)
    until(driver, "return document.getElementById('side').textContent.includes('offset')")
    assert bad in driver.find_element("id", "side").text
    assert driver.execute_script("return window.hit") is None
