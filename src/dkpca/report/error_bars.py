"""Each component with its error bar: how far it probably is from the true ones, and how far it can be."""

import math

from dkpca.certificate import Certificate

HEIGHT, LEFT, TOP, BOTTOM, STEP, LEAST_WIDTH = 210, 64, 12, 34, 46, 360
MOST = 30  # components drawn
FLOOR = 1e-8  # sines below this are drawn there: nobody needs more digits


def picture(certificate: Certificate) -> str:
    """Return an SVG: a dot for the sine that is estimated, a whisker up to the one that is proved, on a log scale."""
    estimated, by_audit = certificate.component_estimates
    shown = list(zip(estimated, certificate.component_errors_at_most, strict=True))[:MOST]
    width = max(LEAST_WIDTH, LEFT + STEP * len(shown) + 10)
    lowest = min((_exponent(e) for e, _ in shown), default=-1.0)
    decades = range(0, math.floor(lowest) - 1, -1)

    def at(exponent: float) -> float:
        return TOP + (HEIGHT - TOP - BOTTOM) * exponent / min(-1, decades[-1])

    lines = [
        f'<line class="grid" x1="{LEFT}" x2="{width - 10}" y1="{at(d):.1f}" y2="{at(d):.1f}"/>'
        f'<text x="{LEFT - 8}" y="{at(d) + 4:.1f}" text-anchor="end">{_power(d)}</text>'
        for d in decades
    ]
    marks = []
    for i, (estimate, bound) in enumerate(shown):
        x = LEFT + STEP * (i + 0.5)
        low, high = at(_exponent(estimate)), at(_exponent(bound))
        marks.append(
            f"<g><title>{_words(i, estimate, bound)}</title>"
            f'<path class="whisker" d="M{x:.1f} {low:.1f}V{high:.1f}M{x - 7:.1f} {high:.1f}h14"/>'
            f'<circle class="found" cx="{x:.1f}" cy="{low:.1f}" r="4.5"/></g>'
            f'<text x="{x:.1f}" y="{HEIGHT - 12}" text-anchor="middle">{i + 1}</text>'
        )
    label = f"error of each of {len(shown)} components: estimated, and proved"
    svg = f'<svg viewBox="0 0 {width} {HEIGHT}" width="{width}" role="img" aria-label="{label}">'
    how = "an audit" if by_audit else "the messages alone"
    note = (
        f"Sine of the angle between each component and the true {certificate.n_components}-dimensional subspace: the "
        f"dot is estimated from {how}, the top of the whisker is proved. 1 is a right angle: nothing is known there."
    )
    return f'<p class="note">{note}</p><div class="scroll">{svg}{"".join(lines + marks)}</svg></div>'


def _exponent(squared: float) -> float:
    """Logarithm of a sine, from its square."""
    return math.log10(max(math.sqrt(squared), FLOOR))


def _power(decade: int) -> str:
    return "1" if decade == 0 else f"1e{decade}"


def _words(i: int, estimate: float, bound: float) -> str:
    return f"component {i + 1}: sine {math.sqrt(estimate):.1g} estimated, at most {math.sqrt(bound):.1g} proved"
