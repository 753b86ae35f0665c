"""Each package declares the libraries it imports, and no others."""

import ast
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
SERVICES = ("gateway", "worker", "cache", "trainer", "tuner", "coordinator")

DISTRIBUTIONS = {
    "grpc": "grpcio",
    "grpc_health": "grpcio-health-checking",
    "grpc_reflection": "grpcio-reflection",
    "google": "protobuf",
    "prometheus_client": "prometheus-client",
    "pydantic_core": "pydantic",
    "yaml": "pyyaml",
    "zmq": "pyzmq",
    "sgl_kernel": "sglang",  # SGLang requires it on GPUs; the stand-in replaces it elsewhere
}
"""Import names that differ from the name of their distribution."""


def declared(requirements: list[str]) -> set[str]:
    return {Requirement(requirement).name for requirement in requirements}


def imported(package: Path) -> set[str]:
    """Distributions of all third-party modules that a package imports."""
    names = {name.partition(".")[0] for path in package.rglob("*.py") for name in modules(path)}
    foreign = {name for name in names - sys.stdlib_module_names if not name.startswith("tlt_")}
    return {DISTRIBUTIONS.get(name, name) for name in foreign}


def modules(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module


UNNAMED = {"httptools"}
"""Libraries that another one uses if they are installed: uvicorn's parser, without which HTTP is half as fast."""
CORE = declared(PROJECT["dependencies"])
EXTRAS = {name: declared(requirements) for name, requirements in PROJECT["optional-dependencies"].items()}
OPTIONAL = {"gateway": EXTRAS["tools"]}
"""What a service imports only if its configuration asks for it."""


@pytest.mark.parametrize("service", SERVICES)
def test_a_service_declares_what_it_imports(service: str) -> None:
    found = imported(ROOT / f"services/tlt_{service}")
    assert found - CORE - EXTRAS[service] - OPTIONAL.get(service, set()) == set()


@pytest.mark.parametrize("service", SERVICES)
def test_a_service_imports_what_it_declares(service: str) -> None:
    assert EXTRAS[service] - imported(ROOT / f"services/tlt_{service}") - UNNAMED == set()


def test_the_core_declares_what_common_and_local_import() -> None:
    wanted = imported(ROOT / "tlt_common") | imported(ROOT / "services/tlt_local")
    # TRL requires accelerate and numpy; workers and trainers have transformers and safetensors, for a family's defaults
    # and the head of a checkpoint; what starts a suite has redis.
    optional = {"opentelemetry", "trl", "accelerate", "numpy", "verl", "ray", "transformers", "safetensors", "redis"}
    # PEFT, whose adapters name their base, requires huggingface_hub.
    optional |= {"huggingface_hub"}
    assert wanted - CORE - optional == set()
    assert CORE - wanted == set()
