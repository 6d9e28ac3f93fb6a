"""A party whose table is never read to its end."""

import os
import time

from dkpca.exchange.holdings import Holding


class Endless(Holding):
    """A table that is never read to its end; a file beside it says that reading began."""

    def load(self):
        self.path.with_name(f"begun-{os.getpid()}").touch()
        while True:
            time.sleep(1)
