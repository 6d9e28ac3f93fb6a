"""Audits of a run: the request for the parties, and what their answers say, kept in the run's directory."""

import hashlib
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from dkpca import audit, wire
from dkpca.errors import InputError
from dkpca.messages import AuditRequest, AuditRows
from dkpca.store import ledger, message_files, model_file, storage
from dkpca.store.message_files import naming_files, receive
from dkpca.store.run_directory import prepared
from dkpca.store.runs import LEDGER, Run
from dkpca.store.storage import Content

REQUEST = "audit.request"  # a message for the parties


def request(run: Run, n_rows: int, seed: int) -> AuditRequest:
    """Draw samples, write the message that asks the parties for their rows, and return it."""
    asked = audit.request(run.model, n_rows, seed)
    with prepared(run.path):
        storage.write(run.path / REQUEST, wire.encode(asked))
        ledger.append(run.path / LEDGER, "audit drawn", seed=seed, draws=n_rows, samples=list(asked.samples))
    return asked


def conclude(run: Run, files: Iterable[Path]) -> Run:
    """Say what the parties' answers mean; keep them, and the certificate with the findings, in the run."""
    path = run.path
    if not (path / REQUEST).exists():
        raise InputError(f"{path}: no audit was drawn; begin with 'dkpca audit {path} --rows 100'")
    asked = message_files.read(path / REQUEST, AuditRequest)
    received = message_files.by_party(receive(file, AuditRows) for file in files)
    with naming_files({name: item.path for name, item in received.items()}):
        model = audit.audited(run.model, asked, [item.message for item in received.values()])
    written: dict[Path, Content] = {path / "messages" / f"{name}.audit": item.data for name, item in received.items()}
    written[path / model_file.FILE] = b"".join(model_file.pieces(model))
    written[path / "certificate.json"] = storage.as_json(model.certificate.to_dict())
    with prepared(path):
        storage.write_all(written)
        for name, item in received.items():
            told = {"party": name, "file": item.path.name, "bytes": len(item.data)}
            ledger.append(path / LEDGER, "received", **told, sha256=hashlib.sha256(item.data).hexdigest())
        ledger.append(path / LEDGER, "audited", seed=asked.seed, draws=asked.draws, parties=sorted(received))
    return replace(run, model=model)
