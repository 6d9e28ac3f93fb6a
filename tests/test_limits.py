"""Each limit of a party: what it lets pass, what it refuses, and how a file may state it."""

import subprocess
import sys

import pytest

from dkpca.errors import InputError, PolicyError
from dkpca.party.limits import ANYTHING, Limits
from dkpca.rank import All, Auto, Fixed, Recovery
from dkpca.store.party_file import read, read_limits

TIGHT = Limits(rank=4, samples=10, precision="float16", protect=("none", "sums"), studies=2, batches=1, audit_rows=5)


@pytest.mark.parametrize(
    ("allowed", "refused", "words"),
    [
        (lambda p: p.check_samples(10), lambda p: p.check_samples(9), "fewer samples than samples = 10"),
        (
            lambda p: p.check_form("float16", "none"),
            lambda p: p.check_form("float32", "none"),
            "float32 is finer than precision = 'float16'",
        ),
        (lambda p: p.check_form("compact", "sums"), lambda p: p.check_form("float64", "none"), "is finer than"),
        (
            lambda p: p.check_form("compact", "none"),
            lambda p: p.check_form("compact", "blind"),
            r"takes part with protect = \['none', 'sums'\] only, and 'blind' was asked for",
        ),
        (lambda p: p.check_new(), lambda p: p.check_new(exact=True), "tell the whole table, and recovery = 0.5"),
        (lambda p: p.check_audit(5), lambda p: p.check_audit(6), "6 rows for an audit are more than audit_rows = 5"),
        (lambda p: p.bounded(Fixed(4)), lambda p: p.bounded(Fixed(5)), "rank 5 is more than rank = 4"),
        (
            lambda p: p.check_recovery(3, 0.5),
            lambda p: p.check_recovery(3, 0.51),
            "R² 0.51, more than recovery",
        ),
    ],
)
def test_every_limit_lets_pass_what_it_names_and_refuses_the_next(allowed, refused, words):
    allowed(TIGHT)
    allowed(ANYTHING)
    refused(ANYTHING)
    with pytest.raises(PolicyError, match="^refused by the party's limits: .*" + words):
        refused(TIGHT)


def test_by_default_no_new_sample_is_placed_and_no_true_row_sent():
    with pytest.raises(PolicyError, match="it does not place new samples: batches = 0"):
        Limits().check_new()
    with pytest.raises(PolicyError, match="1 rows for an audit are more than audit_rows = 0"):
        Limits().check_audit(1)


def test_a_rule_is_held_to_the_largest_recovery():
    assert TIGHT.bounded(Auto(3)) == All((Auto(3), Recovery(0.5, 30)))
    assert Limits(recovery=1.0, rank=5).bounded(Fixed(5)) == Fixed(5)
    assert ANYTHING.bounded(Auto(3)) == Auto(3)


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("rank", 0, "give a whole number, at least 1"),
        ("rank", True, "give a whole number"),
        ("rank", 2.0, "give a whole number"),
        ("samples", 0, "give a whole number, at least 1"),
        ("precision", "float128", "give one of"),
        ("precision", ["float32"], "give one of"),
        ("protect", [], "give a list of some of"),
        ("protect", "sums", "give a list of some of"),
        ("protect", ["sum"], "give a list of some of"),
        ("recovery", 1.5, "give a share of variance"),
        ("recovery", True, "give a share of variance"),
        ("known_rows", 0, "give a whole number"),
        ("studies", -1, "give a whole number, at least 0"),
        ("public", [1], "give a list of parties"),
        ("covariates", [1], "give a list of columns"),
    ],
)
def test_a_limit_that_cannot_be_kept_is_refused_with_an_example(key, value, words):
    with pytest.raises(InputError, match=f"^{key} is .*; {words}"):
        Limits(**{key: value})


@pytest.mark.parametrize("limits", [TIGHT, Limits()], ids=["tight", "default"])
def test_limits_read_as_they_were_written(limits, tmp_path):
    (tmp_path / "limits.toml").write_text(limits.to_toml())
    assert read_limits(tmp_path / "limits.toml") == limits


@pytest.mark.parametrize("key", ["a", '"b c"', "'b c'", '"\\""'])
@pytest.mark.parametrize("place", ["{} = 1", "[{}]", "x = {{ {} = 1 }}", 'x = """y"""" \n{} = 1'])
def test_a_key_of_many_parts_is_refused_before_it_is_parsed(tmp_path, key, place):
    text = place.format(".".join([key] * 20_000))
    (tmp_path / "settings.toml").write_text(text)
    for reader in (read, read_limits):
        with pytest.raises(InputError, match="tables inside tables"):
            reader(tmp_path / "settings.toml")


def test_a_column_whose_name_has_many_dots_may_be_left_out(tmp_path):
    names = [".".join(["word"] * 40), "'" + ".".join(["it's"] * 40)]
    (tmp_path / "party.toml").write_text(f'table = "t.csv"  # {names[0]}\nexclude = ["{names[0]}", """{names[1]}"""]')
    assert read(tmp_path / "party.toml").reading.exclude == tuple(names)


@pytest.mark.longer
def test_limits_are_written_where_python_drops_docstrings(tmp_path):
    program = "from pathlib import Path; from dkpca.party.limits import Limits; print(Limits().to_toml())"
    done = subprocess.run([sys.executable, "-OO", "-c", program], capture_output=True, text=True, check=True)
    assert "recovery = " in done.stdout


@pytest.mark.parametrize(
    ("name", "tight", "loose"),
    [
        ("recovery", 0.3, 0.9),
        ("recoverable", ("a",), ("a", "b")),
        ("known_rows", 40, 20),
        ("samples", 60, 2),
        ("precision", "float16", "float64"),
        ("rank", 5, 50),
        ("audit_rows", 0, 9),
        ("batches", 1, 2),
        ("protect", ("sums",), ("sums", "none")),
        ("studies", 1, 2),
        ("public", ("bank",), ()),
        ("covariates", (), ("age",)),
    ],
)
def test_of_two_versions_of_a_limit_the_tighter_one_holds(name, tight, loose):
    one, other = Limits(**{name: tight}), Limits(**{name: loose})
    assert one.within(other) == one
    assert other.within(one) == one
    assert len(vars(one)) == 12  # a new limit belongs here, too


def test_modes_of_which_none_was_signed_allow_none_of_those():
    assert Limits(protect=("sums",)).within(Limits(protect=("blind",))).protect == ("sums",)
