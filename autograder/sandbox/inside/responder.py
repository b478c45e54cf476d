"""The guest: runs a student's cells, and answers the judge's calls of what they define.

It has nothing but the student's own work. Whatever it sends counts as sent by the student: the
judge trusts none of it, so nothing here has to be protected from the code that runs next to it.
"""

import builtins
import contextlib
import linecache
import os
import random
import socket
import sys
import tempfile
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

from autograder.checking.shared_with_guest import differentiated, quiet, unusual_kind
from autograder.sandbox.inside import stand_ins, torch_modules, wire
from autograder.sandbox.inside.lacking import Lacking
from autograder.sandbox.inside.link import Link
from autograder.sandbox.inside.shell import (
    MOST_OUTPUT,
    Outputs,
    Shell,
    Stream,
    forget_ourselves,
    load,
    make_shell,
)

OVER = (
    "`{name}` was the course's own for a while, and is yours again: look it up by its name at "
    "each call."
)
BUILT_IN = dict(vars(builtins))
MISSING = object()
"""Replaces the value of a name that a notebook does not have."""

Plain = dict[str, Any]
"""A message, or a part of one, as JSON has it."""


class Responder:
    """One submission's life: cells and calls, until the judge has no more."""

    def __init__(self, shell: Shell, connection: socket.socket):
        self.shell, self.link = shell, Link(connection)
        self.outputs = Outputs(self.link)
        shell.outputs = self.outputs
        self.handles: list[Any] = []
        self.results: list[Any] = []  # of the parts of a request for several things, so far
        # functions of the checks' own, by name, for each text
        self.functions: dict[str, dict[str, Any]] = {}
        self.contexts = 0  # how often the course's answers were put in place, or taken away
        # the notebook's values of names that the course's answers replace
        self.replaced: dict[str, Any] = {}
        self.descriptor_output = _redirect_descriptors()
        self.seed: int | None = None  # until torch is seeded with it
        self.streams = {
            "stdout": Stream("stdout", self.outputs, 1),
            "stderr": Stream("stderr", self.outputs, 2),
        }
        vars(sys).update(self.streams)
        sys.displayhook = shell.displayhook

    def serve(self) -> NoReturn:
        """Answer requests until the judge hangs up."""
        self.link.send({"op": "ready"})
        while True:
            message, blobs = self.link.receive()
            reply: Plain = {"op": "done"}
            out: list[bytes] = []
            try:
                getattr(self, "do_" + message["op"])(message, blobs, reply, out)
            except wire.TooLarge as error:
                out = []
                reply["error"] = _too_large(error)
            except BaseException as error:  # a SystemExit in a submission is an answer too
                out = []
                reply["error"] = self.described(error)
            self.flush()
            try:
                self.link.send(reply, out)
            except wire.TooLarge as error:
                self.link.send({"op": "done", "error": _too_large(error)})

    def flush(self) -> None:
        """Send what is printed and not sent, and what was written to the descriptors themselves."""
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()
        text = self.descriptor_output()[: max(self.outputs.characters_left, 0)]
        if text:
            self.outputs.send({"output_type": "stream", "name": "stdout", "text": text})
            self.outputs.characters_left -= len(text)

    def put_back(self) -> None:
        """Put back what this program itself needs, where a cell took it away: streams and
        built-in functions.
        """
        for name in BUILT_IN.keys() - builtins.__dict__.keys():
            builtins.__dict__[name] = BUILT_IN[name]
        for name, stream in self.streams.items():
            try:
                sys.__dict__[name].write  # noqa: B018 (whether there is one)
            except Exception:
                sys.__dict__[name] = stream

    def do_start(
        self, message: Plain, blobs: list[memoryview], reply: Plain, out: list[bytes]
    ) -> None:
        """Write the files that come with the notebook, and take this submission's seed."""
        seed = int(message["seed"])
        self.seed = seed
        random.seed(seed)
        # NumPy takes no more bits here.
        np.random.seed(seed % 2**32)
        if "torch" in sys.modules:
            self.seed_torch()
        for name, blob in zip(message["files"], blobs, strict=True):
            path = os.path.join(os.getcwd(), name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as file:
                file.write(blob)

    def seed_torch(self) -> None:
        """Seed torch once, when it is there or about to come."""
        with contextlib.suppress(ImportError):
            import torch

            assert self.seed is not None
            backends = torch.backends
            if backends.cuda.is_built() or backends.mps.is_built():
                torch.manual_seed(self.seed)
            else:
                # The same for the CPU. Without the other devices, which it need not ask, it saves
                # milliseconds in a new process.
                torch.default_generator.manual_seed(self.seed)
            self.seed = None

    def do_cell(
        self, message: Plain, blobs: list[memoryview], reply: Plain, out: list[bytes]
    ) -> None:
        """Run one cell; its outputs are sent before the reply.

        A student's cell continues without what is missing here, and the reply names that.
        """
        self.outputs.begin()
        self.shell.lacking = Lacking() if message.get("skip_missing") else None
        source = bytes(blobs[0]).decode()
        if self.seed is not None and "torch" in source:
            self.seed_torch()
        self.put_back()
        try:
            result = self.shell.run_cell(source, store_history=True)
            reply["success"] = bool(result.success)
            if self.shell.lacking is not None:
                self.shell.lacking.add(result.error_in_exec)
                reply["lacking"] = self.shell.lacking.entries
        finally:
            self.shell.lacking = None
            self.put_back()

    def do_find(
        self, message: Plain, blobs: list[memoryview], reply: Plain, out: list[bytes]
    ) -> None:
        """Look up the current value of a name."""
        exists = message["name"] in self.shell.user_ns
        reply["found"] = exists
        if exists:
            reply["value"] = self.encoder(out).encode(self.shell.user_ns[message["name"]])

    def do_call(
        self, message: Plain, blobs: list[memoryview], reply: Plain, out: list[bytes]
    ) -> Any:
        """Call something; reply its result, and the arguments that it changed in place.

        Return the result, too.
        """
        self.outputs.begin()
        decoder = wire.Decoder(blobs, self.reference)
        target = self.target(message)
        arguments, more = decoder.decode(message["arguments"]), decoder.decode(message["keywords"])
        shapes = [tuple(array.shape) for array, *_ in decoder.arrays]
        sent = len(out)
        try:
            with quiet():
                result = target(*arguments, **more)
            reply["value"] = self.encoder(out).encode(result)
        except BaseException as error:
            # Those of a result that could be encoded only in part.
            del out[sent:]
            result = None
            reply["error"] = self.described(error)
        for number, (array, buffer, data) in enumerate(decoder.arrays):
            if buffer != data:
                reply.setdefault("changed", {})[str(number)] = len(out)
                out.append(bytes(buffer))
            if tuple(array.shape) != shapes[number]:
                reply.setdefault("reshaped", {})[str(number)] = list(array.shape)
        return result

    def do_instead(
        self, message: Plain, blobs: list[memoryview], reply: Plain, out: list[bytes]
    ) -> None:
        """Replace these names of the notebook, and no others, by the judge's functions and classes;
        without any, restore all of them.
        """
        (answers,) = wire.Decoder(blobs, self.reference).decode(message["arguments"])
        names = self.shell.user_ns
        for name, before in self.replaced.items():
            if before is MISSING:
                names.pop(name, None)
            else:
                names[name] = before
        self.replaced = {name: names.get(name, MISSING) for name in answers}
        self.contexts += 1
        for name, (kind, ask) in answers.items():
            names[name] = stand_ins.stand_in(name, kind, self.in_context(name, ask))

    def in_context(self, name: str, ask: Callable[..., Any]) -> Callable[..., Any]:
        """Return what asks the judge as `ask` does, as long as these stand-ins and no others are
        in place.
        """
        context = self.contexts

        def asking(*arguments: Any) -> Any:
            if self.contexts != context:
                raise RuntimeError(OVER.format(name=name))
            return ask(*arguments)

        return asking

    def do_several(
        self, message: Plain, blobs: list[memoryview], reply: Plain, out: list[bytes]
    ) -> None:
        """Do several things, one after another; what one makes, a later one may be about."""
        replies: list[Plain] = []
        reply["replies"] = replies
        self.results.clear()
        for part in message["parts"]:
            answer: Plain = {}
            result = None
            sent = len(out)
            try:
                result = getattr(self, "do_" + part["op"])(part, blobs, answer, out)
            except BaseException as error:
                del out[sent:]
                answer = {"error": self.described(error)}
            replies.append(answer)
            self.results.append(result)
        self.results.clear()

    def do_get(
        self, message: Plain, blobs: list[memoryview], reply: Plain, out: list[bytes]
    ) -> None:
        """Read an attribute."""
        with quiet():
            attribute = getattr(self.target(message), message["name"])
        reply["value"] = self.encoder(out).encode(attribute)

    def do_keep(
        self, message: Plain, blobs: list[memoryview], reply: Plain, out: list[bytes]
    ) -> None:
        """Keep a value of the judge's here, such as a module for an argument; reply its handle."""
        (value,) = wire.Decoder(blobs, self.reference).decode(message["arguments"])
        reply["value"] = self.hold(value)

    def do_backward(
        self, message: Plain, blobs: list[memoryview], reply: Plain, out: list[bytes]
    ) -> None:
        """Call with autograd; return the result and the gradients of arguments and parameters."""
        self.outputs.begin()
        decoder = wire.Decoder(blobs, self.reference)
        target = self.target(message)
        arguments, more = decoder.decode(message["arguments"]), decoder.decode(message["keywords"])
        upstream = decoder.decode(message["upstream"])
        with quiet():
            value = differentiated(target, arguments, upstream, more)
        reply["value"] = self.encoder(out).encode(value)

    def do_run(
        self, message: Plain, blobs: list[memoryview], reply: Plain, out: list[bytes]
    ) -> None:
        """Run a function of the checks' own, which came as text, with something of the
        student's.
        """
        self.outputs.begin()
        decoder = wire.Decoder(blobs, self.reference)
        target = self.target(message)
        arguments = decoder.decode(message["arguments"])
        name = decoder.decode(message["name"])
        source = decoder.decode(message["source"])
        if source not in self.functions:
            names: dict[str, Any] = {}
            file = f"<a function of the checks, {len(self.functions) + 1}>"
            lines = source.splitlines(keepends=True)
            linecache.cache[file] = len(source), None, lines, file  # Triton reads kernels there
            exec(compile(source, file, "exec"), names)  # noqa: S102 (the judge's, in a guest)
            self.functions[source] = names
        with quiet():
            result = self.functions[source][name](target, *arguments)
        reply["value"] = self.encoder(out).encode(result)

    def target(self, message: Plain) -> Any:
        """Return what a message is about: a name of the notebook's, or an object handed out
        before.
        """
        if "name_of" in message:
            name = message["name_of"]
            if name not in self.shell.user_ns:
                raise NameError(f"name {name!r} is not defined")
            target = self.shell.user_ns[name]
        elif "part" in message:
            target = self.results[message["part"]]
        else:
            target = self.handles[message["handle"]]
        return getattr(target, message["method"]) if "method" in message else target

    def encoder(self, out: list[bytes]) -> wire.Encoder:
        """Return an encoder whose blobs follow those in `out`."""
        encoder = wire.Encoder(self.hold)
        encoder.blobs = out
        return encoder

    def hold(self, value: Any, encoder: wire.Encoder | None = None) -> Plain:
        """Keep an object here and return the handle that stands for it."""
        # By identity, because `==` and `hash` may be the student's.
        numbers = (number for number, known in enumerate(self.handles) if known is value)
        number = next(numbers, len(self.handles))
        if number == len(self.handles):
            self.handles.append(value)
        kind = type(value)
        size = None
        values = ""
        # A student's own `__len__`, for example, may also exit.
        with contextlib.suppress(BaseException):
            values = unusual_kind(value)[:100]
        with contextlib.suppress(BaseException):
            size = len(value)
        return {
            "t": "handle",
            "v": number,
            "type": str(kind.__name__)[:100],
            "callable": callable(value),
            "module": hasattr(kind, "state_dict"),  # an object itself may answer to any name
            "size": size,
            "values": values,
        }

    def reference(self, value: Plain, decoder: wire.Decoder) -> Any:
        """Return what stands for a handle, a callback, a generator or a module that the judge
        sent.
        """
        kind: str = value["t"]
        content: Any = value.get("v")
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
        raise wire.Violation(f"a value of unknown form: {kind}")

    def call_back(self, number: int, arguments: Sequence[Any], more: Plain) -> Any:
        """Ask the judge for the result of one of its functions."""
        encoder = wire.Encoder(self.hold)
        request = {
            "op": "callback",
            "callback": number,
            "arguments": encoder.encode(tuple(arguments)),
            "keywords": encoder.encode(more),
        }
        # Until the answer is there: another thread must not take it, nor send in between.
        with self.link.lock:
            self.link.send(request, encoder.blobs)
            message, blobs = self.link.receive()
        if "error" in message:
            raise _builtin(message["error"]["names"])(message["error"]["text"])
        return wire.Decoder(blobs, self.reference).decode(message["value"])

    def described(self, error: BaseException) -> Plain:
        """Return an exception as the names of its classes and its text."""
        try:
            text = str(error)
        except BaseException:
            text = "(the exception cannot be shown)"
        names = [
            kind.__name__[:100]
            for kind in type(error).__mro__
            if kind not in (object, BaseException)
        ]
        return {"names": names[:20], "text": text[:2000]}


def _too_large(error: wire.TooLarge) -> Plain:
    return {"names": ["ValueError"], "text": f"the result cannot be read: {error}"}


def _builtin(names: Sequence[str]) -> type[Exception]:
    for name in names:
        kind = getattr(builtins, name, None)
        if isinstance(kind, type) and issubclass(kind, Exception):
            return kind
    return RuntimeError


def _redirect_descriptors() -> Callable[[], str]:
    """Redirect the descriptors 1 and 2 to a file; return a function that reads its new content."""
    if not hasattr(os, "pread"):  # Windows
        return lambda: ""
    try:
        file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 (it lasts as long as the guest)
        for descriptor in (1, 2):
            os.dup2(file.fileno(), descriptor)
        reader = os.dup(file.fileno())
    except OSError:
        return lambda: ""
    seen = 0

    def read() -> str:
        nonlocal seen
        try:
            size = os.fstat(reader).st_size
            if size == seen:
                return ""
            data = os.pread(reader, MOST_OUTPUT, seen)
        except OSError:
            return ""
        # All of it: what is beyond MOST_OUTPUT is dropped.
        seen = size
        return data.decode("utf-8", "replace")

    return read


def main(address: str, *modules: str) -> None:
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
