"""What the center can state about its answer: proved from what was sent, or estimated and labeled so.

`proof` bounds what the parties left out, and with it the components; `estimate` sees how far the answer moves when
the messages are cut; `statements` holds and words all of it.
"""

from dkpca.certificate.statements import Audit, Certificate

__all__ = ["Audit", "Certificate"]
