"""What a party answers to an audit: true rows of its Gram matrix, for samples that the center drew."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

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
    """True rows that are made where they are looked at; the fields are those of `AuditRows`."""

    party: str
    summary_id: str
    sample_digest: str
    samples: tuple[int, ...]
    n_samples: int
    columns: Callable[[Index], Array]

    def sent(self) -> AuditRows:
        """All columns, as a message."""
        rows = Rounded(self.columns(slice(None)))
        return AuditRows(self.party, self.summary_id, self.sample_digest, self.samples, rows)


def _columns(
    state: PartyState, X: Array, chosen: Array, exact: Array, samples: tuple[int, ...], index: Index
) -> Array:
    """Some columns; exact where a sample meets itself, though a difference may have rounded."""
    # k(x_i, x_j) for the samples i asked for and some j; where i = j the kernel's own diagonal.
    xp, where = namespace(X), device(X)
    rows = xp.astype(state.kernel(state.measured(pick(X, index)), chosen), xp.float64).T
    if isinstance(index, slice):
        index = xp.arange(*index.indices(X.shape[0]), device=where)
    asked = xp.asarray(list(samples), device=where)
    return xp.where(asked[:, None] == index[None, :], exact[:, None], rows)


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
    kernel, xp = state.kernel, namespace(X)
    positions = xp.asarray(list(request.samples), device=device(X))
    if kernel.columns_are == "samples":
        chosen, own = kernel.anchors(X, positions), kernel.rows(X, positions)
    else:
        chosen = own = state.measured(pick(X, positions))
    exact = xp.astype(kernel.diagonal(own), xp.float64)
    columns = partial(_columns, state, X, chosen, exact, request.samples)
    return OpenRows(state.party, state.summary_id, digest, request.samples, int(X.shape[0]), columns)
