"""What a party allows: `Policy` for answers by mail and in a process, `Limits` (limits.toml) for a study.

The party decides, whatever the center asks. A study beyond its limits is red, and is not signed.
"""

import json
import logging
import math
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, NoReturn

from dkpca.errors import InputError, PolicyError
from dkpca.kernels import Kernel, kernel_names
from dkpca.kernels.laws import LAWS
from dkpca.linalg.precision import COMPACT
from dkpca.linalg.precision import PRECISIONS as DIGITS
from dkpca.rank import All, AtMost, RankRule, Recovery
from dkpca.settings import PROTECTIONS, Allowed, check_entries, setting
from dkpca.wording import known_rows_recover

log = logging.getLogger(__name__)
log.addHandler(logging.NullHandler())  # where it goes is the caller's choice

EXACT, LOWER, REFUSE = "exact", "lower", "refuse"
PRECISIONS = ("compact", "float16", "float32", "float64")  # coarse to fine


def _whole(least: int) -> Callable[[Any], bool]:
    return lambda value: type(value) is int and least <= value < 10**9


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _some_of(names: Callable[[], Any]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list | tuple) and bool(value) and set(map(str, value)) <= set(names())


def _is_range(value: Any) -> bool:
    return (
        isinstance(value, list | tuple)
        and len(value) == 2
        and all(map(_is_number, value))
        and 0 <= value[0] <= value[1]
    )


def _count(least: int) -> Allowed:
    return _whole(
        least
    ), "write a whole number, 0 for none" if least == 0 else f"write a whole number, at least {least}"


def _one_of(*names: str) -> Allowed:
    return lambda value: isinstance(value, str) and value in names, f"write one of {list(names)}"


