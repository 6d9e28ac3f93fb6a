"""The report in a real browser: every control of the page is used, and what it shows is compared with the data."""

import csv
import io
import os
import re
import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from PIL import Image

from dkpca.store import runs
from testkit.browser import open_browser
from testkit.owners import OWNERS, frame, numbers
from testkit.program import Office

pytestmark = pytest.mark.browser

HOSTILE = "</script><script>window.hurt = 1</script><img src=x onerror='window.hurt = 1'>"
PEOPLE = [f"p{i:02d}" for i in range(60)]
NEW = [f"n{i}" for i in range(7)]
# Pixels of a canvas that are not transparent, and a fingerprint of all of them.
PIXELS = """name => {
  const source = document.getElementById(name), copy = document.createElement("canvas");
  [copy.width, copy.height] = [source.width, source.height];
  const context = copy.getContext("2d");
  context.drawImage(source, 0, 0);
  const { data } = context.getImageData(0, 0, copy.width, copy.height);
  let count = 0;
  for (let i = 3; i < data.length; i += 4) if (data[i]) count++;
  return count;
}"""


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
        self.page.wait_for_selector("body[data-ready]")
        self.settle()
        return self

    def settle(self):
        """Wait until what was asked for is drawn."""
        self.page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def pixels(self, canvas="points"):
        self.settle()
        return self.page.evaluate(PIXELS, canvas)

    def find(self, name):
        """Search for a sample; return where it is on the screen."""
        self.page.fill("#search", name)
        self.page.press("#search", "Enter")
        return self.ring()

    def ring(self):
        self.settle()
        box = self.page.locator("#rings .focus").bounding_box()
        return np.array([box["x"] + box["width"] / 2, box["y"] + box["height"] / 2])

    def corners(self):
        box = self.page.locator("#front").bounding_box()
        left, top = box["x"] + 1, box["y"] + 1
        right, bottom = left + box["width"] - 2, top + box["height"] - 2
        return [(left, top), (right, top), (right, bottom), (left, bottom)]

    def draw(self, path):
        """Press, move along and let go."""
        self.page.mouse.move(*path[0])
        self.page.mouse.down()
        for place in path[1:]:
            self.page.mouse.move(*place, steps=3)
        self.page.mouse.up()
        self.settle()

    def choose(self, control, words):
        self.page.select_option(control, label=words)
        self.settle()

    def legend(self):
        return self.page.locator("#legend").inner_text()


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with open_browser(tmp_path_factory.mktemp("profile")) as context:
        yield context


@pytest.fixture
def visit(browser):
    page = browser.new_page()
    yield Visit(page)
    page.close()


@pytest.fixture(scope="module")
def explored(templates, tmp_path_factory) -> Office:
    """A report with everything on it: labels, own columns, new samples."""
    office = Office(shutil.copytree(templates["fused"], tmp_path_factory.mktemp("explored"), dirs_exist_ok=True))
    labels = {
        "person": [*PEOPLE, *NEW[:3]],
        "group": ["left", "right", HOSTILE] * 21,
        "age": [20.5 + i for i in range(63)],
        "ward": [f"ward {i % 11}" for i in range(63)],
    }
    pl.DataFrame(labels).write_csv(office.path / "labels.csv")
    for owner, X in numbers().items():
        frame(X[:7] + 0.1, NEW).write_csv(office.path / f"{owner}.new.csv")
    office.place({o: f"{o}.new.csv" for o in OWNERS})
    placed = pl.read_csv(office.path / "run/new" / "embedding.csv")
    placed.with_columns(outside=pl.col("sample").is_in(NEW[5:]), completed=pl.col("sample") == NEW[4]).write_csv(
        office.path / "new.csv"
    )
    office.ok(
        *("report", "run", "--labels", "labels.csv", "--id", "person", "--table", "bank.csv", "--new", "new.csv"),
        *("--title", HOSTILE),
    )
    return office


@pytest.fixture
def page_file(explored) -> Path:
    return explored.path / "run" / "report.html"


