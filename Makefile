# The two commands that do all the set-up: `make course` and `make test`. The rest are their parts.

.DEFAULT_GOAL := help
.PHONY: help course test test-fast test-sweep test-exercise coverage install release lists book sample serve lint lock changes clean

PYTHON ?= $(shell command -v python3.11 || command -v python3)
PY := .venv/bin/python
# So many processes as tests/conftest.py says for this machine, but not more than memory is sure to hold.
PYTEST := $(PY) -m pytest -n logical --maxprocesses 8
export PIP_DISABLE_PIP_VERSION_CHECK = 1

help:
	@echo "make course   install, build the book, release the exercises, grade the sample class"
	@echo "make test     install, and pass the tests"
	@echo "make serve    open the book on http://127.0.0.1:8000"
	@echo "make release  solutions/ -> exercises/        make book    build the book"
	@echo "make sample   make and grade the sample class make lint    style and types (ruff, mypy, ESLint)"
	@echo "make test-fast   a first answer in a minute   make test-sweep   what takes longer"
	@echo "make test-exercise NAME=01-qkv   the tests of one exercise"
	@echo "make coverage   how much of autograder/ the fast tests run"
	@echo "make lists    what lists chapters, from book/chapters.toml"
	@echo "make lock     requirements.txt, from pyproject.toml       make changes  what is new since the last release"

course: release book sample
	@echo
	@echo "The book is built: run 'make serve' and open http://127.0.0.1:8000"
	@echo "The sample class is graded: _build/sample/report.html has every student's feedback."

install: .venv/.installed

.venv/.installed: requirements.txt pyproject.toml
	@test -n "$(PYTHON)" || { echo "Python 3.11 was not found. Install it, with its venv module."; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "This course needs Python 3.11; $(PYTHON) is older. Run: make course PYTHON=/path/to/python3.11"; exit 1; }
	@test -x $(PY) || "$(PYTHON)" -m venv .venv || \
		{ echo "Python's venv module is missing (Debian and Ubuntu: apt install python3.11-venv)."; exit 1; }
	$(PY) -m pip install -r requirements.txt
	$(PY) -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

release: install
	@$(PY) -m autograder release

lists: install
	@$(PY) -m autograder lists

book: release
	@$(PY) book/build.py

# The sample class is made from what was released. A gradebook belongs to one release: the sample's begins anew
# when an exercise is newer than it.
sample: release
	@test -z "$$(find exercises -newer _build/sample/gradebook.db 2>/dev/null | head -n 1)" || rm -rf _build/sample
	@$(PY) examples/make_class.py
	@$(PY) -m autograder grade --submitted _build/sample/submitted --into _build/sample --fall-back
	@$(PY) -m autograder report --into _build/sample

test: release
	@$(PYTEST) -m "not sweep"

test-fast: release
	@$(PYTEST) -m "not slow and not browser and not sweep"

test-exercise: install
	@test -n "$(NAME)" || { echo "Name the exercise: make test-exercise NAME=01-qkv"; exit 1; }
	@$(PYTEST) --dist load -q -m "not sweep" -k "$(NAME)" tests/test_exercises.py tests/test_labels.py tests/test_source.py

test-sweep: release
	@$(PYTEST) --dist worksteal -m sweep

coverage: release
	@$(PYTEST) -m "not slow and not browser and not sweep" --cov --cov-report=term:skip-covered

serve: install
	@test -e _build/html/index.html || { echo "The book is not built yet. Run: make course"; exit 1; }
	@echo "The book: http://127.0.0.1:8000 (Ctrl-C ends it)"
	@$(PY) -m http.server --bind 127.0.0.1 --directory _build/html 8000

lint: install
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .
	@$(PY) -m mypy
	@$(PY) book/javascript.py

# Versions that are pinned stay; to let some be newer: .venv/bin/python .ci/lock.py --upgrade NAME
lock: install
	@$(PY) .ci/lock.py

changes: install
	@$(PY) -m towncrier build --draft --version next 2>/dev/null

clean:
	rm -rf _build
