"""What the center can state about its answer: proved from what was sent, or estimated and labeled so."""

from dkpca.certificate.statements import Audit, Certificate

__all__ = ["Audit", "Certificate"]
