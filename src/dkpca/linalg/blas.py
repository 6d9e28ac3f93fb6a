"""Three routines of BLAS that other threads need not wait for: SciPy's own wrappers of them hold Python's lock.

Rows of our arrays are columns to BLAS, so that a lower triangle here is an upper one there.
"""

import ctypes
from functools import cache
from typing import Any

import numpy as np
from scipy.linalg import cython_blas

Matrix = np.ndarray[Any, Any]
PREFIXES = {"float64": "d", "float32": "s"}
NUMBERS: dict[str, Any] = {"float64": ctypes.c_double, "float32": ctypes.c_float}


def add_lower_square(total: Matrix, Z: Matrix) -> None:
    """Add Z'Z to a square array in place; only its lower triangle counts."""
    Z = np.ascontiguousarray(Z, dtype=total.dtype)
    height, m = Z.shape
    if total.shape != (m, m) or not total.flags.c_contiguous:  # BLAS would write wherever that leads
        raise ValueError(f"squares of {m} columns do not go into an array of shape {total.shape}")
    _call("syrk", Z.dtype.name, "U", "N", m, height, 1.0, Z, m, 1.0, total, m)


def times_lower(A: Matrix, rows: Matrix) -> Matrix:
    """Return rows @ A' for a lower triangular A, written over the rows."""
    return _triangular("trmm", A, rows)


def by_lower(L: Matrix, rows: Matrix) -> Matrix:
    """Return rows @ inv(L)' for a lower triangular L, written over the rows."""
    return _triangular("trsm", L, rows)


def _triangular(routine: str, A: Matrix, rows: Matrix) -> Matrix:
    rows = np.ascontiguousarray(rows)
    A = np.ascontiguousarray(A, dtype=rows.dtype)
    height, m = rows.shape
    if A.shape != (m, m):
        raise ValueError(f"rows of {m} columns do not go with a triangle of shape {A.shape}")
    _call(routine, rows.dtype.name, "L", "U", "T", "N", m, height, 1.0, A, m, rows, m)
    return rows


def _call(routine: str, dtype: str, *arguments: str | int | float | Matrix) -> None:
    held = [_held(each, NUMBERS[dtype]) for each in arguments]
    _function(PREFIXES[dtype] + routine, len(arguments))(*held)


def _held(argument: str | int | float | Matrix, number: Any) -> Any:
    """Pointer to an argument, as Fortran takes them; the caller keeps what it points to.

    In the cheapest ways that ctypes has: threads wait for each other meanwhile.
    """
    if isinstance(argument, np.ndarray):
        return argument.ctypes.data
    if isinstance(argument, str):
        return argument.encode()
    return ctypes.byref(ctypes.c_int(argument) if isinstance(argument, int) else number(argument))


@cache
def _function(name: str, n_arguments: int) -> Any:
    """The routine that SciPy hands to other compiled code."""
    capsule, api = cython_blas.__pyx_capi__[name], ctypes.pythonapi
    named = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(("PyCapsule_GetName", api))
    pointed = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_GetPointer", api))
    return ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * n_arguments)(pointed(capsule, named(capsule)))
