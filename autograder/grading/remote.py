"""The student's notebook as the judge sees it: names, calls and attributes, requested over the
wire.

The replies are plain values. A reply that no honest guest would send ends the guest, and has its
own outcome.
"""

import builtins
import contextlib
import functools
import math
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from autograder.checking.modules import Step, text_of
from autograder.checking.words import Message
from autograder.grades.results import Kind
from autograder.grading import child
from autograder.grading.memory_limit import at_most_more
from autograder.grading.phase_timer import PhaseTimer
from autograder.grading.stand_ins import MOST_NUMBERS, StandIn
from autograder.sandbox.guest import FORGED, Ended, Guest
from autograder.sandbox.inside import torch_modules, wire
from autograder.sanitize import text

MOST_CALLBACKS = 10_000
MOST_MEMORY = 1 << 30
"""Memory in bytes that a function of the judge may use when a guest calls it."""
MOST_NUMBERS_OF_A_CHECK = 10_000
NUMBERS_PER_SENT_NUMBER = 4
"""A check's function takes so many numbers in one call, or so many times those that the check
sent along with it.
"""
MOST_NAME = 100
MOST_ERROR = 2_000
MOST_CLASSES = 20
MOST_KINDS = 1_000
MOST_COURSE_ANSWERS = 100
TOO_LONG = "it kept the judge computing for more than {seconds} seconds."
CRASHED = "it made the course's own answer crash."
TOO_MANY = "{name} was called with {count} numbers: here it takes {most} at most."
CALLED_TOO_LATE = (
    "This function of the check was called too late: it answers only in the check that it was "
    "given to."
)


class CourseCheckError(Exception):
    """Our own fault: the checks of the course cannot run."""


class Remote:
    """An object of the guest: a name, looked up when it is used, or something that a call
    returned.
    """

    def __init__(
        self,
        notebook: "RemoteNotebook",
        target: dict[str, Any],
        kind: str = "function",
        size: int | None = None,
    ):
        # `__setattr__` refuses all names, so that a check cannot set one by mistake.
        self.__dict__.update(_notebook=notebook, _target=target, _kind=kind, _size=size)

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """Have the guest call it."""
        return self._notebook.ask("call", self._target, arguments, keywords)

    def __getattr__(self, name: str) -> Any:
        # Python and NumPy ask any object for such names; a guest need not be asked each time.
        if name.startswith("__"):
            raise AttributeError(name)
        return self._notebook.ask("get", self._target, name=name)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(
            f"a check cannot set {name} of a student's object: call one of its methods"
        )

    def __len__(self) -> int:
        if self._size is None:
            raise TypeError(f"object of type {self._kind!r} has no len()")
        return int(self._size)

    def __bool__(self) -> bool:
        return True

    def __deepcopy__(self, memo: Any) -> "Remote":
        return self

    def __repr__(self) -> str:
        return f"<the student's {self._kind}>"

    def _backward(self, arguments: Sequence[Any], upstream: Any) -> Any:
        return self._notebook.ask("backward", self._target, arguments, upstream=upstream)

    def _method(self, name: str, arguments: Sequence[Any], keywords: dict[str, Any]) -> Any:
        return self._notebook.ask("call", {**self._target, "method": name}, arguments, keywords)

    def _computed(self) -> float:
        return float(self._notebook.computed())

    def _keep(self, value: Any) -> Any:
        return self._notebook.ask("keep", {}, (value,))

    def _run(self, name: str, source: str, arguments: Sequence[Any]) -> Any:
        return self._notebook.ask("run", self._target, arguments, name=name, source=source)

    def _several(self, steps: Sequence[Step]) -> list[Callable[[], Any]]:
        answers: list[Callable[[], Any]] = self._notebook.ask_several(steps)
        return answers


