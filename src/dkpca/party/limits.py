"""What a party allows: limits on what it sends in a process and in a study (limits.toml).

The party decides, whatever the center asks. A study beyond its limits is red, and is not signed.
"""

import inspect
import json
import re
from dataclasses import dataclass, replace
from typing import Any, NoReturn

from dkpca.errors import PolicyError
from dkpca.rank import All, RankRule, Recovery, stated
from dkpca.settings import PROTECTIONS, SHARE, are_texts, check_fields, setting
from dkpca.wording import counted

PRECISIONS = ("compact", "float16", "float32", "float64")  # coarse to fine
MOST = 10**9 - 1  # a limit on a number that limits nothing


def _count(default: int, least: int) -> Any:
    advice = f"a whole number, at least {least}"
    return setting(default, (lambda value: type(value) is int and least <= value <= MOST, advice))


def _are_modes(value: Any) -> bool:
    return are_texts(value) and set() < set(value) <= set(PROTECTIONS)


@dataclass(frozen=True)
class Limits:
    """Limits of one party; the defaults are cautious. `dkpca study join` writes each of them into limits.toml.

    Parameters
    ----------
    recovery : float, default=0.5
        Largest R² with which an attacker may recover a column, from all messages about this table.
    recoverable : tuple of str, default=()
        Columns of this table that may be recovered in a study whatever `recovery` is.
    known_rows : int, default=30
        Number of rows that the attacker is assumed to know.
    samples : int, default=50
        Minimum number of samples in a message.
    precision : {"compact", "float16", "float32", "float64"}, default="float32"
        Highest precision sent: compact, float16, float32 or float64. Compact numbers are always allowed, with no
        more digits than this precision has.
    rank : int, default=100
        Maximum number of eigenpairs sent. A request for more is refused; a rule such as "auto" stops there.
    audit_rows : int, default=0
        Maximum number of true rows of the kernel matrix sent for an audit; 0: none.
    batches : int, default=0
        Maximum number of batches of new samples; 0: none. Distances to all samples of the fit (`exact=True`) reveal
        the whole table, and need `recovery=1`.
    protect : tuple of str, default=("none", "sums", "blind")
        Protection modes allowed: any of none, sums and blind.
    studies : int, default=1
        Maximum number of studies with this table.
    public : tuple of str, default=()
        Parties whose columns the center may have; a blind fit then hides nothing.
    covariates : tuple of str, default=()
        Columns of this table that a study may send in the clear as covariates. With `recovery=1`, any.

    Examples
    --------
    >>> import numpy as np
    >>> import dkpca
    >>> try:
    ...     dkpca.summarize(np.eye(50), party="bank", kernel="linear", rank=3, limits=dkpca.Limits(rank=2))
    ... except dkpca.errors.PolicyError as error:
    ...     print(str(error).partition(";")[0])
    refused by the party's limits: rank 3 is more than rank = 2
    """

    recovery: float = setting(0.5, (SHARE, "a share of variance from 0 to 1, such as 0.5"))
    recoverable: tuple[str, ...] = setting((), (are_texts, "a list of columns"))
    known_rows: int = _count(30, 1)
    samples: int = _count(50, 1)
    precision: str = setting("float32", (lambda value: value in list(PRECISIONS), f"one of {list(PRECISIONS)}"))
    rank: int = _count(100, 1)
    audit_rows: int = _count(0, 0)
    batches: int = _count(0, 0)
    protect: tuple[str, ...] = setting(PROTECTIONS, (_are_modes, f"a list of some of {list(PROTECTIONS)}"))
    studies: int = _count(1, 0)
    public: tuple[str, ...] = setting((), (are_texts, "a list of parties"))
    covariates: tuple[str, ...] = setting((), (are_texts, "a list of columns"))

    def __post_init__(self) -> None:
        check_fields(self)

    def to_toml(self) -> str:
        """Write limits.toml, each limit with its meaning: what the docstring says of it."""
        told = dict(re.findall(r"^(\w+) : .*\n((?:    .+\n?)+)", str(inspect.getdoc(type(self))), re.MULTILINE))
        meanings = {name: " ".join(told.get(name, name).split()) for name in vars(self)}  # none under python -OO
        lines = ((meanings[name], name, json.dumps(value)) for name, value in vars(self).items())
        return "".join(f"# {meaning}\n{name} = {value}\n" for meaning, name, value in lines)

    def within(self, signed: "Limits") -> "Limits":
        """Return the tighter of each limit and the one that was signed."""

        def tighter(name: str, now: Any, then: Any) -> Any:
            if isinstance(now, tuple):
                return now + then if name == "public" else tuple(each for each in now if each in then)
            fineness = PRECISIONS.index if name == "precision" else None
            return (max if name in ("samples", "known_rows") else min)(now, then, key=fineness)

        found = {name: tighter(name, now, getattr(signed, name)) for name, now in vars(self).items()}
        return replace(self, **found | {"protect": found["protect"] or self.protect})  # none of those signed

    def check_samples(self, n_samples: int) -> None:
        """Refuse to say anything about too few rows."""
        if n_samples < self.samples:
            _refuse(f"it has fewer samples than samples = {self.samples}")

    def check_form(self, precision: str, protect: str) -> None:
        """Refuse finer numbers than allowed, and other protection."""
        if protect not in self.protect:
            _refuse(f"it takes part with protect = {list(self.protect)} only, and {protect!r} was asked for")
        if PRECISIONS.index(precision) > PRECISIONS.index(self.precision):
            _refuse(f"{precision} is finer than precision = {self.precision!r}")

    def check_new(self, *, exact: bool = False) -> None:
        """Refuse to place new samples where that is not allowed."""
        if not self.batches:
            _refuse("it does not place new samples: batches = 0")
        if exact and self.recovery < 1:
            _refuse(f"distances to all samples of the fit tell the whole table, and recovery = {self.recovery:g}")

    def check_audit(self, n_rows: int) -> None:
        """Refuse to send more true rows for an audit than allowed."""
        if n_rows > self.audit_rows:
            _refuse(f"{n_rows} rows for an audit are more than audit_rows = {self.audit_rows}")

    def bounded(self, rank: RankRule) -> RankRule:
        """Return the rule, held to the largest recovery; refuse a number beyond the largest rank."""
        asked = stated(rank)
        if asked is not None and asked > self.rank:
            _refuse(f"rank {asked} is more than rank = {self.rank}")
        return All((rank, Recovery(self.recovery, self.known_rows))) if self.recovery < 1 else rank

    def check_recovery(self, rank: int, found: float) -> None:
        """Refuse a message from which more could be recovered than allowed."""
        if found > self.recovery:
            _refuse(
                f"an attacker who knows {counted(self.known_rows, 'row')} recovers a column from rank {rank} with R² "
                f"{found:.2f}, more than recovery = {self.recovery:g}"
            )


ANYTHING = Limits(recovery=1, samples=1, precision="float64", rank=MOST, audit_rows=MOST, batches=MOST, studies=MOST)


def _refuse(reason: str) -> NoReturn:
    raise PolicyError(f"refused by the party's limits: {reason}; ask for something else, or have limits.toml changed")
