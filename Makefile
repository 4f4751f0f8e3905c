# pyptx. `make` alone lists the targets. Needs Python >= 3.11 with venv, and make; everything else goes into .venv.

VENV   ?= .venv
# The first interpreter that is new enough; PYTHON=... overrides.
PYTHON ?= $(shell for p in python3 python3.11 python3.12 python3.13 python3.14; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; break; }; done)
TORCH  ?= torch==2.13.0
JAX    ?= jax
EXTRAS ?= dev,ptxas,jit,triton,nvrtc
JOBS   ?= 2
# Extra arguments: make pytest ARGS="-k mbarrier"
ARGS   ?=

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.DEFAULT_GOAL := help
.PHONY: help demo test pytest lit lint typecheck types bench mutants docs clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(VENV)/.stamp-demo ## what pyptx does, in a minute, on any machine (no GPU, no torch)
	$(BIN)/python -m examples.demo

test: $(VENV)/.stamp-test ## everything CI checks: lint, typecheck, lit, pytest (all run, even after a failure)
	@$(MAKE) --no-print-directory --keep-going lint typecheck lit pytest

pytest: $(VENV)/.stamp-test ## the Python tests (ARGS="-k name")
	$(BIN)/python -m pytest -n $(JOBS) $(ARGS)

lit: $(VENV)/.stamp-test ## the lit and filecheck tests of the dialect, the passes and the tools
	$(BIN)/lit --order=lexical -j $(JOBS) -sv tests/filecheck $(ARGS)

lint: $(VENV)/.stamp-test ## ruff: rules and formatting; codespell
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/codespell pyptx docs examples benchmarks tests README.md CONTRIBUTING.md CHANGELOG.md

typecheck: $(VENV)/.stamp-test ## basedpyright, strict, on pyptx/
	$(BIN)/basedpyright --pythonpath $(BIN)/python

types: $(VENV)/.stamp-test ## mypy and pyright on the README's kernel and the examples (tests/test_types.py asks basedpyright)
	$(PIP) mypy 'pyright[nodejs]'
	mkdir -p build
	sed -n '/^```python$$/,/^```$$/{/^```/!p;/^```$$/q}' README.md > build/readme_kernel.py
	MYPYPATH=. $(BIN)/mypy --check-untyped-defs --ignore-missing-imports --follow-imports silent --explicit-package-bases build/readme_kernel.py examples
	$(BIN)/pyright --pythonpath $(BIN)/python build/readme_kernel.py examples

bench: $(VENV)/.stamp-test ## every benchmark that needs no GPU, each a table with its budgets
	@for file in $(filter-out benchmarks/mutant%,$(wildcard benchmarks/[!_]*.py)); do \
	  $(BIN)/python -m benchmarks.$$(basename $$file .py) || exit 1; done

mutants: $(VENV)/.stamp-test ## mutation testing of a sample (ARGS="--sample 300 --area passes"); an hour
	$(PIP) cosmic-ray coverage
	$(BIN)/python -m benchmarks.mutants $(ARGS)

docs: $(VENV)/.stamp-docs ## the documentation site, into site/
	$(BIN)/mkdocs build --strict
	PYPTX_PURE=1 $(BIN)/python -m pip wheel --quiet --no-deps -w site/assets .
	@command -v chromium >/dev/null || { echo "no chromium: the pages are not checked"; exit 0; }; $(BIN)/python -m tests.site_check site

clean: ## remove what the other targets made, .venv excepted
	rm -rf build dist site .pytest_cache .ruff_cache .hypothesis *.egg-info
	find pyptx tests examples benchmarks docs -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true

# --- installation: one stamp per set of packages, so that a second run installs nothing

$(VENV)/.stamp-venv:
	@test -n "$(PYTHON)" || { echo "pyptx needs Python 3.11 or newer: make PYTHON=/path/to/python3"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	touch $@

$(VENV)/.stamp-demo: $(VENV)/.stamp-venv pyproject.toml
	$(PIP) -e '.[ptxas]'
	touch $@

# torch first, by its exact version: later installs then keep it.
$(VENV)/.stamp-test: $(VENV)/.stamp-venv pyproject.toml
	$(PIP) '$(TORCH)'
	$(PIP) '$(JAX)'
	$(PIP) -e '.[$(EXTRAS)]'
	touch $@

$(VENV)/.stamp-docs: $(VENV)/.stamp-venv pyproject.toml
	$(PIP) -e '.[docs]'
	touch $@
