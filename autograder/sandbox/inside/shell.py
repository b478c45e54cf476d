"""IPython without a terminal and without a kernel: what a cell prints, shows and evaluates to
goes over the wire.
"""

import ast
import base64
import contextlib
import importlib
import io
import os
import subprocess
import sys
import time
import types
import warnings
from collections.abc import Iterable
from typing import Any

from IPython.core.displayhook import DisplayHook
from IPython.core.displaypub import DisplayPublisher
from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell
from traitlets import Type
from traitlets.config import Config

from autograder.sandbox.inside import wire
from autograder.sandbox.inside.lacking import (
    FOR_COMFORT,
    Lacking,
    NotInstalled,
    guard,
    missing_package,
)
from autograder.sandbox.inside.link import Link

# characters of text in one cell; more is dropped here, and the judge cuts again
MOST_OUTPUT = 400_000
MOST_SHOWN = 200  # displays and results of one cell
MOST_PARTS = 200  # pieces of printed text that wait to be sent together
EVERY = 0.1  # seconds between two pieces of printed text
CHECK_MODULES = ("checks", "specifications", "misconceptions", "checking")
"""The modules next to a notebook, which a guest does not have."""


class Outputs:
    """The destination of all outputs of a cell, in order: over the link, or nowhere."""

    def __init__(self, link: Link | None):
        self.link = link
        self.begin()
        if link and hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self.cut)

    def cut(self) -> None:
        """Leave the wire to the process that owns it: what a child prints goes to the descriptor
        1.
        """
        if self.link:
            self.link.connection.close()
        self.link = None

    def begin(self) -> None:
        """Start a cell, which may send as much as any other."""
        self.characters_left = MOST_OUTPUT
        self.shown = 0

    def send(self, output: dict[str, Any]) -> None:
        """Send one output, as a notebook has it; what cannot cross is dropped."""
        if self.link is None:
            if output["output_type"] == "stream":  # of a child process, or of a rehearsal
                os.write(1, output["text"].encode("utf-8", "replace"))
            return
        with contextlib.suppress(wire.TooLarge, ValueError, TypeError):
            self.link.send({"op": "output", "output": output})

    def rich(self, kind: str, data: dict[str, Any]) -> None:
        """Send a display or a result; what is not plain text or bytes stays here."""
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()
        self.shown += 1
        if self.shown > MOST_SHOWN:
            return
        bundle = {}
        for mime, value in data.items():
            if isinstance(value, bytes):
                value = base64.b64encode(value).decode()
            bundle[str(mime)] = value if isinstance(value, (str, dict, list)) else str(value)
        self.send({"output_type": kind, "data": bundle})


class Stream(io.TextIOBase):
    """`sys.stdout` and `sys.stderr` of a guest: text goes to the judge in pieces, and not
    without end.
    """

    encoding, errors = "utf-8", "replace"

    def __init__(self, name: str, outputs: Outputs, descriptor: int):
        self.name, self.outputs, self.descriptor = name, outputs, descriptor
        self.parts: list[str] = []
        self.sent_at = 0.0

    def write(self, text: str) -> int:
        """Take text; send it at once, or with what comes within a tenth of a second."""
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        if self.outputs.characters_left > 0:
            piece = str(text)[: self.outputs.characters_left]
            self.outputs.characters_left -= len(piece)
            self.parts.append(piece)
            if self.outputs.characters_left <= 0:
                self.parts.append("\n[the rest of the output was cut off]\n")
            if time.monotonic() - self.sent_at > EVERY or len(self.parts) > MOST_PARTS:
                self.flush()
        return len(text)

    def flush(self) -> None:
        """Send what waits."""
        self.sent_at = time.monotonic()
        parts, self.parts = self.parts, []
        if parts:
            self.outputs.send({"output_type": "stream", "name": self.name, "text": "".join(parts)})

    def writable(self) -> bool:
        """Tell that this can be written to."""
        return True

    def fileno(self) -> int:
        """Return the descriptor that a program started from here would write to."""
        return self.descriptor

    @property
    def buffer(self) -> "_Bytes":
        """The same stream, for bytes."""
        return _Bytes(self)


class _Bytes:
    def __init__(self, stream: Stream):
        self.stream = stream

    def write(self, data: bytes) -> int:
        self.stream.write(bytes(data).decode("utf-8", "replace"))
        return len(data)

    def flush(self) -> None:
        self.stream.flush()


class Hook(DisplayHook):
    """Sends what a cell evaluates to."""

    shell: Any

    def write_output_prompt(self) -> None:
        """Write none: the notebook numbers its outputs."""

    def write_format_data(self, format_dict: dict[str, Any], md_dict: Any = None) -> None:
        """Send the result."""
        self.shell.outputs.rich("execute_result", format_dict)

    def finish_displayhook(self) -> None:
        """Do nothing: all has been sent."""


class Publisher(DisplayPublisher):
    """Sends what a cell displays."""

    def publish(
        self,
        data: dict[str, Any],
        metadata: Any = None,
        source: Any = None,
        *,
        transient: Any = None,
        update: bool = False,
        **more: Any,
    ) -> None:
        """Send a display; what would change an earlier one is dropped."""
        if not update:
            self.shell.outputs.rich("display_data", data)

    def clear_output(self, wait: bool = False) -> None:
        """Send that what was shown so far is to go."""
        self.shell.outputs.send({"output_type": "clear"})


