"""What this machine has and lacks, each with what it is for and what mends it."""

import importlib.metadata
import os
import platform
import re
import shutil
import sys
from dataclasses import dataclass

from autograder import sandbox
from autograder.course import ROOT


@dataclass
class Finding:
    """One thing looked for: `state` is ok, missing (needed) or optional (absent, and only some work needs it)."""

    what: str
    state: str
    found: str
    note: str


def findings():
    """Return all findings, the needed things first."""
    return [*_python(), _packages(), _torch(), _exercises(), _writable(), *_tools(), _isolation()]


def _python():
    version = platform.python_version()
    good = sys.version_info >= (3, 11)
    yield Finding("Python", "ok" if good else "missing", version, "" if good else "Install Python 3.11 or newer.")
    if sys.platform == "linux":
        yield Finding("System", "ok", platform.system(), "reading, solving, checking and grading")
    else:
        yield Finding("System", "ok", platform.system(), "reading, solving and checking; `grade` needs Linux")


def _packages():
    wanted = re.findall(r"^([A-Za-z0-9_.-]+)==(\S+)", (ROOT / "requirements.txt").read_text(), re.MULTILINE)
    absent, other = [], []
    for name, version in wanted:
        try:
            found = importlib.metadata.version(name).partition("+")[0]
        except importlib.metadata.PackageNotFoundError:
            absent.append(name)
            continue
        if found != version:
            other.append(f"{name} {found} instead of {version}")
    if absent:
        listed = ", ".join(absent[:4]) + (" and more" if len(absent) > 4 else "")
        return Finding("Packages", "missing", f"{len(absent)} absent: {listed}", "make install")
    if other:
        return Finding("Packages", "optional", "; ".join(other[:3]), "make install brings the tested versions")
    return Finding("Packages", "ok", f"{len(wanted)} as pinned", "requirements.txt")


def _torch():
    try:
        import torch
    except ImportError:
        return Finding("torch", "missing", "not installed", "make install")
    if torch.cuda.is_available():
        return Finding("torch", "ok", f"{torch.__version__}, {torch.cuda.get_device_name()}", "the GPU is found")
    return Finding("torch", "ok", f"{torch.__version__}, CPU only", "no exercise here needs a GPU")


def _exercises():
    names = sorted(path.parent.name for path in (ROOT / "exercises").glob("*/*.ipynb"))
    if names:
        return Finding("Exercises", "ok", ", ".join(names), "released")
    return Finding("Exercises", "missing", "none", "python -m autograder release")


def _writable():
    if os.access(ROOT, os.W_OK):
        free = shutil.disk_usage(ROOT).free / 1e9
        return Finding("Course folder", "ok", f"writable, {free:.0f} GB free", "gradebook, feedback, builds")
    return Finding("Course folder", "missing", "read-only", f"make {ROOT} writable, or grade with --into elsewhere")


def _tools():
    for name, names, purpose in (
        ("make", ("make",), "the two commands of the README; each can be run by hand instead"),
        ("Chromium", ("chromium", "chromium-browser", "google-chrome"), "the browser tests"),
        ("git", ("git",), "changing the course"),
    ):
        found = next((path for path in map(shutil.which, names) if path), None)
        yield Finding(name, "ok" if found else "optional", found or "not found", purpose)


def _isolation():
    lacks = sandbox.missing()
    if not lacks:
        return Finding("Isolation", "ok", "bubblewrap, seccomp", "`grade` runs submissions in a sandbox")
    note = "; ".join(lacks) + ". `grade` refuses without it (--no-sandbox goes on at your own risk)"
    return Finding("Isolation", "optional", "none", note)
