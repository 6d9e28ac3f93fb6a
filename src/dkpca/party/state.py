"""What a party keeps of a fit. It never leaves."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from dkpca.errors import InputError
from dkpca.kernels import Kernel
from dkpca.linalg.arrays import Array, MemoryLimit
from dkpca.linalg.rows import moved, standardized
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
        if X.shape[1] != self.origin.shape[0]:
            raise InputError(
                f"party {self.party!r}: the table has {X.shape[1]} columns, the fit had {self.origin.shape[0]}"
            )
        return moved(standardized(X, self.shift, self.scale), self.origin, f"party {self.party!r}", memory)


@dataclass(frozen=True, kw_only=True)
class PartyState(_Kept):
    """What a party keeps to itself so that it can place new samples. It contains data: never send it.

    Attributes
    ----------
    party : str
        Name of the party.
    summary_id : str
        Fingerprint of the summary it belongs to.
    kernel : Kernel
        Kernel of the fit.
    origin : array of shape (n_features,)
        Point from which the columns are measured.
    anchors : array of shape (n_anchors, n_features), optional
        Rows that new samples are compared with; None where they can be had from the table again.
    positions : array of shape (n_anchors,), optional
        Of the anchors among the training samples; None: all of them.
    weights : array of shape (n_anchors, rank)
        Factor row of y = kernel(y, anchors) @ weights + offset.
    precision : str
        How numbers are sent.
    solver : str
        Which one, what it did, and why it was chosen.
    decided : str
        The rule that decided how much was sent, and those that could not be met.
    steps : array of shape (rank,), optional
        By which the columns of the factor were rounded, if it was sent compact.
    training : array of shape (n_samples, n_features), optional
        All rows, for the paper's way to place new samples only.
    keep_training : bool
        Whether they were to be kept.
    shift, scale : array of shape (n_features,), optional
        Means and deviations of the training columns, in which new columns are measured; None: as they are.
    preparation : mapping, optional
        How the commands turn the party's table into these columns; None: it came as numbers.
    columns : tuple of str, optional
        Their names, in which order new samples have to have them; None: they had none.
    protect : {"none", "blind"}
        How its fit was protected, and so must be what it says of new samples.
    offset : array of shape (rank,), optional
        Of a Gram matrix that was centered.
    recovery : Measurement, optional
        What somebody who knows some rows recovers of the others from the summary; None: not measured.
    share : array of shape (rank, n_components), optional
        Of a blind fit, once its result is known: the party's share of a score is a factor row times these.
    share_deviations : tuple of float
        Deviation of that share over the samples of the fit, by component.
    result_id : str
        Fingerprint of that result.
    dominant : (int, float), optional
        Column that makes up nearly all of the distances between samples, and its share; None: there is none.

    Examples
    --------
    >>> import numpy as np
    >>> import dkpca
    >>> X = np.random.default_rng(0).normal(size=(50, 4))
    >>> _, state = dkpca.summarize(X, party="bank", kernel=dkpca.kernels.Linear(), rank=2)
    >>> state.party, state.origin.shape, state.weights.shape
    ('bank', (4,), (50, 2))
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
    """What a party keeps of a fit by masked sums: rows to compare new samples with. It contains data: never send it.

    `positions` are those of the landmarks among the samples of the fit, None where all of them are compared.
    """

    run: str
    bits: int = 32

    protect: ClassVar[str] = "sums"
    solver: ClassVar[str] = "masked sum"
    decided: ClassVar[str] = "masked sum"
    recovery: ClassVar[None] = None


State = PartyState | SumState


@dataclass(frozen=True)
class Shield:
    """What the parties of a protected fit know beyond the center, and what each of them sent."""

    protect: str = "none"
    run: str = ""
    key: str = field(default="", repr=False)  # that the parties of a blind fit share, in hexadecimal
    sent: dict[str, int] = field(default_factory=dict)  # bytes of masked numbers
