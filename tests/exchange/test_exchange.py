"""Rounds between a center and parties with folders of their own; the transport is a function call here.

What the network adds to this, real processes and mutual TLS, is in tests/network.
"""

import hashlib
import json
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
import safetensors.numpy

from dkpca import DKPCA
from dkpca.errors import FusionError, InputError, NoAnswerError, WireError
from dkpca.exchange.questions import Result, RowsWanted, StatisticsWanted, SummaryWanted
from dkpca.kernels import RBF
from dkpca.network import approvals
from dkpca.network.envelopes import decode_question, encode_question
from dkpca.network.protocol import Asked
from dkpca.network.remote import Failure
from dkpca.network.responder import Responder
from dkpca.rank import Fixed
from dkpca.store import ledger, runs, storage
from testkit.by_hand import FIT, scores
from testkit.owners import GAMMA, OWNERS, frame, numbers, standardized
from testkit.program import Office

pytestmark = pytest.mark.slow  # whole exchanges of the network wing


def ask(question, run="first", number="9" * 32):
    """A question without a message attached, as it reaches a party."""
    if isinstance(question, SummaryWanted):
        number = hashlib.sha256(repr(question).encode()).hexdigest()[:32]
    return Asked(number, run, encode_question(question)[0])


def status(consortium, run="first"):
    return json.loads((consortium.path / "center" / run / "exchange.json").read_text())


def test_three_transports_give_the_same_bits(consortium, tmp_path):
    """In one process, by files, and by a transport: one protocol, one answer."""
    fitted = consortium.center().fit("first", FIT).model
    files = tmp_path / "files"
    files.mkdir()
    for owner in OWNERS:
        shutil.copy(consortium.party(owner) / "people.csv", files / f"{owner}.csv")
        Office(files).summarize(owner)
    Office(files).ok("fuse", *(f"{o}.summary" for o in OWNERS), "--components", 3, "--out", "run")
    by_files = runs.load(files / "run").model
    np.testing.assert_array_equal(fitted.eigenvectors, by_files.eigenvectors)
    np.testing.assert_array_equal(fitted.eigenvalues, by_files.eigenvalues)
    for owner in OWNERS:
        sent = (consortium.path / "center" / "first" / "messages" / f"{owner}.summary").read_bytes()
        assert sent == (files / f"{owner}.summary").read_bytes()

    tables = {owner: pl.read_csv(files / f"{owner}.csv").drop("person") for owner in OWNERS}
    model = DKPCA(3, gamma=GAMMA, rank=20).fit({o: standardized(t.to_numpy()) for o, t in tables.items()})
    np.testing.assert_array_equal(fitted.eigenvectors, model.eigenvectors_)


def test_parties_get_the_result_under_their_own_ids(consortium):
    consortium.center().fit("first", FIT)
    consortium.center().project("first", ["spring"])
    for owner in OWNERS:
        kept = consortium.party(owner) / "runs" / "first"
        assert pl.read_csv(kept / "embedding.csv")["sample"].to_list() == [f"p{i:02d}" for i in range(60)]
        np.testing.assert_array_equal(scores(kept), scores(consortium.path / "center" / "first"))
        placed = kept / "new" / "spring"
        assert pl.read_csv(placed / "embedding.csv")["sample"].to_list() == [f"n{i}" for i in range(7)]
        np.testing.assert_array_equal(scores(placed), scores(consortium.path / "center" / "first" / "new" / "spring"))


@pytest.mark.parametrize("exact", [False, True])
def test_new_samples_by_courier_are_those_of_the_estimator(consortium, exact):
    center = consortium.center()
    center.fit("first", replace(FIT, keep_training=exact, precision="float64"))
    center.project("first", ["spring"], exact=exact)
    train = numbers()
    mean, deviation = ({o: f(X, axis=0) for o, X in train.items()} for f in (np.mean, np.std))
    model = DKPCA(3, gamma=GAMMA, rank=20, precision="float64", projection="exact" if exact else "extend")
    model.fit({o: standardized(X) for o, X in train.items()})
    truth = model.transform({o: (X[:7] + 0.1 - mean[o]) / deviation[o] for o, X in train.items()})
    np.testing.assert_allclose(scores(consortium.path / "center" / "first" / "new" / "spring"), truth, atol=1e-8)


