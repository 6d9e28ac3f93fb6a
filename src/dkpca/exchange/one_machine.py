"""All parties' tables in files on one machine: what `dkpca fit` does, by the library's own fit."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from joblib import effective_n_jobs

from dkpca import messages, party, wire
from dkpca.errors import InputError
from dkpca.exchange import in_process
from dkpca.exchange.holdings import Holding, load_state
from dkpca.fusion import scoring
from dkpca.fusion.covariates import Covariates
from dkpca.fusion.scoring import Placed
from dkpca.linalg.arrays import MemoryLimit
from dkpca.party.summaries import about_columns
from dkpca.settings import Compute, Fit
from dkpca.store import runs
from dkpca.store.files import Received, encode_state, naming
from dkpca.store.runs import Run
from dkpca.tables import inputs
from dkpca.tables.ids import matching_keys
from dkpca.tables.preparation import preparation_of
from dkpca.tables.reading import read
from dkpca.wording import some

NEW = "new"  # folder of placed samples in a run


def fit(
    out: Path,
    holdings: Sequence[Holding],
    request: Fit,
    compute: Compute,
    *,
    covariates: Holding | None = None,
) -> tuple[Run, list[str]]:
    """Summarize all tables and fuse; return the run, with states in `private/`, and what was dropped or filled in."""
    assert request.protect == "none", "the command refuses the others"
    runs.check(out)
    folder = out.absolute().parent
    holdings = [replace(h, memory=MemoryLimit.of(compute.max_memory, folder)) for h in holdings]
    given, names, notes = matched_samples(holdings, request.lacking)
    compute = replace(compute, n_jobs=min(effective_n_jobs(compute.n_jobs or -1), len(holdings)))
    known = None if covariates is None else Covariates.of(_rows_of(covariates, holdings[0], names))
    model, states, _ = in_process.fit(
        given.tables, request, compute, places=given.places, covariates=known, sample_ids=given.ids, folder=folder
    )
    received = [Received(Path(f"{name}.summary"), wire.pieces(sent), sent) for name, sent in model.received.items()]
    gone, ways = sorted(set(runs.parties_in(out)) - set(model.summaries)), holdings[0].reading.id_normalize
    kept = {name: encode_state(state) for name, state in states.items()}
    run = runs.fuse(out, received, model=model, without=gone, sample_names=names, id_normalize=ways, states=kept)
    notes += [] if run.model.covariates is None else run.model.covariates.words()
    for name, state in states.items():
        prepared = preparation_of(state)
        missed = [f"rank by {state.decided}"] if " is not met" in state.decided else []
        notes += [f"{name}: {note}" for note in (*prepared.notes, *missed)]
        notes += about_columns(replace(state, columns=prepared.names))
    return run, sorted(notes)


def place(
    run: Run, tables: Mapping[str, Path], lacking: str | None = "drop", covariates: Holding | None = None
) -> tuple[Placed, list[str]]:
    """Place new samples, into `new/` of a run of one owner; say what is new about them."""
    strangers = sorted(set(tables) - set(run.model.summaries))
    if strangers:
        raise InputError(f"new samples were given for {strangers}; the parties are {sorted(run.model.summaries)}")
    if (run.model.covariates is None) != (covariates is None):
        raise InputError(f"the fit took out {run.settings['covariates'] or 'no covariates'}; do so for new samples")
    runs.check(run.path / NEW)
    kept = {party: load_state(run.path / "private" / f"{party}.state") for party in tables}
    holdings = [Holding(party, path, kept[party][1].reading_of_new) for party, path in tables.items()]
    given, names, notes = matched_samples(holdings, lacking)
    rows = []
    for holding in given.tables.values():
        state, preparation = kept[holding.party]
        with naming(holding.path):
            table = holding.load()
            rows.append(party.extend(state, preparation.apply(table), sample_ids=table.keys))
        notes += [f"{holding.party}: {note}" for note in preparation.about_new_rows(table)]
    missing = sorted(set(run.model.summaries) - set(tables))
    placed = scoring.place(run.model, rows, missing, lacking=lacking, places=given.places)
    known = None if covariates is None else _rows_of(covariates, holdings[0], names)
    placed = replace(placed, scores=scoring.adjusted(run.model, placed.scores, known))
    digest = rows[0].sample_digest if given.places is None else messages.digest(given.ids or ())
    outside = runs.write_new(run, run.path / NEW, placed, rows, names, digest, given.places)
    notes += [placed.words] if placed.words and given.places is None else []
    said = f"{len(outside):,} new samples lie outside the range of the fit, and are marked so: {some(outside)}"
    return placed, [*notes, said] if outside else notes


def _rows_of(covariates: Holding, like: Holding, names: Sequence[str] | None) -> Any:
    """Rows of a table of covariates for these samples: by ids, in a column named as the others' or as it says."""
    how, path = covariates.reading, covariates.path
    ids = {key: getattr(how, key) or getattr(like.reading, key) for key in ("id_column", "id_normalize")}
    found = read(path, replace(how, **ids))
    if names is None or found.keys is None:
        return found.frame
    row_of = dict(zip(names, found.rows(names), strict=True))
    lacking = [name for name, row in row_of.items() if row is None]
    if lacking:
        raise InputError(f"{path}: has no row for {len(lacking):,} of {len(names):,} samples, such as {lacking[0]!r}")
    return found.take([row for row in row_of.values() if row is not None]).frame


def matched_samples(
    holdings: Sequence[Holding], lacking: str | None
) -> tuple[inputs.PartyTables, list[str] | None, list[str]]:
    """Match samples as the library does, by the tables' ids; return them, the ids as written, and notes in words."""
    tables = {holding.party: holding for holding in holdings}
    nameless = [holding.party for holding in holdings if holding.reading.id_column is None]
    if len(nameless) == len(holdings):
        return inputs.matched(tables), None, []
    if nameless:
        raise InputError(f"the tables of {nameless} have no id column, the others do; name it with --id NAME=COLUMN")
    ways = holdings[0].reading.id_normalize
    if any(holding.reading.id_normalize != ways for holding in holdings):
        each = ", ".join(f"{h.party}: {' '.join(h.reading.id_normalize) or 'none'}" for h in holdings)
        raise InputError(f"the tables normalize ids differently (id_normalize is {each}); use the same for all")
    ids = {holding.party: holding.ids() for holding in holdings}
    keys = {name: matching_keys(own, ways) for name, own in ids.items()}
    n_common = len(set.intersection(*map(set, keys.values())))
    if not n_common:
        such = ", ".join(f"{[*own[:1]]} in {h.path}" for h, own in zip(holdings, ids.values(), strict=True))
        raise InputError(f"no sample id is in all tables: {such}; check --id, and --id-normalize of 'dkpca check'")
    given = inputs.matched(tables, keys, lacking=lacking or "drop")
    written = {key: text for name in reversed(ids) for key, text in zip(keys[name], ids[name], strict=True)}
    names, notes = [written[key] for key in given.ids or ()], list[str]()
    if given.places is not None:
        counts = ", ".join(f"{name} has {len(own):,}" for name, own in ids.items())
        what = "mean rows" if lacking == "mean" else "completed rows"
        notes = [f"{len(names):,} samples, of which {n_common:,} are in all tables ({counts}); {what} for others"]
    return given, names, [*given.notes, *notes]
