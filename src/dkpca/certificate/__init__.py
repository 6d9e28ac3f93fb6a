"""What the center can state about its answer: proved from what was sent, or estimated and labeled so.

`left_out` bounds what the parties kept back, `proof` turns that into statements about the components, `estimate` sees
how far the answer moves when the messages are cut, and `statements` holds and words all of it.
"""

from dkpca.certificate.statements import Audit, Certificate

__all__ = ["Audit", "Certificate"]
