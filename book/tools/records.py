"""What the long experiments of the book's pages gave, so that no build of the book runs them.

A cell tagged `recorded` is run by `record.py` alone. What it printed, and the values of the names
that it binds and that code outside of such cells reads, are kept in `data/experiments/PAGE.json`,
with what they were made by. A build has them from there: imports, functions and classes of the cell
are run as ever, the rest is not. Where a page's code is newer than its record, a reader's build
takes the record and says so; a strict one refuses it. So such a cell

- binds what it makes, and leaves as it is what other cells bound;
- makes numbers, texts, arrays and tensors, in lists and dicts as deep as you like, for cells that
  are not recorded: models and generators only for those that are;
- prints, if it likes, and shows nothing else.

Behind it, torch and NumPy draw as after a seed of their own: draws of later cells are the same,
recorded or not.
"""

import ast
import base64
import builtins
import contextlib
import hashlib
import itertools
import json
import os
import platform
import re
import symtable
import sys
import time
import zlib
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

from autograder.authoring import json_entries
from autograder.authoring.chapters import chapter_of_page
from autograder.authoring.code_tokens import plain

BOOK = Path(__file__).resolve().parent.parent
FOLDER = BOOK / "data" / "experiments"
TAG = "recorded"
MODULES = "figures"
NO_MATTER = {"drawing", "gpu_record", "gpu_steps", "prose", "widget"}  # no result depends on these
SMALL = 64  # arrays of more numbers are kept as bytes
MARK = "__recorded__"  # the key that names the kind of a value that JSON doesn't have
IN_CHAPTER = {MARK: "as in the chapter's record"}
LARGE = 1000  # the characters of a value from which on a page has it from its chapter's record


# A page's cells.


def tags(cell):
    """Return the tags of a cell."""
    return set(cell.metadata.get("tags", ()))


def cells_of(notebook):
    """Return the cells of code whose tags have `recorded`, by their number among these."""
    return dict(
        enumerate(cell for cell in notebook.cells if cell.cell_type == "code" and TAG in tags(cell))
    )


def imported(source):
    """Return the names of the modules of `figures` that Python code imports."""
    names = set()
    try:
        tree = ast.parse(source)
    except SyntaxError:  # `run_pages.why_it_cannot_run` reports it
        return names
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == MODULES:
            names |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith(f"{MODULES}."):
            names.add(node.module.split(".")[1])
    return names


def modules(source):
    """Return the modules of `figures` behind some code, as paths by name: those that it imports,
    and so on.
    """
    paths, todo = {}, imported(source)
    while todo:
        name = todo.pop()
        shared = BOOK.glob(f"{MODULES}/{name}.py")
        of_chapters = BOOK.glob(f"[0-9][0-9]-*/{name}.py")
        path = next(itertools.chain(shared, of_chapters), None)
        if name not in paths and path:
            paths[name] = path
            todo |= imported(path.read_text(encoding="utf8"))
    return dict(sorted(paths.items()))


def digest(notebook):
    """Return a digest of what a page's records were made by: its code and the modules behind it, in
    plain form.

    Cells that only draw, keep numbers for sentences or assert do not count, unless they are
    recorded themselves.
    """
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    counted = [
        cell.source
        for cell in cells
        if TAG in tags(cell) or not {"remove-input", "remove-cell"} & tags(cell)
    ]
    texts = ["\n".join(counted)]
    for name, path in modules("\n".join(cell.source for cell in cells)).items():
        if name not in NO_MATTER:
            texts.append(path.read_text(encoding="utf8"))
    return digest_of("\0".join(map(plain, [*texts, *used_chapter_code("\n".join(texts))])))


def used_chapter_code(code):
    """Return the code of the chapters that some code takes what it uses from: a figure's module,
    or another page.
    """
    return [
        chapter_code(name) for name in sorted(set(re.findall(r"of_chapter\(\"([\w-]+)\"", code)))
    ]


def digest_of(text):
    """Return a digest of a text."""
    return hashlib.sha256(text.strip().encode()).hexdigest()


def chapter_code(name):
    """Return the code of a chapter that is tagged `course-code`."""
    # Found by a pattern: jupytext finds the same, but its import takes more than a second, each
    # time that a figure's page runs.
    cells = CODE_CELL.findall((BOOK / f"{name}.md").read_text(encoding="utf8"))
    return "\n".join(
        code
        for header, code in cells
        if re.search(r"^:?tags:.*\bcourse-code\b", header, re.MULTILINE)
    )


