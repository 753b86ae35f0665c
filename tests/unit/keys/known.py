"""Names that errors may mention: keys of configuration models, options of commands, values of the chart."""

import ast
import inspect
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import typer
from pydantic import BaseModel
from typer.core import TyperGroup as Group

from chartvalues.filled import model_of
from tests.unit.keys.messages import ROOT, sources
from tlt_common.bandit.round_trace import FIELDS
from tlt_common.client import Client
from tlt_common.config.base import model_in
from tlt_common.config.entry import service_entry
from tlt_simulator.cli.app import app
from tlt_simulator.costs.model import CostModel
from tlt_simulator.scenario import RlTrainer

SERVICES = ("gateway", "worker", "cache", "trainer", "tuner", "coordinator")


def keys_of(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """Yield every key of a model, nested ones joined by dots."""
    for name, field in model.model_fields.items():
        yield f"{prefix}{field.alias or name}"
        if (inner := model_in(field.annotation)) is not None:
            yield from keys_of(inner, f"{prefix}{field.alias or name}.")


def keys_at(path: Path) -> set[str]:
    """Return the keys of the service a file belongs to; of all services for shared files."""
    package = path.relative_to(ROOT).parts[1]
    own = package.removeprefix("tlt_")
    found = {
        key
        for service in SERVICES
        if own in {service, package} or own not in SERVICES
        for key in keys_of(service_entry(service).model)
    }
    if path.parts[-2:] == ("bandit", "round_trace.py") or "replay" in path.parts:  # fields of a trace
        found |= {*FIELDS, "format"}
    if {"rpc", "client"} & {*path.parts}:
        found |= set(inspect.signature(Client).parameters)
    if package == "tlt_simulator":
        found |= {*keys_of(CostModel), *keys_of(RlTrainer), *simulated_options()}
        found |= {f"{service}.{key}" for service in SERVICES for key in keys_of(model_of(service))}
    if "placement" in path.parts:  # rejected where `tlt up` and the chart configure several services
        found |= {"worker", *(f"worker.{key}" for key in keys_of(model_of("worker")))}
    return found


@cache
def simulated_options() -> frozenset[str]:
    """Return the options of `tlt simulate` and its subcommands, some of which several of them share."""
    command = typer.main.get_command(app)
    assert isinstance(command, Group)
    return frozenset(
        option.removeprefix("--").replace("-", "_")
        for one in (command, *command.commands.values())
        for parameter in one.params
        for option in parameter.opts
    )


def options() -> set[str]:
    """Return options and arguments of every command, by name: `--max-running` as max_running."""
    found = set(simulated_options())
    for path in sources():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef) and any(map(_is_command, node.decorator_list)):
                found |= {argument.arg for argument in (*node.args.args, *node.args.kwonlyargs)}
            if isinstance(node, ast.Call) and ast.unparse(node.func) in {"typer.Option", "typer.Argument"}:
                names = [one.value for one in node.args if isinstance(one, ast.Constant) and isinstance(one.value, str)]
                found |= {name.removeprefix("--").replace("-", "_") for name in names if name.startswith("--")}
    return found


def _is_command(decorator: ast.expr) -> bool:
    return isinstance(decorator, ast.Call) and ast.unparse(decorator.func).endswith((".command", ".callback"))
