# Every target makes its own environment in .venv first; the second time that costs nothing.
# PYTHON=/path/to/python3 chooses the interpreter, ARGS="…" passes arguments on.

ARGS ?=
TEST_PROCESSES ?= 2
BIN := .venv/bin
ENVIRONMENT := .venv/.made

export PYTHON

.PHONY: help demo test check fuzz proof faults example bench up lock clean

help:  ## show this list
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | while IFS="$$(printf '\t')" read -r name text; do printf '  make %-8s %s\n' "$$name" "$$text"; done

demo: $(ENVIRONMENT)  ## copy a folder durably while workers and servers are killed
	$(BIN)/celeriac demo $(ARGS)

test: $(ENVIRONMENT)  ## run all tests against real servers (TEST_POSTGRES=18, 16 or system)
	$(BIN)/python -m pytest -n $(TEST_PROCESSES) --dist loadfile $(ARGS)

check: $(ENVIRONMENT)  ## lint, format, types, import contracts, docs
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -q tests/house/test_docs.py tests/house/test_layout.py

fuzz: $(ENVIRONMENT)  ## the property tests, with examples never tried before
	$(BIN)/python -m pytest -m hypothesis --hypothesis-profile new -n $(TEST_PROCESSES) --dist loadfile $(ARGS)

proof: $(ENVIRONMENT)  ## the state machine's proof in its long form (about half an hour)
	PROOF_EXAMPLES=2000 PROOF_STEPS=80 PROOF_WHOLE=1 $(BIN)/python -m pytest tests/proof --hypothesis-profile new -n $(TEST_PROCESSES) --dist loadfile --timeout 7200 $(ARGS)

faults: $(ENVIRONMENT)  ## kill and cut off durable tasks at every point they come to (about ten minutes)
	FAULTS=all $(BIN)/python -m pytest tests/faults -n $(TEST_PROCESSES) $(ARGS)

example: $(ENVIRONMENT)  ## run one of examples/ (NAME=saga)
	$(BIN)/python examples/$(NAME)/run.py

bench: $(ENVIRONMENT)  ## measure; results as JSON in benchmarks/results
	$(BIN)/python -m benchmarks $(ARGS)

up: $(ENVIRONMENT)  ## run all servers for development
	$(BIN)/celeriac up $(ARGS)

lock: $(ENVIRONMENT)  ## resolve all dependencies anew into requirements.lock
	.ci/lock $(ARGS)

clean:  ## remove the environment and all caches (not the data of `celeriac up`)
	rm -rf .venv .tools .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist build
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(ENVIRONMENT): requirements.lock pyproject.toml sdk/pyproject.toml .ci/environment
	@.ci/environment
	@touch $@
