# make demo | test | lint | proto | venv | clean. Everything lives in .venv and build/; nothing outside the tree is touched
# but the model store in the user's cache directory.

# The first interpreter that is new enough; override with make PYTHON=...
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; break; }; done)
MODEL ?= smollm2-135m
SAMPLE ?= samples/essay.txt

VENV := .venv
BIN := $(VENV)/bin
DEMO := build/demo
PIP_INSTALL := $(BIN)/python -m pip install --disable-pip-version-check --quiet --constraint constraints.txt

.PHONY: demo test lint proto venv model clean
.DELETE_ON_ERROR:

venv: $(VENV)/run.stamp

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed; name it with make PYTHON=..." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

# The torch wheel is large: the first install takes minutes.
$(VENV)/run.stamp: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP_INSTALL) --editable .
	@touch $@

# EXTRAS=dev,ray brings Ray, too, without which its tests are skipped.
EXTRAS ?= dev

$(VENV)/dev.stamp: $(VENV)/run.stamp
	$(PIP_INSTALL) --editable '.[$(EXTRAS)]'
	@touch $@

demo: $(VENV)/run.stamp
	@mkdir -p $(DEMO)
	$(BIN)/speccompact models pull $(MODEL)
	$(BIN)/speccompact compress --force --model $(MODEL) --output $(DEMO)/sample.spc $(SAMPLE)
	$(BIN)/speccompact inspect $(DEMO)/sample.spc
	$(BIN)/speccompact decompress --force --output $(DEMO)/sample.txt $(DEMO)/sample.spc
	cmp $(SAMPLE) $(DEMO)/sample.txt
	$(BIN)/speccompact bench --model $(MODEL) $(SAMPLE)

# Each process of the tests holds a model; tests of one file share what they prepare, and stay together.
TEST_PROCESSES ?= 2

# Offline, tests with the real model are skipped and reported so; with CI set a missing model is an error.
model: $(VENV)/run.stamp
	@$(BIN)/speccompact models pull --quiet $(MODEL) || echo "no $(MODEL): tests with the real model cannot run" >&2

test: $(VENV)/dev.stamp model
	$(BIN)/python -m pytest --numprocesses=$(TEST_PROCESSES) --dist=loadfile

lint: $(VENV)/dev.stamp
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

# Messages and stubs of the service; tests compare what is committed with what this makes.
proto: $(VENV)/dev.stamp
	cd proto && PATH="$(abspath $(BIN)):$$PATH" $(abspath $(BIN)/python) -m grpc_tools.protoc --proto_path=. --python_out=. \
		--grpc_python_out=. --mypy_out=quiet:. --mypy_grpc_out=quiet:. speccompact_grpc/v1/speccompact.proto

clean:
	rm -rf $(VENV) build *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
