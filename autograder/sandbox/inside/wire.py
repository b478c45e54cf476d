"""The messages between guest and judge: bounded frames of plain values.

Nothing is pickled, nothing is trusted.

A frame is two lengths, a JSON text and raw bytes:

    4 bytes        4 bytes        n_text bytes                                     n_data bytes
    n_text         n_data         {"op": "call", ..., "blobs": [48, 8]}            48 bytes, then 8 bytes

In the text, a list with a number and an array of shape (2, 3) is

    {"t": "list", "v": [2, {"t": "array", "dtype": "<f8", "shape": [2, 3], "strides": [24, 8], ..., "b": 0}]}

where "b" is the blob with its bytes. Arrays cross as bytes with dtype, shape and strides, so that
views, read-only and non-contiguous arrays arrive as such. Objects and functions are referred to:

    {"t": "handle", "v": 3, ...}    to the judge: the guest's object of this number, and what it is
    {"t": "mine", "v": 3}           to the guest: its own object of this number
    {"t": "name", "v": "project"}   to the guest: its own object of this name
    {"t": "callback", "v": 0}       to the guest: the judge's function of this number

A generator ("generator") and a torch module ("module") of the judge are made again in the guest.

Both sides use this module; `Decoder` assumes that whoever sent the frame wants to do harm.
`Encoder` keeps to every bound that `Decoder` enforces, so that no honest value is taken for an
attack: it raises `TooLarge` instead.
"""  # noqa: E501

import ctypes
import functools
import math
import struct
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction
from json import dumps, loads
from typing import Any

import numpy as np

from autograder.checking.shared_with_guest import span

HEAD = struct.Struct("!II")
MOST_JSON = 4_000_000
MOST_BYTES = 64_000_000  # of all arrays in a frame together, as sent and as they are once copied
MOST_BLOBS = 100_000
MOST_BITS = 4096
MOST_TEXT = 100_000
MOST_DEPTH = 40
MOST_NODES = 1_000_000  # values in a frame, however nested
MOST_ITEMS = 100_000  # in a list or tuple
MOST_KEYS = 10_000  # in a dict
MOST_ALIKE = 64  # keys of a dict with one hash: what a dict does with n of them takes n * n steps
MOST_REFERENCES = 10_000  # objects that stay on the other side
MOST_AXES = 32
MOST_DIGITS = 40  # of a number written out
KINDS = "biufc"
TORCH_DTYPES = (
    "float64 float32 float16 bfloat16 complex64 complex128 int64 int32 int16 int8 uint8 bool "
    "float8_e4m3fn float8_e5m2"
).split()


Plain = Any
"""A value as JSON has it."""


class Violation(Exception):
    """A frame that no honest side sends."""


class TooLarge(Exception):
    """A value that is more than may cross."""


def pack(message: dict[str, Plain], blobs: Sequence[Any] = ()) -> bytes:
    """Return a frame: a message (plain JSON) and the bytes that it refers to."""
    text = dumps({**message, "blobs": [len(blob) for blob in blobs]}).encode("ascii")
    size = sum(len(blob) for blob in blobs)
    if len(text) > MOST_JSON or size > MOST_BYTES or len(blobs) > MOST_BLOBS:
        raise TooLarge(f"{len(text) + size} bytes in {len(blobs)} arrays are more than may be sent")
    return b"".join([HEAD.pack(len(text), size), text, *blobs])


def lengths(head: bytes | bytearray) -> tuple[int, int]:
    """Return the two lengths that a frame's first bytes announce; raise `Violation` if they are
    too large.
    """
    text: int
    size: int
    text, size = HEAD.unpack(head)
    if text > MOST_JSON or size > MOST_BYTES:
        raise Violation("a message that is too large")
    return text, size


