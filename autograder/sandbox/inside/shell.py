"""The guest: runs a student's cells, and answers the judge's calls of what they define.

It holds nothing but the student's own work. What it says is taken for what a student says: the judge believes none of
it, so nothing here has to be kept from the code that runs beside it.
"""

import ast
import base64
import builtins
import contextlib
import importlib
import io
import os
import random
import socket
import sys
import threading
import time
import types
import warnings

import numpy as np
import torch_modules
import wire
from IPython.core.displayhook import DisplayHook
from IPython.core.displaypub import DisplayPublisher
from IPython.core.interactiveshell import InteractiveShell
from traitlets import Type
from traitlets.config import Config

MOST_OUTPUT = 400_000  # characters of text in one cell; more is dropped here, and cut again by who receives it
EVERY = 0.1  # seconds between two pieces of printed text
BESIDE = ("checks", "specifications", "misconceptions", "checking")
BUILT_IN = dict(vars(builtins))


class Link:
    """The guest's end of the wire to the judge."""

    def __init__(self, connection):
        self.connection, self.lock = connection, threading.RLock()

    def send(self, message, blobs=()):
        """Send one frame."""
        frame = wire.pack(message, blobs)
        with self.lock:
            self.connection.sendall(frame)

    def receive(self):
        """Wait for one frame; end when the other side is gone."""
        text, size = wire.lengths(self._exactly(wire.HEAD.size))
        whole = memoryview(self._exactly(text + size))
        return wire.unpack(bytes(whole[:text]), whole[text:])

    def _exactly(self, size):
        data = bytearray(size)
        view, got = memoryview(data), 0
        while got < size:
            count = self.connection.recv_into(view[got:])
            if not count:
                os._exit(0)
            got += count
        return bytes(data)


class Stream(io.TextIOBase):
    """`sys.stdout` and `sys.stderr` of a guest: text goes to the judge in pieces, and not without end."""

    encoding, errors = "utf-8", "replace"

    def __init__(self, name, outputs, descriptor):
        self.name, self.outputs, self.descriptor = name, outputs, descriptor
        self.parts, self.sent_at = [], 0.0

    def write(self, text):
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        if self.outputs.left > 0:
            piece = str(text)[: self.outputs.left]
            self.outputs.left -= len(piece)
            self.parts.append(piece)
            if self.outputs.left <= 0:
                self.parts.append("\n[more was printed than is kept]\n")
            if time.monotonic() - self.sent_at > EVERY or len(self.parts) > 200:
                self.flush()
        return len(text)

    def flush(self):
        self.sent_at = time.monotonic()
        parts, self.parts = self.parts, []
        if parts:
            self.outputs.send({"output_type": "stream", "name": self.name, "text": "".join(parts)})

    def writable(self):
        return True

    def fileno(self):
        return self.descriptor

    @property
    def buffer(self):
        return _Bytes(self)


class _Bytes:
    def __init__(self, stream):
        self.stream = stream

    def write(self, data):
        self.stream.write(bytes(data).decode("utf-8", "replace"))
        return len(data)

    def flush(self):
        self.stream.flush()


class Outputs:
    """Where everything that a cell shows goes, in its order."""

    def __init__(self, link):
        self.link, self.left, self.shown = link, MOST_OUTPUT, 0
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self.cut)

    def cut(self):
        """Leave the wire to the process that owns it: what a child prints goes to the descriptor 1."""
        self.link.connection.close()
        self.link = None

    def begin(self):
        """Start a cell: its allowance is whole again."""
        self.left, self.shown = MOST_OUTPUT, 0

    def send(self, output):
        if self.link is None:
            if output["output_type"] == "stream":
                os.write(1, output["text"].encode("utf-8", "replace"))
            return
        with contextlib.suppress(wire.TooLarge, ValueError, TypeError):
            self.link.send({"op": "output", "output": output})

    def rich(self, kind, data, **more):
        """Send a display or a result; what is not plain text or bytes stays here."""
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()
        self.shown += 1
        if self.shown > 200:
            return
        bundle = {}
        for mime, value in data.items():
            if isinstance(value, bytes):
                value = base64.b64encode(value).decode()
            bundle[str(mime)] = value if isinstance(value, (str, dict, list)) else str(value)
        self.send({"output_type": kind, "data": bundle, **more})