def plain_remote(
    notebook: "RemoteNotebook", target: dict[str, Any], value: dict[str, Any]
) -> Remote:
    """Return a `Remote`: callable, or a torch module, only if the guest says that its object is."""
    # A class of its own, because Python looks for `__call__` in the class of an object.
    values = text.line(str(value.get("values") or ""), MOST_NAME)
    kind: dict[str, Any] = {"_is_module": value.get("module") is True, "_kind_of_values": values}
    if not value.get("callable"):
        kind["__call__"] = None
    name = text.line(str(value.get("type")), MOST_NAME)
    size = value.get("size")
    kind_of_remote: type[Remote] = type(name, (Remote,), {**kind, "__module__": "guest"})
    return kind_of_remote(
        notebook, target, name, size if type(size) is int and 0 <= size < 2**62 else None
    )


class RemoteNotebook:
    """Asks one guest after another for the values of a notebook's names.

    Parameters
    ----------
    on_output : callable
        Called with each output that a guest sends while it answers.
    clock : PhaseTimer
        Counts the time of calls, in the guest and in transit.
    course_answers : CourseAnswers, optional
        Computes what stand-ins answer. Default: a new one.
    """

    def __init__(
        self,
        on_output: Callable[[Any], None],
        clock: PhaseTimer,
        course_answers: "CourseAnswers | None" = None,
    ):
        self.on_output, self.clock = on_output, clock
        self.course_answers = course_answers or CourseAnswers(math.inf)
        self.callbacks: dict[int, Callable[..., Any]] = {}  # those that a guest may call now
        self.callback_count = 0  # how many there have been
        self.sent_numbers = 0  # how many numbers were sent along with the present request
        # the names of stand-ins that were called in the present context
        self.called_stand_ins: set[str] = set()
        # whether a function of the judge's runs for the guest, which then waits
        self.is_serving_guest = False
        self.guest: Guest | None = None

    def begin_check(self) -> None:
        """Begin a check cell: what guests could call before, they cannot call any more, and time
        is counted anew.
        """
        self.callbacks.clear()
        self.course_answers.begin_check()

    def find(self, name: str, missing: Any = KeyError) -> Any:
        """Return the guest's value of a name, or a `Remote` that looks it up again at each use."""
        answer, blobs = self._request({"op": "find", "name": name})
        if not answer.get("found"):
            if missing is KeyError:
                raise KeyError(name)
            return missing
        value = answer.get("value")
        if isinstance(value, dict) and value.get("t") == "handle":
            return plain_remote(self, {"name_of": name}, value)
        return self._read_reply(lambda: self._decoder(blobs).decode(value))

    @contextlib.contextmanager
    def instead(self, answers: dict[str, Any]) -> Iterator[set[str]]:
        """Replace these names of the notebook by functions or classes of the judge, within this
        context.

        Yield the names of those that were called, so far.
        """
        first_new_callback = self.callback_count
        called_stand_ins: set[str] = set()
        self.called_stand_ins = called_stand_ins
        stand_ins = [StandIn(name, answer) for name, answer in answers.items()]
        self.ask("instead", {}, ({each.name: (each.kind, each) for each in stand_ins},))
        of_stand_ins = range(first_new_callback, self.callback_count)
        try:
            yield called_stand_ins
        finally:
            for number in of_stand_ins:
                self.callbacks.pop(number, None)
            # The guest may have ended meanwhile; there is nothing to restore then.
            with contextlib.suppress(Ended):
                self.ask("instead", {}, ({},))

    def ask(
        self,
        op: str,
        target: dict[str, Any],
        arguments: Any = (),
        keywords: dict[str, Any] | None = None,
        **more: Any,
    ) -> Any:
        """Have the guest do something, and return the reported result."""
        encoder = wire.Encoder(self._reference_to)
        message = _message(encoder, op, target, arguments, keywords, more)
        self.sent_numbers = _count(encoder.arrays)
        answer, blobs = self._request(message, encoder.blobs)
        return self._result(answer, blobs, encoder, message)

    def ask_several(self, steps: Sequence[Step]) -> list[Callable[[], Any]]:
        """Have the guest do several things in one message; return functions that each return or
        raise a result.
        """
        encoders, messages = [], []
        # One list for all encoders: an entry names its bytes by their place in the whole frame.
        blobs: list[bytes] = []
        for step in steps:
            encoder = wire.Encoder(self._reference_to)
            encoder.blobs = blobs
            target = {"part": step.target} if type(step.target) is int else step.target._target
            function_fields = step.function and {
                "name": step.function.__name__,
                "source": text_of(step.function),
            }
            messages.append(
                _message(encoder, step.op, target, step.inputs, None, function_fields or {})
            )
            encoders.append(encoder)
        self.sent_numbers = sum(_count(encoder.arrays) for encoder in encoders)
        answer, reply_blobs = self._request({"op": "several", "parts": messages}, blobs)
        replies = answer.get("replies")
        if (
            type(replies) is not list
            or len(replies) != len(steps)
            or not all(type(reply) is dict for reply in replies)
        ):
            raise self._live().fail(Message(FORGED, what="a reply to something else"), Kind.HOSTILE)
        return [
            functools.partial(self._result, reply, reply_blobs, encoder, message)
            for reply, encoder, message in zip(replies, encoders, messages, strict=True)
        ]

    def _result(
        self,
        answer: dict[str, Any],
        blobs: list[memoryview],
        encoder: wire.Encoder,
        message: dict[str, Any],
    ) -> Any:
        """Return the result in a reply to a request."""
        self._read_reply(lambda: self._write_back(answer.get("changed"), encoder, message, blobs))
        self._read_reply(lambda: self._reshape(answer.get("reshaped"), encoder))
        if "error" in answer:
            raise self._read_reply(lambda: _exception(answer["error"]))
        return self._read_reply(lambda: self._decoder(blobs).decode(answer.get("value")))

    def _read_reply(self, read: Callable[[], Any]) -> Any:
        """Return the result of `read()` on a reply; a reply that no honest guest sends ends the
        guest.

        Any error in reading a reply counts as the sender's, never as our fault.
        """
        try:
            return read()
        except Ended:
            raise
        except Exception as error:
            violation = (
                str(error)
                if isinstance(error, wire.Violation)
                else f"a reply that ends in {type(error).__name__}"
            )
            raise self._live().fail(Message(FORGED, what=violation), Kind.HOSTILE) from None

    def computed(self) -> float:
        """Return the seconds that guests have computed, as far as was seen: what takes long is
        looked at often.
        """
        return self.guest.budget.cpu if self.guest is not None else 0.0

    def _live(self) -> Guest:
        if self.guest is None:
            raise CourseCheckError("a check cell ran without a guest")
        return self.guest

    def _request(
        self, message: dict[str, Any], blobs: Any = ()
    ) -> tuple[dict[str, Any], list[memoryview]]:
        # The guest waits for the answer to its own call: it could not answer another request.
        if self.is_serving_guest:
            raise TypeError("an object of the notebook was used where only values are allowed")
        calls = 0

        def on_callback(call: Any, data: Any) -> bytes:
            nonlocal calls
            calls += 1
            if calls > MOST_CALLBACKS:
                raise wire.Violation("too many calls of the judge's functions")
            return self._called_back(call, data)

        with self.clock("calls of functions"):
            return self._live().request(
                message, blobs, on_output=self.on_output, on_callback=on_callback
            )

    def _decoder(self, blobs: Any) -> wire.Decoder:
        return wire.Decoder(blobs, self._reference_from, copy=True)

    def _reference_from(self, value: dict[str, Any], decoder: wire.Decoder) -> Remote:
        number = value.get("v")
        if value.get("t") != "handle" or type(number) is not int or number < 0:
            raise wire.Violation("a value of unknown form")
        return plain_remote(self, {"handle": number}, value)

    def _reference_to(self, value: Any, encoder: wire.Encoder) -> dict[str, Any]:
        if isinstance(value, Remote):
            target = value._target
            if "handle" in target:
                return {"t": "mine", "v": target["handle"]}
            return {"t": "name", "v": target["name_of"]}
        if isinstance(value, np.random.Generator):
            state = _plain(value.bit_generator.state)
            seeds = value.bit_generator.seed_seq  # from which `spawn` makes new generators
            if type(seeds) is np.random.SeedSequence:
                state["seeds"] = _plain(seeds.state)
            return {"t": "generator", "v": state}
        torch = sys.modules.get("torch")
        if torch is not None and isinstance(value, torch.nn.Module):
            return {"t": "module", "v": encoder.encode(torch_modules.recipe(value))}
        if callable(value):
            self.callbacks[self.callback_count] = value
            self.callback_count += 1
            return {"t": "callback", "v": self.callback_count - 1}
        raise CourseCheckError(f"a {type(value).__name__} cannot be sent to the guest")

    def _called_back(self, call: dict[str, Any], data: list[memoryview]) -> bytes:
        """Return the frame with the reply to a guest that calls a function of the judge."""
        number = call.get("callback")
        if type(number) is not int or not 0 <= number < self.callback_count:
            raise wire.Violation("a call of a function that was not sent")
        function = self.callbacks.get(number)
        if function is None:
            return _error(RuntimeError(CALLED_TOO_LATE))
        if not isinstance(function, StandIn):
            most_numbers = max(MOST_NUMBERS_OF_A_CHECK, NUMBERS_PER_SENT_NUMBER * self.sent_numbers)
            with at_most_more(MOST_MEMORY):
                return self.reply(function, call, data, most_numbers)
        self.called_stand_ins.add(function.name)
        try:
            return self.course_answers.reply(self, function, call, data)
        except child.Overrun:
            message = Message(TOO_LONG, seconds=f"{self.course_answers.seconds:g}")
            raise self._live().fail(message) from None
        except child.Died:
            raise self._live().fail(Message(CRASHED)) from None

    def reply(
        self,
        function: Callable[..., Any],
        call: dict[str, Any],
        data: list[memoryview],
        most_numbers: int = MOST_NUMBERS,
    ) -> bytes:
        """Return the frame with the result of a function for a guest's arguments, or with its
        error.

        More than `most_numbers` numbers are refused before anything is computed.
        """
        decoder = self._decoder(data)
        arguments, keywords = (
            decoder.decode(call.get("arguments")),
            decoder.decode(call.get("keywords")),
        )
        if type(arguments) is not tuple or type(keywords) is not dict:
            raise wire.Violation("a call without arguments")
        encoder = wire.Encoder(self._reference_to)
        self.is_serving_guest, first_new_callback = True, self.callback_count
        # An error is an answer here: the student's function gets it, as in a notebook.
        try:
            if (count := _count((arguments, keywords))) > most_numbers:
                raise ValueError(
                    TOO_MANY.format(name=_name_of(function), count=count, most=most_numbers)
                )
            with np.errstate(all="ignore"):
                value = encoder.encode(function(*arguments, **keywords))
            if self.callback_count > first_new_callback:
                raise TypeError("a function of the judge returned a function, which cannot be sent")
            return wire.pack({"op": "reply", "value": value}, encoder.blobs)
        except Ended:
            raise
        except Exception as error:
            return _error(error)
        finally:
            self.is_serving_guest = False
            for number in range(first_new_callback, self.callback_count):
                self.callbacks.pop(number, None)

    def _write_back(
        self, changed: Any, encoder: wire.Encoder, message: dict[str, Any], blobs: Any
    ) -> None:
        """Repeat on the judge's arrays the changes that the guest made in place."""
        if changed is None:
            return
        if not isinstance(changed, dict):
            raise wire.Violation("a change without an array")
        entries = list(_array_entries(message, "array", "tensor"))
        for index, blob_index in changed.items():
            number = _sent_index(index, encoder)
            if number is None or type(blob_index) is not int:
                raise wire.Violation("a change of an array that was not sent")
            # In the message, an entry is where its array was encoded: both are in the same order.
            array, entry = encoder.arrays[number], entries[number]
            if not 0 <= blob_index < len(blobs) or len(blobs[blob_index]) != len(
                encoder.blobs[entry["b"]]
            ):
                raise wire.Violation("a change of the wrong size")
            after = wire.Decoder([blobs[blob_index]], self._reference_from).decode(
                {**entry, "b": 0}
            )
            if isinstance(array, np.ndarray):
                # The guest's copy of a read-only array is also read-only. Only code that writes to
                # its memory directly can have changed it, and that does not count here.
                if array.flags.writeable:
                    np.copyto(array, after)
            else:
                import torch

                with torch.no_grad():
                    array.copy_(after)

    def _reshape(self, reshaped: Any, encoder: wire.Encoder) -> None:
        """Give the judge's arrays the shapes that the guest set in place."""
        if reshaped is None:
            return
        if not isinstance(reshaped, dict):
            raise wire.Violation("a new shape without an array")
        for index, shape in reshaped.items():
            number = _sent_index(index, encoder)
            if number is None:
                raise wire.Violation("a new shape for an array that was not sent")
            array = encoder.arrays[number]
            # 32 is the most dimensions that every release of NumPy takes.
            is_shape = (
                isinstance(shape, list)
                and len(shape) <= 32
                and all(type(n) is int and n >= 0 for n in shape)
            )
            if not is_shape or math.prod(shape) != math.prod(array.shape):
                raise wire.Violation("a new shape of the wrong size")
            # A tensor keeps its shape: a method such as `t_` changes the strides as well, and a
            # shape does not tell where its numbers are then.
            if isinstance(array, np.ndarray):
                try:
                    array.shape = tuple(shape)
                except AttributeError:
                    raise wire.Violation(
                        "a new shape that an array's memory does not allow"
                    ) from None