def test_samples_that_differ_are_aligned_and_no_id_reaches_the_center(consortium):
    rng = np.random.default_rng(1)
    present = {owner: rng.permutation(60)[:45] for owner in OWNERS}
    for owner, rows in present.items():
        ids = [f"p{i:02d}" for i in rows]
        frame(numbers()[owner][rows], ids).write_csv(consortium.party(owner) / "people.csv")
    run = consortium.center().fit("first", replace(FIT, align=True, gamma="auto"))
    common = set.intersection(*(set(rows.tolist()) for rows in present.values()))
    kept = consortium.party("bank") / "runs" / "first"
    order = [int(name[1:]) for name in pl.read_csv(kept / "embedding.csv")["sample"]]
    assert set(order) == common
    model = DKPCA(3, gamma="auto", rank=20).fit({o: standardized(X[order]) for o, X in numbers().items()})
    np.testing.assert_allclose(run.model.eigenvalues, model.eigenvalues_, rtol=1e-9)
    sent = b"".join(consortium.transport.sent)
    assert not any(f"p{i:02d}".encode() in sent for i in order)


def test_a_repeated_fit_asks_only_who_is_missing(consortium):
    consortium.transport.tamper = lambda party, answer: None if party == "shop" else answer
    with pytest.raises(NoAnswerError, match=r"no summary from \['shop'\].*no answer within 5 s"):
        consortium.center().fit("first", FIT)
    assert status(consortium)["state"] == "failed"
    assert status(consortium)["parties"]["shop"]["reason"] == "no answer within 5 s"
    assert status(consortium)["parties"]["bank"]["state"] == "answered"
    consortium.transport.tamper = lambda party, answer: answer
    consortium.transport.asked.clear()
    consortium.center().fit("first", FIT)
    assert consortium.transport.asked == [["shop"], list(OWNERS)]  # the summary, then the result for everyone
    consortium.transport.asked.clear()
    consortium.center().fit("first", FIT)
    assert consortium.transport.asked == []
    consortium.center().fit("first", FIT, again=["bank"])
    assert consortium.transport.asked[0] == ["bank"]


def test_a_party_without_a_network_sends_its_file(consortium):
    consortium.transport.tamper = lambda party, answer: Failure("line is down") if party == "shop" else answer
    with pytest.raises(NoAnswerError, match="shop: line is down"):
        consortium.center().fit("first", FIT)
    by_mail = consortium.party("shop") / "runs" / "first" / "shop.summary"
    Office(consortium.path).ok("fuse", by_mail, "--keep", "--components", 3, "--out", "center/first")
    assert sorted(runs.load(consortium.path / "center" / "first").model.summaries) == sorted(OWNERS)
    consortium.transport.tamper = lambda party, answer: answer
    consortium.transport.asked.clear()
    consortium.center().fit("first", FIT, publish=False)
    assert consortium.transport.asked == []


def test_a_run_keeps_its_parties_whoever_joins_or_leaves(consortium):
    consortium.center().fit("first", FIT)
    consortium.center().project("first", ["spring"])
    consortium.transport.asked.clear()
    later = replace(consortium.center(), roster=[*OWNERS[1:], "pharmacy"])
    later.fit("first", FIT)
    later.project("first", ["spring"])
    assert consortium.transport.asked == []
    with pytest.raises(InputError, match=r"\['pharmacy'\] cannot be asked again: not on the roster"):
        later.fit("first", FIT, again=["pharmacy"])


@pytest.mark.parametrize("asked", [{"align": True}, {"gamma": "auto"}])
def test_too_many_components_are_refused_before_a_party_has_worked(consortium, asked):
    with pytest.raises(InputError, match="n_components is 500, but there are 60 samples"):
        consortium.center().fit("first", replace(FIT, n_components=500, **asked))
    assert not list(consortium.party("bank").rglob("*.summary"))


def test_settings_that_nobody_answered_do_not_cost_the_name_of_a_run(consortium):
    for owner in OWNERS:
        consortium.policy(owner, "max_rank = 3")
    with pytest.raises(NoAnswerError, match="refused"):
        consortium.center().fit("first", FIT)
    for owner in OWNERS:
        consortium.policy(owner, "max_rank = 10")
    consortium.center().fit("first", replace(FIT, rank=Fixed(10)))


