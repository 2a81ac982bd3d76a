# Two commands set everything up: `make demo` and `make test`. Both keep their Python environment in .venv.
SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# torch comes from pip's index as it is configured: PIP_EXTRA_INDEX_URL with PyTorch's CPU index saves its CUDA packages.
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

SOURCES := $(shell find core bindings compll frameworks cmake -type f -not -name '*.pyc') CMakeLists.txt pyproject.toml

.PHONY: demo test lint typecheck format sanitize install clean bench

install: $(VENV)/installed

$(VENV)/requirements: requirements/build.txt requirements/dev.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) install -r requirements/build.txt -r requirements/dev.txt
	touch $@

$(VENV)/installed: $(VENV)/requirements $(SOURCES)
	$(PIP) install --no-build-isolation --no-deps --force-reinstall .
	touch $@

demo: install
	$(BIN)/python examples/torch/demo.py

test: install lint typecheck
	$(BIN)/python -m pytest

lint: $(VENV)/requirements
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	find core bindings frameworks tests -name '*.cc' -o -name '*.h' | xargs $(BIN)/clang-format --dry-run --Werror

# mypy sees the package as users do: installed.
typecheck: install
	$(BIN)/mypy -p hipress

format: $(VENV)/requirements
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	find core bindings frameworks tests -name '*.cc' -o -name '*.h' | xargs $(BIN)/clang-format -i

bench: install
	$(BIN)/python benchmarks/regenerate.py

clean:
	rm -rf build $(VENV) .nox demo
