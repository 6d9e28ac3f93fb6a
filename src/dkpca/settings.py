"""The settings of a fit, in one place: the estimator, the commands, plans and questions all use `Fit`.

Each field carries its help text, the check of its values, and its option on the command line, if it has one.
`Compute` sets where to compute; it is never part of a plan or a question.
"""

import math
import reprlib
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields
from numbers import Integral, Real
from typing import Any, TypeVar, get_args, get_type_hints

from dkpca import kernels, rank
from dkpca.errors import InputError, WireError
from dkpca.kernels import Kernel
from dkpca.kernels.base import BALANCED, STATIS
from dkpca.kernels.laws import LAWS
from dkpca.linalg import arrays
from dkpca.linalg.leading import NAMES, Solver
from dkpca.linalg.precision import PRECISIONS
from dkpca.messages import MOST_AUDITED
from dkpca.rank import Auto, RankRule
from dkpca.wire import codec
from dkpca.wording import as_toml

PROTECTIONS = ("none", "sums", "blind")
LACKING = ("drop", "mean", "complete")
MOST_RULES = 8  # of a rank: a review runs each at every width
GUESS = 10  # number of components assumed by the parties if it depends on the spectrum
RecordT = TypeVar("RecordT")
Check = Callable[[Any], bool]
Allowed = tuple[Check, str]  # the check of a value, and the allowed values in words


def whole(least: float = -math.inf, most: float = math.inf) -> Check:
    return lambda value: isinstance(value, Integral) and not _is_flag(value) and least <= int(value) <= most


def _real(valid: Check) -> Check:
    return lambda value: isinstance(value, Real) and not _is_flag(value) and math.isfinite(value) and valid(value)


POSITIVE = _real(lambda number: number > 0.0)
SHARE = _real(lambda number: 0.0 <= number <= 1.0)


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool) or type(value).__name__ in ("bool", "bool_")  # NumPy's is neither


def are_texts(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(each, str) for each in value)


def _by_party(valid: Check) -> Check:
    return lambda value: (
        isinstance(value, Mapping) and all(isinstance(name, str) and valid(each) for name, each in value.items())
    )


def _either(*valid: Check) -> Check:
    return lambda value: any(each(value) for each in valid)


def _named(*names: str) -> Check:
    return lambda value: isinstance(value, str) and value in names


def _is_kernel(value: Any) -> bool:
    return isinstance(value, Kernel) or (isinstance(value, str) and bool(kernels.family(value)))


