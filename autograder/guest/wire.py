"""What crosses between guest and judge: bounded frames of plain values. Nothing is pickled, nothing is trusted.

A frame is two lengths, a JSON text and raw bytes. Arrays cross as bytes with dtype, shape and strides, so that
views, read-only and non-contiguous arrays arrive as such; an object of the guest crosses as a handle, a function of
the judge as a callback. Both sides use this module; `Decoder` assumes that whoever sent the frame wants to do harm.
"""

import importlib
import inspect
import math
import struct
import sys
from decimal import Decimal
from fractions import Fraction
from json import dumps, loads

import numpy as np

HEAD = struct.Struct("!II")
MOST_JSON = 4_000_000
MOST_BYTES = 64_000_000
MOST_BITS = 4096
MOST_TEXT = 100_000
MOST_DEPTH = 40
KINDS = "biufc"
TORCH_DTYPES = (
    "float64 float32 float16 bfloat16 complex64 complex128 int64 int32 int16 int8 uint8 bool "
    "float8_e4m3fn float8_e5m2"
).split()


class Violation(Exception):
    """A frame that no honest side sends."""


class TooLarge(Exception):
    """A value that is more than may cross."""


def pack(message, blobs=()):
    """Return a frame: a message (plain JSON) and the bytes that it refers to."""
    text = dumps({**message, "blobs": [len(blob) for blob in blobs]}).encode("ascii")
    size = sum(len(blob) for blob in blobs)
    if len(text) > MOST_JSON or size > MOST_BYTES:
        raise TooLarge(f"{len(text) + size} bytes are more than may cross")
    return b"".join([HEAD.pack(len(text), size), text, *blobs])


def lengths(head):
    """Return the two lengths that a frame's first bytes announce; raise `Violation` if they are too large."""
    text, size = HEAD.unpack(head)
    if text > MOST_JSON or size > MOST_BYTES:
        raise Violation("a message larger than any may be")
    return text, size


def unpack(text, data):
    """Return the message and the list of its blobs (memoryviews)."""
    try:
        message = loads(text)
        sizes = message.pop("blobs")
        if not all(type(size) is int and size >= 0 for size in sizes) or sum(sizes) != len(data):
            raise Violation("a message whose bytes do not add up")
    except Violation:
        raise
    except Exception as error:  # whatever json makes of bytes that are none
        raise Violation(f"bytes that are no message ({type(error).__name__})") from None
    view, blobs, start = memoryview(data), [], 0
    for size in sizes:
        blobs.append(view[start : start + size])
        start += size
    return message, blobs


def clean(text, most=MOST_TEXT):
    """Return text that any file can hold: bounded, and without half characters."""
    text = text if len(text) <= most else text[:most] + " …"
    return text.encode("utf-8", "replace").decode("utf-8")


