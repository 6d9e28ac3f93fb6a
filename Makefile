# Every target sets up what it needs in .venv; a fresh machine needs only Python 3.11 or newer and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
WORKERS ?= 2

.PHONY: test demo lint bench docs reproduce clean

test: $(VENV)/test
	$(BIN)/python -m pytest -n $(WORKERS)

demo: $(VENV)/core
	$(BIN)/python examples/digits.py

lint: $(VENV)/lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

clean:
	rm -rf $(VENV) site dist .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(VENV)/core: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --editable .
	touch $@

$(VENV)/%: $(VENV)/core
	$(BIN)/python -m pip install --quiet --group $*
	touch $@