def test_after_a_break_a_party_sends_the_same_bytes_under_the_same_number_and_computes_nothing(consortium):
    consortium.transport.tamper = lambda party, message: None if party == "shop" else message
    with pytest.raises(NoAnswerError, match="no answer within"):
        consortium.center().fit("first", FIT)
    lost = consortium.transport.sent[-1]
    (consortium.party("shop") / "people.csv").unlink()
    consortium.transport.tamper = lambda party, message: message
    consortium.center().fit("first", FIT, publish=False)
    numbers = [asked.number for party, asked, _ in consortium.transport.questions if party == "shop"]
    assert len(numbers) == 2
    assert len(set(numbers)) == 1
    assert (consortium.path / "center" / "first" / "messages" / "shop.summary").read_bytes() == lost
    events = [record["event"] for record in ledger.records(consortium.party("shop") / ledger.NAME)]
    assert events.count("written") == 1


def test_other_settings_under_the_same_name_are_refused(consortium):
    consortium.center().fit("first", FIT)
    with pytest.raises(InputError, match="begun with other settings"):
        consortium.center().fit("first", replace(FIT, rank=Fixed(10)))
    assert len(runs.load(consortium.path / "center" / "first").model.summaries) == 3


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        ("max_rank = 19", "rank 20 is more than max_rank = 19"),
        ("gamma = [0.5, 0.6]", "gamma 0.05 is outside"),
        ('max_precision = "float16"', "float32 is finer than max_precision"),
        ("min_samples = 100", "fewer samples than the 100"),
        ('kernels = ["linear"]', "the rbf kernel is not among"),
    ],
)
def test_what_the_policy_forbids_is_refused_and_logged_at_both_ends(consortium, policy, words):
    consortium.policy("clinic", policy)
    with pytest.raises(NoAnswerError, match=f"clinic: refused by .*{words}"):
        consortium.center().fit("first", FIT)
    here = (consortium.party("clinic") / "dkpca-ledger.jsonl").read_text()
    there = (consortium.path / "center" / "first" / "ledger.jsonl").read_text()
    assert words in here
    assert words in there
    assert not (consortium.party("clinic") / "runs" / "first" / "clinic.summary").exists()


def test_a_party_limits_how_many_fits_a_center_gets_whatever_their_names(consortium):
    consortium.policy("clinic", "max_fits = 1\n")
    consortium.center().fit("first", FIT)
    consortium.center().fit("same", FIT)
    with pytest.raises(NoAnswerError, match=r"clinic: refused by .*it has answered max_fits = 1 fits; only these"):
        consortium.center().fit("wider", replace(FIT, gamma=0.06))
    assert not (consortium.party("clinic") / "runs" / "wider").exists()
    consortium.center().project("first", ["spring"])


def test_a_party_answers_one_question_at_a_time(consortium, monkeypatch):
    """Else limits on what was sent before could be passed by asking at once."""
    write_all = storage.write_all

    def slowly(*files, **options):
        time.sleep(0.2)
        write_all(*files, **options)

    monkeypatch.setattr(storage, "write_all", slowly)
    consortium.policy("bank", "max_fits = 1\n")
    kernels = [RBF(0.01 * i) for i in range(1, 5)]
    questions = [ask(SummaryWanted(k, Fixed(5), "float32")) for k in kernels]
    with ThreadPoolExecutor(len(questions)) as pool:
        answers = list(pool.map(Responder(consortium.party("bank")).answer, questions))
    assert sorted(answer.code for answer in answers) == ["ok", "refused", "refused", "refused"]


def test_a_damaged_private_state_is_no_fault_of_the_request(consortium):
    consortium.center().fit("first", FIT)
    state = consortium.party("bank") / "runs" / "first" / "bank.state"
    state.write_bytes(state.read_bytes()[:-5])
    with pytest.raises(NoAnswerError, match="bank: cannot answer: one of its files is damaged"):
        consortium.center().project("first", ["spring"])


