# Commands for development, run in the environment that `make setup` creates. For another environment:
# make test BIN=/path/to/bin/; for the active one: make test BIN=
.DEFAULT_GOAL := help
.PHONY: help setup setup-gpu check format test test-fast test-gpu nightly coverage docs docs-fast bench dist lock
BIN ?= .venv/bin/
DOCS ?= build/docs
CUDA ?= cuda13

help:    ## print this list
	@sed -n 's/^\([a-z-]*\): *## /  make \1\t/p' Makefile | expand -t 18

setup:   ## create .venv with gpupipe (editable) and all tools
	python3 -m venv .venv
	$(BIN)pip install -e '.[dev]'

setup-gpu: ## create .venv for the tests on a machine with an NVIDIA GPU and a driver for CUDA 13; CUDA=cuda13-lite: without RAPIDS
	python3 -m venv .venv
	$(BIN)pip install -e '.[$(CUDA),cluster,torch]' hypothesis pytest pytest-xdist

check:   ## check style, prose, types and layers, without changes
	$(BIN)python -m tools.prose
	$(BIN)ruff check
	$(BIN)ruff format --check
	$(BIN)mypy
	$(BIN)lint-imports

format:  ## format the code
	$(BIN)ruff check --fix
	$(BIN)ruff format

test:    ## run the tests; GPUPIPE_DATA=<folder> adds those on public tables
	$(BIN)pytest -n auto --dist worksteal

test-fast: ## run the tests for every edit: two cases of each, no child processes, about a minute
	$(BIN)pytest --fast -n auto --dist worksteal

test-gpu: ## run the GPU tests; fails on a machine without a GPU; CUDA=cuda13-lite: those that need no RAPIDS
	$(BIN)pytest -m "gpu$(if $(findstring lite,$(CUDA)), and not rapids)" --require-gpu -n 6 --dist worksteal tests/gpu

nightly: ## run all tests, those of the night too, and record this commit as one at which all pass
	$(BIN)pytest --nightly -n auto --dist worksteal
	git rev-parse HEAD > tests/nightly.txt

coverage: ## run all tests, those of the night too, with branch coverage; writes build/coverage/index.html
	$(BIN)pytest --nightly -n auto --dist worksteal --cov --cov-report=html --cov-report=term:skip-covered

docs:    ## build the documentation into build/docs and run the gallery; warnings are errors
	$(BIN)sphinx-build -W --keep-going -q -j 2 -d build/doctrees docs $(DOCS)

docs-fast: ## build the documentation without running the gallery
	GPUPIPE_DOCS_GALLERY=0 $(BIN)sphinx-build -W --keep-going -q -j 2 -d build/doctrees docs $(DOCS)

bench:   ## benchmark configs/churn.yaml, steady and in a fresh process
	$(BIN)gpupipe bench configs/churn.yaml

dist:    ## build the wheel and the source archive into dist/
	$(BIN)python -m hatchling build

lock:    ## update constraints.txt and docker/serve*-requirements.txt: the versions that CI installs and tests
	sed '/^[^#]/,$$d' constraints.txt > constraints.new
	$(BIN)uv pip compile pyproject.toml --extra dev --constraint .ci/constraints.txt --only-binary :all: \
	  --python-version 3.11 --python-platform x86_64-manylinux_2_28 --no-header --no-annotate --quiet >> constraints.new
	mv constraints.new constraints.txt
	for image in serve serve-networks; do \
	  { echo "# Written by \`make lock\` from $$image.in: versions of constraints.txt."; \
	  $(BIN)uv pip compile docker/$$image.in --constraint constraints.txt --only-binary :all: \
	  --python-version "$$(sed -n 's/^PYTHON_VERSION=//p' docker/versions.env)" --python-platform x86_64-manylinux_2_28 \
	  --no-header --no-annotate --quiet; } > docker/$$image-requirements.txt || exit 1; done
