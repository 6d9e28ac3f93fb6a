"""One self-contained page that works offline: it loads nothing, and may send nothing."""

import base64
import hashlib
import json
import math
import re
import tempfile
from collections.abc import Collection, Mapping
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

import numpy as np
import polars as pl

from dkpca import messages, wire
from dkpca.analysis.agreement import agreement, missing, unrelated
from dkpca.certificate import Certificate
from dkpca.errors import InputError
from dkpca.fusion import FusedModel
from dkpca.messages import Summary
from dkpca.party.disclosure import raw_bytes, share_sent, spectrum
from dkpca.report import svg
from dkpca.report.columns import OwnColumns
from dkpca.report.content import (
    COMPLETED,
    OUTSIDE,
    Content,
    DrawnSamples,
    Wanted,
    assemble,
    drawn_samples,
    influence,
    packed,
)
from dkpca.report.outcome_section import outcome_section
from dkpca.store import runs, storage
from dkpca.store.runs import Run
from dkpca.tables.reading import Matrix, Reading
from dkpca.wording import in_bytes

LARGEST_PAGE = 6_000_000  # bytes
PARTS = files("dkpca.report")
# Each file after those it imports: joined, they are one module.
SCRIPTS = (
    *("dom", "theme", "data", "colors", "view", "webgl", "canvas2d", "axes", "legend", "neighbors", "selection"),
    *("details", "search", "pointer", "svg", "charts", "explorer", "main"),
)
IMPORT = re.compile(r"^import .*?;\n", re.MULTILINE | re.DOTALL)
EXPORT = re.compile(r"^export ", re.MULTILINE)
PARTY_COLORS = 8  # in style.css
ID = "sample"
POINTS = 100_000  # samples to draw, at most
MOST_BARS = 30  # components drawn with an error bar


def render(content: Content, *, points: int) -> str:
    """Return the page; as many samples are drawn as are asked for and as its size allows."""
    page = _render(content, points)
    while len(page.encode()) > LARGEST_PAGE and points > 1000:
        points = int(min(points, len(content.source.names)) * 0.95 * LARGEST_PAGE / len(page.encode()))
        page = _render(content, points)
    return page


def _render(content: Content, points: int) -> str:
    drawn = drawn_samples(content, points)
    header, bundle = packed(content, drawn)
    style, script = _text("style.css"), joined_scripts()
    return Template(_text("page.html")).substitute(
        title=escape(content.title),
        policy=_policy(style, script),
        style=style,
        script=script,
        subtitle=subtitle(content),
        headline=headline(content),
        drawn=drawn_words(content, drawn),
        sections=sections(content),
        # In a script element the browser looks for nothing but its end and comments, both of which need this sign.
        header=json.dumps(header, separators=(",", ":")).replace("<", "\\u003c"),
        bundle=bundle,
    )


def joined_scripts() -> str:
    """All scripts as one module: imports go, since everything they name is there."""
    parts = (_text(f"script/{name}.js") for name in SCRIPTS)
    return "\n".join(EXPORT.sub("", IMPORT.sub("", part)) for part in parts)


