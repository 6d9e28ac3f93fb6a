# Every target sets up what it needs in .venv; a fresh machine needs only Python 3.11 or newer and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
WORKERS ?= 2
DATA ?=
EXPERIMENTS := fig2 fig3 table1 table2 bytes rounds certificate scale

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

# Every figure and table of the paper: make reproduce DATA=folder-of-GSE2187 (experiments/README.md), half an hour.
reproduce: $(VENV)/reproduce
	@test -n "$(DATA)" || { echo "give the folder of GSE2187: make reproduce DATA=...; see experiments/README.md"; exit 2; }
	for name in $(EXPERIMENTS); do $(BIN)/python -m experiments.$$name --data "$(DATA)" --workers $(WORKERS) || exit; done
	$(BIN)/python -m experiments.page

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
