"""`dkpca`, and `python -m dkpca`."""

import sys

EXTRA = ("typer", "rich", "polars")


def main() -> None:
    """Run the command line, or say how to install it."""
    try:
        from dkpca.cli import run
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in EXTRA:
            raise
        print(
            f"dkpca: the command line needs {error.name}; install it with: pip install 'dkpca[cli]'", file=sys.stderr
        )
        sys.exit(1)
    sys.exit(run())


if __name__ == "__main__":
    main()