class CourseAnswers:
    """Computes what stand-ins answer: in a process of its own, where such a one can be forked.

    That process knows the answers there were when it was forked, and is kept for all submissions;
    it is replaced if it had to be ended, or if there is another answer.

    Parameters
    ----------
    seconds : float
        CPU seconds that all calls of one check cell may take there.
    """

    def __init__(self, seconds: float):
        self.seconds, self.seconds_left = seconds, seconds
        self.known: dict[int, StandIn] = {}
        self.process: child.Child | None = None

    def begin_check(self) -> None:
        """Begin a check cell: its calls have all the time again."""
        self.seconds_left = self.seconds

    def reply(
        self,
        notebook: RemoteNotebook,
        stand_in: StandIn,
        call: dict[str, Any],
        data: list[memoryview],
    ) -> bytes:
        """Return the frame with what a stand-in answers.

        Raises
        ------
        child.Overrun, child.Died
        """
        function = stand_in.function
        # By its id, which stays its own as long as `known` has the function.
        if self.process is None or not self.process.is_there() or id(function) not in self.known:
            if not child.can_fork():
                with at_most_more(MOST_MEMORY):
                    return notebook.reply(stand_in, call, data)
            self._fork(stand_in)
        assert self.process is not None
        frame, took = self.process.ask({**call, "callback": id(function)}, data, self.seconds_left)
        self.seconds_left -= took
        if self.seconds_left < 0:
            raise child.Overrun
        return frame

    def close(self) -> None:
        """End the process, if there is one."""
        if self.process is not None:
            self.process.close()

    def _fork(self, stand_in: StandIn) -> None:
        self.close()
        # They keep the answers alive: without a limit, a long run would keep all it ever had.
        if len(self.known) >= MOST_COURSE_ANSWERS:
            self.known.clear()
        self.known[id(stand_in.function)] = stand_in
        stand_ins = dict(self.known)
        notebook = RemoteNotebook(lambda output: None, PhaseTimer(), self)

        def reply(call: dict[str, Any], data: list[memoryview]) -> bytes:
            return notebook.reply(stand_ins[call["callback"]], call, data)

        self.process = child.Child(reply, MOST_MEMORY)


