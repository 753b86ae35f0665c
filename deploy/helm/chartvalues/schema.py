"""values.schema.json: the chart's own values, with the services' settings in their places. Every object is closed."""

from typing import Any

from chartvalues.chart import Chart
from chartvalues.filled import filled, model_of

Schema = dict[str, Any]


def chart_schema() -> Schema:
    """Describe all values."""
    schema = _bare(Chart.model_json_schema(by_alias=True))
    # Helm hands it to every subchart, so that refusing it would keep this chart out of others.
    schema["properties"]["global"] = {"description": "Of a parent chart; not read."}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **_served(schema)}


def settings_schema(service: str) -> Schema:
    """Describe what users may tell that service through the chart."""
    schema = _inlined(model_of(service).model_json_schema())
    for key in filled(service):
        *path, last = key.split(".")
        block = schema
        for part in path:
            block = _object(block["properties"][part])
        block["properties"].pop(last, None)
        block["required"] = [name for name in block.get("required", []) if name != last]
    return schema


def _object(schema: Schema) -> Schema:
    """The object that may be there, or null."""
    block: Schema = next((choice for choice in schema.get("anyOf", []) if "properties" in choice), schema)
    return block


def _served(node: Any) -> Any:
    """Put services' own schemas in place of the marks."""
    if isinstance(node, list):
        return [_served(item) for item in node]
    if not isinstance(node, dict):
        return node
    if "service" in node and isinstance(node["service"], str):
        return {**settings_schema(node["service"]), "description": node["description"]}
    return {key: _served(value) for key, value in node.items()}


def _bare(node: Any, *, names: bool = False) -> Any:
    """Without titles, which repeat names, and defaults, which values.yaml holds."""
    if isinstance(node, list):
        return [_bare(item) for item in node]
    if not isinstance(node, dict):
        return node
    kept = {key: value for key, value in node.items() if names or key not in {"title", "default"}}
    return {key: _bare(value, names=not names and key in {"properties", "$defs"}) for key, value in kept.items()}


def _inlined(schema: Schema) -> Schema:
    """Without references: services have definitions of the same name."""
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
