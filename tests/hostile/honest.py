"""Honest submissions that are odd, and honest accidents."""

import nbformat

from autograder.grades.results import Kind
from hostile.case import (
    ADD,
    ALL,
    LEFT,
    LIVE,
    NONE,
    RIGHT,
    TWICE,
    ZERO,
    Case,
    code,
    extra,
    files,
)

FIRST = RIGHT["add"] + "\n\n"


def odd(name, does, add, points=ALL, kind=Kind.RIGHT, twice=None, **more):
    """Return a case with this text in the cell `add` (after the right answer where it defines
    none).
    """
    text = code(add)
    if not any(word in text for word in ("def add", "add =", "class add", "import add")):
        text = FIRST + text
    return Case(
        name,
        does,
        points,
        kind,
        cells={"add": text, "twice": code(twice or RIGHT["twice"])},
        **more,
    )


def returns(name, does, expression, points=ALL, kind=Kind.RIGHT, **more):
    """Return a case whose `add` returns an expression of a and b."""
    text = f"import numpy as np\nimport torch\n\ndef add(a, b):\n    return {expression}"
    return Case(name, does, points, kind, cells={"add": text}, **more)


def gives(name, does, expression, **more):
    """Return a case whose `twice` returns something that no array is."""
    text = f"import numpy as np\n\ndef twice(a):\n    return {expression}"
    return Case(
        name,
        does,
        ADD,
        more.pop("kind", Kind.WRONG),
        cells={"twice": text},
        **more,
    )


def shows(name, does, markup, how="display(HTML({}))", **more):
    """Return a case that displays markup which would run a script."""
    text = "from IPython.display import HTML, SVG, Javascript, Markdown, display\n" + how.format(
        repr(markup)
    )
    return Case(name, does, ALL, Kind.RIGHT, cells={"add": FIRST + text}, **more)


def elsewhere(
    name,
    does,
    *texts,
    at=1000,
    says="They count in every check",
    cells=None,
    points=ALL,
    kind=Kind.RIGHT,
):
    """Return a case with the given cells as they were released, and cells of its own in a row,
    at the end or `at`.
    """

    def edit(notebook, folder):
        notebook.cells[at:at] = [nbformat.v4.new_code_cell(code(text)) for text in texts]
        files({"mine.py": f"{RIGHT['add']}\n\n\n{RIGHT['twice']}"})(notebook, folder)

    return Case(name, does, points, kind, says=says, cells={**LEFT, **(cells or {})}, edit=edit)


BOTH = RIGHT["add"] + "\n\n\n" + RIGHT["twice"]


def own(name, does, text, points=ALL, kind=Kind.RIGHT, before="check_add", cell="code", **more):
    """Return a case with a cell of the student's own before a check cell."""
    return Case(name, does, points, kind, edit=extra(text, before=before, kind=cell), **more)


def beside(name, does, texts, cells=None, points=ALL, kind=Kind.RIGHT):
    """Return a case with these files beside the notebook."""
    return Case(name, does, points, kind, cells=cells or {}, edit=files(texts))


EVIL = "def run(subject, points):\n    return points\n"
PATCH = """
import builtins
builtins.round = lambda value, digits=None: 2.0
"""

