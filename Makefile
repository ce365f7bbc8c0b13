# make report: environment, notebooks of STUDY, site. make test: the whole test suite.
STUDY ?= handbook
PYTHON ?= python3
BIN = .venv/bin

.PHONY: report test check clean

report: .venv/ready
	@$(BIN)/python -m localeval run $(STUDY)
	@$(BIN)/python -m localeval book

test: .venv/ready
	$(BIN)/python -m pytest

check: .venv/ready
	$(BIN)/python -m localeval check

.venv/ready: requirements.txt pyproject.toml
	@echo "installing pinned packages into .venv (a few minutes, once)"
	@$(PYTHON) -c 'import sys; sys.exit("localeval needs Python 3.11 or newer; set PYTHON=...") if sys.version_info < (3, 11) else None'
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -e .
	@touch $@

clean:
	rm -rf _build runs