def recorded_tags(source):
    """Return the tags of each recorded cell of a page's source, as one text."""
    lines = [
        re.search(r"^:?tags:.*$", header, re.MULTILINE)
        for header, code in CODE_CELL.findall(source)
    ]
    return [line[0] for line in lines if line and re.search(rf"\b{TAG}\b", line[0])]


CODE_CELL = re.compile(
    r"^```{code-cell}[^\n]*\n(---\n.*?^---\n|(?::[^\n]*\n)*)(.*?)\n```$", re.MULTILINE | re.DOTALL
)


def assigned_names(source):
    """Return the names that code binds at its top level: not those of imports, functions and
    classes.
    """
    names = set()
    for statement in ast.parse(source).body:
        if not isinstance(statement, DEFINES):
            nodes = (node for node in walked(statement) if isinstance(node, ast.Name))
            names |= {node.id for node in nodes if isinstance(node.ctx, ast.Store)}
    return names


NAMED = (ast.FunctionDef, ast.ClassDef)
DEFINES = (ast.Import, ast.ImportFrom, *NAMED)
SCOPES = (
    ast.FunctionDef,
    ast.Lambda,
    ast.ClassDef,
    ast.ListComp,
    ast.SetComp,
    ast.DictComp,
    ast.GeneratorExp,
)


def walked(node):
    """Yield a node and those below it, without what has names of its own."""
    yield node
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, SCOPES):
            yield from walked(child)


class AsGenerators(ast.NodeTransformer):
    """Turns comprehensions into generators: from Python 3.12 on, `symtable` counts the names of a
    comprehension among those around it, but not the names of a generator.
    """

    def visit_ListComp(self, node):
        """Return the generator of a list's items."""
        return self.generic_visit(ast.GeneratorExp(node.elt, node.generators))

    def visit_SetComp(self, node):
        """Return the generator of a set's items."""
        return self.visit_ListComp(node)

    def visit_DictComp(self, node):
        """Return the generator of a dict's items."""
        return self.generic_visit(
            ast.GeneratorExp(ast.Tuple([node.key, node.value], ast.Load()), node.generators)
        )


def global_reads(source, at_once=True, called=True):
    """Return the global names that code reads.

    With `at_once` those that are read while it runs, and with `called` those that its functions
    read when they are called.
    """
    text = ast.unparse(AsGenerators().visit(ast.parse(source)))
    names, todo = set(), [(symtable.symtable(text, "cell", "exec"), False)]
    while todo:
        table, in_function = todo.pop()
        # A generator runs where it is written, not later as a function does.
        is_generator = table.get_name().strip("<>") == "genexpr"
        in_function = in_function or (table.get_type() == "function" and not is_generator)
        todo += [(child, in_function) for child in table.get_children()]
        is_wanted = called if in_function else at_once
        if is_wanted:
            read = (one for one in table.get_symbols() if one.is_global() and one.is_referenced())
            names |= {one.get_name() for one in read}
    return names


def names_to_record(notebook, cell):
    """Return, sorted, the names that a recorded cell binds and that code outside of recorded cells
    reads.
    """
    cells = [one for one in notebook.cells if one.cell_type == "code"]
    index = next(position for position, one in enumerate(cells) if one is cell)
    texts = [definitions(one.source) if TAG in tags(one) else one.source for one in cells]
    before = ast.parse("\n".join(texts[: index + 1])).body
    functions = {
        node.name: global_reads(ast.unparse(node)) for node in before if isinstance(node, NAMED)
    }
    rest = "\n".join(ast.unparse(node) for node in before if not isinstance(node, NAMED))
    needed = (
        global_reads("\n".join(texts[index + 1 :]))  # later cells
        | global_reads(rest, at_once=False)  # earlier code that is run later, such as lambdas
        | global_reads(texts[index], called=False)  # this cell's functions, as they are defined
    )
    # what these functions read when they are called
    while more := set().union(*(functions[name] for name in needed & functions.keys())) - needed:
        needed |= more
    return sorted(assigned_names(cell.source) & needed)


def definitions(source):
    """Return what of a recorded cell's code is run each time: imports, functions and classes."""
    return "\n".join(
        ast.unparse(node) for node in ast.parse(source).body if isinstance(node, DEFINES)
    )


# In the page's kernel. These are called by code that `as_run` puts into a recorded cell.


def load(page, number):
    """Return the values of a recorded cell, by name, and print what it printed."""
    print(read(page)["cells"][number]["printed"], end="")
    return recorded_values(page, number)


