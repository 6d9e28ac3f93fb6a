"""One self-contained page that works offline: it loads nothing, and may send nothing."""

import base64
import hashlib
import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

import polars as pl

from dkpca import wire
from dkpca.analysis.agreement import agreement, missing
from dkpca.analysis.outcomes import Outcomes, words
from dkpca.errors import InputError
from dkpca.fusion import FusedModel
from dkpca.fusion.scoring import party_shares
from dkpca.party.disclosure import share_sent
from dkpca.report.columns import LabelTable
from dkpca.report.content import PROVED, Content, Source, outcomes_of, packed, source_of
from dkpca.store import runs, storage
from dkpca.store.files import Received
from dkpca.store.runs import Run
from dkpca.tables.inputs import rows_of_samples
from dkpca.wording import in_bytes, in_percent, p_value

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
POINTS = 100_000  # samples to draw, at most


def render(content: Content, *, points: int) -> str:
    """Return the page; as many samples are drawn as are asked for and as its size allows."""
    page = _render(content, points)
    while len(page.encode()) > LARGEST_PAGE and points > 1000:
        points = int(min(points, len(content.source.names)) * 0.95 * LARGEST_PAGE / len(page.encode()))
        page = _render(content, points)
    return page


def _render(content: Content, points: int) -> str:
    drawn = packed(content, points)
    style, script = _text("style.css"), joined_scripts()
    page = Template(_text("page.html")).substitute(
        title=escape(content.title),
        # Only this script and this style, and nothing from or to anywhere else.
        policy=f"default-src 'none'; script-src '{_fingerprint(script)}'; style-src '{_fingerprint(style)}'; "
        "img-src data:; base-uri 'none'; form-action 'none'",
        style=style,
        script=script,
        subtitle=escape(subtitle(content)),
        headline=headline(content),
        drawn=drawn_words(content, drawn["fitted"], drawn["count"]),
        **sections(content),
        # In a script element the browser looks for nothing but its end and comments, both of which need this sign.
        data=json.dumps(drawn, separators=(",", ":")).replace("<", "\\u003c"),
    )
    return page.encode(errors="replace").decode()  # names of files may be no text


def joined_scripts() -> str:
    """All scripts as one module: imports go, since everything they name is there."""
    parts = (_text(f"script/{name}.js") for name in SCRIPTS)
    return "\n".join(EXPORT.sub("", IMPORT.sub("", part)) for part in parts)


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
    """Say what is estimated, then what is proved, as the certificate's verdict does; nothing without a proof."""
    known = content.source.told
    if not set(PROVED) <= set(known):
        return ""
    captured, best = (f"<strong>{in_percent(max(0.0, known[name]))}</strong>" for name in PROVED)
    n, what = content.source.scores.shape[1], "of the best possible variance"
    subject = "the component captures" if n == 1 else f"the {n} components capture"
    lines = [f"Proved: {subject} at least {best} {what}, and at least {captured} of all variance."]
    if "optimality_estimate" in known:
        share = in_percent(known["optimality_estimate"])
        lines.insert(0, f"Estimated: {subject} <strong>{share}</strong> {what}.")
    return f'<p class="headline">{"<br>".join(lines)}</p>'


def drawn_words(content: Content, n_fitted: int, n_drawn: int) -> str:
    """Say which samples the picture has."""
    n_samples = len(content.source.names)
    part = f"{n_fitted:,} of the {n_samples:,} samples, drawn at random"
    said = f"All {n_fitted:,} samples" if n_fitted == n_samples else part
    said += f", and {n_drawn - n_fitted:,} new ones placed among them" if n_drawn > n_fitted else ""
    return ". ".join([said, *(note[0].upper() + note[1:] for note in map(escape, content.notes))]) + "."


def sections(content: Content) -> dict[str, str]:
    """What stands under the explorer beside the charts."""
    run = content.source.run
    about_run = "" if run is None else _agreement(run) + _certificate(run)
    settings = _settings(content.source) if content.source.told else ""
    return {
        "outcomes": _outcomes(content.outcomes) if content.outcomes else "",
        "parties": "" if run is None else _parties(run),
        "about": about_run + settings,
    }


def _section(name: str, heading: str, note: str, body: str) -> str:
    return f'<section id="{name}">\n<h2>{heading}</h2>\n<p class="note">{note}</p>\n{body}\n</section>'


def _table(head: Iterable[str], rows: Iterable[tuple[str, Iterable[str]]], css: str = "") -> str:
    """A table that scrolls on its own; each row has a head, and cells."""
    headings = "".join(f"<th>{each}</th>" for each in head)
    lines = "\n".join(
        f'<tr><th scope="row">{first}</th>{"".join(f"<td>{cell}</td>" for cell in cells)}</tr>'
        for first, cells in rows
    )
    top = f"<thead><tr>{headings}</tr></thead>" if headings else ""
    return f'<div class="scroll"><table{css}>{top}<tbody>{lines}</tbody></table></div>'


def _outcomes(found: Sequence[Outcomes]) -> str:
    """What the scores have to do with the labels; computed where both are."""
    note = (
        "Computed from the scores and your labels, here; the center has no part in it. P-values are corrected over "
        "all labels and components (Holm)."
    )
    parts = []
    for each in found:
        sentences = "".join(f"<li>{escape(sentence[0].upper() + sentence[1:])}.</li>" for sentence in words(each))
        tests = sorted(each.associations, key=lambda a: a.corrected)
        cells = [(a.component, a.test, f"{a.effect:.2f}", p_value(a.p), p_value(a.corrected)) for a in tests]
        rows = [(escape(a.label), [escape(str(cell)) for cell in own]) for a, own in zip(tests, cells, strict=True)]
        table = _table(("label", "component", "test", "effect", "p", "corrected p"), rows)
        details = f"<details><summary>All tests</summary>{table}</details>" if rows else ""
        parts.append(f"<h3>{escape(each.samples.capitalize())}</h3><ul>{sentences}</ul>{details}")
    return _section("outcomes", "Labels", note, "".join(parts))


