"""Numbers and words for readers."""


def printable(text: str) -> str:
    """One line of what somebody else wrote, without what a terminal or a log would take for a command."""
    return "".join(letter if letter.isprintable() else "?" for letter in " ".join(text.split()))


def in_bytes(count: float) -> str:
    """Bytes for a reader: 123 B, 12.3 kB, 4.5 MB."""
    if count < 1000:
        return f"{count:.0f} B"
    for unit in ("kB", "MB"):
        count /= 1000
        if count < 1000:
            return f"{count:,.1f} {unit}"
    return f"{count / 1000:,.1f} GB"


def in_seconds(seconds: float) -> str:
    """Seconds for a reader."""
    if seconds < 0.1:
        return "under 0.1 s"
    return f"{seconds:.1f} s" if seconds < 60 else f"{seconds / 60:.1f} min"