@dataclass(frozen=True)
class Policy:
    """Limits of one party; the default answers everything.

    Parameters
    ----------
    max_rank : int
        Most eigenpairs sent. A request for more is refused; a rule such as "auto" stops there.
    min_samples : int
        Fewest rows about which anything is sent.
    kernels : tuple of str, optional
        Kernels answered; None: all.
    laws : tuple of str, optional
        Laws answered, of "product" and "sum": how the center says it combines the answers; None: both.
    gamma : pair of float
        Smallest and largest width (gamma) answered, of kernels that have one.
    max_precision : {"float64", "float32", "float16", "compact"}
        Finest numbers sent. Compact numbers are allowed by all of them, with no more digits than these have: 24 bits
        under "float32", 11 under "float16". "compact" allows no others.
    projection : bool or "exact"
        Whether new samples are placed: not at all, by factor rows (True), or also by the paper's exact way, whose
        distances to every sample of the fit tell the whole table, up to a rotation, whatever the rank.
    max_fits : int
        Most different summaries, and most different statistics, ever sent; the ledger counts them. A message that was
        sent before, byte for byte, may be sent again.
    max_recovery : float
        Largest R squared with which a column may be recovered from a summary, on rows that are not known.
    known_rows : int
        Rows that it takes as known.
    if_beyond : {"lower", "refuse"}
        Whether a request beyond that is answered with the finest message within, or not at all.
    protect : {"none", "sums", "blind"}, optional
        The one way in which it takes part in a fit; None: any. "sums": the center gets masked numbers only; "blind":
        the center sees no sample.
    max_audit_rows : int
        Most rows of its Gram matrix sent for one audit; 0: none.

    Examples
    --------
    >>> import numpy as np
    >>> import dkpca
    >>> X = np.random.default_rng(0).normal(size=(50, 4))
    >>> policy = dkpca.Policy(max_rank=10, kernels=("rbf",))
    >>> try:
    ...     dkpca.summarize(X, party="bank", kernel=dkpca.kernels.Linear(), rank=3, policy=policy)
    ... except dkpca.errors.PolicyError as error:
    ...     print(str(error).partition(";")[0])
    refused by the party's policy: the linear kernel is not among kernels = ['rbf']
    """

    max_rank: float = setting(math.inf, _count(1), "")
    min_samples: int = setting(1, _count(2), "")
    kernels: tuple[str, ...] | None = setting(
        None, (_some_of(kernel_names), 'write a list such as ["rbf", "linear"]'), ""
    )
    laws: tuple[str, ...] | None = setting(None, (_some_of(lambda: LAWS), 'write a list such as ["sum"]'), "")
    gamma: tuple[float, float] = setting(
        (0.0, math.inf), (_is_range, "write the smallest and the largest, such as [0.001, 0.1]"), ""
    )
    max_precision: str = setting("float64", _one_of(*sorted(DIGITS)), "")
    projection: bool | str = setting(
        EXACT, (lambda value: isinstance(value, bool) or value == EXACT, 'write true, false or "exact"'), ""
    )
    max_fits: float = setting(math.inf, _count(1), "")
    max_recovery: float = setting(
        1.0,
        (
            lambda value: _is_number(value) and 0 < value <= 1,
            "write a share of variance above 0 and up to 1, such as 0.5",
        ),
        "",
    )
    known_rows: int = setting(30, _count(1), "")
    if_beyond: str = setting(LOWER, (lambda value: value in (LOWER, REFUSE), 'write "lower" or "refuse"'), "")
    protect: str | None = setting(None, _one_of(*PROTECTIONS), "")
    max_audit_rows: float = setting(math.inf, _count(0), "")

    def __post_init__(self) -> None:
        given = {each.name: getattr(self, each.name) for each in fields(self)}
        check_entries(
            {each.name: given[each.name] for each in fields(self) if given[each.name] != each.default},
            _allowed(Policy),
            "policy",
            what="a policy",
        )

    def check_samples(self, n_samples: int) -> None:
        """Refuse to say anything about too few rows."""
        if n_samples < self.min_samples:
            _refuse(f"it has fewer samples than the {self.min_samples} that min_samples asks for")

    def check_kernel(self, kernel: Kernel) -> None:
        """Refuse a kernel, or a width, that is not on the list."""
        asked = kernel.to_dict()
        if self.kernels is not None and asked["name"] not in self.kernels:
            _refuse(f"the {asked['name']} kernel is not among kernels = {list(self.kernels)}")
        low, high = self.gamma
        if not low <= asked.get("gamma", low) <= high:
            _refuse(f"gamma {asked['gamma']:g} is outside gamma = [{low:g}, {high:g}]")

    def check_law(self, kernel: Kernel, law: str | None) -> None:
        """Refuse a law that is not on the list, asked for by name or implied by the kernel."""
        if self.laws is None:
            return
        asked = law or (kernel.law.name if kernel.law is not None else None)
        if asked is None:
            _refuse(f"it is not said how the answers are combined, and it answers for laws = {list(self.laws)} only")
        if asked not in self.laws:
            _refuse(f"the {asked} of the parties' kernels is not among laws = {list(self.laws)}")

    def check_protection(self, protect: str) -> None:
        """Refuse to take part with less, or other, protection than it insists on."""
        if self.protect not in (None, protect):
            _refuse(f"it takes part with protect = {self.protect!r} only, and {protect!r} was asked for")

    def check_precision(self, precision: str) -> None:
        """Refuse to send finer numbers than allowed."""
        if precision != COMPACT and (self.max_precision == COMPACT or DIGITS[precision] > DIGITS[self.max_precision]):
            _refuse(f"{precision} is finer than max_precision = {self.max_precision!r}")

    def check_projection(self, *, exact: bool = False) -> None:
        """Refuse to place new samples where that is switched off."""
        if not self.projection:
            _refuse("it does not place new samples: projection = false")
        if exact and self.projection != EXACT:
            _refuse("it sends no distances for the exact projection: projection = true, not 'exact'")

    def check_fits(self, others: int) -> None:
        """Refuse one more message about the rows of the fit than allowed, given how many others were sent."""
        if others >= self.max_fits:
            _refuse(f"it has answered max_fits = {self.max_fits:g} fits; only these can be repeated, as they were")

    def check_audit(self, n_rows: int) -> None:
        """Refuse to send more true rows for an audit than allowed."""
        if n_rows > self.max_audit_rows:
            _refuse(f"{n_rows} rows for an audit are more than max_audit_rows = {self.max_audit_rows:g}")

    def limit(self, rank: RankRule) -> RankRule:
        """Return the rule, held to the largest rank and recovery; refuse a number beyond it."""
        stated = rank.stated()
        if stated is not None and stated > self.max_rank:
            _refuse(f"rank {stated} is more than max_rank = {self.max_rank:g}")
        if self.limits_recovery and self.if_beyond == LOWER:
            rank = All((rank, Recovery(self.max_recovery, self.known_rows)))
        return rank if self.max_rank == math.inf else AtMost(rank, int(self.max_rank))

    @property
    def limits_recovery(self) -> bool:
        """Whether it asks what could be recovered from a summary."""
        return self.max_recovery < 1.0

    def check_recovery(self, rank: int, found: float) -> None:
        """Refuse a message from which more could be recovered than allowed."""
        if found > self.max_recovery:
            _refuse(
                f"{known_rows_recover(self.known_rows)} a column from rank {rank} with R² {found:.2f}, "
                f"more than max_recovery = {self.max_recovery:g}"
            )


