"""Documents from outside: read, or refused with a ValueError, whatever is wrong with them."""

import json

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tlt_common.documents import MAX_YAML_BYTES, json_of, yaml_of

SCALARS = st.none() | st.booleans() | st.integers() | st.text()
DOCUMENTS = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=10)

BOMB = "\n".join(["a0: &a0 [x, x, x]", *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12))])
MERGE_BOMB = "\n".join(
    ["a0: &a0 {x: 1}", *(f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 9)}]}}" for n in range(1, 9))]
)


@given(DOCUMENTS)
def test_a_document_is_read_as_it_was_written(document: object) -> None:
    assert json_of(json.dumps(document)) == document
    assert yaml_of(yaml.safe_dump(document).encode()) == document


@pytest.mark.parametrize(
    "text", ["[" * 100_000, '{"a":' * 100_000, "", "{", "9" * 10_000, b"\xff", "[Infinity]", "NaN", "-1e400"]
)
def test_what_is_no_json_is_a_value_error(text: str | bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        json_of(text)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[" * 1000, "nested too deeply"),
        (BOMB, "written out"),
        (MERGE_BOMB, "written out"),
        ("&a [*a]", "contains it"),
        ("listen: 'a:1'\nlisten: 'b:2'", "'listen' is repeated"),
        ("a: {b: 1, b: 2}", "'b' is repeated"),
        ("a: 2001-99-99", "month"),
        ("a: !!timestamp x", "does not fit its type"),
        ("a: !!bool x", "does not fit its type"),
        ("a: !!int ''", "does not fit its type"),
        ("!!python/object/apply:os.system ['true']", "could not determine a constructor"),
        ("a: 1\n---\nb: 2", "single document"),
        ("a: " + "9" * 10_000, "digits"),
        ("\x00", "unacceptable character"),
        ("x" * (MAX_YAML_BYTES + 1), "the maximum is"),
    ],
)
def test_yaml_that_cannot_be_used_is_a_value_error(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        yaml_of(text.encode())


def test_yaml_that_is_not_utf_8_is_a_value_error() -> None:
    with pytest.raises(ValueError, match=r"."):
        yaml_of(b"\x80")


def test_aliases_are_read_and_nothing_is_none() -> None:
    assert yaml_of(b"a: &a {x: 1}\nb: *a\nc: {<<: *a, y: 2}") == {"a": {"x": 1}, "b": {"x": 1}, "c": {"x": 1, "y": 2}}
    assert yaml_of(b"") is None
