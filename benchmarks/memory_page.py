"""What a memory map costs a browser: to open, and for each frame of zooming and of a moving pointer.

    python benchmarks/memory_page.py [--buffers 1000 10000 100000]

Needs chromium, chromedriver and the extra `browser`. Times are CPU time of the page's main thread, so a busy machine
changes little; `first paint` and `ready` are wall time from the start of the navigation.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from selenium import webdriver

from haulout.packing import Problem, solve
from haulout.report.memory_map import Drawing, Panel, memory_map

FRAMES = 60
_MOVE = """
const [event, frames, done] = arguments, map = panels[0].map, box = map.getBoundingClientRect();
let frame = 0;
function step() {
  const at = { clientX: box.left + box.width * (.5 + .3 * Math.sin(frame / 7)), clientY: box.top + box.height / 2 };
  const more = { ...at, bubbles: true, cancelable: true, pointerId: 1, deltaY: frame < frames / 2 ? -1 : 1 };
  map.dispatchEvent(event === "wheel" ? new WheelEvent(event, more) : new PointerEvent(event, more));
  if (++frame < frames) requestAnimationFrame(step); else requestAnimationFrame(() => setTimeout(done, 0));
}
requestAnimationFrame(step);
"""
_READY = """
const done = arguments[0];
const look = () => document.documentElement.dataset.ready ? done(performance.now()) : setTimeout(look, 2);
look();
"""


def page_of(buffers: int) -> str:
    """Two cores, chains of short lives, some long ones."""
    random = np.random.default_rng(0)
    panels = []
    for core in range(2):
        count = buffers // 2
        lower = np.sort(random.integers(0, 2 * count, count))
        upper = lower + random.geometric(0.02, count) + 1
        size = random.integers(1, 4096, count) * 64
        offset = solve(Problem.of(lower, upper, size), effort=0).offset
        names = [f"layers.{number // 12}.block.tensor{number}" for number in range(count)]
        group = (np.arange(count) % 2).astype(np.int64)
        panels.append(
            Panel(
                f"DRAM, core {core}", names, lower, upper, np.arange(count), offset, size, group, ("local", "shared")
            )
        )
    return memory_map("benchmark", Drawing(panels, "step"))


def browser() -> Any:
    """Headless, with CPU time as the time of its counters."""
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for flag in ("headless=new", "no-sandbox", "disable-gpu", "window-size=1400,1000"):
        options.add_argument(f"--{flag}")
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))
    driver.set_script_timeout(300)
    driver.get("about:blank")
    driver.execute_cdp_cmd("Performance.enable", {"timeDomain": "threadTicks"})
    return driver


def cpu(driver: Any) -> float:
    """Seconds that the main thread has worked."""
    metrics = driver.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]
    return float(next(each["value"] for each in metrics if each["name"] == "TaskDuration"))


def main() -> None:
    """Print a row for each size."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--buffers", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    driver = browser()
    print(" buffers      page  first paint     ready  open, CPU  wheel, CPU a frame  pointer, CPU a frame")
    with tempfile.TemporaryDirectory() as folder:
        for buffers in parser.parse_args().buffers:
            path = Path(folder) / f"{buffers}.html"
            path.write_text(page_of(buffers), "utf-8")
            driver.get("about:blank")
            before = cpu(driver)
            driver.get(path.as_uri())
            ready = driver.execute_async_script(_READY) / 1000
            opened = cpu(driver) - before
            paint = driver.execute_script("return performance.getEntriesByType('paint')[0].startTime") / 1000
            frames = []
            for event in ("wheel", "pointermove"):
                before = cpu(driver)
                driver.execute_async_script(_MOVE, event, FRAMES)
                frames.append((cpu(driver) - before) / FRAMES * 1000)
            size = path.stat().st_size / 2**20
            print(
                f"{buffers:8,} {size:5.1f} MiB {paint:10.2f} s {ready:7.2f} s {opened:8.3f} s {frames[0]:16.1f} ms "
                f"{frames[1]:18.1f} ms"
            )
    driver.quit()


if __name__ == "__main__":
    main()
