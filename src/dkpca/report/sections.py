"""The parts of the page that are words and tables."""

import json
from collections.abc import Mapping
from html import escape
from typing import Any

import numpy as np

from dkpca.disclosure import raw_bytes, share_sent, spectrum
from dkpca.fusion import FusedModel
from dkpca.messages import Scores, Summary
from dkpca.report import error_bars
from dkpca.report.comparison import Comparison
from dkpca.report.content import Content, Drawn
from dkpca.report.influence import influence
from dkpca.report.own_columns import OwnColumns
from dkpca.store.runs import Run
from dkpca.tables.reading import Matrix
from dkpca.wording import in_bytes

PARTY_COLORS = 8  # in style.css


def subtitle(content: Content) -> str:
    """Say how much there is."""
    source = content.source
    n_samples, n_components = source.scores.shape
    held = ""
    if source.run is not None:
        summaries = source.run.model.summaries
        n_features = sum(summary.n_features for summary in summaries.values())
        held = f"{n_features:,} columns held by {len(summaries)} parties, "
    elif source.result is not None:
        held = f"columns held by {source.result.n_parties} parties, "
    return f"{n_samples:,} samples, {held}{n_components} kernel principal components"


def headline(content: Content) -> str:
    """Say what is proved, where a proof came along."""
    known: Any = content.source.result
    if content.source.run is not None:
        known = content.source.run.model.certificate
    if known is None:
        return ""
    count = content.source.scores.shape[1]
    return (
        f'<p class="headline">The {count} components capture at least '
        f"<strong>{known.captured_share_at_least:.1%}</strong> of the variance, and at least "
        f"<strong>{known.optimality_at_least:.1%}</strong> of what the best {count} "
        "components of the joined table could: proved from the messages alone.</p>"
    )


def drawn_words(content: Content, drawn: Drawn) -> str:
    """Say which samples the picture has."""
    n_fitted, n_samples = len(drawn.rows), len(content.source.names)
    words = f"All {n_fitted:,} samples"
    if n_fitted < n_samples:
        words = f"{n_fitted:,} of the {n_samples:,} samples, drawn at random"
    n_new = len(drawn.names) - n_fitted
    if n_new:
        n_outside = int((drawn.kinds == 2).sum())
        words += f", and {n_new:,} new ones placed among them"
        words += f" ({n_outside:,} of them outside the range of the fit)" if n_outside else ""
    return ". ".join([words, *(note[0].upper() + note[1:] for note in map(escape, content.notes))]) + "."


def sections(content: Content) -> str:
    """Everything under the explorer."""
    run, result = content.source.run, content.source.result
    parts = []
    if content.own is not None:
        parts.append(_own_columns(content.own))
    if content.comparison is not None:
        parts.append(_comparison(content.comparison))
    if run is not None:
        parts += [_scree(), _parties(run), _influence(run), _certificate(run), _settings(_run_settings(run))]
    elif result is not None:
        parts.append(_settings(_result_settings(result)))
    return "\n".join(parts)


def _section(name: str, heading: str, note: str, body: str) -> str:
    return f'<section id="{name}">\n<h2>{heading}</h2>\n<p class="note">{note}</p>\n{body}\n</section>'


def _own_columns(own: OwnColumns) -> str:
    note = (
        f"Correlation of {len(own.names):,} columns of your own table with each component, over "
        f"{own.n_samples:,} samples: the columns that go along with it most. It was computed here, and the center "
        f"has no part in it. About {own.chance:.2f} (the fine lines) is what the best of as many unrelated columns "
        "would reach by chance."
    )
    body = '<div class="charts" id="own-charts"></div>'
    return _section("own", "What each component means in your columns", note, body)


def _comparison(comparison: Comparison) -> str:
    here, other = comparison.n_components
    worst = max(comparison.angles, default=0.0)
    note = (
        f"{comparison.n_common:,} samples in common with <b>{escape(comparison.other)}</b>. Principal angles between "
        f"the subspaces of the scores ({here} components here, {other} there): 0 degrees is the same direction, 90 "
        f"degrees one that the other run does not have; the largest is {worst:.3g} degrees. Samples are compared "
        "after the other run was turned onto this one, so that a change of sign or order moves nothing. "
        f"Median move: {float(np.median(comparison.moved)):.2g} of the typical distance from the mean."
    )
    body = (
        '<div class="beside"><div class="chart" id="angles-chart"></div>'
        '<div class="scroll"><table id="moved"><thead><tr><th>moved most</th><th>distance</th></tr></thead>'
        "<tbody></tbody></table></div></div>"
    )
    return _section("comparison", "Compared with another run", note, body)


def _scree() -> str:
    note = (
        "Bars are what the fused kernel gives; the whiskers are bounds within which the eigenvalue of the true "
        "kernel lies, certified without seeing it. The line adds up the lower bounds."
    )
    return _section("scree", "How much each component captures", note, '<div class="chart" id="scree-chart"></div>')


def _parties(run: Run) -> str:
    summaries = run.model.summaries
    headings = (
        *("party", "columns", "rank", "bytes sent", "raw columns", "bytes saved"),
        *("of its kernel sent", "spectrum (log)", "influence"),
    )
    rows = _party_rows(summaries, influence(run.model), run.settings["parties"])
    head = "".join(f"<th>{heading}</th>" for heading in headings)
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
    return f'<section id="parties"><h2>The parties</h2><div class="scroll">{table}</div></section>'


