"""Messages for tests of the wire: made, compared, forged."""

import numpy as np

from dkpca.kernels import RBF
from dkpca.linalg.precision import Rounded, round_to
from dkpca.messages import Summary, digest
from dkpca.wire import codec, container

DIGEST = digest(["a", "b"])


def summary_of(matrix, precision="float32", party="hospital", kernel=None):
    return Summary(party, kernel or RBF(0.5), DIGEST, 7, round_to(matrix, precision), 0.25, -1e-9, 1e-7, 2e-7)


def same(a, b):
    """Whether two messages agree in every field, arrays bit by bit."""
    for name in a.__dataclass_fields__:
        x, y = getattr(a, name), getattr(b, name)
        if isinstance(x, np.ndarray):
            if x.tobytes() != y.tobytes():
                return False
        elif isinstance(x, Rounded):
            if x.data.tobytes() != y.data.tobytes() or x.data.dtype != y.data.dtype or x.shape != y.shape:
                return False
            if (x.scale is None) != (y.scale is None) or (x.scale is not None and (x.scale != y.scale).any()):
                return False
        elif x != y:
            return False
    return type(a) is type(b)


def forged(scalars=None, arrays=None, **header):
    """A message with a right checksum and wrong contents."""
    fields, good = codec.encode(summary_of(np.arange(6.0).reshape(3, 2), "float16"))
    full = {"kind": "summary", "version": 1, "fields": fields | (scalars or {})} | header
    bulk = good | (arrays or {})
    bulk = {name: array for name, array in bulk.items() if array is not None}
    return container.pack(full, bulk, entry="dkpca")