def recorded_values(page, number):
    """Return the values of a recorded cell, by name."""
    recorded = read(page)["cells"][number]["values"]
    return {name: decoded(value) for name, value in recorded.items()}


def fingerprints(names):
    """Return a fingerprint of each value that could be recorded, and of each model and
    generator, by name.
    """
    by_name = {}
    for name, value in names.items():
        # NotImplementedError is for tensors without numbers.
        with contextlib.suppress(TypeError, NotImplementedError):
            if not name.startswith("_"):
                by_name[name] = fingerprint(value)
    return by_name


def fingerprint(value):
    """Return a value's fingerprint; raise TypeError for one that `fingerprints` leaves out."""
    if isinstance(value, type):
        raise TypeError(f"{value} has no fingerprint")
    if hasattr(value, "state_dict"):
        value = value.state_dict()
    if hasattr(value, "bit_generator"):  # NumPy's
        value = value.bit_generator.state
    if hasattr(value, "get_state"):  # torch's
        value = value.get_state()
    if isinstance(value, dict):
        value = [part for item in value.items() for part in item]
    if isinstance(value, (list, tuple)):
        return hashlib.sha256("".join(map(fingerprint, value)).encode()).hexdigest()
    if hasattr(value, "detach"):
        value = value.detach().cpu().numpy()
    numbers = hasattr(value, "tobytes")
    if callable(value) or not (numbers or type(value).__module__ == builtins.__name__):
        raise TypeError(f"{type(value)} has no fingerprint")
    return hashlib.sha256(value.tobytes() if numbers else repr(value).encode()).hexdigest()


def write_cell_values(path, names, recorded_names, before, began, assigned):
    """Write the values of a cell's recorded names, and its seconds, into a file; raise an error
    if the cell did what it may not do.

    Parameters
    ----------
    path : str
    names : dict
        All names of the page's kernel.
    recorded_names : list of str
    before : dict
        The `fingerprints` of the names before the cell.
    began : float
        When the cell began, by `time.perf_counter`.
    assigned : list of str
        The names that the cell assigns.
    """
    seconds = time.perf_counter() - began
    after = fingerprints({name: value for name, value in names.items() if name in before})
    not_assigned = (before.keys() & after.keys()) - set(assigned)
    changed = sorted(name for name in not_assigned if before[name] != after[name])
    if changed:
        raise ValueError(
            "a recorded cell leaves as it is what other cells bound; this one changes "
            f"{', '.join(changed)}"
        )
    values = {}
    for name in recorded_names:
        try:
            values[name] = encoded(names[name])
        except TypeError as error:
            raise TypeError(
                f"{name} is read outside of the recorded cell that makes it, and {error}"
            ) from None
    json_entries.write(Path(path), {"seconds": round(seconds, 1), "values": values})


def reseed(page, number):
    """Let torch and NumPy draw as they do behind this cell, recorded or not."""
    seed = zlib.crc32(f"{page} {number}".encode())
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(seed)


def as_run(notebook, page, folder=None, keep_times=False):
    """Return the code to run in place of each recorded cell, by number.

    Without `folder`, it loads the record; with one, it runs the cell and writes its values there.
    With `keep_times`, cells tagged `clock` run, but later cells get the recorded values, because a
    busy machine measures no times.
    """
    # The names of this code begin with an underscore, so `fingerprints` leaves them out.
    sources = {}
    for number, cell in cells_of(notebook).items():
        reseed_code = f"import records as _records\n_records.reseed({page!r}, {number})"
        if folder is None:
            load_code = (
                f"import records as _records\nglobals().update(_records.load({page!r}, {number}))"
            )
            sources[number] = f"{load_code}\n{definitions(cell.source)}\n{reseed_code}"
            continue
        setup_code = (
            "import records as _records\nimport time as _time\n"
            "_before, _began = _records.fingerprints(globals()), _time.perf_counter()"
        )
        path, assigned = str(folder / f"{number}.json"), sorted(assigned_names(cell.source))
        keep_code = (
            f"_records.write_cell_values({path!r}, globals(), "
            f"{names_to_record(notebook, cell)!r}, _before, _began, {assigned!r})"
        )
        if keep_times and "clock" in tags(cell):
            load_code = f"globals().update(_records.recorded_values({page!r}, {number}))"
            keep_code = f"{keep_code}\n{load_code}"
        sources[number] = f"{setup_code}\n{cell.source}\n{keep_code}\n{reseed_code}"
    return sources


