"""The report as a person gets it: opened from a file in a real browser, on a phone and on a desk, light and dark."""

from __future__ import annotations

import base64
import json
import re
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser.pages import NAMES, page_of, plan_of

pytest.importorskip("selenium", reason="selenium belongs to the dev extra")

from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
AUDIT = (Path(__file__).parent / "audit.js").read_text(encoding="utf-8")
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
VIEWS = [(width, scheme) for width in (400, 1400) for scheme in ("light", "dark")]


@pytest.fixture(scope="module")
def browser() -> Iterator[webdriver.Chrome]:
    yield from opened_browser()


def opened_browser(text_px: int = 16) -> Iterator[webdriver.Chrome]:
    """Open a browser whose user has set a size of text."""
    found = subprocess.run([ROOT / "tools" / "browser.sh", "--find"], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    chromium, driver = found.stdout.split()
    options = Options()
    options.binary_location = chromium
    options.add_experimental_option("prefs", {"webkit.webprefs.default_font_size": text_px})
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        for flag in (*FLAGS, f"--user-data-dir={profile}"):
            options.add_argument(flag)
        # Both paths are given: selenium then looks for neither and downloads nothing.
        opened = webdriver.Chrome(options=options, service=Service(driver))
        try:
            opened.get("about:blank")
            yield opened
        finally:
            opened.quit()


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("reports")
    made = {name: folder / f"{name}.html" for name in NAMES}
    for name, path in made.items():
        path.write_text(page_of(name), encoding="utf-8")
    return made


def show(browser: webdriver.Chrome, page: Path, width: int, scheme: str, *, media: str = "") -> None:
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False},
    )
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media, "features": features})
    browser.get(page.as_uri())


def log(browser: webdriver.Chrome, kind: str) -> list[dict[str, Any]]:
    """Return what was logged since the last call."""
    entries = browser.get_log(kind)  # type: ignore[no-untyped-call]  # selenium has no types there
    return list(entries)


def requests(browser: webdriver.Chrome, page: Path) -> set[str]:
    """Return every address that a page asked for since the last call, its own too; the browser's own pages left out."""
    messages = [json.loads(entry["message"])["message"] for entry in log(browser, "performance")]
    sent = [each["params"] for each in messages if each["method"] == "Network.requestWillBeSent"]
    return {each["request"]["url"] for each in sent if each["documentURL"] == page.as_uri()}


def audit(browser: webdriver.Chrome) -> dict[str, Any]:
    found = browser.execute_script(AUDIT)
    assert isinstance(found, dict)
    return found


def expected_charts(name: str) -> set[str]:
    """Return the charts that the plan behind a page has to have, whatever the page says."""
    from training_storage.whatif import break_even, steps

    plan = plan_of(name)
    priced = [each for step in steps(plan) if step.plan is not None for each in [break_even(plan, step)] if each.points]
    return {
        "limits",
        "sweep",
        "architecture",
        *(f"break-even-{number}" for number in range(1, min(len(priced), 3) + 1)),
    }


@pytest.mark.parametrize(("width", "scheme"), VIEWS)
@pytest.mark.parametrize("name", NAMES)
def test_page_is_whole_quiet_and_readable(
    browser: webdriver.Chrome, pages: dict[str, Path], name: str, width: int, scheme: str
) -> None:
    log(browser, "browser")
    log(browser, "performance")
    show(browser, pages[name], width, scheme)

    assert [entry["message"] for entry in log(browser, "browser")] == []
    assert {url for url in requests(browser, pages[name]) if not url.startswith("data:")} == {pages[name].as_uri()}

    browser.execute_script("for (const each of document.querySelectorAll('details')) each.open = true")
    found = audit(browser)
    assert found["beyond"] == []
    assert found["scrollWidth"] <= found["width"]
    assert len(found["texts"]) > 200
    assert [each for each in found["texts"] if each["size"] < 11] == []
    assert [each for each in found["texts"] if each["contrast"] < 4.5] == []

    variant = "narrow" if width == 400 else "wide"
    shown = {each["id"].removesuffix(f"-{variant}"): each for each in found["charts"] if each["visible"]}
    assert set(shown) == expected_charts(name)
    for chart in shown.values():
        assert chart["width"] > 300
        assert chart["height"] > 80
        assert chart["paths"] >= 3
        assert chart["labels"] >= 4
        assert chart["cut"] == [], chart["id"]
        assert chart["overlaps"] == [], chart["id"]