def _parties(run: Run) -> str:
    head = ("party", "columns", "rank", "sent as", "bytes sent", "raw columns", "bytes saved", "of its kernel sent")
    shares, rows = party_shares(run.model), []
    for j, (name, summary) in enumerate(run.model.summaries.items()):
        known = run.settings["parties"][name]
        sent, raw = known["bytes_sent"], summary.bytes_raw
        saved = f"{1 - sent / raw:.0%}" if sent <= raw else f"none, sent {sent / raw:.1f} x raw"
        swatch = f'<svg class="swatch" width="11" height="11"><rect class="party-{j % PARTY_COLORS + 1}"/></svg>'
        share = float(shares[name].mean())
        meter = f'<meter min="0" max="1" value="{share:.3f}"></meter> {share:.0%}'
        size = (f"{summary.n_features:,}", str(summary.rank), known["precision"], in_bytes(sent), in_bytes(raw))
        rows.append((swatch + escape(name), (*size, saved, f"{share_sent(summary):.1%}", meter)))
    table = _table([*head, "influence"], rows)
    return f'<section id="parties"><h2>The parties</h2>{table}</section>'


def _agreement(run: Run) -> str:
    """Cosines between the parties' kernels, and whether each is related to the others."""
    if missing(run.model, "none") is not None:
        return ""
    cosines, errors = agreement(run.model)
    note = (
        "Cosine between the parties' centered kernel matrices, as they were sent: 1 means the same, 0 nothing in "
        "common. The number after ± bounds the error."
    )
    rows = [
        [f"{cosine:.2f}" if i == j else f"{cosine:.2f} ± {error:.2f}" for j, (cosine, error) in enumerate(both)]
        for i, both in enumerate(map(zip, cosines, errors))
    ]
    names = [escape(party) for party in run.model.summaries]
    table = _table(["", *names], zip(names, rows, strict=True))
    return _section("agreement", "Which party agrees with which", note, table)


def _certificate(run: Run) -> str:
    note = (
        "How far this answer can be, and probably is, from kernel PCA of the joined table, which nobody has. What is "
        "proved holds if every party computed and reported as this program does."
    )
    certificate = run.model.certificate
    how = "an audit" if certificate.audit is not None else "the messages alone"
    bars = (
        f"Sine of the angle between each component and the true {certificate.n_components}-dimensional subspace: the "
        f"dot is estimated from {how}, the top of the whisker is proved. 1 is a right angle: nothing is known there."
    )
    short, details = (
        "".join(f"<li>{escape(sentence)}</li>" for sentence in sentences)
        for sentences in (certificate.short(), certificate.statements()[1:])
    )
    body = (
        f'<ul>{short}</ul><p class="note">{bars}</p><div class="chart" id="errors-chart"></div>'
        f"<details><summary>All statements</summary><ul>{details}</ul></details>"
    )
    return _section("certificate", "The certificate", note, body)


def _settings(source: Source) -> str:
    """What the result was made with, in the words of settings.json."""
    stated: dict[str, Any] = {name: source.told.get(name) for name in ("meaning", "n_parties")}
    stated |= {"sample_digest": source.digest, **source.settings}
    if source.run is not None:
        stated = dict(source.run.settings)
        kernels = {name: each["kernel"] for name, each in stated.pop("parties").items()}
        stated["kernel"] = stated["kernel"] if all(k == stated["kernel"] for k in kernels.values()) else kernels
    rows = {name.replace("_", " "): value for name, value in stated.items() if value not in (None, "", [], {})}
    told = [(escape(key), [escape(_in_words(value))]) for key, value in rows.items()]
    table = _table([], told, ' class="settings"')
    return f'<section id="settings"><h2>Settings</h2>{table}</section>'


def _in_words(value: Any) -> str:
    if isinstance(value, Mapping):
        return "; ".join(f"{name}: {_in_words(each)}" for name, each in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def write_model(
    path: Path, model: FusedModel, sample_ids: Any, labels: Any, *, title: str | None, in_fit: Collection[str]
) -> None:
    """Write the page of a model; `labels` has a value for each of the samples, or an index that names them."""
    names = [str(label) for label in sample_ids]
    sent = {name: Received(path, wire.pieces(s), s) for name, s in model.received.items()}
    source = source_of(Run(path, model, runs.settings_of(model, sent, "ids", ()), names))
    known = None if labels is None else LabelTable(str(path), names, _label_frame(labels, list(sample_ids), names))
    found = outcomes_of(source, [], known, in_fit)
    content = Content(source, title or "Kernel principal components", labels=known, outcomes=found)
    storage.write(path, render(content, points=POINTS).encode(), private=True)


def _label_frame(labels: Any, ids: list[Any], names: list[str]) -> pl.DataFrame:
    """Labels in the order of the samples."""
    if hasattr(labels, "iloc"):
        texts = labels.index.map(str)
        if not set(texts).isdisjoint(names):
            labels, ids = labels.set_axis(texts), names
        labels = rows_of_samples(labels, ids, ids, what="labels")
    columns = {str(name): list(labels[name]) for name in getattr(labels, "columns", labels)}
    wrong = [name for name, values in columns.items() if len(values) != len(names)]
    if wrong:
        raise InputError(f"label {wrong[0]!r} has {len(columns[wrong[0]])} values for {len(names)} samples")
    return pl.DataFrame(columns, strict=False)
