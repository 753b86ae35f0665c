"""values.yaml with its comments, and the README's table."""

import textwrap
from collections.abc import Iterator
from typing import Any

import yaml
from pydantic import BaseModel
from pydantic.alias_generators import to_camel

WIDTH = 118
BEGIN = "<!-- values -->"
END = "<!-- end of values -->"


def values_yaml(chart: BaseModel) -> str:
    """Every value with its meaning and default."""
    head = ["# Made by `make schema` from deploy/helm/chartvalues. Every key is described in the line above it.", ""]
    return "\n".join([*head, *_block(chart, "")]) + "\n"


def readme(chart: BaseModel, text: str) -> str:
    """Put the table of values between the two marks of the README."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    rows = ["| value | default | meaning |", "| --- | --- | --- |", *_rows(chart, "")]
    return "\n".join([before + BEGIN, "", *rows, "", END]) + after


def _block(model: BaseModel, indent: str) -> Iterator[str]:
    for name, field in type(model).model_fields.items():
        value = getattr(model, name)
        meaning = " ".join((field.description or "").split())
        yield from textwrap.wrap(f"# -- {meaning}", WIDTH, initial_indent=indent, subsequent_indent=f"{indent}# ")
        if isinstance(value, BaseModel):
            yield f"{indent}{to_camel(name)}:"
            yield from _block(value, f"{indent}  ")
        else:
            yield f"{indent}{to_camel(name)}: {_flow(_plain(value))}"


def _rows(model: BaseModel, prefix: str) -> Iterator[str]:
    for name, field in type(model).model_fields.items():
        value = getattr(model, name)
        key = f"{prefix}{to_camel(name)}"
        if isinstance(value, BaseModel):
            yield from _rows(value, f"{key}.")
            continue
        meaning = " ".join((field.description or "").split()).replace("|", "\\|")
        yield f"| `{key}` | `{_flow(_plain(value))}` | {meaning} |"


def _plain(value: Any) -> Any:
    """As a user would write it: without what is a default anyway."""
    if isinstance(value, BaseModel):
        return value.model_dump(by_alias=True, exclude_defaults=True)
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value


def _flow(value: Any) -> str:
    text = yaml.safe_dump(value, default_flow_style=True, width=10_000, sort_keys=False)
    return text.removesuffix("\n").removesuffix("\n...")