def _policy(style: str, script: str) -> str:
    """Only this script and this style, and nothing from or to anywhere else."""
    return (
        f"default-src 'none'; script-src '{_fingerprint(script)}'; style-src '{_fingerprint(style)}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def _fingerprint(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _text(name: str) -> str:
    return PARTS.joinpath(name).read_text(encoding="utf-8")


def subtitle(content: Content) -> str:
    """Say how much there is."""
    source = content.source
    n_samples, n_components = source.scores.shape
    held = ""
    if source.run is not None:
        summaries = source.run.model.summaries
        n_features = sum(summary.n_features for summary in summaries.values())
        held = f"{n_features:,} columns held by {len(summaries)} parties, "
    elif "n_parties" in source.told:
        held = f"columns held by {source.told['n_parties']} parties, "
    return f"{n_samples:,} samples, {held}{n_components} kernel principal components"


def headline(content: Content) -> str:
    """Say what is proved, where a proof came along."""
    known = content.source.told
    if content.source.run is not None:
        known = content.source.run.model.certificate.to_dict()
    if not {"captured_share_at_least", "optimality_at_least"} <= set(known):
        return ""
    count = content.source.scores.shape[1]
    return (
        f'<p class="headline">The {count} components capture at least '
        f"<strong>{known['captured_share_at_least']:.1%}</strong> of the variance, and at least "
        f"<strong>{known['optimality_at_least']:.1%}</strong> of what the best {count} "
        "components of the joined table could: proved from the messages alone.</p>"
    )


def drawn_words(content: Content, drawn: DrawnSamples) -> str:
    """Say which samples the picture has."""
    n_fitted, n_samples = len(drawn.rows), len(content.source.names)
    words = f"All {n_fitted:,} samples"
    if n_fitted < n_samples:
        words = f"{n_fitted:,} of the {n_samples:,} samples, drawn at random"
    n_completed = int((drawn.kinds == COMPLETED).sum())
    if n_completed:
        words += f" ({n_completed:,} that not all parties have: hollow)"
    n_new = len(drawn.names) - n_fitted
    if n_new:
        n_outside = int((drawn.kinds == OUTSIDE).sum())
        words += f", and {n_new:,} new ones placed among them"
        words += f" ({n_outside:,} of them outside the range of the fit)" if n_outside else ""
    return ". ".join([words, *(note[0].upper() + note[1:] for note in map(escape, content.notes))]) + "."


def sections(content: Content) -> str:
    """Everything under the explorer."""
    run, told = content.source.run, content.source.told
    parts = [outcome_section(content.outcomes)] if content.outcomes else []
    if content.own is not None:
        parts.append(_own_columns(content.own))
    if content.drives is not None:
        parts.append(_driving())
    if run is not None:
        parts += [_scree(), _parties(run), _influence(run), _agreement(run), _certificate(run)]
        parts.append(_settings(_run_settings(run)))
    elif told:
        known = {"the components are of": told.get("meaning"), "parties": told.get("n_parties")}
        known["fingerprint of the sample ids"] = content.source.digest
        parts.append(_settings({name: value for name, value in known.items() if value}))
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
    nonlinear = (
        "Distance correlation, from 0 to 1, which curves show in too. The fine line is the most that any of these "
        "columns reaches when the samples are shuffled."
    )
    body = (
        f'<div class="charts" id="own-charts"></div><p class="note">{nonlinear}</p>'
        '<div class="charts" id="association-charts"></div>'
    )
    return _section("own", "What each component means in your columns", note, body)


def _driving() -> str:
    note = (
        "By how many percent the variance of a component changes when a column is stretched by one percent, with the "
        "width of the kernel held. A bar to the left blurs the component. Whiskers bound what the components do not "
        "show of the fused kernel. It was computed here, from your own columns and the result."
    )
    return _section(
        "drives", "Which of your columns drive a component", note, '<div class="charts" id="drives-charts"></div>'
    )


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
    rows = _party_rows(summaries, influence(run.model), run.settings.parties)
    head = "".join(f"<th>{heading}</th>" for heading in headings)
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
    return f'<section id="parties"><h2>The parties</h2><div class="scroll">{table}</div></section>'


def _party_rows(summaries: Mapping[str, Summary], shares: Matrix, known: Mapping[str, Any]) -> str:
    rows = []
    for j, (name, summary) in enumerate(summaries.items()):
        sent, raw = known[name].bytes_sent, raw_bytes(summary)
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
    line = svg.curve(zip(x.tolist(), y.tolist(), strict=True))
    return svg.element(
        "svg", line, class_="spark", viewBox=f"0 0 {width} {height}", role="img", aria_label="spectrum"
    )


def _influence(run: Run) -> str:
    note = (
        "Influence is the variance of a party's own kernel along the components, beside that of the others "
        f"({run.model.law.shares})."
    )
    shares, variance = influence(run.model), np.asarray(run.model.explained_variance_ratio, dtype=float)
    head = "".join(f"<th>{d + 1}</th>" for d in range(len(variance)))
    rows = "".join(
        f'<tr><th scope="row">{escape(name)}</th>{"".join(f"<td>{share:.1%}</td>" for share in own * variance)}</tr>'
        for name, own in zip(run.model.summaries, shares, strict=True)
    )
    table = f"<table><thead><tr><th>share of all variance</th>{head}</tr></thead><tbody>{rows}</tbody></table>"
    body = f'<div class="chart" id="influence-chart"></div><div class="scroll">{table}</div>'
    return _section("influence", "Who shapes which component", note, body)


def _agreement(run: Run) -> str:
    """Cosines between the parties' kernels as shaded cells, and whether each is related to the others."""
    if missing(run.model, "none") is not None:
        return ""
    found = agreement(run.model)
    note = (
        "Cosine between the parties' centered kernel matrices, from what they sent: 1 is the same, 0 has nothing in "
        "common. The number behind it bounds how far the true cosine is."
    )
    left, cell, names = 120.0, 86.0, found.parties
    parts = []
    for i, name in enumerate(names):
        y = 26.0 + cell * i
        parts.append(svg.text(left - 8, y + cell / 2 + 4, name[:16], "end"))
        parts.append(svg.text(left + cell * (i + 0.5), 18, name[:9], "middle"))
        for j in range(len(names)):
            x, cosine, error = left + cell * j, float(found.cosines[i, j]), float(found.errors[i, j])
            shade = svg.element(
                "rect",
                class_="party-1",
                x=x,
                y=y,
                width=cell - 2,
                height=cell - 2,
                fill_opacity=f"{0.4 * cosine:.2f}",
            )
            words = f"{cosine:.2f}" if i == j else f"{cosine:.2f} ± {error:.2f}"
            title = svg.element("title", f"{escape(name)} and {escape(names[j])}: {words}")
            parts.append(
                svg.element(
                    "g", title, shade, svg.text(x + cell / 2, y + cell / 2 + 4, words, "middle", class_="label")
                )
            )
    width, height = left + cell * len(names) + 4, 30.0 + cell * len(names)
    label = f"cosines between the kernels of {len(names)} parties"
    picture = svg.element(
        "svg", *parts, viewBox=f"0 0 {width:g} {height:g}", width=width, role="img", aria_label=label
    )
    tested = "" if run.model.is_blind else _unrelated_words(unrelated(run.model))
    return _section(
        "agreement", "Which party agrees with which", note, f'<div class="scroll">{picture}</div>{tested}'
    )


def _unrelated_words(p_values: Mapping[str, float]) -> str:
    listed = ", ".join(f"{escape(name)} {p:.3g}" for name, p in p_values.items())
    return (
        '<p class="note">P-values of "this party has nothing to do with the others", by permuting its samples, '
        f"corrected over parties: {listed}.</p>"
    )


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
        f"<ul>{short}</ul>{error_bars(certificate)}<details><summary>All that is proved</summary>"
        f"<ul>{details}</ul></details>"
    )
    return _section("certificate", "The certificate", note, body)


