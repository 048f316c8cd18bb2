"""The memory map as its readers use it: one cursor, fences, keys, dark mode, screen readers, and how it looks."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.report.test_memory_map import EXAMPLE, show, until

import haulout
import haulout.nki
from haulout.ir.program import Program
from haulout.report.memory_map import Drawing, Panel, draw_program, memory_map

PICTURES = Path(__file__).parent / "pictures"
KERNEL = Path(__file__).parents[2] / "examples" / "nki" / "two_core_sum.py"
MOST_DIFFERENT = 6.0
"""Of 255, on average over a picture that is shrunk eight times: letters differ between machines, boxes do not."""


@pytest.fixture(scope="module")
def apart() -> Program:
    """A program with a part of the DRAM for each core, so with several panels."""
    return haulout.compile(EXAMPLE, partitions="equal").program


@pytest.fixture
def opened(driver: Any, apart: Program, tmp_path: Path) -> Any:
    show(driver, memory_map(apart.name, draw_program(apart)), tmp_path)
    yield driver
    assert [entry for entry in driver.get_log("browser") if entry["level"] == "SEVERE"] == []


def send(driver: Any, event: str, panel: int, x: float, y: float, **more: Any) -> None:
    """An event of the pointer at a share of the width and height of a map; returns after the next picture."""
    driver.execute_async_script(
        """
        const [event, number, x, y, more, done] = arguments;
        const map = panels[number].map, box = map.getBoundingClientRect();
        const at = { clientX: box.left + x * box.width, clientY: box.top + y * box.height };
        const kind = event === "wheel" ? WheelEvent : PointerEvent;
        map.setPointerCapture = () => {};
        map.dispatchEvent(new kind(event, { ...at, ...more, pointerId: 1, bubbles: true, cancelable: true }));
        requestAnimationFrame(() => requestAnimationFrame(() => done()));
        """,
        event,
        panel,
        x,
        y,
        more,
    )


def test_one_cursor_goes_through_all_cores(opened: Any) -> None:
    assert opened.execute_script("return panels.length") >= 4
    pixels = "return panels.map(p => [...p.map.getContext('2d').getImageData(x, 0, 1, p.map.height).data].join())"
    read = pixels.replace("return", "const x = Math.round(.4 * panels[0].map.width); return")
    before = opened.execute_script(read)
    send(opened, "pointermove", 1, 0.4, 0.5)
    after = opened.execute_script(read)
    assert all(one != other for one, other in zip(before, after, strict=True))
    assert opened.find_element("id", "cursor").text.startswith("step ")


def test_a_move_of_the_pointer_paints_no_box(opened: Any) -> None:
    opened.execute_script("for (const p of panels) p.pixels[0] = 0x12345678")
    send(opened, "pointermove", 0, 0.3, 0.5)
    assert opened.execute_script("return panels.every(p => p.pixels[0] === 0x12345678)")
    send(opened, "wheel", 0, 0.3, 0.5, deltaY=-1)
    assert opened.execute_script("return panels.every(p => p.pixels[0] !== 0x12345678)")


def test_wheel_and_drag_move_the_view_of_all_panels(opened: Any) -> None:
    full = opened.execute_script("return look().full")
    send(opened, "wheel", 0, 0.5, 0.5, deltaY=-1)
    begin, end = opened.execute_script("return look().view")
    assert end - begin == pytest.approx((full[1] - full[0]) * np.exp(-0.25))
    send(opened, "pointerdown", 2, 0.5, 0.5)
    send(opened, "pointermove", 2, 0.4, 0.5)
    send(opened, "pointerup", 2, 0.4, 0.5)
    moved, stop = opened.execute_script("return look().view")
    assert moved > begin
    assert stop - moved == pytest.approx(end - begin)
    height = opened.execute_script("return panels[0].height")
    send(opened, "wheel", 0, 0.5, 0.5, deltaY=-1, shiftKey=True)
    assert opened.execute_script("return panels[0].height") < height


def test_a_click_on_a_fence_names_what_it_orders(opened: Any, apart: Program) -> None:
    fences = draw_program(apart).fences
    number = next(at for at, fence in enumerate(fences) if fence["orders"])
    full = opened.execute_script("return look().full")
    x = (fences[number]["time"] + 0.5 - full[0]) / (full[1] - full[0])
    send(opened, "pointerdown", 0, x, 0.5)
    send(opened, "pointerup", 0, x, 0.5)
    text = opened.find_element("id", "side").text
    assert text.startswith(f"Fence {fences[number]['name']}")
    assert fences[number]["orders"][0] in text


def test_keys_need_no_mouse(opened: Any) -> None:
    opened.find_element("css selector", "body").send_keys("/")
    assert opened.execute_script("return document.activeElement.id") == "search"
    canvas = opened.find_element("css selector", "canvas.map")
    canvas.send_keys("+")
    begin, _ = opened.execute_script("return look().view")
    canvas.send_keys("\ue014")  # the right arrow
    assert opened.execute_script("return look().view")[0] > begin
    canvas.send_keys("\ue007")  # Enter
    assert opened.find_element("id", "side").text.startswith("Live at step")


def test_what_screen_readers_get(opened: Any) -> None:
    nodes = opened.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
    found = [(node["role"]["value"], node.get("name", {}).get("value", "")) for node in nodes if "role" in node]
    names = [name for role, name in found if role in ("image", "img")]
    assert len(names) == opened.execute_script("return panels.length")
    assert all("live ranges" in name and "live at most" in name for name in names)
    assert [name.strip() for role, name in found if role == "searchbox"] == ["Search"]
    assert {"toolbar", "status", "complementary"} <= {role for role, _ in found}
    assert next(name for role, name in found if role == "button") == "Show all"
    pressed = [each.get_attribute("aria-pressed") for each in opened.find_elements("css selector", "#legend button")]
    assert pressed == ["true", "true", "false"]


def test_sbuf_and_psum_have_panels(driver: Any, tmp_path: Path) -> None:
    program = haulout.compile(
        f"{KERNEL}::two_core_sum", arguments={"x": haulout.nki.tensor("bf16", 256, 512)}
    ).program
    show(driver, memory_map(program.name, draw_program(program)), tmp_path)
    titles = [each.text.partition(":")[0] for each in driver.find_elements("css selector", "h2")]
    note = ", packed here as it has no addresses"
    assert titles[-4:] == [f"{space}, core {core}{note}" for space in ("SBUF", "PSUM") for core in range(2)]
    assert driver.execute_script("return panels.slice(-4).every(p => p.boxes > 0 && p.size.every(size => size > 0))")


# -- how it looks ----------------------------------------------------------------------------------------------------


def sample() -> Drawing:
    """The same on every machine: two panels, three groups, two fences."""
    random = np.random.default_rng(5)
    count = 60
    lower = np.sort(random.integers(0, 180, count))
    upper = lower + random.integers(4, 40, count)
    size, offset = random.integers(16, 200, count) * 64, np.zeros(count, np.int64)
    for at in range(count):  # first fit
        end = 0
        for other in sorted(range(at), key=offset.__getitem__):
            if upper[other] > lower[at] and offset[other] < end + size[at] and offset[other] + size[other] > end:
                end = int(offset[other] + size[other])
        offset[at] = end
    group = np.where(np.arange(count) < 4, 2, np.arange(count) % 2).astype(np.int64)
    panels = [
        Panel(f"DRAM, core {core}", [f"tensor{at}" for at in range(count)], lower, upper, np.arange(count), offset,
              size, group, ("local", "shared", "input, output, constant"), folded=2)
        for core in range(2)
    ]  # fmt: skip
    fences = [{"time": time, "name": f"fence{time}", "orders": ["a: b, then c"]} for time in (60, 140)]
    return Drawing(panels, "step", fences)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_looks_as_it_did(driver: Any, tmp_path: Path, scheme: str) -> None:
    """Where it differs on purpose: remove the picture, run the test, look at the new one, and commit it."""
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    try:
        show(driver, memory_map("sample", sample()), tmp_path)
        send(driver, "pointermove", 0, 0.55, 0.5)
        paper = driver.execute_script("return getComputedStyle(document.body).backgroundColor")
        assert paper == {"light": "rgb(255, 255, 255)", "dark": "rgb(20, 24, 31)"}[scheme]
        taken = driver.get_screenshot_as_png()
        until(driver, "return true")
        kept = PICTURES / f"memory_map_{scheme}.png"
        if not kept.is_file():
            kept.parent.mkdir(exist_ok=True)
            kept.write_bytes(taken)
            pytest.fail(f"{kept.name} is new: look at it, and commit it")
        difference = _difference(driver, taken, kept.read_bytes())
    finally:
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    if difference > MOST_DIFFERENT:
        (tmp_path / kept.name).write_bytes(taken)
    assert difference <= MOST_DIFFERENT, f"the page looks different: compare {tmp_path / kept.name} with {kept}"


def _difference(driver: Any, one: bytes, other: bytes) -> float:
    """The mean difference of two pictures, shrunk eight times; the browser reads them."""
    driver.get("about:blank")
    found = driver.execute_async_script(
        """
        const done = arguments[2];
        const read = async text => {
          const image = new Image(), canvas = document.createElement("canvas");
          image.src = "data:image/png;base64," + text;
          await image.decode();
          canvas.width = 175; canvas.height = 110;
          const context = canvas.getContext("2d");
          context.imageSmoothingQuality = "high";
          context.drawImage(image, 0, 0, canvas.width, canvas.height);
          return context.getImageData(0, 0, canvas.width, canvas.height).data;
        };
        Promise.all([read(arguments[0]), read(arguments[1])]).then(([a, b]) => {
          let sum = 0;
          for (let i = 0; i < a.length; i++) sum += Math.abs(a[i] - b[i]);
          done(sum / (a.length * 3 / 4));
        });
        """,
        *(base64.b64encode(each).decode() for each in (one, other)),
    )
    return float(found)


def test_pictures_that_differ_are_told_apart(driver: Any) -> None:
    light, dark = ((PICTURES / f"memory_map_{scheme}.png").read_bytes() for scheme in ("light", "dark"))
    assert _difference(driver, light, light) == 0
    assert _difference(driver, light, dark) > 10 * MOST_DIFFERENT