def _is_rank(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return bool(value) and all(isinstance(each, RankRule) for each in value)
    return isinstance(value, RankRule) or value == "auto" or whole(1)(value)


def optional(*allowed: Allowed) -> Allowed:
    """Return the check of what one of these allows, or None."""
    checks, words = zip(*allowed, strict=True)
    return _either(*checks, lambda value: value is None), f"{', '.join(words)}, or None"


def choice(names: Sequence[str]) -> Allowed:
    return _named(*names), " or ".join(map(repr, names))


FLAG: Allowed = (_is_flag, "true or false")
COUNT: Allowed = (whole(1), "a whole number of at least 1")
GROUPS: Allowed = (
    lambda value: isinstance(value, Sequence | Mapping) and not isinstance(value, str),
    "a list or dict of column groups",
)
PARTIES = optional(COUNT, GROUPS)


def setting(default: Any, allowed: Allowed, text: str = "", *, option: str = "", choices: Sequence[str] = ()) -> Any:
    """Return a field with its check, its help text and, if it has one, its option on the command line."""
    about = {"allowed": allowed, "help": text, "option": option, "choices": tuple(choices)}
    return field(default=default, metadata=about)


def one_of(default: str | None, names: Sequence[str], text: str, option: str) -> Any:
    """Return a field that has one of these names, or None if that is its default."""
    allowed = choice(names) if default is not None else optional(choice(names))
    return setting(default, allowed, text, option=option, choices=names)


@dataclass(frozen=True)
class Fit:
    """What to compute: every parameter of a fit that affects its answer, or the messages that leave a party.

    Invalid values, and values that exclude each other, raise `InputError` here and nowhere later.
    """

    n_components: int | float | None = setting(
        10,
        optional(COUNT, (_real(lambda share: 0 < share < 1), "a share between 0 and 1")),
        "Number of components, or the share of the variance to capture.",
        option="--components",
    )
    kernel: str | Kernel | dict[str, str | Kernel] = setting(
        "rbf",
        (_either(_is_kernel, _by_party(_is_kernel)), "the name of a kernel, a kernel, or a dict of party to either"),
        "Kernel: its name, or PARTY=NAME once per party.",
        option="--kernel",
        choices=tuple(kernels.KERNELS),
    )
    law: str | None = one_of(
        None, tuple(LAWS), "How the parties' kernel matrices combine (default: depends on the kernel).", "--law"
    )
    gamma: float | str | dict[str, float] | None = setting(
        "scale",
        optional(
            (_either(POSITIVE, _named("scale", "auto")), "a positive number, 'scale'"),
            (_by_party(POSITIVE), "a number for each party (PARTY=NUMBER on the command line)"),
        ),
        "Gamma of the kernel: a number, scale (1 / mean of what gamma multiplies over all parties: for rbf, the "
        "squared distance), none (1 / number of columns; chi2: 1), or PARTY=NUMBER once per party.",
        option="--gamma",
    )
    weights: str | dict[str, float] | None = setting(
        None,
        optional(choice((BALANCED, STATIS)), (_by_party(POSITIVE), "a dict of party to positive number")),
        "How much each party counts: balanced, statis (sum law), or PARTY=NUMBER once per party.",
        option="--weights",
    )
    degree: int | None = setting(None, optional(COUNT), "Degree of polynomial kernels.")
    coef0: float | None = setting(
        None, optional((_real(math.isfinite), "a number")), "Constant of polynomial kernels."
    )
    rank: str | int | RankRule | tuple[RankRule, ...] = setting(
        "auto",
        (_is_rank, "'auto', a whole number of at least 1, or rules of dkpca.rank"),
        "What each party sends: a number of eigenpairs, or a goal such as error=0.1; bytes=1MB and recovery=0.5 "
        "limit it, alone or together with a number or error=.",
        option="--rank",
    )
    precision: str = one_of("float32", tuple(PRECISIONS), "Precision of the numbers a party sends.", "--precision")
    protect: str = one_of(
        "none",
        PROTECTIONS,
        "What the center sees: none (each party's factor), sums (only masked sums) or blind (only rotated factors).",
        "--protect",
    )
    projection: str = setting(
        "extend",
        choice(("extend", "exact")),
        "How new samples are placed: extend (rows of the factors) or exact (distances to all training samples).",
    )
    audit: int | None = setting(
        None,
        optional((whole(1, MOST_AUDITED), f"a whole number from 1 to {MOST_AUDITED}")),
        "Rows of the true kernel matrix that every party sends after the fusion, as a check.",
    )
    standardize: bool = setting(
        False,
        FLAG,
        "Scale every column to mean 0 and standard deviation 1 (default: yes, unless party.toml says otherwise; in a "
        "study: no).",
        option="--standardize/--no-standardize",
    )
    lacking: str | None = setting(
        None,
        optional(choice(LACKING)),
        "If a party has no row for a sample: drop (use only common samples), mean (use the party's mean row) or "
        "complete (predict the row from the other parties' data).",
        option="--lacking",
    )
    center: bool = setting(True, FLAG, "Center the fused kernel in feature space.")
    solver: str | Solver = setting(
        "auto",
        (_either(_named(*NAMES), callable), f"{choice(NAMES)[1]}, or a solver"),
        "Eigensolver.",
        option="--solver",
        choices=NAMES,
    )
    n_landmarks: int = setting(500, COUNT, "Number of landmarks at the center.")
    random_state: int | None = setting(
        None, optional((whole(0), "a whole number of at least 0")), "Seed for drawing landmarks and audited rows."
    )

    def __post_init__(self) -> None:
        check_fields(self)
        if self.gamma == "auto":
            warnings.warn("gamma='auto' is now called gamma='scale'; 'auto' will be refused", FutureWarning, 1)
            object.__setattr__(self, "gamma", "scale")
        _check_together(self)

    @property
    def rank_rule(self) -> RankRule:
        """Rank rule of each party: the requested one, or enough eigenpairs for the components."""
        if self.rank != "auto":
            return rank.as_rule(self.rank)  # type: ignore[arg-type]  # no text but "auto" passes the check
        if self.n_components is None:
            return Auto(GUESS)
        share = self.n_components < 1
        return Auto(GUESS, share=min(0.01, (1.0 - self.n_components) / 10)) if share else Auto(int(self.n_components))

    @property
    def seed(self) -> int:
        """Seed of all random draws; fixed by default, so that two fits on the same data agree."""
        return int(self.random_state or 0)

    def family_of(self, party: str) -> Kernel | type[Kernel]:
        """Return the kernel of a party, or its class if it is given by name."""
        asked = self.kernel.get(party, "linear") if isinstance(self.kernel, dict) else self.kernel
        return asked if isinstance(asked, Kernel) else kernels.family(asked)


@dataclass(frozen=True)
class Compute:
    """Where to compute, and with how much memory and time. Affects the answer only by rounding."""

    n_jobs: int | None = setting(
        None,
        optional((lambda value: whole()(value) and value != 0, "a whole number other than 0")),
        "Number of parties to run at once (default: one per core).",
        option="--jobs",
    )
    timeout: float | None = setting(
        None,
        optional((POSITIVE, "a positive number of seconds")),
        "Seconds to wait for a party's answer (default: no limit).",
    )
    device: str | None = setting(
        None,
        optional((lambda value: isinstance(value, str), "the name of a device such as 'cuda'")),
        "Device for the landmark solver, such as cuda (default: the CPU).",
        option="--device",
    )
    max_memory: int | str | None = setting(
        None,
        optional(
            (whole(1), "a number of bytes"),
            (lambda value: isinstance(value, str) and bool(arrays.as_bytes(value)), "text such as '8GB'"),
        ),
        "Maximum memory, such as 8GB (default: all free memory).",
        option="--max-memory",
    )

    def __post_init__(self) -> None:
        check_fields(self)

    def check_with(self, fit: Fit) -> None:
        """Refuse settings that a protected fit cannot use."""
        for name in ("device", "max_memory"):
            value = getattr(self, name)
            if fit.protect != "none" and value is not None:
                raise InputError(f"{name}={value!r} is for fits with protect='none'; leave it or protect= out")


def check_value(name: str, value: Any, check: Allowed) -> Any:
    """Return the value, if it passes the check."""
    valid, words = check
    if not valid(value):
        raise InputError(f"{name} is {reprlib.repr(value)}; give {words}")
    return value


def values_of(record: type[Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the given values that are fields of a record."""
    return {each.name: given[each.name] for each in fields(record) if each.name in given}


def check_fields(record: Any) -> None:
    """Check each field, and convert its value to a plain copy: a dict, a tuple or a Python number."""
    for each in fields(record):
        value = check_value(each.name, getattr(record, each.name), each.metadata["allowed"])
        object.__setattr__(record, each.name, _plain(value))


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, list):
        return tuple(value)
    return value.item() if hasattr(value, "item") and getattr(value, "shape", None) == () else value


def _check_together(fit: Fit) -> None:
    """Refuse settings that exclude each other: the first that do, with the reason."""
    protect, exact, audit, lacking = fit.protect, fit.projection == "exact", fit.audit, fit.lacking
    hidden, sums, limits = protect != "none", protect == "sums", fit.rank_rule.parts()
    true, kept = "projection='exact'" if audit is None else f"audit={audit}", lacking in ("mean", "complete")
    refusals = {
        "projection='exact' needs one kernel of the joined table, and weights give each party its own; leave weights "
        "out": exact and fit.weights is not None,
        f"lacking={lacking!r} replaces the rows that a party lacks, but {true} needs the true ones; use "
        "lacking='drop'": kept and (exact or audit is not None),
        f"audit={audit} makes every party send true, unprotected rows of its kernel matrix; leave it or "
        f"protect={protect!r} out": hidden and audit is not None,
        f"protect={protect!r} places new samples in its own way; use projection='extend'": hidden and exact,
        f"lacking={lacking!r} keeps samples that some parties lack, and protect={protect!r} cannot hide the others' "
        "numbers for them; use lacking='drop'": hidden and kept,
        f"protect='sums' adds numbers of precision='float32' or 'float64', not {fit.precision!r}": sums
        and fit.precision not in ("float32", "float64"),
        "a recovery limit on the rank has no effect with protect='blind', whose message shows no rows": (
            protect == "blind" and any(isinstance(part, rank.Recovery) for part in limits)
        ),
        "protect='sums' has no rank: it uses the whole sum; leave rank='auto'": sums and fit.rank != "auto",
        f"rank has {len(limits)} rules; give at most {MOST_RULES}": len(limits) > MOST_RULES,
    }
    for words, excluded in refusals.items():
        if excluded:
            raise InputError(words)


def to_toml(record: Any) -> str:
    """Write every field of a record as a line of TOML."""
    return as_toml({each.name: codec.plain(getattr(record, each.name)) for each in fields(record)})


def from_values(cls: type[RecordT], values: Mapping[str, Any], *, what: str, complete: bool = False) -> RecordT:
    """Build a record from the values of a TOML file."""
    known: dict[str, Field[Any]] = {each.name: each for each in fields(cls)}  # type: ignore[arg-type]
    needed = {name for name, each in known.items() if complete or each.default is each.default_factory is MISSING}
    for verb, names in (("does not know", set(values) - set(known)), ("lacks", needed - set(values))):
        if names:
            raise InputError(f"{what} {verb} {', '.join(sorted(names))}; the settings are {', '.join(known)}")
    # TOML has no null: the word "none" stands for it in fields that may be None.
    hints = get_type_hints(cls)
    given = {
        name: None if value == "none" and type(None) in get_args(hints[name]) else value
        for name, value in values.items()
    }
    try:
        return codec.decode(cls, given, what=what)
    except WireError as error:
        raise InputError(str(error)) from error