class Hook(DisplayHook):
    """Sends what a cell evaluates to."""

    def write_output_prompt(self):
        pass

    def write_format_data(self, format_dict, md_dict=None):
        self.shell.outputs.rich("execute_result", format_dict)

    def finish_displayhook(self):
        pass


class Publisher(DisplayPublisher):
    """Sends what a cell displays."""

    def publish(self, data, metadata=None, source=None, *, transient=None, update=False, **kwargs):
        if not update:
            self.shell.outputs.rich("display_data", data)

    def clear_output(self, wait=False):
        self.shell.outputs.send({"output_type": "clear"})


class Shell(InteractiveShell):
    """IPython without a terminal and without a kernel: what a notebook's cells expect, outputs on the wire."""

    displayhook_class = Type(Hook)
    display_pub_class = Type(Publisher)
    outputs = None

    def init_history(self):
        super().init_history()
        self.history_manager.enabled = False

    def transform_cell(self, raw_cell):
        """Leave what is Python already as it is: IPython looks through its tokens for magics, which takes longer.

        A line by itself may be a magic without its mark (`pwd`), and `In [1]: x` is Python too.
        """
        if raw_cell[:1].isspace() or raw_cell.startswith("In [") or "\n" not in raw_cell.strip():
            return super().transform_cell(raw_cell)
        try:
            with warnings.catch_warnings():  # what is to be warned of, the run says
                warnings.simplefilter("ignore")
                compile(raw_cell, "<cell>", "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        except Exception:
            return super().transform_cell(raw_cell)
        return raw_cell if raw_cell.endswith("\n") else raw_cell + "\n"

    def _showtraceback(self, etype, evalue, stb):
        with contextlib.suppress(Exception):
            sys.stdout.flush()
        try:
            text = str(evalue)
        except Exception:
            text = "(an exception that cannot be shown)"
        stb = [str(line)[:20_000] for line in stb][:100]
        self.outputs.send(
            {"output_type": "error", "ename": etype.__name__, "evalue": text[:2000], "traceback": stb},
        )

    def system(self, cmd):
        """Run a `!` command, its output among the cell's own."""
        import subprocess

        run = subprocess.run(
            self.var_expand(cmd, depth=1), shell=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            errors="replace", stdin=subprocess.DEVNULL,
        )  # fmt: skip
        sys.stdout.write(run.stdout)
        self.user_ns["_exit_code"] = run.returncode

    def enable_gui(self, gui=None):
        """There is no window here."""


class Absent(types.ModuleType):
    """Stands for the checks in a guest: a student's own line that calls them does nothing, and says so."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)

        def not_here(*arguments, **more):
            print(f"{self.__name__}.{name} runs in the check cells when a notebook is graded, and does nothing here.")

        return not_here


def make_shell():
    """Return a shell that is ready to run cells; its outputs go nowhere yet."""
    config = Config()
    config.HistoryManager.enabled = False
    config.InteractiveShell.colors = "nocolor"
    config.InteractiveShell.cache_size = 50
    os.environ.setdefault("MPLBACKEND", "module://matplotlib_inline.backend_inline")
    main = types.ModuleType("__main__")
    sys.modules["__main__"] = main
    shell = Shell.instance(config=config, user_module=main, user_ns=main.__dict__)
    for name in BESIDE:
        sys.modules[name] = Absent(name)
    return shell


class Responder:
    """One submission's life: cells and calls, until the judge has no more."""

    def __init__(self, shell, connection):
        self.shell, self.link = shell, Link(connection)
        self.outputs = shell.outputs = Outputs(self.link)
        self.handles, self.functions, self.spilled, self.seed = [], {}, _spill(), None
        self.streams = {"stdout": Stream("stdout", self.outputs, 1), "stderr": Stream("stderr", self.outputs, 2)}
        vars(sys).update(self.streams)
        sys.displayhook = shell.displayhook

    def serve(self):
        """Answer requests until the judge hangs up."""
        self.link.send({"op": "ready"})
        while True:
            message, blobs = self.link.receive()
            reply, out = {"op": "done"}, []
            try:
                getattr(self, "do_" + message["op"])(message, blobs, reply, out)
            except wire.TooLarge as error:
                out, reply["error"] = [], {"names": ["ValueError"], "text": f"the result cannot be taken: {error}"}
            except BaseException as error:  # a SystemExit in a submission is an answer too
                out, reply["error"] = [], self.described(error)
            self.flush()
            try:
                self.link.send(reply, out)
            except wire.TooLarge as error:
                names = {"names": ["ValueError"], "text": f"the result cannot be taken: {error}"}
                self.link.send({"op": "done", "error": names})

    def flush(self):
        """Send what is printed and not sent, and what came straight to the descriptors."""
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()
        text = self.spilled()
        if text and self.outputs.left > 0:
            self.outputs.send({"output_type": "stream", "name": "stdout", "text": text[: self.outputs.left]})
            self.outputs.left -= len(text)

    def put_back(self):
        """Put back what this program itself needs, where a cell took it away: streams and built-in functions."""
        for name in BUILT_IN.keys() - builtins.__dict__.keys():
            builtins.__dict__[name] = BUILT_IN[name]
        for name, stream in self.streams.items():
            try:
                sys.__dict__[name].write  # noqa: B018 (whether there is one)
            except Exception:
                sys.__dict__[name] = stream

    def do_start(self, message, blobs, reply, out):
        """Take the files beside the notebook, and seeds of one's own."""
        self.seed = message["seed"]
        random.seed(self.seed)
        np.random.seed(self.seed % 2**32)
        if "torch" in sys.modules:
            self.seed_torch()
        for name, blob in zip(message["files"], blobs, strict=True):
            path = os.path.join(os.getcwd(), name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as file:
                file.write(blob)

    def seed_torch(self):
        """Seed torch once, when it is there or about to come."""
        with contextlib.suppress(ImportError):
            import torch

            backends = torch.backends
            if backends.cuda.is_built() or backends.mps.is_built():
                torch.manual_seed(self.seed)
            else:  # the same, without what other devices take to be asked: milliseconds in a process that is new
                torch.default_generator.manual_seed(self.seed)
            self.seed = None

    def do_cell(self, message, blobs, reply, out):
        """Run one cell; its outputs have gone before the reply does."""
        self.outputs.begin()
        source = bytes(blobs[0]).decode()
        if self.seed is not None and "torch" in source:
            self.seed_torch()
        self.put_back()
        try:
            result = self.shell.run_cell(source, store_history=True)
            reply["success"] = bool(result.success)
        finally:
            self.put_back()

    def do_find(self, message, blobs, reply, out):
        """Look up a name as it stands now."""
        found = message["name"] in self.shell.user_ns
        reply["found"] = found
        if found:
            reply["value"] = self.encoder(out).encode(self.shell.user_ns[message["name"]])

    def do_call(self, message, blobs, reply, out):
        """Call something; return its result, and the arguments that it changed in place."""
        self.outputs.begin()
        decoder = wire.Decoder(blobs, self.reference)
        target = self.target(message)
        arguments, more = decoder.decode(message["arguments"]), decoder.decode(message["keywords"])
        shapes = [tuple(array.shape) for array, *_ in decoder.arrays]
        try:
            with _quiet():
                result = target(*arguments, **more)
            encoder = self.encoder(out)
            reply["value"] = encoder.encode(result)
        except BaseException as error:
            out.clear()
            reply["error"] = self.described(error)
        for place, (array, buffer, data) in enumerate(decoder.arrays):
            if buffer != data:
                reply.setdefault("changed", {})[str(place)] = len(out)
                out.append(bytes(buffer))
            if tuple(array.shape) != shapes[place]:
                reply.setdefault("reshaped", {})[str(place)] = list(array.shape)

    def do_get(self, message, blobs, reply, out):
        """Read an attribute."""
        with _quiet():
            found = getattr(self.target(message), message["name"])
        reply["value"] = self.encoder(out).encode(found)

    def do_keep(self, message, blobs, reply, out):
        """Keep a value of the judge's here, such as a module to be an argument, and say what stands for it."""
        (value,) = wire.Decoder(blobs, self.reference).decode(message["arguments"])
        reply["value"] = self.hold(value)

    def do_backward(self, message, blobs, reply, out):
        """Call with autograd; return the result and the gradients of arguments and parameters."""
        import torch

        self.outputs.begin()
        decoder = wire.Decoder(blobs, self.reference)
        target = self.target(message)
        arguments, more = decoder.decode(message["arguments"]), decoder.decode(message["keywords"])
        upstream = decoder.decode(message["upstream"])
        with _quiet(), torch.enable_grad():
            arguments = [
                argument.detach().requires_grad_() if _floating(argument) else argument for argument in arguments
            ]
            if isinstance(target, torch.nn.Module):
                target.zero_grad()
            result = target(*arguments, **more)
            first = result[0] if isinstance(result, (tuple, list)) else result
            send_back(first, upstream)
            named = target.named_parameters(remove_duplicate=False) if isinstance(target, torch.nn.Module) else ()
            value = (
                result,
                [argument.grad if _floating(argument) else None for argument in arguments],
                {name: parameter.grad for name, parameter in named},
            )
        reply["value"] = self.encoder(out).encode(value)

    def do_run(self, message, blobs, reply, out):
        """Run a function of the checks' own, which came as text, with something of the student's."""
        self.outputs.begin()
        decoder = wire.Decoder(blobs, self.reference)
        target = self.target(message)
        arguments = decoder.decode(message["arguments"])
        name, source = decoder.decode(message["name"]), decoder.decode(message["source"])
        if source not in self.functions:
            names = {}
            exec(compile(source, "<a function of the checks>", "exec"), names)
            self.functions[source] = names[name]
        with _quiet():
            result = self.functions[source](target, *arguments)
        reply["value"] = self.encoder(out).encode(result)

    def target(self, message):
        """Return what a message is about: a name of the notebook's, or an object handed out before."""
        if "name_of" in message:
            name = message["name_of"]
            if name not in self.shell.user_ns:
                raise NameError(f"name {name!r} is not defined")
            found = self.shell.user_ns[name]
        else:
            found = self.handles[message["handle"]]
        return getattr(found, message["method"]) if "method" in message else found

    def encoder(self, out):
        """Return an encoder whose blobs follow those in `out`."""
        encoder = wire.Encoder(self.hold)
        encoder.blobs = out
        return encoder

    def hold(self, value, encoder=None):
        """Keep an object here and return the handle that stands for it."""
        place = next((place for place, held in enumerate(self.handles) if held is value), len(self.handles))
        if place == len(self.handles):
            self.handles.append(value)
        kind = type(value)
        size = None
        with contextlib.suppress(BaseException):
            size = len(value)
        return {
            "t": "handle",
            "v": place,
            "type": str(kind.__name__)[:100],
            "callable": callable(value),
            "module": hasattr(kind, "state_dict"),
            "size": size,
        }

    def reference(self, value, decoder):
        """Return what stands for a handle, a callback, a generator or a module that the judge sent."""
        kind, content = value["t"], value.get("v")
        if kind == "mine":
            return self.handles[content]
        if kind == "name":
            return self.shell.user_ns[content]
        if kind == "callback":
            return lambda *arguments, **more: self.call_back(content, arguments, more)
        if kind == "generator":
            seeds = np.random.SeedSequence(**content.pop("seeds", {}))
            generator = np.random.Generator(getattr(np.random, content["bit_generator"])(seeds))
            generator.bit_generator.state = content
            return generator
        if kind == "module":
            return torch_modules.rebuild(decoder.decode(content))
        raise wire.Violation(f"a value of no known form: {kind}")

    def call_back(self, place, arguments, more):
        """Ask the judge for the result of one of its functions."""
        encoder = wire.Encoder(self.hold)
        request = {
            "op": "callback",
            "callback": place,
            "arguments": encoder.encode(tuple(arguments)),
            "keywords": encoder.encode(more),
        }
        with self.link.lock:
            self.link.send(request, encoder.blobs)
            message, blobs = self.link.receive()
        if "error" in message:
            raise _builtin(message["error"]["names"])(message["error"]["text"])
        return wire.Decoder(blobs, self.reference).decode(message["value"])

    def described(self, error):
        """Return an exception as the names of its classes and its text."""
        try:
            text = str(error)
        except BaseException:
            text = "(an exception that cannot be shown)"
        names = [kind.__name__[:100] for kind in type(error).__mro__ if kind not in (object, BaseException)]
        return {"names": names[:20], "text": text[:2000]}


def _builtin(names):
    for name in names:
        kind = getattr(builtins, name, None)
        if isinstance(kind, type) and issubclass(kind, Exception):
            return kind
    return RuntimeError


def send_back(result, upstream):
    """Call `backward` on a result, as `_send_back` in checking/suite.py does, which cannot be had here."""
    import torch

    upstream = torch.ones_like(result) if upstream is None else upstream
    if result.is_floating_point() and result.shape == upstream.shape:
        (result * upstream).sum().backward()
    else:
        result.backward(upstream)


def _floating(value):
    return (
        type(value).__module__.startswith("torch")
        and hasattr(value, "is_floating_point")
        and value.is_floating_point()
    )


@contextlib.contextmanager
def _quiet():
    """A warning is not a fault: what would go to stderr while the judge calls, goes to stdout.

    And torch draws the same numbers in each call: see `same_draws` in checking/modules.py, which cannot be had here.
    """
    generator = getattr(sys.modules.get("torch"), "default_generator", None)
    state = generator and generator.get_state()
    if generator:
        generator.manual_seed(0)
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings(), contextlib.redirect_stderr(sys.stdout):
            warnings.simplefilter("ignore")
            yield
    finally:
        if generator:
            generator.set_state(state)


def _spill():
    """Send the descriptors 1 and 2 to a file of their own; return a function that reads what came there."""
    import tempfile

    if not hasattr(os, "pread"):  # Windows
        return lambda: ""
    try:
        file = tempfile.TemporaryFile(buffering=0)
        for descriptor in (1, 2):
            os.dup2(file.fileno(), descriptor)
        reader = os.dup(file.fileno())
    except OSError:
        return lambda: ""
    seen = 0

    def read():
        nonlocal seen
        try:
            size = os.fstat(reader).st_size
            if size == seen:
                return ""
            data = os.pread(reader, MOST_OUTPUT, seen)
        except OSError:
            return ""
        seen = size
        return data.decode("utf-8", "replace")

    return read


def forget_ourselves():
    """Take this program's own modules out of the way of a student's modules of the same names."""
    here = os.path.dirname(os.path.abspath(__file__))
    for file in os.listdir(here):
        sys.modules.pop(file.removesuffix(".py"), None)
    sys.path[:] = [os.getcwd()] + [path for path in sys.path if path not in ("", here)]


def one_thread():
    """Keep torch to one thread, before it uses any: a fork of a process with threads hangs."""
    with contextlib.suppress(ImportError):
        import torch

        torch.set_num_threads(1)


def load(modules):
    """Load what the notebook will import; what cannot be loaded fails where it is imported."""
    for name in modules:
        with contextlib.suppress(Exception):
            importlib.import_module(name)


def main(address, *modules):
    """Be a guest without a sandbox: one submission in an ordinary process, on any system."""
    host, port, token = address.split(":")
    connection = socket.create_connection((host, int(port)))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.sendall(token.encode())
    devnull = os.open(os.devnull, os.O_RDONLY)
    os.dup2(devnull, 0)
    shell = make_shell()
    load(modules)
    forget_ourselves()
    Responder(shell, connection).serve()


if __name__ == "__main__":
    main(*sys.argv[1:])
