# Every target sets up what it needs, in .venv. PYTHON names the interpreter to make it with.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin

.PHONY: run test test-full test-all check bench soak fix clean

run: $(VENV)/.run
	@if [ -t 0 ] && [ -t 1 ]; then $(BIN)/clew chat; else $(BIN)/clew tour; fi

test: $(VENV)/.dev
	$(BIN)/pytest -n 2 --dist worksteal --durations=20 -m "not soak and not full"

test-full: $(VENV)/.dev
	$(BIN)/pytest -n 2 --dist worksteal --durations=20 -m "not soak and full"

test-all: test test-full

check: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python tools/house.py
	$(BIN)/python tools/docs.py --check

bench: .venv-bench/.bench
	.venv-bench/bin/python -m benchmarks

soak: $(VENV)/.dev
	$(BIN)/pytest -n 2 --dist worksteal --durations=20 -m soak
	$(BIN)/python -m tests.mutants

fix: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/python tools/docs.py

clean:
	rm -rf $(VENV) .venv-bench dist

$(VENV)/.made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "clew needs Python 3.11 or newer: make PYTHON=python3.12 …"; exit 1; }
	@$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.run: $(VENV)/.made pyproject.toml
	@echo "Setting up $(VENV) …"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[cli,web]'
	@touch $@

$(VENV)/.dev: $(VENV)/.made pyproject.toml
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@ $(VENV)/.run

# The peers need older versions of SDKs than clew's tests do, so they have an environment of their own.
.venv-bench/.bench: pyproject.toml benchmarks/requirements.txt
	@$(MAKE) --no-print-directory VENV=.venv-bench .venv-bench/.dev
	@.venv-bench/bin/python -m pip install --quiet --disable-pip-version-check -r benchmarks/requirements.txt
	@touch $@
