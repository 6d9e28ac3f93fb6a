"""Each limit of a policy: what it lets pass, what it refuses, and how a file may state it."""

import math

import pytest

from dkpca.errors import InputError, PolicyError
from dkpca.kernels import RBF, Linear
from dkpca.party.limits import Policy, policy_from
from dkpca.rank import AtMost, Auto, Fixed

TIGHT = Policy(
    max_rank=4,
    min_samples=10,
    kernels=("rbf",),
    gamma=(0.1, 1.0),
    max_precision="float32",
    projection=True,
    max_fits=2,
)


@pytest.mark.parametrize(
    ("allowed", "refused", "words"),
    [
        (lambda p: p.check_samples(10), lambda p: p.check_samples(9), "fewer samples than the 10 that min_samples"),
        (lambda p: p.check_kernel(RBF(0.1)), lambda p: p.check_kernel(RBF(0.099)), r"gamma 0.099 is outside"),
        (lambda p: p.check_kernel(RBF(1.0)), lambda p: p.check_kernel(RBF(1.01)), r"outside gamma = \[0.1, 1\]"),
        (lambda p: None, lambda p: p.check_kernel(Linear()), r"the linear kernel is not among kernels = \['rbf'\]"),
        (
            lambda p: p.check_precision("float32"),
            lambda p: p.check_precision("float64"),
            "float64 is finer than max_precision = 'float32'",
        ),
        (lambda p: p.check_precision("float16"), lambda p: p.check_precision("float64"), "is finer than"),
        (lambda p: p.check_projection(), lambda p: p.check_projection(exact=True), "no distances for the exact"),
        (lambda p: p.check_fits(1), lambda p: p.check_fits(2), "it has answered max_fits = 2 fits"),
        (lambda p: p.limit(Fixed(4)), lambda p: p.limit(Fixed(5)), "rank 5 is more than max_rank = 4"),
    ],
)
def test_every_limit_lets_pass_what_it_names_and_refuses_the_next(allowed, refused, words):
    allowed(TIGHT)
    allowed(Policy())
    refused(Policy())
    with pytest.raises(PolicyError, match="^refused by the party's policy: .*" + words):
        refused(TIGHT)


def test_without_a_projection_nothing_new_is_placed():
    with pytest.raises(PolicyError, match="it does not place new samples: projection = false"):
        Policy(projection=False).check_projection()
    Policy(projection="exact").check_projection(exact=True)


def test_a_refusal_is_logged_with_its_reason(caplog):
    with pytest.raises(PolicyError) as refusal:
        TIGHT.check_fits(2)
    reason = "it has answered max_fits = 2 fits; only these can be repeated, as they were"
    assert [record.getMessage() for record in caplog.records] == [f"refused: {reason}"]
    assert str(refusal.value) == (
        f"refused by the party's policy: {reason}; ask for something else, or have the policy changed"
    )


def test_a_rule_without_a_number_is_held_to_the_largest_rank():
    assert TIGHT.limit(Auto(3)) == AtMost(Auto(3), 4)
    assert Policy().limit(Auto(3)) == Auto(3)


def test_a_policy_reads_as_it_was_written():
    table = {"max_rank": 4, "min_samples": 10, "kernels": ["rbf"], "gamma": [0.1, 1.0], "max_precision": "float32"}
    assert policy_from(table | {"projection": True, "max_fits": 2}) == TIGHT
    assert policy_from({}) == Policy()
    assert policy_from({"gamma": [0, 0], "projection": "exact"}).gamma == (0, 0)
    least = policy_from({"max_rank": 1, "min_samples": 2, "max_fits": 1})
    assert (least.max_rank, least.min_samples, least.max_fits) == (1, 2, 1)
    assert Policy().max_rank == math.inf


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("max_rank", 0, "write a whole number, at least 1"),
        ("max_rank", True, "write a whole number"),
        ("max_rank", 2.0, "write a whole number"),
        ("min_samples", 1, "write a whole number, at least 2"),
        ("kernels", [], "write a list such as"),
        ("kernels", "rbf", "write a list such as"),
        ("kernels", ["unheard of"], "write a list such as"),
        ("gamma", [1.0, 0.1], "write the smallest and the largest"),
        ("gamma", [-1.0, 0.1], "write the smallest and the largest"),
        ("gamma", [0.1], "write the smallest and the largest"),
        ("gamma", [0.1, "1"], "write the smallest and the largest"),
        ("gamma", [0.1, True], "write the smallest and the largest"),
        ("gamma", 0.1, "write the smallest and the largest"),
        ("max_precision", "float128", "write one of"),
        ("max_precision", ["float32"], "write one of"),
        ("projection", "yes", "write true, false or"),
        ("projection", 2, "write true, false or"),
        ("max_fits", 0, "write a whole number, at least 1"),
    ],
)
def test_a_limit_that_cannot_be_kept_is_refused_with_an_example(key, value, words):
    with pytest.raises(InputError, match=f"^policy.toml: {key} = .* cannot be used; {words}"):
        policy_from({key: value}, "policy.toml")


def test_a_key_that_is_not_enforced_is_refused():
    with pytest.raises(InputError, match=r"unknown keys \['max_ranks'\]; a policy has \['gamma', "):
        policy_from({"max_ranks": 3, "max_rank": 3})


@pytest.mark.parametrize(
    "given", [{"max_rank": -3}, {"protect": "sum"}, {"if_beyond": "lowr"}, {"max_precision": "float8"}], ids=str
)
def test_a_policy_made_in_python_is_held_to_the_same_values(given):
    with pytest.raises(InputError, match=f"^policy: {next(iter(given))} = .* cannot be used; write"):
        Policy(**given)