def _count(value: Any) -> int:
    """Return how many numbers there are in nested tuples, lists and dicts."""
    if isinstance(value, dict):
        return _count(list(value.values()))
    if isinstance(value, (list, tuple)):
        return sum(map(_count, value))
    if isinstance(value, np.ndarray):
        return value.size
    return int(value.numel()) if hasattr(type(value), "numel") else 1


def _sent_index(index: str, encoder: wire.Encoder) -> int | None:
    """Return the number of a sent array from a guest's text; None if there is no such array."""
    # Not any text that `int` takes: it also takes signs, and digits of other scripts.
    number = int(index) if re.fullmatch(r"[0-9]{1,6}", index) else len(encoder.arrays)
    return number if number < len(encoder.arrays) else None


def _name_of(function: Any) -> str:
    return f"`{function.name}`" if isinstance(function, StandIn) else "this function of the check"


def _error(error: Exception) -> bytes:
    """Return the frame with an error of a function that a guest called."""
    names = [kind.__name__ for kind in type(error).__mro__]
    return wire.pack({"op": "reply", "error": {"names": names, "text": str(error)[:MOST_ERROR]}})


def _message(
    encoder: wire.Encoder,
    op: str,
    target: dict[str, Any],
    arguments: Any,
    keywords: dict[str, Any] | None,
    more: dict[str, Any],
) -> dict[str, Any]:
    return {
        "op": op,
        **target,
        "arguments": encoder.encode(tuple(arguments)),
        "keywords": encoder.encode(dict(keywords or {})),
        **{name: encoder.encode(value) for name, value in more.items()},
    }