def test_the_page_loads_without_error_or_request_and_shows_everything(page_file, visit, tmp_path):
    page = visit.open(page_file).page
    assert visit.errors == []
    assert visit.requests == [page_file.as_uri()]
    assert page.evaluate("window.hurt") is None
    assert page.locator("h1").inner_text() == HOSTILE
    assert visit.pixels() > 1000
    assert page.locator("#scree-chart .bar").count() == 3
    assert page.locator("#scree-chart .whisker").count() == 3
    assert page.locator("#influence-chart .bar").count() == 3 * len(OWNERS)
    assert page.locator("#parties tbody tr").count() == len(OWNERS)
    assert page.locator("#errors-chart .whisker").count() == 3
    dots, bounds = (
        page.locator(f"#errors-chart {part}").evaluate_all("all => all.map(one => one.getBoundingClientRect().top)")
        for part in ("circle", ".whisker")
    )
    assert all(bound <= dot + 4.5 for dot, bound in zip(dots, bounds, strict=True))
    page.locator("#certificate summary").click()
    text = page.locator("main").inner_text()
    for words in (
        "Estimated: the 3 components capture",
        "bytes saved",
        "influence",
        "Theorem 1",
        "sample digest",
        "name: rbf; gamma: ",
    ):
        assert words in text
    assert "All 60 samples, and 7 new ones placed among them" in text
    saved = Path(os.environ.get("DKPCA_SCREENSHOTS", tmp_path)) / "report.png"
    page.screenshot(path=saved, full_page=True)
    assert saved.stat().st_size > 50_000


def test_the_page_can_neither_send_nor_evaluate(page_file, visit):
    page = visit.open(page_file).page
    assert page.evaluate("fetch('https://example.org').then(() => 'sent', () => 'blocked')") == "blocked"
    assert "Content Security Policy" in visit.errors[0]
    # Later and from the page itself: what the browser's debugger runs at once may evaluate.
    evaluate = "done => setTimeout(() => { try { done(new Function('return 1')()) } catch (no) { done(no.name) } })"
    assert page.evaluate(f"() => new Promise({evaluate})") == "EvalError"
    page.evaluate(
        "() => { const made = document.createElement('script'); made.textContent = 'window.hurt = 1';"
        " document.body.append(made); }"
    )
    assert page.evaluate("window.hurt") is None
    policy = page.locator("meta[http-equiv='Content-Security-Policy']").get_attribute("content")
    assert "unsafe" not in policy


def test_pointing_at_a_sample_shows_its_id_and_label(page_file, visit):
    page = visit.open(page_file).page
    page.locator("#plot").scroll_into_view_if_needed()
    place = visit.find("p07")
    page.click("#unfocus")
    page.mouse.move(*place)
    tip = page.locator("#tip").inner_text()
    assert tip.startswith("p07\n")
    assert "group: right" in tip
    page.mouse.move(*visit.find("p02"))
    assert HOSTILE in page.locator("#tip").inner_text()
    assert page.evaluate("window.hurt") is None


def test_samples_are_colored_by_any_column(page_file, visit):
    page = visit.open(page_file).page
    assert {"left", "right", HOSTILE, "no value"} <= set(page.locator("#legend .name").all_inner_texts())
    visit.choose("#color", "age")
    assert page.locator("#legend .ends").inner_text().split() == ["20.5", "82.5"]
    assert page.locator("#legend .group").count() == 0
    visit.choose("#color", "ward")
    assert page.locator("#legend .name").all_inner_texts()[-2:] == ["4 others", "no value"]
    visit.choose("#color", "component 2")
    assert page.locator("#legend .scale").count() == 1
    visit.choose("#color", "fit or new")
    assert page.locator("#legend .name").all_inner_texts()[0] == "of the fit"
    visit.choose("#color", "nothing")
    assert visit.legend() == "samples"
    assert page.locator("#color optgroup").evaluate_all("all => all.map(one => one.label)") == [
        *("labels", "samples", "components")
    ]


def test_a_group_of_the_legend_is_hidden_by_a_click_and_cannot_be_pointed_at(page_file, visit):
    page = visit.open(page_file).page
    everything, place = visit.pixels(), visit.find("p00")
    page.click("#unfocus")
    left = page.locator("#legend button", has_text="left")
    left.click()
    assert visit.pixels() < everything
    assert left.get_attribute("aria-pressed") == "false"
    page.mouse.move(*place)
    visit.settle()
    assert not page.locator("#tip").inner_text().startswith("p00")
    buttons = page.locator("#legend button")
    shown = page.locator("#legend button[aria-pressed=true]")
    while shown.count():
        shown.first.click()
    assert visit.pixels() == 0
    for k in range(buttons.count()):
        buttons.nth(k).click()
    assert visit.pixels() == everything


def test_axes_are_chosen_and_a_depth_can_be_turned(page_file, visit):
    page = visit.open(page_file).page
    flat = visit.find("p11")
    visit.choose("#axis-x", "component 3")
    assert abs(visit.ring()[0] - flat[0]) > 2
    assert visit.ring()[1] == pytest.approx(flat[1], abs=0.5)
    visit.choose("#axis-y", "component 1")
    assert abs(visit.ring()[1] - flat[1]) > 2
    visit.choose("#axis-z", "component 2")
    before = visit.ring()
    (left, top), _, (right, bottom), _ = visit.corners()
    middle = ((left + right) / 2, (top + bottom) / 2)
    visit.draw([middle, (middle[0] + 150, middle[1] + 40)])
    assert np.linalg.norm(visit.ring() - before) > 5
    visit.choose("#axis-z", "none")
    assert page.locator("#axis-z").input_value() == "-1"


