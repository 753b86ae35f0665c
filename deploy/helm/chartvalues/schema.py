"""Renders values.schema.json: the chart's values with the services' own schemas. Every object is closed."""

from typing import Any

from pydantic import BaseModel

from chartvalues.chart import Chart
from chartvalues.filled import filled, model_of

Schema = dict[str, Any]


def chart_schema() -> Schema:
    """Return the schema of all values."""
    schema = _bare(Chart.model_json_schema(by_alias=True))
    _require_blocks(Chart, schema, schema["$defs"])
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **_served(schema)}


def settings_schema(service: str) -> Schema:
    """Return the schema of the keys of a service that users may set through the chart."""
    schema = _inlined(model_of(service).model_json_schema())
    for key in filled(service):
        *path, last = key.split(".")
        block = schema
        for part in path:
            block = _object(block["properties"][part])
        block["properties"].pop(last, None)
        block["required"] = [name for name in block.get("required", []) if name != last]
    return schema


def _require_blocks(model: type[BaseModel], schema: Schema, definitions: Schema) -> None:
    """
    Require the blocks of a model that are always there, and theirs. values.yaml holds them all, so that one is missing
    only where a user sets it to null: Helm then removes it, and templates would fail on its keys.
    """
    blocks = {
        field.alias or name: block
        for name, field in model.model_fields.items()
        if isinstance(block := field.annotation, type) and issubclass(block, BaseModel)
    }
    if blocks:
        schema["required"] = sorted({*schema.get("required", ()), *blocks})
    for block in blocks.values():
        _require_blocks(block, definitions[block.__name__], definitions)


def _object(schema: Schema) -> Schema:
    """Return the object of a schema that may also be null."""
    block: Schema = next((choice for choice in schema.get("anyOf", []) if "properties" in choice), schema)
    return block


def _served(node: Any) -> Any:
    """Replace marks by the services' own schemas."""
    if isinstance(node, list):
        return [_served(item) for item in node]
    if not isinstance(node, dict):
        return node
    if "service" in node and isinstance(node["service"], str):
        return {**settings_schema(node["service"]), "description": node["description"]}
    return {key: _served(value) for key, value in node.items()}


def _bare(node: Any, *, names: bool = False) -> Any:
    """Drop titles, which repeat names, and defaults, which values.yaml holds."""
    if isinstance(node, list):
        return [_bare(item) for item in node]
    if not isinstance(node, dict):
        return node
    kept = {key: value for key, value in node.items() if names or key not in {"title", "default"}}
    return {key: _bare(value, names=not names and key in {"properties", "$defs"}) for key, value in kept.items()}


def _inlined(schema: Schema) -> Schema:
    """Inline references, since services have definitions of the same name."""
    definitions = schema.pop("$defs", {})

    def walk(node: Any) -> Any:
        if isinstance(node, list):
            return [walk(item) for item in node]
        if not isinstance(node, dict):
            return node
        target = definitions[node["$ref"].rpartition("/")[2]] if "$ref" in node else {}
        merged = {**target, **{key: value for key, value in node.items() if key != "$ref"}}
        return {key: walk(value) for key, value in merged.items()}

    inlined: Schema = _bare(walk(schema))
    return inlined
