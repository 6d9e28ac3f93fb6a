"""Sequences, categories and numbers in one embedding."""

import numpy as np

from experiments import mixed


def test_together_the_parties_tell_apart_what_none_of_them_does() -> None:
    tables, kinds = mixed.people(240)
    found = mixed.embeddings(mixed.summaries(tables))
    *alone, together = (mixed.accuracy(scores, kinds) for scores in found.values())
    assert together > 0.85
    assert max(alone) < 0.4


def test_the_string_kernel_counts_common_words() -> None:
    sequences = np.array([list("ACGT"), list("ACGA"), list("TTTT")])
    expected = np.array([[1.0, 0.5, 0.0], [0.5, 1.0, 0.0], [0.0, 0.0, 1.0]])
    np.testing.assert_allclose(mixed.spectrum_kernel(sequences), expected)