def test_the_picture_is_moved_zoomed_and_reset(page_file, visit):
    page = visit.open(page_file).page
    start = visit.find("p20")
    (left, top), _, (right, bottom), _ = visit.corners()
    middle = np.array([(left + right) / 2, (top + bottom) / 2])
    moved = np.array([60, -35])
    visit.draw([middle, middle + moved])
    assert visit.ring() == pytest.approx(start + moved, abs=1.0)
    page.click("#reset")
    assert visit.ring() == pytest.approx(start, abs=0.5)
    page.click("#zoom-in")
    nearer = visit.ring()
    assert np.linalg.norm(nearer - middle) == pytest.approx(1.4 * np.linalg.norm(start - middle), rel=0.02)
    page.click("#zoom-out")
    assert visit.ring() == pytest.approx(start, abs=0.5)
    page.locator("#front").evaluate("canvas => canvas.focus({ preventScroll: true })")
    page.keyboard.press("ArrowLeft")
    assert visit.ring() == pytest.approx(start + np.array([30, 0]), abs=0.5)
    page.click("#reset")
    page.mouse.move(*start)
    page.mouse.wheel(0, -300)
    assert visit.ring() == pytest.approx(start, abs=1.0)  # zoomed around the pointer
    assert page.evaluate("scrollY") == 0
    page.click("#reset")
    page.locator("h1").click()
    page.evaluate("document.activeElement.blur()")
    page.mouse.move(*middle)
    page.evaluate("addEventListener('scroll', () => { document.body.dataset.scrolled = 'yes'; })")
    page.mouse.wheel(0, 200)
    page.wait_for_selector("body[data-scrolled]")  # without a click on it the wheel scrolls the page


def test_two_fingers_zoom(page_file, visit):
    page = visit.open(page_file).page
    start = visit.find("p20")
    (left, top), _, (right, bottom), _ = visit.corners()
    x, y = (left + right) / 2, (top + bottom) / 2
    session = page.context.new_cdp_session(page)

    def touch(kind, *spread):
        places = [{"x": x + sign * part, "y": y, "id": sign + 1} for part in spread for sign in (-1, 1)]
        session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": places})

    session.send("Emulation.setTouchEmulationEnabled", {"enabled": True, "maxTouchPoints": 2})
    touch("touchStart", 50)
    for spread in (60, 75, 90, 100):
        touch("touchMove", spread)
    touch("touchEnd")
    middle = np.array([x, y])
    assert np.linalg.norm(visit.ring() - middle) > 1.5 * np.linalg.norm(start - middle)


def test_a_sample_is_found_by_part_of_its_id(page_file, visit):
    page = visit.open(page_file).page
    page.fill("#search", "P1")
    assert page.locator("#matches button").all_inner_texts() == [f"p1{i}" for i in range(8)]
    page.press("#search", "ArrowDown")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert page.locator("#focused").inner_text() == "p11"
    assert not page.locator("#matches").is_visible()
    page.fill("#search", "nobody")
    assert page.locator("#matches").inner_text() == "no such id"
    page.press("#search", "Escape")
    assert not page.locator("#matches").is_visible()
    for name, words in (("n6", "outside the range of the fit"), ("n4", "not at all parties: completed")):
        page.fill("#search", name)
        page.locator("#matches button").click()
        assert f"new sample, {words}" in page.locator("#details").inner_text()
    page.click("#unfocus")
    assert not page.locator("#details").is_visible()


def test_an_id_typed_in_full_comes_first_however_many_begin_with_it(tmp_path, visit):
    ids = [*(f"p1{i}" for i in range(10)), "p1"]
    pl.DataFrame({"sample": ids, "component_1": range(11), "component_2": range(11)}).write_csv(
        tmp_path / "embedding.csv"
    )
    Office(tmp_path).ok("report", "embedding.csv")
    page = visit.open(tmp_path / "embedding.html").page
    page.fill("#search", "p1")
    assert page.locator("#matches button").all_inner_texts() == ["p1", *(f"p1{i}" for i in range(7))]


