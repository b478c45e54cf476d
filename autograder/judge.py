"""The judge: runs check cells, asks the guest for values, and alone decides what a cell is worth.

A check cell reads here as it does in a student's Jupyter: a name that the cells before it define is a callable that
asks the guest. What comes back is plain values; nothing that the guest says can be more than a wrong answer.
"""

import ast
import builtins
import contextlib
import functools
import importlib
import io
import math
import os
import re
import sys
import traceback
import warnings

import numpy as np

import checking.suite
from autograder.guest import wire
from autograder.sandbox import Ended
from checking import MIME, show

OURS = ("checks", "misconceptions")
MOST_CALLBACKS = 10_000


class Fault(Exception):
    """Our own fault: the checks of the course cannot run."""


class Remote:
    """An object of the guest: a name as it stands when it is used, or something that a call gave back."""

    def __init__(self, judge, target, kind="function", size=None):
        self.__dict__.update(_judge=judge, _target=target, _kind=kind, _size=size)

    def __call__(self, *arguments, **keywords):
        """Have the guest call it."""
        return self._judge.ask("call", self._target, arguments, keywords)

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return self._judge.ask("get", self._target, name=name)

    def __setattr__(self, name, value):
        raise AttributeError(f"{name} of a student's object cannot be set from a check: call one of its methods")

    def __len__(self):
        if self._size is None:
            raise TypeError(f"object of type {self._kind!r} has no len()")
        return self._size

    def __bool__(self):
        return True

    def __deepcopy__(self, memo):
        return self

    def __repr__(self):
        return f"<{self._kind} of the student's>"

    def _backward(self, arguments, upstream):
        return self._judge.ask("backward", self._target, arguments, upstream=upstream)


def plain_remote(judge, target, value):
    """Return a `Remote`: callable only if what it stands for is."""
    kind = {"__doc__": Remote.__doc__} if value.get("callable") else {"__call__": None}
    name = wire.clean(str(value.get("type")), 100)
    size = value.get("size")
    own = type(name, (Remote,), {**kind, "__module__": "guest"})
    return own(judge, target, name, size if type(size) is int and 0 <= size < 2**62 else None)


_folder = ""


def _read_checks_from(folder):
    """Let `import checks` mean the checks in this folder, and forget those of another exercise."""
    global _folder
    if folder == _folder:
        return
    for name, module in list(sys.modules.items()):
        if _folder and str(getattr(module, "__file__", None) or "").startswith(_folder + os.sep):
            del sys.modules[name]
    sys.path[:] = [folder] + [path for path in sys.path if path != _folder]
    _folder = folder
    importlib.invalidate_caches()


class Names(dict):
    """The names that a check cell sees: its own, the course's imports, and behind them the guest's."""

    def __init__(self, judge):
        super().__init__(__name__="__main__", __builtins__=builtins)
        self.judge = judge

    def __missing__(self, name):
        if hasattr(builtins, name):
            raise KeyError(name)
        return self.judge.find(name)


