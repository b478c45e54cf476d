"""Submissions that try to get points they have not earned.

Some try to gain by the course's answer, which is used in place of a function of theirs that fails.
"""

import nbformat

from autograder.grades.results import Kind
from hostile.case import (
    ALL,
    LEFT,
    LIVE,
    NONE,
    RIGHT,
    SHAPE,
    TWICE,
    ZERO,
    Case,
    code,
    extra,
    find,
)


def forged(name, does, text, points=NONE, kind=Kind.WRONG, twice=ZERO["twice"], **more):
    """Return a case whose cell `add` holds the attack; unless it has its own, answers are worth
    nothing.
    """
    text = code(text)
    if "def add(" not in text:
        text += "\n\n" + ZERO["add"]
    return Case(name, does, points, kind, cells={"add": text, "twice": twice}, **more)


def tagged(*tags):
    def edit(notebook, folder):
        for cell in notebook.cells:
            if cell.metadata.get("nbgrader", {}).get("grade"):
                cell.metadata["tags"] = list(tags)

    return edit


def changed(source=None, **flags):
    """Return an edit that changes the source or nbgrader's metadata of both check cells."""

    def edit(notebook, folder):
        for name in ("check_add", "check_twice"):
            cell = notebook.cells[find(notebook, name)]
            cell.source = cell.source if source is None else source(cell.source)
            cell.metadata["nbgrader"].update(flags)

    return edit


def retyped(kind):
    def edit(notebook, folder):
        for name in ("check_add", "check_twice"):
            place = find(notebook, name)
            old = notebook.cells[place]
            new = getattr(nbformat.v4, f"new_{kind}_cell")(old.source, metadata=old.metadata)
            new["id"] = old.id
            notebook.cells[place] = new

    return edit


def errors_allowed(notebook, folder):
    notebook.metadata["execution"] = {"allow_errors": True}
    notebook.metadata["allow_errors"] = True
    tagged("raises-exception")(notebook, folder)


def answered(notebook, folder):
    """Stored outputs that say full points."""
    for cell in notebook.cells:
        own = cell.metadata.get("nbgrader", {})
        if own.get("grade") and cell.cell_type == "code":
            text = repr(float(own["points"]))
            cell.outputs = [
                nbformat.v4.new_output("execute_result", {"text/plain": text}, execution_count=1)
            ]
            cell.execution_count = 1


def bonus(notebook, folder):
    cell = nbformat.v4.new_code_cell("500")
    cell.metadata["nbgrader"] = {
        "grade": True,
        "grade_id": "bonus",
        "locked": True,
        "points": 500,
        "schema_version": 3,
        "solution": False,
        "task": False,
    }
    notebook.cells.append(cell)


def altered_and_right(notebook, folder):
    changed(lambda source: source + "\nprint('I looked here')\n6.0")(notebook, folder)


YES = """
class Yes:
    shape = (3,)
    dtype = float
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    def __lt__(self, other): return True
    __le__ = __gt__ = __ge__ = __lt__
    def __bool__(self): return True
    def __float__(self): return 0.0
    def __sub__(self, other): return self
    __rsub__ = __abs__ = lambda self, *others: self
    def __getattr__(self, name): return lambda *a, **k: self
    __hash__ = None

def add(a, b):
    yes = Yes()
    yes.shape = a.shape
    return yes
"""

