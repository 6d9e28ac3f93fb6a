"""The report in a real browser: it loads, it is complete in itself, and it answers the mouse."""

import os
import shutil
from pathlib import Path

import polars as pl
import pytest
from playwright.sync_api import sync_playwright

from dkpca.report.page import render
from dkpca.store import runs
from testkit.owners import OWNERS

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
]
HOSTILE = "</script><script>window.hurt = 1</script><img src=x onerror='window.hurt = 1'>"


class Visit:
    """One page, with everything it said and asked for."""

    def __init__(self, page):
        self.page = page
        self.errors: list[str] = []
        self.requests: list[str] = []
        page.on("console", lambda message: self.errors.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("request", lambda request: self.requests.append(request.url))

    def open(self, path):
        self.page.goto(path.as_uri())
        self.page.wait_for_selector("#scatter .points path")
        self.page.wait_for_selector("#scatter-3d canvas")
        self.page.wait_for_selector("#influence .bars path")
        return self


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        pytest.fail(f"these tests need a browser: none of {BROWSERS} is installed; apt-get install chromium")
    profile = tmp_path_factory.mktemp("profile")
    with sync_playwright() as playwright:
        context = playwright.chromium.launch_persistent_context(
            profile, executable_path=found, headless=True, args=FLAGS, viewport={"width": 1280, "height": 900}
        )
        yield context
        context.close()


@pytest.fixture
def visit(browser):
    page = browser.new_page()
    yield Visit(page)
    page.close()


@pytest.fixture
def labeled(fused):
    groups = pl.DataFrame({"person": [f"p{i:02d}" for i in range(60)], "group": ["left", "right", HOSTILE] * 20})
    groups.write_csv(fused.path / "groups.csv")
    fused.ok("report", "run", "--labels", "groups.csv", "--id", "person", "--label", "group", "--title", HOSTILE)
    return fused.path / "run" / "report.html"


@pytest.mark.browser
def test_the_report_loads_without_error_or_request_and_shows_every_sample(labeled, visit, tmp_path):
    visit.open(labeled)
    page = visit.page
    assert visit.errors == []
    assert visit.requests == [labeled.as_uri()]
    assert page.locator("#scatter .points path").count() == 60
    assert page.evaluate("window.hurt") is None
    assert page.locator("h1").inner_text() == HOSTILE
    assert page.locator("#scree .bars .point").count() == 3
    assert page.locator("#scree .errorbar").count() == 3
    assert page.locator("section table").first.locator("tbody tr").count() == len(OWNERS)
    assert page.locator(".modebar-btn[data-title*='PNG']").count() == 4
    assert page.locator(".modebar-btn[data-title*='Share']").count() == 0  # nothing that uploads
    text = page.locator("main").inner_text()
    for words in (
        "components capture at least",
        "bytes saved",
        "influence",
        "Theorem 1",
        "fingerprint",
        "rbf (gamma",
    ):
        assert words in text
    saved = Path(os.environ.get("DKPCA_SCREENSHOTS", tmp_path)) / "report.png"
    page.screenshot(path=saved, full_page=True)
    assert saved.stat().st_size > 50_000


@pytest.mark.browser
def test_the_page_cannot_send_anything(labeled, visit):
    page = visit.open(labeled).page
    assert page.evaluate("fetch('https://example.org').then(() => 'sent', () => 'blocked')") == "blocked"
    assert "Content Security Policy" in visit.errors[0]


@pytest.mark.browser
def test_pointing_at_a_sample_shows_its_id_and_label(labeled, visit):
    page = visit.open(labeled).page
    box = page.locator("#scatter .points path").nth(7).bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    hover = page.wait_for_selector("#scatter .hoverlayer .hovertext").text_content()
    assert "group: " in hover
    assert any(f"p{i:02d}" in hover for i in range(60))
    assert page.evaluate("window.hurt") is None


@pytest.mark.browser
def test_the_report_prints_on_paper_without_losing_a_column(labeled, visit):
    page = visit.open(labeled).page
    assert page.pdf().startswith(b"%PDF")
    page.set_viewport_size({"width": 680, "height": 900})
    page.emulate_media(media="print")
    overflow = page.evaluate(
        "document.querySelector('.scroll').scrollWidth - document.querySelector('.scroll').clientWidth"
    )
    assert overflow <= 0


def test_many_samples_are_drawn_in_part_and_the_page_says_so(fused):
    run = runs.load(fused.path / "run")
    page = render(run, points=20)
    assert "20 of the 60 samples, drawn at random" in page
    assert page.count("<b>p") == 0  # ids travel as data, escaped


def test_labels_that_do_not_fit_are_said(fused):
    error = fused.refused("report", "run", "--labels", "bank.csv", "--id", "person", "--label", "x99")
    assert "bank.csv: has no column 'x99'" in error
    assert "is no run directory" in fused.refused("report", "nowhere")
    rows = pl.read_csv(fused.path / "bank.csv").with_columns(pl.col("person") + "x")
    rows.write_csv(fused.path / "others.csv")
    error = fused.refused("report", "run", "--labels", "others.csv", "--id", "person", "--label", "x1")
    assert "none of its ids in 'person' is a sample of the run, as 'p00'" in error
