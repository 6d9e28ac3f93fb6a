"""What a party decodes may come from anyone."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dkpca.errors import WireError
from dkpca.exchange.questions import (
    OfferWanted,
    RowsWanted,
    ShareOfferWanted,
    StatisticsWanted,
    SummaryWanted,
    SumsWanted,
    TokensWanted,
)
from dkpca.kernels import RBF
from dkpca.messages import Agreed, CommonTokens, Offer, Offers, Tokens
from dkpca.network import envelopes
from dkpca.network.envelopes import decode_question, encode_question
from dkpca.network.protocol import Asked, from_json, to_json
from dkpca.rank import Adaptive, Auto, Budget, Fixed

OFFER = Offer("bank", Agreed("first", "pairs", "rbf", 3, 3, "d" * 64, 16), 4, 2.0, "a" * 64, "b" * 64, "c" * 128)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 2**70) | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
NAMES = (
    "kernel",
    "rank",
    "precision",
    "solver",
    "keep_training",
    "exact",
    "batch",
    "common",
    "scores",
    "run",
    "offers",
    "scorer",
)
FIELDS = st.dictionaries(st.sampled_from(NAMES) | st.text(max_size=6), JSON, max_size=6)


@pytest.mark.parametrize(
    "question",
    [
        TokensWanted(),
        TokensWanted("spring"),
        StatisticsWanted(),
        StatisticsWanted(CommonTokens(2, Tokens.of([b"a" * 16, b"b" * 16]))),
        *(
            SummaryWanted(RBF(0.5), rule, "float16")
            for rule in (Fixed(3), Adaptive(0.1), Auto(4), Budget(5000, "float16"))
        ),
        SummaryWanted(RBF(0.5), Fixed(3), "float64", "landmark", True),
        RowsWanted("spring", True),
        OfferWanted("first", RBF(0.5), 20, 500, 4000, open_width=True),
        ShareOfferWanted("later", "spring"),
        SumsWanted(Offers((OFFER, OFFER)), 3, "spring"),
    ],
)
def test_questions_arrive_as_they_were_sent(question):
    described, attached = encode_question(question)
    arrived = decode_question(from_json(to_json(described), 2**14), attached)
    if question.common is not None:
        assert arrived.common.tokens.listed() == question.common.tokens.listed()
    else:
        assert arrived == question


@given(kind=st.sampled_from(sorted(envelopes.QUESTIONS)) | st.text(max_size=5), values=FIELDS)
def test_a_question_with_any_contents_is_read_or_refused(kind, values):
    try:
        decode_question({"kind": kind, **values})
    except WireError:
        return


@given(value=st.dictionaries(st.sampled_from(["number", "run", "question", "attached", "sha256", "x"]), JSON))
def test_an_envelope_with_any_contents_is_read_or_refused(value):
    with pytest.raises(WireError):
        Asked.from_dict(value)


@pytest.mark.parametrize(
    "text",
    [
        '{"a": NaN}',
        '{"a": Infinity}',
        '{"a": 1, "a": 2}',
        "[" * 100_000,
        "1" * 5000,
        "{'a': 1}",
        "",
        "\ufeff{}",
        '{"a": ' * 5000,
    ],
)
def test_json_that_is_not_strict_is_refused(text):
    with pytest.raises(WireError, match="is not JSON as this protocol has it"):
        from_json(text.encode(), 10**6)


def test_json_that_is_too_large_is_refused_before_it_is_read():
    with pytest.raises(WireError, match="more than the 10 allowed"):
        from_json(json.dumps("x" * 20).encode(), 10)
    with pytest.raises(WireError, match="is not JSON"):
        from_json(b"\xff\xfe", 10)