class Shell(InteractiveShell):
    """The parts of IPython that a notebook's cells expect; outputs go to `outputs`.

    `lacking` has what a student's cell went on without; while it is None, a cell runs as in any
    other IPython.
    """

    displayhook_class = Type(Hook)
    display_pub_class = Type(Publisher)
    outputs: Any = None
    lacking: Lacking | None = None

    def init_history(self) -> None:
        """Keep no history."""
        super().init_history()
        if self.history_manager is not None:
            self.history_manager.enabled = False

    def transform_cell(self, raw_cell: str) -> str:
        """Leave what is Python already as it is: IPython looks through its tokens for magics, which
        takes longer.

        A line by itself may be a magic without its mark (`pwd`), and `In [1]: x` is Python too.
        """
        if raw_cell[:1].isspace() or raw_cell.startswith("In [") or "\n" not in raw_cell.strip():
            return str(super().transform_cell(raw_cell))
        try:
            with warnings.catch_warnings():  # the run of the cell gives the warnings
                warnings.simplefilter("ignore")
                flags = ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
                compile(raw_cell, "<cell>", "exec", flags)
        except Exception:
            return str(super().transform_cell(raw_cell))
        return raw_cell if raw_cell.endswith("\n") else raw_cell + "\n"

    def transform_ast(self, node: Any) -> Any:
        """Guard a student's cell: its imports and calls ask whether it continues without what is
        missing.
        """
        node = super().transform_ast(node)
        if self.lacking is not None and isinstance(node, ast.Module):
            guard(node)
        return node

    def goes_on(self, names: list[str] | None, statement: str) -> bool:
        """Tell whether a cell continues although a statement raised an ImportError.

        `names` are those that the statement should bind, if any: if a package is missing, they
        raise the same error when they are used.
        """
        error = sys.exc_info()[1]
        package = missing_package(error)
        if self.lacking is None or (names is not None and not package):
            return False
        for name in names or ():
            # `import a.b` has bound `a` already, as in Python
            if not (package.startswith(f"{name}.") and name in self.user_ns):
                self.user_ns[name] = NotInstalled(error)  # type: ignore[arg-type]
        self.lacking.add(error, statement)
        return True

    def run_line_magic(self, magic_name: str, line: str, _stack_depth: int = 1) -> Any:
        """Run a magic; a student's cell goes on without one that is not there, or is only for
        comfort.
        """
        try:
            # One more, because IPython counts frames from itself to the cell.
            return super().run_line_magic(magic_name, line, _stack_depth + 1)
        except Exception as error:
            is_usage_error = isinstance(error, UsageError)
            known = not is_usage_error or self.find_line_magic(magic_name) is not None
            if self.lacking is None or (known and magic_name not in FOR_COMFORT):
                raise
            self.lacking.add(None, f"%{magic_name} {line}".strip())
            return None

    def _showtraceback(self, etype: type[BaseException], evalue: Any, stb: Iterable[str]) -> None:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
        try:
            text = str(evalue)
        except Exception:
            text = "(the exception cannot be shown)"
        output = {
            "output_type": "error",
            "ename": etype.__name__,
            "evalue": text[:2000],
            "traceback": [str(line)[:20_000] for line in stb][:100],
        }
        self.outputs.send(output)

    def system(self, cmd: str) -> None:
        """Run a `!` command, its output among the cell's own."""
        run = subprocess.run(  # noqa: S602 (this is what `!` means; it runs with the student's own rights)
            self.var_expand(cmd, depth=1),
            shell=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
        )
        sys.stdout.write(run.stdout)
        self.user_ns["_exit_code"] = run.returncode

    def enable_gui(self, gui: Any = None) -> None:
        """There is no window here."""


class Absent(types.ModuleType):
    """Replaces the checks in a guest: a student's own line that calls them does nothing, and
    says so.
    """

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)

        def not_here(*arguments: Any, **more: Any) -> None:
            print(
                f"{self.__name__}.{name} runs in the check cells when a notebook is graded, and "
                "does nothing here."
            )

        return not_here


def make_shell() -> Shell:
    """Return a shell that is ready to run cells; its outputs go nowhere yet."""
    config = Config()
    config.HistoryManager.enabled = False
    config.InteractiveShell.colors = "nocolor"
    config.InteractiveShell.cache_size = 50
    os.environ.setdefault("MPLBACKEND", "module://matplotlib_inline.backend_inline")
    # Cells are `__main__`, as in a kernel, and do not see this program's own names.
    main = types.ModuleType("__main__")
    sys.modules["__main__"] = main
    shell: Shell = Shell.instance(config=config, user_module=main, user_ns=main.__dict__)
    for name in CHECK_MODULES:
        sys.modules[name] = Absent(name)
    return shell


def load(modules: Iterable[str]) -> None:
    """Load what the notebook will import; what cannot be loaded fails where it is imported."""
    for name in modules:
        with contextlib.suppress(Exception):
            importlib.import_module(name)


def one_thread() -> None:
    """Keep torch to one thread, before it uses any: a fork of a process with threads hangs."""
    with contextlib.suppress(ImportError):
        import torch

        torch.set_num_threads(1)


def forget_ourselves() -> None:
    """Take this program's own modules out of the way of a student's modules of the same names."""
    for name in list(sys.modules):
        if name.partition(".")[0] == "autograder":
            del sys.modules[name]
    sys.path[:] = [os.getcwd(), *(path for path in sys.path if path != "")]
