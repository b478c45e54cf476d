"""Prints all fingerprints that are stored, or compared between machines, as JSON: for
`test_digests.py`.

    python tests/helpers/digests.py FOLDER < cells.json

FOLDER is a checkout. Any Python will do, with nothing installed: what a module imports besides is a
stand-in here. `cells.json` has the cells of code of the book's pages, each its source and its tags:
no bare Python can read a page.
"""

import ast
import hashlib
import importlib.abc
import importlib.machinery
import json
import sys
import types
from pathlib import Path

ROOT = Path(sys.argv[1]).resolve()


class Anything(type):
    """The class of a stand-in: it has every attribute, and goes with every other type."""

    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Nothing

    def __or__(cls, other):
        return cls

    __ror__ = __or__


class Nothing(metaclass=Anything):
    """A stand-in for what isn't installed; as a decorator, it leaves a function as it is."""

    def __init__(self, *arguments, **named):
        pass

    def __class_getitem__(cls, key):
        return cls

    def __call__(self, *arguments, **named):
        return arguments[0] if arguments else self

    __getattr__ = Anything.__getattr__


class NotInstalled(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds a stand-in for each module that nothing else finds."""

    def find_spec(self, name, path=None, target=None):
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        module = types.ModuleType(spec.name)
        module.__getattr__ = Anything.__getattr__.__get__(module)
        return module

    def exec_module(self, module):
        pass


def digest(text):
    """The digest of a text."""
    return hashlib.sha256(text.encode()).hexdigest()


def fingerprints(pages):
    """Each fingerprint, by what it is of."""
    import accuracy
    import gpu_compile
    import records

    from autograder.authoring import code_tokens, verified
    from autograder.course import seeds
    from autograder.course.config import Exercise

    for stem, cells in pages.items():
        code_cells = [
            types.SimpleNamespace(cell_type="code", source=source, metadata={"tags": tags})
            for source, tags in cells
        ]
        notebook = types.SimpleNamespace(cells=code_cells)
        yield f"record of {stem}", records.digest(notebook)
        for number, cell in records.cells_of(notebook).items():
            yield f"names of {stem}, {number}", records.names_to_record(notebook, cell)
    book = ROOT / "book"
    for path in sorted([*book.glob("figures/*.py"), *book.glob("[0-9][0-9]-*/*.py")]):
        yield f"plain {path.name}", digest(code_tokens.plain(path.read_text(encoding="utf8")))
    yield "kernels", gpu_compile.of_kernels()
    yield "measured files", gpu_compile.digests()
    for folder in sorted((ROOT / "solutions").glob("*-*")):
        exercise = Exercise(folder.name, ROOT)
        yield f"accuracy of {folder.name}", accuracy.state(folder)
        yield (
            f"verified {folder.name}",
            verified._digest([folder], without=verified._products(folder)),
        )
        yield f"version of {folder.name}", seeds.version_of(exercise)
        # Mutants and rewrites are named, marked and drawn by what Python writes for the syntax
        # trees of answers.
        for path in sorted({*folder.glob("*.py")} - {folder / "checks.py"}):
            yield (
                f"mutants of {folder.name}/{path.name}",
                digest(ast.unparse(ast.parse(path.read_text(encoding="utf8")))),
            )
    yield "runtime", verified._digest([verified.archive.RUNTIME])
    yield "tools", verified._digest(verified.TOOLS)
    yield "a seed", seeds.seed_for("a secret", "a purpose", seeds.digest_of("π".encode(), b"b"))


if __name__ == "__main__":
    sys.path[:0] = [str(ROOT), str(ROOT / "book" / "tools"), str(ROOT / "benchmarks")]
    sys.meta_path.append(NotInstalled())
    json.dump(dict(fingerprints(json.load(sys.stdin))), sys.stdout)
