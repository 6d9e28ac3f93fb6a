"""The documentation from a folder, without a server and without the network: navigation and search work."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import expect

from testkit.browser import open_browser

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    shutil.copy(ROOT / "zensical.toml", folder)
    for name in ("docs", "src"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    program = Path(sys.executable).with_name("zensical")
    built = subprocess.run([program, "build", "--strict"], cwd=folder, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    return folder / "site"


@pytest.mark.browser
@pytest.mark.slow
def test_the_site_is_read_and_searched_from_its_files(site, tmp_path):
    with open_browser(tmp_path) as browser:
        page, requests, errors = browser.new_page(), [], []
        page.on("request", lambda request: requests.append(request.url))
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto((site / "index.html").as_uri())
        page.get_by_role("link", name="Getting started", exact=True).first.click()
        expect(page.locator("h1")).to_contain_text("Getting started")
        page.get_by_role("link", name="Decisions", exact=True).first.click()
        expect(page.locator("h1")).to_contain_text("Decisions")
        page.keyboard.press("/")
        page.get_by_role("combobox", name="Search").fill("what could be recovered")
        page.locator("a[href*='disclosure.html'][href$='#what-could-be-recovered']").first.click()
        expect(page.locator("h1")).to_contain_text("Disclosure")
        expect(page.locator("#what-could-be-recovered")).to_be_in_viewport()
    assert errors == []
    assert [address for address in requests if not address.startswith("file:")] == []
