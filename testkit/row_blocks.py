"""Chunks of a table, made on the worker of a cluster: nothing is imported here that a worker would not need."""

import os
from pathlib import Path

import numpy as np


def block(seed, number, marker=None, size=(3000, 1000)):
    """Make a chunk of a table; take the worker down with it, once or always, as a pulled plug would."""
    if marker == "always":
        os._exit(1)
    if marker is not None and number == 1 and not Path(marker).exists():
        Path(marker).touch()
        os._exit(1)
    rows, columns = size
    hidden = np.random.default_rng([7, number]).standard_normal((rows, 3))
    loadings = np.random.default_rng(seed).standard_normal((3, columns))
    noise = np.random.default_rng(seed).standard_normal(2 * columns)
    shifts = np.random.default_rng([seed, number]).integers(columns, size=rows)
    return hidden @ loadings + 0.02 * np.lib.stride_tricks.sliding_window_view(noise, columns)[shifts]