def policy_from(table: Mapping[str, Any], source: object = "policy") -> Policy:
    """Return the policy in a table of settings; every key has to be one this library enforces."""
    check_entries(table, _allowed(Policy), source, what="a policy")
    return Policy(**_tuples(table))


def _allowed(record: type[Any]) -> dict[str, Allowed]:
    return {each.name: each.metadata["allowed"] for each in fields(record)}


def _tuples(table: Mapping[str, Any]) -> dict[str, Any]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in table.items()}


def _refuse(reason: str) -> NoReturn:
    log.warning("refused: %s", reason)
    raise PolicyError(f"refused by the party's policy: {reason}; ask for something else, or have the policy changed")


def _limit(default: Any, valid: Callable[[Any], bool], meaning: str) -> Any:
    return setting(default, (valid, meaning), meaning)


@dataclass(frozen=True)
class Limits:
    """A party's own limits on studies; the defaults are cautious. `join` writes each of them into limits.toml."""

    recovery: float = _limit(
        0.5,
        lambda value: _is_number(value) and math.isfinite(value) and 0 <= value <= 1,
        "Largest R squared, from 0 to 1, with which a column may be recovered from all that ever left.",
    )
    known_rows: int = _limit(30, _whole(1), "Number of rows that an attacker is taken to know.")
    samples: int = _limit(50, _whole(2), "Fewest samples about which anything is sent.")
    precision: str = _limit(
        "float32", _one_of(*PRECISIONS)[0], f"Finest numbers that are sent: one of {', '.join(PRECISIONS)}."
    )
    rank: int = _limit(100, _whole(1), "Most eigenpairs that are sent.")
    audit_rows: int = _limit(0, _whole(0), "Most true rows of the kernel matrix that are sent for an audit; 0: none.")
    batches: int = _limit(0, _whole(0), "Most batches of new samples; 0: none.")
    protect: tuple[str, ...] = _limit(
        PROTECTIONS, _some_of(lambda: PROTECTIONS), f"Ways of taking part: some of {', '.join(PROTECTIONS)}."
    )
    studies: int = _limit(1, _whole(0), "Most studies that this table takes part in.")
    public: tuple[str, ...] = _limit(
        (),
        lambda value: isinstance(value, list) and all(isinstance(each, str) for each in value),
        "Parties whose columns the center may have, as of a public register; a blind fit then hides nothing.",
    )

    def to_toml(self) -> str:
        """Write limits.toml, each limit with its meaning."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return "".join(
            f"# {each.metadata['help']}\n{each.name} = {json.dumps(values[each.name])}\n" for each in fields(self)
        )


def from_toml(text: str, source: object = "limits.toml") -> Limits:
    """Read limits; every key has to be one of them, and of its kind."""
    try:
        values = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise InputError(f"{source}: is not a TOML file ({error})") from error
    allowed = _allowed(Limits)
    unknown, missing = sorted(set(values) - set(allowed)), sorted(set(allowed) - set(values))
    if unknown or missing:
        what = f"unknown limits {unknown}" if unknown else f"the limits {missing} are missing"
        raise InputError(f"{source}: {what}; write each of {list(allowed)}, and no other")
    check_entries(values, allowed, source, what="limits.toml")
    return Limits(**_tuples(values))
