"""The part of a page that compares components and clusters with labels: a table, a picture, and sentences."""

from collections.abc import Sequence
from html import escape

from dkpca.analysis.outcomes import Outcomes, Survival, words
from dkpca.report import svg

MOST_ROWS = 40  # of the table, the smallest p-values first
WIDTH, HEIGHT, LEFT, TOP = 520.0, 220.0, 46.0, 12.0


def outcome_section(found: Sequence[Outcomes]) -> str:
    """What the scores have to do with the labels; computed where both are."""
    note = (
        "Computed from the scores and your labels, here; the center has no part in it. P-values are corrected over "
        "all labels and components (Holm). The number of clusters was chosen by their stability, without any label."
    )
    parts = []
    for each in found:
        sentences = "".join(f"<li>{escape(sentence[0].upper() + sentence[1:])}.</li>" for sentence in words(each))
        curves = "" if each.survival is None else _curves(each.survival)
        parts.append(f"<h3>{escape(each.samples.capitalize())}</h3><ul>{sentences}</ul>{curves}{_table(each)}")
    return f'<section id="outcomes"><h2>Labels and outcomes</h2><p class="note">{note}</p>{"".join(parts)}</section>'


def _table(found: Outcomes) -> str:
    shown = sorted(found.associations, key=lambda a: a.corrected)[:MOST_ROWS]
    rows = "".join(
        f'<tr><th scope="row">{escape(a.label)}</th><td>{a.component}</td><td>{a.test}</td><td>{a.effect:.2f}</td>'
        f"<td>{a.p:.2g}</td><td>{a.corrected:.2g}</td></tr>"
        for a in shown
    )
    head = "".join(f"<th>{name}</th>" for name in ("label", "component", "test", "effect", "p", "corrected p"))
    table = f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>'
    return f"<details><summary>All tests</summary>{table}</details>" if rows else ""


def _curves(found: Survival) -> str:
    """Kaplan and Meier's curves as steps, one color for each cluster."""
    if not found.curves:
        return ""
    last = max(times[-1] for times, _ in found.curves.values()) or 1.0
    levels = [1.0, 0.75, 0.5, 0.25, 0.0]
    ys = [TOP + HEIGHT * (1.0 - level) for level in levels]
    parts = [svg.rows([f"{level:.0%}" for level in levels], ys, LEFT, WIDTH)]
    for k, (name, (times, shares)) in enumerate(found.curves.items()):
        at = [
            (LEFT + (WIDTH - LEFT) * t / last, TOP + HEIGHT * (1.0 - s)) for t, s in zip(times, shares, strict=True)
        ]
        steps = f"M{at[0][0]:.1f} {at[0][1]:.1f}" + "".join(f"H{x:.1f}V{y:.1f}" for x, y in at[1:])
        color = f"party-{k % 6 + 1}"
        outline = svg.element("path", class_=f"line line-{k % 6 + 1}", d=steps)
        parts.append(svg.element("g", svg.element("title", name), outline))
        parts.append(svg.element("rect", class_=color, x=LEFT + 90 * k, y=TOP + HEIGHT + 26, width=11, height=11))
        parts.append(svg.text(LEFT + 90 * k + 16, TOP + HEIGHT + 36, name))
    parts.append(svg.text(LEFT, TOP + HEIGHT + 18, "0", "middle"))
    parts.append(svg.text(WIDTH, TOP + HEIGHT + 18, f"{last:.3g}", "end"))
    label = f"survival of {len(found.curves)} clusters over time"
    width, height = max(WIDTH, LEFT + 90.0 * len(found.curves)) + 8, TOP + HEIGHT + 44
    picture = svg.element(
        "svg", *parts, viewBox=f"0 0 {width:g} {height:g}", width=width, role="img", aria_label=label
    )
    return f'<div class="scroll">{picture}</div>'
