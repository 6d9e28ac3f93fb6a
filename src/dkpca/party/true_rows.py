"""What a party answers to an audit: true rows of its Gram matrix, for samples that the center drew."""

from collections.abc import Sequence
from dataclasses import replace

from dkpca import messages
from dkpca.errors import InputError
from dkpca.linalg.arrays import Array, device, namespace
from dkpca.linalg.precision import Rounded
from dkpca.messages import AuditRequest, AuditRows
from dkpca.party.state import PartyState
from dkpca.party.summaries import ANYTHING
from dkpca.policy import Policy


def true_rows(
    state: PartyState,
    X: Array,
    request: AuditRequest,
    *,
    sample_ids: Sequence[str] | None = None,
    policy: Policy = ANYTHING,
) -> AuditRows:
    """Return the kernel of the samples asked for with all samples of the fit.

    Parameters
    ----------
    state : PartyState
        What the party kept of the fit.
    X : array of shape (n_samples, n_features)
        The table of the fit.
    request : AuditRequest
        What the center asks.
    sample_ids : sequence of str, optional
        In row order, as in the fit.
    policy : Policy
        What this party is willing to answer.
    """
    policy.check_protection("none")
    policy.check_audit(len(request.samples))
    if state.protect != "none":
        raise InputError(
            f"party {state.party!r}: its fit was protected (protect={state.protect!r}), and an audit sends rows in "
            "the open; fit without protection to have it audited"
        )
    policy.check_samples(X.shape[0])
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
    measured = replace(state, keep_training=True).with_rows(X).training
    xp = namespace(measured)
    chosen = xp.asarray(list(request.samples), device=device(measured))
    rows = xp.astype(state.kernel.block(measured, chosen, slice(None)), xp.float64)
    diagonal = state.kernel.diagonal(measured)
    for row, sample in enumerate(request.samples):  # exact there, where a difference may have rounded
        rows[row, sample] = diagonal[sample]
    return AuditRows(state.party, state.summary_id, request.sample_digest, request.samples, Rounded(rows))
