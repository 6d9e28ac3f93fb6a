"""What a party decodes may come from anyone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dkpca.errors import WireError
from dkpca.exchange.questions import RowsWanted, StatisticsWanted, SummaryWanted, TokensWanted
from dkpca.kernels import RBF
from dkpca.network import envelopes
from dkpca.network.envelopes import Answer, Request, decode_answer, decode_request, encode_answer, encode_request
from dkpca.rank import Adaptive, Auto, Budget, Fixed
from dkpca.wire import container
from dkpca.wording import printable

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 2**40) | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
FIELDS = st.dictionaries(
    st.sampled_from(["kernel", "rank", "precision", "solver", "keep_training", "exact", "batch", "common"])
    | st.text(max_size=6),
    JSON,
    max_size=6,
)


@pytest.mark.parametrize(
    "question",
    [
        TokensWanted(),
        TokensWanted("spring"),
        StatisticsWanted(),
        *(
            SummaryWanted(RBF(0.5), rule, "float16")
            for rule in (Fixed(3), Adaptive(0.1), Auto(4), Budget(5000, "float16"))
        ),
        SummaryWanted(RBF(0.5), Fixed(3), "float64", "landmark", True),
        RowsWanted("spring", True),
    ],
)
def test_requests_arrive_as_they_were_sent(question):
    request = Request("first", question)
    assert decode_request(encode_request(request)) == request


@given(message=st.binary(max_size=200), reason=st.text(max_size=100))
def test_answers_arrive_as_they_were_sent(message, reason):
    answer = decode_answer(encode_answer(Answer("0" * 32, message, "ok", reason)))
    assert (answer.message, answer.reason) == (message, printable(reason))


@given(kind=st.sampled_from(sorted(envelopes.QUESTIONS)) | st.text(max_size=5), run=JSON, number=JSON, fields=FIELDS)
def test_a_well_packed_request_with_any_contents_is_read_or_refused(kind, run, number, fields):
    header = {"version": 1, "kind": kind, "run": run, "number": number, "fields": fields}
    with_number = header | {"number": "0" * 32, "run": "first"}
    for each in (header, with_number):
        try:
            decode_request(container.pack(each, {}, entry=envelopes.REQUEST))
        except WireError:
            continue


@given(place=st.integers(0, 10_000), bit=st.integers(0, 7))
def test_a_request_with_any_bit_turned_is_refused(place, bit):
    data = bytearray(encode_request(Request("first", SummaryWanted(RBF(0.5), Fixed(3), "float16"), "0" * 32)))
    data[place % len(data)] ^= 1 << bit
    with pytest.raises(WireError):
        decode_request(bytes(data))
