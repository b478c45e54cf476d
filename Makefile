# The names under which `make` runs course.py, which does the work on every system. `make help` lists them.

.DEFAULT_GOAL := help
.PHONY: help course install install-all release book sample pdf serve hub test test-fast test-all test-exercise coverage \
        lint lists lock changes translations clean

# The first that runs: a name alone may be a shim of pyenv's for a version that is not active.
PYTHON ?= $(shell for own in python3.11 python3.12 python3.13 python3.14 python3 python; do \
                  $$own -c "" 2>/dev/null && echo $$own && break; done)

course install install-all release book sample pdf serve hub test test-fast test-all coverage lint lists lock changes translations:
	@$(or $(PYTHON),$(error No Python was found. Install 3.11 or newer, with its venv module)) course.py $@

test-exercise:
	@$(PYTHON) course.py $@ $(NAME)

help:
	@$(PYTHON) course.py --help

clean:
	rm -rf _build
