# make report: environment, notebooks of STUDY, site. make test: the whole test suite. make ocr: engines that read scans.
STUDY ?= handbook
PYTHON ?= python3
BIN = .venv/bin
OCR_LANGUAGES ?= eng tur
RAPIDOCR = rapidocr==3.10.0 onnxruntime==1.32.0 opencv-python-headless==5.0.0.93 numpy==2.4.6 pillow==13.0.0

.PHONY: report test check ocr docling marker clean

report: .venv/ready
	@$(BIN)/python -m localeval run $(STUDY)
	@$(BIN)/python -m localeval book

test: .venv/ready
	$(BIN)/python -m pytest -n 2 --dist loadgroup

check: .venv/ready
	$(BIN)/python -m localeval check

.venv/ready: requirements.txt pyproject.toml
	@echo "installing pinned packages into .venv (a few minutes, once)"
	@$(PYTHON) -c 'import sys; sys.exit("localeval needs Python 3.11 or newer; set PYTHON=...") if sys.version_info < (3, 11) else None'
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -e .
	@touch $@

# Tesseract from the system's packages where that is apt, and RapidOCR (about 500 MB) in an environment of its own.
ocr: .engines/rapidocr/ready
	@if command -v apt-get >/dev/null; then \
	  as=; test "$$(id -u)" = 0 || as=sudo; \
	  $$as apt-get update -qq && $$as apt-get install -y -qq --no-install-recommends tesseract-ocr $(OCR_LANGUAGES:%=tesseract-ocr-%); \
	elif command -v tesseract >/dev/null; then tesseract --version | head -n 1; else \
	  echo "install Tesseract 5 with its language data: 'brew install tesseract tesseract-lang' on macOS, 'dnf install tesseract' on"; \
	  echo "Fedora, the installer that the project's site names on Windows; then put it on the PATH"; fi
	@if test -x $(BIN)/localeval; then $(BIN)/localeval doctor | grep OCR; else echo "now: make report"; fi

.engines/rapidocr/ready: Makefile
	@test -x .engines/rapidocr/bin/python || $(PYTHON) -m venv .engines/rapidocr
	@.engines/rapidocr/bin/python -m pip install --quiet --disable-pip-version-check $(RAPIDOCR)
	@touch $@

# Optional converters, each in an environment of its own; about 2 GB each. Marker also needs its weights and a font: the error names the variables.
docling: PACKAGES = torch==2.13.0 docling==2.143.0
marker: PACKAGES = torch==2.13.0 marker-pdf==2.0.0
docling marker:
	@test -x .engines/$@/bin/python || $(PYTHON) -m venv .engines/$@
	@.engines/$@/bin/python -m pip install --quiet --disable-pip-version-check $(PACKAGES)

clean:
	rm -rf _build runs
