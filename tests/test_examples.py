"""The gallery: every example runs, ends in a picture, and shows what its page says it shows."""

import importlib
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
GALLERY = (ROOT / "docs" / "gallery.md").read_text()
pytestmark = pytest.mark.slow
EXAMPLES = ("multi_omics", "bank_and_shop", "sensors", "idea")


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """What each example found, and its picture; each runs once."""
    done: dict[str, tuple[dict[str, float], Path]] = {}

    def run(name):
        if name not in done:
            out = tmp_path_factory.mktemp(name) / "picture.png"
            with pytest.MonkeyPatch.context() as patched:
                patched.setattr(sys, "argv", [name, "--out", str(out)])
                done[name] = importlib.import_module(f"examples.{name}").main(), out
        return done[name]

    return run


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_ends_in_a_picture_of_the_size_that_the_documentation_shows(ran, name):
    from matplotlib import image  # here, for the environments without it that leave slow tests out

    drawn, kept = image.imread(ran(name)[1]), image.imread(ROOT / "docs" / "images" / "gallery" / f"{name}.png")
    assert drawn.shape == kept.shape
    assert len({tuple(pixel) for pixel in drawn[::7, ::7].reshape(-1, drawn.shape[2])}) > 5, "it is not blank"


def test_three_laboratories_together_tell_more_apart_than_any_alone(ran):
    found = ran("multi_omics")[0]
    alone = [share for name, share in found.items() if name.endswith("alone")]
    assert len(alone) == 3
    assert found["all three"] > max(alone) + 0.2
    for name, share in found.items():
        assert f"{share:.0%}" in GALLERY, name


def test_what_bank_and_shop_send_is_a_small_file(ran):
    sent = ran("bank_and_shop")[0]
    assert sent.keys() == {"bank", "shop"}
    assert all(f"{size / 1000:.1f} kB" in GALLERY for size in sent.values())


def test_wear_is_noticed_though_no_sensor_leaves_its_range(ran):
    found = ran("sensors")[0]
    assert found["together"] < 15
    assert found["range of vibration"] == 40
    assert f"on day {found['together']:.0f} of 40" in GALLERY


def test_every_example_is_in_the_gallery_or_in_a_guide():
    pages = "".join(page.read_text() for page in (ROOT / "docs").glob("*.md"))
    scripts = {path.stem for path in (ROOT / "examples").glob("*.py")} - {"__init__", "pictures"}
    assert scripts == set(EXAMPLES) | {"hospitals"}
    assert {name for name in scripts if not re.search(rf"examples[./]{name}", pages)} == set()
