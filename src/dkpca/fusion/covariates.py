"""Covariates that the components are not to show: batch, site, age.

Centering is the projector off the ones vector; with covariates C it is H = I - QQ' off [1, C]. H K H is positive
semidefinite where K is, and so is H (K - L) H: every bound of the certificate holds. A new sample y with covariates c
is measured from what its covariates predict: its score is that of an unadjusted sample plus q(c) @ slopes.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from dkpca.errors import InputError
from dkpca.linalg.arrays import Array, growth, unit
from dkpca.wording import counted

PREDICTS = 0.25  # share of a label's variance that covariates predict before a warning
Numbers = np.ndarray[Any, np.dtype[np.float64]]
DEPENDENT = 1e-8  # share of a column's length off the columns before it, below which it says nothing new
LEAST_ALIKE = 5  # samples that share a direction of covariates in a blind fit
SAMPLES_PER_COLUMN = 10  # samples for each column of them there


@dataclass(frozen=True)
class Covariates:
    """How a table of covariates becomes orthonormal columns, off the ones vector, and those of the fit."""

    names: tuple[str, ...]  # columns of the table
    categories: tuple[tuple[str, ...], ...]  # values of each column that is not numbers; empty for one that is
    dropped: tuple[str, ...]  # columns, or categories of a column, that are constant or follow from others
    mean: Array  # (p,), of the numbers and the indicators of categories
    to_basis: Array  # (p, q): what these, less their mean, are multiplied by
    basis: Array  # (n_samples, q): Q, of the samples of the fit; turned with them in a blind fit
    strata: Array  # (n_samples,): samples with the same categories have the same number
    share: float = 0.0  # of the variance of the fused kernel that Q takes out

    @classmethod
    def of(cls, table: Any) -> "Covariates":
        """Learn from the covariates of a fit: one row for each sample."""
        columns = _columns(table)
        categories = tuple(() if v.dtype.kind == "f" else tuple(sorted(set(v))) for v in columns.values())
        C, labels = _coded(columns, categories)
        mean = C.mean(axis=0)
        # C - mean = Q R with orthonormal Q, off the ones vector; a new row c has q = (c - mean) R^-1.
        kept, Q = _independent(C - mean)
        if not kept:
            raise InputError(f"the covariates {list(columns)} are constant; leave them out")
        if len(kept) + 2 > len(C):
            raise InputError(f"{len(kept)} covariates for {len(C)} samples leave no variance to analyze; give fewer")
        to_basis = np.zeros((C.shape[1], len(kept)))
        to_basis[kept] = np.linalg.inv(Q.T @ (C - mean)[:, kept])
        # One indicator of each column of categories follows from the others: only what is lost beyond it is said.
        dropped = []
        for name, own in zip(columns, categories, strict=True):
            lost = [said for j, (of, said) in enumerate(labels) if of == name and j not in kept]
            dropped += lost[1:] if len(own) > 1 else lost
        texts = list(zip(*(v for v, own in zip(columns.values(), categories, strict=True) if own), strict=True))
        number = {text: code for code, text in enumerate(dict.fromkeys(texts))}
        strata = np.array([number[text] for text in texts] or [0] * len(C), dtype=np.int64)
        return cls(tuple(columns), categories, tuple(dropped), mean, to_basis, Q, strata)

    @classmethod
    def of_basis(cls, Q: Any, named: str) -> "Covariates":
        """Covariates of which only orthonormal columns are known; rows of new samples come as the same columns."""
        Q = np.asarray(Q, dtype=np.float64)
        n, q = Q.shape
        _, strata = np.unique(Q.round(9), axis=0, return_inverse=True)
        strata = strata.reshape(-1) if 2 * (strata.max() + 1) <= n else np.zeros(n, dtype=np.int64)
        names = tuple(f"{named} ({j + 1})" for j in range(q))
        return cls(names, ((),) * q, (), np.zeros(q), np.eye(q), Q, strata)

    @property
    def rounding(self) -> float:
        """Bound on the sine of the angle by which rounding has turned Q: the more, the more alike columns are."""
        # C = Q R, with each column of C off by a share: Q turns by at most the sum of these lengths |R_j| |(R^-1)_j|.
        inverse = np.asarray(self.to_basis)[np.any(np.asarray(self.to_basis) != 0, axis=1)]
        sizes = np.linalg.norm(np.linalg.inv(inverse), axis=0) * np.linalg.norm(inverse, axis=1)
        return growth(len(self.strata)) * unit(inverse) * float(sizes.sum())

    def rows(self, table: Any) -> Numbers:
        """Rows of Q for new samples, (n_new, q)."""
        columns = _columns(table)
        if set(columns) != set(self.names):
            raise InputError(f"the covariates are {list(columns)}; those of the fit are {list(self.names)}")
        columns = {name: columns[name] for name in self.names}
        for (name, values), own in zip(columns.items(), self.categories, strict=True):
            if bool(own) != (values.dtype.kind != "f"):
                raise InputError(f"covariate {name!r} is {'categories' if own else 'numbers'} in the fit, not here")
            strange = sorted(set(values) - set(own)) if own else []
            if strange:
                raise InputError(
                    f"covariate {name!r} is {strange[0]!r} for a new sample, but for no sample of the fit"
                )
        return np.asarray((_coded(columns, self.categories)[0] - self.mean) @ self.to_basis)

    def check_blind(self) -> None:
        """Refuse covariates that would show a blind center, who may know them, how similar single samples are."""
        # The center has T B and T A_j for the hidden turn T, and so B'K_j B of every party j for the basis B of ones
        # and covariates. Where a sample has most of a direction in B to itself, that is the kernel of single samples.
        Q = np.asarray(self.basis)
        n, q = Q.shape
        leverage = 1.0 / n + np.einsum("ij,ij->i", Q, Q)
        alone = int((leverage > 1.0 / LEAST_ALIKE).sum())
        if alone or (q + 1) * SAMPLES_PER_COLUMN > n:
            raise InputError(
                f"the covariates {', '.join(self.names)} single out {alone} of {n} samples in {q} columns, and a "
                f"blind center who knows them could read off how similar these are; every group needs {LEAST_ALIKE} "
                f"samples, every column {SAMPLES_PER_COLUMN}: leave columns out, or use protect='none'"
            )

    def words(self) -> list[str]:
        """Say what was dropped, and how much of the variance was taken out."""
        said = [f"covariates {', '.join(self.names)} taken out: {self.share:.1%} of the variance"]
        if self.dropped:
            said.append(f"covariates dropped as constant or determined by others: {', '.join(self.dropped)}")
        return said


def predicted(covariates: Covariates, values: Numbers, names: list[str]) -> list[str]:
    """Say which labels the covariates predict: what is taken out of the components is then taken out of them too."""
    Q, n = np.asarray(covariates.basis), len(values)
    q, found = Q.shape[1], []
    for name, y in zip(names, values.T, strict=True):
        # Adjusted R^2 of the regression on q columns: 1 - (|y - QQ'y|^2 / (n - 1 - q)) / (|y|^2 / (n - 1)).
        y = y - y.mean()
        total = float(y @ y)
        left = float(np.sum((y - Q @ (Q.T @ y)) ** 2))
        share = 1.0 - (left / max(1, n - 1 - q)) / (total / (n - 1)) if total > 0 else 0.0
        if share > PREDICTS:
            found.append(
                f"the covariates predict {name}: {share:.0%} of its variance; removing them removes that from the "
                "components too"
            )
    return found


def _columns(table: Any) -> dict[str, Any]:
    """Columns by name: numbers as float64, everything else as text."""
    if hasattr(table, "columns"):
        columns = {str(name): table[name] for name in table.columns}
    elif isinstance(table, Mapping):
        columns = {str(name): values for name, values in table.items()}
    else:
        own = [table] if np.ndim(table) == 1 else list(np.atleast_1d(np.asarray(table).T))
        columns = {str(getattr(table, "name", None) or f"covariate{j}"): column for j, column in enumerate(own)}
    shapes = {np.shape(values) for values in columns.values()}
    if len(shapes) != 1 or len(shape := shapes.pop()) != 1 or not shape[0]:
        raise InputError("covariates are columns of one length; give a table with a row for each sample")
    return {name: _values(name, values) for name, values in columns.items()}


def _values(name: str, column: Any) -> Any:
    values, numbers = np.asarray(column), None
    if values.dtype.kind in "mM":
        raise InputError(f"covariate {name!r} holds dates; turn them into numbers of days")
    # Whole numbers may be categories in pandas, and numbers may be in an object array.
    if str(getattr(column, "dtype", "")) != "category" and not any(isinstance(v, str) for v in values):
        with suppress(TypeError, ValueError):
            numbers = values.astype(np.float64)
    missing = np.array([v is None or v != v for v in values.tolist()]) if numbers is None else ~np.isfinite(numbers)
    if missing.any():
        where = f"{counted(int(missing.sum()), 'sample')}, first row {int(missing.argmax())}"
        raise InputError(f"covariate {name!r} has no value for {where}; fill it in, or leave these samples out")
    return np.array([str(v) for v in values.tolist()], dtype=object) if numbers is None else numbers


def _coded(columns: Mapping[str, Any], categories: Any) -> tuple[Numbers, list[tuple[str, str]]]:
    """Numbers, and an indicator for each category; and of each its column and its name."""
    parts, labels = [], list[tuple[str, str]]()
    for (name, values), own in zip(columns.items(), categories, strict=True):
        parts.append(values[:, None] == np.array(own, dtype=object)[None, :] if own else values[:, None])
        labels += [(name, f"{name} = {value}") for value in own] or [(name, name)]
    return np.hstack([part.astype(float) for part in parts]), labels


def _independent(C: Numbers) -> tuple[list[int], Numbers]:
    """Columns that say something new, in their order, and Q orthonormal with their span, off the ones vector."""
    kept: list[int] = []
    Q = np.full((len(C), 1), len(C) ** -0.5)
    for j, column in enumerate(C.T):
        # Off the ones vector and the columns before, two times: "twice is enough" (Kahan) for full orthogonality.
        left = column - Q @ (Q.T @ column)
        left = left - Q @ (Q.T @ left)
        size = float(np.linalg.norm(left))
        if size > DEPENDENT * float(np.linalg.norm(column)):
            Q = np.column_stack([Q, left / size])
            kept.append(j)
    return kept, Q[:, 1:]