def test_a_sample_outside_the_picture_is_brought_into_it(page_file, visit):
    page = visit.open(page_file).page
    for _ in range(8):
        page.click("#zoom-in")
    (left, top), _, (right, bottom), _ = visit.corners()
    for name in ("p00", "p31", "p59"):
        x, y = visit.find(name)
        assert left <= x <= right
        assert top <= y <= bottom


def test_neighbors_are_those_by_all_components(page_file, visit, explored):
    page = visit.open(page_file).page
    page.mouse.click(*visit.find("p30"))
    assert page.locator("#focused").inner_text() == "p30"
    new = pl.read_csv(explored.path / "new.csv").select(pl.col("^component_.*$")).to_numpy()
    scores = np.vstack([runs.load(explored.path / "run").model.scores, new])
    order = np.argsort(np.linalg.norm(scores - scores[30], axis=1))
    names = [*PEOPLE, *NEW]
    assert page.locator("#neighbors button").all_inner_texts() == [names[k] for k in order[1:11]]
    assert page.locator("#rings .neighbor").count() == 10
    page.locator("#neighbors button").first.click()
    assert page.locator("#focused").inner_text() == names[order[1]]
    shown = page.locator("#details table").inner_text()
    for column in ("group", "age", "ward", "fit or new"):
        assert column in shown


def test_the_lasso_selects_and_saves_ids(page_file, visit):
    page = visit.open(page_file).page
    page.click("#mode-lasso")
    visit.draw(visit.corners())
    assert page.locator("#selection h3").inner_text() == "67 selected"
    with page.expect_download() as saving:
        page.click("#save-ids")
    rows = list(csv.DictReader(io.StringIO(Path(saving.value.path()).read_text(), newline="")))
    assert [row["sample"] for row in rows] == [*PEOPLE, *NEW]
    assert rows[2]["group"] == HOSTILE
    assert float(rows[5]["age"]) == 25.5
    assert rows[-1]["age"] == ""
    page.click("#clear-selection")
    assert not page.locator("#selection").is_visible()


def test_a_small_lasso_selects_the_sample_inside_and_dims_the_others(page_file, visit):
    page = visit.open(page_file).page
    x, y = visit.find("p42")
    page.click("#unfocus")
    page.keyboard.down("Shift")
    visit.draw([(x - 9, y - 9), (x + 9, y - 9), (x + 9, y + 9), (x - 9, y + 9)])
    page.keyboard.up("Shift")
    with page.expect_download() as saving:
        page.click("#save-ids")
    assert "p42" in Path(saving.value.path()).read_text()
    selected = int(page.locator("#selection h3").inner_text().split()[0])
    assert 1 <= selected < 20
    assert sum(int(text.split()[0]) for text in page.locator("#selection .count").all_inner_texts()) == selected
    # A hidden sample is not selected.
    page.locator("#legend button", has_text="left").click()
    page.click("#mode-lasso")
    visit.draw(visit.corners())
    assert page.locator("#selection .name", has_text="left").count() == 0
    page.click("#mode-move")
    assert page.locator("#mode-lasso").get_attribute("aria-pressed") == "false"


def test_new_samples_and_those_out_of_range_can_be_switched_off(page_file, visit):
    page = visit.open(page_file).page
    everything = visit.pixels()
    page.uncheck("#show-new")
    without_new = visit.pixels()
    page.uncheck("#show-outside")
    without_outside = visit.pixels()
    page.uncheck("#show-new-completed")
    assert visit.pixels() < without_outside < without_new < everything
    for kind in ("new", "outside", "new-completed"):
        page.check(f"#show-{kind}")
    assert visit.pixels() == everything


def test_what_components_mean_in_own_columns_is_drawn(page_file, visit):
    page = visit.open(page_file).page
    assert page.locator("#own-charts figure").count() == 3
    assert page.locator("#own-charts figure").first.locator(".bar").count() == 4
    page.locator("#own-charts .bar").first.hover()
    assert re.match(r"x\d\ncorrelation -?0\.\d\d", page.locator("#tip").inner_text())
    assert page.locator("#association-charts figure").count() == 3
    page.locator("#association-charts .bar").first.hover()
    assert re.match(r"x\d\ndistance correlation 0\.\d\d", page.locator("#tip").inner_text())
    page.locator("#scree-chart .bar").first.hover()
    assert "certified" in page.locator("#tip").inner_text()
    page.locator("#influence-chart .bar").first.hover()
    assert "of component 1" in page.locator("#tip").inner_text()


def background(page):
    return page.evaluate("getComputedStyle(document.body).backgroundColor")


