# Every target sets up what it needs in .venv; a fresh machine needs only Python 3.11 or newer and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
WORKERS ?= 2
# Browser tests need a browser on the machine; .ci/run installs one and empties this variable.
BROWSERLESS ?= $(if $(shell command -v chromium || command -v chromium-browser || command -v google-chrome),,-m "not browser and not gpu")
# One BLAS thread per test worker, or the workers fight over the cores.
# Python keeps what it compiles, or each process that a test starts compiles the library again.
# Files of tests lie in memory where two gigabytes are free: a disk makes each of ten thousand fsyncs wait.
IN_MEMORY := $(shell test "$$(df --output=avail /dev/shm 2>/dev/null | tail -1)" -gt 2000000 2>/dev/null && echo /dev/shm)
TEST_ENVIRONMENT := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE= $(IN_MEMORY:%=PYTEST_DEBUG_TEMPROOT=%)
# Fewer examples for the laws than make test takes, unless a profile is given.
FEWER := HYPOTHESIS_PROFILE=$${HYPOTHESIS_PROFILE:-quick}
# Whole files, so that what a file sets up is set up once; in the order of tests/conftest.py, the long ones first.
PYTEST_OPTIONS := --numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder
PYTEST = $(TEST_ENVIRONMENT) $(BIN)/python -m pytest $(PYTEST_OPTIONS)
# Of a test with many combinations of parameters, as few as have every pair of values; make test runs them all.
MOST := --pairs --ignore tests/experiments --ignore tests/test_gpu.py \
  -m "not slow and not browser and not cluster and not gpu"
