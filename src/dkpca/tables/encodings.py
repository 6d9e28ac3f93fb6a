"""Which bytes are which letters: UTF-8, UTF-16 and UTF-32 where the file says so, else Windows-1252."""

import codecs
from pathlib import Path

from dkpca.errors import InputError

CHUNK = 2**20
MARKS = {  # the longer one first: the mark of UTF-32 begins like that of UTF-16
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
UTF8 = ("utf-8", "utf-8-sig")


def encoding_of(path: Path, asked: str | None = None) -> str:
    """Name of the encoding of a whole text file, as asked for or as found."""
    with path.open("rb") as file:
        start = file.read(4096)
    marked = next((name for mark, name in MARKS.items() if start.startswith(mark)), None)
    if asked is not None:
        name = _known(path, asked)
        name = "utf-8-sig" if name == "utf-8" and marked == "utf-8-sig" else name
        _check_decodes(path, name)
        return name
    told = marked or _wide(start)
    if told is not None:
        _check_decodes(path, told)
        return told
    for name in ("utf-8", "cp1252"):
        if _failure(path, name) is None:
            return name
    raise InputError(f"{path}: its letters are neither UTF-8 nor Windows-1252; name their encoding with --encoding")


def _wide(start: bytes) -> str | None:
    """UTF-16 without a mark: of Western text, every other byte is zero."""
    even, odd = start[0::2].count(0), start[1::2].count(0)
    if max(even, odd) * 4 < len(start):
        return None
    return "utf-16-le" if odd > even else "utf-16-be"


def _known(path: Path, asked: str) -> str:
    try:
        return codecs.lookup(asked).name
    except LookupError as error:
        raise InputError(
            f"{path}: --encoding {asked!r} is not known; use utf-8, utf-16, cp1252, iso-8859-1 or the like"
        ) from error


def _check_decodes(path: Path, name: str) -> None:
    failure = _failure(path, name)
    if failure is not None:
        raise InputError(f"{path}: is not {name} at {failure}; name its encoding with --encoding, or leave that out")


def _failure(path: Path, name: str) -> str | None:
    """Where the file stops being of this encoding; read in pieces."""
    decoder = codecs.getincrementaldecoder(name)()
    done = 0
    with path.open("rb") as file:
        while True:
            piece = file.read(CHUNK)
            try:
                decoder.decode(piece, final=not piece)
            except (UnicodeDecodeError, UnicodeError) as error:
                return f"byte {done + getattr(error, 'start', 0) + 1:,}"
            if not piece:
                return None
            done += len(piece)
