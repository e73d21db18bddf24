# Targets of this repository; `make help` lists them.
SHELL  := bash
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
EXTRAS := demo,bench,test,lint,docs
PYTEST := $(BIN)/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder

# Versions that pyenv or the PATH has, or paths of interpreters; one that is named here must be there.
PYTHONS ?= 3.10 3.11 3.12 3.13

# Histories of tables that tests write themselves, and of those that Hudi writes. Without a seed each run has new ones.
SOAK_LEVELS    ?= one two
HISTORIES_one  := tests/properties/test_mark_states.py tests/properties/test_sweep.py
HISTORIES_two  := tests/integration/test_clean_histories.py

# Each process of the tests, and each worker of Spark, would compile every module again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: api dashboard diagrams hooks notebooks release-check report-test setup-demo test-quick torch-test types wheel
.PHONY: help setup demo test test-vectors test-blobs docs-test test-pythons soak lint format bench docs clean

help: ## List the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# What the demo needs, which is little more than the package; the extras are added to it.
$(VENV)/.demo: pyproject.toml
	@command -v java >/dev/null || { echo "Java 17 is needed and no 'java' was found on the PATH."; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --editable ".[demo]"
	@touch $@

$(VENV)/.ready: $(VENV)/.demo
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[$(EXTRAS)]"
	@touch $@

# Each JVM of the tests starts from Spark's classes as one JVM read them.
$(VENV)/spark.jsa: $(VENV)/.ready tests/support/archive.py tests/support/quick.py
	$(BIN)/python tests/support/archive.py

setup: $(VENV)/.ready ## Make the virtual environment and install the package with all extras

setup-demo: $(VENV)/.demo ## Make the virtual environment with what the demo needs, and no tools for tests

demo: setup-demo ## Search a real table of handwritten digits, and draw the neighbours
	$(BIN)/python docs/demo.py --output demo-output

test: $(VENV)/spark.jsa ## Run all tests, on two cores: two processes take files with a SparkSession first, a third only those without
	$(PYTEST) tests/integration tests/conformance tests/docs tests/properties tests/programs tests/unit

test-quick: $(VENV)/.ready ## Run the unit tests of what changed since SINCE=main, on main since the last commit, the nearest first; none begins after 40 seconds
	@end=$$(($$(date +%s) + 40)); tests=$$($(BIN)/python tests/support/affected.py $(SINCE)) || exit 1; \
		test -z "$$tests" || $(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder --until $$end $$tests

test-vectors: $(VENV)/spark.jsa ## Run the tests of searches, indexes, joins and streams, and those of the shared ground
	$(PYTEST) $$($(BIN)/python tests/support/halves.py vectors)

test-blobs: $(VENV)/spark.jsa ## Run the tests of blobs and services, and those of the shared ground
	$(PYTEST) $$($(BIN)/python tests/support/halves.py blobs)

docs-test: $(VENV)/spark.jsa ## Run every code block of README and docs/, and every example of a docstring
	$(PYTEST) tests/docs tests/unit/test_docs.py

report-test: setup ## Look at the maintenance report in Chromium, installed where there is none, and draw the pictures of docs/
	@command -v chromium || command -v chromium-browser || command -v google-chrome || \
		$$(test $$(id -u) = 0 || echo sudo) apt-get install --yes chromium
	$(BIN)/python tests/support/report_page.py docs/pictures
	$(BIN)/python -m pytest tests/unit/test_maintenance_page.py

torch-test: $(VENV)/spark.jsa ## Install PyTorch (3 GB) in .venv-torch, run the tests and examples that need it, and write tests/torch.json
	$(BIN)/python tests/support/torch_run.py

test-pythons: ## Install the plain package in fresh environments and try it, under each of PYTHONS="3.10 3.11 3.12 3.13"
	$(PYTHON) tests/smoke/pythons.py $(PYTHONS)

soak: $(VENV)/spark.jsa ## Run the long tests once; with SOAK_MINUTES=30 random histories alone, for so long, on SOAK_LEVELS=one or two
	SOAK_SEED=$(SOAK_SEED) SOAK_MINUTES=$(SOAK_MINUTES) $(BIN)/python -m pytest -m soak \
		$(if $(SOAK_MINUTES),$(foreach level,$(SOAK_LEVELS),$(HISTORIES_$(level))))

lint: setup ## Check style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy tests/fixtures/users_script.py

types: setup ## Check by pyright, too, the types of a script that uses the whole public interface; npm gives what it runs
	$(BIN)/pyright tests/fixtures/users_script.py

format: setup ## Rewrite the code in the project's style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: setup ## Time searches beside Hudi's own function and plain SQL, for the record in benchmarks/results
	$(BIN)/python benchmarks/search.py --output bench-output

docs: setup ## Write the generated pages and pictures of docs/, and build the site into build/site
	$(BIN)/python docs/generate.py
	$(BIN)/python docs/charts.py
	$(BIN)/python -m mkdocs build --strict --quiet

diagrams: setup ## Draw the diagrams docs/pictures/*.mmd that changed, with mermaid of npm in Chromium
	npm install --prefix build/npm --no-save --ignore-scripts --silent mermaid@11
	$(BIN)/python docs/diagrams.py build/npm/node_modules/mermaid/dist/mermaid.min.js

dashboard: setup ## Ask Prometheus, installed where there is none, all that the dashboard for Grafana asks, and draw it for docs/
	@command -v prometheus || $$(test $$(id -u) = 0 || echo sudo) apt-get install --yes --no-install-recommends prometheus
	$(BIN)/python docs/dashboard_picture.py

notebooks: setup ## Run the notebooks of docs/notebooks and keep their outputs in them
	$(BIN)/python docs/keep_outputs.py

api: setup ## Record the public interface in tests/fixtures/public-api.txt
	$(BIN)/python tests/support/public_api.py

hooks: setup ## Run the linters at each commit of git, through pre-commit
	$(BIN)/pre-commit install

wheel: setup ## Build the sdist and the wheel into dist/, and try each in an empty environment
	$(BIN)/python tests/smoke/release.py --unreleased

release-check: setup ## The same, and whether version, changelog and commit are those of a release
	$(BIN)/python tests/smoke/release.py

clean: ## Remove everything the other targets made
	rm -rf $(VENV) .venv-torch *.egg-info build dist *-output .pytest_cache .mypy_cache .ruff_cache .hypothesis \
		spark-warehouse metastore_db derby.log
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