class Judge:
    """Runs the check cells of one submission at a time.

    Parameters
    ----------
    exercise : Exercise
        Its released folder holds the checks.
    """

    def __init__(self, exercise):
        self.exercise = exercise
        self.guest = None

    def begin(self, seed):
        """Start a submission: fresh names, and the seed of its draws."""
        _read_checks_from(str(self.exercise.released))
        self.names, self.seed, self.outputs, self.kept, self.callbacks = Names(self), seed, [], 0, []
        checking.suite.here = self

    def check(self, cell, guest):
        """Run one check cell; return its points and its outputs.

        Returns
        -------
        tuple
            Points (a finite number from 0 to the cell's), the cell's outputs, and why the guest ended, or None.

        Raises
        ------
        Fault
            If the checks themselves are at fault.
        """
        self.guest, self.outputs, self.kept = guest, [], guest.limits["output_kb"] << 10
        most, ended = float(cell.metadata.nbgrader.points), None
        self.printed, value = io.StringIO(), None
        try:
            body, last = _parsed(cell.source, str(cell.id))
            with contextlib.redirect_stdout(self.printed), warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                exec(body, self.names)
                value = eval(last, self.names) if last else None
            points = _points(value, most)
        except Fault:
            raise
        except Ended as error:
            points = 0.0
            self._text(f"This check stopped: {error}")
        except Exception as error:
            if isinstance(error, (ImportError, SyntaxError)) and not getattr(error, "from_guest", False):
                raise Fault(f"the check cell {cell.id} cannot run: {type(error).__name__}: {error}") from error
            points = 0.0
            self._text(_told(error, str(cell.id)))
        self._flush()
        if guest.ended:
            ended = guest.ended
        return points, self.outputs, ended

    # What `checking` asks of the place where it runs.

    def lookup(self, name):
        """Return what the guest has under a name now, or None."""
        return self.find(name, missing=None)

    def show(self, report):
        """Keep a report for the graded notebook."""
        self._flush()
        bundle = {"text/plain": show.text(report), "text/html": show.as_html(report), MIME: report.to_dict()}
        self.outputs.append({"output_type": "display_data", "data": bundle, "metadata": {}})

    # The wire.

    def find(self, name, missing=KeyError):
        """Return what the guest has under a name: a value, or a `Remote` that looks it up again at each use."""
        answer, blobs = self._request({"op": "find", "name": name})
        if not answer.get("found"):
            if missing is KeyError:
                raise KeyError(name)
            return missing
        value = answer.get("value")
        if isinstance(value, dict) and value.get("t") == "handle":
            return plain_remote(self, {"name_of": name}, value)
        return self._taken(lambda: self._decoder(blobs).decode(value))

    def ask(self, op, target, arguments=(), keywords=None, **more):
        """Have the guest do something, and return what it says came of it."""
        encoder = wire.Encoder(self._reference_to)
        message = {
            "op": op,
            **target,
            "arguments": encoder.encode(tuple(arguments)),
            "keywords": encoder.encode(dict(keywords or {})),
            **{name: encoder.encode(value) for name, value in more.items()},
        }
        answer, blobs = self._request(message, encoder.blobs)
        self._taken(lambda: self._write_back(answer.get("changed"), encoder, message, blobs))
        self._taken(lambda: self._reshape(answer.get("reshaped"), encoder))
        if "error" in answer:
            raise self._taken(lambda: _exception(answer["error"]))
        return self._taken(lambda: self._decoder(blobs).decode(answer.get("value")))

    def _taken(self, read):
        """Return what `read()` makes of a reply; what no honest guest sends ends the guest."""
        try:
            return read()
        except wire.Violation as error:
            raise self.guest.fail(f"on the wire to the judge came {error}: a forged reply.", "hostile") from None

    def _request(self, message, blobs=()):
        calls = [0]

        def on_callback(answer, data):
            calls[0] += 1
            if calls[0] > MOST_CALLBACKS:
                raise wire.Violation("more calls of the judge's functions than any answer needs")
            return self._called_back(answer, data)

        return self.guest.request(message, blobs, on_output=self._output, on_callback=on_callback)

    def _decoder(self, blobs):
        return wire.Decoder(blobs, self._reference_from, copy=True)

    def _reference_from(self, value, decoder):
        place = value.get("v")
        if value.get("t") != "handle" or type(place) is not int or place < 0:
            raise wire.Violation("a value of no known form")
        return plain_remote(self, {"handle": place}, value)

    def _reference_to(self, value, encoder):
        if isinstance(value, Remote):
            own = value._target
            return {"t": "mine", "v": own["handle"]} if "handle" in own else {"t": "name", "v": own["name_of"]}
        if isinstance(value, np.random.Generator):
            state = value.bit_generator.state
            return {"t": "generator", "v": _plain(state)}
        torch = sys.modules.get("torch")
        if torch is not None and isinstance(value, torch.nn.Module):
            return {"t": "module", "v": encoder.encode(wire.recipe(value))}
        if callable(value):
            self.callbacks.append(value)
            return {"t": "callback", "v": len(self.callbacks) - 1}
        raise Fault(f"a {type(value).__name__} cannot cross to the guest")

    def _called_back(self, answer, data):
        place = answer.get("callback")
        if type(place) is not int or not 0 <= place < len(self.callbacks):
            raise wire.Violation("a call of a function that was never sent")
        decoder = self._decoder(data)
        arguments, keywords = decoder.decode(answer.get("arguments")), decoder.decode(answer.get("keywords"))
        if type(arguments) is not tuple or type(keywords) is not dict:
            raise wire.Violation("a call without arguments")
        encoder = wire.Encoder(self._reference_to)
        try:
            with np.errstate(all="ignore"):
                result = {"value": encoder.encode(self.callbacks[place](*arguments, **keywords))}
        except Exception as error:
            encoder.blobs.clear()
            names = [kind.__name__ for kind in type(error).__mro__]
            result = {"error": {"names": names, "text": str(error)[:2000]}}
        return wire.pack({"op": "reply", **result}, encoder.blobs)

    def _write_back(self, changed, encoder, message, blobs):
        """Do to the judge's arrays what the guest did to its own in place."""
        if changed is None:
            return
        if not isinstance(changed, dict):
            raise wire.Violation("a change of nothing")
        for place, number in changed.items():
            if not re.fullmatch(r"[0-9]{1,6}", place) or int(place) >= len(encoder.arrays) or type(number) is not int:
                raise wire.Violation("a change of an array that was never sent")
            own = encoder.arrays[int(place)]
            sent = list(_sent(message, "array", "tensor"))[int(place)]
            if not 0 <= number < len(blobs) or len(blobs[number]) != len(encoder.blobs[sent["b"]]):
                raise wire.Violation("a change of another size")
            after = wire.Decoder([blobs[number]], self._reference_from)._tagged(sent["t"], {**sent, "b": 0}, 0)
            if isinstance(own, np.ndarray):
                if own.flags.writeable:
                    np.copyto(own, after)
            else:
                import torch

                with torch.no_grad():
                    own.copy_(after)

    def _reshape(self, reshaped, encoder):
        """Give the judge's arrays the shapes that the guest gave its own in place."""
        if reshaped is None:
            return
        if not isinstance(reshaped, dict):
            raise wire.Violation("a new shape of nothing")
        for place, shape in reshaped.items():
            if not re.fullmatch(r"[0-9]{1,6}", place) or int(place) >= len(encoder.arrays):
                raise wire.Violation("a new shape of an array that was never sent")
            own = encoder.arrays[int(place)]
            sizes = isinstance(shape, list) and len(shape) <= 32 and all(type(n) is int and n >= 0 for n in shape)
            if not sizes or math.prod(shape) != math.prod(own.shape):
                raise wire.Violation("a new shape of another size")
            if isinstance(own, np.ndarray):
                try:
                    own.shape = tuple(shape)
                except AttributeError:
                    raise wire.Violation("a new shape that an array's memory does not allow") from None

    # Outputs.

    def _output(self, output):
        if isinstance(output, dict) and output.get("output_type") == "stream" and self.kept > 0:
            text = wire.clean(str(output.get("text")), min(self.kept, 2000))
            self.kept -= len(text)
            self.printed.write(text)

    def _text(self, text):
        self.printed.write(text + "\n")

    def _flush(self):
        text = self.printed.getvalue()
        self.printed.seek(0)
        self.printed.truncate()
        if text:
            self.outputs.append({"output_type": "stream", "name": "stdout", "text": text})


