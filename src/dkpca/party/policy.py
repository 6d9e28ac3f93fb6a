"""What a party is willing to answer. The party decides, whatever the center asks."""

import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, NoReturn

from dkpca.errors import InputError, PolicyError
from dkpca.kernels import Kernel, kernel_names
from dkpca.kernels.laws import LAWS
from dkpca.linalg.precision import COMPACT, PRECISIONS
from dkpca.rank import All, AtMost, RankRule, Recovery
from dkpca.settings import PROTECTIONS as PROTECTIONS
from dkpca.wording import known_rows_recover

log = logging.getLogger(__name__)
log.addHandler(logging.NullHandler())  # where it goes is the caller's choice


EXACT, LOWER, REFUSE = "exact", "lower", "refuse"


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
    max_audits : int
        Most different audits ever answered; the ledger counts them.

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

    max_rank: float = math.inf
    min_samples: int = 1
    kernels: tuple[str, ...] | None = None
    laws: tuple[str, ...] | None = None
    gamma: tuple[float, float] = (0.0, math.inf)
    max_precision: str = "float64"
    projection: bool | str = EXACT
    max_fits: float = math.inf
    max_recovery: float = 1.0
    known_rows: int = 30
    if_beyond: str = "lower"
    protect: str | None = None
    max_audit_rows: float = math.inf
    max_audits: float = math.inf

    def check_samples(self, n_samples: int) -> None:
        """Refuse to say anything about too few rows."""
        if n_samples < self.min_samples:
            _refuse(f"it has fewer samples than the {self.min_samples} that min_samples asks for")

    def check_kernel(self, kernel: Kernel, *, open_width: bool = False) -> None:
        """Refuse a kernel, or a width, that is not on the list; or one that the center only chooses later."""
        asked = kernel.to_dict()
        if self.kernels is not None and asked["name"] not in self.kernels:
            _refuse(f"the {asked['name']} kernel is not among kernels = {list(self.kernels)}")
        low, high = self.gamma
        if open_width and kernel.has_width and (low > 0 or high < math.inf):
            _refuse(f"the width is chosen when all has been added up, and gamma = [{low:g}, {high:g}] limits it")
        if not open_width and not low <= asked.get("gamma", low) <= high:
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
        if precision != COMPACT and (
            self.max_precision == COMPACT or PRECISIONS[precision] > PRECISIONS[self.max_precision]
        ):
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

    def check_audits(self, others: int) -> None:
        """Refuse one more audit than allowed, given how many others were answered."""
        if others >= self.max_audits:
            _refuse(f"it has answered max_audits = {self.max_audits:g} audits; only these can be repeated")

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


def from_table(table: Mapping[str, Any], source: object = "policy") -> Policy:
    """Return the policy in a table of settings; every key has to be one this library enforces."""
    known = {field.name for field in fields(Policy)}
    if not set(table) <= known:
        raise InputError(f"{source}: unknown keys {sorted(set(table) - known)}; a policy has {sorted(known)}")
    values: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in table.items()}
    for key, value in values.items():
        if not VALID[key](value):
            raise InputError(f"{source}: {key} = {table[key]!r} cannot be used; {EXAMPLES[key]}")
    return Policy(**values)


def _whole(value: Any, at_least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= at_least


def _is_range(value: Any) -> bool:
    return (
        isinstance(value, tuple)
        and len(value) == 2
        and all(isinstance(v, int | float) and not isinstance(v, bool) for v in value)
        and 0 <= value[0] <= value[1]
    )


VALID: Mapping[str, Any] = {
    "max_rank": lambda value: _whole(value, 1),
    "min_samples": lambda value: _whole(value, 2),
    "kernels": lambda value: isinstance(value, tuple) and bool(value) and set(map(str, value)) <= set(kernel_names()),
    "laws": lambda value: isinstance(value, tuple) and bool(value) and set(map(str, value)) <= set(LAWS),
    "gamma": _is_range,
    "max_precision": lambda value: isinstance(value, str) and value in PRECISIONS,
    "projection": lambda value: isinstance(value, bool) or value == EXACT,
    "max_fits": lambda value: _whole(value, 1),
    "max_recovery": lambda value: isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= 1,
    "known_rows": lambda value: _whole(value, 1),
    "if_beyond": lambda value: value in (LOWER, REFUSE),
    "protect": lambda value: value in PROTECTIONS,
    "max_audit_rows": lambda value: _whole(value, 0),
    "max_audits": lambda value: _whole(value, 0),
}
EXAMPLES = {
    "max_rank": "write a whole number, at least 1",
    "min_samples": "write a whole number, at least 2",
    "kernels": 'write a list such as ["rbf", "linear"]',
    "laws": 'write a list such as ["sum"]',
    "gamma": "write the smallest and the largest, such as [0.001, 0.1]",
    "max_precision": f"write one of {sorted(PRECISIONS)}",
    "projection": 'write true, false or "exact"',
    "max_fits": "write a whole number, at least 1",
    "max_recovery": "write a share of variance above 0 and up to 1, such as 0.5",
    "known_rows": "write a whole number, at least 1",
    "if_beyond": 'write "lower" or "refuse"',
    "protect": f"write one of {list(PROTECTIONS)}",
    "max_audit_rows": "write a whole number, 0 for none",
    "max_audits": "write a whole number, 0 for none",
}


def _refuse(reason: str) -> NoReturn:
    log.warning("refused: %s", reason)
    raise PolicyError(f"refused by the party's policy: {reason}; ask for something else, or have the policy changed")
