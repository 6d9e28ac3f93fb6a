"""A run as one self-contained page that works offline."""

from collections.abc import Mapping
from html import escape
from importlib.resources import files
from string import Template
from typing import Any

import plotly.io
from plotly.offline import get_plotlyjs

from dkpca.disclosure import raw_bytes, share_sent, spectrum
from dkpca.messages import Summary
from dkpca.report import figures
from dkpca.report.influence import influence
from dkpca.store.runs import Run
from dkpca.tables.reading import Matrix
from dkpca.wording import in_bytes

PAGE = Template(files("dkpca.report").joinpath("page.html").read_text(encoding="utf-8"))
CONFIG = {
    "displaylogo": False,
    "responsive": True,
    "modeBarButtonsToRemove": ["lasso2d", "select2d"],
    # Plotly 7 puts a button on every chart that uploads its data.
    "showSendToCloud": False,
    "plotlyServerURL": "",
}


def render(
    run: Run,
    *,
    labels: Mapping[str, str] | None = None,
    label_name: str | None = None,
    points: int = 3000,
    title: str | None = None,
) -> str:
    """Return the page.

    Parameters
    ----------
    run : Run
        A fused run.
    labels : mapping, optional
        Label by sample name; points get its colors.
    label_name : str, optional
        What the labels are.
    points : int
        Most samples to draw; more are drawn at random.
    title : str, optional
        Headline; else the name of the run's directory.
    """
    drawn = figures.drawn_points(run, labels, points)
    shares = influence(run.model)
    summaries = run.model.summaries
    return PAGE.substitute(
        title=escape(title or run.path.resolve().name),
        subtitle=_subtitle(run),
        drawn=_drawn(drawn, label_name),
        scatter=_figure(figures.scatter(drawn, label_name), "scatter"),
        scatter_3d=_figure(figures.scatter_3d(drawn, label_name), "scatter-3d"),
        scree=_figure(figures.scree(run), "scree"),
        parties=_party_rows(summaries, shares, run.settings["parties"]),
        influence=_figure(figures.influence_bars(shares, list(summaries)), "influence"),
        influence_note=_influence_note(run),
        headline=_headline(run),
        statements="".join(f"<li>{escape(sentence)}</li>" for sentence in run.model.certificate.statements()),
        settings=_setting_rows(run),
        plotly=get_plotlyjs(),
    )


def _figure(figure: Any, name: str) -> str:
    return str(plotly.io.to_html(figure, full_html=False, include_plotlyjs=False, config=CONFIG, div_id=name))


def _subtitle(run: Run) -> str:
    n_features = sum(summary.n_features for summary in run.model.summaries.values())
    return (
        f"{run.settings['n_samples']:,} samples, {n_features:,} columns held by {len(run.model.summaries)} parties, "
        f"{run.model.n_components} kernel principal components"
    )


def _headline(run: Run) -> str:
    certificate = run.model.certificate
    return (
        f"The {certificate.n_components} components capture at least "
        f"<strong>{certificate.captured_share_at_least:.1%}</strong> of the variance, and at least "
        f"<strong>{certificate.optimality_at_least:.1%}</strong> of what the best {certificate.n_components} "
        "components of the joined table could: proved from the messages alone."
    )


def _drawn(points: figures.Points, label_name: str | None) -> str:
    count = len(points.names)
    words = f"All {count:,} samples."
    if count < points.n_samples:
        words = f"{count:,} of the {points.n_samples:,} samples, drawn at random; the numbers below use all of them."
    colored = f" Colors: {escape(label_name)}." if label_name and points.labels is not None else ""
    return f"{words}{colored} Point at a sample to see its id."


def _party_rows(summaries: Mapping[str, Summary], shares: Matrix, known: Mapping[str, Any]) -> str:
    rows = []
    for j, (name, summary) in enumerate(summaries.items()):
        sent = known[name]["bytes_sent"]
        raw = raw_bytes(summary)
        share = float(shares[j].mean())
        saved = (
            f"{in_bytes(raw - sent)} ({1 - sent / raw:.0%})" if sent <= raw else f"none, sent {sent / raw:.1f} x raw"
        )
        rows.append(
            f"<tr><th scope='row'><i style='background:{figures.color(j)}'></i>{escape(name)}</th>"
            f"<td>{summary.n_features:,}</td><td>{summary.rank}</td><td>{in_bytes(sent)}</td><td>{in_bytes(raw)}</td>"
            f"<td>{saved}</td><td>{share_sent(summary):.1%}</td><td>{figures.spark_line(spectrum(summary))}</td>"
            f"<td><meter min='0' max='1' value='{share:.3f}'></meter> {share:.0%}</td></tr>"
        )
    return "\n".join(rows)


def _influence_note(run: Run) -> str:
    return (
        "Influence is the variance of a party's own kernel along the components, beside that of the others "
        f"({run.model.law.shares})."
    )


def _setting_rows(run: Run) -> str:
    settings = run.settings
    kernel = ", ".join(f"{key} {value}" for key, value in settings["kernel"].items() if key != "name")
    precisions = sorted({known["precision"] for known in settings["parties"].values()})
    rows = {
        "kernel": f"{settings['kernel']['name']} ({kernel})",
        "components": settings["n_components"],
        "centered": "yes" if settings["center"] else "no",
        "solver": settings["solver"],
        "precision on the wire": ", ".join(precisions),
        "samples named by": settings["sample_names"],
        "fingerprint of the sample ids": settings["sample_digest"],
        "versions": ", ".join(f"{name} {number}" for name, number in settings["versions"].items()),
    }
    return "\n".join(
        f"<tr><th scope='row'>{key}</th><td>{escape(str(value))}</td></tr>" for key, value in rows.items()
    )
