"""What an audit of all flights costs beside the fit: processor time and peak memory of the same process.

`python -m benchmarks.audit --flights 232412`
"""

import argparse
import json
import resource
import time

from benchmarks.flights import N_FLIGHTS, flights
from benchmarks.measure import RESULTS, machine
from dkpca import DKPCA


def main() -> None:
    """Fit, note time and memory, audit, note them again."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--flights", type=int, default=N_FLIGHTS)
    parser.add_argument("--rank", type=int, default=40)
    parser.add_argument("--rows", type=int, default=100)
    given = parser.parse_args()
    tables = {owner: X[: given.flights] for owner, X in flights().items()}
    start = time.process_time()
    model = DKPCA(10, gamma=None, rank=given.rank).fit(tables)
    fit, memory = time.process_time() - start, _peak()
    start = time.process_time()
    proof = model.run_audit(given.rows).certificate_
    audit = time.process_time() - start
    assert proof.audit is not None
    found = {
        "machine": machine(),
        "flights": given.flights,
        "rows": given.rows,
        "fit_seconds": fit,
        "audit_seconds": audit,
        "audit_share": audit / fit,
        "fit_peak_bytes": memory,
        "audit_peak_bytes": _peak(),
        "free_estimate": proof.subspace_error_estimate,
        "audit_estimate": proof.audit.subspace_error_estimate,
        "kernel_error_at_most": proof.audit.kernel_error_at_most,
        "verdict": proof.verdict(),
    }
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / "audit.json").write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found, indent=1))


def _peak() -> int:
    """Largest memory of this process so far."""
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


if __name__ == "__main__":
    main()
