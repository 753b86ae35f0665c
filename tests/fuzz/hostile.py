"""Values that programs get wrong, and neighbors of valid bytes."""

import math
from collections.abc import Sequence

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

INTEGERS = sorted(
    {
        sign * (2**power + off)
        for sign in (1, -1)
        for power in (0, 7, 8, 15, 16, 31, 32, 53, 62, 63, 64)
        for off in (-1, 0, 1)
    }
    | {10**9, 10**30}
)
DOUBLES = (0.0, -0.0, 1.0, -1.0, math.nan, math.inf, -math.inf, 5e-324, 1e-12, 1e308, -1e308, 2.0**31, 2.0**63)
TEXTS = (
    "", "x", " ", "0", "-1", "null", "none", "true", "nan", "\x00", "a\x00b", "\n", "\r\n", "é", "\u202e", "\U0010ffff",
    "%", "%00", "%s%n", "{}", "${HOME}", "..", "../../../etc/passwd", "/", "/dev/zero", "/proc/self/mem", "~",
    "file:///nonexistent", "file://elsewhere/x", "file://%00", "http://[", "http://127.0.0.1:9/x", "s3://", "memory://x",
    "unix:", ":0", "host:99999", "x" * 300, "x" * 65_536, "é" * 40_000,
)  # fmt: skip
"""Texts that parsers of names, paths, URIs and addresses get wrong."""


def integers() -> SearchStrategy[int]:
    """Return integers at and near the bounds of every width, small ones, and any others."""
    return st.one_of(st.sampled_from(INTEGERS), st.integers(-2, 300), st.integers())


def doubles() -> SearchStrategy[float]:
    """Return doubles, finite and not."""
    return st.one_of(st.sampled_from(DOUBLES), st.floats())


def texts() -> SearchStrategy[str]:
    """Return texts that can be encoded as UTF-8."""
    return st.one_of(st.sampled_from(TEXTS), st.text(max_size=20))


def blobs() -> SearchStrategy[bytes]:
    """Return bytes, few and many."""
    return st.one_of(st.binary(max_size=64), st.sampled_from((b"", bytes(65_536), b"\xff" * 4096)))


def mutated(originals: Sequence[bytes]) -> SearchStrategy[bytes]:
    """Return some of these bytes with a few changes: replaced, inserted, removed, repeated or cut; or any bytes."""
    if not originals:
        return st.binary(max_size=200)
    change = st.tuples(
        st.sampled_from(("replace", "insert", "remove", "repeat", "cut", "flip")),
        st.integers(0, 2**16 - 1),
        st.binary(min_size=1, max_size=8),
    )
    near = st.builds(_changed, st.sampled_from(originals), st.lists(change, max_size=4))
    return st.one_of(near, near, near, st.binary(max_size=200))


def _changed(original: bytes, changes: Sequence[tuple[str, int, bytes]]) -> bytes:
    data = bytearray(original)
    for kind, at, new in changes:
        place = at % (len(data) + 1)
        match kind:
            case "replace":
                data[place : place + len(new)] = new
            case "insert":
                data[place:place] = new
            case "remove":
                del data[place : place + len(new)]
            case "repeat":
                data[place:place] = data[max(0, place - 16 * len(new)) : place]
            case "flip" if place < len(data):
                data[place] ^= 1 << (new[0] % 8)
            case _:
                del data[place:]
    return bytes(data)
