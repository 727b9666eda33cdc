"""A real browser for pages: Debian's Chromium without a window, in an empty profile, that keeps what it asked for."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-sync",
    "--no-first-run",
)


class Browser:
    """One page at a time; `console` and `requests` are those of the page that was opened last."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver

    def open(self, page: Path, *, width: int = 1400, dark: bool = False) -> None:
        """Shows a file and waits until its charts are drawn."""
        from selenium.webdriver.support.ui import WebDriverWait

        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
        self.driver.get("about:blank")
        self.driver.get_log("browser")
        self.driver.get_log("performance")
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": scheme})
        self.driver.get(page.as_uri())
        WebDriverWait(self.driver, 60).until(lambda _: self.run("return document.documentElement.dataset.drawn"))

    def lay_out_for_paper(self) -> None:
        """Shows the open page as it is printed, its charts drawn anew."""
        from selenium.webdriver.support.ui import WebDriverWait

        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
        drawn = "return [...document.querySelectorAll('.chart')].every((c) => c._fullLayout.font.size === 9)"
        WebDriverWait(self.driver, 60).until(lambda _: self.run(drawn))

    def run(self, script: str) -> Any:
        return self.driver.execute_script(script)

    def console(self) -> list[str]:
        """What the page complained about."""
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def requests(self) -> set[str]:
        """Every address that was asked for, but for data that the page itself holds."""
        sent = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        asked = {each["params"]["request"]["url"] for each in sent if each["method"] == "Network.requestWillBeSent"}
        return {address for address in asked if not address.startswith(("data:", "blob:", "about:"))}


@contextmanager
def chromium(profile: Path) -> Iterator[Browser]:
    """Skips where Chromium, its driver or selenium is not installed."""
    binary, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if binary is None or driver is None:
        pytest.skip("no chromium and chromedriver: apt-get install chromium chromium-driver")
    webdriver = pytest.importorskip("selenium.webdriver", reason="no selenium: pip install 'rankloom[dev]'")
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for flag in (*FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    started = webdriver.Chrome(options=options, service=Service(driver))
    try:
        yield Browser(started)
    finally:
        started.quit()
