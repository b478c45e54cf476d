"""The wire between guest and judge, without a guest: what goes in comes out, and what would do
harm is refused.
"""

import copy
import json
import math
import struct
import time

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from autograder.sandbox.inside import wire
from autograder.sandbox.inside.wire import Decoder, Encoder, TooLarge, Violation

resource = pytest.importorskip("resource")  # what was used is asked of the system: not on Windows
# of CPU: far more than a frame takes, far less than the 253 s of a dict with 40,000 colliding keys
SECONDS = 10
MEMORY = 10 * wire.MOST_BYTES

settings.register_profile("wire", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("wire")


class Opaque:
    """Something that crosses as a handle."""


def handle(value, encoder):
    return {"t": "handle", "v": 3}


def reference(value, decoder):
    if value != {"t": "handle", "v": 3}:
        raise Violation("a value of unknown form")
    return Opaque


def frame_of(value):
    encoder = Encoder(handle)
    return wire.pack({"op": "done", "value": encoder.encode(value)}, encoder.blobs)


def opened(frame, copy=True):
    """Return the value in a frame, as whoever receives it does."""
    text, size = wire.lengths(frame[: wire.HEAD.size])
    if len(frame) != wire.HEAD.size + text + size:
        raise Violation("half a message")
    start = wire.HEAD.size + text
    message, blobs = wire.unpack(frame[wire.HEAD.size : start], frame[start:])
    return Decoder(blobs, reference, copy).decode(message.get("value"))


def crossed(value, copy=True):
    return opened(frame_of(value), copy)


def forged(value, *blobs):
    """Return what the judge makes of JSON that a guest made by hand."""
    text = json.dumps({"value": value, "blobs": [len(blob) for blob in blobs]}).encode()
    return opened(wire.HEAD.pack(len(text), sum(map(len, blobs))) + text + b"".join(blobs))


def same(a, b):
    """Tell whether two values are alike to the last bit: type, dtype, shape, NaN and the sign of
    0.
    """
    if isinstance(a, np.ndarray):
        return (
            type(a) is type(b)
            and a.dtype == b.dtype
            and a.shape == b.shape
            and a.tobytes() == b.tobytes()
        )
    if isinstance(a, (list, tuple)):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return type(b) is dict and same(list(a.items()), list(b.items()))
    if isinstance(a, complex):
        return type(a) is type(b) and same((a.real, a.imag), (b.real, b.imag))
    if isinstance(a, float):
        return type(a) is type(b) and (
            (a == b and math.copysign(1, a) == math.copysign(1, b)) or (a != a and b != b)
        )
    return type(a) is type(b) and a == b


DTYPES = st.one_of(
    st.just(np.dtype(bool)),
    hnp.integer_dtypes(endianness="="),
    hnp.unsigned_integer_dtypes(endianness="="),
    hnp.floating_dtypes(endianness="="),
    hnp.complex_number_dtypes(endianness="="),
)
ARRAYS = hnp.arrays(DTYPES, hnp.array_shapes(min_dims=0, min_side=0, max_side=5))
TEXT = st.text(st.characters(exclude_categories=["Cs"]))
NUMBERS = st.one_of(
    st.integers(), st.floats(), st.complex_numbers(), st.integers(-(2**4000), 2**4000)
)
KEYS = st.one_of(st.none(), st.booleans(), TEXT, st.integers(), st.tuples(st.integers(), TEXT))
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), TEXT, NUMBERS, ARRAYS),
    lambda inner: st.one_of(
        st.lists(inner, max_size=5),
        st.lists(inner, max_size=5).map(tuple),
        st.dictionaries(KEYS, inner, max_size=5),
    ),
    max_leaves=20,
)


@given(VALUES)
def test_any_value_is_decoded_as_it_was_encoded(value):
    assert same(value, crossed(value))
    assert same(value, crossed(value, copy=False))