def imports_of(cells):
    """Return the import statements at the top of locked cells, without those of the checks, as one text each."""
    return list(dict.fromkeys(line for cell in cells for line in _imports(cell.source)))


@functools.lru_cache(1000)
def _imports(source):
    found = []
    with contextlib.suppress(SyntaxError):
        for node in ast.parse(_as_python(source)).body:
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module]
                if not any((name or "").partition(".")[0] in (*OURS, "checking") for name in names):
                    found.append(ast.unparse(node))
    return found


def _as_python(source):
    from IPython.core.inputtransformer2 import TransformerManager

    return TransformerManager().transform_cell(source)


@functools.lru_cache(1000)
def _parsed(source, name):
    """Return a cell's code: all of it but a last expression, and that expression."""
    tree = ast.parse(_as_python(source))
    last = None
    if tree.body and isinstance(tree.body[-1], ast.Expr) and not source.rstrip().endswith(";"):
        last = compile(ast.Expression(tree.body.pop().value), name, "eval")
    return compile(tree, name, "exec"), last


def _points(value, most):
    """Return what a check cell is worth that ran to its end: its own number, or all if it only asserts."""
    if value is None or value is True:
        return most
    try:
        points = float(value)
    except (TypeError, ValueError):
        return most
    if not math.isfinite(points):
        return 0.0
    return min(max(points, 0.0), most)


_KINDS = {}


def _exception(told):
    """Return an exception of the kind and with the text that the guest gives."""
    try:
        names = [str(name)[:100] for name in told["names"]][:20]
        text = wire.clean(str(told["text"]), 2000)
    except Exception:
        raise wire.Violation("an exception without a name") from None
    base = Exception
    for name in names:
        found = getattr(builtins, name, None)
        if isinstance(found, type) and issubclass(found, Exception):
            base = found
            break
    kind = base
    if not names or base.__name__ != names[0]:
        name = names[0] if names else "Exception"
        kind = _KINDS.setdefault((name, base), type(name, (base,), {"__str__": lambda self: str(self.args[0])}))
    try:
        error = kind(text)
    except TypeError:  # a kind that wants more than a text, as UnicodeDecodeError does
        error = type(kind.__name__, (ValueError if issubclass(kind, ValueError) else Exception,), {})(text)
    error.from_guest = True
    return error


def _told(error, name):
    """Return what a student reads of an exception in a check cell: the assertion, and the line that made it."""
    line = ""
    for frame in traceback.extract_tb(error.__traceback__):
        if frame.filename == name:
            line = f"line {frame.lineno} of the check"
    text = str(error)
    what = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return f"{what} ({line})" if line else what


def _sent(message, *kinds):
    """Yield what stands for arrays in a message, in the order in which they were encoded."""
    if isinstance(message, dict):
        if message.get("t") in kinds:
            yield message
            return
        message = message.values()
    elif not isinstance(message, list):
        return
    for own in message:
        yield from _sent(own, *kinds)


def _plain(state):
    if isinstance(state, dict):
        return {name: _plain(own) for name, own in state.items()}
    return state.tolist() if isinstance(state, np.ndarray) else state
