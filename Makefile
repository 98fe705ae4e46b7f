# The words of daily work. They use the virtual environment that `make setup` makes, or another: make test BIN=/path/to/bin/
.DEFAULT_GOAL := help
.PHONY: help setup check format test test-fast docs docs-fast bench lock
BIN ?= .venv/bin/

help:    ## print these lines
	@sed -n 's/^\([a-z-]*\): *## /  make \1\t/p' Makefile | expand -t 18

setup:   ## make .venv with gpupipe (editable) and every tool
	python3 -m venv .venv
	$(BIN)pip install -e '.[dev]'

check:   ## style, types and layers; changes nothing
	$(BIN)ruff check
	$(BIN)ruff format --check
	$(BIN)mypy
	$(BIN)lint-imports

format:  ## put the code into shape
	$(BIN)ruff check --fix
	$(BIN)ruff format

test:    ## all tests; GPUPIPE_DATA=<folder> adds those on public tables
	$(BIN)pytest -n auto --dist worksteal

test-fast: ## the tests to run after every edit: two cases of each, no processes, about a minute
	$(BIN)pytest --fast -n auto --dist worksteal

docs:    ## build the documentation into build/docs/html, warnings as errors, gallery scripts included
	$(BIN)sphinx-build -W --keep-going -q -j 2 -d build/docs/doctrees docs build/docs/html

docs-fast: ## the same without running the gallery scripts
	GPUPIPE_DOCS_GALLERY=0 $(BIN)sphinx-build -W --keep-going -q -j 2 -d build/docs/doctrees docs build/docs/html

bench:   ## measure the main job, cold and warm, against hand-written peers
	$(BIN)gpupipe bench configs/churn.yaml

lock:    ## update constraints.txt to the newest versions, which CI installs and tests
	sed '/^[^#]/,$$d' constraints.txt > constraints.new
	$(BIN)uv pip compile pyproject.toml --extra dev --constraint .ci/constraints.txt --only-binary :all: \
	  --python-version 3.11 --python-platform x86_64-manylinux_2_28 --no-header --no-annotate --quiet >> constraints.new
	mv constraints.new constraints.txt
