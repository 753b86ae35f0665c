"""YAML documents that parsers get wrong: bombs, anchors, tags, duplicate keys, odd scalars; and near valid ones."""

from typing import Any

import yaml
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from tests.fuzz import hostile, json_texts

BOMB = "\n".join(
    ["a0: &a0 [x, x, x, x, x, x, x, x, x]", *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12))]
)
"""A few lines that stand for 9 to the power of 12 elements."""

ODD = (
    BOMB,
    "&a [*a]",
    "&a {b: *a}",
    "? [1, 2]\n: 3",
    "1: 2",
    "null: 1",
    "listen: 'a:1'\nlisten: 'b:2'",
    "<<: [{listen: 'a:1'}]",
    "!!python/object/apply:os.system ['true']",
    "!!binary ====",
    "!!set {a, b}",
    "2001-12-14t21:59:43.10-05:00: 1",
    "a: 2001-99-99",
    "!!int x",
    "!!float x",
    "a: 0o8",
    "a: .nan",
    "a: !!timestamp x",
    "a: 190:20:30",
    "---\na: 1\n---\nb: 2",
    "\t",
    "%YAML 9.9\n---\na: 1",
    "\ufeffa: 1",
    "a: \x07",
    "[" * 1000,
    "{a: " * 1000,
    "- " * 1000,
    "a: " + "9" * 5000,
    "\x00",
)


def texts(valid: Any) -> SearchStrategy[bytes]:
    """Return documents near a valid one, and odd ones."""
    dumped = yaml.safe_dump(valid).encode()
    near = json_texts.documents(valid).map(lambda document: yaml.safe_dump(document, allow_unicode=True).encode())
    return st.one_of(
        near, near, hostile.mutated([dumped]), st.sampled_from(ODD).map(lambda text: text.encode()), appended(dumped)
    )


def appended(dumped: bytes) -> SearchStrategy[bytes]:
    """Return a document with an odd one after it."""
    return st.sampled_from(ODD).map(lambda text: dumped + b"\n" + text.encode())
