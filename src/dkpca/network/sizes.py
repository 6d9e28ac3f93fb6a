"""How large an answer can be, known before the first byte of it is taken."""

import math

import numpy as np

from dkpca.exchange.questions import (
    TOLD,
    AuditWanted,
    OfferWanted,
    Question,
    RowsWanted,
    ShareOfferWanted,
    StatisticsWanted,
    SummaryWanted,
    SumsWanted,
)
from dkpca.messages import TOKEN_BYTES
from dkpca.network.protocol import MESSAGE_HEADER, MOST_COMPONENTS
from dkpca.protection.quantities import MOST_PAIRED, PIECE
from dkpca.rank import Budget, Fixed

OFFER_BYTES = 2**12


def largest_answer(question: Question, *, n_samples: float = math.inf, width: float = math.inf) -> float:
    """Bytes of the largest message that answers a question about so many samples; infinite where nothing bounds it.

    `width` is the number of columns of the answer where the center knows it: the rank of the summary that new samples
    extend, or, for exact ones, the samples of the fit.
    """
    if question.common is not None:
        n_samples = question.common.tokens.shape[0]
    if isinstance(question, TOLD):
        return 0
    if isinstance(question, StatisticsWanted | OfferWanted | ShareOfferWanted):
        return MESSAGE_HEADER
    if isinstance(question, SumsWanted):
        agreed = question.offers.offers[0].agreed
        return MESSAGE_HEADER + 8 * max(PIECE, agreed.columns) + 8 * min(agreed.rows, MOST_PAIRED)  # and lengths
    if isinstance(question, SummaryWanted):
        if isinstance(question.rank, Budget):
            return MESSAGE_HEADER + question.rank.bytes
        width = question.rank.rank if isinstance(question.rank, Fixed) else n_samples
        return _matrix(n_samples, width, question.precision) + 8 * n_samples  # a diagonal, where the kernel needs it
    if isinstance(question, AuditWanted):
        return _matrix(len(question.request.samples), question.request.n_samples, "float64")
    if isinstance(question, RowsWanted):
        return _matrix(n_samples, width + 1, "float64")
    return MESSAGE_HEADER + n_samples * TOKEN_BYTES


def largest_scores(n_samples: int) -> int:
    """Bytes of the largest result about so many samples that a party takes."""
    return int(_matrix(n_samples, MOST_COMPONENTS, "float64"))


def largest_offers(n_parties: int) -> int:
    """Bytes of the offers of so many parties."""
    return MESSAGE_HEADER + n_parties * OFFER_BYTES


def largest_scorer(rank: int) -> int:
    """Bytes of the largest scorer that a party takes which has sent a summary of this rank."""
    return int(_matrix(rank, MOST_COMPONENTS, "float64"))


def largest_tokens(n_samples: int) -> int:
    """Bytes of the largest list of samples that a party with so many of them takes."""
    return MESSAGE_HEADER + n_samples * TOKEN_BYTES


def _matrix(n_rows: float, n_columns: float, precision: str) -> float:
    known = precision in ("float16", "float32", "float64")
    each = np.dtype(precision).itemsize if known else 8  # no coding of ours takes more than the number itself
    return MESSAGE_HEADER + n_rows * n_columns * each + 8 * min(n_rows, n_columns)  # float16: a scale per column
