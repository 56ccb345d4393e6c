# Targets for people. `make help` lists them; each can be run on a fresh checkout.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/installed
PYTEST_FLAGS ?=

.DEFAULT_GOAL := help
.PHONY: help venv resnet8 test test-all test-gvsoc cycles bench-planner lint format wheel clean

help: ## list these targets
	@sed -n 's/^\([a-z0-9-]*\):.*## \(.*\)/  make \1|\2/p' $(firstword $(MAKEFILE_LIST)) | \
	  while IFS='|' read -r target text; do printf '%-18s %s\n' "$$target" "$$text"; done

venv: $(STAMP) ## create .venv and install deeploy_ext and its development tools in it

$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' || \
	  { echo "make: '$(PYTHON)' is not Python 3.11 to 3.13; name one that is: make PYTHON=python3.11" >&2; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || \
	  { echo "make: this Python has no venv module; on Debian: apt install python3-venv" >&2; exit 1; }
	@command -v cc >/dev/null || { echo "make: no C compiler 'cc'; on Debian: apt install gcc libc6-dev" >&2; exit 1; }
	@[ -x $(BIN)/python ] || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

resnet8: venv ## train ResNet8 on this machine: deeployRunner -t ResNet8 --promote --db --engine host
	$(BIN)/deeployRunner -t ResNet8 --promote --db --engine host

test: resnet8 ## the same, then the tests without the slow matrices
	$(BIN)/python -m pytest -n auto -m 'not slow' $(PYTEST_FLAGS)

test-all: resnet8 ## the same, then all tests
	$(BIN)/python -m pytest -n auto $(PYTEST_FLAGS)

test-gvsoc: venv ## the tests on the simulator GVSoC; fails where it is missing, instead of skipping them
	$(BIN)/deeployRunner -t SimpleMLP --engine gvsoc --quiet
	$(BIN)/python -m pytest -n auto -m gvsoc $(PYTEST_FLAGS)

cycles: venv ## measured cycles of the test networks on GVSoC, compared with the committed ones (testnets/*/cycles.json)
	$(BIN)/deeployRunner cycles

bench-planner: venv ## planning time, memory and predicted cycles of both planners, on synthetic networks of 50 to 2000 nodes
	$(BIN)/python -m deeploy_ext.bench.planner

lint: venv ## ruff (rules and format) and pyright
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright --pythonpath $(BIN)/python

format: venv ## let ruff format the code and sort the imports
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format .

wheel: venv ## build the wheel into dist/
	$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist .

clean: ## remove .venv, dist and caches
	rm -rf $(VENV) dist build .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