def _party_rows(summaries: Mapping[str, Summary], shares: Matrix, known: Mapping[str, Any]) -> str:
    rows = []
    for j, (name, summary) in enumerate(summaries.items()):
        sent, raw = known[name]["bytes_sent"], raw_bytes(summary)
        share = float(shares[j].mean())
        saved = (
            f"{in_bytes(raw - sent)} ({1 - sent / raw:.0%})" if sent <= raw else f"none, sent {sent / raw:.1f} x raw"
        )
        swatch = f'<svg class="swatch" width="11" height="11"><rect class="party-{j % PARTY_COLORS + 1}"/></svg>'
        rows.append(
            f'<tr><th scope="row">{swatch}{escape(name)}</th>'
            f"<td>{summary.n_features:,}</td><td>{summary.rank}</td><td>{in_bytes(sent)}</td><td>{in_bytes(raw)}</td>"
            f"<td>{saved}</td><td>{share_sent(summary):.1%}</td><td>{_spark_line(spectrum(summary))}</td>"
            f'<td><meter min="0" max="1" value="{share:.3f}"></meter> {share:.0%}</td></tr>'
        )
    return "\n".join(rows)


def _spark_line(values: list[float]) -> str:
    """A spectrum as a small picture, on a logarithmic scale."""
    width, height = 120, 28
    logs = np.log10(np.maximum(np.asarray(values, dtype=float) / max(*values, 1e-300), 1e-6))
    x = np.linspace(2, width - 2, len(logs)) if len(logs) > 1 else np.array([2.0])
    y = 2 + (height - 4) * logs / min(-1.0, float(logs.min()))
    path = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, y, strict=True))
    return (
        f'<svg class="spark" viewBox="0 0 {width} {height}" role="img" aria-label="spectrum">'
        f'<polyline points="{path}"/></svg>'
    )


def _influence(run: Run) -> str:
    note = (
        "Influence is the variance of a party's own kernel along the components, beside that of the others "
        f"({run.model.law.shares})."
    )
    body = '<div class="chart" id="influence-chart"></div>'
    return _section("influence", "Who shapes which component", note, body)


def _certificate(run: Run) -> str:
    note = (
        "How far this answer can be, and probably is, from kernel PCA of the joined table, which nobody has. What is "
        "proved holds if every party computed and reported as this program does."
    )
    certificate = run.model.certificate
    short, details = (
        "".join(f"<li>{escape(sentence)}</li>" for sentence in sentences)
        for sentences in (certificate.short(), certificate.statements()[1:])
    )
    body = (
        f"<ul>{short}</ul>{error_bars.picture(certificate)}<details><summary>All that is proved</summary>"
        f"<ul>{details}</ul></details>"
    )
    return _section("certificate", "The certificate", note, body)


def _settings(rows: Mapping[str, Any]) -> str:
    cells = "\n".join(
        f'<tr><th scope="row">{key}</th><td>{escape(str(value))}</td></tr>' for key, value in rows.items()
    )
    return (
        '<section id="settings"><h2>Settings</h2><div class="scroll"><table class="settings"><tbody>'
        f"{cells}</tbody></table></div></section>"
    )


def _run_settings(run: Run) -> dict[str, Any]:
    settings = run.settings
    return {
        "the components are of": run.model.meaning,
        "law": run.model.law.name,
        **_kernels_and_weights(run.model),
        "components": settings["n_components"],
        "centered": "yes" if settings["center"] else "no",
        "solver": settings["solver"],
        "precision on the wire": ", ".join(sorted({known["precision"] for known in settings["parties"].values()})),
        "samples named by": settings["sample_names"],
        "fingerprint of the sample ids": settings["sample_digest"],
        "versions": ", ".join(f"{name} {number}" for name, number in settings["versions"].items()),
    }


def _kernels_and_weights(model: FusedModel) -> dict[str, str]:
    """Kernels, one for all or one per party, and what their matrices were multiplied by, where they were."""
    words = {name: _kernel_words(kernel.to_dict()) for name, kernel in model.kernels.items()}
    same = len(set(words.values())) == 1
    rows = {"kernel": words[next(iter(words))] if same else _by_party(words)}
    if set(model.weights.values()) != {1.0}:
        rows["weights"] = _by_party({name: f"{weight:.4g}" for name, weight in model.weights.items()})
    return rows


def _by_party(words: Mapping[str, str]) -> str:
    return "; ".join(f"{name}: {each}" for name, each in words.items())


def _result_settings(result: Scores) -> dict[str, Any]:
    return {
        "the components are of": result.meaning or "the kernel of the joined table",
        "kernel": "one per party" if result.kernel is None else _kernel_words(result.kernel.to_dict()),
        "parties": result.n_parties,
        "precision of the scores": result.scores.precision,
        "fingerprint of the sample ids": result.sample_digest,
    }


def _kernel_words(described: Mapping[str, Any]) -> str:
    details = [f"{key} {_plain(value)}" for key, value in described.items() if key != "name"]
    return f"{described['name']} ({', '.join(details)})" if details else str(described["name"])


def _plain(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    return value if isinstance(value, str) else json.dumps(value)
