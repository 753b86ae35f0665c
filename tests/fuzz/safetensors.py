"""Safetensors files near a valid one: headers that lie about sizes, types and places, and damaged bytes."""

import json
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from tests.fuzz import hostile, json_texts

_WIDTHS = {"F32": 4, "F16": 2, "BF16": 2, "I64": 8}


def header_of(tensors: dict[str, tuple[str, tuple[int, ...]]]) -> dict[str, Any]:
    """Return the header of tensors, given their types and shapes by name, one after the other."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, (dtype, shape) in tensors.items():
        size = _WIDTHS[dtype]
        for extent in shape:
            size *= extent
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [end, end + size]}
        end += size
    return header


def encoded(header: Any, data_bytes: int, announced: int | None = None) -> bytes:
    """Return a file with this header and zeros as data; `announced` replaces the length of the header."""
    text = json.dumps(header).encode("utf-8", "surrogatepass")
    size = len(text) if announced is None else announced % 2**64
    return size.to_bytes(8, "little") + text + bytes(data_bytes)


def files(valid: dict[str, Any]) -> SearchStrategy[bytes]:
    """Return files near one with a valid header."""
    size = max(entry["data_offsets"][1] for name, entry in valid.items() if name != "__metadata__")
    data = st.one_of(st.just(size), st.integers(0, 2 * size))
    lying = st.builds(encoded, json_texts.documents(valid), data)
    announced = st.builds(encoded, st.just(valid), st.just(size), hostile.integers())
    raw = json_texts.texts(valid).map(lambda text: len(text).to_bytes(8, "little") + text + bytes(size))
    return st.one_of(lying, lying, announced, raw, hostile.mutated([encoded(valid, size)]))