def unpack(text: bytes, data: memoryview) -> tuple[dict[str, Plain], list[memoryview]]:
    """Return the message and the list of its blobs (memoryviews)."""
    try:
        message = loads(text)
        sizes = message.pop("blobs")
        if type(sizes) is not list or len(sizes) > MOST_BLOBS:
            raise Violation("a message in too many pieces")
        if not all(type(size) is int and size >= 0 for size in sizes) or sum(sizes) != len(data):
            raise Violation("a message whose lengths do not add up")
    except Violation:
        raise
    except Exception as error:  # whatever json makes of bytes that are none
        raise Violation(f"bytes that are not a message ({type(error).__name__})") from None
    view, blobs, start = memoryview(data), [], 0
    for size in sizes:
        blobs.append(view[start : start + size])
        start += size
    return message, blobs


def clean(text: str, most: int = MOST_TEXT) -> str:
    """Return text that any file can hold: bounded, and without half characters.

    Control characters stay: what they would do depends on where the text is shown.
    """
    text = text if len(text) <= most else text[:most] + " …"
    return text.encode("utf-8", "replace").decode("utf-8")


class Encoder:
    """Turns values into JSON and blobs.

    Parameters
    ----------
    handle : callable
        `handle(value, encoder)` returns the JSON for a value that crosses by reference.
    """

    def __init__(self, handle: Callable[[Any, "Encoder"], Plain]):
        self.handle = handle
        self.blobs: list[bytes] = []
        self.arrays: list[Any] = []
        self._indices: dict[int, int] = {}  # in `arrays`, by id
        self._nodes = self._bytes = self._references_made = 0

    def encode(self, value: Any, depth: int = 0) -> Plain:
        """Return the JSON that stands for a value; raise `TooLarge` if it is more than may
        cross.
        """
        self._nodes += 1
        if self._nodes > MOST_NODES:
            raise TooLarge(f"a value of more than {MOST_NODES} parts")
        kind = type(value)
        torch = sys.modules.get("torch")
        # 1. Arrays and tensors, the most frequent values. Methods of their subclasses are a
        #    student's code: those come in 6. One that was sent before comes in 5.
        if depth < MOST_DEPTH and id(value) not in self._indices:
            if kind is np.ndarray:
                return self._array(value)
            if torch is not None and (kind is torch.Tensor or kind is torch.nn.Parameter):
                return self._tensor(torch, value)
        # 2. What JSON has itself, and numbers: at any depth.
        if value is None or kind is bool or (kind is str and len(value) <= MOST_TEXT):
            return value
        if kind in (int, float, complex):
            return self._number(value)
        # 3. A value nested deeper than `MOST_DEPTH` crosses by reference.
        if depth >= MOST_DEPTH:
            return self._reference(value)
        # 4. Containers, part by part.
        if kind in (list, tuple) and len(value) <= MOST_ITEMS:
            return {"t": kind.__name__, "v": [self.encode(item, depth + 1) for item in value]}
        is_dict = isinstance(value, dict) and kind.__name__ in ("dict", "OrderedDict")
        if is_dict and len(value) <= MOST_KEYS:
            pairs = [
                [self.encode(key, depth + 1), self.encode(item, depth + 1)]
                for key, item in dict.items(value)
            ]
            return {"t": "dict", "v": pairs}
        # 5. An array that was sent before, so that one array given twice stays one array.
        if id(value) in self._indices:
            return {"t": "same", "v": self._indices[id(value)]}
        # 6. All others.
        return self._other(value, depth, torch)

    def _number(self, value: int | float | complex) -> Plain:
        if isinstance(value, int):
            return value if value.bit_length() < MOST_BITS else self._reference(value)
        if isinstance(value, float):
            return value if math.isfinite(value) else {"t": "float", "v": repr(value)}
        return {"t": "complex", "v": [repr(value.real), repr(value.imag)]}

    def _other(self, value: Any, depth: int, torch: Any) -> Plain:
        """Return the JSON for a value of NumPy's, of torch's, or of a class that a student wrote.

        A number of a subclass (an IntEnum, a Fraction) crosses as that number, and a str subclass
        as its text.
        """
        if isinstance(value, tuple) and hasattr(type(value), "_fields"):
            items = [self.encode(item, depth + 1) for item in tuple.__iter__(value)]
            return {"t": "tuple", "v": items}
        if isinstance(value, np.ndarray):
            return self._array(value)
        if isinstance(value, np.generic) and value.dtype.kind in KINDS:
            return {"t": "scalar", "dtype": value.dtype.str, "b": self._blob(value.tobytes())}
        if torch is not None and isinstance(value, torch.Tensor):
            return self._tensor(torch, value)
        if torch is not None and isinstance(value, (torch.dtype, torch.device)):
            return {"t": type(value).__name__, "v": str(value).removeprefix("torch.")}
        if isinstance(value, int):
            return self.encode(int.__int__(value), depth + 1)
        if isinstance(value, str) and type(value) is not str:  # a str is here if it is too long
            return self.encode(str.__str__(value), depth + 1)
        if isinstance(value, float):
            return self.encode(float.__float__(value), depth + 1)
        if isinstance(value, (Fraction, Decimal)):
            return self.encode(float(value), depth + 1)
        return self._reference(value)

    def _reference(self, value: Any) -> Plain:
        self._references_made += 1
        if self._references_made > MOST_REFERENCES:
            raise TooLarge(f"more than {MOST_REFERENCES} objects that are not plain values")
        return self.handle(value, self)

    def _remember(self, value: Any, size: int, name: str) -> None:
        self._bytes += size
        if self._bytes > MOST_BYTES:
            raise TooLarge(f"{name} of {self._bytes / 1e6:.0f} MB, all together")
        self._indices[id(value)] = len(self.arrays)
        self.arrays.append(value)

    def _blob(self, data: bytes) -> int:
        self.blobs.append(data)
        return len(self.blobs) - 1

    def _array(self, value: Any) -> Plain:
        plain = value.view(np.ndarray) if type(value) is not np.ndarray else value
        if plain.dtype.kind not in KINDS or plain.ndim > MOST_AXES:
            return self._reference(value)
        if not plain.dtype.isnative:
            plain = plain.astype(plain.dtype.newbyteorder("="))
        self._remember(value, plain.nbytes, "arrays")
        low = 0
        if plain.flags.c_contiguous:
            data = plain.tobytes()
        else:
            low, high = span(plain.shape, plain.strides, plain.itemsize)
            # of a small view of a large array, only its values are sent
            if high - low > 4 * plain.nbytes + 4096:
                plain = plain.copy()
                low, high = 0, plain.nbytes
            data = _memory(plain.__array_interface__["data"][0] + low, high - low)
        return {
            "t": "array",
            "dtype": plain.dtype.str,
            "shape": list(plain.shape),
            "strides": list(plain.strides),
            "offset": -low,
            "writeable": bool(plain.flags.writeable),
            "b": self._blob(data),
        }

    def _tensor(self, torch: Any, value: Any) -> Plain:
        plain = torch.Tensor.detach(value) if type(value) is torch.Tensor else _bare(torch, value)
        name = _name_of(plain.dtype)
        if plain.layout != torch.strided or name not in TORCH_DTYPES:
            return self._reference(value)
        if plain.ndim > MOST_AXES:
            return self._reference(value)
        self._remember(value, plain.numel() * plain.element_size(), "tensors")
        shape, strides = list(plain.shape), list(plain.stride())
        size = plain.element_size()
        device = str(plain.device)
        if device != "cpu" or plain.is_conj() or plain.is_neg():
            plain = plain.resolve_conj().resolve_neg().cpu()
            strides = list(plain.stride())
        _, high = span(shape, strides, 1)
        high *= size
        if high > 4 * plain.numel() * size + 4096:
            plain = plain.contiguous()
            strides = list(plain.stride())
            high = plain.numel() * size
        return {
            "t": "tensor",
            "dtype": name,
            "shape": shape,
            "strides": strides,
            "device": device,
            "grad": bool(value.requires_grad),
            "parameter": isinstance(value, torch.nn.Parameter),
            "b": self._blob(_memory(plain.data_ptr(), high) if plain.numel() else b""),
        }