WIDTHS = [*(("long", width) for width in (320, 360, 600, 779, 780, 959, 960, 1179, 1180, 2000)), ("short", 320)]


@pytest.mark.parametrize(("name", "width"), WIDTHS)
def test_no_width_between_breaks_the_page(
    browser: webdriver.Chrome, pages: dict[str, Path], name: str, width: int
) -> None:
    show(browser, pages[name], width, "light")
    found = audit(browser)
    assert found["beyond"] == []
    assert found["scrollWidth"] <= found["width"]
    # A screen of 320 px is narrower than a narrow chart, which is shown at four fifths there.
    assert [each for each in found["texts"] if each["size"] < (10.3 if width < 360 else 11)] == []
    variants = {each["id"].rsplit("-", 1)[1] for each in found["charts"] if each["visible"]}
    assert variants == {"narrow" if width < 780 else "wide"}


def test_text_of_twice_the_size_breaks_nothing(pages: dict[str, Path]) -> None:
    for large in opened_browser(text_px=32):
        for name, width in (("long", 1400), ("short", 640), ("lustre", 2000)):
            show(large, pages[name], width, "light")
            assert large.execute_script("return getComputedStyle(document.body).fontSize") == "32px"
            large.execute_script("for (const each of document.querySelectorAll('details')) each.open = true")
            found = audit(large)
            assert found["beyond"] == []
            assert found["scrollWidth"] <= found["width"]
            assert [each for each in found["texts"] if each["size"] < 16] == []  # charts are a quarter larger or more


def test_the_page_works_without_a_mouse(browser: webdriver.Chrome, pages: dict[str, Path]) -> None:
    show(browser, pages["lustre"], 400, "light")
    summaries = len(browser.find_elements(By.TAG_NAME, "summary"))
    assert summaries >= 4
    browser.switch_to.active_element.send_keys(Keys.TAB)
    skip = browser.switch_to.active_element
    assert skip.get_attribute("href").endswith("#decision")  # type: ignore[union-attr]  # a link has one
    assert skip.rect["x"] >= 0
    for _ in range(summaries):
        browser.switch_to.active_element.send_keys(Keys.TAB)
        here = browser.switch_to.active_element
        assert here.tag_name == "summary"
        assert here.value_of_css_property("outline-style") == "solid"
        closed = here.find_element(By.XPATH, "..").get_attribute("open") is None
        here.send_keys(Keys.ENTER)
        assert closed
        assert here.find_element(By.XPATH, "..").get_attribute("open") is not None


@pytest.mark.parametrize("name", NAMES)
def test_paper_is_light_and_cuts_nothing(browser: webdriver.Chrome, pages: dict[str, Path], name: str) -> None:
    def page_color() -> str:
        return str(browser.execute_script("return getComputedStyle(document.body).backgroundColor"))

    show(browser, pages[name], 1400, "light")
    light = page_color()
    show(browser, pages[name], 1400, "dark")
    assert page_color() != light
    show(browser, pages[name], 688, "dark", media="print")  # 182 mm between the margins of A4
    assert page_color() == light
    found = audit(browser)
    assert found["beyond"] == []
    assert [each for each in found["texts"] if each["contrast"] < 4.5] == []
    assert {each["id"].rsplit("-", 1)[1] for each in found["charts"] if each["visible"]} == {"wide"}


@pytest.mark.parametrize("name", NAMES)
def test_page_prints_on_a_sane_number_of_sheets(browser: webdriver.Chrome, pages: dict[str, Path], name: str) -> None:
    show(browser, pages[name], 1400, "light")
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
    answer = browser.execute_cdp_cmd("Page.printToPDF", {"printBackground": True, "preferCSSPageSize": True})
    pdf = base64.b64decode(answer["data"])
    assert pdf.startswith(b"%PDF-")
    assert 3 <= len(re.findall(rb"/Type\s*/Page\b", pdf)) <= 24
