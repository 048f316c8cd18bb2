"""A headless browser, for tests of what people see."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import pytest

BROWSER, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
FLAGS = ("headless=new", "no-sandbox", "disable-gpu", "disable-background-networking", "window-size=1400,1000",
         "force-device-scale-factor=1", "font-render-hinting=none")  # fmt: skip


@pytest.fixture(scope="module")
def driver() -> Iterator[Any]:
    if BROWSER is None or DRIVER is None:
        pytest.skip("needs chromium and chromedriver")
    webdriver = pytest.importorskip("selenium.webdriver", reason="needs the extra `browser`")
    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    for flag in FLAGS:
        options.add_argument(f"--{flag}")
    made = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    made.set_script_timeout(60)
    yield made
    made.quit()