class Encoder:
    """Turns values into JSON and blobs.

    Parameters
    ----------
    handle : callable
        `handle(value, encoder)` returns the JSON for a value that crosses by reference.
    """

    def __init__(self, handle):
        self.handle, self.blobs, self.arrays = handle, [], []

    def encode(self, value, depth=0):
        """Return the JSON that stands for a value."""
        kind = type(value)
        if value is None or kind is bool or kind is str and len(value) <= MOST_TEXT:
            return value
        if kind is int:
            return value if value.bit_length() < MOST_BITS else self._reference(value)
        if kind is float:
            return value if math.isfinite(value) else {"t": "float", "v": repr(value)}
        if kind is complex:
            return {"t": "complex", "v": [repr(value.real), repr(value.imag)]}
        if depth >= MOST_DEPTH:
            return self._reference(value)
        if kind in (list, tuple) and len(value) <= 100_000:
            return {"t": kind.__name__, "v": [self.encode(item, depth + 1) for item in value]}
        if isinstance(value, dict) and type(value).__name__ in ("dict", "OrderedDict") and len(value) <= 10_000:
            pairs = [[self.encode(key, depth + 1), self.encode(own, depth + 1)] for key, own in dict.items(value)]
            return {"t": "dict", "v": pairs}
        for position, earlier in enumerate(self.arrays):
            if earlier is value:
                return {"t": "same", "v": position}
        if isinstance(value, tuple) and hasattr(kind, "_fields"):
            return {"t": "tuple", "v": [self.encode(item, depth + 1) for item in tuple.__iter__(value)]}
        if isinstance(value, np.ndarray):
            return self._array(value)
        if isinstance(value, np.generic) and value.dtype.kind in KINDS:
            return {"t": "scalar", "dtype": value.dtype.str, "b": self._blob(value.tobytes())}
        torch = sys.modules.get("torch")
        if torch is not None and isinstance(value, torch.Tensor):
            return self._tensor(torch, value)
        if torch is not None and isinstance(value, (torch.dtype, torch.device)):
            return {"t": kind.__name__, "v": str(value).removeprefix("torch.")}
        # A number by another name (an IntEnum, a Fraction) is that number, and a str subclass its text.
        if isinstance(value, int):
            return self.encode(int.__int__(value), depth + 1)
        if isinstance(value, str):
            return self.encode(str.__str__(value), depth + 1)
        if isinstance(value, (float, Fraction, Decimal)):
            return self.encode(float.__float__(value) if isinstance(value, float) else float(value), depth + 1)
        return self._reference(value)

    def _reference(self, value):
        return self.handle(value, self)

    def _blob(self, data):
        self.blobs.append(data)
        return len(self.blobs) - 1

    def _array(self, value):
        plain = value.view(np.ndarray) if type(value) is not np.ndarray else value
        if plain.dtype.kind not in KINDS or not plain.dtype.isnative:
            if plain.dtype.kind in KINDS:
                plain = plain.astype(plain.dtype.newbyteorder("="))
            else:
                return self._reference(value)
        if plain.nbytes > MOST_BYTES:
            raise TooLarge(f"an array of {plain.nbytes / 1e6:.0f} MB")
        self.arrays.append(value)
        low, high = _span(plain.shape, plain.strides, plain.itemsize)
        if high - low > 4 * plain.nbytes + 4096:  # a thin view on a large array is sent as its values
            plain = plain.copy()
            low, high = 0, plain.nbytes
        if plain.size and high > low:
            data = _memory(plain.__array_interface__["data"][0] + low, high - low)
        else:
            data, low = b"", 0
        return {
            "t": "array",
            "dtype": plain.dtype.str,
            "shape": list(plain.shape),
            "strides": list(plain.strides),
            "offset": -low,
            "writeable": bool(plain.flags.writeable),
            "b": self._blob(data),
        }

    def _tensor(self, torch, value):
        own = torch.Tensor.detach(value) if type(value) is torch.Tensor else _bare(torch, value)
        name = str(own.dtype).removeprefix("torch.")
        if own.layout != torch.strided or name not in TORCH_DTYPES:
            return self._reference(value)
        if own.numel() * own.element_size() > MOST_BYTES:
            raise TooLarge(f"a tensor of {own.numel() * own.element_size() / 1e6:.0f} MB")
        self.arrays.append(value)
        shape, strides, size = list(own.shape), list(own.stride()), own.element_size()
        device = str(own.device)
        if device != "cpu" or own.is_conj() or own.is_neg():
            own = own.resolve_conj().resolve_neg().cpu()
            strides = list(own.stride())
        low, high = _span(shape, [stride * size for stride in strides], size)
        if high - low > 4 * own.numel() * size + 4096:
            own = own.contiguous()
            strides, high = list(own.stride()), own.numel() * size
        return {
            "t": "tensor",
            "dtype": name,
            "shape": shape,
            "strides": strides,
            "device": device,
            "grad": bool(value.requires_grad),
            "parameter": isinstance(value, torch.nn.Parameter),
            "b": self._blob(_memory(own.data_ptr(), high) if own.numel() else b""),
        }


def _bare(torch, value):
    """Return a tensor subclass's data as a plain tensor, whatever the subclass says of itself."""
    with torch._C.DisableTorchFunctionSubclass():
        return torch.Tensor.detach(value).as_subclass(torch.Tensor)


def _memory(address, size):
    import ctypes

    return ctypes.string_at(address, size)


def _span(shape, strides, itemsize):
    """Return the first and the last byte (exclusive) that an array touches, relative to its first element."""
    if 0 in shape:
        return 0, 0
    low = sum(min(0, (n - 1) * stride) for n, stride in zip(shape, strides, strict=True))
    high = sum(max(0, (n - 1) * stride) for n, stride in zip(shape, strides, strict=True))
    return low, high + itemsize


