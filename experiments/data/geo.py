"""GSE2187 of NCBI GEO: expression of 8565 rat genes after drugs and toxicants, 537 arrays.

The record is its submitter's; this project ships readers, not data. They take what GEO serves: the series
matrix, the MINiML archive, or a prepared .npz with arrays X, y, sample, feature and title.
"""

import gzip
import io
import tarfile
import warnings
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import IO

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from experiments.data.simulated import low_rank

SERIES = "GSE2187"
MISSING_AT_MOST = 0.1  # the paper: a gene is dropped if more than 10 % of its values are missing
NAMESPACE = "{http://www.ncbi.nlm.nih.gov/geo/info/MINiML}"
NO_VALUE = ["null", "NULL", "NaN", "NA", ""]

# Natsoulis et al. 2005 sort the compounds by what they do; in the record a compound opens the sample's title.
CLASS_BY_ENDING = {"AZOLE": "azole", "FIBRATE": "fibrate", "FIBROZIL": "fibrate", "STATIN": "statin"}
TOXICANTS = frozenset(
    {
        "1-NAPHTHYL ISOTHIOCYANATE",
        "ALLYL ALCOHOL",
        "CARBON TETRACHLORIDE",
        "ETHANOL",
        "N,N-DIMETHYLFORMAMIDE",
        "N-NITROSODIETHYLAMINE",
        "SODIUM ARSENITE",
    }
)


@dataclass(frozen=True)
class Expression:
    """Arrays of a GEO series as a table, with what is known about each array."""

    X: NDArray[np.float64]  # (n_samples, n_genes); NaN where the record has no value
    label: NDArray[np.str_]  # (n_samples,) azole, fibrate, statin or toxicant
    title: NDArray[np.str_]  # (n_samples,)
    gene: NDArray[np.str_]  # (n_genes,)

    @property
    def condition(self) -> NDArray[np.str_]:
        """Compound, dose, time and route: arrays that share it are replicates."""
        return np.array([title.rsplit(", Replicate", 1)[0] for title in self.title])

    @property
    def digest(self) -> str:
        """Fingerprint of values and labels."""
        return sha256(self.X.tobytes() + "\n".join([*self.label, *self.title]).encode()).hexdigest()


def gse2187(path: Path) -> Expression:
    """Read the series from a file, or from the one file about it in a folder, and apply the paper's missing rule."""
    return without_missing(read(find(path)))


def find(path: Path) -> Path:
    """Return the file of the series: the path itself, or the best one in the folder."""
    if path.is_file():
        return path
    for pattern in ("*.npz", "*series_matrix.txt*", "*family.xml*"):
        found = sorted(p for p in path.glob(pattern) if SERIES.lower() in p.name.lower())
        if len(found) > 1:
            raise ValueError(f"{path} holds {[p.name for p in found]}; give the path of one of them")
        if found:
            return found[0]
    raise FileNotFoundError(
        f"no {SERIES} in {path}: fetch {SERIES}_series_matrix.txt.gz or {SERIES}_family.xml.tgz from GEO "
        "(experiments/README.md says how) and give its folder"
    )


def read(path: Path) -> Expression:
    """Read one file in whichever of the three formats its name says."""
    if path.suffix == ".npz":
        with np.load(path) as arrays:
            X = arrays["X"].astype(np.float64)
            return Expression(X, arrays["y"].astype(str), arrays["title"].astype(str), arrays["feature"].astype(str))
    if "series_matrix" in path.name:
        return _labeled(*read_series_matrix(path))
    return _labeled(*read_miniml(path))


def read_series_matrix(path: Path) -> tuple[pd.DataFrame, list[str]]:
    """Values, genes x samples, and titles, from a series matrix, gzipped or not."""
    with _open_text(path) as lines:
        titles: list[str] = []
        for line in lines:
            if line.startswith("!Sample_title"):
                titles = [field.strip().strip('"') for field in line.split("\t")[1:]]
            if line.startswith("!series_matrix_table_begin"):
                table = pd.read_csv(lines, sep="\t", index_col=0, comment="!", na_values=NO_VALUE)
                return table.astype(np.float64), titles
    raise ValueError(f"{path} has no line !series_matrix_table_begin; it is not a GEO series matrix")


def read_miniml(path: Path, column: str = "VALUE") -> tuple[pd.DataFrame, list[str]]:
    """Values, genes x samples, and titles, from a MINiML archive (.tgz) or the .xml beside its unpacked tables."""
    with _Archive(path) as archive:
        root = ElementTree.parse(archive.open(archive.record)).getroot()
        columns, titles = {}, []
        for sample in root.iter(f"{NAMESPACE}Sample"):
            name, position = _data_table(sample, column)
            table = pd.read_csv(archive.open(name), sep="\t", header=None, index_col=0, na_values=NO_VALUE)
            columns[sample.attrib["iid"]] = table.iloc[:, position - 2].astype(np.float64)
            titles.append((sample.findtext(f"{NAMESPACE}Title") or "").strip())
    if not columns:
        raise ValueError(f"{path} describes no sample; it is not a MINiML family file")
    return pd.DataFrame(columns), titles


