# `make setup` is all that a checkout needs; every other target runs it first, and it costs nothing when up to date.

PYTHON_BIN := .venv/bin/python
STAMP := .venv/.setup-done

# Homebrew keeps its JDK off the PATH.
ifeq ($(JAVA_HOME),)
  BREW_JDK := $(firstword $(wildcard /opt/homebrew/opt/openjdk@17 /usr/local/opt/openjdk@17))
  ifneq ($(BREW_JDK),)
    export JAVA_HOME := $(BREW_JDK)
  endif
endif

.PHONY: help setup demo test bench soak lint clean

help: ## Show this list
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1	\2/p' Makefile

setup: $(STAMP) ## Create .venv and check Java

$(STAMP): pyproject.toml scripts/setup.sh
	@bash scripts/setup.sh
	@touch $@

demo: setup ## Run a small program on Spark
	@$(PYTHON_BIN) examples/sensors.py

test: setup ## Run the whole suite
	@$(PYTHON_BIN) -m pytest

bench: setup ## Measure throughput and latency
	@$(PYTHON_BIN) -m benchmarks

soak: setup ## Run thousands of random programs, then for a long time and watch memory, files and latency
	@MILLRACE_PROGRAMS=2000 $(PYTHON_BIN) -m pytest --timeout=3600 tests/properties \
	  tests/runtime/windowing/test_random_windows.py tests/cep/test_random_patterns.py
	@$(PYTHON_BIN) -m benchmarks.soak

lint: setup ## Style, types, one-way imports, size budgets
	@$(PYTHON_BIN) -m ruff check .
	@$(PYTHON_BIN) -m mypy
	@$(PYTHON_BIN) tools/check_imports.py
	@$(PYTHON_BIN) tools/check_budgets.py

clean: ## Remove .venv and everything that tools and Spark left behind
	@rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist \
	  spark-warehouse metastore_db derby.log artifacts
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
