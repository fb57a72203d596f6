# Each target sets up what it needs in .venv, from nothing, and only once: stamps in .venv say what is done.
# `make help` lists the targets. Another interpreter: make setup PYTHON=python3.12

# Several goals are made one after the other: `make clean setup` means that.
ifeq ($(MAKELEVEL)$(word 2,$(MAKECMDGOALS)),0)
MAKEFLAGS += -j2
endif
# Each module is compiled once and not by every process, whatever the shell says.
unexport PYTHONDONTWRITEBYTECODE
PYTHON ?= python3
ifeq ($(origin CXX),default)
CXX := c++
endif
FUZZ_CASES ?= 100000
TORCH := 2.13.0
VENV := .venv
BIN := $(VENV)/bin
# Modules are compiled when they are first imported: most of them never are.
INSTALL := $(BIN)/python -m pip --disable-pip-version-check --quiet install --no-compile
CSRC := src/whvi/csrc
HEADERS := $(wildcard $(CSRC)/*.h)
SOURCES := $(wildcard $(CSRC)/*.cpp)
INTERFACE := src/whvi/ops/interface.py
FUZZ := build/fuzz/fuzz
FUZZ_OBJECTS := $(patsubst $(CSRC)/%.cpp,build/fuzz/%.o,$(filter-out $(CSRC)/binding.cpp,$(SOURCES)))
# Without optimisation: the sanitizers make an optimising compiler six times as slow. A processor without AVX-512 runs that
# kernel's algorithm in narrower vectors.
FUZZ_FLAGS := -std=c++17 -O0 -g1 -ffp-contract=off -fno-math-errno -fno-omit-frame-pointer -Wno-psabi \
	-fsanitize=address,undefined -fno-sanitize-recover=all \
	$(shell grep -qs avx512bw /proc/cpuinfo || echo -DWHVI_EMULATE_AVX512)

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup native demo check quick test lint fuzz fuzz-short bench proof docs clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(VENV)/.native ## make .venv with torch, the tools, whvi itself and its kernel

demo: setup ## train a small Bayesian network and show its predictions
	@$(BIN)/whvi demo

check: lint quick ## for the daily loop, in two minutes: lint, and all tests that are not slow

quick: setup
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n auto --dist worksteal -m "not slow"

test: lint fuzz-short ## everything: lint, a short fuzz run, all tests with doctests
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist worksteal

lint: setup ## ruff, codespell, mypy --strict on src and tests, and import-linter
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/codespell *.md docs src tests benchmarks examples
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: setup ## measure the transform and its chain against memcpy, matmul and others
	@$(BIN)/whvi bench

proof: setup ## the statistical promises at full size: calibration, coverage, KL divergences; some minutes
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/proof.py

docs: $(VENV)/.docs ## build the documentation into site/, every warning an error
	OMP_NUM_THREADS=1 NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo "open site/index.html"

fuzz: ## run the kernels under AddressSanitizer and UBSan on FUZZ_CASES random cases
	@$(MAKE) --no-print-directory $(FUZZ)
	$(FUZZ) $(FUZZ_CASES)

fuzz-short:
	@if command -v $(firstword $(CXX)) >/dev/null; then $(MAKE) --no-print-directory fuzz FUZZ_CASES=2000; \
	else echo "no C++ compiler: the kernels are not fuzzed"; fi

native: ## build the kernel again, for example after a compiler was installed
	@rm -f $(VENV)/.native
	@$(MAKE) --no-print-directory setup

clean: ## remove .venv and everything that was built
	rm -rf $(VENV) build dist site .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	rm -rf src/*.egg-info src/whvi/_native* src/whvi/_no_native.txt

$(VENV)/.python:
	@command -v $(PYTHON) >/dev/null || { echo "whvi needs Python 3.11 or newer, and '$(PYTHON)' is not on PATH;" \
		"name yours: make setup PYTHON=python3.12"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "whvi needs Python 3.11 or newer, but" \
		"'$(PYTHON)' is $$($(PYTHON) --version 2>&1); name another: make setup PYTHON=python3.12"; exit 1; }
	$(PYTHON) -m venv --clear $(VENV)
	@touch $@

# torch comes first and exactly; every later install repeats the pin, so nothing can move it.
$(VENV)/.torch: $(VENV)/.python
	$(INSTALL) torch==$(TORCH) "setuptools>=77" wheel
	@touch $@

# The kernel is compiled while packages come. What goes wrong is seen below, where it is done again.
$(VENV)/.objects: $(VENV)/.torch setup.py $(INTERFACE) $(HEADERS) $(SOURCES)
	@$(BIN)/python setup.py --quiet build_ext --build-lib build/kernel >/dev/null 2>&1 || true
	@touch $@

# The package is linked here without its kernel; the next rule builds that, where its messages can be seen.
$(VENV)/.package: $(VENV)/.torch pyproject.toml setup.py
	WHVI_NO_NATIVE=1 $(INSTALL) --no-build-isolation torch==$(TORCH) -e '.[dev,cli,paper,tables]'
	@touch $@

$(VENV)/.native: $(VENV)/.package $(VENV)/.objects
	$(BIN)/python setup.py --quiet build_ext --inplace
	@$(BIN)/whvi doctor || true
	@touch $@

# The kernel's objects are there already, so this install only adds packages.
$(VENV)/.docs: $(VENV)/.package | $(VENV)/.native
	$(INSTALL) --no-build-isolation torch==$(TORCH) -e '.[dev,cli,paper,tables,docs]'
	@touch $@

$(FUZZ): $(FUZZ_OBJECTS)
	$(CXX) $(FUZZ_FLAGS) $^ -o $@

build/fuzz/%.o: $(CSRC)/%.cpp $(HEADERS) Makefile
	@mkdir -p $(@D)
	$(CXX) $(FUZZ_FLAGS) -c $< -o $@
