"""A party's policy, as it is written down in a TOML file."""

from pathlib import Path

from dkpca.policy import Policy, from_table
from dkpca.store import storage


def read(path: Path) -> Policy:
    """Read a policy; every key has to be one this library enforces."""
    return from_table(storage.read_toml(path, "see 'A party's policy' in the documentation"), path)
