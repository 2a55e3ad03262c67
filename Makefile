# Everything here works on a fresh machine with Python 3.11 to 3.13: each target first makes what it needs.
PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3; do \
	$$p -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))' 2>/dev/null && echo $$p && break; done)
VENV := .venv
BIN := $(VENV)/bin
RESULTS ?= results
SITE ?= site

.PHONY: install bench test check schema catalog bench-overhead bench-importers bench-report bench-engines bench-peers gpu-check clean

install: $(VENV)/installed

$(VENV)/installed: pyproject.toml
	@test -n "$(PYTHON)" || { echo "accelmark needs Python 3.11, 3.12 or 3.13: install one, or name it: make PYTHON=/path/to/python"; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --disable-pip-version-check --quiet --editable '.[pytorch,dev]'
	touch $@

bench: install
	$(BIN)/accelmark run quick --out $(RESULTS)
	$(BIN)/accelmark report $(RESULTS) --with published --out $(SITE)

ALONE := tests/run tests/cli tests/measure tests/scenarios tests/engines tests/test_loop.py

test: install
	sh tests/install_chromium.sh
# What measures has the machine to itself; all else shares it.
	status=0; \
	$(BIN)/python -m pytest -n 2 --dist worksteal $(addprefix --ignore ,$(ALONE)) || status=$$?; \
	$(BIN)/python -m pytest $(ALONE) || status=$$?; \
	exit $$status

check: install
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

schema: install
	$(BIN)/python -m accelmark.record > docs/record.schema.json

catalog: install
	$(BIN)/python -m accelmark.networks.catalog

bench-overhead: install
	$(BIN)/python bench/overhead.py

bench-importers: install
	$(BIN)/python bench/importers.py

bench-report: install
	$(BIN)/python bench/report.py

bench-engines: install
	$(BIN)/python bench/engines.py

# With EXAMPLES=DIR, a clone of NVIDIA/DeepLearningExamples, beside these too.
bench-peers: install
	$(BIN)/python bench/peers/compare.py efficientnet-b0:2 resnet50-v1.5:2 bert-base:1
	test -z "$(EXAMPLES)" || $(BIN)/python bench/peers/compare.py --examples "$(EXAMPLES)" ssd300-resnet50:2 gnmt-v2:8 transformer-big:512

# On a machine with an NVIDIA GPU, without network: uses .venv if it is there, else a Python that has PyTorch.
gpu-check:
	sh bench/gpu_check.sh

clean:
	rm -rf $(VENV) build dist site .mypy_cache .pytest_cache .ruff_cache
