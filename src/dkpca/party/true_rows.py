"""What a party answers to an audit: true rows of its Gram matrix, for samples that the center drew."""

from collections.abc import Sequence
from dataclasses import dataclass

from dkpca import messages
from dkpca.errors import InputError
from dkpca.linalg.arrays import Array, device, namespace
from dkpca.linalg.precision import Rounded
from dkpca.linalg.rows import Index, pick
from dkpca.messages import AuditRequest, AuditRows
from dkpca.party.limits import ANYTHING, Limits
from dkpca.party.state import PartyState


@dataclass(frozen=True)
class OpenRows:
    """True rows that are made where they are looked at."""

    state: PartyState
    X: Array  # (n_samples, n_features)
    chosen: Array  # (s, n_features): the samples asked for, as the kernel takes them
    exact: Array  # (s,): each with itself
    request: AuditRequest

    @property
    def party(self) -> str:
        """Whose rows these are."""
        return self.state.party

    @property
    def summary_id(self) -> str:
        """Which summary is audited."""
        return self.state.summary_id

    @property
    def samples(self) -> tuple[int, ...]:
        """Which rows these are."""
        return self.request.samples

    @property
    def n_samples(self) -> int:
        """How long each is."""
        return int(self.X.shape[0])

    def columns(self, index: Index) -> Array:
        """Some columns; exact where a sample meets itself, though a difference may have rounded."""
        # k(x_i, x_j) for the samples i asked for and some j; where i = j the kernel's own diagonal.
        xp, where = namespace(self.X), device(self.X)
        rows = xp.astype(self.state.kernel(self.state.measured(pick(self.X, index)), self.chosen), xp.float64).T
        if isinstance(index, slice):
            index = xp.arange(*index.indices(self.n_samples), device=where)
        asked = xp.asarray(list(self.samples), device=where)
        return xp.where(asked[:, None] == index[None, :], self.exact[:, None], rows)

    def sent(self) -> AuditRows:
        """All columns, as a message."""
        rows = Rounded(self.columns(slice(None)))
        return AuditRows(self.party, self.summary_id, self.request.sample_digest, self.samples, rows)


def true_rows(
    state: PartyState,
    X: Array,
    request: AuditRequest,
    *,
    sample_ids: Sequence[str] | None = None,
    limits: Limits = ANYTHING,
) -> OpenRows:
    """Check the question; return the kernel of the samples asked for with all samples of the fit.

    X is the table of the fit, its ids in row order as in the fit.
    """
    limits.check_form("compact", "none")
    limits.check_audit(len(request.samples))
    if state.protect != "none":
        raise InputError(
            f"party {state.party!r}: its fit was protected (protect={state.protect!r}), and an audit sends rows in "
            "the open; fit without protection to have it audited"
        )
    limits.check_samples(X.shape[0])
    digest = messages.row_number_digest(X.shape[0]) if sample_ids is None else messages.digest(sample_ids)
    if X.shape[0] != request.n_samples or digest != request.sample_digest:
        raise InputError(
            f"party {state.party!r}: the audit is about {request.n_samples} samples of a fit, and the table has "
            f"{X.shape[0]} rows or other ids; give the table of the fit"
        )
    if X.shape[1] != state.origin.shape[0]:
        raise InputError(
            f"party {state.party!r}: the table has {X.shape[1]} columns, the fit had {state.origin.shape[0]}"
        )
    kernel, xp = state.kernel, namespace(X)
    positions = xp.asarray(list(request.samples), device=device(X))
    if kernel.columns_are == "samples":
        chosen, own = kernel.anchors(X, positions), kernel.rows(X, positions)
    else:
        chosen = own = state.measured(pick(X, positions))
    return OpenRows(state, X, chosen, xp.astype(kernel.diagonal(own), xp.float64), request)