CASES = [
    # Equality
    forged("eq-always-true", "returns an object equal to everything", YES),
    forged(
        "eq-array-subclass",
        "returns an array whose comparisons and differences lie",
        """
        import numpy as np

        class Lies(np.ndarray):
            def __eq__(self, other): return np.ones(self.shape, bool)
            def __sub__(self, other): return np.zeros(self.shape)
            __rsub__ = __sub__
            def __abs__(self): return np.zeros(self.shape)
            def __le__(self, other): return np.ones(self.shape, bool)
            def astype(self, *args, **kwargs): return self
            def any(self, *args, **kwargs): return np.False_
            __hash__ = None

        def add(a, b):
            return np.zeros(a.shape).view(Lies)
        """,
        points=SHAPE,
    ),
    forged(
        "float-subclass",
        "returns a float whose comparisons lie",
        """
        class Near(float):
            shape = ()
            def __eq__(self, other): return True
            def __lt__(self, other): return True
            __le__ = __gt__ = __ge__ = __lt__
            __sub__ = __rsub__ = __abs__ = lambda self, *others: Near(0)
            __hash__ = float.__hash__

        def add(a, b):
            return Near(0)
        """,
    ),
    forged(
        "class-claims-array",
        "returns an object that claims to be of class ndarray",
        """
        import numpy as np

        class Claims:
            __class__ = np.ndarray
            def __array__(self, dtype=None, copy=None): raise AttributeError
            def __eq__(self, other): return True

        def add(a, b):
            return Claims()
        """,
    ),
    # Display
    forged(
        "displayhook-call",
        "displays a result of 4 points inside the function under test",
        """
        import sys
        def add(a, b):
            sys.displayhook(4.0)
            return 0
        """,
    ),
    forged(
        "displayhook-replaced",
        "replaces the display hook by one that always shows 2 points",
        """
        import sys
        from IPython import get_ipython
        shell = get_ipython()
        old = shell.displayhook
        class Two(type(old)):
            def __call__(self, result=None):
                super().__call__(2.0)
        old.__class__ = Two
        """,
    ),
    forged(
        "formatter-for-floats",
        "makes every float print itself as 2 points",
        """
        from IPython import get_ipython
        plain = get_ipython().display_formatter.formatters["text/plain"]
        plain.for_type(float, lambda value, printer, cycle: printer.text("2.0"))
        """,
    ),
    forged(
        "pre-run-hook",
        "shows 2 points before every cell",
        """
        from IPython import get_ipython
        shell = get_ipython()
        shell.events.register("pre_run_cell", lambda info: shell.displayhook(2.0))
        """,
    ),
    forged(
        "round-patched",
        "replaces the built-in round, so that every score becomes 2",
        """
        import builtins
        builtins.round = lambda value, digits=None: 2.0
        """,
    ),
    forged(
        "score-is-nan",
        "makes check cells evaluate to nan",
        """
        from IPython import get_ipython
        plain = get_ipython().display_formatter.formatters["text/plain"]
        plain.for_type(float, lambda value, printer, cycle: printer.text("nan"))
        """,
    ),
    forged(
        "score-is-none",
        "makes check cells evaluate to none",
        """
        from IPython import get_ipython
        plain = get_ipython().display_formatter.formatters["text/plain"]
        plain.for_type(float, lambda value, printer, cycle: printer.text("None"))
        """,
    ),
    forged(
        "score-is-negative",
        "makes check cells evaluate to negative",
        """
        from IPython import get_ipython
        plain = get_ipython().display_formatter.formatters["text/plain"]
        plain.for_type(float, lambda value, printer, cycle: printer.text("-3"))
        """,
    ),
    # The shell
    forged(
        "input-transformer",
        "turns later cells into pass, by an input transformer",
        """
        from IPython import get_ipython
        get_ipython().input_transformers_post.append(lambda lines: ["pass\\n"])
        """,
        twice="pass",
    ),
    forged(
        "ast-transformer",
        "replaces calls of checks by 2 points, by an AST transformer",
        """
        import ast
        from IPython import get_ipython
        class Swap(ast.NodeTransformer):
            def visit_Call(self, node):
                if isinstance(node.func, ast.Attribute) and node.func.attr == "run":
                    return ast.copy_location(ast.Constant(2.0), node)
                return self.generic_visit(node)
        get_ipython().ast_transformers.append(Swap())
        """,
    ),
    forged(
        "run-cell-stub",
        "replaces the shell's run_cell_async by a stub that reports success",
        """
        from IPython import get_ipython
        from IPython.core.interactiveshell import ExecutionResult
        async def fine(*args, **kwargs):
            return ExecutionResult(None)
        get_ipython().run_cell_async = fine
        """,
    ),
    forged(
        "do-execute-stub",
        "replaces the kernel's do_execute by a stub",
        """
        from IPython import get_ipython
        kernel = get_ipython().kernel
        async def fine(*args, **kwargs):
            return {"status": "ok", "execution_count": 1, "payload": [], "user_expressions": {}}
        kernel.do_execute = fine
        """,
    ),
    forged(
        "exec-patched",
        "replaces exec and compile for everything that follows",
        """
        import builtins
        old = builtins.compile
        def compile(source, *args, **kwargs):
            if isinstance(source, str) and "checks.run" in source:
                source = "2.0"
            return old(source, *args, **kwargs)
        builtins.compile = compile
        import ast
        parse = ast.parse
        ast.parse = lambda source, *args, **kwargs: parse(
            "2.0" if isinstance(source, str) and "checks.run" in source else source, *args, **kwargs
        )
        """,
    ),
    # Metadata
    Case(
        "tag-skip",
        "tags check cells skip-execution",
        NONE,
        Kind.WRONG,
        cells=ZERO,
        edit=tagged("skip-execution"),
    ),
    Case(
        "tag-raises",
        "allows errors in check cells, by metadata",
        NONE,
        Kind.WRONG,
        cells=ZERO,
        edit=errors_allowed,
    ),
    Case(
        "check-cell-raw",
        "turns check cells into raw cells",
        NONE,
        Kind.WRONG,
        cells=ZERO,
        edit=retyped("raw"),
    ),
    Case(
        "check-cell-markdown",
        "turns check cells into text, by accident; all is right",
        ALL,
        Kind.RIGHT,
        edit=retyped("markdown"),
    ),
    Case(
        "outputs-forged",
        "stores outputs that claim full points",
        NONE,
        Kind.WRONG,
        cells=ZERO,
        edit=answered,
    ),
    # Patches
    forged(
        "patch-testing",
        "replaces numpy's and torch's own comparisons",
        """
        import numpy as np
        import torch
        np.testing.assert_allclose = np.testing.assert_array_equal = lambda *a, **k: None
        np.allclose = np.array_equal = torch.allclose = torch.equal = lambda *a, **k: True
        torch.testing.assert_close = lambda *a, **k: None
        """,
    ),
    forged(
        "patch-expect",
        "replaces the comparisons of the checks",
        """
        import checking, checking.expect
        for module in (checking, checking.expect):
            module.expect_close = module.expect_array = lambda got, *a, **k: got
        """,
    ),
    forged(
        "patch-run",
        "replaces the checks' run function in a cell of its own",
        "pass",
        edit=extra(
            "import checks\nchecks.run = lambda subject, points: points", before="check_add"
        ),
    ),
    forged(
        "patch-suite",
        "replaces the method that counts passed checks",
        """
        from autograder.checking import suite
        old = suite.Suite.examine
        def examine(self, *args, **kwargs):
            report = old(self, *args, **kwargs)
            report.score = report.points
            return report
        suite.Suite.examine = examine
        """,
    ),
    forged(
        "patch-numpy-add",
        "replaces np.add by its own wrong function",
        """
        import numpy as np
        def add(a, b):
            return a - b
        np.add = add
        """,
        points=SHAPE,
    ),
    forged(
        "patch-numpy-array",
        "replaces np.array, which reads results",
        """
        import sys
        import numpy as np
        old = np.array
        def array(value, *args, **kwargs):
            frame = sys._getframe(1)
            while frame is not None:
                if "expected" in frame.f_locals and isinstance(frame.f_locals["expected"], np.ndarray):
                    return old(frame.f_locals["expected"])
                frame = frame.f_back
            return old(value, *args, **kwargs)
        np.array = array
        def add(a, b):
            return np.zeros(a.shape)
        """,
        points=SHAPE,
    ),
    forged(
        "patch-random",
        "replaces numpy's random numbers, so that all inputs are zero",
        """
        import numpy as np
        class Zeros:
            def __init__(self, *seed): pass
            def choice(self, values, size, replace): return list(values)[:size]
            def uniform(self, low, high, size): return np.zeros(size)
            def random(self, size): return np.zeros(size)
        np.random.default_rng = Zeros
        def add(a, b):
            return a - b
        """,
        points=SHAPE,
        twice="def twice(a):\n    return a",
    ),
    forged(
        "fake-module",
        "replaces the checks by a module of its own",
        """
        import sys, types
        fake = types.ModuleType("checks")
        fake.run = lambda subject, points: points
        sys.modules["checks"] = fake
        """,
    ),
    forged(
        "import-hook",
        "replaces modules by its own, with an import hook",
        """
        import sys, types, importlib.abc, importlib.machinery
        class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
            def find_spec(self, name, path, target=None):
                if name in ("checks", "checking"):
                    return importlib.machinery.ModuleSpec(name, self)
            def exec_module(self, module):
                module.run = lambda subject, points: points
        sys.meta_path.insert(0, Finder())
        """,
    ),
    # Objects that lie
    forged(
        "torch-function-lies",
        "returns a tensor that answers every torch function as it likes",
        """
        import torch
        class Lies(torch.Tensor):
            @classmethod
            def __torch_function__(cls, function, types, args=(), kwargs=None):
                if getattr(function, "__name__", "") in ("allclose", "equal", "eq", "isclose", "all"):
                    return True
                return super().__torch_function__(function, types, args, kwargs or {})
        def add(a, b):
            return torch.zeros(1, dtype=torch.float64).as_subclass(Lies)
        """,
    ),
    forged(
        "array-function-lies",
        "returns an array that answers every numpy function as it likes",
        """
        import numpy as np
        class Lies(np.ndarray):
            def __array_function__(self, function, types, args, kwargs):
                return True
            def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
                return np.ones(self.shape, bool)
            def __array_finalize__(self, source):
                pass
        def add(a, b):
            return np.zeros(a.shape).view(Lies)
        """,
        points=SHAPE,
    ),
    forged(
        "array-ufunc-plain",
        "returns an object that is not an array, with a lying __array_ufunc__ and "
        "__array_interface__",
        """
        import numpy as np
        class Lies:
            def __init__(self, shape):
                self.shape, self.dtype, self.ndim = shape, np.dtype(float), len(shape)
            def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
                return np.ones(self.shape, bool)
            @property
            def __array_interface__(self):
                return {"shape": self.shape, "typestr": "<f8", "data": (4096, True), "version": 3}
        def add(a, b):
            return Lies(a.shape)
        """,
    ),
    forged(
        "fake-tensor",
        "returns an object that poses as a tensor and fetches the expected values from its caller",
        """
        import sys
        import numpy as np
        class Tensor:
            dtype = "float64"
            def __init__(self, shape): self.shape = shape
            def detach(self): return self
            cpu = detach
            def __deepcopy__(self, memo): return self
            def numpy(self):
                frame = sys._getframe(1)
                while frame is not None:
                    if isinstance(frame.f_locals.get("expected"), np.ndarray):
                        return frame.f_locals["expected"].copy()
                    frame = frame.f_back
                return np.zeros(self.shape)
        Tensor.__module__ = "torch"
        def add(a, b):
            return Tensor(a.shape)
        """,
    ),
    forged(
        "changes-on-each-read",
        "returns an object that shows another value each time it is read",
        """
        import itertools
        import numpy as np
        class Shifty:
            count = itertools.count()
            def __init__(self, a, b): self.a, self.b = a, b
            @property
            def shape(self): return self.a.shape if next(self.count) % 2 else (1,)
            def __array__(self, dtype=None, copy=None): return self.a + next(self.count)
            def __getitem__(self, key): return self.a[key] - next(self.count)
            def __len__(self): return next(self.count)
            def __iter__(self): return iter([next(self.count)])
        def add(a, b):
            return Shifty(a, b)
        """,
    ),
    forged(
        "changed-by-a-thread",
        "returns an array that a thread keeps changing",
        """
        import threading, time
        import numpy as np
        def add(a, b):
            result = np.zeros(a.shape)
            def change(end=time.monotonic() + 30):
                while time.monotonic() < end:
                    result[...] = np.random.random(result.shape)
                    time.sleep(0.001)
            threading.Thread(target=change, daemon=True).start()
            return result
        """,
        points=SHAPE,
    ),
    # The channel
    forged(
        "kernel-message",
        "sends a kernel message that claims 2 points",
        """
        from IPython import get_ipython
        def add(a, b):
            kernel = get_ipython().kernel
            content = {"data": {"text/plain": "4.0"}, "metadata": {}, "execution_count": 1}
            kernel.session.send(
                kernel.iopub_socket, "execute_result", content, parent=kernel.get_parent(), ident=b"execute_result"
            )
            return 0
        """,
    ),
    forged(
        "writes-all-descriptors",
        "writes a forged reply to every open file descriptor",
        """
        import os
        reply = b'{"ok": true, "status": "ok", "value": 4.0, "score": 4.0, "points": 4.0}\\n'
        for descriptor in range(3, 65):
            try:
                os.set_blocking(descriptor, False)
                os.write(descriptor, reply)
            except OSError:
                pass
        """,
        points=TWICE,
        kind=Kind.HOSTILE,
        twice=RIGHT["twice"],
    ),
    forged(
        "writes-while-called",
        "writes a forged reply to every open file descriptor when its function is called",
        """
        import os
        def add(a, b):
            for name in os.listdir("/proc/self/fd"):
                if int(name) > 2:
                    try:
                        os.set_blocking(int(name), False)
                        os.write(int(name), b"\\x00\\x00\\x00\\x10" + b'{"result": [4.0]}')
                    except OSError:
                        pass
            return 0
        """,
        points=TWICE,
        kind=Kind.HOSTILE,
        twice=RIGHT["twice"],
    ),
    forged(
        "writes-by-socket",
        "treats every descriptor as a socket and sends a forged reply",
        """
        import socket
        def add(a, b):
            for descriptor in range(3, 65):
                try:
                    own = socket.socket(fileno=descriptor)
                    own.setblocking(False)
                    own.send(b'{"id": 1, "value": 4.0}\\n')
                    own.detach()
                except OSError:
                    pass
            return 0
        """,
        points=TWICE,
        kind=Kind.HOSTILE,
        twice=RIGHT["twice"],
        may=Kind.WRONG,
    ),
    forged(
        "patches-serializers",
        "replaces json, struct, pickle and numpy's readers, which a grader may use",
        """
        import json, pickle, struct
        import numpy as np
        for module, names in ((json, "dumps loads"), (pickle, "dumps loads"), (struct, "pack unpack")):
            for name in names.split():
                setattr(module, name, lambda *a, **k: b"4.0")
        np.frombuffer = lambda *a, **k: np.zeros(1)
        np.asarray = np.ascontiguousarray = lambda *a, **k: np.zeros(1)
        """,
        may=Kind.HOSTILE,
    ),
    # Pickles
    forged(
        "pickle-reduce",
        "returns an object that, copied or unpickled, runs code against the checks",
        """
        class Runs:
            def __reduce__(self):
                text = (
                    "import sys, builtins\\n"
                    "builtins.round = lambda value, digits=None: 2.0\\n"
                    "suite = sys.modules.get('checking.suite')\\n"
                    "if suite: suite.attempt = lambda *a: ([], None, 0)\\n"
                )
                return exec, (text,)
        def add(a, b):
            return Runs()
        """,
    ),
    forged(
        "pickle-in-array",
        "returns an array of objects that, copied or unpickled, run code against the checks",
        """
        import numpy as np
        class Runs:
            def __reduce__(self):
                return exec, ("import builtins\\nbuiltins.round = lambda value, digits=None: 2.0",)
        def add(a, b):
            return np.array([[Runs()]], dtype=object)
        """,
    ),
    # Exits
    forged(
        "exit-in-function",
        "calls sys.exit(0) inside the function under test",
        "import sys\ndef add(a, b):\n    sys.exit(0)",
        points=TWICE,
        twice=RIGHT["twice"],
        says="SystemExit",
        may=Kind.LIMIT,
    ),
    forged(
        "exit-at-import",
        "raises SystemExit(0) in both solution cells",
        "raise SystemExit(0)",
        twice="raise SystemExit(0)",
        may=Kind.LIMIT,
    ),
    # Frames and garbage
    forged(
        "walks-frames",
        "walks its callers' frames and marks every check as passed",
        """
        import sys
        def add(a, b):
            frame = sys._getframe(1)
            while frame is not None:
                for value in list(frame.f_locals.values()):
                    if type(value).__name__ == "Suite":
                        for check in value.checks:
                            check.weight = 0 if check.__name__ == "adds" else check.weight
                frame = frame.f_back
            return a
        """,
        points=SHAPE,
    ),
    forged(
        "gc-weights",
        "finds the checks through the garbage collector and sets their weights to 0",
        """
        import gc
        def add(a, b):
            for found in gc.get_objects():
                if type(found).__name__ == "Suite" and hasattr(found, "checks"):
                    for check in found.checks:
                        check.weight = 0 if check.__name__ == "adds" else 1
            return a
        """,
        points=SHAPE,
    ),
    forged(
        "gc-expected",
        "searches the garbage collector for arrays of the inputs' shape and returns one",
        """
        import gc
        import numpy as np
        def add(a, b):
            mine = [x for x in gc.get_objects() if isinstance(x, np.ndarray) and x.shape == a.shape]
            others = [x for x in mine if x is not a and x is not b]
            return others[-1].copy() if others else a.copy()
        """,
        points=SHAPE,
    ),
    forged(
        "traces-checks",
        "traces the checks and swaps the result for the expected values",
        """
        import sys
        import numpy as np
        def trace(frame, event, argument):
            if frame.f_code.co_name == "expect_close" and event == "call":
                frame.f_locals["got"] = np.array(frame.f_locals["expected"])
            return None
        def add(a, b):
            sys.settrace(trace)
            return np.zeros(a.shape)
        """,
        points=SHAPE,
    ),
    # Altered cells
    Case(
        "altered-points",
        "edits the points to 500 and the check's source",
        NONE,
        Kind.HOSTILE,
        cells=ZERO,
        edit=changed(lambda source: "500.0", points=500),
        says="changed",
    ),
    Case(
        "altered-source",
        "appends full points to the locked checks; its answers are wrong",
        NONE,
        Kind.HOSTILE,
        cells=ZERO,
        edit=changed(lambda source: source + "\n2.0"),
        says="changed",
    ),
    Case(
        "altered-but-right",
        "edits the locked checks although its answers are right",
        ALL,
        Kind.HOSTILE,
        edit=altered_and_right,
        says="changed",
    ),
    Case(
        "altered-points-only",
        "edits only the points in the metadata",
        NONE,
        Kind.HOSTILE,
        cells=ZERO,
        edit=changed(points=500),
    ),
    Case(
        "invented-check",
        "adds a check cell of its own, worth 500 points",
        ALL,
        Kind.RIGHT,
        edit=bonus,
        may=Kind.HOSTILE,
    ),
    # Answers that are none
    forged(
        "hard-coded",
        "imports the checks, guesses the seed and returns a table of answers",
        """
        import os
        import numpy as np
        SEED = int(os.environ.get("CHECKING_SEED") or 0)
        def add(a, b):
            table = np.random.default_rng([SEED, 0]).uniform(0.5, 1.5, size=a.shape)
            return table
        """,
        points=SHAPE,
    ),
    forged(
        "knows-its-check",
        "answers by the name of the check that calls it",
        """
        import sys
        import numpy as np
        def add(a, b):
            names, frame = [], sys._getframe(1)
            while frame is not None:
                names.append(frame.f_code.co_name)
                frame = frame.f_back
            return np.ones(a.shape) if "keeps_shape" in names else a * 1.0
        """,
        points=SHAPE,
    ),
    forged(
        "all-nan",
        "returns NaN everywhere",
        "import numpy as np\ndef add(a, b):\n    return np.full(a.shape, np.nan)",
        points=SHAPE,
        twice="def twice(a):\n    return a * float('nan')",
    ),
    forged(
        "all-infinite",
        "returns infinity everywhere",
        "import numpy as np\ndef add(a, b):\n    return np.full(a.shape, np.inf)",
        points=SHAPE,
        twice="def twice(a):\n    return a + float('inf')",
    ),
    forged(
        "zeroed-inputs",
        "sets its inputs to zero and returns them",
        "def add(a, b):\n    a[...] = 0\n    b[...] = 0\n    return a",
        points=SHAPE,
        twice="def twice(a):\n    a[...] = 0\n    return a",
    ),
    forged(
        "lies-about-what-is-missing",
        "says that packages, and odder things, are not installed",
        f"""
        import sys
        entries = get_ipython().lacking.entries
        entries += [("numpy", ""), ("\\x1b[2J", ""), ("", "<script>{LIVE}()</script>\\u202e"), (1, 2), 3]
        entries += [("a" * 10_000, ""), ("a" * 10**8, "")]
        sys.modules["torch"] = None
        import torch
        raise ModuleNotFoundError("\\x1b[2J<script>{LIVE}()</script>", name="<script>{LIVE}()</script>")
        """,
        says="The cell add, which should define it, raised ModuleNotFoundError",
    ),
    # The library does it
    Case(
        "library-function",
        "calls the library function that the exercise asks to write",
        ALL,
        Kind.RIGHT,
        cells={
            "add": "import numpy as np\nadd = np.add",
            "twice": "from functools import partial\ntwice = partial(np.multiply, 2.0)",
        },
    ),
    Case(
        "operator-module",
        "takes the function from Python's operator module",
        ALL,
        Kind.RIGHT,
        cells={"add": "from operator import add"},
    ),
    # The course's answer in the place of a student's
    forged(
        "names-a-failing-function",
        "names a function that fails in a line that never runs",
        ZERO["add"],
        twice="def twice(a):\n    if 0:\n        add(a, a)\n    return 0",
    ),
    forged(
        "names-an-unwritten-function",
        "names a function that is not written in a line that never runs",
        LEFT["add"],
        twice="def twice(a):\n    return 0\n    add(a, a)",
    ),
    forged(
        "derived-from-a-failing-class",
        "derives a class that does nothing right from one that fails",
        "class add:\n    def __new__(cls, a, b):\n        return 0",
        twice="class twice(add):\n    def __new__(cls, a):\n        return 0",
    ),
    forged(
        "calls-and-throws-away",
        "calls a function that fails, and returns something else that is wrong",
        ZERO["add"],
        twice="def twice(a):\n    add(a, a)\n    return 0",
    ),
    forged(
        "says-what-it-is-built-on",
        "answers itself, for the guest, which functions its code names",
        """
        import gc
        for found in gc.get_objects():
            if type(found).__name__ == "Responder":
                for name in [name for name in dir(type(found)) if name.startswith("do_")]:
                    def do(self, message, blobs, reply, out, before=getattr(type(found), name)):
                        if "globals_used" in str(message):
                            reply["value"] = {"t": "list", "v": ["add"]}
                            return
                        return before(self, message, blobs, reply, out)
                    setattr(type(found), name, do)
        def add(a, b):
            return 0
        """,
        may=Kind.HOSTILE,
    ),
    Case(
        "built-on-a-failing-function",
        "gets one function wrong that another one, which is right, is built on",
        TWICE,
        Kind.WRONG,
        cells={"add": ZERO["add"], "twice": "def twice(a):\n    return add(a, a)"},
    ),
]