_KINDS: dict[tuple[str, type[Exception]], type[Exception]] = {}


def _exception(raw: Any) -> Exception:
    """Return an exception of the kind and with the text that the guest gives."""
    try:
        names = [text.line(str(name), MOST_NAME) for name in raw["names"]][:MOST_CLASSES]
        message = text.block(str(raw["text"]), MOST_ERROR)
    except Exception:
        raise wire.Violation("an exception without a name") from None
    # The nearest builtin class, so that `except ValueError` in a check works as in a notebook.
    base: type[Exception] = Exception
    for name in names:
        builtin = getattr(builtins, name, None)
        if isinstance(builtin, type) and issubclass(builtin, Exception):
            base = builtin
            break
    kind: type[Exception] = base
    if not names or base.__name__ != names[0]:
        name = names[0] if names else "Exception"
        if len(_KINDS) >= MOST_KINDS:  # a guest can raise any names
            _KINDS.clear()
        kind = _KINDS.setdefault(
            (name, base), type(name, (base,), {"__str__": lambda self: str(self.args[0])})
        )
    try:
        error = kind(message)
    except TypeError:  # a kind that needs more than a text, as UnicodeDecodeError does
        error = type(
            kind.__name__, (ValueError if issubclass(kind, ValueError) else Exception,), {}
        )(message)
    error.from_guest = True  # type: ignore[attr-defined]
    return error


def _array_entries(message: Any, *kinds: str) -> Iterator[dict[str, Any]]:
    """Yield the entries for arrays in a message, in the order in which they were encoded."""
    if isinstance(message, dict):
        if message.get("t") in kinds:
            yield message
            return
        message = message.values()
    elif not isinstance(message, list):
        return
    for part in message:
        yield from _array_entries(part, *kinds)


def _plain(state: Any) -> Any:
    """Return a generator's state as plain JSON."""
    if isinstance(state, dict):
        return {name: _plain(part) for name, part in state.items()}
    if isinstance(state, (list, tuple)):
        return [_plain(part) for part in state]
    return state.tolist() if isinstance(state, (np.ndarray, np.generic)) else state
