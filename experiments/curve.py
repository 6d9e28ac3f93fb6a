"""Beyond the paper: error against bytes in compact precision, over the cut, beside the ideal code, on GSE2187.

The ideal is Shannon's: what Gaussian columns with these variances need at least for this much noise.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from dkpca.kernels.grams import FusedGram, KernelGram
from dkpca.linalg.eigenpairs import Eigenpairs
from dkpca.linalg.gram import Centered
from dkpca.linalg.leading import leading
from dkpca.linalg.precision import COMPACT, DIGITS, Rounded
from dkpca.messages import Summary, row_number_digest
from dkpca.party.candidates import Candidate, Candidates, choose_rank
from dkpca.rank import Auto, Budget, Fixed, RankRule
from experiments import protocol, whole
from experiments.command import Options, described, expression, main, mean_std

CONVENTIONS = ("text", "code")


@dataclass(frozen=True)
class Settings:
    """60 equal parties, 10 components, sigma = sqrt(M) / 3; shares are of lambda_2, times of the paper's bytes."""

    n_components: int = 10
    n_parties: int = 60
    pairs: int = 330  # of each party; the finest message here needs fewer
    rank: int = 15  # of the paper's setting, in float64
    shares: tuple[float, ...] = (0.1, 0.03, 0.01, 3e-3, 1e-3, 3e-4, 1e-4)
    times: tuple[float, ...] = (0.1, 1.0)
    data: str | None = None


QUICK = Settings(n_parties=4, pairs=60, shares=(0.1, 0.01), times=(0.1, 1.0))


def curve(settings: Settings, seed: int) -> dict[str, dict[str, dict[str, float]]]:
    """Error and bytes of every choice, the genes in a random order, for the width as printed and as released."""
    X = expression(settings.data).X
    blocks = protocol.equal_blocks(X.shape[1], settings.n_parties, np.random.default_rng(seed))
    return {convention: _points(settings, X, blocks, convention) for convention in CONVENTIONS}


def _points(
    settings: Settings, X: protocol.Matrix, blocks: protocol.Blocks, convention: str
) -> dict[str, dict[str, float]]:
    kernel = whole.kernel(settings.data, convention)
    true = whole.components(settings.data, convention, settings.n_components).vectors
    parties = [_spectrum(kernel, X[:, columns], settings.pairs) for columns in blocks]
    choices: dict[str, tuple[RankRule, str]] = {"paper": (Fixed(settings.rank), "float64")}
    paper = _drafts(parties[0], kernel, *choices["paper"])[0].size()
    choices |= {f"share {share:g}": (Auto(1, 10 * share), COMPACT) for share in settings.shares}
    choices |= {f"times {times:g}": (Budget(int(times * paper)), COMPACT) for times in settings.times}
    points = {}
    for name, (rule, precision) in choices.items():
        drafts = [_drafts(party, kernel, rule, precision)[0] for party in parties]
        gram = Centered(FusedGram(kernel.law, [draft.factor.decode() for draft in drafts]))
        points[name] = {
            "error": protocol.error(true, gram),
            "bytes": float(np.mean([draft.size() for draft in drafts])),
            "rank": float(np.mean([draft.factor.shape[1] for draft in drafts])),
            "ideal_bytes": float(np.mean([_ideal(draft.factor) for draft in drafts])) if name != "paper" else 0.0,
        }
    return points


def _spectrum(kernel: Any, X: protocol.Matrix, k: int) -> tuple[protocol.Matrix, Eigenpairs]:
    return X, leading(KernelGram(kernel, X - X.mean(0)), min(k, X.shape[0]))


def _drafts(
    party: tuple[protocol.Matrix, Eigenpairs], kernel: Any, rule: RankRule, precision: str
) -> tuple[Candidate, str]:
    """The message that a party sends, from its spectrum."""
    X, pairs = party
    named = row_number_digest(X.shape[0])

    def message(**fields: Any) -> Summary:
        return Summary(party="party", kernel=kernel, sample_digest=named, n_features=X.shape[1], **fields)

    drafts = Candidates(
        gram=KernelGram(kernel, X - X.mean(0)),
        table=X,
        message=message,
        precision=precision,
        digits=DIGITS[precision],
        most=min(pairs.values.shape[0] - 1, X.shape[0]),
        pairs=pairs,
        eigenpairs=pairs.head,
    )
    return choose_rank(drafts, rule.sent_in(precision))


def _ideal(factor: Rounded) -> float:
    """Bytes of Shannon's bound for the variances and the noise of a factor."""
    variances = np.mean(factor.decode() ** 2, axis=0)
    noise = np.asarray(factor.scale) ** 2 / 12.0
    return float(factor.shape[0] * np.sum(np.maximum(0.0, 0.5 * np.log2(variances / noise))) / 8.0)


def run(options: Options, settings: Settings) -> None:
    """Error against bytes in compact precision."""
    trials = options.repeat("curve", curve, settings, real_data=True)
    rows = [
        {
            "convention": convention,
            "choice": name,
            **mean_std([trial[convention][name]["error"] for trial in trials]),
            **{key: np.mean([t[convention][name][key] for t in trials]) for key in ("bytes", "rank", "ideal_bytes")},
        }
        for convention in CONVENTIONS
        for name in trials[0][convention]
    ]
    options.write("curve", {"settings": described(settings), "repetitions": options.repetitions, "rows": rows})


if __name__ == "__main__":
    main(run, Settings(), QUICK)
