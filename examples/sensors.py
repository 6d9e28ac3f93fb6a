"""Three suppliers watch one machine: vibration, temperature, power. Normal days are fitted; new days are placed.

A bearing wears out. No sensor ever leaves its range, but the sensors no longer go together: the new days lie far from
all normal ones. Run it with: python -m examples.sensors
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from dkpca import DKPCA
from examples.pictures import COLORS, picture_file, save

DAYS, NEW = 300, 40


def sensors(load: np.ndarray, wear: np.ndarray, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """What each supplier measures on a day; with wear, vibration no longer goes with the load."""
    angle = load + wear
    vibration = np.column_stack([np.cos(angle + k) for k in range(4)])
    temperature = np.column_stack([np.sin(load + 0.5 * k) for k in range(3)])
    power = np.column_stack([np.cos(load), np.sin(load), np.cos(2 * load)])
    blocks = {"vibration": vibration, "temperature": temperature, "power": power}
    return {name: X + 0.1 * rng.normal(size=X.shape) for name, X in blocks.items()}


def main() -> dict[str, float]:
    """Fit normal days, place days of wear, draw them; return the day on which it is noticed."""
    out = picture_file(__doc__ or "")
    rng = np.random.default_rng(4)
    normal = sensors(rng.uniform(0, 2 * np.pi, DAYS), np.zeros(DAYS), rng)
    wear = np.linspace(0.0, 2.5, NEW)
    later = sensors(rng.uniform(0, 2 * np.pi, NEW), wear, rng)
    model = DKPCA(4, gamma=0.4).fit(normal)
    Z, Z_new = model.model_.scores, model.transform(later)
    # How far a day lies from the nearest normal one, against what is usual among normal days.
    usual = np.quantile(nearest(Z, Z, 1), 0.99)
    together = nearest(Z_new, Z, 0) > usual
    vibration = normal["vibration"]
    range_left = ((later["vibration"] < vibration.min(axis=0)) | (later["vibration"] > vibration.max(axis=0))).any(1)
    found = {"together": first_of_three(together), "range of vibration": first_of_three(range_left)}
    for who, day in found.items():
        print(f"{who}: " + (f"noticed on day {day:.0f} of {NEW}" if day < NEW else "never noticed"))
    draw(Z, Z_new, together, out)
    return found


def nearest(Z_new: np.ndarray, Z: np.ndarray, skip: int) -> np.ndarray:
    """Distance from each sample to the nearest one, the first `skip` (itself) left out."""
    return np.asarray(np.sort(np.linalg.norm(Z_new[:, None] - Z[None], axis=2), axis=1)[:, skip])


def first_of_three(noticed: np.ndarray) -> float:
    """Day from which on at least three days in a row are noticed."""
    runs = noticed[:-2] & noticed[1:-1] & noticed[2:]
    return float(runs.argmax()) if runs.any() else float(len(noticed))


def draw(Z: np.ndarray, Z_new: np.ndarray, noticed: np.ndarray, out: Path) -> None:
    """Draw normal days, and the new ones by their time."""
    figure, axis = plt.subplots(figsize=(6.4, 5), layout="constrained")
    axis.scatter(*Z[:, :2].T, s=10, color=COLORS[5], label="normal days")
    shown = axis.scatter(*Z_new[:, :2].T, s=40, c=np.arange(len(Z_new)), cmap="autumn_r", label="new days")
    axis.scatter(*Z_new[noticed, :2].T, s=90, facecolors="none", edgecolors="black", label="unlike all normal days")
    axis.set(title="Three suppliers, one machine", xlabel="component 1", ylabel="component 2")
    axis.legend(loc="upper right")
    figure.colorbar(shown, label="day")
    save(figure, out)


if __name__ == "__main__":
    main()
