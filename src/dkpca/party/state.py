"""What a party keeps of a fit. It never leaves."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from dkpca.errors import InputError
from dkpca.kernels import Kernel
from dkpca.linalg.arrays import SUBTRACTIONS, Array, MemoryLimit, growth, namespace, unit
from dkpca.linalg.rows import at_hand, column_means, column_scales, moved, standardized
from dkpca.party.recovery import Measurement

ANOTHER_VERSION = "private state that this version of dkpca cannot use; make it again"


@dataclass(frozen=True, kw_only=True)
class _Kept:
    """How columns are measured, and the rows that new samples are compared with; the fields are in `PartyState`."""

    party: str
    kernel: Kernel
    origin: Array
    anchors: Array | None
    positions: Array | None
    shift: Array | None = None
    scale: Array | None = None
    preparation: Mapping[str, Any] | None = None
    columns: tuple[str, ...] | None = None
    dominant: tuple[int, float] | None = None

    def measured(self, X: Array, memory: MemoryLimit | None = None) -> Array:
        """Rows of a table as the kernel of the fit takes them: standardized, and measured from its origin."""
        if X.shape[0] == 0:
            raise InputError(f"party {self.party!r}: there are no new samples; give at least one row")
        at, n_features = f"party {self.party!r}", self.origin.shape[0]
        if X.shape[1] != n_features:
            raise InputError(f"{at}: the table has {X.shape[1]} columns, the fit had {n_features}")
        return moved(standardized(X, self.shift, self.scale), self.origin, at, memory)


@dataclass(frozen=True, kw_only=True)
class PartyState(_Kept):
    """What a party keeps to itself so that it can place new samples. It contains data: never send it.

    Attributes
    ----------
    party, summary_id, kernel : str, str and Kernel
        Name of the party, fingerprint of the summary that the state belongs to, and kernel of the fit.
    origin, shift, scale : array of shape (n_features,)
        Point from which columns are measured; before that, means and deviations by which they are scaled (or None).
    anchors, positions : array, optional
        Rows that new samples are compared with (None: none are kept), and which samples they are (None:
        all).
    weights, offset : array
        Factor row of y = kernel(y, anchors) @ weights + offset (None, unless the matrix was centered).
    precision, protect, decided, solver : str
        How numbers are sent, and what protects them; the rule that decided how much, and the solver.
    steps : array of shape (rank,), optional
        By which the columns of the factor were rounded, if it was sent compact.
    training, keep_training : array of shape (n_samples, n_features) and bool
        All rows, for the paper's way to place new samples only, and whether they were to be kept.
    preparation, columns : mapping and tuple of str, optional
        How the commands turn the party's table into numbers; names of the columns, if they had any.
    recovery : Measurement, optional
        What somebody who knows some rows recovers of the others from the summary; None: not measured.
    share, share_deviations, result_id : array of shape (rank, n_components), tuple of float and str
        Of a blind fit, once its result is known: the party's share of a score is a factor row times `share`.
    dominant : (int, float), optional
        Column that makes up nearly all of the distances between samples, and its share.

    Examples
    --------
    >>> import dkpca
    >>> _, state = dkpca.summarize([[1.0, 0.0], [0.0, 2.0], [0.0, 0.0]], party="bank", kernel="linear", rank=2)
    >>> state.party, state.origin.shape, state.weights.shape
    ('bank', (2,), (3, 2))
    """

    summary_id: str
    weights: Array
    precision: str
    solver: str
    decided: str = ""
    steps: Array | None = None
    training: Array | None = None
    keep_training: bool = False
    protect: str = "none"
    offset: Array | None = None
    recovery: Measurement | None = None
    share: Array | None = None
    share_deviations: tuple[float, ...] = ()
    result_id: str = ""


@dataclass(frozen=True, kw_only=True)
class SumState(_Kept):
    """What a party keeps of a fit by masked sums: rows to compare new samples with. Never send it: it has data."""

    run: str
    bits: int = 32

    protect: ClassVar[str] = "sums"
    solver: ClassVar[str] = "masked sum"
    decided: ClassVar[str] = "masked sum"
    recovery: ClassVar[None] = None


State = PartyState | SumState


def measured_for(
    kernel: Kernel,
    X: Array,
    party: str,
    memory: MemoryLimit | None = None,
    *,
    standardize: bool,
    balance: float = 0.0,
    prepared: bool = False,
) -> tuple[Array, dict[str, Any], float]:
    """Columns as the kernel takes them; what a state keeps, to measure new ones alike; the error of standardizing."""
    shift, scale = column_scales(X) if standardize and kernel.columns_are == "quantities" else (None, None)
    X = standardized(X, shift, scale)
    kernel.check(X)
    kernel = kernel.balanced(X, balance) if balance else kernel
    prepared = prepared or shift is not None
    origin = at_hand(kernel.origin(X))
    if prepared and not bool(namespace(origin).any(origin != 0)):
        origin = column_means(X)  # that of standardized columns is zero, but for the rounding of a far mean
    X = moved(X, origin, f"party {party!r}", memory)
    if prepared:
        kernel.check(X)  # a kernel of counts has no use for what is left of a constant column
    how = {"kernel": kernel, "origin": origin, "shift": shift, "scale": scale}
    # Share of itself by which a standardized number may be off: its deviation is a root of a sum over all rows.
    error = (growth(X.shape[0]) + SUBTRACTIONS) * unit(X) if prepared else 0.0
    return X, how | {"dominant": kernel.dominant_column(X)}, error


@dataclass(frozen=True)
class Shield:
    """What the parties of a protected fit know beyond the center, and what each of them sent."""

    protect: str = "none"
    run: str = ""
    key: str = field(default="", repr=False)  # that the parties of a blind fit share, in hexadecimal
    sent: dict[str, int] = field(default_factory=dict)  # bytes of masked numbers
