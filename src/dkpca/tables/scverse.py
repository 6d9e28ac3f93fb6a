"""AnnData and MuData as tables: a modality is a party, an observation is a sample, its name is the sample's id."""

import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

from dkpca.errors import InputError
from dkpca.tables.inputs import without_zeros_left_out

ANNDATA, MUDATA = ".h5ad", ".h5mu"
IDS = "obs_names"  # the id column of such a table in a file
KEY = "X_dkpca"  # of the scores, in obsm


def unwrapped(X: Any) -> Any:
    """AnnData as a DataFrame, MuData as one DataFrame by modality, also in a mapping or list; others as they are."""
    if "anndata" not in sys.modules:
        return X
    if _is_mudata(X):
        if X.axis != 0:
            raise InputError("this MuData has modalities that share variables (axis=1); parties share observations")
        return {name: _frame(name, own) for name, own in X.mod.items()}
    if isinstance(X, Mapping) and not scipy.sparse.issparse(X) and any(map(_is_anndata, X.values())):
        return {name: _frame(name, own) if _is_anndata(own) else own for name, own in X.items()}
    if isinstance(X, list | tuple) and any(map(_is_anndata, X)):
        return [_frame(f"party{j}", own) if _is_anndata(own) else own for j, own in enumerate(X)]
    return _frame("X", X) if _is_anndata(X) else X


def annotate(data: Any, ids: Sequence[Any] | None, scores: Any, about: Mapping[str, Any]) -> None:
    """Write scores to obsm and facts to uns; observations that the fit had no sample for get NaN."""
    if "anndata" not in sys.modules or not (_is_anndata(data) or _is_mudata(data)):
        raise InputError(f"annotate writes into AnnData or MuData, and this is {type(data).__name__}")
    names = list(data.obs_names)
    ids = names if ids is None and len(names) == len(scores) else ids
    row = {label: number for number, label in enumerate(ids or ())}
    known = [place for place, name in enumerate(names) if name in row]
    if not known or not data.obs_names.is_unique:
        raise InputError(
            f"{len(known)} of the {len(names)} observations are samples of the fit, by obs_names, and each name must "
            "be there once; for new samples use transform"
        )
    placed = np.full((len(names), scores.shape[1]), np.nan, dtype=scores.dtype)
    placed[known] = scores[[row[names[place]] for place in known]]
    data.obsm[KEY] = placed
    data.uns["dkpca"] = {name: value for name, value in about.items() if value is not None}


def modalities(path: Path) -> list[str]:
    """Names of the modalities of a `.h5mu` file, in its order."""
    _need("mudata", path)
    import h5py

    with h5py.File(path, "r") as file:
        found = file["mod"]
        return [str(name) for name in found.attrs.get("mod-order", list(found))]


def read(path: Path) -> tuple[list[str], list[str], Any]:
    """Names of observations and variables, and the matrix X, of FILE.h5ad or of one modality, FILE.h5mu/NAME."""
    _need("anndata", path)
    import anndata

    if path.suffix.lower() == MUDATA:
        raise InputError(f"{path}: holds {modalities(path)}; give one of them, as {path / modalities(path)[0]}")
    if path.parent.suffix.lower() != MUDATA:
        table = anndata.read_h5ad(path)
    elif path.name in modalities(path.parent):
        import mudata

        table = mudata.read_h5ad(path.parent, path.name)
    else:
        raise InputError(f"{path.parent}: has no modality {path.name!r}; it has {modalities(path.parent)}")
    frame = _frame(path.stem, table)
    return list(map(str, frame.index)), list(map(str, frame.columns)), frame.to_numpy()


def _need(package: str, path: Path) -> None:
    try:
        import_module(package)
    except ModuleNotFoundError as error:
        raise InputError(f"{path}: to read it, install {error.name}: pip install 'dkpca[scverse]'") from error


def _frame(name: str, table: Any) -> Any:
    """X with the names of observations and variables; sparse matrices get their zeros, where memory allows it."""
    if table.X is None:
        raise InputError(f"party {name!r}: its AnnData has no X; pass a DataFrame, such as table.to_df(layer=...)")
    X = table.to_memory().X if table.isbacked else table.X
    X = without_zeros_left_out(name, X, taken=True)
    return import_module("pandas").DataFrame(X, index=table.obs_names, columns=table.var_names)


def _is_anndata(X: Any) -> bool:
    return isinstance(X, sys.modules["anndata"].AnnData)


def _is_mudata(X: Any) -> bool:
    return "mudata" in sys.modules and isinstance(X, sys.modules["mudata"].MuData)
