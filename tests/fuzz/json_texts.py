"""JSON documents near a valid one: with other values, other types, or damaged text."""

import json
from collections.abc import Sequence
from typing import Any, TypeAlias

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from tests.fuzz import hostile

Path: TypeAlias = tuple[str | int, ...]

DEEP = "[" * 100_000
"""Nested deeper than Python's recursion limit."""
ODD = (b"", b"null", b"[]", b"{}", b"1e999", b"-0", DEEP.encode(), b'{"a":' * 50_000, b"9" * 5000, b'"\\ud800"', b"NaN")


def values() -> SearchStrategy[Any]:
    """Return JSON values of all types."""
    return st.one_of(
        st.none(),
        st.booleans(),
        hostile.integers(),
        hostile.doubles(),
        hostile.texts(),
        st.sampled_from(([], {}, [1], [[]], {"a": 1}, ["x"], [None], [-1, 2**70])),
    )


def documents(valid: Any) -> SearchStrategy[Any]:
    """Return documents that differ from a valid one in a few places: replaced, removed or added."""
    changes = st.lists(st.tuples(st.sampled_from(list(_paths(valid))), st.one_of(st.just(...), values())), max_size=3)
    return st.builds(_changed, st.just(valid), changes)


def texts(valid: Any) -> SearchStrategy[bytes]:
    """Return encoded documents near a valid one, and damaged ones."""
    near = documents(valid).map(lambda document: json.dumps(document).encode("utf-8", "surrogatepass"))
    return st.one_of(near, near, near, hostile.mutated([json.dumps(valid).encode()]), st.sampled_from(ODD))


def _paths(value: Any, path: Path = ()) -> list[Path]:
    found: list[Path] = [path] if path else []
    items: Sequence[tuple[str | int, Any]] = ()
    if isinstance(value, dict):
        items = [*value.items(), ("unknown", None)]
    elif isinstance(value, list):
        items = list(enumerate(value))
    for key, inner in items:
        found += _paths(inner, (*path, key))
    return found


def _changed(valid: Any, changes: Sequence[tuple[Path, Any]]) -> Any:
    document = json.loads(json.dumps(valid))
    for path, new in changes:
        holder = document
        try:
            for step in path[:-1]:
                holder = holder[step]
            if new is ...:
                del holder[path[-1]]
            else:
                holder[path[-1]] = new
        except (KeyError, IndexError, TypeError):  # an earlier change replaced its parent
            continue
    return document