CASES = [
    # Warnings
    odd(
        "warns",
        "warns when called",
        """
        import warnings
        def add(a, b):
            warnings.warn("this is deprecated")
            return a + b
        """,
    ),
    odd(
        "warnings-as-errors",
        "turns warnings into errors, and warns when called",
        """
        import warnings
        warnings.simplefilter("error")
        def add(a, b):
            warnings.warn("this is deprecated")
            return a + b
        """,
    ),
    odd(
        "logs-to-stderr",
        "logs to the error stream",
        """
        import logging, sys
        logging.basicConfig(stream=sys.stderr, level=logging.DEBUG)
        def add(a, b):
            logging.warning("adding %s", a.shape)
            print("adding", file=sys.stderr)
            return a + b
        """,
    ),
    odd(
        "divides-by-zero",
        "makes numpy warn on the way to the right answer",
        """
        import numpy as np
        def add(a, b):
            np.log(np.zeros(3)) / np.zeros(3)
            return a + b
        """,
    ),
    # What notebooks allow
    own("asks-for-input", "asks for input in a cell of its own", "name = input('Your name? ')"),
    own("shell-cell", "has a cell in bash", "%%bash\necho hello\nls | head -3"),
    own(
        "installs-a-package",
        "installs a package, without success",
        "!pip install --no-index nothing-at-all",
    ),
    own(
        "magics",
        "times things and asks for help",
        "%timeit -n 10 -r 1 add(1, 2)\nadd?\n%matplotlib inline\n%who",
    ),
    odd("timed-cell", "times its solution cell", "%%time\ndef add(a, b):\n    return a + b"),
    # What the grader's machine lacks
    odd(
        "packages-not-used",
        "imports packages that are not installed, and does without them",
        """
        import numpy as np, absent_frames as pd
        from absent_einsum import rearrange
        from absent_parts import *
        import absent_style as style
        style.set_theme()
        def add(a, b):
            return np.add(a, b)
        """,
        says="`absent_frames` is neither installed",
    ),
    odd(
        "package-used",
        "uses a package that is not installed",
        "from absent_einsum import einsum\n\ndef add(a, b):\n    return einsum(a, b, 'i j, i j -> "
        "i j')",
        points=TWICE,
        kind=Kind.WRONG,
        says="absent_einsum",
    ),
    odd(
        "package-in-its-place",
        "imports its answer from a package that is not installed",
        "from absent_answers import add",
        points=TWICE,
        kind=Kind.WRONG,
        says="absent_answers",
    ),
    odd(
        "package-asked-for",
        "does without a package that is not installed if it does not find it",
        """
        import importlib.util
        try:
            import absent_einsum
        except ImportError:
            absent_einsum = None
        if importlib.util.find_spec("absent_einsum") is None and absent_einsum is None:
            def add(a, b):
                return a + b
        """,
    ),
    odd(
        "package-in-a-block",
        "imports a package that is not installed inside a block",
        "if True:\n    import absent_einsum\n\ndef add(a, b):\n    return a + b",
        points=TWICE,
        kind=Kind.WRONG,
        says="absent_einsum",
    ),
    odd(
        "magics-for-display",
        "has magics and a window that are not there",
        """
        %matplotlib widget
        %matplotlib qt
        %load_ext line_profiler
        %no_such_magic
        import matplotlib
        matplotlib.use("TkAgg")
        def add(a, b):
            return a + b
        """,
        says="`%no_such_magic` does not work",
    ),
    *(
        odd(
            f"magic-{magic}",
            f"begins its solution cell with %%{magic}",
            f"%%{magic}{more}\ndef add(a, b):\n    return a + b",
            points=points,
            kind=kind,
            says=says,
        )
        for magic, more, points, kind, says in (
            ("capture", "", ALL, Kind.RIGHT, ""),
            ("timeit", " -n 1 -r 1", TWICE, Kind.WRONG, "%%timeit"),
            ("bash", "", TWICE, Kind.WRONG, "%%bash"),
            ("writefile", " add.py", TWICE, Kind.WRONG, "%%writefile"),
        )
    ),
    own(
        "writes-a-module",
        "writes a module in one cell and uses it in the next",
        "%%writefile helper_of_mine.py\ndef plus(a, b):\n    return a + b",
        before="twice",
        cells={
            "twice": "from helper_of_mine import plus\n\n\ndef twice(a):\n    return plus(a, a)"
        },
    ),
    own(
        "widget",
        "shows a widget",
        "import ipywidgets\nfrom IPython.display import display\n"
        "display(ipywidgets.interactive(lambda x: x, x=3), ipywidgets.Output())",
    ),
    own("awaits", "awaits at the top of a cell", "import asyncio\nawait asyncio.sleep(0.1)"),
    own(
        "calls-the-checks",
        "runs the checks in a cell of its own",
        "import checks\nchecks.run('add', points=4)\nfrom checking import Draw",
        may=Kind.WRONG,
    ),
    elsewhere("answers-at-the-end", "has all answers in one cell at the end", BOTH),
    elsewhere(
        "answers-in-one-cell",
        "has all answers in the first cell given for one",
        cells={"add": BOTH},
    ),
    elsewhere(
        "answers-in-the-last-cell",
        "has all answers in the last cell given for one",
        cells={"twice": BOTH},
    ),
    elsewhere(
        "answers-in-a-file",
        "imports its answers from a file next to it",
        "from mine import *",
        at=0,
    ),
    elsewhere(
        "answers-in-steps",
        "has its answers at the end, in cells that use each other",
        "%matplotlib inline\nimport operator as op\nONE = 1",
        "def plus(a, b):\n    return op.add(a, b) * ONE",
        "def add(a, b):\n    return plus(a, b)\n\nprint(add(1, 2))",
        "def twice(a):\n    return add(a, a)",
    ),
    elsewhere(
        "forges-at-the-end",
        "has wrong answers at the end, with its own checks next to them",
        "import checks\nchecks.run = lambda *args, **more: 4.0\nround = max = lambda *args: 4.0",
        "def run(subject, points):\n    return points\n\ndef add(a, b):\n    return run('add', "
        "4.0)",
        points=NONE,
        kind=Kind.WRONG,
    ),
    own(
        "dies-in-own-cell",
        "raises an error in a cell of its own",
        "raise RuntimeError('half-way')",
    ),
    own(
        "names-taken",
        "uses the names of the check cells for its own things",
        "checks = None\nrun = 3\nnp = 'numpy'\nchecking = []",
        before="twice",
    ),
    own(
        "builtins-shadowed",
        "gives names of built-in functions to its own values",
        "sum = 0\nlist = [1]\nfloat = None\nround = max = len = 'mine'\nprint = 3",
        before="check_add",
    ),
    # Scripts
    shows("script-in-html", "displays HTML with a script", f"<script>{LIVE}()</script>"),
    shows(
        "image-with-handler",
        "displays an image with a handler",
        f'<img src="none" onerror="{LIVE}()">',
    ),
    shows(
        "svg-with-handler",
        "displays a drawing with a handler",
        '<svg xmlns="http://www.w3.org/2000/svg" '
        f'onload="{LIVE}()"><script>{LIVE}()</script></svg>',
        how="display(SVG({}))",
    ),
    shows("javascript-output", "displays JavaScript", f"{LIVE}()", how="display(Javascript({}))"),
    shows(
        "markdown-output",
        "displays Markdown with a script",
        f"# Hello <script>{LIVE}()</script> [link](javascript:{LIVE}())",
        how="display(Markdown({}))",
    ),
    shows(
        "script-in-latex",
        "displays LaTeX with a script",
        f"$x$<script>{LIVE}()</script>",
        how="display({{'text/latex': {}}}, raw=True)",
    ),
    shows(
        "frame-in-html",
        "displays a frame with its own page",
        f'<iframe srcdoc="<script>{LIVE}()</script>"></iframe><a href="javascript:{LIVE}()">x</a>',
    ),
    shows(
        "odd-mime-types",
        "displays data of odd and wrong types",
        f"<script>{LIVE}()</script>",
        how="display({{'text/plain': {0}, 'image/png': {0}, 'text/x-own': {0}, 'text/html': "
        "[{0}]}}, raw=True)",
        may=Kind.WRONG,
    ),
    own(
        "script-in-text",
        "has a script in a text cell",
        f'# Hello\n<script>{LIVE}()</script>\n<img src="none" onerror="{LIVE}()">',
        cell="markdown",
    ),
    own(
        "script-in-raw",
        "has a script in a raw cell",
        f"<script>{LIVE}()</script>",
        cell="raw",
    ),
    odd(
        "script-in-error",
        "raises an error whose text is a script",
        f"""
        def add(a, b):
            raise ValueError("</pre><script>{LIVE}()</script>")
        """,
        points=TWICE,
        kind=Kind.WRONG,
    ),
    odd(
        "terminal-codes",
        "prints terminal codes, control characters and half a character",
        "print('\\x1b[2J\\x1b]0;title\\x07 \\x00 \\x08 \\r \\u202e')\nprint('\\ud83d')",
    ),
    # Files beside the notebook
    beside(
        "file-torch",
        "has a file torch.py next to it",
        {"torch.py": "raise ImportError('not the real one')"},
    ),
    beside(
        "file-numpy",
        "has a file numpy.py next to it that patches built-in functions",
        {"numpy.py": PATCH},
        ZERO,
        NONE,
        Kind.WRONG,
    ),
    beside(
        "file-sitecustomize",
        "has a sitecustomize.py next to it that patches built-in functions",
        {"sitecustomize.py": PATCH, "usercustomize.py": PATCH},
        ZERO,
        NONE,
        Kind.WRONG,
    ),
    beside(
        "file-json",
        "has files with the names of Python modules",
        {"json.py": "1 / 0", "struct.py": "1 / 0", "socket.py": "1 / 0", "random.py": "x = 1"},
    ),
    beside(
        "file-checks",
        "has its own checks.py and checking next to it",
        {"checks.py": EVIL, "checking/__init__.py": EVIL, "misconceptions.py": "1 / 0"},
        ZERO,
        NONE,
        Kind.WRONG,
    ),
    beside(
        "file-config",
        "has configuration files of Jupyter, IPython and nbgrader next to it",
        {
            "nbgrader_config.py": "1 / 0",
            "ipython_config.py": "1 / 0",
            "jupyter_config.json": "{}",
            "matplotlibrc": "backend: none",
            ".env": "PYTHONSTARTUP=evil.py",
        },
        ZERO,
        NONE,
        Kind.WRONG,
    ),
    beside(
        "file-helper",
        "uses a submitted module of its own",
        {"helpers.py": "def plus(a, b):\n    return a + b"},
        {"add": "from helpers import plus\n\n\ndef add(a, b):\n    return plus(a, b)"},
    ),
    beside(
        "file-data",
        "reads a submitted data file",
        {"data/zero.txt": "0.0"},
        {
            "add": "zero = float(open('data/zero.txt').read())\n\n\ndef add(a, b):\n    return a "
            "+ b "
            "+ zero"
        },
    ),
    # Side effects
    odd(
        "changes-in-place",
        "adds to its argument in place",
        "def add(a, b):\n    a += b\n    return a",
        twice="def twice(a):\n    a *= 2\n    return a",
    ),
    odd(
        "torch-defaults",
        "changes torch's default type, grad mode, seed and print options",
        """
        import torch
        torch.set_default_dtype(torch.float16)
        torch.set_grad_enabled(False)
        torch.manual_seed(0)
        torch.set_printoptions(precision=1)
        torch.use_deterministic_algorithms(True)
        """,
    ),
    odd(
        "numpy-defaults",
        "makes numpy raise on every floating-point error, and changes how it prints and draws",
        """
        import random
        import numpy as np
        np.seterr(all="raise")
        np.random.seed(0)
        random.seed(0)
        np.set_printoptions(precision=1, threshold=3)
        """,
    ),
    odd(
        "changes-folder",
        "changes its folder, its environment and its import path",
        """
        import os, sys
        os.chdir("/")
        os.environ.clear()
        sys.path.clear()
        """,
    ),
    odd("output-closed", "closes its output", "import sys\nsys.stdout.close()\nsys.stderr.close()"),
    odd(
        "output-replaced",
        "redirects its output",
        "import io, sys\nsys.stdout = io.StringIO()\nsys.stderr = open('log.txt', 'w')",
    ),
    odd(
        "descriptor-1-closed",
        "closes file descriptors 0, 1 and 2",
        "import os\nfor descriptor in (0, 1, 2):\n    os.close(descriptor)",
    ),
    odd(
        "print-deleted",
        "deletes built-in functions",
        """
        import builtins
        def add(a, b):
            return a + b
        for name in ("print", "input", "id", "repr", "vars"):
            delattr(builtins, name)
        """,
    ),
    odd(
        "modules-forgotten",
        "forgets modules that are loaded",
        """
        import sys
        def add(a, b):
            return a + b
        for name in ("json", "struct", "socket", "checks", "checking", "numpy"):
            sys.modules.pop(name, None)
        """,
        may=Kind.WRONG,
    ),
    odd(
        "signal-handlers",
        "sets signal handlers and its process's name",
        """
        import ctypes, signal
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD, signal.SIGPIPE, signal.SIGUSR1):
            signal.signal(number, lambda *caught: None)
        ctypes.CDLL(None).prctl(15, b"jupyter", 0, 0, 0)
        """,
    ),
    odd(
        "traced",
        "traces itself",
        """
        import sys
        def add(a, b):
            sys.setprofile(lambda frame, event, argument: None)
            return a + b
        """,
    ),
    odd(
        "figures-open",
        "leaves 25 figures open",
        """
        import matplotlib.pyplot as plt
        for _ in range(25):
            plt.figure(figsize=(1, 1))
        """,
    ),
    odd(
        "slow",
        "is slow",
        "import time\ntime.sleep(1.5)\ndef add(a, b):\n    time.sleep(0.2)\n    return a + b",
    ),
    odd(
        "own-threads",
        "computes in threads of its own",
        """
        from concurrent.futures import ThreadPoolExecutor
        import numpy as np
        def add(a, b):
            with ThreadPoolExecutor(4) as pool:
                return np.array(list(pool.map(lambda pair: pair[0] + pair[1], zip(a, b))))
        """,
    ),
    odd(
        "torch-threads",
        "computes in torch's threads",
        """
        import torch
        torch.set_num_threads(2)
        def add(a, b):
            large = torch.ones(600, 600) @ torch.ones(600, 600)
            return torch.from_numpy(a) + torch.from_numpy(b) + 0 * large[0, 0].double()
        """,
    ),
    Case(
        "deletes-afterwards",
        "deletes its function after the check",
        ALL,
        Kind.RIGHT,
        cells={"twice": RIGHT["twice"] + "\ndel add"},
    ),
    Case(
        "redefined-afterwards",
        "overwrites its function after the check",
        ALL,
        Kind.RIGHT,
        cells={"twice": RIGHT["twice"] + "\nadd = None"},
    ),
    # Functions in other forms
    odd("a-lambda", "is a lambda", "add = lambda a, b: a + b"),
    odd(
        "a-callable-object",
        "is an object with __call__",
        """
        class Adder:
            def __call__(self, a, b):
                return a + b
        add = Adder()
        """,
    ),
    odd(
        "a-class",
        "is a class that makes arrays",
        """
        class add:
            def __new__(cls, a, b):
                return a + b
        """,
    ),
    odd(
        "a-method",
        "is a method with a cache, wrapped by a decorator",
        """
        import functools
        def counted(function):
            @functools.wraps(function)
            def inner(*args, **kwargs):
                inner.count += 1
                return function(*args, **kwargs)
            inner.count = 0
            return inner
        class Adder:
            @counted
            def plus(self, a, b):
                return a + b
        add = Adder().plus
        """,
    ),
    odd(
        "unicode-names",
        "uses names in other scripts",
        """
        def café(ā, β):
            Σ = ā + β
            return Σ
        def add(a, b):
            return café(a, b)
        """,
    ),
    odd(
        "any-arguments",
        "takes any arguments",
        "def add(*arrays, **options):\n    return sum(arrays)",
    ),
    odd(
        "a-loop",
        "loops over the elements",
        """
        import numpy as np
        def add(a, b):
            result = np.empty_like(a)
            for i in range(a.shape[0]):
                for j in range(a.shape[1]):
                    result[i, j] = a[i, j] + b[i, j]
            return result
        """,
    ),
    odd(
        "help-from-later-cell",
        "uses a name that is defined in another cell",
        "def add(a, b):\n    return plus(a, b)",
        edit=extra("def plus(a, b):\n    return a + b", before="check_add"),
    ),
    odd(
        "star-imports",
        "imports everything from numpy and torch",
        "from numpy import *\nfrom torch import *\n\n\ndef add(a, b):\n    return a + b",
    ),
    odd(
        "error-after-definition",
        "has a cell that fails after the function is defined",
        "def add(a, b):\n    return a + b\n\nadd(1)\nraise SystemExit",
    ),
    odd(
        "error-before-definition",
        "has a cell that fails before the function is defined",
        "print(undefined)\n\ndef add(a, b):\n    return a + b",
        points=TWICE,
        kind=Kind.WRONG,
        says="add",
    ),
    odd(
        "asynchronous",
        "is an asynchronous function",
        "async def add(a, b):\n    return a + b",
        points=TWICE,
        kind=Kind.WRONG,
    ),
    odd(
        "a-generator",
        "is a generator",
        "def add(a, b):\n    yield a + b",
        points=TWICE,
        kind=Kind.WRONG,
    ),
    odd(
        "recursion",
        "calls itself forever",
        "def add(a, b):\n    return add(b, a)",
        points=TWICE,
        kind=Kind.WRONG,
        says="RecursionError",
    ),
    odd(
        "interrupts",
        "raises KeyboardInterrupt",
        "def add(a, b):\n    raise KeyboardInterrupt",
        points=TWICE,
        kind=Kind.WRONG,
    ),
    odd(
        "error-without-text",
        "raises an error that cannot be printed",
        """
        class Odd(Exception):
            def __str__(self):
                raise self
            __repr__ = __str__
        def add(a, b):
            raise Odd
        """,
        points=TWICE,
        kind=Kind.WRONG,
    ),
    odd(
        "error-of-50-mb",
        "raises an error with a text of 50 MB",
        "def add(a, b):\n    raise ValueError('x' * 50_000_000)",
        points=TWICE,
        kind=Kind.WRONG,
        may=Kind.LIMIT,
    ),
    # Results in other forms
    returns("result-matrix", "returns a matrix", "np.asmatrix(a + b)"),
    returns("result-masked", "returns a masked array", "np.ma.masked_array(a + b, mask=False)"),
    returns("result-tensor", "returns a tensor", "torch.from_numpy(a) + torch.from_numpy(b)"),
    returns(
        "result-parameter",
        "returns a tensor with gradient",
        "torch.nn.Parameter(torch.from_numpy(a)) + torch.from_numpy(b)",
    ),
    returns(
        "result-strided",
        "returns a view with odd strides",
        "np.lib.stride_tricks.as_strided(np.repeat((a + b).ravel(), 2), a.shape, (16 * "
        "a.shape[1], 16))",
    ),
    returns(
        "result-reversed",
        "returns a view with negative strides, in Fortran order",
        "np.asfortranarray((a + b)[::-1])[::-1]",
    ),
    returns(
        "result-big-endian", "returns numbers in the opposite byte order", "(a + b).astype('>f8')"
    ),
    returns("result-float32", "returns single precision", "(a + b).astype(np.float32)"),
    returns("result-long-double", "returns extended precision", "(a + b).astype(np.longdouble)"),
    returns(
        "result-read-only",
        "returns an array that cannot be written",
        "np.frombuffer((a + b).tobytes()).reshape(a.shape)",
    ),
    odd(
        "result-subclass",
        "returns an array of its own class",
        """
        import numpy as np
        class Named(np.ndarray):
            def __array_finalize__(self, source):
                self.name = getattr(source, "name", "mine")
        def add(a, b):
            return (a + b).view(Named)
        """,
    ),
    odd(
        "result-tensor-subclass",
        "returns a tensor of its own class",
        """
        import torch
        class Named(torch.Tensor):
            pass
        def add(a, b):
            return torch.from_numpy(a + b).as_subclass(Named)
        """,
    ),
    returns(
        "result-lists",
        "returns nested lists instead of an array",
        "(a + b).tolist()",
        points=TWICE,
        kind=Kind.WRONG,
    ),
    returns(
        "result-objects",
        "returns an array of objects",
        "(a + b).astype(object)",
        points=TWICE,
        kind=Kind.WRONG,
    ),
    returns(
        "result-virtual",
        "returns a view of 8 TB",
        "np.broadcast_to(np.zeros(1), (10**6, 10**6))",
        points=TWICE,
        kind=Kind.WRONG,
        may=Kind.LIMIT,
    ),
    gives("result-nothing", "returns nothing", "None"),
    gives("result-number", "returns an array without dimensions", "np.array(2.0)"),
    gives(
        "result-nested",
        "returns lists nested 100,000 levels deep",
        "__import__('functools').reduce(lambda x, _: [x], range(100_000), [])",
    ),
    gives(
        "result-recursive",
        "returns a dict that contains itself",
        "(lambda d: d.update(me=d) or d)({})",
    ),
    gives(
        "result-long-text", "returns a text of a billion characters", "'x' * 10**9", may=Kind.LIMIT
    ),
    gives("result-long-number", "returns a number of a million digits", "10 ** 10**6"),
    gives("result-function", "returns a function", "twice"),
    gives("result-module", "returns an open file", "open('/dev/null')"),
    gives(
        "result-odd-type",
        "returns an object whose class cannot be printed",
        "type('a' * 10**6, (), {'__repr__': lambda s: 1 / 0, '__reduce_ex__': lambda s, v: 1 / "
        "0})()",
    ),
    # Points over the maximum
    odd(
        "fractional-points",
        "displays 4.5 of 4 points; its answer is right",
        """
        import sys
        def add(a, b):
            sys.displayhook(4.5)
            return a + b
        """,
    ),
    odd(
        "score-of-a-billion",
        "makes every score a billion",
        PATCH.replace("2.0", "1e9") + ZERO["add"],
        points=NONE,
        kind=Kind.WRONG,
        twice=ZERO["twice"],
    ),
    # Half-way
    Case(
        "second-cell-dies",
        "has a last solution cell that fails; the one before counts",
        ADD,
        Kind.WRONG,
        cells={"twice": "1 / 0\n\ndef twice(a):\n    return 2 * a"},
        says="twice",
    ),
    Case(
        "nothing-written",
        "is submitted unchanged",
        NONE,
        Kind.WRONG,
        says="not written",
        cells={
            "add": "def add(a, b):\n    raise NotImplementedError",
            "twice": "# YOUR CODE HERE\nraise NotImplementedError()",
        },
    ),
]
