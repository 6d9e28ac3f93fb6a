"""What the parties of a protected fit know beyond the center."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Shield:
    """What the parties of a protected fit know beyond the center, and what each of them sent."""

    protect: str = "none"
    run: str = ""
    key: str = field(default="", repr=False)  # of a blind fit, in hexadecimal
    bits: int = 32  # of masked sums
    sent: dict[str, int] = field(default_factory=dict)  # bytes of masked numbers
