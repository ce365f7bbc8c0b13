# make report: environment, notebooks of STUDY, site. make test: the whole test suite.
STUDY ?= handbook
PYTHON ?= python3
BIN = .venv/bin

.PHONY: report test check clean docling marker

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

# Optional converters, each in an environment of its own; about 2 GB each. Marker also needs its weights and a font: the error names the variables.
docling: PACKAGES = torch==2.13.0 docling==2.143.0
marker: PACKAGES = torch==2.13.0 marker-pdf==2.0.0
docling marker:
	@test -x .engines/$@/bin/python || $(PYTHON) -m venv .engines/$@
	@.engines/$@/bin/python -m pip install --quiet --disable-pip-version-check $(PACKAGES)

clean:
	rm -rf _build runs
