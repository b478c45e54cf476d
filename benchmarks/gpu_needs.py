"""What a case of the benchmark needs of the machine."""

import importlib.util
import shutil


class Absent(Exception):
    """What a case needs of the machine is not there."""


def needs(*modules, programs=()):
    """Raise Absent for what is not installed."""
    lacking = [name for name in modules if importlib.util.find_spec(name) is None]
    lacking += [name for name in programs if shutil.which(name) is None]
    if lacking:
        raise Absent(f"not installed: {', '.join(lacking)}")
