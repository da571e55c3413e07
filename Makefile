# Set-up and the daily commands. Everything lives in .venv of this checkout; versions come from constraints.txt.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo lint test simulate fuzz check bench dist docs format lock man reference

unexport PYTHONDONTWRITEBYTECODE  # else every rank and agent of the tests compiles all code anew

# make demo TORCH=cpu takes the build of torch for CPUs, which PyPI does not have for Linux.
TORCH ?= cuda
CPU_INDEX ?= https://download.pytorch.org/whl/cpu
ifeq ($(TORCH),cpu)
SIZE := torch for CPUs from $(CPU_INDEX): some 300 MB are downloaded and take 1 GB of disk
else ifeq ($(shell uname),Linux)
SIZE := 3.1 GB are downloaded and take 6 GB of disk, some minutes (torch for GPUs; a tenth of it: make $(MAKECMDGOALS) TORCH=cpu)
else
SIZE := some 300 MB are downloaded and take 1 GB of disk
endif

PIP_INSTALL := $(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt
INSTALL := $(PIP_INSTALL) --editable
# From that index alone, as pip would take the build for GPUs where it cannot be reached.
ifeq ($(TORCH),cpu)
INSTALL_TORCH := $(PIP_INSTALL) --no-deps --index-url $(CPU_INDEX) torch torchvision
endif

.venv/installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "rankboard needs Python 3.11 or newer: make PYTHON=/path/to/python3.11")'
	@echo "installing rankboard and torch into .venv: $(SIZE)"
	$(PYTHON) -m venv .venv
	$(INSTALL_TORCH)
	$(INSTALL) '.[local]'
	@touch $@

# Also install what tests and checks need.
.venv/installed-dev: .venv/installed
	$(INSTALL) '.[dev]'
	@touch $@

# Train LeNet-5 on bundled digits with four ranks on this machine: in the dashboard, or as lines without a terminal.
demo: .venv/installed
	@if [ -t 0 ] && [ -t 1 ]; then headless=; else headless=--run; fi; \
	$(BIN)/rankboard --local 4 --model lenet5 --dataset digits --epochs 20 $$headless

# Run four tests at a time, because tests of hosts and ranks often wait. Idle workers take tests from the others.
test: .venv/installed-dev
	@.ci/test-packages
	$(BIN)/pytest -n 4 --dist worksteal

# Simulate seeds. A seed that fails is printed as a story.
SEEDS ?= 2000
simulate: .venv/installed-dev
	$(BIN)/python -m tests.simulation --seeds $(SEEDS)

# Send random records and read mutated run directories. A seed that fails is printed with what it was given.
RECORDS ?= 100000
FOLDERS ?= 2000
SEED ?= 1
fuzz: .venv/installed-dev
	$(BIN)/python -m tests.hostile.fuzz --records $(RECORDS) --folders $(FOLDERS) --seed $(SEED)

# Check format, lint, types and import rules, without tests.
lint: .venv/installed-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	MYPYPATH=bench $(BIN)/mypy bench/*.py bench/parts/*.py
	MYPYPATH=docs/pictures $(BIN)/mypy docs/pictures/*.py
	MYPYPATH=docs $(BIN)/mypy docs/man_page.py docs/reference_pages.py
	$(BIN)/lint-imports

check: lint test

format: .venv/installed-dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# Run the benchmarks that take a few minutes. The first lines of the others say how to run them.
bench: .venv/installed-dev
	@for bench in startup between link sync; do echo "== $$bench"; $(BIN)/python bench/$$bench.py || exit; done

# Build the wheel and the source archive, and check both. REPOSITORY_URL=https://… links to where they come from.
dist: .venv/installed-dev
	rm -rf dist
	$(BIN)/python -m build --no-isolation --outdir dist
	$(BIN)/twine check --strict dist/*
	$(BIN)/check-wheel-contents dist/*.whl

# Build the site of the documentation; a broken link, or a page that is not in the menu, ends it.
docs: .venv/installed-dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo 'open build/site/index.html in a browser'

# Write the manual page, from the same source as --help: man build/rankboard.1
man: .venv/installed
	@mkdir -p build
	$(BIN)/python docs/man_page.py > build/rankboard.1

# Renew the pages of docs/reference that are written from flags, docstrings and keys.
reference: .venv/installed
	$(BIN)/python docs/reference_pages.py

# Take the newest versions that fit: into uv.lock, with their hashes, and from there into constraints.txt, for pip.
lock:
	uv lock --upgrade
	uv export --quiet --locked --all-extras --no-hashes --no-annotate --no-header --no-emit-project \
		--output-file constraints.txt
