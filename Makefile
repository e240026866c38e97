# make demo   set up and run the main job: train the small 1D model, sample it, edit a curve, write a page
# make test   set up with the development tools, then lint, types and the whole suite
#
# make mathematics  the tests that compare numbers, under torch's plainest instruction set (CAPABILITY=default)
# make lowest       the whole suite with the lowest version of every dependency that pyproject.toml allows, in .venv-lowest
#
# make docs   the documentation, docs/_build/html/index.html; warnings are errors, nothing is fetched
# make wheel  dist/compvae-*.whl, with the shipped models inside, and its SBOM
#
# PYTHON=python3.12        another interpreter (3.11 or newer)
# TORCH_INDEX=<url>        an index of CPU wheels of torch, so that no CUDA is downloaded
# LOCK=requirements.lock   all but torch exactly as locked, by its hashes (Python 3.11 on Linux x86_64), as CI does
PYTHON ?= python3
VENV ?= .venv
TORCH_INDEX ?=
CAPABILITY ?= default
LOWEST ?= .venv-lowest
PIP = $(VENV)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt \
      $(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX))

.PHONY: demo test lint types suite mathematics lowest docs wheel clean
.DELETE_ON_ERROR:

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "compvae needs Python 3.11 or newer; name one with make PYTHON=python3.11"; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { echo "Python's venv module is missing; on Debian install it with: apt-get install python3-venv"; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: $(VENV)/bin/python pyproject.toml constraints.txt
	$(PIP) -e '.[report,eval]'
	@touch $@

$(VENV)/.dev: $(VENV)/bin/python pyproject.toml constraints.txt
	$(if $(LOCK),$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r $(LOCK))
	$(PIP) -e '.[dev]'
	@touch $@

demo: $(VENV)/.demo
	$(VENV)/bin/python examples/demo.py --out runs/demo

test: lint types suite

lint: $(VENV)/.dev
	$(VENV)/bin/ruff check src tests benchmarks examples scripts docs
	$(VENV)/bin/ruff format --check src tests benchmarks examples scripts docs

types: $(VENV)/.dev
	$(VENV)/bin/mypy

suite: $(VENV)/.dev
	$(VENV)/bin/python -m pytest -n 2 --dist loadfile

mathematics: $(VENV)/.dev
	ATEN_CPU_CAPABILITY=$(CAPABILITY) $(VENV)/bin/python -m pytest -n 2 --dist loadfile -m mathematics

lowest:
	$(PYTHON) -m venv $(LOWEST)
	$(PYTHON) scripts/lowest.py --out $(LOWEST)/lowest.txt
	$(LOWEST)/bin/python -m pip install --quiet --disable-pip-version-check -c $(LOWEST)/lowest.txt \
	    $(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX)) -e '.[dev,track]'
	$(LOWEST)/bin/python -m pytest -n 2 --dist loadfile -W ignore::DeprecationWarning

docs: $(VENV)/.dev
	$(VENV)/bin/python -m sphinx -W --keep-going -q -b html docs docs/_build/html

wheel: $(VENV)/.dev
	$(VENV)/bin/python -m build --no-isolation --wheel --outdir dist .
	$(VENV)/bin/python scripts/sbom.py --out dist/compvae.cdx.json

clean:
	rm -rf $(VENV) $(LOWEST) build dist docs/_build .pytest_cache .mypy_cache .ruff_cache .hypothesis
