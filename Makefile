# `make up` runs codehub, `make test` sets everything up and passes all tests. `make help` lists the rest.
SHELL := /bin/bash
.DEFAULT_GOAL := help
PYTHON ?= python3
BIN := .venv/bin
RUN := .venv/.run-installed
DEV := .venv/.dev-installed

.PHONY: help up test test-core test-store test-sim test-local test-api test-proxy check format bench docs lock engines clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

up: $(RUN) ## run codehub on 127.0.0.1:8000 (Ctrl-C stops it)
	@exec $(BIN)/codehub up

test: test-core test-store test-sim test-local test-api test-proxy ## set up, then run all suites
	@echo "all suites passed"

PYTEST := $(BIN)/pytest -q -p no:cacheprovider
test-core: $(DEV) ## the pure core: every table, every state, 100 % of its branches
	@scripts/suite test-core 60 bash -c '$(PYTEST) tests/core tests/architecture --ignore tests/core/test_state_space.py --cov \
		&& $(PYTEST) -n 2 tests/core/test_state_space.py'

STORE := tests/contracts tests/integration/embedded_postgres tests/integration/test_schema.py \
	tests/integration/test_migrations.py tests/integration/test_store_postgres.py \
	--ignore tests/contracts/test_storage.py --ignore tests/contracts/test_instances.py
LOCAL := tests/contracts/test_storage.py tests/contracts/test_instances.py tests/integration/archives \
	tests/integration/local_instances tests/integration/test_local_circle.py
test-store: $(DEV) engines ## PostgreSQL: embedded server, schema, privileges, store contract
	@scripts/suite test-store 90 $(PYTEST) -n 2 --dist loadfile $(STORE)

test-local: $(DEV) engines ## this machine as a platform: sandboxed processes, homes, archives, the whole circle with a real IDE
	@scripts/suite test-local 120 $(PYTEST) -n 2 --dist loadfile $(LOCAL)

test-sim: $(DEV) ## the engine on the memory platform: the whole circle, and a crash at every boundary
	@scripts/suite test-sim 120 $(PYTEST) -n 2 tests/engine

test-api: $(DEV) ## the program from outside: settings, commands, `codehub up` and what it serves
	@scripts/suite test-api 120 $(PYTEST) -n 2 tests/api

test-proxy: $(DEV) engines ## the edge over real sockets: data path, safety beside nginx, access, waking, activity
	@scripts/suite test-proxy 100 $(PYTEST) -n 2 tests/proxy

engines: ## install what the suites need beside Python (as root; else says what is missing)
	@scripts/engines

check: $(DEV) ## lint, types and architecture: exactly what CI runs
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

format: $(DEV) ## let ruff put the code in order
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(DEV) ## measure, side by side with a peer or a limit, and print ratios
	$(BIN)/python -m benchmarks

docs: $(DEV) ## write the parts of docs/ that are made from the code
	$(BIN)/python -m docs.generate

.venv/bin/python:
	@$(PYTHON) -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "codehub needs Python 3.11 or later with venv: apt-get install python3-venv, or set PYTHON=..."; exit 1; }
	$(PYTHON) -m venv .venv

$(RUN): requirements/run.txt pyproject.toml | .venv/bin/python
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements/run.txt
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

$(DEV): requirements/dev.txt $(RUN)
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.txt
	@touch $@

lock: $(DEV) ## choose the newest allowed versions and write requirements/*.txt
	$(BIN)/uv pip compile pyproject.toml --all-extras --upgrade $(LOCK) -o requirements/dev.txt
	$(BIN)/uv pip compile pyproject.toml --extra build $(LOCK) -c requirements/dev.txt -o requirements/run.txt
LOCK := --quiet --generate-hashes --universal --python-version 3.11 --no-header

clean: ## remove what was installed and built here
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
