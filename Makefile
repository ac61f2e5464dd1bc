# What one does with iterlab, a target each. `make help` lists them.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

PYTHON ?= python3#      makes .venv
CUDA_PYTHON ?= python3# has a CUDA build of torch, for test-cuda
WERROR ?= ON#           warnings in our own code stop the build
WORKERS ?= logical#     pytest processes; 0 for none, as a debugger wants
ARGS ?=#                passed on to pytest, the demo or the benchmarks

VENV := .venv
BIN := $(VENV)/bin
# Both stamps lie inside .venv, so that removing it also forgets what was installed there.
INSTALLED := $(VENV)/.requirements-installed
BUILT := $(VENV)/.iterlab-built

CODE_DIRS := $(wildcard include engine src python_bindings tests benchmarks examples)
SOURCES := $(wildcard CMakeLists.txt cmake/*) pyproject.toml $(shell \
	find $(wildcard include engine src python_bindings) -type f -not -name '*.pyc' 2>/dev/null)
CPP_FILES = find $(CODE_DIRS) -name '*.h' -o -name '*.cuh' -o -name '*.cpp' -o -name '*.cu'

##@ Use

.PHONY: build
build: $(BUILT) ## compile and install into .venv, editable; says how long it took

.PHONY: demo
demo: build ## the tour: what iterlab does, in pictures and numbers
	$(BIN)/python -m iterlab demo $(ARGS)

.PHONY: bench
bench: build ## share of the memory rate, by operator, layout and dtype
	$(BIN)/python -m iterlab bench $(ARGS)

##@ Check

.PHONY: test
test: build ## build and the quick tests (ARGS='-k layouts')
	$(BIN)/python -m pytest -n $(WORKERS) -m 'not slow' $(ARGS)

.PHONY: test-all
test-all: build ## the same with the slow tests
	$(BIN)/python -m pytest -n $(WORKERS) $(ARGS)

.PHONY: test-cuda
test-cuda: ## on a GPU machine: build for the torch that CUDA_PYTHON has, then the tests that ask for a device; downloads nothing
	tools/build_cuda.sh $(CUDA_PYTHON) build/cuda-test
	PYTHONPATH=build/cuda-test/python $(CUDA_PYTHON) -m pytest -n $(WORKERS) --device cuda $(ARGS)

.PHONY: cuda-check
cuda-check: ## compile the CUDA side and import it; needs nvcc, no GPU
	tools/cuda_check.sh $(PYTHON)

.PHONY: fuzz
fuzz: $(INSTALLED) ## random calls of the engine under AddressSanitizer and UBSan (ARGS='seconds seed')
	tools/fuzz.sh $(BIN)/python $(ARGS)

##@ Tidy

# pre-commit runs the same four, see .pre-commit-config.yaml.
.PHONY: lint
lint: lint-python lint-types lint-cpp lint-house ## ruff, mypy, clang-format and the house rules

.PHONY: lint-python
lint-python: $(INSTALLED)
	$(BIN)/ruff check
	$(BIN)/ruff format --check

.PHONY: lint-types
lint-types: $(INSTALLED)
	$(BIN)/mypy

.PHONY: lint-cpp
lint-cpp: $(INSTALLED)
	$(CPP_FILES) | xargs -r $(BIN)/clang-format --dry-run -Werror

.PHONY: lint-house
lint-house: $(INSTALLED)
	$(BIN)/python tools/house_rules.py

.PHONY: format
format: $(INSTALLED) ## mend what ruff and clang-format can
	$(BIN)/ruff check --fix
	$(BIN)/ruff format
	$(CPP_FILES) | xargs -r $(BIN)/clang-format -i

.PHONY: clean
clean: ## remove what builds and tests left; .venv and .venv-cuda stay
	rm -rf build dist .hypothesis .mypy_cache .pytest_cache .ruff_cache $(BUILT)
	find $(CODE_DIRS) tools -name __pycache__ -prune -exec rm -rf {} +

.PHONY: help
help: ## this list
	@awk 'BEGIN { FS = ":.*## "; print "make TARGET [ARGS=...]" } \
	  /^##@/ { printf "\n\033[1m%s\033[0m\n", substr($$0, 5) } \
	  /^[a-z-]+:.*## / { printf "  \033[36m%-11s\033[0m %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# The environment and the build

$(INSTALLED): $(wildcard requirements/*.txt)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check \
	  -r requirements/test.txt -r requirements/lint.txt
	touch $@

$(BUILT): $(INSTALLED) $(SOURCES)
	@start=$$SECONDS; \
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps \
	  --config-settings=cmake.define.CMAKE_COMPILE_WARNING_AS_ERROR=$(WERROR) --editable .; \
	echo "iterlab built in $$((SECONDS - start)) s"; \
	touch $@
