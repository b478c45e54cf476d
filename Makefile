# The names under which `make` runs course.py, which does the work on every system. `make help` lists them.

.DEFAULT_GOAL := help
.PHONY: help course install install-all release book sample serve test test-fast test-sweep test-exercise coverage \
        lint lists lock changes translations clean

PYTHON ?= $(shell command -v python3.11 || command -v python3 || command -v python)

course install install-all release book sample serve test test-fast test-sweep coverage lint lists lock changes translations:
	@$(or $(PYTHON),$(error Python 3.11 was not found. Install it, with its venv module)) course.py $@

test-exercise:
	@$(PYTHON) course.py $@ $(NAME)

help:
	@$(PYTHON) course.py --help

clean:
	rm -rf _build