def test_new_samples_of_an_older_fit_are_asked_for_again(consortium):
    consortium.center().fit("first", FIT)
    consortium.center().project("first", ["spring"])
    X = numbers()["shop"] + 0.01 * np.random.default_rng(5).normal(size=numbers()["shop"].shape)
    frame(X, [f"p{i:02d}" for i in range(60)]).write_csv(consortium.party("shop") / "people.csv")
    consortium.center().fit("first", FIT, again=["shop"])
    consortium.transport.asked.clear()
    consortium.center().project("first", ["spring"])
    assert consortium.transport.asked[0] == ["shop"]


def test_few_new_samples_are_aligned_where_the_policy_asks_for_many_of_the_fit(consortium):
    consortium.center().fit("first", FIT)
    for owner in OWNERS:
        consortium.policy(owner, "min_samples = 50")
        rows = list(np.random.default_rng(len(owner)).permutation(7))
        table = pl.read_csv(consortium.party(owner) / "new" / "spring.csv")
        table[rows].write_csv(consortium.party(owner) / "new" / "shuffled.csv")
    consortium.center().project("first", ["spring"])
    consortium.center().project("first", ["shuffled"], align=True)
    named = [
        pl.read_csv(consortium.party("bank") / "runs" / "first" / "new" / batch / "embedding.csv").sort("sample")
        for batch in ("spring", "shuffled")
    ]
    assert named[0]["sample"].to_list() == named[1]["sample"].to_list()
    np.testing.assert_allclose(named[0].drop("sample").to_numpy(), named[1].drop("sample").to_numpy(), atol=1e-12)


def test_projection_beyond_the_policy_is_refused(consortium):
    consortium.center().fit("first", FIT)
    consortium.policy("clinic", "projection = false")
    with pytest.raises(NoAnswerError, match="clinic: refused by .*it does not place new samples"):
        consortium.center().project("first", ["spring"])


def test_distances_are_sent_only_where_the_policy_says_so_in_so_many_words(consortium):
    """They tell the whole table, whatever the rank."""
    consortium.center().fit("first", replace(FIT, keep_training=True))
    consortium.policy("clinic", "projection = true")
    with pytest.raises(NoAnswerError, match="clinic: refused by .*no distances for the exact projection"):
        consortium.center().project("first", ["spring"], exact=True)
    consortium.center().project("first", ["spring"], again=OWNERS)


@pytest.mark.parametrize("exact", [False, True])
def test_the_table_of_the_fit_is_not_a_batch_of_new_samples(consortium, exact):
    """Else its rows could be had past max_rank, max_fits and min_samples."""
    consortium.center().fit("first", replace(FIT, keep_training=True))
    answer = Responder(consortium.party("bank")).answer(ask(RowsWanted("", exact)))
    assert answer.code == "refused"
    assert "never the table of the fit" in answer.reason
    assert not list((consortium.party("bank") / "runs" / "first").glob("*.rows"))


@pytest.mark.parametrize(
    ("field", "value"), [("kind", []), ("kind", {}), ("fields", [float("nan")]), ("version", float("inf"))]
)
def test_an_answer_that_is_no_message_is_turned_away_and_no_old_one_used(consortium, field, value):
    consortium.center().fit("first", FIT)
    header = {"kind": "summary", "version": 1, "fields": {}, "checksum": ""} | {field: value}
    odd = safetensors.numpy.save({}, metadata={"dkpca": json.dumps(header)})

    def tamper(party, data):
        return odd if party == "bank" else data

    consortium.transport.tamper = tamper
    with pytest.raises(NoAnswerError, match="bank: its answer is turned away"):
        consortium.center().fit("first", FIT, again=["bank"])
    assert status(consortium)["parties"]["bank"]["state"] == "failed"


def test_an_old_message_is_turned_away(consortium):
    """It is of another width; were it the same question, the same bytes would be the right answer."""
    consortium.center().fit("first", FIT)
    old = next(m for m in consortium.transport.sent if m)
    consortium.transport.tamper = lambda party, message: old if party == "bank" and message else message
    with pytest.raises(NoAnswerError, match=r"bank: its answer is turned away: .*its kernel is RBF\(gamma=0.05\)"):
        consortium.center().fit("second", replace(FIT, gamma=0.07))
    assert not (consortium.path / "center" / "second" / "messages" / "bank.summary").exists()
    assert "turned away" in (consortium.path / "center" / "second" / "ledger.jsonl").read_text()