# What fits into a minute.
QUICK := $(MOST:"=) and not longer"
# With other versions of what the library stands on: the same, and longer tests of lines that no quick one runs. Without
# torch, whose builds for other versions of Python bring gigabytes of CUDA.
ELSEWHERE := $(MOST:"=) and (versions or not longer) and not torch"
COVERED := --cov --cov-report term
EXTRAS := demo,excel,protect,scverse,sftp,webdav,s3
# The newest Python on this machine: make newest NEWEST=path for another.
NEWEST ?= $(shell for minor in 19 18 17 16 15 14 13 12 11; do \
  for python in python3.$$minor $$HOME/.pyenv/versions/3.$$minor.*/bin/python3; do \
  $$python -c "" 2>/dev/null && echo $$python && exit; done; done)
# A Python of this version: that of pyenv, or what uv finds or gets.
PYTHON_OF = $(firstword $(wildcard $(HOME)/.pyenv/versions/$(1).*/bin/python3) $(1))
# Folder with gse2187_value.npz, for the lines that need the paper's data.
DATA ?=
EXPERIMENTS := fig2 fig3 table1 table2 bytes curve rounding rounds certificate scale missing lacking weights disclosure attacks

SEED ?= 0
CONFIGURATIONS ?= 10000

.PHONY: release-check vantage6 adversary fuzz mutants test quick laws coverage lowest newest build demo lint bench docs docs-serve reference reproduce clean

test: $(VENV)/test
	$(if $(BROWSERLESS),@echo "No chromium here: the browser tests are left out. Install it to run them too.")
	$(PYTEST) $(BROWSERLESS)

# What to run while working: no browser, cluster or experiment, nothing that takes long.
# HYPOTHESIS_PROFILE=random make quick takes other examples each time.
quick: $(VENV)/test
	$(FEWER) $(PYTEST) $(QUICK)

# The tests that draw examples. HYPOTHESIS_PROFILE=random make laws draws new ones, and prints how to repeat a failure.
laws: $(VENV)/test
	$(PYTEST) -m "hypothesis and not gpu"

# Which lines most tests run. A report, not a gate.
coverage: $(VENV)/test
	$(PYTEST) $(MOST) $(COVERED)

# The quick tests and those marked versions, with the lowest versions that pyproject.toml allows.
lowest: $(VENV)/elsewhere
	$(BIN)/uv venv --quiet --clear --python $(BIN)/python build/lowest
	$(BIN)/uv pip install --quiet --python build/lowest --resolution lowest-direct --editable ".[$(EXTRAS)]"
	$(BIN)/uv pip install --quiet --python build/lowest --group tools "pytest<9"  # 9 warns about scikit-learn 1.6
	$(FEWER) $(TEST_ENVIRONMENT) build/lowest/bin/python -m pytest $(PYTEST_OPTIONS) $(ELSEWHERE)

# The same with the newest Python and the newest versions of everything.
newest: $(VENV)/elsewhere
	$(NEWEST) --version
	$(BIN)/uv venv --quiet --clear --python $(NEWEST) build/newest
	$(BIN)/uv pip install --quiet --python build/newest --editable ".[$(EXTRAS)]" --group tools
	$(FEWER) $(TEST_ENVIRONMENT) build/newest/bin/python -m pytest $(PYTEST_OPTIONS) $(ELSEWHERE)

# The vantage6 algorithm under the mocks of 4.x and 5.x, each with the versions it was tried with, apart from .venv.
vantage6: $(VENV)/elsewhere
	for each in 4=$(call PYTHON_OF,3.11) 5=$(call PYTHON_OF,3.13); do \
	  there=build/vantage6-$${each%%=*}; lock=integrations/vantage6/vantage6-$${each%%=*}.lock; \
	  $(BIN)/uv venv --quiet --clear --python $${each#*=} $$there && \
	  $(BIN)/uv pip install --quiet --python $$there --requirements $$lock && \
	  $(BIN)/uv pip install --quiet --python $$there --no-deps --editable . --editable integrations/vantage6 && \
	  (cd integrations/vantage6 && $(TEST_ENVIRONMENT) ../../$$there/bin/python -m pytest) || exit; \
	done

# Wheel and sdist; then the wheel alone, in an environment with nothing else, runs the README's first program, and with the extra "demo" the demo.
build: $(VENV)/build
	rm -rf dist build/empty
	$(BIN)/python -m build
	$(PYTHON) -m venv build/empty
	build/empty/bin/python -m pip install --quiet dist/*.whl
	$(BIN)/python -m testkit.readme > build/readme.py
	cd build && empty/bin/python -I readme.py
	build/empty/bin/dkpca 2>&1 | grep --quiet "install it with: pip install 'dkpca\[cli\]'"
	build/empty/bin/python -m pip install --quiet "$$(echo dist/*.whl)[demo]"
	build/empty/bin/dkpca demo --out build/demo

# All that can be checked of a release without a registry, on its commit.
release-check: lint build docs
	$(BIN)/python -m twine check --strict dist/*
	$(BIN)/python -m testkit.release

# Bytes at random into every decoder: make fuzz RUNS=10000000, or SECONDS=3600.
# A search for inputs that break the certificate: make adversary CONFIGURATIONS=1000 SEED=7
adversary: $(VENV)/test
	$(TEST_ENVIRONMENT) $(BIN)/python -m experiments.adversary --configurations $(CONFIGURATIONS) --seed $(SEED) --workers $(WORKERS)

fuzz: $(VENV)/fuzz
	$(BIN)/python -m fuzz $(if $(RUNS),--runs $(RUNS)) $(if $(SECONDS),--seconds $(SECONDS))

# Does a test notice when one thing is changed? Hours for all; make mutants SAMPLE=30 takes so many per module.
# mutmut 3 needs a pytest below 9, so it has an environment of its own.
mutants:
	test -x build/mutmut/bin/python || $(PYTHON) -m venv build/mutmut
	build/mutmut/bin/python -m pip install --quiet --upgrade "pip>=25.1"
	build/mutmut/bin/python -m pip install --quiet "mutmut>=3.8" "pytest<9" --editable ".[$(EXTRAS)]" --group tools
	$(TEST_ENVIRONMENT) nice build/mutmut/bin/mutmut run --max-children 1 $(if $(SAMPLE),"dkpca.wording.x_json_values__mutmut_1")
	$(if $(SAMPLE),cd mutants && $(TEST_ENVIRONMENT) PYTHONPATH=src:. nice ../build/mutmut/bin/python -m testkit.mutants --sample $(SAMPLE) --seed $(SEED))

demo: $(VENV)/demo
	$(BIN)/dkpca demo --out dkpca-demo

bench: $(VENV)/demo
	$(BIN)/python -m benchmarks.library $(if $(DATA),--data $(DATA))
	$(BIN)/python -m benchmarks.small
	$(BIN)/python -m benchmarks.scale
	$(BIN)/python -m benchmarks.protection $(if $(DATA),--data $(DATA))
	$(BIN)/python -m benchmarks.page

lint: $(VENV)/lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# The site works from its files: open site/index.html.
docs: $(VENV)/docs
	$(BIN)/zensical build --strict --clean

# The page of all commands, made from the commands.
reference: $(VENV)/test
	$(BIN)/python -m testkit.reference > docs/commands.md

docs-serve: $(VENV)/docs
	$(BIN)/zensical serve

# Every figure and table of the paper: make reproduce DATA=folder-of-GSE2187 (experiments/README.md), half an hour.
reproduce: $(VENV)/reproduce
	@test -n "$(DATA)" || { echo "give the folder of GSE2187: make reproduce DATA=...; see experiments/README.md"; exit 2; }
	for name in $(EXPERIMENTS); do $(BIN)/python -m experiments.$$name --data "$(DATA)" --workers $(WORKERS) || exit; done
	$(BIN)/python -m experiments.page

clean:
	rm -rf $(VENV) site dist build dkpca-demo .cache .coverage .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(VENV)/core: pyproject.toml src/dkpca/__init__.py  # which has the version
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --editable .
	touch $@

$(VENV)/demo: $(VENV)/core
	$(BIN)/python -m pip install --quiet --editable ".[$(notdir $@)]"
	touch $@

$(VENV)/%: $(VENV)/core
	$(BIN)/python -m pip install --quiet --group $*
	touch $@