def error_bars(certificate: Certificate) -> str:
    """A dot for the sine that is estimated, a whisker up to the one that is proved, on a log scale."""
    estimated, by_audit = certificate.component_estimates
    shown = list(zip(estimated, certificate.component_errors_at_most, strict=True))[:MOST_BARS]
    left, top, step, height = 64.0, 12.0, 46.0, 164.0
    width = max(360.0, left + step * len(shown) + 10)
    decades = range(0, math.floor(min((_exponent(e) for e, _ in shown), default=-1.0)) - 1, -1)

    def at(exponent: float) -> float:
        return top + height * exponent / min(-1, decades[-1])

    parts = [svg.rows(["1" if d == 0 else f"1e{d}" for d in decades], [at(d) for d in decades], left, width - 10)]
    for i, (estimate, bound) in enumerate(shown):
        x, low, high = left + step * (i + 0.5), at(_exponent(estimate)), at(_exponent(bound))
        said = f"component {i + 1}: sine {math.sqrt(estimate):.1g} estimated, at most {math.sqrt(bound):.1g} proved"
        whisker = f"M{x:.1f} {low:.1f}V{high:.1f}M{x - 7:.1f} {high:.1f}h14"
        dot = svg.element("circle", class_="found", cx=x, cy=low, r=4.5)
        parts.append(
            svg.element("g", svg.element("title", said), svg.element("path", class_="whisker", d=whisker), dot)
        )
        parts.append(svg.text(x, 198, str(i + 1), "middle"))
    label = f"error of each of {len(shown)} components: estimated, and proved"
    picture = svg.element("svg", *parts, viewBox=f"0 0 {width:g} 210", width=width, role="img", aria_label=label)
    how = "an audit" if by_audit else "the messages alone"
    note = (
        f"Sine of the angle between each component and the true {certificate.n_components}-dimensional subspace: the "
        f"dot is estimated from {how}, the top of the whisker is proved. 1 is a right angle: nothing is known there."
    )
    return f'<p class="note">{note}</p><div class="scroll">{picture}</div>'