def test_a_number_is_for_one_question(consortium):
    consortium.center().fit("first", FIT)
    party, asked, _ = consortium.transport.questions[0]
    responder = Responder(consortium.party(party), identity=party)
    described, _ = encode_question(SummaryWanted(RBF(0.07), Fixed(20), "float32"))
    answer = responder.answer(replace(asked, question=described))
    assert (answer.code, answer.file) == ("refused", None)
    assert "was used for another question" in answer.reason
    same = responder.answer(asked)
    assert same.file.read_bytes() in consortium.transport.sent


def test_a_message_under_another_partys_name_is_turned_away(consortium):
    def as_shop(party, message):
        if party != "bank":
            return message
        liar = shutil.copytree(consortium.party("bank"), consortium.path / "liar")
        (liar / "party.toml").write_text((liar / "party.toml").read_text().replace('"bank"', '"shop"'))
        _, asked, attached = consortium.transport.questions[-1]
        return Responder(liar).answer(replace(asked, number="1" * 32), attached).file.read_bytes()

    consortium.transport.tamper = as_shop
    with pytest.raises(NoAnswerError, match="bank: .*calls its sender 'shop', its certificate 'bank'"):
        consortium.center().fit("first", FIT)


def test_a_party_whose_certificate_has_another_name_does_not_answer(consortium):
    answer = Responder(consortium.party("bank"), identity="shop").answer(ask(StatisticsWanted()))
    assert answer.code == "cannot answer"


def test_misaligned_parties_are_named(consortium):
    X = numbers()["shop"]
    frame(X, [f"p{i:02d}" for i in reversed(range(60))]).write_csv(consortium.party("shop") / "people.csv")
    with pytest.raises(FusionError, match="'bank' and 'shop' differ in sample digest"):
        consortium.center().fit("first", FIT)
    assert "'shop'" in status(consortium)["reason"]
    frame(X, [f"p{i:02d}" for i in range(60)]).write_csv(consortium.party("shop") / "people.csv")
    consortium.transport.asked.clear()
    consortium.center().fit("first", FIT, again=["shop"])
    assert consortium.transport.asked[0] == ["shop"]


MARKER = "481516.2342"


@pytest.mark.parametrize("trouble", ["text", "twice", "missing", "folder", "broken"])
def test_errors_leave_without_data(consortium, trouble):
    """The party's ledger has the reason; what leaves is a code and a sentence that is the same for all data."""
    folder = consortium.party("bank")
    table = folder / "people.csv"
    lines = table.read_text().splitlines()
    if trouble == "text":
        lines[5] = f"p04,secret-{MARKER}," + lines[5].split(",", 2)[2]
    elif trouble == "twice":
        lines = [lines[0]] + [line.replace("p04", MARKER).replace("p05", MARKER) for line in lines[1:]]
    elif trouble == "missing":
        (folder / "party.toml").write_text(f'party = "bank"\ntable = "{MARKER}.csv"\npolicy = "policy.toml"\n')
    elif trouble == "folder":
        table = folder / "runs"
        table.write_text(MARKER)
    elif trouble == "broken":
        (folder / "party.toml").write_text(f"party = {MARKER!r} {MARKER}")
    if trouble in ("text", "twice"):
        table.write_text("\n".join(lines) + "\n")
    answer = Responder(folder, identity="bank").answer(ask(SummaryWanted(RBF(GAMMA), Fixed(20), "float32")))
    assert answer.code == "cannot answer"
    assert MARKER not in answer.reason
    assert str(folder) not in answer.reason
    records = ledger.records(folder / "dkpca-ledger.jsonl")
    assert records[-1]["event"] == "not answered"
    assert len(records[-1]["reason"]) > 20


@pytest.mark.parametrize(
    "described",
    [
        {},
        {"kind": "Popen"},
        {"kind": "StatisticsWanted", "path": "/etc/passwd"},
        {"kind": "SummaryWanted", "kernel": {"name": "rbf"}, "rank": {"rule": "fixed", "rank": 3}},
        {"kind": "RowsWanted", "batch": "../../people"},
        {"kind": "Result"},
    ],
)
def test_what_is_no_question_is_answered_politely_and_leaves_nothing(consortium, described):
    answer = Responder(consortium.party("bank")).answer(Asked("1" * 32, "first", described))
    assert answer.code == "not understood"
    assert not (consortium.party("bank") / "runs").exists()