def printed(cell, stream="stdout"):
    """Return what a cell wrote to a stream; refuse anything that it showed."""
    if any(output.output_type != "stream" for output in cell.outputs):
        raise ValueError("a recorded cell prints, and shows nothing else: draw in another one")
    return "".join(output.text for output in cell.outputs if output.name == stream)


# Values, as JSON.


def encoded(value):
    """Return a value as JSON has it; raise TypeError for one that is not made of numbers, texts,
    arrays, tensors.

    `decoded` returns the same value, except for arrays and lists of more than `SMALL` floats:
    `packed` says how those are kept.
    """
    if value is None or type(value) in (bool, int, float, str):
        return value
    if (
        isinstance(value, list)
        and len(value) > SMALL
        and all(type(item) is float for item in value)
    ):
        import numpy as np

        return {**encoded(np.array(value)), MARK: "list"}
    if isinstance(value, list):
        return [encoded(item) for item in value]
    if type(value) is tuple:
        return {MARK: "tuple", "items": [encoded(item) for item in value]}
    if isinstance(value, dict):
        items = [[encoded(key), encoded(item)] for key, item in value.items()]
        has_plain_keys = all(isinstance(key, str) and key != MARK for key in value)
        return dict(items) if has_plain_keys else {MARK: "dict", "items": items}
    kind = type(value).__module__.partition(".")[0]
    if kind == "torch" and type(value).__name__ in ("Tensor", "Parameter"):
        return {**encoded(value.detach().cpu().numpy()), MARK: "torch"}
    if kind == "numpy" and hasattr(value, "dtype") and value.dtype.kind in "biufc":
        # `packed` looks at its bytes, which have to be in the order of its shape.
        array = value if value.ndim == 0 or value.flags.c_contiguous else value.copy()
        mark = "numpy" if type(value).__name__ == "ndarray" else "number"
        about = {MARK: mark, "dtype": str(array.dtype), "shape": list(array.shape)}
        if array.size <= SMALL and array.dtype.kind != "c":
            return {**about, "numbers": array.reshape(-1).tolist()}
        return about | packed(array.reshape(-1))
    raise TypeError(
        f"a value of {type(value).__module__}.{type(value).__qualname__} cannot be recorded"
    )


def packed(values):
    """Return the bytes of many numbers, one after the other, and the type that they are kept as.

    64-bit floats keep 32 bits if that changes none by more than a millionth of it. Floats below 32
    with at most three decimals are kept as whole thousandths, in 16 bits.
    """
    import numpy as np

    stored, scale = values, {}
    if values.dtype == "f8":
        with np.errstate(over="ignore"):
            narrow = values.astype("f4")
        if np.allclose(narrow, values, rtol=1e-6, atol=0, equal_nan=True):
            stored = narrow
    # below 32, thousandths fit in 16 bits
    if values.dtype.kind == "f" and np.abs(values).max(initial=0) < 32:
        thousandths = np.round(1000 * values.astype("f8")).astype("i2")
        if np.array_equal((thousandths / 1000).astype(values.dtype), values):
            stored, scale = thousandths, {"parts": 1000}
    # The first bytes of all numbers, then the second ones: similar bytes are neighbors, and are
    # compressed well.
    planes = stored.view("u1").reshape(-1, stored.itemsize).T.tobytes()
    return {
        "as": stored.dtype.str,
        **scale,
        "bytes": base64.b85encode(zlib.compress(planes, 9)).decode(),
    }


def unpacked(entry):
    """Return the numbers that were packed, one after the other."""
    import numpy as np

    planes = np.frombuffer(zlib.decompress(base64.b85decode(entry["bytes"])), "u1")
    by_number = np.ascontiguousarray(planes.reshape(np.dtype(entry["as"]).itemsize, -1).T)
    numbers = by_number.view(entry["as"]).reshape(-1)
    if "parts" in entry:
        numbers = numbers / entry["parts"]
    return numbers.astype(entry["dtype"])


def decoded(stored):
    """Return the value that was encoded."""
    if isinstance(stored, list):
        return [decoded(item) for item in stored]
    if not isinstance(stored, dict):
        return stored
    kind = stored.get(MARK)
    if kind is None:
        return {key: decoded(item) for key, item in stored.items()}
    if kind == "tuple":
        return tuple(decoded(item) for item in stored["items"])
    if kind == "dict":
        return {decoded(key): decoded(item) for key, item in stored["items"]}
    import numpy as np

    if "numbers" in stored:
        array = np.array(stored["numbers"], dtype=stored["dtype"])
    else:
        array = unpacked(stored)
    array = array.reshape(stored["shape"])
    if kind == "number":
        return array[()]
    if kind == "list":
        return array.tolist()
    if kind == "torch":
        import torch

        return torch.from_numpy(array)
    return array