def test_dark_mode_follows_the_system_and_the_button(page_file, visit):
    page = visit.page
    page.emulate_media(color_scheme="dark")
    visit.open(page_file)
    assert background(page) == "rgb(20, 23, 28)"
    assert page.locator("#theme").inner_text() == "Light"
    page.click("#theme")
    assert background(page) == "rgb(255, 255, 255)"
    page.click("#theme")
    assert background(page) == "rgb(20, 23, 28)"
    page.emulate_media(color_scheme="light")
    assert background(page) == "rgb(20, 23, 28)"  # the reader's choice stays
    assert visit.errors == []


@pytest.mark.parametrize("width", [360, 390, 768])
def test_on_a_phone_nothing_is_cut_off(page_file, visit, width):
    page = visit.page
    page.set_viewport_size({"width": width, "height": 800})
    visit.open(page_file)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    for control in ("color", "axis-x", "axis-y", "axis-z", "search", "mode-lasso", "reset", "picture", "theme"):
        box = page.locator(f"#{control}").bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= width
    assert visit.pixels() > 500


def test_on_paper_the_samples_are_there_in_light_colors_and_no_column_is_lost(page_file, visit):
    page = visit.page
    page.emulate_media(color_scheme="dark")
    visit.open(page_file)
    assert visit.pixels("front") == 0
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.set_viewport_size({"width": 680, "height": 900})
    page.emulate_media(media="print")
    assert background(page) == "rgb(255, 255, 255)"
    assert visit.pixels("front") > 500
    overflow = "name => { const box = document.querySelector(name); return box.scrollWidth - box.clientWidth; }"
    assert page.evaluate(overflow, "#parties .scroll") <= 0
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    page.emulate_media(media="screen")
    assert visit.pixels("front") == 0
    assert background(page) == "rgb(20, 23, 28)"
    assert page.pdf().startswith(b"%PDF")


def test_the_picture_is_saved_with_points_and_legend(page_file, visit):
    page = visit.open(page_file).page
    with page.expect_download() as saving:
        page.click("#picture")
    assert saving.value.suggested_filename.endswith(".png")
    picture = Image.open(saving.value.path()).convert("RGB")
    box = page.locator("#plot").bounding_box()
    assert picture.width == pytest.approx(box["width"], abs=3)
    colors = {color for _, color in picture.getcolors(1 << 20)}
    assert {(0, 114, 178), (255, 255, 255)} <= colors


def test_without_webgl_the_same_samples_are_drawn_and_the_page_says_so(page_file, visit):
    page = visit.open(page_file).page
    with_webgl = visit.pixels()
    assert "WebGL" not in page.locator("#hint").inner_text()
    page.add_init_script(
        "const kept = HTMLCanvasElement.prototype.getContext;"
        "HTMLCanvasElement.prototype.getContext = function (kind, ...rest) {"
        " return kind === 'webgl' ? null : kept.call(this, kind, ...rest); }"
    )
    visit.open(page_file)
    assert "no WebGL: drawing is slower" in page.locator("#hint").inner_text()
    assert visit.pixels() == pytest.approx(with_webgl, rel=0.3)  # edges are smoothed in another way
    assert visit.errors == []


@pytest.mark.slow
def test_a_hundred_thousand_samples_stay_usable(tmp_path, visit):
    rng = np.random.default_rng(0)
    count, ids = 100_000, [f"sample-{i:06d}" for i in range(100_000)]
    scores = rng.normal(size=(count, 10))
    pl.DataFrame({"sample": ids, **{f"component_{d + 1}": scores[:, d] for d in range(10)}}).write_parquet(
        tmp_path / "embedding.parquet"
    )
    columns = {"age": rng.normal(50, 9, size=count), "group": rng.integers(0, 5, size=count)}
    pl.DataFrame({"id": ids, **columns}).write_parquet(tmp_path / "labels.parquet")
    office = Office(tmp_path)
    office.ok("report", "embedding.parquet", "--labels", "labels.parquet", "--id", "id")
    file = tmp_path / "embedding.html"
    assert file.stat().st_size <= 6_000_000
    page = visit.open(file).page
    assert visit.errors == []
    x, y = visit.find("sample-012345")
    page.mouse.move(x, y)
    assert "sample-" in page.locator("#tip").inner_text()
    order = np.argsort(np.linalg.norm(scores - scores[12345], axis=1))
    nearest = page.locator("#neighbors button").all_inner_texts()
    assert (
        len(set(nearest) & {ids[k] for k in order[1:11]}) >= 9
    )  # scores are told apart to 1 / 65,535 of their range
    page.click("#mode-lasso")
    visit.draw(visit.corners())
    assert page.locator("#selection h3").inner_text() == "100,000 selected"
    visit.choose("#color", "group")
    assert page.locator("#legend .group").count() == 5
