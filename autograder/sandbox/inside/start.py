"""The program that starts inside: gives the files here their outside names, and no way to anything
else.

    python start.py MODULE.FUNCTION ARGUMENTS

`autograder` means the folder two above this one, whatever is installed under that name. In a
sandbox it contains only these files and `checking/shared_with_guest.py`.
"""

import importlib
import os
import sys
import types

PACKAGES = ("autograder", "autograder.checking", "autograder.sandbox", "autograder.sandbox.inside")


def name_packages(root: str) -> None:
    """Let the packages' names mean folders below `root`, without what the packages themselves
    would import.
    """
    for name in PACKAGES:
        package = types.ModuleType(name)
        sys.modules[name] = package
        package.__path__ = [os.path.join(root, *name.split(".")[1:])]


def main(function: str, *arguments: str) -> None:
    """Call a function of a module next to this one."""
    folder = os.path.dirname(os.path.abspath(__file__))
    # Python puts it first, and a student's `import kernel` would find the one here.
    sys.path[:] = [path for path in sys.path if path != folder]
    name_packages(os.path.dirname(os.path.dirname(folder)))
    module, _, name = function.rpartition(".")
    getattr(importlib.import_module(f"{PACKAGES[-1]}.{module}"), name)(*arguments)


if __name__ == "__main__":
    main(*sys.argv[1:])
