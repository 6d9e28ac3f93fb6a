"""AnnData and MuData as tables: a modality is a party, an observation is a sample, its name is the sample's id."""

import contextlib
import math
import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import scipy.sparse

from dkpca.errors import InputError, needed_from
from dkpca.tables.inputs import check_room, without_zeros_left_out

ANNDATA, MUDATA = ".h5ad", ".h5mu"
IDS = "obs_names"  # the id column of such a table in a file


def unwrapped(X: Any) -> Any:
    """AnnData as a DataFrame, MuData as one DataFrame by modality, also in a mapping or list; others as they are."""
    if "anndata" not in sys.modules:
        return X
    if "mudata" in sys.modules and isinstance(X, sys.modules["mudata"].MuData):
        if X.axis != 0:
            raise InputError("this MuData has modalities that share variables (axis=1); parties share observations")
        return {name: _frame(name, own) for name, own in X.mod.items()}
    if isinstance(X, Mapping) and not scipy.sparse.issparse(X) and any(map(_is_anndata, X.values())):
        return {name: _frame(name, own) for name, own in X.items()}
    if isinstance(X, list | tuple) and any(map(_is_anndata, X)):
        return [_frame(f"party{j}", own) for j, own in enumerate(X)]
    return _frame("X", X)


def modalities(path: Path) -> list[str]:
    """Names of the modalities of a `.h5mu` file, in its order."""
    with needed_from("scverse", str(path)), _whole(path) as file:
        found = file["mod"]
        return [str(name) for name in found.attrs.get("mod-order", list(found))]


def read(path: Path) -> tuple[list[str], list[str], Any]:
    """Names of observations and variables, and the matrix X, of FILE.h5ad or of one modality, FILE.h5mu/NAME."""
    if MUDATA in (path.suffix.lower(), path.parent.suffix.lower()):
        with needed_from("scverse", str(path)):
            import mudata

        file, name = (path, None) if path.suffix.lower() == MUDATA else (path.parent, path.name)
        if name not in (known := modalities(file)):
            raise InputError(f"{file}: holds the modalities {known}; give one of them, as {file / known[0]}")
        with _whole(file):
            table = mudata.read_h5ad(file, name)
    else:
        with needed_from("scverse", str(path)):
            import anndata

        with _whole(path):
            table = anndata.read_h5ad(path)
    if scipy.sparse.issparse(table.X):
        table.X.check_format()  # rows that point outside of the file would be read
    frame = _frame(path.stem, table)
    return list(map(str, frame.index)), list(map(str, frame.columns)), frame.to_numpy()


@contextlib.contextmanager
def _whole(path: Path) -> Iterator[Any]:
    """An open HDF5 file, if nothing in it is in another file, and all fits into memory."""
    import h5py

    def elsewhere(name: str, link: Any) -> str | None:
        """Name of a link that leads out of the file, or back to a group; None: go on."""
        part = file[name] if isinstance(link, h5py.HardLink) else file
        if isinstance(part, h5py.Dataset):
            sizes.append(math.prod(part.shape or ()) * part.dtype.itemsize)
            return name if part.external or part.is_virtual else None
        known = part in groups
        groups.add(part)
        return name if known else None

    if path.exists() and not path.is_file():
        raise InputError(f"{path}: is a directory or a pipe, not a table; give a file")
    with h5py.File(path, "r") as file:
        groups, sizes = {file["/"]}, [0]
        try:
            link = file.visititems_links(elsewhere)
            if link is not None:
                raise InputError(f"{path}: {link!r} is a link, perhaps to another file; write it with its content")
            check_room(path, sum(sizes))
            yield file
        except (MemoryError, OSError, ValueError):
            raise
        except Exception as error:  # anndata raises what it happens to stumble over
            raise ValueError(f"it is damaged: {str(error).partition(chr(10))[0][:200]}") from error


def _frame(name: str, table: Any) -> Any:
    """X of AnnData with the names of its observations and variables, and the zeros of a sparse one."""
    if not _is_anndata(table):
        return table
    if table.X is None:
        raise InputError(f"party {name!r}: its AnnData has no X; pass a DataFrame, such as table.to_df(layer=...)")
    X = without_zeros_left_out(name, table.to_memory().X if table.isbacked else table.X, taken=True)
    return import_module("pandas").DataFrame(X, index=table.obs_names, columns=table.var_names)


def _is_anndata(X: Any) -> bool:
    return isinstance(X, sys.modules["anndata"].AnnData)
