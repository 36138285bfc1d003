# Every target sets up what it needs, in .venv. PYTHON names the interpreter to make it with.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin

# The versions that were tried together; empty for the newest. Installing uses the index that pip is set up with.
VERSIONS ?= constraints.txt
PIP      := -m pip install --quiet --disable-pip-version-check
INSTALL   = PIP_CONSTRAINT=$(VERSIONS) $(BIN)/python $(PIP)
EXTRAS   := all,opentelemetry,pydantic-ai

# Tests start hundreds of programs: without bytecode, each of them would compile clew again.
unexport PYTHONDONTWRITEBYTECODE

# Three for two cores: while one test waits for a server, a terminal or a timeout, the others go on.
WORKERS ?= 3

# Tests commit thousands of times, and would wait for the disk: their stores are in memory where it has 4 GB to spare.
# What a power cut would leave is replayed from the calls that were made; no test needs a disk for that.
MEMORY := $(shell test -w /dev/shm && df -Pk /dev/shm | awk 'NR == 2 && $$4 > 4000000 { print "/dev/shm" }')
test test-full test-adapters coverage soak: export TMPDIR := $(or $(TMPDIR),$(MEMORY),/tmp)

# On CI, up to three tests that fail are run once more, and named: a busy machine may fail a test that waits.
pytest := $(if $(CI),tools/repeat.py,-m pytest)

# Folders of tests/adapters whose framework is not in .venv.
ADAPTERS := langgraph openai_agents claude litellm google_adk strands agent_framework llama_index chainlit
TEST_ADAPTERS := $(ADAPTERS:%=test-adapter-%)

.PHONY: $(TEST_ADAPTERS) run test test-full test-adapters test-newest adapter-table adapter-ranges test-all check coverage \
  bench soak fix docs dist update tried wheels clean

run: $(VENV)/.run
	@if [ -t 0 ] && [ -t 1 ]; then $(BIN)/clew; else $(BIN)/clew tour; fi
	@command -v clew > /dev/null || echo "clew is not on your PATH. In this folder, run $(BIN)/clew."

test: $(VENV)/.dev
	$(BIN)/python $(pytest) -n $(WORKERS) --dist worksteal --durations=20 -m "not soak and not full"

test-full: $(VENV)/.dev
	$(BIN)/python $(pytest) -n $(WORKERS) --dist worksteal --durations=20 -m "not soak and full"

# With the newest versions of all packages: a release of a dependency that breaks clew shows here.
test-newest:
	@rm -rf .venv-newest
	@$(MAKE) --no-print-directory VENV=.venv-newest VERSIONS= test
	@.venv-newest/bin/python tools/update.py --tried

# Frameworks need versions of SDKs that exclude each other, so each has an environment of its own.
test-adapters:
	@$(MAKE) --no-print-directory -j 2 --output-sync=target $(TEST_ADAPTERS)

$(TEST_ADAPTERS): test-adapter-%: .venv-adapters/%/.made
	.venv-adapters/$*/bin/python $(pytest) -p no:asyncio --confcutdir=tests/adapters --durations=5 tests/adapters/$*

# Writes the table of session stores in docs/how-to/test-a-session-store.md.
adapter-table: $(VENV)/.dev $(ADAPTERS:%=.venv-adapters/%/.made)
	$(BIN)/python tools/adapter_table.py

# Tests the lowest and the newest version of each framework, and writes the table in docs/reference/adapters.md.
adapter-ranges: $(VENV)/.made
	$(BIN)/python tools/adapter_ranges.py

test-all: test test-full test-adapters dist

check: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python tools/house.py
	$(BIN)/python tools/docs.py --check

# As users have it: a wheel, whose modules pip compiles. From the sources, the first start of a process would compile them.
bench: .venv-bench/.bench
	@.venv-bench/bin/python $(PIP) --no-deps --force-reinstall .
	.venv-bench/bin/python -m benchmarks

# Fails if tests run less of a part than `[tool.clew.coverage]` in pyproject.toml asks.
coverage: $(VENV)/.dev
	$(BIN)/python tools/coverage.py

soak: $(VENV)/.dev
	$(BIN)/pytest -n 2 --dist worksteal --durations=20 -m soak
	$(BIN)/python -m tests.mutants

fix: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/python tools/docs.py

# The site has an environment of its own: what builds it is no tool of the code.
docs: .venv-site/.made
	.venv-site/bin/python tools/site.py
	@echo "The documentation is in site/index.html."

.venv-site/.made: tools/site-requirements.txt
	@$(PYTHON) -m venv .venv-site
	@.venv-site/bin/python -m pip install --quiet --disable-pip-version-check -r tools/site-requirements.txt
	@touch $@

# Builds sdist and wheel twice, compares them, checks them, and tries each in an empty environment.
dist: $(VENV)/.dev
	$(BIN)/python tools/dist.py

# The newest versions that work together, for every system; then the tests have to pass.
update: $(VENV)/.dev
	$(BIN)/python tools/update.py

# The versions that are installed in $(VENV).
tried: $(VENV)/.dev
	@$(BIN)/python tools/update.py --tried

# Asks the index for the wheels of every package that `pip install clew` needs; writes docs/reference/wheels.md.
wheels: $(VENV)/.dev
	$(BIN)/python tools/wheels.py

clean:
	rm -rf $(VENV) .venv-bench .venv-newest .venv-adapters dist

$(VENV)/.made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "clew needs Python 3.11 or newer: make PYTHON=python3.12 …"; exit 1; }
	@$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.run: $(VENV)/.made pyproject.toml constraints.txt
	@echo "Setting up $(VENV) …"
	@$(INSTALL) -e .
	@touch $@

$(VENV)/.dev: $(VENV)/.made pyproject.toml constraints.txt
	@echo "Setting up $(VENV) for development …"
	@$(BIN)/python tools/group.py dev > $(VENV)/dev.txt
	@$(INSTALL) -r $(VENV)/dev.txt -e '.[$(EXTRAS)]'
	@touch $@ $(VENV)/.run

# The peers need older versions of SDKs than clew's tests do, so they have an environment of their own.
.venv-bench/.bench: pyproject.toml benchmarks/requirements.txt
	@$(MAKE) --no-print-directory VENV=.venv-bench VERSIONS= .venv-bench/.dev
	@.venv-bench/bin/python $(PIP) -r benchmarks/requirements.txt
	@touch $@

.venv-adapters/%/.made: pyproject.toml tests/adapters/requirements.txt tests/adapters/%/requirements.txt
	@echo "Setting up .venv-adapters/$* …"
	@$(PYTHON) -m venv .venv-adapters/$*
	@.venv-adapters/$*/bin/python $(PIP) --no-compile -e '.[postgres]' \
	  -r tests/adapters/requirements.txt -r tests/adapters/$*/requirements.txt
	@if [ -e tests/adapters/$*/sdist.txt ]; then cd .venv-adapters/$* && mkdir -p sdist && \
	  bin/python -m pip download --quiet --disable-pip-version-check --no-deps --no-binary :all: -d sdist \
	  -r ../../tests/adapters/$*/sdist.txt && for one in sdist/*.tar.gz; do tar xzf "$$one" -C sdist; done; fi
	@touch $@
