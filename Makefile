# Kinetic's tasks. Everything runs in .venv, which `make install` sets up.

PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
BENCH_READY := .venv/.bench-ready
ARGS ?=
# Of make soak: comparisons for each of five models, and the crowd's random numbers.
N ?= 1000
SEED ?= $(shell date +%s)
FIRST_TESTS := tests/test_repository.py $(wildcard tests/docs)

.DEFAULT_GOAL := help
.PHONY: help install serve test test-fast soak conformance check lint type fmt bench peer constraints clean

help:  ## List the tasks
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(READY)  ## Set up .venv with the engine and fetch the small models; instant when done
	@$(BIN)/python -m scripts.fetch_assets

$(READY): pyproject.toml constraints.txt scripts/build_engine.py
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Kinetic needs Python 3.11 or newer; $(PYTHON) is " + sys.version.split()[0] + ". Name another with: make install PYTHON=...")'
	@echo "[kinetic] 1/4 environment: .venv"
	@$(PYTHON) -m venv .venv || { echo "[kinetic] python -m venv failed; some systems keep it in a package python3-venv"; exit 1; }
	@$(BIN)/python -m pip install --quiet --upgrade --constraint constraints.txt pip
	@echo "[kinetic] 2/4 engine: llama.cpp, compiled once for this processor"
	@$(BIN)/python -m scripts.build_engine --install
	@$(BIN)/python -m scripts.build_vector_library --install || echo "[kinetic] no library for vectors: they are slower, nothing else changes"
	@echo "[kinetic] 3/4 packages: as pinned in constraints.txt"
	@$(BIN)/python -m scripts.install_packages
	@touch $@
	@echo "[kinetic] 4/4 models: into the user's cache folder"

serve: install  ## Serve a model: make serve ARGS="model.gguf --port 8080"
	$(BIN)/kinetic serve $(ARGS)

test: check  ## Check, then run every test that needs nobody else's program
	$(BIN)/pytest -m "not conformance"

test-fast: install  ## Run the tests that need no model, in seconds
	$(BIN)/pytest -m "not model and not slow and not conformance and not device"

soak: install  ## Compare thousands of a crowd's answers with the same requests alone
	KINETIC_SOAK=$(N) KINETIC_SEED=$(SEED) $(BIN)/pytest -q -s tests/actors/test_crowd.py

conformance: install  ## Compare with llama-server (make peer), ask Prometheus, try clients
	$(BIN)/pytest -m conformance $(ARGS)

check: lint type  ## Lint, types, import directions, docs
	$(BIN)/lint-imports --no-logo
	$(BIN)/pytest --quiet $(FIRST_TESTS)

lint: install  ## Lint, and see that everything is formatted
	$(BIN)/ruff check
	$(BIN)/ruff format --check

type: install  ## Check the types
	$(BIN)/mypy

fmt: install  ## Format, and repair what can be repaired safely
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

bench: install $(BENCH_READY)  ## Measure speed beside two peers, and write docs/performance.*
	$(BIN)/python -m scripts.bench $(ARGS)

$(BENCH_READY): $(READY)
	@$(BIN)/python -m scripts.install_packages --extra bench
	@touch $@

peer: install  ## Build llama-server from the engine's source, to compare with
	$(BIN)/python -m scripts.build_llama_server

constraints: install $(BENCH_READY)  ## Pin what .venv holds now
	$(BIN)/python -m scripts.pin_constraints

clean:  ## Remove .venv and what tools left; the cache folder stays
	rm -rf .venv build *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find kinetic scripts tests -name __pycache__ -prune -exec rm -rf {} +
