"""Build the English book with the newest Sphinx and MyST, which Jupyter Book 1 does not allow yet.

    .venv/bin/python .ci/newest_sphinx.py

They are installed into a folder of their own, in front of .venv's, and all else stays as requirements.txt has it; the
pages' results come from `_build`, where the book has to be built. A warning is an error. Prints the versions and the
time; status 1, with the log's end, if the book can't be built.
"""  # noqa: E501

import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("sphinx", "myst-parser")
# Not pinned: these packages, and what they need in a version of their own.
FREE = re.compile(r"sphinx|myst-parser|docutils|markdown-it-py|mdit-py-plugins|alabaster")
SHOWN = 40  # lines of the log of a build that failed
BUILD = """
import sys
from pathlib import Path

import docutils, myst_parser, sphinx

sys.path.insert(0, "book/tools")
import editions

folder = Path(sys.argv[1])
status = editions.sphinx(editions.SOURCE, folder / "html", folder / "kept", strict=True)
print(f"Sphinx {sphinx.__version__}, MyST {myst_parser.__version__}, docutils {docutils.__version__}")
sys.exit(bool(status))
"""  # noqa: E501


def main():
    """Install, build, and return the exit status."""
    with tempfile.TemporaryDirectory() as folder:
        packages, constraints = Path(folder) / "packages", Path(folder) / "constraints.txt"
        pins = (ROOT / "requirements.txt").read_text(encoding="utf8").splitlines()
        constraints.write_text(
            "\n".join(pin for pin in pins if "==" in pin and not FREE.match(pin)), encoding="utf8"
        )
        pip = (sys.executable, "-m", "pip", "install", "--quiet", "--upgrade")
        pip = (*pip, "--constraint", constraints)
        install = subprocess.run(
            [*pip, "--target", packages, *PACKAGES], stderr=subprocess.PIPE, text=True
        )
        if install.returncode:  # else pip only says that Jupyter Book forbids them
            print(f"{install.stderr}pip did not install the newest Sphinx and MyST.")
            return install.returncode
        begun = time.monotonic()
        build = subprocess.run(
            [sys.executable, "-c", BUILD, folder],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(packages)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
    *log, versions = build.stdout.splitlines() or [""]  # BUILD prints the versions last
    seconds = time.monotonic() - begun
    if build.returncode == 0:
        print(f"The book was built with {versions}, in {seconds:.0f} s.")
    else:
        print(*log[-SHOWN:], versions, sep="\n")
        print("The newest Sphinx and MyST do not build the book.")
    return build.returncode


if __name__ == "__main__":
    sys.exit(main())