def _bare(torch: Any, value: Any) -> Any:
    """Return a tensor subclass's data as a plain tensor, whatever the subclass says of itself."""
    with torch.DisableTorchFunctionSubclass():
        return torch.Tensor.detach(value).as_subclass(torch.Tensor)


@functools.lru_cache(100)
def _name_of(dtype: Any) -> str:
    return str(dtype).removeprefix("torch.")


def _memory(address: int, size: int) -> bytes:
    return ctypes.string_at(address, size)


class Decoder:
    """Turns JSON and blobs into values, and keeps the arrays that it made, in their order.

    Parameters
    ----------
    blobs : list of memoryview
    reference : callable
        `reference(json, decoder)` returns what stands for a handle, a callback or another
        reference, or raises `Violation`.
    copy : bool
        Whether arrays are plain contiguous copies (for the judge), or as they were on the other
        side.
    """

    def __init__(
        self,
        blobs: Sequence[memoryview],
        reference: Callable[[dict[str, Plain], "Decoder"], Any],
        copy: bool = False,
    ):
        self.blobs, self.reference, self.copy = blobs, reference, copy
        # each with the bytes that it uses, and the received ones: where those differ at the end,
        # the array was changed in place
        self.arrays: list[tuple[Any, Any, Any]] = []
        self._nodes = self._bytes_made = self._references_made = 0
        self._taken: set[int] = set()

    def decode(self, value: Plain, depth: int = 0) -> Any:
        """Return the value that JSON stands for; raise `Violation` for anything but what
        `Encoder` makes.
        """
        self._nodes += 1
        if self._nodes > MOST_NODES:
            raise Violation("a value with too many parts")
        if value is None or isinstance(value, (bool, float)):
            return value
        if isinstance(value, int):
            if value.bit_length() >= MOST_BITS:
                raise Violation("a number that is too large")
            return value
        if isinstance(value, str):
            return clean(value)
        if not isinstance(value, dict) or depth > MOST_DEPTH + 2:
            raise Violation("a value of unknown form")
        try:
            return self._tagged(value.get("t"), value, depth)
        except Violation:
            raise
        except Exception as error:
            raise Violation(f"a value that is not what it says ({type(error).__name__})") from None

    def _tagged(self, kind: Any, value: dict[str, Plain], depth: int) -> Any:
        """Return the value of a tagged object. `decode` turns any error into a `Violation`."""
        content: Plain = value.get("v")
        if kind in ("list", "tuple"):
            items = [self.decode(item, depth + 1) for item in _items(content, MOST_ITEMS)]
            return items if kind == "list" else tuple(items)
        if kind == "dict":
            return self._dict(content, depth)
        if kind == "float":
            return {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}[content]
        if kind == "complex":
            real, imaginary = content
            if len(real) > MOST_DIGITS or len(imaginary) > MOST_DIGITS:
                raise Violation("a number that is too long")
            return complex(float(real), float(imaginary))
        if kind == "same":  # an array or tensor that this message had before
            if type(content) is not int or not 0 <= content < len(self.arrays):
                raise Violation("an array that was not sent")
            return self.arrays[content][0]
        if kind == "scalar":
            return np.frombuffer(self._bytes(value), _dtype(value["dtype"]), count=1)[0]
        if kind == "array":
            return self._array(value)
        if kind == "tensor":
            return self._tensor(value)
        if kind == "device":
            import torch

            return torch.device(_short(content))
        if kind == "dtype":
            import torch

            if content not in TORCH_DTYPES:
                raise Violation("a dtype of unknown name")
            return getattr(torch, content)
        # A handle, a callback or another reference: `reference` refuses any other tag.
        self._references_made += 1
        if self._references_made > MOST_REFERENCES:
            raise Violation("a value with too many objects")
        return self.reference(value, self)

    def _dict(self, pairs: Plain, depth: int) -> dict[Any, Any]:
        keys: list[Any] = []
        items: list[Any] = []
        for key, item in _items(pairs, MOST_KEYS):
            keys.append(self.decode(key, depth + 1))
            items.append(self.decode(item, depth + 1))
        # Numbers are hashed without a secret, so anyone can write many with the same hash, and a
        # dict of n of them takes n * n steps.
        if len(keys) > MOST_ALIKE and max(Counter(map(hash, keys)).values()) > MOST_ALIKE:
            raise Violation("a dict whose keys are chosen to collide")
        return dict(zip(keys, items, strict=True))

    def _bytes(self, value: dict[str, Plain]) -> memoryview:
        number = value["b"]
        if type(number) is not int or not 0 <= number < len(self.blobs) or number in self._taken:
            raise Violation("bytes that were not sent")
        self._taken.add(number)
        return self.blobs[number]

    def _count(self, shape: Sequence[int], itemsize: int) -> None:
        self._bytes_made += math.prod(shape) * itemsize
        if self.copy and self._bytes_made > MOST_BYTES:
            raise Violation("arrays that are too large")

    def _sizes(self, value: dict[str, Plain]) -> tuple[list[int], list[int]]:
        shape, strides = value["shape"], value["strides"]
        if (
            len(shape) != len(strides)
            or len(shape) > MOST_AXES
            or not {*map(type, shape), *map(type, strides)} <= {int}
            or min(shape, default=0) < 0
        ):
            raise Violation("an array of impossible shape")
        return shape, strides

    def _array(self, value: dict[str, Plain]) -> Any:
        dtype = _dtype(value["dtype"])
        data = self._bytes(value)
        shape, strides = self._sizes(value)
        low, high = span(shape, strides, dtype.itemsize)
        offset = value["offset"]
        if type(offset) is not int or offset + low < 0 or offset + high > len(data):
            raise Violation("an array that reaches beyond its bytes")
        self._count(shape, dtype.itemsize)
        if self.copy:  # without a second copy of the bytes: a judge's copies are never sent back
            view: Any = np.ndarray(shape, dtype, data or bytes(dtype.itemsize), offset, strides)
            result = np.array(view)
            self.arrays.append((result, None, None))
            return result
        kind = bytearray if value.get("writeable", True) else bytes
        buffer = kind(data)
        memory = buffer or kind(dtype.itemsize)  # an array without elements has no bytes
        result = np.ndarray(shape, dtype, buffer=memory, offset=offset, strides=strides)
        self.arrays.append((result, buffer, data))
        return result

    def _tensor(self, value: dict[str, Plain]) -> Any:
        import torch

        name = value["dtype"]
        data = self._bytes(value)
        if name not in TORCH_DTYPES:
            raise Violation("a dtype of unknown name")
        dtype = getattr(torch, name)
        shape, strides = self._sizes(value)
        size = dtype.itemsize
        if (
            min(strides, default=0) < 0
            or size * span(shape, strides, 1)[1] > len(data)
            or len(data) % size
        ):
            raise Violation("a tensor that reaches beyond its bytes")
        self._count(shape, size)
        buffer = bytearray(data)
        flat = torch.frombuffer(buffer, dtype=dtype) if len(data) else torch.empty(0, dtype=dtype)
        result = torch.as_strided(flat, shape, strides)
        if self.copy:
            result = result.clone(memory_format=torch.contiguous_format)
        elif value["device"] != "cpu":
            result = result.to(value["device"])
        if value.get("parameter"):
            result = torch.nn.Parameter(result, requires_grad=bool(value.get("grad")))
        elif value.get("grad"):
            result.requires_grad_()
        self.arrays.append((result, None, None) if self.copy else (result, buffer, data))
        return result


def _dtype(name: Plain) -> np.dtype[Any]:
    """Return a dtype of numbers by its name."""
    if type(name) is not str or len(name) >= 5:
        raise Violation("a dtype that is not numeric")
    return _known_dtype(name)


@functools.lru_cache(100)
def _known_dtype(name: str) -> np.dtype[Any]:
    dtype = np.dtype(name)
    if dtype.kind not in KINDS or not dtype.isnative:
        raise Violation("a dtype that is not numeric")
    return dtype


def _items(value: Plain, most: int) -> list[Plain]:
    if type(value) is not list or len(value) > most:
        raise Violation("a list that is invalid or too long")
    return value


def _short(text: Plain) -> str:
    if type(text) is not str or len(text) > MOST_DIGITS:
        raise Violation("an invalid name")
    return text
