"""Colors of the report: any two of a palette can be told apart, by color-blind readers too."""

import itertools
import re

import numpy as np
import pytest

from dkpca.report.page import PARTS

# What readers without one kind of cone see, in linear RGB (Machado, Oliveira and Fernandes 2009, severity 1).
SEEN_BY = {
    "most readers": np.eye(3),
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}
XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
WHITE = np.array([0.9505, 1.0, 1.089])


def linear(color: str) -> np.ndarray:
    shares = np.array([int(color[k : k + 2], 16) for k in (1, 3, 5)]) / 255
    return np.where(shares <= 0.04045, shares / 12.92, ((shares + 0.055) / 1.055) ** 2.4)


def lab(rgb: np.ndarray) -> np.ndarray:
    """CIELAB: where a distance of about 2 can just be seen."""
    xyz = XYZ @ np.clip(rgb, 0, 1) / WHITE
    x, y, z = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def colors(theme: str, kind: str) -> list[str]:
    style = PARTS.joinpath("style.css").read_text(encoding="utf-8")
    light, dark = style.split("* {")[0].split(':root[data-theme="dark"]')
    return re.findall(rf"--{kind}-\d: (#[0-9a-f]{{6}})", {"light": light, "dark": dark}[theme])


@pytest.mark.parametrize("reader", SEEN_BY)
@pytest.mark.parametrize("kind", ["class", "party"])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_colors_of_a_palette_can_be_told_apart(theme, kind, reader):
    seen = [lab(np.asarray(SEEN_BY[reader]) @ linear(color)) for color in colors(theme, kind)]
    assert len(seen) == 8
    assert min(np.linalg.norm(a - b) for a, b in itertools.combinations(seen, 2)) > 12


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_no_party_has_the_color_of_a_class(theme):
    assert not set(colors(theme, "class")) & set(colors(theme, "party"))
