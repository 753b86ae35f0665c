"""
Parses JSON and YAML from external sources. Any defect of a document raises ValueError: the parsers themselves also
raise RecursionError and, for scalars, several others.
"""

import json
import math
from typing import Any

MAX_YAML_BYTES = 2**20
"""Configuration is far smaller, and the parser needs seconds per megabyte."""
MAX_YAML_NODES = 100_000
"""Values of a YAML document with its aliases written out. A few lines of aliases can stand for billions."""


def json_of(text: str | bytes) -> Any:
    """
    Parse JSON. Numbers must be finite: Python's parser also accepts Infinity, NaN and 1e400.

    Raises:
        ValueError: It is not JSON, not UTF-8, nested too deeply, or a number is not finite.
    """
    try:
        return json.loads(text, parse_constant=finite, parse_float=finite)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def finite(number: str) -> float:
    """
    Return a number of a JSON document.

    Raises:
        ValueError: The number is Infinity or NaN, or too large for a float.
    """
    if not math.isfinite(found := float(number)):
        raise ValueError(f"{number} is not finite")
    return found


def yaml_of(text: bytes) -> Any:
    """
    Parse a YAML document.

    Raises:
        ValueError: It is not YAML, has a duplicate key, or is too large, including expanded aliases.
    """
    import yaml  # late, since commands import this module for --help

    if len(text) > MAX_YAML_BYTES:
        raise ValueError(f"{len(text)} bytes; the maximum is {MAX_YAML_BYTES}")
    loader = None
    try:
        loader = yaml.SafeLoader(text)
        root = loader.get_single_node()
        if root is None:
            return None
        _check_node(root, {})
        return loader.construct_document(root)
    except yaml.YAMLError as error:
        raise ValueError(str(error).splitlines()[0]) from error
    except RecursionError:
        raise ValueError("nested too deeply") from None
    except (AttributeError, IndexError, KeyError, OverflowError, TypeError) as error:  # a scalar of a wrong format
        raise ValueError(f"a value does not fit its type: {error}") from error
    finally:
        if loader is not None:
            loader.dispose()


def _check_node(node: Any, counts: dict[Any, int | None]) -> int:
    """
    Return the number of values of a node with expanded aliases.

    Raises:
        ValueError: There are too many values, a node contains itself, or a mapping has a duplicate key.
    """
    if node in counts:
        known = counts[node]
        if known is None:
            raise ValueError("an alias refers to a value that contains it")
        return known
    counts[node] = None
    inner = [node.value] if isinstance(node.value, str) else node.value
    pairs = [pair for pair in inner if isinstance(pair, tuple)]
    keys = [key.value for key, _ in pairs if isinstance(key.value, str)]
    if twice := [key for place, key in enumerate(keys) if key in keys[:place]]:
        raise ValueError(f"key {twice[0]!r} is repeated")
    children = [child for pair in pairs for child in pair] or [child for child in inner if not isinstance(child, str)]
    count = counts[node] = 1 + sum(_check_node(child, counts) for child in children)
    if count > MAX_YAML_NODES:
        raise ValueError(f"more than {MAX_YAML_NODES} values with its aliases written out")
    return count