@pytest.mark.parametrize("run", ["../first", "a/b", "", ".."])
def test_a_run_cannot_name_a_path(consortium, run):
    with pytest.raises(WireError, match="run name"):
        Asked.from_dict({"number": "1" * 32, "run": run, "question": {}, "attached": 0, "sha256": ""})
    answer = Responder(consortium.party("bank")).answer(replace(ask(StatisticsWanted()), run=run))
    assert answer.code == "cannot answer"
    with pytest.raises(InputError, match="run name"):
        consortium.center().fit(run, FIT)


def test_every_message_that_left_is_in_the_partys_ledger(consortium):
    consortium.center().fit("first", FIT)
    consortium.center().project("first", ["spring"])
    for owner in OWNERS:
        left = consortium.transport.sent
        records = ledger.records(consortium.party(owner) / "dkpca-ledger.jsonl")
        written = {record["sha256"] for record in records if record["event"] == "written"}
        kept = [
            path.read_bytes()
            for path in (consortium.party(owner) / "runs").rglob(f"{owner}.*")
            if path.suffix != ".state"
        ]
        assert {hashlib.sha256(data).hexdigest() for data in kept} == written
        assert all(data in left for data in kept)


def test_result_about_other_samples_is_not_kept(consortium):
    consortium.center().fit("first", FIT)
    party, asked, attached = next(q for q in consortium.transport.questions if q[1].question["kind"] == "Result")
    scores = decode_question(asked.question, attached).scores
    described, other = encode_question(Result(replace(scores, sample_digest="0" * 64)))
    asked = Asked("2" * 32, "first", described, len(other), hashlib.sha256(other).hexdigest())
    answer = Responder(consortium.party(party)).answer(asked, other)
    assert answer.code == "cannot answer"


def test_a_person_approves_each_question_where_the_party_wants_it(consortium):
    folder = consortium.party("bank")
    (folder / "party.toml").write_text((folder / "party.toml").read_text() + "approval = true\n")
    responder, asked = Responder(folder), ask(StatisticsWanted())
    assert responder.answer(asked).code == "waiting"
    assert responder.answer(asked).code == "waiting"
    assert list(approvals.waiting(folder)) == [asked.number]
    assert approvals.waiting(folder)[asked.number]["question"] == {"kind": "StatisticsWanted"}
    approvals.decide(folder, asked.number, approved=True)
    swapped = replace(asked, question=encode_question(SummaryWanted(RBF(1.0), Fixed(5), "float32"))[0])
    assert responder.answer(swapped).code == "waiting"  # a center cannot have one approved and another answered
    approvals.keep_only(folder, ())
    assert responder.answer(asked).code == "waiting"
    approvals.decide(folder, asked.number, approved=True)
    assert responder.answer(asked).code == "ok"
    denied = ask(StatisticsWanted(), number="3" * 32)
    assert responder.answer(denied).code == "waiting"
    approvals.decide(folder, denied.number, approved=False)
    assert "a person at the party denied it" in responder.answer(denied).reason
    with pytest.raises(InputError, match="does not wait for anybody"):
        approvals.decide(folder, denied.number, approved=True)
    events = [record["event"] for record in ledger.records(folder / ledger.NAME)]
    assert events.count("approved") == 2
    assert events.count("denied") == 1


def test_a_message_attached_is_weighed_before_it_is_fetched(consortium):
    consortium.center().fit("first", FIT)
    described = {"kind": "Result"}
    good, huge = (Asked("4" * 32, "first", described, size, "0" * 64) for size in (10_000, 10**9))
    responder = Responder(consortium.party("bank"))
    assert responder.weigh(good).code == "ok"
    assert responder.weigh(huge).code == "not understood"
    tokens = Asked("5" * 32, "first", {"kind": "StatisticsWanted"}, 10**8, "0" * 64)
    assert responder.weigh(tokens).code == "not understood"
