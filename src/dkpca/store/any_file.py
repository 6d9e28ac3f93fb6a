"""Messages, states and models as files: the file says what it is."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar, overload

from dkpca import wire
from dkpca.errors import InputError, WireError
from dkpca.fusion import FusedModel
from dkpca.messages import Message
from dkpca.party.state import PartyState
from dkpca.store import model_file, private_state, storage
from dkpca.store.message_files import naming
from dkpca.wire import container

Saved = Message | PartyState | FusedModel
SavedT = TypeVar("SavedT", bound=Saved)

DECODERS: Mapping[str, Callable[[bytes], Saved]] = {
    container.MESSAGE: wire.decode,
    container.PRIVATE: private_state.decode,
    container.MODEL: model_file.decode,
}


def save(path: str | Path, item: Saved) -> None:
    """Write a message, a party's state or a model to a file, whole or not at all.

    Parameters
    ----------
    path : str or Path
        The file; one that is there is replaced.
    item : message of dkpca.messages, PartyState or FusedModel
        A state contains data: only the owner of its file may read it (mode 0600), and it is never sent.
        A model's file has the summaries inside and can be used alone.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> import dkpca
    >>> X = np.random.default_rng(0).normal(size=(50, 4))
    >>> summary, state = dkpca.summarize(X, party="bank", kernel=dkpca.kernels.Linear(), rank=2)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     dkpca.save(Path(folder, "bank.summary"), summary)
    ...     dkpca.load(Path(folder, "bank.summary")).party
    'bank'
    """
    private = isinstance(item, PartyState)
    if isinstance(item, PartyState):
        data = private_state.encode(item)
    elif isinstance(item, FusedModel):
        data = model_file.encode(item)
    elif isinstance(item, Message):
        data = wire.encode(item)
    else:
        raise InputError(
            f"a {type(item).__name__} cannot be saved here; give a message, a PartyState or a FusedModel"
        )
    storage.write(Path(path), data, private=private)


@overload
def load(path: str | Path) -> Saved: ...
@overload
def load(path: str | Path, kind: type[SavedT]) -> SavedT: ...
def load(path: str | Path, kind: type[Any] | None = None) -> Any:
    """Read what `save` or a command wrote; the file says what it is.

    Parameters
    ----------
    path : str or Path
        A message, a party's private state, or a model that was saved alone. Nothing in it is executed.
    kind : type, optional
        Class that is wanted, such as `dkpca.Summary`; a file that holds something else is refused. None: any.

    Returns
    -------
    message of dkpca.messages, PartyState or FusedModel
        With NumPy arrays. A bad file raises `dkpca.errors.WireError`.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> import dkpca
    >>> X = np.random.default_rng(0).normal(size=(50, 4))
    >>> summary, _ = dkpca.summarize(X, party="bank", kernel=dkpca.kernels.Linear(), rank=2)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     dkpca.save(Path(folder, "model"), dkpca.fuse([summary], n_components=1))
    ...     dkpca.load(Path(folder, "model"), dkpca.FusedModel).n_components
    1
    """
    data = storage.read(Path(path))
    with naming(Path(path)):
        item = DECODERS[container.entry_of(data)](data)
        if kind is not None and not isinstance(item, kind):
            raise WireError(f"holds a {type(item).__name__}, not a {kind.__name__}; give the right file")
        return item
