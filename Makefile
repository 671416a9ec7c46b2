# Everything a person or CI calls. `make demo` and `make test` set up what they need themselves.
#
#   make demo                          in a virtual environment of its own
#   make demo VENV=none PYTHON=python3 with an interpreter that has torch already (a GPU machine)

VENV ?= .venv
PYTHON ?= $(shell scripts/find-python)
STUBS_VENV := .cache/stubs-venv

ifeq ($(VENV),none)
PY := PYTHONPATH=client:. $(PYTHON)
READY :=
else
PY := $(VENV)/bin/python
READY := $(VENV)/.ready
endif

.DEFAULT_GOAL := help
.PHONY: help demo test test-slow test-gpu lint protos check-protos benchmark clean

help: ## list these targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

demo: $(READY) ## the main job: compile two real models, then load them in fresh processes
	$(PY) -m benchmarks.demo

test: $(READY) redis ## the tests, without the slow ones
	$(PY) -m pytest

test-slow: $(READY) redis ## the slow tests alone
	$(PY) -m pytest -m "slow and not gpu" --timeout 600

test-gpu: $(READY) ## the tests that need a CUDA GPU; they skip without one
	$(PY) -m pytest -m gpu -p no:cacheprovider --timeout 600

lint: $(READY) ## formatting, style and types
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy

protos: $(STUBS_VENV)/.ready ## generate the stubs in client/compile_farm/v1 from protos/
	$(STUBS_VENV)/bin/python -m grpc_tools.protoc -Iprotos --python_out=client --pyi_out=client \
		protos/compile_farm/v1/*.proto
	$(STUBS_VENV)/bin/python -m grpc_tools.protoc -Iprotos --grpc_python_out=client \
		protos/compile_farm/v1/compiler.proto

check-protos: protos ## fail if the committed stubs are not what the protos give
	git diff --exit-code -- client/compile_farm/v1

benchmark: $(READY) ## measure cold starts; writes benchmarks/results/
	$(PY) -m benchmarks.cold_start

clean: ## remove what make made
	rm -rf $(VENV) .cache build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis

.PHONY: redis
redis:
	@scripts/install-redis

$(VENV)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet -c constraints.txt -e '.[dev]'
	touch $@

# protobuf 6.31 generates code that loads on protobuf 6 and 7; the tests' own environment has 7.
$(STUBS_VENV)/.ready:
	$(PYTHON) -m venv $(STUBS_VENV)
	$(STUBS_VENV)/bin/python -m pip install --quiet grpcio-tools==1.74.0 'setuptools<81'
	touch $@
