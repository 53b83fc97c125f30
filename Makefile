# `make up` runs codehub, `make test` sets everything up and passes all tests. `make help` lists the rest.
SHELL := /bin/bash
.DEFAULT_GOAL := help
PYTHON ?= python3
BIN := .venv/bin
RUN := .venv/.run-installed
DEV := .venv/.dev-installed

.PHONY: help up test check format lock bench clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

up: $(RUN) ## run codehub on 127.0.0.1:8000 (Ctrl-C stops it)
	@exec $(BIN)/codehub up

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
