"""Write the versions that are tested together, from pyproject.toml: `make lock`.

    python .ci/lock.py                # pinned versions stay, as far as pyproject.toml allows them
    python .ci/lock.py --upgrade-package NAME     # this one may be newer; --upgrade: all

requirements.txt has what the course uses, requirements-hub.txt what a hub uses beyond that, and
requirements-test.txt what tests and linters use beyond both. uv resolves all of them for all
systems and Pythons; `[tool.uv]` in pyproject.toml has what it must know besides.
"""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COURSE = ROOT / "requirements.txt"
BEYOND = {"hub": ROOT / "requirements-hub.txt", "test": ROOT / "requirements-test.txt"}
COMPILE = [sys.executable, "-m", "uv", "pip", "compile", "pyproject.toml", "--universal"]
COMPILE += ["--annotation-style", "line", "--custom-compile-command", "make lock"]


def compiled(group, lock, *options):
    """Write the pins of a group of pyproject.toml into a file, and return its lines; uv explains
    what it refuses.
    """
    command = [*COMPILE, *sys.argv[1:], *options, "--extra", group, "--output-file", lock.name]
    if subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL).returncode:
        sys.exit(f"{lock.name} was not updated (see above).")
    return lock.read_text(encoding="utf-8").splitlines(keepends=True)


def names(lines):
    """Return the packages that lines pin."""
    return {line.partition("==")[0] for line in lines if "==" in line}


if __name__ == "__main__":
    locks, pinned = [COURSE], names(compiled("book", COURSE))
    for group, lock in BEYOND.items():
        # The files before this one constrain it, so that all of them can be installed together.
        constraints = [part for earlier in locks for part in ("--constraint", earlier.name)]
        every = compiled(group, lock, *constraints)
        new = [line for line in every if line.partition("==")[0] not in pinned]
        lock.write_text("".join(new), encoding="utf-8")
        locks.append(lock)
        pinned |= names(new)
