import pytest

from testkit.by_hand import Consortium, consortium_in


@pytest.fixture
def consortium(tmp_path) -> Consortium:
    """A center and three parties in folders of their own, with a transport in this process."""
    return consortium_in(tmp_path)
