# ropewalk: every target works from a bare clone; it needs Python 3.11 or newer, make and a package registry.
#
# Stamp files in .venv/.stamps say what is installed. A second call of a target runs no pip at all;
# a change of pyproject.toml or of the version installs again.
#
# PyTorch (for `make census`) comes from TORCH_SPEC. Where plain `pip install torch` brings a CUDA build of
# several GB and you want the CPU build, name PyTorch's CPU index:
#   PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu make census TORCH_SPEC=torch==2.13.0+cpu

PYTHON ?= python3
TORCH_SPEC ?= torch==2.13.0
TARGET ?= llama-3.1-8b

VENV := .venv
BIN := $(VENV)/bin
STAMPS := $(VENV)/.stamps
PIP := $(BIN)/python -m pip install --quiet
TORCH := $(STAMPS)/torch-$(shell printf '%s' '$(TORCH_SPEC)' | tr -c 'A-Za-z0-9.+' _)

export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_NO_INPUT := 1

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.SECONDARY:
.PHONY: help run test lint format slow census clean

help: ## list the targets
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 16

run: $(STAMPS)/base ## set up .venv, then inspect a model (TARGET=llama-3.1-8b)
	@$(BIN)/ropewalk inspect $(TARGET)

test: $(STAMPS)/group-test ## the tests, but for the slow ones and the census
	@$(BIN)/python -m pytest -m "not slow and not census"

lint: $(STAMPS)/group-lint ## ruff check, ruff format --check, pyright
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/pyright --pythonpath $(BIN)/python

format: $(STAMPS)/group-lint ## mend what ruff can mend
	@$(BIN)/ruff check --fix
	@$(BIN)/ruff format

slow: $(STAMPS)/group-test ## the tests marked slow
	@$(BIN)/python -m pytest -m slow

census: $(TORCH) $(STAMPS)/group-test $(STAMPS)/group-census ## compare with every rotary class of transformers (installs TORCH_SPEC)
	@$(BIN)/python -m pytest -m census

clean: ## remove .venv and all that the targets made
	rm -rf $(VENV) build dist .pytest_cache .ruff_cache .hypothesis
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

# --- What is installed -----------------------------------------------------------------------------------------------

# pip learned dependency groups in 25.1; the pip that venv brings may be older.
$(STAMPS)/venv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "ropewalk needs Python 3.11 or newer, \
	and $(PYTHON) is %d.%d. Name another one: make PYTHON=python3.12 ..." % sys.version_info[:2])'
	@echo "setting up $(VENV)"
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) --upgrade "pip>=25.1"
	@mkdir -p $(STAMPS) && touch $@

$(STAMPS)/base: pyproject.toml src/ropewalk/_version.py | $(STAMPS)/venv
	@echo "installing ropewalk"
	@$(PIP) --editable .
	@touch $@

$(STAMPS)/extra-%: pyproject.toml $(STAMPS)/base
	@echo "installing ropewalk[$*]"
	@$(PIP) --editable ".[$*]"
	@touch $@

$(STAMPS)/group-%: pyproject.toml $(STAMPS)/base
	@echo "installing the dependency group $*"
	@$(PIP) --group $*
	@touch $@

$(TORCH): | $(STAMPS)/venv
	@echo "installing $(TORCH_SPEC)"
	@$(PIP) "$(TORCH_SPEC)"
	@rm -f $(STAMPS)/torch-* && touch $@
