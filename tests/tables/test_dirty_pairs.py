"""No silent loss: of 500 pairs of dirty tables exactly the samples are used that a careful person would match."""

import numpy as np
import pytest

from dkpca.errors import InputError
from dkpca.exchange import one_machine
from dkpca.exchange.holdings import Holding
from dkpca.tables.reading import Reading
from tests.tables.dirty import careful_match, make_pair

pytestmark = pytest.mark.slow  # most of these start processes


PAIRS, PARTS = 500, 10


def used(sheets, ways):
    """Ids that take part, and their numbers, table by table; nothing and the sentence if the pair is refused."""
    holdings = [Holding(s.path.stem, s.path, Reading("id", id_normalize=ways)) for s in sheets]
    try:
        given, _, notes = one_machine.matched_samples(holdings, None)
        tables = [table.load() for table in given.tables.values()]
    except InputError as refusal:
        return [], [], [str(refusal)]
    return [table.ids for table in tables], [table.frame.select("x", "y") for table in tables], notes


@pytest.mark.parametrize("part", range(PARTS))
def test_the_samples_used_are_those_a_careful_person_would_match_or_the_pair_is_refused(tmp_path, part):
    refused = 0
    for seed in range(part, PAIRS, PARTS):
        folder = tmp_path / str(seed)
        folder.mkdir()
        sheets, ways = make_pair(folder, seed)
        expected = careful_match(sheets, ways)
        ids, frames, notes = used(sheets, ways)
        if not ids:
            refused += 1
            assert expected is None or "--decimal" in notes[0], (seed, notes)
            continue
        assert expected is not None, (seed, ids)
        assert ids == expected, (seed, notes)
        for sheet, own, frame in zip(sheets, ids, frames, strict=True):
            rows = [sheet.ids.index(text) for text in own]
            np.testing.assert_array_equal(frame.cast(float).to_numpy(), sheet.values[rows], err_msg=f"{seed} {sheet}")
    assert refused < PAIRS / PARTS / 2