@given(ARRAYS, st.data())
def test_views_keep_strides_and_read_only_on_the_way_to_a_guest(array, data):
    view = array[data.draw(hnp.basic_indices(array.shape, allow_ellipsis=True, allow_newaxis=True))]
    assume(isinstance(view, np.ndarray))
    view.flags.writeable = data.draw(st.booleans()) and view.flags.writeable
    taken = crossed(view, copy=False)
    assert (
        same(view, taken)
        and taken.strides == view.strides
        and taken.flags.writeable == view.flags.writeable
    )
    plain = crossed(view)
    assert same(view, plain) and plain.flags.writeable


@settings(max_examples=40)
@given(
    hnp.arrays(
        st.sampled_from(["f4", "f8", "i8", "b1", "c8"]), hnp.array_shapes(min_side=0, max_side=4)
    ),
    st.data(),
)
def test_tensors_cross(array, data):
    torch = pytest.importorskip("torch")
    tensor = torch.from_numpy(array.copy()).permute(*data.draw(st.permutations(range(array.ndim))))
    if tensor.is_floating_point() and data.draw(st.booleans()):
        tensor = tensor.to(
            data.draw(st.sampled_from([torch.float16, torch.bfloat16]))
        ).requires_grad_()
    for plain in (True, False):
        taken = crossed([tensor, tensor], plain)
        assert taken[0] is taken[1]
        assert (taken[0].dtype, taken[0].shape, taken[0].requires_grad) == (
            tensor.dtype,
            tensor.shape,
            tensor.requires_grad,
        )
        assert torch.equal(taken[0].nan_to_num(), tensor.nan_to_num())
        assert plain or taken[0].stride() == tensor.stride()
    assert crossed(torch.float16) is torch.float16 and crossed(torch.device("cpu")) == torch.device(
        "cpu"
    )


def test_one_array_given_twice_is_one_array():
    array = np.ones(3)
    first, (second, other) = crossed((array, [array, array.copy()]))
    assert first is second and first is not other


def test_what_is_no_plain_value_crosses_as_a_handle():
    deep = None
    for _ in range(wire.MOST_DEPTH + 5):
        deep = [deep]
    endless = []
    endless.append(endless)
    for value in (
        Opaque(),
        {1, 2},
        2**wire.MOST_BITS,
        "a" * (wire.MOST_TEXT + 1),
        np.array([object()]),
    ):
        assert crossed([value]) == [Opaque]
    for value in (deep, endless):
        taken = crossed(value)
        while isinstance(taken, list):
            (taken,) = taken
        assert taken is Opaque
    assert crossed([0] * (wire.MOST_ITEMS + 1)) is Opaque
    assert crossed(dict.fromkeys(range(wire.MOST_KEYS + 1))) is Opaque


