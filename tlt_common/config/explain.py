"""`tlt config explain`: every key with type, default and description, read from the model."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo
from pydantic_core import to_json

from tlt_common.config.base import model_in

BOUNDS = {"ge": ">=", "gt": ">", "le": "<=", "lt": "<"}
"""Numeric bounds by pydantic's names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigKey:
    """A configuration key."""

    name: str
    """Nested keys are joined by dots."""
    kind: str
    bounds: str
    """Bounds of a number, such as ">= 0, < 1"; empty if it has none."""
    default: str | None
    """Default as JSON; None if the key is required."""
    meaning: str


def keys(model: type[BaseModel], prefix: str = "") -> Iterator[ConfigKey]:
    """Yield the keys of a model and of its nested models, in order."""
    for name, field in model.model_fields.items():
        annotation = field.annotation
        inner = model_in(annotation)
        if inner is None or inner is not annotation:
            default = None if field.is_required() else to_json(_default(field)).decode()
            meaning = " ".join((field.description or "").split())
            key = f"{prefix}{name}"
            yield ConfigKey(name=key, kind=_kind(annotation), bounds=_bounds(field), default=default, meaning=meaning)
        if inner is not None:
            yield from keys(inner, f"{prefix}{name}.")


def explain(model: type[BaseModel]) -> Iterator[str]:
    """Yield `key: type = default (bounds)` for each key, then its description, indented."""
    for key in keys(model):
        default = "required" if key.default is None else f"= {key.default}"
        yield f"{key.name}: {key.kind} {default}" + (f" ({key.bounds})" if key.bounds else "")
        if key.meaning:
            yield f"    {key.meaning}"


def _default(field: FieldInfo) -> Any:
    default = field.get_default(call_default_factory=True)
    return default.get_secret_value() if isinstance(default, SecretStr) else default  # what the code says is not secret


def _kind(annotation: Any) -> str:
    named = annotation.__name__ if type(annotation) is type else re.sub(r"\b(?:\w+\.)+(?=\w)", "", str(annotation))
    return named.replace("None", "null")


def _bounds(field: FieldInfo) -> str:
    limits = ((sign, getattr(bound, name, None)) for bound in field.metadata for name, sign in BOUNDS.items())
    return ", ".join(f"{sign} {limit}" for sign, limit in limits if limit is not None)
