# Everything a person or CI calls. `make demo` and `make test` set up what they need themselves.
#
#   make demo                          in a virtual environment of its own
#   make demo VENV=none PYTHON=python3 with an interpreter that has torch already (a GPU machine
#                                      without a network): nothing is installed

VENV ?= .venv
ifndef PYTHON
PYTHON := $(shell scripts/find-python)
endif
STUBS := client/compile_farm/v1
STUBS_VENV := .cache/stubs-venv
PIP_INSTALL := -m pip install --quiet --disable-pip-version-check --no-input

ifeq ($(VENV),none)
# torch finds the backend by its entry point, so a checkout needs one as well.
READY := .cache/checkout/.ready
PY := PYTHONPATH=client:.:.cache/checkout $(PYTHON)
else
PY := $(VENV)/bin/python
READY := $(VENV)/.ready
endif

# Each of two processes has servers and a farm of its own; most of the time is single compiles.
PARALLEL ?= -n 2

.DEFAULT_GOAL := help
.PHONY: help demo test test-slow test-gpu lint protos check-protos benchmark clean redis

help: ## list these targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

demo: $(READY) ## the main job: compile two real models, then load them in fresh processes
	$(PY) -m benchmarks.demo

test: $(READY) redis ## the tests, without the slow ones
	$(PY) -m pytest $(PARALLEL) --dist loadfile

test-slow: $(READY) redis ## the slow tests alone
	$(PY) -m pytest $(PARALLEL) --dist worksteal -m "slow and not gpu" --timeout 600

test-gpu: $(READY) ## the tests that need a CUDA GPU; they skip without one
	$(PY) -m pytest -m gpu -p no:cacheprovider --timeout 600

lint: $(READY) ## formatting, style and types
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy
	MYPYPATH=examples $(PY) -m mypy benchmarks examples/*.py

protos: $(STUBS_VENV)/.ready ## generate the stubs in client/compile_farm/v1 from protos/
	$(STUBS_VENV)/bin/python -m grpc_tools.protoc -Iprotos --python_out=client --pyi_out=client \
		protos/compile_farm/v1/*.proto
	$(STUBS_VENV)/bin/python -m grpc_tools.protoc -Iprotos --grpc_python_out=client \
		protos/compile_farm/v1/compiler.proto protos/compile_farm/v1/release.proto

check-protos: protos ## fail if the committed stubs are not what the protos give
	git diff --exit-code -- $(STUBS)
	@new="$$(git ls-files --others --exclude-standard -- $(STUBS))"; \
		test -z "$$new" || { echo "stubs that are not committed: $$new" >&2; exit 1; }

benchmark: $(READY) ## measure cold starts; writes benchmarks/results/
	$(PY) -m benchmarks.cold_start

clean: ## remove what make made
	rm -rf $(filter-out none,$(VENV)) .cache build dist *.egg-info
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis

# The tests talk to a real Redis.
redis:
	@scripts/install-redis.sh

.cache/checkout/.ready: pyproject.toml scripts/describe-checkout
	@test -n "$(PYTHON)"
	$(PYTHON) scripts/describe-checkout .cache/checkout
	@touch $@

$(VENV)/.ready: pyproject.toml constraints.txt
	@test -n "$(PYTHON)"
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python $(PIP_INSTALL) -c constraints.txt -e '.[dev]'
	@touch $@

# protobuf 6.31 generates code that loads on protobuf 6 and 7; the tests' own environment has 7.
$(STUBS_VENV)/.ready:
	@test -n "$(PYTHON)"
	$(PYTHON) -m venv $(STUBS_VENV)
	$(STUBS_VENV)/bin/python $(PIP_INSTALL) grpcio-tools==1.74.0 'setuptools<81'
	@touch $@
