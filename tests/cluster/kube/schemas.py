"""
kubeconform's schemas from a running API server: its own kinds and the installed CRDs alike.

kubeconform's default schemas come over the network; these are exactly what the server admits.
"""

import json
from pathlib import Path
from typing import Any

from tests.cluster.kube.binaries import binary
from tests.cluster.kube.client import Client
from tests.cluster.kube.commands import run

INT_OR_STRING = {"oneOf": [{"type": "string"}, {"type": "integer"}]}
QUANTITY = {"oneOf": [{"type": "string"}, {"type": "number"}]}
QUANTITY_NAME = "io.k8s.apimachinery.pkg.api.resource.Quantity"
Schemas = dict[str, Any]


def write(client: Client, folder: Path) -> int:
    """Write one file a kind into a folder; gives their number."""
    definitions: Schemas = json.loads(client.get("/openapi/v2"))["definitions"]
    closed = {name: _close(schema) for name, schema in definitions.items()}
    closed[QUANTITY_NAME] = QUANTITY
    uses = {name: _references(schema) for name, schema in closed.items()}
    folder.mkdir(parents=True, exist_ok=True)
    written = 0
    for name, schema in definitions.items():
        for kind in schema.get("x-kubernetes-group-version-kind", []):
            needed = {one: closed[one] for one in sorted(_reachable(name, uses))}
            text = json.dumps({"$ref": f"#/definitions/{name}", "definitions": needed})
            (folder / _file_name(kind)).write_text(text)
            written += 1
    return written


def check(manifests: str, folder: Path) -> None:
    """Check YAML manifests; CommandError names what an API server with these schemas would not take."""
    location = f"{folder}/{{{{.ResourceKind}}}}{{{{.KindSuffix}}}}.json"
    run(binary("kubeconform"), "-strict", "-schema-location", location, "-", stdin=manifests)


def _file_name(kind: dict[str, str]) -> str:
    parts = (kind["kind"].lower(), kind["group"].split(".")[0], kind["version"])
    return "-".join(part for part in parts if part) + ".json"


def _close(node: Any) -> Any:
    """The same schema, refusing unknown fields as kubeconform's own strict ones do."""
    if isinstance(node, list):
        return [_close(item) for item in node]
    if not isinstance(node, dict):
        return node
    if node.get("x-kubernetes-int-or-string") or node.get("format") == "int-or-string":
        return INT_OR_STRING
    plain = {key: value for key, value in node.items() if not key.startswith("x-kubernetes") and key != "format"}
    closed = {key: _close(value) for key, value in plain.items()}
    if isinstance(node.get("properties"), dict) and not node.get("x-kubernetes-preserve-unknown-fields"):
        closed.setdefault("additionalProperties", False)
    return closed


def _references(node: Any) -> set[str]:
    if isinstance(node, list):
        return set[str]().union(*map(_references, node))
    if not isinstance(node, dict):
        return set()
    found = set[str]().union(*map(_references, node.values()))
    reference = node.get("$ref")
    return found | {reference.rpartition("/")[2]} if isinstance(reference, str) else found


def _reachable(name: str, uses: dict[str, set[str]]) -> set[str]:
    """What a schema refers to, itself included; recursion stays a reference."""
    needed, todo = set[str](), {name}
    while todo:
        needed |= todo
        todo = set[str]().union(*(uses[one] for one in todo)) - needed
    return needed
