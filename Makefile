# `make demo` solves example tasks, `make test` checks everything, `make docs` builds the site. All set up .venv first.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
CHROMIUM := $(VENV)/.chromium

.PHONY: demo test check docs compiled setup lock audit clean

demo: $(READY)
	$(BIN)/python examples/demo.py

# Each of the first three keeps one core busy.
test: $(READY) $(CHROMIUM)
	$(MAKE) --jobs 3 --output-sync check docs compiled
	$(BIN)/python -m pytest -n auto --dist worksteal

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# The site, in build/site. A warning is an error.
docs: $(READY)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

# What tests need of Numba's work: workers that start together would each do it.
compiled: $(READY)
	$(BIN)/python tools/compile_kernels.py

setup: $(READY)

TORCH := torch==2.13.0

# torch comes first and alone, in an exact version. pip's sources decide which build that is: PyPI's for Linux includes
# CUDA 13; a wheel 2.13.0+cpu, where pip finds one, counts as newer. An installed build, such as 2.13.0+cu130, stays. For
# models that run Karel on the GPU, install the extra `cuda` by hand: ".[cuda]".
$(READY): pyproject.toml requirements.lock Makefile
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint requirements.lock "$(TORCH)"
	$(BIN)/python -m pip install --quiet --constraint requirements.lock --editable ".[dev,docs]"
	touch $(READY)

# The versions that development and CI install: the newest that pyproject.toml allows. Run `make test` afterwards.
# PyTorch decides about Triton and CUDA.
TOOLS := $(VENV)-tools
lock:
	test -x $(TOOLS)/bin/python || $(PYTHON) -m venv $(TOOLS)
	$(TOOLS)/bin/python -m pip install --quiet uv
	$(TOOLS)/bin/uv pip compile --quiet --upgrade --universal --python-version 3.11 --no-annotate --no-header \
		--extra dev --extra docs pyproject.toml --output-file $(TOOLS)/lock
	(grep "^#" requirements.lock; grep -vE "^(#|torch|triton|nvidia-|cuda-)" $(TOOLS)/lock) > $(TOOLS)/new
	mv $(TOOLS)/new requirements.lock

# Known vulnerabilities of these versions, PyTorch's too. It asks pypi.org, and fails where that does not know a package.
audit:
	test -x $(TOOLS)/bin/python || $(PYTHON) -m venv $(TOOLS)
	$(TOOLS)/bin/python -m pip install --quiet pip-audit
	(cat requirements.lock; echo $(TORCH)) > $(TOOLS)/audited
	$(TOOLS)/bin/pip-audit --requirement $(TOOLS)/audited --no-deps --disable-pip --strict

# The page's tests drive a real browser, the system's own.
INSTALL_CHROMIUM := apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core
$(CHROMIUM): | $(READY)
	@if command -v chromium >/dev/null; then true; \
	elif ! command -v apt-get >/dev/null; then \
		echo "make: the page's tests need Chromium: install it, so that \`chromium\` is a command" >&2; exit 1; \
	elif [ "$$(id -u)" = 0 ]; then export DEBIAN_FRONTEND=noninteractive; $(INSTALL_CHROMIUM); \
	elif command -v sudo >/dev/null; then sudo env DEBIAN_FRONTEND=noninteractive sh -c "$(INSTALL_CHROMIUM)"; \
	else echo "make: the page's tests need Chromium: run \`apt-get install chromium\` as root" >&2; exit 1; fi
	touch $(CHROMIUM)

clean:
	rm -rf $(VENV) $(VENV)-tools build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