def parts(value, path=""):
    """Yield the numbers, texts and arrays of a value that was decoded, with the path to each;
    lengths as well.
    """
    if isinstance(value, dict):
        for key, item in value.items():
            yield from parts(item, f"{path}[{key!r}]")
    elif isinstance(value, (list, tuple)):
        yield f"{path} length", str(len(value))
        for index, item in enumerate(value):
            yield from parts(item, f"{path}[{index}]")
    else:
        yield path, value


# The record of a page.


def path_of(page, records=FOLDER):
    """Return the path of a page's record, in a folder of records."""
    return Path(records) / f"{page}.json"


def read(page, records=FOLDER):
    """Return a page's record; None if there is none, or none that can be read."""
    try:
        record = json.loads(path_of(page, records).read_text(encoding="utf8"))
    except (OSError, ValueError):
        return None
    for cell in record.get("cells", ()):
        values = cell["values"]
        if IN_CHAPTER in values.values():
            shared = first_page_values(page, records)
            for name, value in values.items():
                if value == IN_CHAPTER:
                    values[name] = shared.get(name, value)
    return record


def first_page_values(page, records):
    """Return the recorded values of the first page of a page's chapter, as JSON, by name;
    nothing for that page.
    """
    chapter, values = chapter_of_page(page, BOOK.parent), {}
    record = read(chapter, records) if chapter != page else None
    for cell in record["cells"] if record else ():
        values |= cell["values"]
    return values


def is_current(page, notebook):
    """Tell whether a page's record was made by the code that the page has now."""
    record = read(page)
    count = len(cells_of(notebook))
    try:
        return (
            bool(record)
            and record.get("digest") == digest(notebook)
            and len(record.get("cells", ())) == count
        )
    except SyntaxError:  # no digest of such code
        return False


def why_unusable(page, notebook):
    """Return why a page cannot have its experiments from its record, with the cell or None; None
    if it can.
    """
    record, cells = read(page), cells_of(notebook)
    recorded = record["cells"] if record else []
    if len(recorded) != len(cells):
        return f"{len(cells)} of its cells are recorded, and its record has {len(recorded)}", None
    for number, cell in cells.items():
        values = recorded[number]["values"]
        names = [
            name
            for name in names_to_record(notebook, cell)
            if values.get(name, IN_CHAPTER) == IN_CHAPTER
        ]
        if names:
            return f"its record has no {', '.join(names)}", cell
    return None


def write_page_record(page, notebook, folder, records=FOLDER):
    """Write down a page's recorded cells, as they were run with `as_run`, which kept their
    values in a folder.
    """
    cells = []
    for number, cell in cells_of(notebook).items():
        values = json.loads((Path(folder) / f"{number}.json").read_text(encoding="utf8"))
        cells.append({"seconds": values["seconds"], "printed": printed(cell), **values})
    store_record(page, {"digest": digest(notebook), "made": made_with(), "cells": cells}, records)


def store_record(page, record, records=FOLDER):
    """Write a page's record into a folder of records.

    A large value of its chapter's first page is only there.
    """
    others = [path.stem for path in Path(records).glob(f"{page[:3]}*.json") if path.stem != page]
    sharing = [other for other in others if chapter_of_page(other, BOOK.parent) == page]
    # read before writing: they take values from this record
    before = {other: read(other, records) for other in sharing}
    shared = {
        name: value
        for name, value in first_page_values(page, records).items()
        if len(str(value)) > LARGE
    }
    cells = []
    for cell in record["cells"]:
        values = {
            name: IN_CHAPTER if name in shared and shared[name] == value else value
            for name, value in cell["values"].items()
        }
        cells.append(cell | {"values": values})
    json_entries.write(path_of(page, records), record | {"cells": cells}, levels=4)
    for other, other_record in before.items():
        store_record(other, other_record, records)


def made_with():
    """Return what a record is made with."""
    return {
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "python": platform.python_version(),
        **{name: metadata.version(name).partition("+")[0] for name in ("numpy", "torch")},
        "processor": processor(),
        "cores": os.cpu_count(),
    }


def processor():
    """Return this machine's processor, in words."""
    try:
        match = re.search(
            r"^model name\s*:\s*(.+)$",
            Path("/proc/cpuinfo").read_text(encoding="utf8"),
            re.MULTILINE,
        )
    except OSError:
        match = None
    return match[1].strip() if match else platform.processor() or platform.machine()
