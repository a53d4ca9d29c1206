# make deploy    set everything up, start the emulator, bootstrap and deploy examples/llama3-70b.yaml, print the outputs
# make test      set everything up, run every check and test
# make long      what make test has no time for: wider nets over what its tests show as well
# make test-torch  telemetry around PyTorch itself, on CPUs, in an environment of its own of 5 GB
# Both need only Python 3.11+, make and a package index.
SHELL := /bin/bash
.ONESHELL:
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV := .venv
BIN := $(CURDIR)/$(VENV)/bin
STAMP := $(VENV)/.installed
FOLDER := $(VENV)/.folder
TARGET ?= emulator
# Left out: examples/llama3-70b.yaml in the emulator; a real account wants one that was chosen.
WORKLOAD ?=

# Node 24 and the CDK command line come from the virtual environment; nothing of the machine's own is used.
export PATH := $(BIN):$(PATH)
export NODE_NO_WARNINGS := 1
export CDK_DISABLE_CLI_TELEMETRY := true
# Where nobody may write bytecode, as in many images of Python, each of the hundreds of processes that tests start
# compiles boto3, moto and the CDK anew: that took half of the time.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup deploy test lint types floors unit slow long test-torch browser bench constraints clean

help:
	@grep -E '^# make' Makefile | sed 's/^# //'

setup: $(STAMP)

# The scripts of a virtual environment hold its path: in a folder that was moved or copied it is made anew. So is one
# that was interrupted before pip was in it.
ifneq ($(shell cat $(FOLDER) 2>/dev/null),$(CURDIR))
.PHONY: $(STAMP)
endif
# -P is not set: app.py imports stacks from its own folder. Compiling every module of aws-cdk-lib ahead would take half
# of the time, and most are never imported.
$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "Python 3.11 or newer is needed, this is " + sys.version.split()[0] + "; add PYTHON=python3.11 to the command")'
	@if [ "$$(cat $(FOLDER) 2>/dev/null)" != "$(CURDIR)" ] || ! "$(BIN)/python" -m pip --version >/dev/null 2>&1; then $(PYTHON) -m venv --clear $(VENV) && echo "$(CURDIR)" >$(FOLDER); fi
	@echo 'Installing the Python packages, Node and cdk into $(VENV): once, for some minutes ...'
	@"$(BIN)/python" -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt -e '.[emulator,toolchain,report,dev]'
	@touch $(STAMP)

deploy: setup
	@"$(BIN)/python" tools/deploy.py --target "$(TARGET)" --workload "$(WORKLOAD)"

# Types and floors are checked beside the fast tests. Those share two processes: each pays the start of Node once, and a
# file of tests stays in one.
test: lint
	@$(MAKE) --no-print-directory -j3 types unit floors
	@$(MAKE) --no-print-directory slow

lint: setup
	ruff check .
	ruff format --check .

types: setup
	mypy

floors: setup
	lint-imports --no-cache

# Random cases are the same in every run of `make test`, so that it never fails by chance; `make long` takes new ones.
SAME_CASES := --hypothesis-profile=ci
# In the order of their folders: what is emulated first. The files with the fewest tests, which are long ones, would
# otherwise be the last, and one process would wait for the other.
unit: setup
	CDK_VALIDATION=false pytest -q $(SAME_CASES) -m "not slow and not long" -n 2 --dist loadfile --no-loadscope-reorder $(PYTEST_ARGS)

# Files that mark a test as slow: to read the others, for each process, takes longer than many of these tests.
SLOW_FILES = $$(grep -rlE --include='test_*.py' 'mark\.slow' tests examples)
slow: setup browser
	CDK_VALIDATION=false pytest -q $(SAME_CASES) -m "slow and not long" -n 2 $(PYTEST_ARGS) $(SLOW_FILES)

# Beside `make test`: before a release, and after a change of what they cover.
long: setup
	CDK_VALIDATION=false pytest -q -m long -n 2 $(PYTEST_ARGS)

# Telemetry around PyTorch itself, on CPUs. It takes some 5 GB, so it has an environment of its own, and is no part of
# `make test`. Where torch cannot be had the target says so and stops.
TORCH := .make/torch
test-torch: $(TORCH)/.installed
	PYTHONPATH=constructs $(TORCH)/bin/python -m pytest -q -p no:cacheprovider tests/torch $(PYTEST_ARGS)

$(TORCH)/.installed: tests/torch/constraints.txt
	@$(PYTHON) -m venv --clear $(TORCH)
	@echo 'Installing PyTorch into $(TORCH): once, for some minutes ...'
	@$(TORCH)/bin/python -m pip install --quiet --disable-pip-version-check -c tests/torch/constraints.txt torch pytest \
	  || { echo 'make test-torch: torch cannot be installed here; the package index of pip has to have it, and the disk 6 GB' >&2; exit 1; }
	@touch $@

# What tests of the report open it with: a Chromium and its driver, from PATH or from Debian's packages.
browser:
	@tools/browser.sh >/dev/null

bench: setup
	"$(BIN)/python" benchmarks/run.py

# Exact versions of everything, no index lines: pip freeze of a fresh environment without the project itself.
constraints:
	rm -rf .make/constraints && $(PYTHON) -m venv .make/constraints
	.make/constraints/bin/python -m pip install --quiet --disable-pip-version-check '.[emulator,toolchain,report,dev]'
	.make/constraints/bin/python -m pip freeze --exclude training-storage | grep -E '^[A-Za-z0-9_.-]+==' | LC_ALL=C sort -f > constraints.txt
	rm -rf .make/constraints

clean:
	rm -rf $(VENV) .make cdk.out
