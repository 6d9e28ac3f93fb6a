"""Every input that fuzzing has kept, and every seed it begins with, ends as it should; `make fuzz` finds new ones."""

from pathlib import Path

import pytest

from dkpca.errors import InputError
from fuzz import targets

CORPUS = Path(targets.__file__).parent / "corpus"


@pytest.mark.parametrize("name", sorted(targets.TARGETS))
def test_no_kept_input_raises_what_a_caller_may_not_catch(name):
    run = targets.checked(name)
    kept = [path.read_bytes() for path in sorted((CORPUS / name).glob("*"))]
    for data in [*targets.seeds(name), *kept]:
        run(data)


@pytest.mark.parametrize("name", sorted(set(targets.TARGETS) - {"party_file", "run_settings"}))
def test_every_seed_is_accepted(name):
    for seed in targets.seeds(name):
        targets.TARGETS[name](seed)


def test_a_numpy_file_with_a_damaged_header_is_refused_in_a_sentence():
    data = (CORPUS / "npy_table" / "damaged-header").read_bytes()
    with pytest.raises(InputError, match="cannot be read as a .npy table"):
        targets.TARGETS["npy_table"](data)