@pytest.mark.parametrize(
    "value",
    [
        [[0] * 1000] * (wire.MOST_NODES // 1000),
        [Opaque()] * (wire.MOST_REFERENCES + 1),
        np.zeros(wire.MOST_BYTES // 8 + 1),
        [np.broadcast_to(np.zeros(1), wire.MOST_BYTES // 16) for _ in range(3)],
        ["a" * wire.MOST_TEXT] * 50,
    ],
    ids=["nodes", "handles", "array", "repeats", "text"],
)
def test_too_large_values_fail_where_they_are_encoded(value):
    with pytest.raises(TooLarge):
        frame_of(value)


@pytest.mark.parametrize(
    "value",
    [
        [[0] * 998] * (wire.MOST_NODES // 1000),
        [Opaque()] * wire.MOST_REFERENCES,
        np.zeros(wire.MOST_BYTES // 8),
        np.broadcast_to(np.zeros(1), wire.MOST_BYTES // 8),
        {float(n): -n for n in range(wire.MOST_KEYS)},
        dict.fromkeys(-n * 2**40 for n in range(wire.MOST_KEYS)),
        {(n, n): n for n in range(wire.MOST_KEYS)},
    ],
    ids=["nodes", "handles", "array", "repeats", "floats", "integers", "tuples"],
)
def test_what_may_just_cross_is_taken(value):
    crossed(value)


# Whoever holds the other end wants to do harm.


def refused_or_taken(read):
    """Return True if `read()` ended as `Violation`; any other exception goes through.

    Time and memory are bounded.
    """
    start, peak = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        read()
        return False
    except Violation:
        return True
    finally:
        assert time.process_time() - start < SECONDS
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak < MEMORY >> 10


@given(VALUES, st.data())
def test_mutated_bytes_are_refused_or_values(value, data):
    frame = bytearray(frame_of(value))
    for _ in range(data.draw(st.integers(1, 8))):
        index = data.draw(st.integers(0, len(frame) - 1))
        how = data.draw(st.sampled_from(["change", "insert", "remove"]))
        if how == "change":
            frame[index] = data.draw(st.integers(0, 255))
        elif how == "insert":
            frame[index:index] = data.draw(st.binary(max_size=4))
        elif len(frame) > wire.HEAD.size + 1:
            del frame[index]
    # The lengths are right again half of the time: else most frames would end at the head.
    if data.draw(st.booleans()):
        _, size = struct.unpack("!II", frame_of(value)[: wire.HEAD.size])
        frame[: wire.HEAD.size] = wire.HEAD.pack(max(len(frame) - wire.HEAD.size - size, 0), size)
    refused_or_taken(lambda: opened(bytes(frame)))


SCRAPS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 9),
    st.sampled_from([2**31, 2**63, -(2**63), 2**64, 10**30, 10**1300, math.nan, math.inf, 1e308]),
    st.sampled_from(["", "nan", "\ud800", "float64", "bfloat16", "cpu", "v"]),
    st.sampled_from(["<f8", ">f8", "|O", "|S8", "<M8", "f,f", "3f4"]),
    st.sampled_from([[], {}, [[]], {"t": "list"}, {"t": "handle", "v": 3}, {"t": "same", "v": 0}]),
    st.sampled_from([[0] * 70, [2**20] * 3]),
)
TAGS = st.sampled_from(
    "list tuple dict float complex same scalar array tensor dtype device handle mine callback "
    "module".split()
)


def places(tree, path=()):
    """Yield the path to each place in a JSON tree."""
    yield path
    inner = (
        tree.items()
        if isinstance(tree, dict)
        else enumerate(tree)
        if isinstance(tree, list)
        else ()
    )
    for key, item in inner:
        yield from places(item, (*path, key))


@given(VALUES, st.data())
def test_mutated_trees_are_refused_or_values(value, data):
    encoder = Encoder(handle)
    tree = {"root": json.loads(json.dumps(encoder.encode(value)))}
    for _ in range(data.draw(st.integers(1, 4))):
        path = data.draw(st.sampled_from([path for path in places(tree) if path]))
        at = tree
        for key in path[:-1]:
            at = at[key]
        at[path[-1]] = copy.deepcopy(data.draw(TAGS if path[-1] == "t" else SCRAPS))
    refused_or_taken(lambda: forged(tree["root"], *encoder.blobs))


@given(
    st.fixed_dictionaries(
        {
            "t": st.sampled_from(["array", "tensor", "scalar"]),
            "b": st.sampled_from([0, 0, 0, 1, -1, True, None]),
        },
        optional={
            "dtype": SCRAPS,
            "shape": st.lists(st.integers(-1, 9), max_size=3) | SCRAPS,
            "strides": st.lists(st.integers(-9, 9), max_size=3) | SCRAPS,
            "offset": st.integers(-8, 80) | SCRAPS,
            "device": SCRAPS,
            "grad": SCRAPS,
            "parameter": SCRAPS,
            "writeable": SCRAPS,
        },
    ),
    st.binary(max_size=80),
)
def test_arrays_made_by_hand_stay_within_their_bytes(value, blob):
    refused_or_taken(lambda: forged(value, blob))


@given(st.binary(max_size=200))
def test_any_bytes_are_refused(text):
    assert refused_or_taken(lambda: opened(wire.HEAD.pack(len(text), 0) + text)) or json.loads(text)


def array(shape, strides=None, **more):
    strides = strides or [0] * len(shape)
    return {
        "t": "array",
        "dtype": "<f8",
        "shape": shape,
        "strides": strides,
        "offset": 0,
        "b": 0,
        **more,
    }


def many(kind, items):
    return {"t": kind, "v": items}


def nested(depth):
    value = many("list", [])
    for _ in range(depth):
        value = many("list", [value])
    return value


PRIME = 2**61 - 1  # numbers that differ by a multiple of it share a hash
COLLIDING = [[n * PRIME, 0] for n in range(wire.MOST_ALIKE + 1)]
HARMFUL = {
    "colliding integers": (many("dict", [[n * PRIME, 0] for n in range(wire.MOST_KEYS)]), ()),
    "a few more than may collide": (many("dict", COLLIDING), ()),
    "colliding floats": (many("dict", [[float(n * 2**61), 0] for n in range(99)] + COLLIDING), ()),
    "colliding tuples": (
        many("dict", [[many("tuple", [1, n * PRIME]), 0] for n in range(2000)]),
        (),
    ),
    "too many keys": (many("dict", [[n, 0] for n in range(wire.MOST_KEYS + 1)]), ()),
    "too long a list": (many("list", [0] * (wire.MOST_ITEMS + 1)), ()),
    "too many nodes": (many("list", [many("list", [0] * 100_000) for _ in range(12)]), ()),
    "too many handles": (many("list", [{"t": "handle", "v": 3}] * (wire.MOST_REFERENCES + 1)), ()),
    "too deep": (nested(wire.MOST_DEPTH + 5), ()),
    "a text for a list": (many("list", "abc"), ()),
    "a number too long": (10**1300, ()),
    "a complex number too long": ({"t": "complex", "v": ["1" * 1_000_000, "0"]}, ()),
    "a device of 1 MB": ({"t": "device", "v": "c" * 1_000_000}, ()),
    "one array that repeats": (array([wire.MOST_BYTES]), (b"x" * 8,)),
    "many arrays that repeat": (
        many("list", [array([wire.MOST_BYTES // 16], b=n) for n in range(100)]),
        [b"x" * 8] * 100,
    ),
    "bytes that are used again": (many("list", [array([1])] * 10_000), (b"x" * 8_000_000,)),
    "too many axes": (array([1] * 40), (b"x" * 8,)),
    "foreign byte order": (array([1], dtype=">f8"), (b"x" * 8,)),
    "a torch tensor that repeats": (
        {
            "t": "tensor",
            "dtype": "float64",
            "shape": [10**8],
            "strides": [0],
            "b": 0,
            "device": "cpu",
        },
        (b"x" * 8,),
    ),
    "too many blobs": (0, [b""] * (wire.MOST_BLOBS + 1)),
}


@pytest.mark.parametrize("name", HARMFUL)
def test_what_would_cost_time_or_memory_is_refused(name):
    value, blobs = HARMFUL[name]
    assert refused_or_taken(lambda: forged(value, *blobs))


@pytest.mark.parametrize(
    "text", [b"[" * 1_000_000, b'{"value":' * 100_000, b"9" * 1_000_000, b"[0,]", b'{"value": 0}']
)
def test_json_that_is_none_is_refused(text):
    assert refused_or_taken(lambda: opened(wire.HEAD.pack(len(text), 0) + text))


def test_a_head_that_announces_too_much_is_refused():
    for text, size in ((wire.MOST_JSON + 1, 0), (0, wire.MOST_BYTES + 1)):
        with pytest.raises(Violation):
            wire.lengths(wire.HEAD.pack(text, size))


def test_cleaning_is_linear_and_leaves_control_characters():
    assert wire.clean("a\ud800b\x1b[0m") == "a?b\x1b[0m"
    assert wire.clean("abc", 2) == "ab …"
    start = time.process_time()
    wire.clean("\ud800" * 1_000_000, 10**9)
    assert time.process_time() - start < SECONDS
