# `make demo` and `make test` set up what they need in .venv and run; nothing else is assumed but Python 3.11+.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
WORKERS ?= auto

# Compiled modules are kept, or each worker and each process that a test starts would compile them again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-rest test-all lint docs setup dist pythons clean

demo: $(VENV)/.installed
	$(BIN)/haulout compile examples/jax/decoder_train.n4.hlo -o out/
	$(BIN)/haulout check out/program.bir
	$(BIN)/haulout simulate out/program.bir --inputs examples/jax/decoder_train.n4.npz \
		--expect examples/jax/decoder_train.n4.npz --schedule all -o out/outputs.npz

# Two tiers, described in tests/conftest.py: the first covers every kind of test in three minutes on two cores.
PYTEST = $(BIN)/python -m pytest -q -n $(WORKERS)

test: $(VENV)/.installed-dev
	$(PYTEST) -m "not long" --hypothesis-profile short

test-rest: $(VENV)/.installed-dev
	$(PYTEST) -m "long or property"

test-all: test test-rest

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# The site, with search and the API reference; a warning is an error. Open out/site/index.html.
docs: $(VENV)/.installed-dev
	$(BIN)/python -m sphinx --fail-on-warning --keep-going --quiet --builder html --conf-dir docs . out/site

# What is uploaded: the source distribution, the wheel that is built from it, and a look at both.
dist: $(VENV)/.installed-dev
	$(BIN)/python -m pip install -q -e ".[release]"
	rm -rf dist
	$(BIN)/python -m build -o dist .
	$(BIN)/python -m twine check --strict dist/*

# The wheel in a fresh environment of every Python that this machine has.
pythons: dist
	.ci/pythons

setup: $(VENV)/.installed-dev

$(VENV)/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q -e .
	touch $@

$(VENV)/.installed-dev: pyproject.toml $(VENV)/.installed
	$(BIN)/python -m pip install -q -e ".[dev,browser]"
	touch $@

clean:
	rm -rf $(VENV) out dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
