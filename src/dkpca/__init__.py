"""One-shot distributed kernel PCA for parties that hold different columns for the same samples.

Where the steps of the paper are:

- a party's kernel matrix and its leading eigenpairs: `party.summaries.summarize`; `linalg.leading` chooses a solver,
  of which `linalg.dense` is the plain one
- its rank: `party.candidates.choose_rank` asks a rule of `rank`; the paper's is `rank.Adaptive`. Candidates are
  rounded for the wire there, by `linalg.precision`; the one that is chosen is the message, `messages.Summary`
- the center multiplies or adds, centers, takes eigenvectors: `fusion.fused_model.fuse`; entries of the fused matrix
  come from `kernels.grams.FusedGram` (multiplied in `kernels.laws.Product`), centering is `linalg.gram.Centered`.
  Under the sum law the factors are joined instead (`kernels.laws.Sum.merge`), and an SVD of them gives the same
- a new sample gets its row: `party.summaries.extend` (`exact` for the paper's own way); and its scores:
  `fusion.scoring.place`

`exchange`, `store` and `cli` carry these steps between processes, files and people under the same verbs.
`__all__` is the public surface: what other people's scripts rely on. Kernels, rank rules, errors and the wire are
modules of it with an `__all__` of their own.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dkpca import errors, kernels, rank, wire
    from dkpca.certificate import Certificate
    from dkpca.estimator import DKPCA
    from dkpca.exchange.steps import extend, fuse, project, summarize
    from dkpca.fusion import FusedModel
    from dkpca.messages import Partials, Rows, Summary
    from dkpca.metrics import subspace_error
    from dkpca.party import recovery
    from dkpca.party.disclosure import LedgerEntry
    from dkpca.party.limits import Limits
    from dkpca.party.state import PartyState
    from dkpca.store.files import load, save
    from dkpca.tables.inputs import Tables

__all__ = [
    "DKPCA",
    "Certificate",
    "FusedModel",
    "LedgerEntry",
    "Limits",
    "Partials",
    "PartyState",
    "Rows",
    "Summary",
    "Tables",
    "errors",
    "extend",
    "fuse",
    "kernels",
    "load",
    "project",
    "rank",
    "recovery",
    "save",
    "subspace_error",
    "summarize",
    "wire",
]
__version__ = "0.2.0"

_HOME = {
    "DKPCA": "estimator",
    "Certificate": "certificate",
    "FusedModel": "fusion",
    "LedgerEntry": "party.disclosure",
    "Partials": "messages",
    "PartyState": "party.state",
    "Limits": "party.limits",
    "Rows": "messages",
    "Summary": "messages",
    "Tables": "tables.inputs",
    "extend": "exchange.steps",
    "fuse": "exchange.steps",
    "load": "store.files",
    "project": "exchange.steps",
    "save": "store.files",
    "subspace_error": "metrics",
    "summarize": "exchange.steps",
}
_SUBMODULES = {"recovery": "party.recovery"}  # public modules that are not at the top


def __getattr__(name: str) -> Any:
    # On first use: the estimator brings scikit-learn, two seconds that a party's command need not wait for.
    if name in _HOME:
        return getattr(import_module(f"dkpca.{_HOME[name]}"), name)
    if name in __all__:
        return import_module(f"dkpca.{_SUBMODULES.get(name, name)}")
    raise AttributeError(f"module 'dkpca' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