def without_missing(data: Expression) -> Expression:
    """Drop genes with more than a tenth of their values missing; fill the rest with the gene's mean."""
    missing = np.isnan(data.X)
    kept = missing.mean(axis=0) <= MISSING_AT_MOST
    X = data.X[:, kept]
    return Expression(np.where(missing[:, kept], np.nanmean(X, axis=0), X), data.label, data.title, data.gene[kept])


def compound_class(title: str) -> str | None:
    """Class of the compound a title opens with, or None if it is in none of the four."""
    compound = title.split("_", 1)[0].strip().upper()
    if compound in TOXICANTS:
        return "toxicant"
    return next((name for ending, name in CLASS_BY_ENDING.items() if compound.endswith(ending)), None)


def stand_in(n_conditions: int = 60, n_genes: int = 240, seed: int = 0) -> Expression:
    """Invented arrays in the shape of the record, for runs without it: four classes, three replicates each."""
    rng = np.random.default_rng(seed)
    names = ["toxicant", "azole", "fibrate", "statin"]
    condition_class = np.array(names)[np.arange(n_conditions) % len(names)]
    center = {name: rng.standard_normal(n_genes) for name in names}
    effect = low_rank(n_conditions, n_genes, 5, rng, rank=min(50, n_conditions)) * 0.1
    means = effect + np.array([center[name] for name in condition_class]) * 0.2
    X = np.repeat(means, 3, axis=0) + 0.3 * rng.standard_normal((3 * n_conditions, n_genes))
    titles = [f"COMPOUND{i}_1_1_LIVER, Replicate{r}" for i in range(n_conditions) for r in (1, 2, 3)]
    genes = np.array([f"gene{g}" for g in range(n_genes)])
    return Expression(X, np.repeat(condition_class, 3), np.array(titles), genes)


def _labeled(table: pd.DataFrame, titles: list[str]) -> Expression:
    """Samples x genes, with the class of each sample's compound; samples of other compounds are left out."""
    if len(titles) != table.shape[1]:
        raise ValueError(f"{len(titles)} sample titles for {table.shape[1]} samples")
    classes = [compound_class(title) for title in titles]
    unknown = sorted({title.split("_", 1)[0] for title, name in zip(titles, classes, strict=True) if name is None})
    if unknown:
        warnings.warn(f"samples of {unknown} are in none of the four classes and are left out", stacklevel=2)
    kept = np.array([name is not None for name in classes])
    return Expression(
        X=table.to_numpy().T[kept],
        label=np.array([name for name in classes if name is not None]),
        title=np.array(titles)[kept],
        gene=table.index.to_numpy().astype(str),
    )


def _data_table(sample: ElementTree.Element, column: str) -> tuple[str, int]:
    """File of a sample's values, and the position of the column in it, counted from 1."""
    table = sample.find(f"{NAMESPACE}Data-Table")
    if table is None:
        raise ValueError(f"sample {sample.attrib.get('iid')} has no data table")
    for entry in table.iter(f"{NAMESPACE}Column"):
        if (entry.findtext(f"{NAMESPACE}Name") or "").strip() == column:
            return (table.findtext(f"{NAMESPACE}External-Data") or "").strip(), int(entry.attrib["position"])
    raise ValueError(f"sample {sample.attrib.get('iid')} has no column {column!r}")


class _Archive:
    """The files of a MINiML family, packed or not."""

    def __init__(self, path: Path) -> None:
        self.folder = path.parent
        self.tar = tarfile.open(path) if path.suffix == ".tgz" or path.name.endswith(".tar.gz") else None  # noqa: SIM115
        names = self.tar.getnames() if self.tar else [path.name]
        self.record = next(name for name in names if name.endswith(".xml"))

    def __enter__(self) -> "_Archive":
        return self

    def __exit__(self, *_: object) -> None:
        if self.tar:
            self.tar.close()

    def open(self, name: str) -> IO[bytes]:
        """Bytes of one member; nothing is unpacked to disk."""
        if self.tar is None:
            return io.BytesIO((self.folder / name).read_bytes())
        member = self.tar.extractfile(name)
        if member is None:
            raise ValueError(f"the archive has no file {name}")
        return member


def _open_text(path: Path) -> IO[str]:
    return gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8")