class Decoder:
    """Turns JSON and blobs into values, and keeps the arrays it made, in the order of their coming.

    Parameters
    ----------
    blobs : list of memoryview
    reference : callable
        `reference(json, decoder)` returns what stands for a handle or a callback, or raises `Violation`.
    copy : bool
        Whether arrays are plain contiguous copies (for the judge), or as they were on the other side.
    """

    def __init__(self, blobs, reference, copy=False):
        self.blobs, self.reference, self.copy, self.arrays = blobs, reference, copy, []

    def decode(self, value, depth=0):
        """Return the value that JSON stands for; raise `Violation` for anything but what `Encoder` makes."""
        if value is None or isinstance(value, (bool, int, float)):
            return value
        if isinstance(value, str):
            return clean(value)
        if not isinstance(value, dict) or depth > MOST_DEPTH + 2:
            raise Violation("a value of no known form")
        try:
            return self._tagged(value.get("t"), value, depth)
        except Violation:
            raise
        except Exception as error:
            raise Violation(f"a value that is not what it says ({type(error).__name__})") from None

    def _tagged(self, kind, value, depth):
        own = value.get("v")
        if kind in ("list", "tuple"):
            items = [self.decode(item, depth + 1) for item in own]
            return items if kind == "list" else tuple(items)
        if kind == "dict":
            return {self.decode(key, depth + 1): self.decode(item, depth + 1) for key, item in own}
        if kind == "float":
            return {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}[own]
        if kind == "complex":
            return complex(float(own[0]), float(own[1]))
        if kind == "same":
            if not isinstance(own, int) or not 0 <= own < len(self.arrays):
                raise Violation("an array that was never sent")
            return self.arrays[own][0]
        if kind == "scalar":
            return np.frombuffer(self._bytes(value), self._dtype(value), count=1)[0]
        if kind == "array":
            return self._array(value)
        if kind == "tensor":
            return self._tensor(value)
        if kind in ("dtype", "device"):
            import torch

            if kind == "device":
                return torch.device(str(own))
            if own not in TORCH_DTYPES:
                raise Violation("a dtype of no known name")
            return getattr(torch, own)
        return self.reference(value, self)

    def _bytes(self, value):
        place = value["b"]
        if type(place) is not int or not 0 <= place < len(self.blobs):
            raise Violation("bytes that were never sent")
        return self.blobs[place]

    def _dtype(self, value):
        dtype = np.dtype(value["dtype"]) if isinstance(value["dtype"], str) and len(value["dtype"]) < 5 else None
        if dtype is None or dtype.kind not in KINDS:
            raise Violation("a dtype that is no number")
        return dtype

    def _sizes(self, value):
        shape, strides = value["shape"], value["strides"]
        if (
            len(shape) != len(strides)
            or len(shape) > 32
            or not all(type(n) is int for n in shape + strides)
            or min(shape, default=0) < 0
        ):
            raise Violation("an array of no possible shape")
        return shape, strides

    def _array(self, value):
        dtype, data = self._dtype(value), self._bytes(value)
        shape, strides = self._sizes(value)
        low, high = _span(shape, strides, dtype.itemsize)
        offset = value["offset"]
        if type(offset) is not int or offset + low < 0 or offset + high > len(data):
            raise Violation("an array that reaches beyond its bytes")
        if self.copy and math.prod(shape) * dtype.itemsize > MOST_BYTES:
            raise Violation("an array larger than any may be")
        buffer = bytearray(data) if value.get("writeable", True) else bytes(data)
        result = np.ndarray(shape, dtype, buffer=buffer or bytes(dtype.itemsize), offset=offset, strides=strides)
        if self.copy:
            result = np.array(result)
        self.arrays.append((result, buffer, data))
        return result

    def _tensor(self, value):
        import torch

        name, data = value["dtype"], self._bytes(value)
        if name not in TORCH_DTYPES:
            raise Violation("a dtype of no known name")
        dtype = getattr(torch, name)
        shape, strides = self._sizes(value)
        size = dtype.itemsize
        _, high = _span(shape, [stride * size for stride in strides], size)
        if min(strides, default=0) < 0 or high > len(data) or len(data) % size:
            raise Violation("a tensor that reaches beyond its bytes")
        if self.copy and math.prod(shape) * size > MOST_BYTES:
            raise Violation("a tensor larger than any may be")
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
        self.arrays.append((result, buffer, data))
        return result


def recipe(module):
    """Return how to build a torch module of torch's own again: its class, its arguments, its parameters by name."""
    import torch

    kind = type(module)
    if not kind.__module__.startswith("torch.nn.") or not isinstance(module, torch.nn.Module):
        raise TypeError(f"a {kind.__name__} cannot cross; torch's own modules can")
    arguments = {}
    for name in list(inspect.signature(kind.__init__).parameters)[1:]:
        own = getattr(module, name, None)
        if name == "bias":
            own = any(own.endswith("bias") for own, _ in module.named_parameters())
        if own is not None and type(own) in (bool, int, float, str, tuple, list):
            arguments[name] = own
    state = {name: own.detach() for name, own in module.state_dict().items()}
    return {
        "class": f"{kind.__module__}.{kind.__qualname__}",
        "arguments": arguments,
        "state": state,
        "training": module.training,
    }


def rebuild(own):
    """Return the torch module that a `recipe` describes."""
    path, _, name = own["class"].rpartition(".")
    if not path.startswith("torch.nn."):
        raise Violation("a module that is not torch's own")
    module = getattr(importlib.import_module(path), name)(**own["arguments"])
    some = next(iter(own["state"].values()), None)
    if some is not None:
        module = module.to(some.dtype)
    module.load_state_dict(own["state"])
    return module.train(own["training"])
