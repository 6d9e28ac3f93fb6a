"""Coverage-guided fuzzing of one decoder: `python -m fuzz.guided NAME CORPUS libFuzzer-options...`."""

import sys

import atheris

with atheris.instrument_imports(include=["dkpca"]):
    from fuzz.targets import checked


def main() -> None:
    """Run libFuzzer on the decoder named first; it ends the process with an error code at the first finding."""
    name, *options = sys.argv[1:]
    atheris.Setup([sys.argv[0], *options], checked(name))
    atheris.Fuzz()


if __name__ == "__main__":
    main()
