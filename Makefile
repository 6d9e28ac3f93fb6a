# Every target sets up what it needs in .venv; a fresh machine needs only Python 3.11 or newer and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
WORKERS ?= 2
# Browser tests need a browser on the machine; .ci/run installs one and empties this variable.
BROWSERLESS ?= $(if $(shell command -v chromium || command -v chromium-browser || command -v google-chrome),,-m "not browser and not gpu")
# One BLAS thread a test worker, or the workers fight over the cores.
TEST_ENVIRONMENT := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
PYTEST = $(TEST_ENVIRONMENT) $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder
QUICK := not slow and not network and not browser and not cluster and not gpu
# Folder with gse2187_value.npz, for the lines that need the paper's data.
DATA ?=
EXPERIMENTS := fig2 fig3 table1 table2 bytes rounds certificate scale

.PHONY: test quick demo lint bench docs reproduce clean

test: $(VENV)/test
	$(if $(BROWSERLESS),@echo "No chromium here: the browser tests are left out. Install it to run them too.")
	$(PYTEST) $(BROWSERLESS)

# What to run while working: no network, browser, cluster or experiment, nothing slow.
quick: $(VENV)/test
	$(PYTEST) -m "$(QUICK)" --ignore tests/experiments

demo: $(VENV)/demo
	$(BIN)/dkpca demo --out dkpca-demo

bench: $(VENV)/demo $(VENV)/nvflare
	$(BIN)/python -m benchmarks.library $(if $(DATA),--data $(DATA))
	$(BIN)/python -m benchmarks.scale
	$(BIN)/python -m benchmarks.network
	$(BIN)/python -m benchmarks.page

lint: $(VENV)/lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: $(VENV)/docs
	$(BIN)/zensical build --strict --clean

# Every figure and table of the paper: make reproduce DATA=folder-of-GSE2187 (experiments/README.md), half an hour.
reproduce: $(VENV)/reproduce
	@test -n "$(DATA)" || { echo "give the folder of GSE2187: make reproduce DATA=...; see experiments/README.md"; exit 2; }
	for name in $(EXPERIMENTS); do $(BIN)/python -m experiments.$$name --data "$(DATA)" --workers $(WORKERS) || exit; done
	$(BIN)/python -m experiments.page

clean:
	rm -rf $(VENV) site dist dkpca-demo .cache .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(VENV)/core: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --editable .
	touch $@

$(VENV)/demo $(VENV)/nvflare: $(VENV)/core
	$(BIN)/python -m pip install --quiet --editable ".[$(notdir $@)]"
	touch $@

$(VENV)/%: $(VENV)/core
	$(BIN)/python -m pip install --quiet --group $*
	touch $@
