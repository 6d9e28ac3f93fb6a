import gzip
import tarfile
from pathlib import Path

import numpy as np
import pytest

from experiments.data import gse2187, low_rank, stand_in
from experiments.data.geo import compound_class, find, read, read_miniml
from experiments.data.simulated import covariance_eigenvalues

TITLES = [
    "ETHANOL_6000_3_LIVER_SALINE, Replicate1",
    "ETHANOL_6000_3_LIVER_SALINE, Replicate2",
    "MADEUPAZOLE_1_1_LIVER, Replicate1",
    "BEZAFIBRATE_617_7_LIVER, Replicate1",
]
LABELS = ["toxicant", "toxicant", "azole", "fibrate"]
GENES = ["A_PROBE1", "B_PROBE1", "C_PROBE1"]
VALUES = np.array([[1.0, 2.0, 3.0, 4.0], [0.5, np.nan, 0.25, 0.125], [-1.0, 0.0, 1.0, 7.0]])  # genes x samples


def series_matrix(titles: list[str] = TITLES) -> str:
    samples = [f"GSM{i}" for i in range(len(titles))]
    lines = [
        '!Series_title\t"invented"',
        "!Sample_title\t" + "\t".join(f'"{t}"' for t in titles),
        "!Sample_geo_accession\t" + "\t".join(f'"{s}"' for s in samples),
        "!series_matrix_table_begin",
        '"ID_REF"\t' + "\t".join(f'"{s}"' for s in samples),
        *(f'"{gene}"\t' + "\t".join(_text(v) for v in row) for gene, row in zip(GENES, VALUES, strict=True)),
        "!series_matrix_table_end",
    ]
    return "\n".join(lines) + "\n"


def write_miniml(folder: Path) -> Path:
    samples = "".join(
        f"""<Sample iid="GSM{i}"><Title>{title}</Title><Data-Table>
        <Column position="1"><Name>ID_REF</Name></Column><Column position="2"><Name>RAW</Name></Column>
        <Column position="3"><Name>VALUE</Name></Column>
        <External-Data rows="3">GSM{i}-tbl-1.txt</External-Data></Data-Table></Sample>"""
        for i, title in enumerate(TITLES)
    )
    record = folder / "GSE2187_family.xml"
    record.write_text(f'<MINiML xmlns="http://www.ncbi.nlm.nih.gov/geo/info/MINiML">{samples}</MINiML>')
    for i in range(len(TITLES)):
        rows = [f"{gene}\t99\t{_text(VALUES[g, i])}" for g, gene in enumerate(GENES)]
        (folder / f"GSM{i}-tbl-1.txt").write_text("\n".join(rows) + "\n")
    return record


def _text(value: float) -> str:
    return "null" if np.isnan(value) else f"{value}"


@pytest.mark.parametrize("packed", [False, True])
def test_a_series_matrix_is_read_with_labels_from_its_titles(tmp_path: Path, packed: bool) -> None:
    path = tmp_path / ("GSE2187_series_matrix.txt" + (".gz" if packed else ""))
    data = series_matrix().encode()
    path.write_bytes(gzip.compress(data) if packed else data)
    found = read(find(tmp_path))
    np.testing.assert_array_equal(found.X, VALUES.T)
    assert found.label.tolist() == LABELS
    assert found.gene.tolist() == GENES
    assert len(set(found.condition)) == 3


@pytest.mark.parametrize("packed", [False, True])
def test_miniml_tables_give_the_column_that_the_record_calls_value(tmp_path: Path, packed: bool) -> None:
    path = write_miniml(tmp_path)
    if packed:
        path = tmp_path / "packed" / "GSE2187_family.xml.tgz"
        path.parent.mkdir()
        with tarfile.open(path, "w:gz") as archive:
            for member in [tmp_path / "GSE2187_family.xml", *tmp_path.glob("GSM*")]:
                archive.add(member, member.name)
    found = read(find(path.parent))
    np.testing.assert_array_equal(found.X, VALUES.T)
    assert found.label.tolist() == LABELS


def test_a_column_that_the_record_does_not_have_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no column 'RATIO'"):
        read_miniml(write_miniml(tmp_path), column="RATIO")


def test_a_prepared_file_is_read_like_the_record(tmp_path: Path) -> None:
    (tmp_path / "GSE2187_series_matrix.txt").write_text(series_matrix())
    matrix = read(tmp_path / "GSE2187_series_matrix.txt")
    np.savez(tmp_path / "gse2187_value.npz", X=matrix.X, y=matrix.label, title=matrix.title, feature=matrix.gene)
    assert read(find(tmp_path)).digest == matrix.digest


def test_genes_with_more_than_a_tenth_missing_are_dropped_and_the_rest_filled_with_the_mean(tmp_path: Path) -> None:
    X = np.arange(60.0).reshape(20, 3)
    X[:3, 0] = np.nan
    X[:2, 1] = np.nan
    titles = np.array([f"ETHANOL_{i}, Replicate1" for i in range(20)])
    np.savez(tmp_path / "gse2187.npz", X=X, y=["toxicant"] * 20, title=titles, feature=["a", "b", "c"])
    found = gse2187(tmp_path)
    assert found.gene.tolist() == ["b", "c"]
    np.testing.assert_allclose(found.X[:2, 0], X[2:, 1].mean())
    assert not np.isnan(found.X).any()


def test_samples_of_other_compounds_are_left_out_loudly(tmp_path: Path) -> None:
    path = tmp_path / "GSE2187_series_matrix.txt"
    path.write_text(series_matrix([*TITLES[:3], "WATER_1_1_LIVER, Replicate1"]))
    with pytest.warns(UserWarning, match="'WATER'"):
        found = read(path)
    assert found.X.shape == (3, 3)


def test_a_folder_without_the_series_says_what_to_fetch(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="fetch GSE2187_series_matrix"):
        find(tmp_path)


def test_two_files_of_one_kind_are_not_chosen_between(tmp_path: Path) -> None:
    for name in ("GSE2187_series_matrix.txt", "GSE2187-GPL1_series_matrix.txt"):
        (tmp_path / name).write_text("")
    with pytest.raises(ValueError, match="give the path of one of them"):
        find(tmp_path)


def test_a_file_that_is_no_series_matrix_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "GSE2187_series_matrix.txt"
    path.write_text("hello\n")
    with pytest.raises(ValueError, match="not a GEO series matrix"):
        read(path)


def test_compounds_have_the_class_of_the_paper() -> None:
    assert compound_class("GEMFIBROZIL_100_.25_LIVER, Replicate1") == "fibrate"
    assert compound_class("SIMVASTATIN_1_1_LIVER, Replicate1") == "statin"
    assert compound_class("N,N-DIMETHYLFORMAMIDE_1_1_LIVER, Replicate1") == "toxicant"
    assert compound_class("WATER_1") is None


def test_the_stand_in_has_four_classes_and_three_replicates_of_each_condition() -> None:
    data = stand_in()
    assert set(data.label) == {"toxicant", "azole", "fibrate", "statin"}
    assert set(np.unique(data.condition, return_counts=True)[1]) == {3}


def test_the_simulated_covariance_has_the_eigenvalues_of_the_paper() -> None:
    X = low_rank(80, 120, 10, np.random.default_rng(0))
    values = np.linalg.eigvalsh(X.T @ X)[::-1]
    np.testing.assert_allclose(values[:50], covariance_eigenvalues(10), rtol=1e-9)
    assert values[:10].tolist() == pytest.approx([5000.0] * 10)
    assert values[10] == pytest.approx(2500.0)
    assert abs(values[50]) < 1e-6