def _exponent(squared: float) -> float:
    """Logarithm of a sine, from its square; below 1e-8 nobody needs more digits."""
    return math.log10(max(math.sqrt(squared), 1e-8))


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
        "components": settings.n_components,
        "centered": "yes" if settings.center else "no",
        "solver": settings.solver,
        "precision on the wire": ", ".join(sorted({known.precision for known in settings.parties.values()})),
        "samples named by": settings.sample_names,
        "fingerprint of the sample ids": settings.sample_digest,
        "versions": ", ".join(f"{name} {number}" for name, number in settings.versions.items()),
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


def _kernel_words(described: Mapping[str, Any]) -> str:
    details = [f"{key} {_plain(value)}" for key, value in described.items() if key != "name"]
    return f"{described['name']} ({', '.join(details)})" if details else str(described["name"])


def _plain(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    return value if isinstance(value, str) else json.dumps(value)


def write_model(
    path: Path,
    model: FusedModel,
    sample_ids: Any,
    labels: Any,
    *,
    survival: tuple[str, str] | None = None,
    title: str | None = None,
    in_fit: Collection[str] = (),
) -> None:
    """Write the page of a model, by way of the run that the commands would have written.

    `labels` has a value for each of the samples, or an index that names them.
    """
    names = [str(label) for label in sample_ids]
    digests = {summary.sample_digest for summary in model.summaries.values()}
    known = names if messages.digest(names) in digests else None  # else the parties numbered their rows
    with tempfile.TemporaryDirectory() as folder:
        sent = {Path(folder, f"{name}.summary"): wire.encode(s) for name, s in model.received.items()}
        storage.write_all(sent)
        run = runs.fuse(Path(folder, "run"), sent, model=model, sample_names=known)
        table = None if labels is None else Path(folder, "labels.parquet")
        if table is not None:
            _label_frame(labels, names, list(run.sample_names)).write_parquet(table)
        wanted = Wanted(
            run.path,
            labels=table,
            label_columns=() if table is None else tuple(map(str, labels)),
            how_labels=Reading(ID),
            title=title or "Kernel principal components",
            survival=survival,
            in_fit=in_fit,
        )
        storage.write(path, render(assemble(wanted), points=POINTS).encode())


def _label_frame(labels: Any, names: list[str], shown: list[str]) -> pl.DataFrame:
    """Labels by the names that the run has for its samples."""
    if hasattr(labels, "iloc") and not set(map(str, labels.index)).isdisjoint(names):
        own = {str(label): row for row, label in enumerate(labels.index)}
        lacking = [name for name in names if name not in own]
        if lacking:
            raise InputError(f"labels have no row for {len(lacking):,} samples, such as {lacking[0]!r}")
        labels = labels.iloc[[own[name] for name in names]]
    columns = {str(name): list(labels[name]) for name in labels}
    wrong = [name for name, values in columns.items() if len(values) != len(names)]
    if wrong:
        raise InputError(f"label {wrong[0]!r} has {len(columns[wrong[0]])} values for {len(names)} samples")
    return pl.DataFrame({ID: shown} | columns, strict=False)
